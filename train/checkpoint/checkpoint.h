/* Room train/checkpoint, floor 12: what a run leaves on the disk: weights, state, and the folder
 * around them.
 *
 * capture.c copies a model's values and writes them as a checkpoint, together with the state of the
 * run (state.h); this header reads a checkpoint. run_folder.c holds the folder of a run. keeper.c
 * writes from a thread and removes old checkpoints by the rules of keeping.c; every.c decides when
 * to write, patience.c when a run stops early. weights.c loads weights into a model, from
 * safetensors or PyTorch's files (tensors.c, torch/), and under other programs' names (naming.c).
 * onnx.c exports a model; protobuf.c writes the encoding.
 *
 * May include format, loader/device, train/compute, train/net.
 *
 * A checkpoint is a folder from which a run resumes and reaches the same bits. PyTorch can read its
 * weights.
 *
 *   model.safetensors   every parameter and buffer by torchvision's name, in the order of torch's
 *                       state_dict, f32 (num_batches_tracked: I64); and metadata texts: the net's
 *                       form, the images' normalization and classes (train/run/session.c)
 *   state.safetensors   the state of each parameter's optimizer by torch's names, "exp_avg.NAME";
 *                       with --ema "ema.NAME"; and metadata texts, named below
 *   checksums.xxh128    a line "XXH3-128  FILE" for each; `xxh128sum -c` reads them
 *
 * A checkpoint is either complete or absent: capture.h writes NAME.partial and renames it.
 *
 * Thread rule: the model's thread. */
#ifndef FF_TRAIN_CHECKPOINT_H
#define FF_TRAIN_CHECKPOINT_H

#include "format/weights/safetensors.h"
#include "format/weights/trained.h"
#include "train/checkpoint/state.h"
#include "train/net/model.h"

#define FF_CHECKPOINT_STATE_FILE "state.safetensors"

/* Suffixes of folders that are being written or removed. */
#define FF_CHECKPOINT_PARTIAL ".partial"
#define FF_CHECKPOINT_REMOVED ".removed"

/* Tensors of the average (average.h) are named FF_CHECKPOINT_AVERAGE ".NAME". */
#define FF_CHECKPOINT_AVERAGE "ema"

/* Keys of the metadata of state.safetensors. */
#define FF_CHECKPOINT_STATE         "ffpack.state"  /* the state of the run (state.h) */
#define FF_CHECKPOINT_RECIPE        "ffpack.recipe" /* options by name, one per line */
#define FF_CHECKPOINT_DATA          "ffpack.data"   /* content ids of both sets; "" = no set */
#define FF_CHECKPOINT_VAL           "ffpack.val"
#define FF_CHECKPOINT_SELECTED      "ffpack.selected" /* origin.h, as ranks and the next two */
#define FF_CHECKPOINT_COMPUTE       "ffpack.compute"
#define FF_CHECKPOINT_RANKS         "ffpack.ranks" /* this and the next two: origin.h */
#define FF_CHECKPOINT_THREADS       "ffpack.threads"
#define FF_CHECKPOINT_CLASS_WEIGHTS "ffpack.class_weights"
#define FF_CHECKPOINT_RECIPE_FILE   "ffpack.recipe_file" /* a checksum; "" = no recipe file */
#define FF_CHECKPOINT_VERSION       "ffpack.version"

/* ---- for capture.c ---- */

/* The two files with tensors: the model's and the state's. */
enum { FF_CHECKPOINT_FILES = 2 };
extern const char *const ff_checkpoint_files[FF_CHECKPOINT_FILES];

/* A tensor of state.safetensors: "NAME.PARAMETER". */
typedef struct ff_state_part {
    int parameter;
    ff_parameter_part part;
    const char *name;
} ff_state_part;
/* The k-th state tensor of a parameter: first those of its optimizer, then its average. False past
 * the last. */
bool ff_state_part_at(const ff_model *model, int parameter, int k, ff_state_part *part);

/* Appends to `text` the line of FF_CHECKPOINT_SUMS_FILE for a file of ff_checkpoint_files with this
 * XXH3-128, in the form that xxh128sum prints. */
FF_MUST_USE ff_status ff_checkpoint_add_sum(ff_buffer *text, int file, const uint8_t id[16],
                                            ff_error *error);
/* Renames the written folder `partial` to `path`, in `directory`; an older folder at `path` is
 * removed first. */
FF_MUST_USE ff_status ff_checkpoint_place(const char *partial, const char *path,
                                          const char *directory, ff_error *error);
/* Removes a checkpoint, as far as possible. The folder is renamed first, so that a half-removed one
 * does not look whole. ff_checkpoint_discard removes what a killed process left of a folder that it
 * was writing or removing. */
void ff_checkpoint_remove(const char *path);
void ff_checkpoint_discard(const char *path);

/* ---- reading ---- */

typedef struct ff_checkpoint ff_checkpoint;

/* Compares the bytes of a file of ff_checkpoint_files with its checksum in the same folder.
 * FF_BAD_DATA, FF_IO. */
FF_MUST_USE ff_status ff_checkpoint_check(const char *path, int file, ff_error *error);
/* Opens a checkpoint's folder and checks every byte of it. FF_BAD_DATA if the folder is not a
 * checkpoint, or is cut off or changed. On failure *checkpoint = NULL. */
FF_MUST_USE ff_status ff_checkpoint_open(ff_checkpoint **checkpoint, const char *path,
                                         ff_error *error);
void ff_checkpoint_close(ff_checkpoint **checkpoint); /* NULL is accepted */
const char *ff_checkpoint_path(const ff_checkpoint *checkpoint);
const ff_run_state *ff_checkpoint_state(const ff_checkpoint *checkpoint);
/* A metadata text of state.safetensors; NULL if the file does not have this key. */
const char *ff_checkpoint_text(const ff_checkpoint *checkpoint, const char *key);
/* Sets the model's values, the optimizer's state and the counters. FF_BAD_DATA naming a tensor that
 * is missing or has another shape. */
FF_MUST_USE ff_status ff_checkpoint_load(const ff_checkpoint *checkpoint, ff_model *model,
                                         ff_error *error);

#endif
