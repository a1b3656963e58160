/* Brace patterns of file names, as bash expands them: "train-{000..146}.tar", "{train,val}.tar".
 *
 * A list {a,b,...} may be nested; a range {FIRST..LAST} or {FIRST..LAST..STEP} is of whole numbers,
 * ascending or descending, padded to the longer one's width if one begins with a zero, or of single
 * letters. Other braces are literal. With several groups the last one varies fastest. Beyond bash:
 * nothing is quoted or escaped. */
#ifndef FF_FFPACK_BRACES_H
#define FF_FFPACK_BRACES_H

#include "tools/ffpack/source/source.h"

#define FF_BRACES_NAMES_LIMIT ((size_t)1 << 20)

/* Adds all names that `pattern` expands to to *names, in bash's order; the pattern itself if it has
 * no braces. FF_USAGE above FF_BRACES_NAMES_LIMIT names or FF_KEY_LIMIT_BYTES bytes of one. */
FF_MUST_USE ff_status ff_braces_expand(ff_names *names, const char *pattern, ff_error *error);

#endif
