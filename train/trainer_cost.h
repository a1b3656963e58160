/* The costs of a trainer's steps (cost.h), and on a GPU how long each part takes beside
 * them (profile.h). One thread. */
#ifndef FF_TRAIN_TRAINER_COST_H
#define FF_TRAIN_TRAINER_COST_H

#include "train/profile.h"
#include "train/trainer.h"

/* Of a step with `plan`, a training plan of the trainer's model; batches made of a resident set.
 * The caller frees with ff_costs_free. */
FF_MUST_USE ff_status ff_trainer_costs(ff_costs *costs, const ff_trainer *trainer, ff_plan *plan,
                                       ff_error *error);
/* Prints what ff_costs_print does for a step of the trainer. */
FF_MUST_USE ff_status ff_trainer_print_costs(FILE *out, const ff_trainer *trainer,
                                             const ff_card *card, ff_error *error);

/* Measures a step with `plan`, of the whole batch, as in ff_profile_step, `launches` times, fewer
 * where the run has not as many steps; with learning rates of 0. costs: the plan's. Uses the
 * trainer up. */
FF_MUST_USE ff_status ff_trainer_profile(ff_profile *profile, ff_trainer *trainer, ff_plan *plan,
                                         const ff_costs *costs, int launches, ff_error *error);

/* Measures so, and prints the `count` rows that take the most time beyond what they should at 80 %
 * of the card's limits (all of their time, where those are not known). Nothing where the run is
 * shorter than that takes. */
FF_MUST_USE ff_status ff_trainer_print_furthest(FILE *out, ff_trainer *trainer, int count,
                                                ff_error *error);

#endif
