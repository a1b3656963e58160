/* The update of all parameters, prepared once: groups, their rules and learning rates by step. The
 * step's number is in the store's control, on the device, so the update can be captured.
 *
 * Thread rule: the model's thread. */
#ifndef FF_TRAIN_UPDATE_H
#define FF_TRAIN_UPDATE_H

#include "train/net/store.h"

typedef struct ff_update ff_update;

/* Copies the options. The store must outlive the update, and its groups must not change. On failure
 * *update = NULL. */
FF_MUST_USE ff_status ff_update_create(ff_update **update, ff_store *store,
                                       const ff_update_options *options, ff_error *error);
void ff_update_destroy(ff_update **update); /* NULL is accepted */

/* A micro-batch of this rank: its number in the step, and whether it is the last. Without a tree
 * only whether the number is 0 counts. */
typedef struct ff_batch_part {
    int number;
    bool last;
} ff_batch_part;

/* Enqueues what a tree needs before the forward pass of a micro-batch; without one, nothing. */
void ff_update_begin(ff_update *update, int number);
/* Enqueues adding the gradients of a micro-batch to the sums of its step, and its outcome to the
 * outcome of the step, in the ring. The store must have sums. */
void ff_update_add(ff_update *update, ff_batch_part part, ff_outcome *ring, uint32_t ring_size);
/* The two halves of ff_update_add: the gradients, bucket by bucket, and then the outcome. */
void ff_update_sum(ff_update *update, ff_batch_part part, const ff_bucket *bucket, ff_outcome *ring,
                   uint32_t ring_size);
void ff_update_count(ff_update *update, ff_batch_part part, ff_outcome *ring, uint32_t ring_size);
/* Enqueues making the step's outcome from the outcomes of all ranks, ranks[count] on the device. */
void ff_update_combine(ff_update *update, const ff_outcome *ranks, int count, ff_outcome *ring,
                       uint32_t ring_size);
/* Enqueues the end of a step: the check, the update, and advancing the control; writes the step's
 * entry of the ring. ring: [ring_size], on the device. The check covers all gradients: if one is
 * infinite or NaN, parameters and state stay unchanged, whether or not the loss was scaled. The
 * same holds from a step whose loss was infinite or NaN (ff_control.halted). */
void ff_update_enqueue(ff_update *update, ff_outcome *ring, uint32_t ring_size);

#endif
