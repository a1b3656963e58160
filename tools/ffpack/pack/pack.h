/* Room tools/ffpack/pack, floor 17: packs a whole dataset, or appends to a set.
 *
 * pack.c runs from the source to the committed set; finishing.c commits the end of a split while
 * the next one is packed. append.c adds to a set that exists.
 * statistics.c computes mean and standard deviation first if they are needed. check.c decodes and
 * writes nothing; tried.c prints a dry run; unchanged.c is --if-changed.
 *
 * May include format, tools/ffpack/bucket, tools/ffpack/parts, tools/ffpack/run,
 * tools/ffpack/settings, tools/ffpack/split.
 *
 * A packing run: source -> listing -> statistics -> samples -> blocks -> shards -> OUT. */
#ifndef FF_FFPACK_PACK_H
#define FF_FFPACK_PACK_H

#include "tools/ffpack/settings/settings.h"
#include "tools/ffpack/split/report.h"

/* Packs by the settings, or with --dry-run finds out what would be done. After a failure OUT is
 * unchanged, and OUT.partial exists if whole shards are kept in it. `report` is zero-initialised;
 * the caller frees it also after a failure. */
FF_MUST_USE ff_status ff_pack_run(const ff_settings *settings, const ff_notices *options,
                                  ff_report *report, ff_error *error);

#endif
