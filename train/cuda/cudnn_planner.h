/* Finds the plan of a convolution: among those planned before, in the cache folder, by timing every
 * engine on the card, or in the order of cuDNN's heuristics.
 * Thread rule: one thread, for which the device, if there is one, is current. */
#ifndef FF_TRAIN_CUDA_CUDNN_PLANNER_H
#define FF_TRAIN_CUDA_CUDNN_PLANNER_H

#include "train/cuda/cudnn_plan.h"

/* One spec, however many layers have it. */
typedef struct ff_cudnn_planned {
    ff_library_conv_spec spec;
    ff_cudnn_graph graph;
    ff_cudnn_plan plan; /* plan.plan NULL: there is no engine; then why tells it */
    ff_library_engine engine;
    ff_error why;
} ff_cudnn_planned;

typedef struct ff_cudnn_planner {
    ff_library_options options; /* cache_folder is owned; device_json is not kept */
    ff_cudnn_device device;     /* device.handle NULL: there is no card */
    char driver[16];            /* the driver's version, "none" without a card */
    double timing_left;         /* seconds */
    int asked;                  /* how many convolutions so far */
    ff_cudnn_planned **list;
    size_t count, capacity;
} ff_cudnn_planner;

/* handle: a cudnnHandle_t, or NULL and options->device_json. */
FF_MUST_USE ff_status ff_cudnn_planner_open(ff_cudnn_planner *planner,
                                            const ff_library_options *options, void *handle,
                                            int driver, ff_error *error);
void ff_cudnn_planner_close(ff_cudnn_planner *planner);

/* *planned is valid until the planner is closed. FF_OK also where there is no engine. */
FF_MUST_USE ff_status ff_cudnn_planner_find(ff_cudnn_planner *planner,
                                            const ff_library_conv_spec *spec,
                                            const ff_cudnn_planned **planned, ff_error *error);

#endif
