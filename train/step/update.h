/* The update of all parameters, prepared once: groups, their rules and learning rates by step. The
 * step's number is in the store's control, on the device, so the update can be captured.
 *
 * Thread rule: the model's thread. */
#ifndef FF_TRAIN_UPDATE_H
#define FF_TRAIN_UPDATE_H

#include "train/net/store.h"

typedef struct ff_update ff_update;

typedef struct ff_update_options {
    /* [group_count]: for each of the store's groups (one group if it has no groups); learning_rate
     * is ignored. */
    const ff_hyper *groups;
    int group_count;
    /* [group_count][rate_steps]: learning rates of the steps from 0; later steps use the last. */
    const double *rates;
    uint64_t rate_steps;
    /* Gradients whose norm over all parameters is larger are scaled down to it, as by
     * torch.nn.utils.clip_grad_norm_, without the loss scale; 0 = not clipped. */
    double clip_norm;
    double ema_decay; /* of the store's average, if it has one (average.h) */
    /* If the store has sums of gradients: the samples of a micro-batch over all ranks, where this
     * rank's samples begin in it, whether gradients are of the sum over a batch
     * (ff_model_options.summed_loss), and otherwise their divisor; 0 = the micro-batch's weight. */
    int part_samples, first_sample;
    bool summed;
    double divisor;
    /* Sums follow the fixed tree of comm.h over the micro-batches of all ranks. Each rank has the
     * same number of consecutive micro-batches, a power of two, so the bits do not depend on how
     * ranks share them. Running statistics become those before the step plus the mean of what each
     * micro-batch changed. Only on the CPU; the store must have a tree (ff_store_reserve_tree). */
    bool tree;
} ff_update_options;

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
