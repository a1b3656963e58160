/* A checkpoint: a folder from which a run goes on to the same bits, and whose weights PyTorch
 * reads.
 *
 *   model.safetensors   every parameter and buffer by torchvision's name, in the order of torch's
 *                       state_dict, f32 (num_batches_tracked: I64)
 *   state.safetensors   the optimizer's state, "momentum_buffer.NAME" of each trained parameter; as
 *                       texts of its metadata the rest: ffpack.state (state.h), ffpack.recipe
 *                       (options by name, one a line), ffpack.data and ffpack.val (content ids),
 *                       ffpack.metadata (the training set's), ffpack.compute, ffpack.version
 *   checksums.xxh128    a line "XXH3-128  FILE" of each; `xxh128sum -c` reads them
 *
 * It is complete or not there: written as NAME.partial and renamed. Copying the values from the
 * device and writing them are apart, so that a thread writes while training goes on.
 *
 * Thread rule: take and load: the model's thread. Write: any thread, while nobody takes. */
#ifndef FF_TRAIN_CHECKPOINT_H
#define FF_TRAIN_CHECKPOINT_H

#include "train/checkpoint/safetensors.h"
#include "train/checkpoint/state.h"
#include "train/model.h"

#define FF_CHECKPOINT_STATE_FILE "state.safetensors"
#define FF_CHECKPOINT_SUMS_FILE  "checksums.xxh128"

/* Names of folders that are being written or removed end so. */
#define FF_CHECKPOINT_PARTIAL ".partial"
#define FF_CHECKPOINT_REMOVED ".removed"

/* Texts of state.safetensors. */
#define FF_CHECKPOINT_STATE    "ffpack.state"
#define FF_CHECKPOINT_RECIPE   "ffpack.recipe"
#define FF_CHECKPOINT_DATA     "ffpack.data"
#define FF_CHECKPOINT_VAL      "ffpack.val"
#define FF_CHECKPOINT_METADATA "ffpack.metadata"
#define FF_CHECKPOINT_COMPUTE  "ffpack.compute"
#define FF_CHECKPOINT_VERSION  "ffpack.version"

/* A copy of a model's values in host memory. */
typedef struct ff_capture ff_capture;

/* `weights`: texts of model.safetensors; `facts`: those of state.safetensors, without the state of
 * the run. Both are copied. The model must outlive the capture. */
FF_MUST_USE ff_status ff_capture_create(ff_capture **capture, ff_model *model,
                                        const ff_safetensors_fact *weights, size_t weight_count,
                                        const ff_safetensors_fact *facts, size_t fact_count,
                                        ff_error *error);
void ff_capture_destroy(ff_capture **capture); /* NULL is accepted */
/* Copies the model's values as they are after all enqueued steps; sets control and forwards of the
 * copy of `state`. */
FF_MUST_USE ff_status ff_capture_take(ff_capture *capture, const ff_run_state *state,
                                      ff_error *error);
/* Writes the folder `directory`/`name`; replaces one of that name. */
FF_MUST_USE ff_status ff_capture_write(const ff_capture *capture, const char *directory,
                                       const char *name, ff_error *error);
/* Removes a checkpoint, as far as possible: under another name, so that no half of one looks whole;
 * and what is left of one that was being written or removed when its process was killed. */
void ff_checkpoint_remove(const char *path);
void ff_checkpoint_discard(const char *path);
/* Bytes that a capture of the model takes. */
uint64_t ff_capture_bytes(const ff_model *model);

typedef struct ff_checkpoint ff_checkpoint;

/* Opens a checkpoint's folder and checks every byte of it. FF_BAD_DATA where it is no checkpoint,
 * cut off or changed. On failure *checkpoint = NULL. */
FF_MUST_USE ff_status ff_checkpoint_open(ff_checkpoint **checkpoint, const char *path,
                                         ff_error *error);
void ff_checkpoint_close(ff_checkpoint **checkpoint); /* NULL is accepted */
const char *ff_checkpoint_path(const ff_checkpoint *checkpoint);
const ff_run_state *ff_checkpoint_state(const ff_checkpoint *checkpoint);
/* A text of state.safetensors; NULL where it has none. */
const char *ff_checkpoint_text(const ff_checkpoint *checkpoint, const char *key);
/* Sets the model's values, optimizer's state and counters. FF_BAD_DATA naming a tensor that is
 * missing or has another shape. */
FF_MUST_USE ff_status ff_checkpoint_load(const ff_checkpoint *checkpoint, ff_model *model,
                                         ff_error *error);

#endif
