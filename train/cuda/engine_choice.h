/* Which engine a convolution takes: what the cache holds (engine_cache.h), else the fastest on the
 * card within a budget of seconds (timed_choice.h), else the first in the order of cuDNN's
 * heuristics. Plain C over cudnn/plan.h, so tests choose among engines of their own. Thread rule:
 * one thread, for which the device, if there is one, is current. */
#ifndef FF_TRAIN_CUDA_ENGINE_CHOICE_H
#define FF_TRAIN_CUDA_ENGINE_CHOICE_H

#include "train/cuda/engine_cache.h"
#include "train/cuda/timed_choice.h"

struct ff_engine_timer;

/* One spec, however many layers have it; all but the spec is zero before the choice. */
typedef struct ff_cudnn_planned {
    ff_library_conv_spec spec;
    ff_cudnn_graph graph;
    ff_cudnn_plan plan; /* plan.plan NULL: there is no engine; then why tells it */
    ff_library_engine engine;
    ff_error why;
} ff_cudnn_planned;

typedef struct ff_engine_chooser {
    const ff_library_options *options; /* workspace_limit is not 0 */
    const ff_cudnn_device *device;     /* device->handle NULL: there is no card */
    ff_library_tuning own, *tuning;    /* the options', else its own */
    ff_engine_cache cache;
    ff_choice_budget budget;
    struct ff_engine_timer *timer; /* NULL until something is timed */
    bool ahead;                    /* options->compile_ahead, where that can be done */
    char no_driver[256];           /* without a card: why no driver can be opened; "" = one can */
    bool told_no_driver, told_failed; /* each once */
} ff_engine_chooser;

/* options and device outlive the chooser. driver: its version, where there is a card. */
FF_MUST_USE ff_status ff_engine_chooser_open(ff_engine_chooser *chooser,
                                             const ff_library_options *options,
                                             const ff_cudnn_device *device, int driver,
                                             ff_error *error);
void ff_engine_chooser_close(ff_engine_chooser *chooser); /* closed or zeroed ones are accepted */

/* Fills graph, plan and engine, or why. What is chosen is kept in the cache, and so is what had to
 * be compiled. FF_OK also where there is no engine. */
FF_MUST_USE ff_status ff_engine_choose(ff_engine_chooser *chooser, ff_cudnn_planned *planned,
                                       ff_error *error);

#endif
