/* Plans in the cache folder (plan_cache.h): the engine chosen for a convolution, and, separately,
 * the engines compiled at run time, usable on any GPU of the same name and compute capability with
 * any driver. Without a folder every call succeeds. Thread rule: one thread. */
#ifndef FF_TRAIN_CUDA_ENGINE_CACHE_H
#define FF_TRAIN_CUDA_ENGINE_CACHE_H

#include "train/compute/cuda/cudnn/plan.h"

typedef struct ff_engine_cache {
    const ff_library_options *options; /* for the keys, and for notes about unusable files */
    const ff_cudnn_device *device;
    char driver[16]; /* the driver's version, "none" without a GPU */
    char *folder;    /* owned; NULL: no cache */
    int told;        /* notes about unusable plans so far */
} ff_engine_cache;

/* `engine` NULL: the choice made with this driver (a GPU without timing also takes a choice made
 * without a GPU); else that engine, by its candidate's name. plan->plan stays NULL if the cache has
 * no usable plan, or, with `timed`, no plan chosen by timing. `found` may be NULL. */
FF_MUST_USE ff_status ff_engine_cache_get(ff_engine_cache *cache, const ff_library_conv_spec *spec,
                                          const char *engine, bool timed, ff_cudnn_plan *plan,
                                          ff_library_engine *found, ff_error *error);
/* Whether a compiled engine is in the cache, without loading it. */
bool ff_engine_cache_has(const ff_engine_cache *cache, const ff_library_conv_spec *spec,
                         const char *engine);
/* A cache that cannot be written is noted and is not an error; from then on nothing is written. */
void ff_engine_cache_put(ff_engine_cache *cache, const ff_library_conv_spec *spec,
                         const char *engine, const ff_cudnn_plan *plan,
                         const ff_library_engine *chosen);

#endif
