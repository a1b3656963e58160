/* A copy of a model's values in host memory, and the checkpoint (checkpoint.h) written from the
 * copy. Copying and writing are separate calls, so that a thread can write while training
 * continues.
 *
 * Thread rule: ff_capture_take on the model's thread; ff_capture_write on any thread, while no
 * thread takes. */
#ifndef FF_TRAIN_CAPTURE_H
#define FF_TRAIN_CAPTURE_H

#include "train/checkpoint/checkpoint.h"

typedef struct ff_capture ff_capture;

/* `weights`: texts of model.safetensors; `facts`: texts of state.safetensors, without the state of
 * the run. Both are copied. The model must outlive the capture. */
FF_MUST_USE ff_status ff_capture_create(ff_capture **capture, ff_model *model,
                                        const ff_safetensors_fact *weights, size_t weight_count,
                                        const ff_safetensors_fact *facts, size_t fact_count,
                                        ff_error *error);
void ff_capture_destroy(ff_capture **capture); /* NULL is accepted */
/* Copies the model's values as they are after all enqueued steps. Copies `state` and sets the
 * copy's control and forwards. */
FF_MUST_USE ff_status ff_capture_take(ff_capture *capture, const ff_run_state *state,
                                      ff_error *error);
/* Writes the folder `directory`/`name` and replaces a folder of the same name. FF_FAILED if a value
 * is not finite. */
FF_MUST_USE ff_status ff_capture_write(const ff_capture *capture, const char *directory,
                                       const char *name, ff_error *error);
/* The bytes that a capture of the model takes. */
uint64_t ff_capture_bytes(const ff_model *model);

#endif
