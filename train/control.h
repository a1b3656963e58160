/* What lives on the device beside the parameters, so that a run of steps needs no word from the
 * host: how far the run is, the scale of the loss, and what each step found.
 *
 * Plain data, the same for C and for kernels. */
#ifndef FF_TRAIN_CONTROL_H
#define FF_TRAIN_CONTROL_H

#include <stdint.h>

/* Written once by the host, and when it resumes; read when it saves. */
typedef struct ff_control {
    uint64_t step;    /* of the run, from 0; advances by 1 whether or not the update was skipped */
    uint64_t updates; /* not skipped */
    float loss_scale; /* 1 where none is used */
    float growth, backoff;    /* factors of the scale: usually 2 and 1/2 */
    uint32_t growth_interval; /* good steps before it grows; 0 = the scale never changes */
    uint32_t good_steps;      /* since it last changed */
    uint32_t non_finite;      /* of the present step: set where gradients are not finite */
    uint64_t skipped;         /* updates */
} ff_control;

/* What a step found: one place of a ring in device memory, copied to the host now and then. */
typedef struct ff_outcome {
    uint64_t step;
    double loss_sum; /* over the samples that count, not scaled */
    int64_t count, correct;
    int32_t bad_sample;  /* the first whose label is outside [-1, classes); -1 = none */
    int32_t non_finite;  /* 1: the gradients were not finite and the update was skipped */
    float loss_scale;    /* that the step ran with */
    float learning_rate; /* of the first group */
} ff_outcome;

#endif
