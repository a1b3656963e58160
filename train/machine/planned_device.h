/* Plans a run for a GPU that this machine does not have. Everything that depends on the GPU
 * (engines, workspaces, placement of memory and whether it suffices) is decided from its
 * description, and nothing is run. `fftrain --dry-run --device-json` uses this; a run on a present
 * GPU also counts its memory on a planned device before it allocates any.
 *
 * Lifetime: opened before the model, closed after it. Thread rule: one thread. */
#ifndef FF_TRAIN_PLANNED_DEVICE_H
#define FF_TRAIN_PLANNED_DEVICE_H

#include "train/compute/cuda/library.h"
#include "train/machine/card.h"
#include "train/machine/machine.h"

#include <stdio.h>

typedef struct ff_planned_device ff_planned_device;

/* Opens a planned device of the CUDA module from a description (cuDNN's own JSON, see
 * tests/gpu/README.md). FF_IO, FF_BAD_DATA naming the file; FF_FAILED if the module or a library is
 * missing. plan_cache: the folder in which plans are read and stored, with every engine that the
 * GPU will time and would have to compile first (train/compute/cuda/engine_choice.h); NULL = none.
 * tune_seconds, no_fold, tuning: as in ff_machine_options. */
FF_MUST_USE ff_status ff_planned_device_open(ff_planned_device **planned, const char *path,
                                             const ff_machine_options *options, ff_error *error);
/* The same with any table and library; `json` is the description's text. */
FF_MUST_USE ff_status ff_planned_device_open_with(ff_planned_device **planned, const char *json,
                                                  const struct ff_compute_ops *ops,
                                                  const ff_library_table *library, ff_error *error);
/* A stand-in for the machine's GPU, with the amount of memory that the GPU has free. Nothing is
 * timed, compiled, reported or cached, so engines and workspaces may differ from those that a run
 * chooses. The machine must outlive it. */
FF_MUST_USE ff_status ff_planned_device_of(ff_planned_device **planned, const ff_machine *machine,
                                           ff_error *error);
/* NULL is accepted. */
void ff_planned_device_close(ff_planned_device **planned);

/* For ff_model_options.device. */
const ff_model_device *ff_planned_device_model(const ff_planned_device *planned);
/* For ff_trainer_options.planned_kernels; NULL without a module. */
const struct ff_loader_kernels *ff_planned_device_kernels(const ff_planned_device *planned);
/* The GPU's limits, from its description; 0 = unknown. */
ff_card ff_planned_device_card(const ff_planned_device *planned);
/* Prints a line for each convolution of the plans so far, similar ones together, and for each fused
 * graph without an engine. Leaves out candidates that a GPU would only time. */
void ff_planned_device_print(FILE *out, const ff_planned_device *planned);

#endif
