/* The update of all weights, one pass for each optimizer, and the run's control on the device:
 * step, loss scale, flag of non-finite gradients, learning rates by step. The host enqueues the
 * next step without reading any of them. */
#ifndef FF_TRAIN_CUDA_KERNELS_UPDATE_H
#define FF_TRAIN_CUDA_KERNELS_UPDATE_H

#include "train/compute/cuda/kernels/loss.h"
#include "train/compute/optimizers/elements.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a group of parameters is updated: formulas in train/compute/optimizers/elements.h, with the
 * learning rate rates[rate_row][step] * multiplier, and gradients divided by the loss scale. */
typedef struct ff_cuda_group {
    uint32_t rate_row;
    float multiplier; /* of the learning rate */
    ff_hyper hyper;   /* its learning_rate is ignored */
    float ema_decay;  /* ema = decay * ema + (1 - decay) * w, if a segment has an ema */
} ff_cuda_group;

/* One parameter, or adjacent parameters of one group if the group's optimizer needs no norms.
 * count: any; arrays are aligned to 16 bytes (as every parameter in the flat arrays). */
typedef struct ff_cuda_segment {
    uint64_t count;
    uint32_t group;
    uint32_t gradient_dtype; /* ff_dtype: FF_F32, FF_F16, FF_BF16 */
    uint32_t working_dtype;  /* of `working` */
    uint32_t frozen;         /* 1: neither checked nor updated */
    uint32_t adapts;         /* 1: has LARS' and LAMB's ratio */
    const void *gradient;
    float *master;           /* NULL: `working` holds the only weights, rounded after each update */
    float *state[FF_STATES]; /* f32; NULL past the optimizer's states, or SGD without momentum */
    void *working;           /* the weights the net reads; NULL if it reads the masters */
    float *ema;              /* NULL = no average */
} ff_cuda_segment;

/* Segments are split into chunks of FF_CUDA_CHUNK elements, one per block. */
enum { FF_CUDA_CHUNK = 8192 };
typedef struct ff_cuda_chunk {
    uint32_t segment, chunk;
} ff_cuda_chunk;

/* All tables of an update, in device memory. */
typedef struct ff_cuda_update {
    const ff_cuda_segment *segments;
    const ff_cuda_chunk *chunks;
    uint32_t chunk_count;
    const ff_cuda_group *groups;
    uint32_t group_count;
    const float *rates; /* [rows][rate_steps]: learning rates; later steps use the last */
    uint32_t rate_steps;
    ff_control *control;
    /* [chunk_count][2] sums of squares, between launches; NULL: norms are not needed. */
    double *sums;
    /* The factor of the gradients, from the check to the updates; NULL: 1 / loss_scale. */
    float *scale;
    ff_update_options how; /* its arrays are host memory */
    /* The outcome of the step's micro-batches so far, with `scale`; NULL: a step is one batch. */
    ff_outcome *total;
} ff_cuda_update;

/* Host: the number of chunks of `count` segments; fills `chunks` if not NULL. Frozen segments do
 * not have chunks. */
uint32_t ff_cuda_chunks(const ff_cuda_segment *segments, uint32_t count, ff_cuda_chunk *chunks);

/* As in train/compute/compute.h. Bytes per element with 16-bit gradients: 10; for the first
 * micro-batch: 6. */
int ff_cuda_sum_gradients(const ff_cuda_queue *queue, const ff_gradient_sum *sum);
int ff_cuda_outcome_add(const ff_cuda_queue *queue, const ff_cuda_update *update, bool first,
                        ff_outcome *ring, uint32_t ring_size);
int ff_cuda_outcome_join(const ff_cuda_queue *queue, const ff_cuda_update *update,
                         const ff_outcome *ranks, int count, ff_outcome *ring, uint32_t ring_size);
/* control->non_finite = 1 if any gradient is infinite or NaN. If `scale` is not NULL, also sets it:
 * to make the mean over micro-batches, and to clip all gradients by their norm. Reads the
 * gradients. Sums pass from thread to block to partial sums, which are added in the same order in
 * every run. */
int ff_cuda_check(const ff_cuda_queue *queue, const ff_cuda_update *update);
/* Updates every segment of the optimizer `rule`, unless control->non_finite. MUON: muon.h. Bytes
 * per element, with f32 masters and 16-bit gradients and working copies: SGD reads 4 + 4 + 2,
 * writes 4 + 4 + 2 = 20 (28 with an EMA); AdamW 28; LARS, which reads gradients and masters twice,
 * 26; LAMB, which reads masters and state twice, 38. */
int ff_cuda_update_run(const ff_cuda_queue *queue, const ff_cuda_update *update, ff_rule rule);
/* average = decay * average + (1 - decay) * value, unless control->non_finite; aligned to 16 bytes.
 */
int ff_cuda_average(const ff_cuda_queue *queue, const ff_control *control, float decay,
                    uint64_t count, const float *value, float *average);
/* Ends a step: fills the step's entry of the ring (non_finite, loss_scale, learning_rate; ring NULL
 * = no entry), adjusts the loss scale, clears the flag, advances the step. */
int ff_cuda_advance(const ff_cuda_queue *queue, const ff_cuda_update *update, ff_outcome *ring,
                    uint32_t ring_size);

#ifdef __cplusplus
}
#endif
#endif
