/* The costs of a trainer's steps (cost.h), and on a GPU also the measured time of each part
 * (profile.h). One thread. */
#ifndef FF_TRAIN_TRAINER_COST_H
#define FF_TRAIN_TRAINER_COST_H

#include "train/cost/profile.h"
#include "train/trainer/trainer.h"

/* Counts a step with `plan`, a training plan of the trainer's model, with batches made from a
 * resident set. The caller frees with ff_costs_free. */
FF_MUST_USE ff_status ff_trainer_costs(ff_costs *costs, const ff_trainer *trainer, ff_plan *plan,
                                       ff_error *error);
/* ff_costs_print for a step of the trainer. */
FF_MUST_USE ff_status ff_trainer_print_costs(FILE *out, const ff_trainer *trainer,
                                             const ff_card *card, ff_error *error);

/* Measures a step with `plan`, of the whole batch, as in ff_profile_step, `launches` times, or
 * fewer if the run has fewer steps. Learning rates are 0. costs: the plan's. The trainer cannot be
 * used afterwards. */
FF_MUST_USE ff_status ff_trainer_profile(ff_profile *profile, ff_trainer *trainer, ff_plan *plan,
                                         const ff_costs *costs, int launches, ff_error *error);

/* Measures as above, and prints the `count` rows whose time exceeds the estimate at 80 % of the
 * GPU's limits the most (the rows with the most time if the limits are unknown). Does nothing if
 * the run has too few steps. */
FF_MUST_USE ff_status ff_trainer_print_furthest(FILE *out, ff_trainer *trainer, int count,
                                                ff_error *error);

#endif
