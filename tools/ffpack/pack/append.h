/* `ffpack append`: the items of a source become a new generation of a packed set (FORMAT.md,
 * "Generations"): new shards after the old ones, which stay unchanged, and a new index. */
#ifndef FF_FFPACK_APPEND_H
#define FF_FFPACK_APPEND_H

#include "tools/ffpack/pack/pack.h"

/* The set that is appended to: a split's folder, or the folder of all splits. */
typedef struct ff_append ff_append;

/* Opens the set and takes its lock. FF_USAGE if another append holds it. */
FF_MUST_USE ff_status ff_append_open(ff_append **append, const char *path, ff_error *error);

/* The metadata of its first split, from which the options are taken. */
const ff_metadata *ff_append_metadata(const ff_append *append);

/* Packs the source of the settings, which must produce samples like the set's: FF_USAGE naming the
 * first difference, or the class that the set does not have. After a failure the set is unchanged;
 * ff_append_kept reports whether whole shards are kept, with which the same command continues.
 * Splits are written one after the other; their indexes come at the end. `report` as in
 * ff_pack_run. */
FF_MUST_USE ff_status ff_append_run(ff_append *append, const ff_settings *settings,
                                    const ff_notices *options, ff_report *report, ff_error *error);
bool ff_append_kept(const ff_append *append);

/* Whether the new items are in the set, whatever failed afterwards. */
bool ff_append_committed(const ff_append *append);

/* NULL is accepted. */
void ff_append_close(ff_append **append);

#endif
