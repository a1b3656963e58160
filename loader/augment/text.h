/* Numbers in the texts of augmentations: read, and written with the fewest digits. Thread rule:
 * pure. */
#ifndef FF_LOADER_AUGMENT_TEXT_H
#define FF_LOADER_AUGMENT_TEXT_H

#include "format/base/compiler.h"
#include "format/base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The longest canonical text. */
#define FF_AUGMENT_TEXT_BYTES 2048
typedef char ff_text[FF_AUGMENT_TEXT_BYTES];

/* Parses the whole text as a decimal number up to `most`. */
bool ff_text_count(const char *text, uint32_t most, uint32_t *count);
/* Parses a decimal fraction from `least` to `most` at *text and advances *text. */
bool ff_text_number(const char **text, double least, double most, double *number);
/* Parses the whole text as "A-B" with least <= A <= B <= most. */
bool ff_text_range(const char *text, double least, double most, double range[2]);

void ff_text_add(ff_text text, const char *format, ...) FF_PRINTF(2, 3);
/* Adds `mark` and the fewest digits that parse back to the number. */
void ff_text_add_number(ff_text text, char mark, double value);
/* Adds ":A-B". */
void ff_text_add_range(ff_text text, const double range[2]);

#endif
