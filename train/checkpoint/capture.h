/* A copy of a model's values in host memory, and the checkpoint (checkpoint.h) that is written from
 * it: copying and writing are apart, so that a thread writes while training goes on.
 *
 * Thread rule: take: the model's thread. Write: any thread, while nobody takes. */
#ifndef FF_TRAIN_CAPTURE_H
#define FF_TRAIN_CAPTURE_H

#include "train/checkpoint/checkpoint.h"

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
/* Writes the folder `directory`/`name`; replaces one of that name. FF_FAILED where a value is not
 * finite. */
FF_MUST_USE ff_status ff_capture_write(const ff_capture *capture, const char *directory,
                                       const char *name, ff_error *error);
/* Bytes that a capture of the model takes. */
uint64_t ff_capture_bytes(const ff_model *model);

#endif
