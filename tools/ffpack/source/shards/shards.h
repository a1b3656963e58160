/* The shards of a SOURCE of many files of one kind (tars, TFRecords), in order, each with its
 * split.
 *
 * SOURCE is a shard, a brace pattern of shards in its own order (braces.h), a folder of shards,
 * sorted by name, or a folder of folders that are named as splits (names.h), each with shards.
 *
 * In a folder of shards or a pattern, the words of splits among the runs of letters in a shard's
 * name decide its split: imagenet1k-train-0000.tar. If all names have the same split, or none has a
 * split, there is one split; a mixture is refused (FF_USAGE), and so are shards next to folders of
 * shards, folders of shards that are not splits, and splits without shards. Hidden and other files
 * are left out. */
#ifndef FF_FFPACK_SOURCE_SHARDS_H
#define FF_FFPACK_SOURCE_SHARDS_H

#include "tools/ffpack/source/source.h"

typedef struct ff_shard_kind {
    const char *one, *many;            /* "tar", "tars": for messages */
    bool (*is_name)(const char *name); /* whether a file of a folder is a shard, by its name */
    bool lists; /* it lists files next to it: other files are not counted as left out */
} ff_shard_kind;

typedef struct ff_shards {
    const ff_shard_kind *kind;
    ff_names path;
    ff_names split; /* [path.count] */
} ff_shards;

/* The shards of `path`. `source`: its pattern and --splits are used; files left out, and numbers
 * missing in a sequence, are added to it; NULL = only lists the shards, and refuses none. On
 * failure *shards is freed. */
FF_MUST_USE ff_status ff_shards_find(ff_shards *shards, const char *path, const ff_shard_kind *kind,
                                     ff_source *source, ff_error *error);
/* *found = whether one of the first objects of a folder, or in a folder in it, is a shard by its
 * name. */
FF_MUST_USE ff_status ff_shards_look(ff_storage *storage, const ff_shard_kind *kind, bool *found,
                                     ff_error *error);
void ff_shards_free(ff_shards *shards);

/* Calls `list` with each shard: splits in their order, train first, each added to the source before
 * its first shard. */
typedef ff_status ff_shard_lister(void *context, ff_source_split *split, const char *path,
                                  ff_error *error);
FF_MUST_USE ff_status ff_shards_list(const ff_shards *shards, ff_source *source,
                                     ff_shard_lister *list, void *context, ff_error *error);

extern const ff_shard_kind ff_web_tars; /* of a WebDataset (webdataset.c) */

#endif
