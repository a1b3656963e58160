/* Chooses the engine of a convolution: the cached one (engine_cache.h), else the fastest on the GPU
 * within a budget of seconds (timed_choice.h), else the first in the order of cuDNN's heuristics.
 * Plain C over cudnn/plan.h, so that tests can provide engines. Thread rule: one thread, in which
 * the device, if any, is current. */
#ifndef FF_TRAIN_CUDA_ENGINE_CHOICE_H
#define FF_TRAIN_CUDA_ENGINE_CHOICE_H

#include "train/compute/cuda/engine_cache.h"
#include "train/compute/cuda/timed_choice.h"

struct ff_engine_timer;

/* One spec, shared by all layers that have this spec; everything except the spec is zero before the
 * choice. */
typedef struct ff_cudnn_planned {
    ff_library_conv_spec spec;
    ff_cudnn_graph graph;
    ff_cudnn_plan plan; /* plan.plan NULL: no engine, for the reason in `why` */
    ff_library_engine engine;
    ff_error why;
} ff_cudnn_planned;

typedef struct ff_engine_chooser {
    const ff_library_options *options; /* workspace_limit is not 0 */
    const ff_cudnn_device *device;     /* device->handle NULL: no GPU */
    ff_library_tuning own, *tuning;    /* from the options, else the chooser's own */
    ff_engine_cache cache;
    ff_choice_budget budget;
    struct ff_engine_timer *timer;    /* NULL until something is timed */
    bool ahead;                       /* options->compile_ahead, if possible */
    char no_driver[256];              /* without a GPU: why no driver opens; "" = one opens */
    bool told_no_driver, told_failed; /* reported once each */
} ff_engine_chooser;

/* options and device must outlive the chooser. driver: its version, with a GPU. */
FF_MUST_USE ff_status ff_engine_chooser_open(ff_engine_chooser *chooser,
                                             const ff_library_options *options,
                                             const ff_cudnn_device *device, int driver,
                                             ff_error *error);
void ff_engine_chooser_close(ff_engine_chooser *chooser); /* closed or zeroed ones are accepted */

/* Fills graph and plan, or `why`. The choice and all compiled engines are cached. FF_OK also if
 * there is no engine. */
FF_MUST_USE ff_status ff_engine_choose(ff_engine_chooser *chooser, ff_cudnn_planned *planned,
                                       ff_error *error);

#endif
