/* Plans in the cache folder (plan_cache.h): what was chosen for a convolution, and, each by itself,
 * the engines that were compiled at run time, which any card of the same name and compute
 * capability takes compiled, whatever its driver. Every call is a success without a folder. Thread
 * rule: one thread. */
#ifndef FF_TRAIN_CUDA_ENGINE_CACHE_H
#define FF_TRAIN_CUDA_ENGINE_CACHE_H

#include "train/cuda/cudnn/plan.h"

typedef struct ff_engine_cache {
    const ff_library_options *options; /* for the keys, and to tell of files that cannot be used */
    const ff_cudnn_device *device;
    char driver[16]; /* the driver's version, "none" without a card */
    char *folder;    /* owned; NULL: none is read or written */
    int told;        /* lines about plans that could not be used */
} ff_engine_cache;

/* The choice that was made under this driver (a card that times nothing takes the one made without
 * a card, too), where `engine` is NULL; else that engine, by its candidate's name. plan->plan stays
 * NULL where there is none that can be used, or, with `timed`, none that was chosen by timing.
 * `found` may be NULL. */
FF_MUST_USE ff_status ff_engine_cache_get(ff_engine_cache *cache, const ff_library_conv_spec *spec,
                                          const char *engine, bool timed, ff_cudnn_plan *plan,
                                          ff_library_engine *found, ff_error *error);
/* Whether an engine is there, compiled: without loading it. */
bool ff_engine_cache_has(const ff_engine_cache *cache, const ff_library_conv_spec *spec,
                         const char *engine);
/* That the cache cannot be written is worth a line, not a failure: it is left alone from then on.
 */
void ff_engine_cache_put(ff_engine_cache *cache, const ff_library_conv_spec *spec,
                         const char *engine, const ff_cudnn_plan *plan,
                         const ff_library_engine *chosen);

#endif
