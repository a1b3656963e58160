/* The planned convolutions: each spec once, with the engine chosen for it (engine_choice.h). Thread
 * rule: one thread, in which the device, if any, is current. */
#ifndef FF_TRAIN_CUDA_PLANNER_H
#define FF_TRAIN_CUDA_PLANNER_H

#include "train/compute/cuda/engine_choice.h"

typedef struct ff_cudnn_planner {
    ff_library_options options; /* cache_folder and device_json are not kept */
    ff_cudnn_device device;     /* device.handle NULL: no GPU */
    ff_engine_chooser chooser;
    ff_cudnn_planned **list;
    size_t count, capacity;
} ff_cudnn_planner;

/* handle: a cudnnHandle_t, or NULL and options->device_json. */
FF_MUST_USE ff_status ff_cudnn_planner_open(ff_cudnn_planner *planner,
                                            const ff_library_options *options, void *handle,
                                            int driver, ff_error *error);
void ff_cudnn_planner_close(ff_cudnn_planner *planner);

/* *planned is valid until the planner is closed. FF_OK also if there is no engine. */
FF_MUST_USE ff_status ff_cudnn_planner_find(ff_cudnn_planner *planner,
                                            const ff_library_conv_spec *spec,
                                            const ff_cudnn_planned **planned, ff_error *error);

/* Frees the memory used for timing, until something is timed again. */
void ff_cudnn_planner_settle(ff_cudnn_planner *planner);

#endif
