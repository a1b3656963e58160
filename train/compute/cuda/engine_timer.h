/* Times engines of convolutions on a device under the conditions of a step: launches captured in a
 * graph, on random data (zeros would draw less power and run faster), with rotating buffers so that
 * no run finds its input in the cache. One timer serves all convolutions in turn: random data is
 * uploaded once and then copied on the device, and the timer's memory only grows. Thread rule: one
 * thread, for which the device is current. */
#ifndef FF_TRAIN_CUDA_ENGINE_TIMER_H
#define FF_TRAIN_CUDA_ENGINE_TIMER_H

#include "loader/device/device.h"
#include "train/compute/cuda/library.h"

typedef struct ff_engine_timer ff_engine_timer;

/* Only enqueues one run of the engine. */
typedef ff_status ff_engine_run(void *context, void *native_stream,
                                const ff_library_conv_arguments *arguments, void *workspace,
                                ff_error *error);

/* The device must outlive the timer. */
FF_MUST_USE ff_status ff_engine_timer_create(ff_engine_timer **timer, ff_device *device,
                                             ff_error *error);
/* Frees the timer's large memory until the next ff_engine_timer_take. */
void ff_engine_timer_rest(ff_engine_timer *timer);
void ff_engine_timer_destroy(ff_engine_timer **timer); /* NULL is accepted */

/* Sets the convolution whose engines are timed next: allocates its tensors (several sets, about
 * FF_TIMER_BYTES in total) and fills them with random data. Drops the current engine. */
enum { FF_TIMER_BYTES = 512 << 20, FF_TIMER_SETS = 16, FF_TIMER_LAUNCHES = 8 };
FF_MUST_USE ff_status ff_engine_timer_take(ff_engine_timer *timer, const ff_library_conv_spec *spec,
                                           ff_error *error);

/* Sets the engine to time: runs it once for each set of buffers, and captures FF_TIMER_LAUNCHES
 * runs in a graph. Replaces the previous engine. Call ff_engine_timer_take first. */
FF_MUST_USE ff_status ff_engine_timer_prepare(ff_engine_timer *timer, ff_engine_run *run,
                                              void *context, size_t workspace_bytes,
                                              ff_error *error);
/* Whether the device is unusable from now on, after a failure of the two above: every call of the
 * process fails, whichever engine is tried ("CUDA Runtime API", cudaError_t:
 * cudaErrorIllegalAddress and others). */
bool ff_engine_timer_lost(ff_engine_timer *timer);
/* Drops the engine, so that its plan may be destroyed. */
void ff_engine_timer_forget(ff_engine_timer *timer);
/* Seconds of one run, as the mean of FF_TIMER_LAUNCHES runs. */
FF_MUST_USE ff_status ff_engine_timer_measure(ff_engine_timer *timer, double *seconds,
                                              ff_error *error);

#endif
