/* Which of a convolution's candidates is taken: the fastest on the card, or the first in an order.
 * Thread rule: as the planner. */
#ifndef FF_TRAIN_CUDA_ENGINE_CHOICE_H
#define FF_TRAIN_CUDA_ENGINE_CHOICE_H

#include "train/cuda/planner.h"

/* What a candidate is, for reports; `found`: engines that there were. */
ff_library_engine ff_cudnn_engine_of(const ff_cudnn_candidate *candidate, int found);

/* Of those that can be finished, the first that keeps the workspace's limit, else the one that
 * needs least. In the heuristics' order, but for 16 bits those on tensor cores before the others:
 * nothing was timed. `compiles`: also those that must be compiled first. -1 where none can be
 * finished; error says why the last could not. */
int ff_cudnn_choose_by_order(ff_cudnn_planner *planner, const ff_library_conv_spec *spec,
                             const ff_cudnn_candidates *candidates, bool compiles,
                             ff_cudnn_plan *plan, ff_error *error);

/* Times them within the convolution's share of the planner's budget (timed_choice.h), which it
 * takes from. *chosen = -1 where none could be timed; else planned->plan is its plan, *ns its time.
 */
FF_MUST_USE ff_status ff_cudnn_choose_by_time(ff_cudnn_planner *planner, ff_cudnn_planned *planned,
                                              const ff_cudnn_candidates *candidates, int *chosen,
                                              uint64_t *ns, ff_error *error);

/* Compiles, into the cache folder, the first configuration of every engine that must be compiled,
 * where it is not there yet: those that timing tries first. */
void ff_cudnn_compile_ahead(ff_cudnn_planner *planner, const ff_library_conv_spec *spec,
                            const ff_cudnn_candidates *candidates);

#endif
