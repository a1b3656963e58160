/* The tars of a WebDataset's SOURCE, in order, each with its split.
 *
 * SOURCE is a tar, a brace pattern of tars in its own order (braces.h), a folder of tars, sorted by
 * name, or a folder of folders that are named as splits (names.h), each with tars.
 *
 * In a folder of tars or a pattern, the words of splits among the runs of letters in a tar's name
 * decide its split: imagenet1k-train-0000.tar. If all names have the same split, or none has a
 * split, there is one split; a mixture is refused (FF_USAGE), and so are tars next to folders of
 * tars, folders of tars that are not splits, and splits without tars. Hidden and other files are
 * left out. */
#ifndef FF_FFPACK_WEB_TARS_H
#define FF_FFPACK_WEB_TARS_H

#include "tools/ffpack/source/source.h"

typedef struct ff_web_tars {
    ff_names path;
    ff_names split; /* [path.count] */
} ff_web_tars;

/* The tars of `path`. `source`: its pattern and --splits are used; files left out, and numbers
 * missing in a sequence, are added to it; NULL = only lists the tars, and refuses none. On failure
 * *tars is freed. */
FF_MUST_USE ff_status ff_web_tars_find(ff_web_tars *tars, const char *path, ff_source *source,
                                       ff_error *error);
/* *found = whether one of the first objects of a folder, or in a folder in it, is a tar by its
 * name. */
FF_MUST_USE ff_status ff_web_tars_look(ff_storage *storage, bool *found, ff_error *error);
void ff_web_tars_free(ff_web_tars *tars);

/* The splits, train first. Ends with NULL. */
extern const char *const ff_web_splits[];

#endif
