/* Brace patterns of file names, as bash expands them: "train-{000..146}.tar", "{train,val}.tar".
 *
 * A list {a,b,...} may be nested; a range {FIRST..LAST} or {FIRST..LAST..STEP} is of whole numbers,
 * upwards or downwards, padded to the longer one's width where one of them begins with a zero, or
 * of single letters. What is neither stands for itself. Several braces vary the last one fastest.
 * Beyond bash: nothing is quoted or escaped. */
#ifndef FF_FFPACK_BRACES_H
#define FF_FFPACK_BRACES_H

#include "tools/ffpack/source/source.h"

#define FF_BRACES_NAMES_LIMIT ((size_t)1 << 20)

/* Adds all names that `pattern` stands for to *names, in bash's order; itself where it has no
 * braces. FF_USAGE above FF_BRACES_NAMES_LIMIT names or FF_KEY_LIMIT_BYTES bytes of one. */
FF_MUST_USE ff_status ff_braces_expand(ff_names *names, const char *pattern, ff_error *error);

#endif
