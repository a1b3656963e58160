/* How samples were made before: as a packed set says itself, or as fftrain records the set that a
 * run was trained on; for --like and --stats-from. Thread rule: pure. */
#ifndef FF_FFPACK_LIKE_H
#define FF_FFPACK_LIKE_H

#include "format/recorded.h"
#include "tools/ffpack/settings/settings.h"

/* The metadata of `path`: a packed set (its train split where it has several), or the set that a
 * run, a checkpoint or a file of its weights was trained on. *kind = "a packed set" or "a run",
 * static. The caller frees the metadata, after a failure too. FF_USAGE where `path` is neither;
 * FF_IO, FF_BAD_DATA. */
FF_MUST_USE ff_status ff_like_read(ff_metadata *metadata, const char **kind, const char *path,
                                   ff_error *error);

/* The options that make such samples, without mean and std, which --stats-from takes. The order in
 * which samples are stored (--shuffle) belongs to one set alone and is left out. The caller frees
 * them, after a failure too. */
FF_MUST_USE ff_status ff_like_options(ff_recorded *options, const ff_metadata *metadata,
                                      ff_error *error);

/* "--dtype=u8 --resize=256", appended. */
FF_MUST_USE ff_status ff_like_text(const ff_recorded *options, ff_buffer *text, ff_error *error);

/* Notes what samples must have that no option makes, where those `given` leave it to --like:
 * ff_run_list compares it. */
void ff_like_expect(ff_settings *settings, const ff_arguments *given, const ff_metadata *like);

#endif
