/* A run planned for a GPU that is not here: everything that depends on the card is decided as on
 * it (engines, their workspaces, where memory goes and whether it suffices), from the card's
 * description, and nothing is run. What `fftrain --dry-run --device-json` prints; and what a run on
 * a GPU that is here counts its memory on before it takes any.
 *
 * Life: opened before the model, closed after it. Thread rule: one thread. */
#ifndef FF_TRAIN_PLANNED_DEVICE_H
#define FF_TRAIN_PLANNED_DEVICE_H

#include "train/card.h"
#include "train/cuda/library.h"
#include "train/machine.h"

#include <stdio.h>

typedef struct ff_planned_device ff_planned_device;

/* Of the CUDA module: reads the description (cuDNN's own JSON, see tests/gpu/README.md). FF_IO,
 * FF_BAD_DATA naming the file; FF_FAILED where the module or a library is missing. plan_cache:
 * where plans are read and kept, with every engine that the card will time and would have to
 * compile first (train/cuda/engine_choice.h); NULL = nowhere. tune_seconds, no_fold, tuning: as in
 * ff_machine_options. */
FF_MUST_USE ff_status ff_planned_device_open(ff_planned_device **planned, const char *path,
                                             const ff_machine_options *options, ff_error *error);
/* Of any table and library; `json` is the description's text. */
FF_MUST_USE ff_status ff_planned_device_open_with(ff_planned_device **planned, const char *json,
                                                  const struct ff_compute_ops *ops,
                                                  const ff_library_table *library, ff_error *error);
/* Stands for the machine's GPU, and has the memory that the GPU has left. Nothing is timed,
 * compiled, told or kept, so engines may be others, with other workspaces, than a run chooses. The
 * machine outlives it. */
FF_MUST_USE ff_status ff_planned_device_of(ff_planned_device **planned, const ff_machine *machine,
                                           ff_error *error);
/* NULL is accepted. */
void ff_planned_device_close(ff_planned_device **planned);

/* For ff_model_options.device. */
const ff_model_device *ff_planned_device_model(const ff_planned_device *planned);
/* For ff_trainer_options.planned_kernels; NULL without a module. */
const struct ff_loader_kernels *ff_planned_device_kernels(const ff_planned_device *planned);
/* The card's limits, as its description tells them; what it does not tell is 0. */
ff_card ff_planned_device_card(const ff_planned_device *planned);
/* A line for each convolution of the plans so far, alike ones together, and for each fused
 * graph that there is no engine for. What a card would only time is not among them. */
void ff_planned_device_print(FILE *out, const ff_planned_device *planned);

#endif
