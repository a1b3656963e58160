/* State on the device next to the parameters, so that steps run without the host: the step's
 * number, the loss scale, and the outcome of each step.
 *
 * Plain data, shared by C and kernels. */
#ifndef FF_TRAIN_CONTROL_H
#define FF_TRAIN_CONTROL_H

#include <stdint.h>

/* Written by the host at the start and when it resumes; read when it saves. */
typedef struct ff_control {
    uint64_t step;            /* of the run, from 0; also counts steps whose update was skipped */
    uint64_t updates;         /* not skipped */
    float loss_scale;         /* 1 where none is used */
    float growth, backoff;    /* factors of loss_scale: usually 2 and 1/2 */
    uint32_t growth_interval; /* good steps before the scale grows; 0 = it never changes */
    uint32_t good_steps;      /* since the scale last changed */
    uint32_t non_finite;      /* of this step: set where gradients are not finite */
    /* The loss of a training step was not finite: no update changes anything from that step on, so
     * that the host, which hears of it later, finds what the step began with. The host clears it.
     */
    uint32_t halted;
    uint32_t part;    /* micro-batches of this step whose gradients have been added */
    uint64_t skipped; /* updates */
} ff_control;

/* The outcome of a step: an entry of a ring in device memory, copied to the host from time to time.
 */
typedef struct ff_outcome {
    uint64_t step;
    double loss_sum; /* over the samples that count, not scaled */
    double weight;   /* what makes its mean: the count, or the sum of the labels' class weights */
    int64_t count, correct;
    int32_t bad_sample;  /* the first whose label is outside [-1, classes); -1 = none */
    int32_t non_finite;  /* 1: loss or gradients were not finite and the update was skipped */
    float loss_scale;    /* used by the step */
    float learning_rate; /* of the first group */
    uint32_t stop;       /* a rank was asked to stop by this signal; 0 = none */
    uint32_t parts;      /* micro-batches, of all ranks, that were added up; 0 = none was */
} ff_outcome;

/* The step's mean loss times its count: what adds up over an epoch. */
static inline double ff_outcome_loss(const ff_outcome *outcome) {
    if (!(outcome->weight > 0)) return outcome->loss_sum;
    return outcome->loss_sum * ((double)outcome->count / outcome->weight);
}

#endif
