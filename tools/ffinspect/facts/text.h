/* Numbers and names as text for people. */
#ifndef FF_FFINSPECT_TEXT_H
#define FF_FFINSPECT_TEXT_H

#include "format/base/memory.h"

/* The first 12 hex digits of an id. */
const char *ff_inspect_short_id(char text[16], const uint8_t id[16]);

/* The fewest digits that parse back to the same float. */
const char *ff_inspect_float(char text[32], float value);

/* "A:B", "A:", ":B" or "I" of `count` samples -> [*begin, *end). FF_USAGE. */
FF_MUST_USE ff_status ff_inspect_range(const char *text, uint64_t count, uint64_t *begin,
                                       uint64_t *end, ff_error *error);

/* "RxC" -> rows and columns from 1 to 1000. FF_USAGE. */
FF_MUST_USE ff_status ff_inspect_grid_size(const char *text, unsigned *rows, unsigned *columns,
                                           ff_error *error);

#endif
