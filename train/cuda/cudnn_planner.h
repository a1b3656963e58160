/* Finds the plan of a convolution: among those planned before, in the cache folder
 * (cudnn_cache.h), by timing every engine on the card, or in the order of cuDNN's heuristics
 * (cudnn_choose.h). Plain C over cudnn/plan.h, so tests plan with engines of their own.
 * Thread rule: one thread, for which the device, if there is one, is current. */
#ifndef FF_TRAIN_CUDA_CUDNN_PLANNER_H
#define FF_TRAIN_CUDA_CUDNN_PLANNER_H

#include "train/cuda/cudnn/plan.h"
#include "train/cuda/plan_choice.h"

struct ff_engine_timer;

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
    char no_driver[256];        /* without a card: why no driver can be opened; "" = one can */
    ff_choice_budget budget;
    ff_library_tuning own, *tuning;   /* the options', else its own */
    int told_cache;                   /* lines about cached plans that could not be used */
    bool told_no_driver, told_failed; /* each once */
    struct ff_engine_timer *timer;    /* NULL until something is timed */
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

/* Gives back what timing took, until something is timed again. */
void ff_cudnn_planner_settle(ff_cudnn_planner *planner);

/* ---- what the planner's files share ---- */

/* A line for options.note. */
void ff_cudnn_planner_note(const ff_cudnn_planner *planner, const char *format, ...)
    FF_PRINTF(2, 3);

#endif
