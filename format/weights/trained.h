/* The results of training that other programs read: the folder of a run with its checkpoints, and
 * what a weights file records about its training set. Training itself is in train/.
 *
 * Thread rule: pure. */
#ifndef FF_FORMAT_TRAINED_H
#define FF_FORMAT_TRAINED_H

#include "format/disk/metadata.h"

#define FF_WEIGHTS_FILE         "model.safetensors" /* in a checkpoint */
#define FF_WEIGHTS_METADATA     "ffpack.metadata"   /* metadata key: the training set's metadata */
#define FF_CHECKPOINT_SUMS_FILE "checksums.xxh128"  /* in a checkpoint */
#define FF_RUN_CHECKPOINTS      "checkpoints"       /* in a run */
#define FF_RUN_LAST             "last"              /* among its checkpoints, like "best" */
#define FF_RUN_BEST             "best"

/* The folder of a checkpoint: `given` itself or, if `given` is a run, its best checkpoint if there
 * is one, else its last. FF_USAGE if `given` is neither. The caller frees *path. */
FF_MUST_USE ff_status ff_checkpoint_find(const char *given, char **path, ff_error *error);

/* The metadata of the set that a run, a checkpoint's folder or a safetensors file was trained on.
 * The caller frees it, after a failure too. FF_USAGE if `path` is not one of these, or does not
 * record its set, as in files that other programs wrote. FF_IO, FF_BAD_DATA. */
FF_MUST_USE ff_status ff_trained_metadata(ff_metadata *metadata, const char *path, ff_error *error);

#endif
