/* Times engines of convolutions on a device, as they will run in a step: recorded launches, on
 * random data (zeros would draw less power and run faster), in buffers that rotate so that no run
 * finds its input in the cache. One timer serves all convolutions one after another: random data is
 * given to the device once and copied there from then on, and its memory only grows.
 * Thread rule: one thread, for which the device is current. */
#ifndef FF_TRAIN_CUDA_ENGINE_TIMER_H
#define FF_TRAIN_CUDA_ENGINE_TIMER_H

#include "loader/device/device.h"
#include "train/cuda/library.h"

typedef struct ff_engine_timer ff_engine_timer;

/* Only enqueues one run of the engine. */
typedef ff_status ff_engine_run(void *context, void *native_stream,
                                const ff_library_conv_arguments *arguments, void *workspace,
                                ff_error *error);

/* The device outlives the timer. */
FF_MUST_USE ff_status ff_engine_timer_create(ff_engine_timer **timer, ff_device *device,
                                             ff_error *error);
/* Gives its large memory back until a convolution is taken again. */
void ff_engine_timer_rest(ff_engine_timer *timer);
void ff_engine_timer_destroy(ff_engine_timer **timer); /* NULL is accepted */

/* Takes `spec` as the convolution whose engines are timed from now on: memory for its tensors, at
 * least FF_TIMER_BYTES where one set is smaller, full of random data. Lets go of the engine at
 * hand. */
enum { FF_TIMER_BYTES = 512 << 20, FF_TIMER_SETS = 16, FF_TIMER_LAUNCHES = 8 };
FF_MUST_USE ff_status ff_engine_timer_take(ff_engine_timer *timer, const ff_library_conv_spec *spec,
                                           ff_error *error);

/* Takes `run` as the engine to time: runs it once for each set of buffers, and records
 * FF_TIMER_LAUNCHES runs. Replaces the one before. After ff_engine_timer_take. */
FF_MUST_USE ff_status ff_engine_timer_prepare(ff_engine_timer *timer, ff_engine_run *run,
                                              void *context, size_t workspace_bytes,
                                              ff_error *error);
/* Lets go of the engine, so that what it is made of may be destroyed. */
void ff_engine_timer_forget(ff_engine_timer *timer);
/* Seconds of one run, as a mean of FF_TIMER_LAUNCHES. */
FF_MUST_USE ff_status ff_engine_timer_measure(ff_engine_timer *timer, double *seconds,
                                              ff_error *error);

#endif
