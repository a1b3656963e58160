/* Softmax cross-entropy with its gradient, and what a step reports, on the device. */
#ifndef FF_TRAIN_CUDA_KERNELS_LOSS_H
#define FF_TRAIN_CUDA_KERNELS_LOSS_H

#include "train/control.h"
#include "train/cuda/kernels/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef ff_outcome ff_cuda_result; /* a place of the ring */

/* As ff_loss in train/compute.h, mixed labels included. A sample that does not count has loss 0 and
 * gradient 0; so has one whose label, or partner's label, is bad: the rest of the batch is whole,
 * and the record says which was the first. */
typedef struct ff_cuda_loss {
    int n, classes;
    int stride;     /* elements from row to row of logits and gradient: classes padded to 8 */
    ff_dtype dtype; /* of logits */
    ff_dtype gradient_dtype;
    double smoothing;
    bool sum;                /* gradient of the sum; else of the mean over the samples that count */
    const void *logits;      /* [n][stride] */
    const void *labels;      /* [n] */
    ff_dtype label_dtype;    /* FF_I64 or FF_I32 */
    const float *weights;    /* [n] or NULL = all 1 */
    const float *mix;        /* [n] share of the own label, 0 to 1; NULL = all 1 */
    const float *loss_scale; /* device; the gradient is multiplied by it; NULL = 1 */
    void *gradient;          /* [n][stride], pad lanes 0; NULL = not wanted; may be logits where
                                the dtypes are the same */
    ff_cuda_result *ring;    /* [ring_size] device: place *step % ring_size is written: step,
                                loss_sum, count, correct, bad_sample; the rest is set to 0 */
    uint32_t ring_size;
    const uint64_t *step; /* device; NULL = 0 */
} ff_cuda_loss;

/* Bytes of scratch for `n` samples. */
size_t ff_cuda_loss_scratch(int n);
/* Sums in double, in the order of the samples. Reads logits, writes gradient. */
int ff_cuda_loss_run(const ff_cuda_place *place, const ff_cuda_loss *loss, void *scratch);

#ifdef __cplusplus
}
#endif
#endif
