/* The part of a trainer that decides how parameters are updated: groups, optimizers, learning
 * rates. */
#ifndef FF_TRAIN_TRAINER_UPDATES_H
#define FF_TRAIN_TRAINER_UPDATES_H

#include "train/trainer/trainer.h"

/* Fills epochs, groups, loss, label smoothing and dropout of a trainer whose batches are known.
 * FF_USAGE if options contradict each other or the recipe. Groups: the recipe's; or the groups of
 * options->groups in their order, then all other parameters. Each group follows its part without
 * weight decay, if options->no_decay or the optimizer's default asks for one and the group does not
 * set its own decay. A group has the numbers of all other parameters, except the numbers that it
 * sets; a group with another optimizer has that optimizer's defaults. */
FF_MUST_USE ff_status ff_trainer_resolve_updates(ff_trainer *trainer,
                                                 const ff_trainer_options *options,
                                                 const ff_recipe *recipe, ff_error *error);
/* Sets the model's groups. FF_USAGE also if a group of the options has no parameter. */
FF_MUST_USE ff_status ff_trainer_set_groups(const ff_trainer *trainer, ff_error *error);
/* The first step from which the learning rate of some SGD group stays 0, or the number of all
 * steps; settled[ff_model_parameter_count] becomes true for its parameters. */
uint64_t ff_trainer_settled(const ff_trainer *trainer, bool *settled);

#endif
