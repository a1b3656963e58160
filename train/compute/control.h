/* The state on the device next to the parameters, with which steps run without the host: the step's
 * number, the loss scale, and the outcome of each step.
 *
 * Plain data, shared by C and kernels. */
#ifndef FF_TRAIN_CONTROL_H
#define FF_TRAIN_CONTROL_H

#include <stdint.h>

/* The host writes it at the start and when a run resumes, and reads it to save a checkpoint. */
typedef struct ff_control {
    uint64_t step;            /* of the run, from 0; also counts steps whose update was skipped */
    uint64_t updates;         /* updates that were not skipped */
    float loss_scale;         /* 1 if no loss scale is used */
    float growth, backoff;    /* factors of loss_scale: usually 2 and 1/2 */
    uint32_t growth_interval; /* good steps before the scale grows; 0 = it never changes */
    uint32_t good_steps;      /* since the scale last changed */
    uint32_t non_finite;      /* of this step: set if gradients are not finite */
    /* The loss of a training step was not finite. From that step on no update changes anything, so
     * that the host, which reads this later, finds the state before that step. The host clears
     * it. */
    uint32_t halted;
    uint32_t part;    /* micro-batches of this step whose gradients have been added */
    uint64_t skipped; /* updates */
} ff_control;

/* The outcome of a step: an entry of a ring in device memory, copied to the host from time to
 * time. */
typedef struct ff_outcome {
    uint64_t step;
    double loss_sum; /* over the samples that count, not scaled */
    double weight;   /* divisor of the mean loss: the count, or the sum of the labels' class
                      * weights */
    int64_t count, correct;
    int32_t bad_sample;  /* the first whose label is outside [-1, classes); -1 = no such sample */
    int32_t non_finite;  /* 1: loss or gradients were not finite and the update was skipped */
    float loss_scale;    /* used by the step */
    float learning_rate; /* of the first group */
    uint32_t stop;       /* the signal by which a rank was asked to stop; 0 = none */
    uint32_t parts;      /* micro-batches, of all ranks, that were added up; 0 = none were */
} ff_outcome;

/* The step's mean loss times its count: the quantity that adds up over an epoch. */
static inline double ff_outcome_loss(const ff_outcome *outcome) {
    if (!(outcome->weight > 0)) return outcome->loss_sum;
    return outcome->loss_sum * ((double)outcome->count / outcome->weight);
}

#endif
