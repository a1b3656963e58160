/* The tars of a WebDataset: those of a SOURCE, in order, each with its split.
 *
 * SOURCE is a tar, a brace pattern of tars in its own order (braces.h), a folder of tars, sorted by
 * name, or a folder with only the folders train, val, valid or test, each of tars. Where the name
 * of every tar begins with one of the words train, val, valid, validation and test, these are the
 * splits; else, or if all begin with the same word, there is one split. */
#ifndef FF_FFPACK_WEB_TARS_H
#define FF_FFPACK_WEB_TARS_H

#include "tools/ffpack/source/names.h"

typedef struct ff_web_tars {
    ff_names path;
    ff_names split; /* [path.count] */
} ff_web_tars;

/* The tars of a file (`pattern` false), folder or pattern. On failure *tars is freed. */
FF_MUST_USE ff_status ff_web_tars_find(ff_web_tars *tars, const char *source, bool pattern,
                                       ff_error *error);
void ff_web_tars_free(ff_web_tars *tars);

/* The splits, train first. Ends with NULL. */
extern const char *const ff_web_splits[];

#endif
