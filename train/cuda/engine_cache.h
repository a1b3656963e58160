/* Plans of the planner in the cache folder (plan_cache.h): what was chosen for a convolution, and,
 * each by itself, the engines that were compiled at run time, which any card of the same name and
 * compute capability takes compiled, whatever its driver. Every call is a success without a folder.
 * Thread rule: as the planner. */
#ifndef FF_TRAIN_CUDA_ENGINE_CACHE_H
#define FF_TRAIN_CUDA_ENGINE_CACHE_H

#include "train/cuda/planner.h"

/* The choice that was made under `driver`, where `engine` is NULL; else that engine, by its
 * candidate's name. plan->plan stays NULL where there is none that can be used, or, with `timed`,
 * none that was chosen by timing. `found` may be NULL. */
FF_MUST_USE ff_status ff_cudnn_cache_get(ff_cudnn_planner *planner,
                                         const ff_library_conv_spec *spec, const char *driver,
                                         const char *engine, bool timed, ff_cudnn_plan *plan,
                                         ff_library_engine *found, ff_error *error);
/* Whether an engine is there, compiled: without loading it. */
bool ff_cudnn_cache_has(const ff_cudnn_planner *planner, const ff_library_conv_spec *spec,
                        const char *engine);
/* That the cache cannot be written is worth a line, not a failure: it is left alone from then on.
 */
void ff_cudnn_cache_put(ff_cudnn_planner *planner, const ff_library_conv_spec *spec,
                        const char *engine, const ff_cudnn_plan *plan,
                        const ff_library_engine *chosen);

#endif
