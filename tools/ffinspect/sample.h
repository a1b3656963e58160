/* --sample: entries, labels and first values of chosen samples, for people. */
#ifndef FF_FFINSPECT_SAMPLE_H
#define FF_FFINSPECT_SAMPLE_H

#include "format/reader/reader.h"

/* Prints samples [begin, end) to standard output. */
FF_MUST_USE ff_status ff_inspect_print_samples(ff_dataset *dataset, uint64_t begin, uint64_t end,
                                               ff_error *error);

#endif
