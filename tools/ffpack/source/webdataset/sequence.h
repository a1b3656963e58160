/* The numbers in the names of a WebDataset's tars. */
#ifndef FF_FFPACK_WEB_SEQUENCE_H
#define FF_FFPACK_WEB_SEQUENCE_H

#include "tools/ffpack/source/names.h"

/* Notes each sequence of numbered tars with its first number, its last and their count, and the
 * number missing between them. FF_BAD_DATA if names hold the count (`-of-M`) and some tars are
 * missing. `source` is for the message. */
FF_MUST_USE ff_status ff_web_sequences_check(const ff_names *paths, const char *source,
                                             ff_names *notes, ff_error *error);

#endif
