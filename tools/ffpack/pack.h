/* A packing run: source -> listing -> statistics -> samples -> blocks -> shards -> OUT. */
#ifndef FF_FFPACK_PACK_H
#define FF_FFPACK_PACK_H

#include "tools/ffpack/report.h"
#include "tools/ffpack/settings.h"

/* Packs by the settings, or with --dry-run finds out what would be done. After a failure OUT is
 * unchanged, and OUT.partial exists if whole shards are kept in it. `report` is zero-initialised;
 * the caller frees it also after a failure. */
FF_MUST_USE ff_status ff_pack_run(const ff_settings *settings, const ff_notices *options,
                                  ff_report *report, ff_error *error);

#endif
