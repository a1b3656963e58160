/* A sample's labels as text. */
#ifndef FF_FFINSPECT_LABEL_H
#define FF_FFINSPECT_LABEL_H

#include "format/disk/class_name.h"
#include "format/reader/reader.h"

/* Appends all values of a field for a sample: "3 cat", "cat, dog", "cat 0.75, dog 0.25", "0.5 -1
 * 2"; at most `value_limit` values, then "...". */
FF_MUST_USE ff_status ff_inspect_label(ff_buffer *out, ff_reader *reader, ff_dataset *dataset,
                                       uint64_t number, size_t field, size_t value_limit,
                                       ff_error *error);

/* The same as a picture's caption: for a class only its name, for probabilities only the largest.
 * `how`: FF_NAME_ values. */
FF_MUST_USE ff_status ff_inspect_caption(ff_buffer *out, ff_reader *reader, ff_dataset *dataset,
                                         uint64_t number, size_t field, unsigned how,
                                         ff_error *error);

#endif
