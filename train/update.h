/* The update of all parameters, prepared once: groups, their rules and learning rates by step. It
 * needs nothing of the host: the step is that of the store's control, so it can be recorded.
 *
 * Thread rule: the model's thread. */
#ifndef FF_TRAIN_UPDATE_H
#define FF_TRAIN_UPDATE_H

#include "train/store.h"

typedef struct ff_update ff_update;

typedef struct ff_update_options {
    /* [group_count]: momentum, weight decay, Nesterov of each of the store's groups (of one group
     * where it has none); learning_rate is not looked at. */
    const ff_sgd *groups;
    int group_count;
    /* [group_count][rate_steps]: learning rates of the steps from 0; those after the last take
     * the last. */
    const double *rates;
    uint64_t rate_steps;
} ff_update_options;

/* Copies the options. The store outlives it, and its groups do not change. On failure *update =
 * NULL. */
FF_MUST_USE ff_status ff_update_create(ff_update **update, ff_store *store,
                                       const ff_update_options *options, ff_error *error);
void ff_update_destroy(ff_update **update); /* NULL is accepted */

/* Gives the compute the end of a step: the check, the update, and the control's advance; the ring's
 * place of the step gets what they found. ring: [ring_size], on the device. The check, of devices
 * that are not the host, looks at all gradients: where one is infinite or NaN, parameters and state
 * stay as they are, whether or not the loss was scaled. The CPU has none: its caller looks at the
 * loss of every step. */
void ff_update_enqueue(ff_update *update, ff_outcome *ring, uint32_t ring_size);

#endif
