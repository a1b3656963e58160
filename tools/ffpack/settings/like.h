/* How earlier samples were made: as a packed set records, or as fftrain records for the set on
 * which a run was trained; for --like and --stats-from. Thread rule: pure. */
#ifndef FF_FFPACK_LIKE_H
#define FF_FFPACK_LIKE_H

#include "format/writer/recorded.h"
#include "tools/ffpack/settings/settings.h"

/* The metadata of `path`: a packed set (its train split, if it has several), or the training set of
 * a run, a checkpoint or a file of its weights. *kind = "a packed set" or "a run", static. The
 * caller frees the metadata, after a failure too. FF_USAGE if `path` is neither; FF_IO,
 * FF_BAD_DATA. */
FF_MUST_USE ff_status ff_like_read(ff_metadata *metadata, const char **kind, const char *path,
                                   ff_error *error);

/* The options that make such samples, without mean and std, which --stats-from takes. The order in
 * which samples are stored (--shuffle) belongs to one set alone and is left out. The caller frees
 * them, after a failure too. */
FF_MUST_USE ff_status ff_like_options(ff_recorded *options, const ff_metadata *metadata,
                                      ff_error *error);

/* "--dtype=u8 --resize=256", appended. */
FF_MUST_USE ff_status ff_like_text(const ff_recorded *options, ff_buffer *text, ff_error *error);

/* Notes the properties that samples must have and no option sets, if the options `given` leave them
 * to --like: ff_run_list compares them. */
void ff_like_expect(ff_settings *settings, const ff_arguments *given, const ff_metadata *like);

#endif
