/* Tensors, and the arguments that entries of the compute table (compute.h) and the launchers of
 * CUDA kernels (cuda/kernels/) have in common. C and C++.
 *
 * A tensor is f32, f16 or bf16, in device memory, with the layout of its ff_tensor:
 *   element (n, c, h, w) at ((n * blocks + c / block) * H * W + h * W + w) * block + c % block,
 *   blocks = ceil(C / block).
 * block 1 is NCHW. block >= C is NHWC (CUDA: C up to a multiple of 8). block 8 or 16 is oneDNN's
 * nChw8c or nChw16c. Channels past C in the last block are padding: they are always zero, and every
 * entry keeps them zero. Per-channel arrays (gamma, mean, bias, ...) are f32 for any dtype of
 * activations. They have ff_tensor_padded_channels(t) floats, zero past C. */
#ifndef FF_TRAIN_ARGUMENTS_H
#define FF_TRAIN_ARGUMENTS_H

#include "format/disk/dtype.h"
#include "loader/sequence/philox.h"
#include "train/compute/control.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- tensors ---- */

typedef struct ff_tensor {
    int n, c, h, w; /* samples, channels, rows, columns: all at least 1 */
    int block;      /* adjacent channels of a pixel */
} ff_tensor;

FF_HD int ff_tensor_blocks(const ff_tensor *t) {
    return (t->c + t->block - 1) / t->block;
}
FF_HD int ff_tensor_padded_channels(const ff_tensor *t) {
    return ff_tensor_blocks(t) * t->block;
}
/* The elements of one sample, and of all samples, padding included. */
static inline size_t ff_tensor_sample(const ff_tensor *t) {
    return (size_t)ff_tensor_padded_channels(t) * (size_t)t->h * (size_t)t->w;
}
static inline size_t ff_tensor_count(const ff_tensor *t) {
    return (size_t)t->n * ff_tensor_sample(t);
}
static inline size_t ff_tensor_at(const ff_tensor *t, int n, int c, int h, int w) {
    size_t plane = (size_t)n * (size_t)ff_tensor_blocks(t) + (size_t)(c / t->block);
    size_t pixel = (size_t)h * (size_t)t->w + (size_t)w;
    return (plane * (size_t)t->h * (size_t)t->w + pixel) * (size_t)t->block +
           (size_t)(c % t->block);
}

/* A layer of its own, or fused into a batch norm. RELU6 is min(max(z, 0), 6); its slope is 1
 * between 0 and 6, and 0 at both, as in torch. GELU (Hendrycks & Gimpel 2016, arXiv 1606.08415) is
 * the exact form with erf, torch's default: z * Phi(z), Phi(z) = (1 + erf(z / sqrt 2)) / 2; its
 * derivative is Phi(z) + z exp(-z^2 / 2) / sqrt(2 pi). */
typedef enum ff_activation {
    FF_ACTIVATION_NONE,
    FF_ACTIVATION_RELU,
    FF_ACTIVATION_RELU6,
    FF_ACTIVATION_GELU
} ff_activation;

/* Whether the derivative is computed from the output, so that the input need not be kept. */
static inline bool ff_activation_sees_output(ff_activation activation) {
    return activation == FF_ACTIVATION_RELU || activation == FF_ACTIVATION_RELU6;
}

/* Batch norm (Ioffe & Szegedy 2015, arXiv 1502.03167), then an optional add, then an optional
 * activation, in one pass: y = activation(gamma * (x - mean) * inv_std + beta + residual). Only
 * ReLU, or no activation, takes a residual. Training: mean and biased variance over (n, h, w);
 * running = (1 - momentum) * running + momentum * (mean | variance * m / (m - 1)) as in torch; mean
 * and inv_std are written for the backward pass. Held: training also uses the running statistics
 * and leaves them unchanged; mean and inv_std are written from them. Evaluation: running
 * statistics; mean and inv_std are not written. */
/* Statistics over the batches of all ranks of a job, as in torch.nn.SyncBatchNorm. Each rank sends
 * its number of values per channel, which may be 0 (n = 0), and two numbers per channel: in the
 * forward pass the mean and the sum of squared deviations from the mean, in the backward pass dbeta
 * and dgamma (norm_ranks.h). `m` below counts the values of all ranks; dgamma and dbeta stay sums
 * over this rank's batch. */
typedef struct ff_norm_ranks {
    int count;   /* 0: the statistics are those of this batch alone */
    double *own; /* [1 + 2 * padded channels], on the device */
    double *all; /* [count][1 + 2 * padded channels] */
} ff_norm_ranks;

typedef struct ff_norm {
    ff_tensor shape; /* of x, y, residual and their gradients */
    ff_activation activation;
    float momentum, epsilon;           /* of this layer */
    bool held;                         /* the running statistics are used and do not change */
    const float *gamma, *beta;         /* [padded channels] */
    float *running_mean, *running_var; /* [padded channels] */
    float *mean, *inv_std;             /* [padded channels]; of the batch */
    const void *x, *residual;          /* residual may be NULL */
    /* FF_FUSE_NORM_ADD: what is added is not the residual but this norm of it, which has no
     * activation, rounded; in training its statistics exist already. NULL = the residual itself. */
    const struct ff_norm *residual_norm;
    void *y;       /* may be x in evaluation; FF_FUSE_NORM_ADD: NULL = y is not computed */
    uint8_t *mask; /* norm_mask bytes: training writes them, backward reads them; NULL = no mask */
    /* Training: the sums of x and x * x, [2][padded channels], if the operation that made x has
     * computed them (FF_FUSE_CONV_STATISTICS); else NULL. `counted`: mean, inv_std and the running
     * statistics are computed already (FF_FUSE_POOL_STATISTICS). */
    const float *sums;
    bool counted;
    ff_norm_ranks ranks; /* of training, if not held */
} ff_norm;

/* Max: the first largest value of each window; NaN counts as the largest; padding never wins.
 * Average: divides by kernel_h * kernel_w, and padding counts as zero (torch's default). Adaptive
 * average (torch's AdaptiveAvgPool2d): the mean of rows [floor(p H / P), ceil((p + 1) H / P)) for
 * row p of P, the same for columns; kernel, stride and pad are not used. */
typedef struct ff_pool {
    ff_tensor input, output; /* same n, c, block */
    int kernel_h, kernel_w, stride, pad;
    bool max;
    bool adaptive; /* average only */
} ff_pool;

/* A max pool whose windows do not overlap: each element of the input is in one window or in none.
 */
static inline bool ff_pool_tiles(const ff_pool *pool) {
    return pool->max && pool->kernel_h == pool->stride && pool->kernel_w == pool->stride &&
           !pool->pad;
}

/* With g = (dy + dy2) times the activation's derivative (ReLU: 1 where y > 0, else 0): dbeta = sum
 * g, dgamma = sum g * xhat, dx = gamma * inv_std * (g - dbeta / m - xhat * dgamma / m), dresidual =
 * g. With held statistics: dx = gamma * inv_std * g. With a pool, dx, rounded, is passed on to the
 * largest values of the pool's windows: dx becomes the gradient of the pool's input. */
typedef struct ff_norm_backward {
    ff_norm forward; /* of the forward pass; y is only read with ReLU and a residual but no mask */
    const void *dy;
    const void *dy2; /* a second gradient of y, added; NULL = none */
    void *dx;        /* may be dy if dresidual is NULL */
    void *dresidual; /* may be dy; NULL if there was no residual */
    float *dgamma;   /* NULL: gamma is not trained */
    float *dbeta;    /* NULL: beta is not trained */
    /* FF_FUSE_POOL_STATISTICS: the pool that made forward.x, which tiles, and its index; NULL = dx
     * is the gradient of forward.x. Not with dresidual; dx must not be dy. */
    const ff_pool *pool;
    const uint8_t *index;
} ff_norm_backward;

/* Element e = ((n * C + c) * H + h) * W + w, where n also counts the samples of earlier
 * micro-batches of the same step, is kept if ff_random_unit(word e % 4 of ff_philox_draw(seed,
 * FF_DOMAIN_DROPOUT, *step, e / 4, layer)) >= probability. Kept elements are scaled by 1 / (1 -
 * probability). The backward pass applies the same mask and scale to the gradient. */
typedef struct ff_dropout {
    ff_tensor shape;
    double probability; /* in [0, 1) */
    uint64_t seed;
    uint32_t layer;
    const uint64_t *step; /* only its low 32 bits are used */
    const uint32_t *part; /* earlier micro-batches of this step; NULL = none */
    /* The rows of a micro-batch over all ranks (0 = those of x), and the number of them before x's
     * first row: a row's mask follows from its place in the global batch. */
    uint64_t rows, first_row;
} ff_dropout;

/* BCE: binary cross entropy of every class's logit; its mean over the classes or their sum. */
typedef enum ff_loss_kind { FF_LOSS_CROSS_ENTROPY, FF_LOSS_BCE, FF_LOSS_BCE_SUM } ff_loss_kind;

typedef struct ff_loss_form {
    ff_loss_kind kind;
    double threshold; /* of BCE: targets above it become 1, others 0; negative: no target does */
} ff_loss_form;

/* Softmax cross-entropy, sums in double, in the order of the samples:
 *   loss_n = (1 - smoothing) * -log p[label] + smoothing / classes * sum over c of -log p[c].
 * A sample counts if its label >= 0 and its weight is not 0. With class weights w every -log p[c]
 * has the factor w[c], and the mean divides by the sum of w[label], as in torch's
 * CrossEntropyLoss(weight=w).
 *
 * With mix (mixup, cutmix: H. Zhang et al. 2018, S. Yun et al. 2019) sample n also has the label of
 * sample n ^ 1, with weight 1 - mix[n]:
 *   loss_n = mix[n] * CE(label[n]) + (1 - mix[n]) * CE(label[n ^ 1]), CE as above
 * (with class weights the mean divides by the count). This is torch's cross_entropy of the soft
 * target mix[n] * onehot(label[n]) + (1 - mix[n]) * onehot(label[n ^ 1]) with the same
 * label_smoothing. If mix[n] is 1, nothing is read at n ^ 1 (the last sample of an odd batch has no
 * partner); otherwise a sample counts only if its partner's label is >= 0, too. The prediction is
 * compared with the label of the larger weight, and with the sample's own label if the weights are
 * equal.
 *
 * BCE takes the same smoothed and mixed target t, then ff_loss_target's threshold:
 *   loss_n = sum over c of w[c] * (max(x[c], 0) - x[c] t[c] + log(1 + exp(-|x[c]|))),
 * divided by `classes` for the mean, as torch's binary_cross_entropy_with_logits(weight=w) and
 * timm's BinaryCrossEntropy(smoothing, target_threshold, sum_classes) compute it. The mean over the
 * samples divides by their count. */
typedef struct ff_loss {
    int n, classes;
    ff_loss_form form;
    double smoothing;
    double divisor;             /* of the gradient; 0 = that of the mean, 1 = of the sum */
    int stride;                 /* elements from one row to the next, in logits and gradient */
    const float *logits;        /* [n][stride], f32 for any dtype of activations */
    const void *labels;         /* [n] */
    ff_dtype label_dtype;       /* FF_I64 or FF_I32 */
    const float *weights;       /* [n] or NULL = all 1 */
    const float *mix;           /* [n] share of the own label, 0 to 1; NULL = all 1 */
    const float *class_weights; /* [classes], >= 0; NULL = all 1 */
    /* [n][stride] of the compute's dtype: (p - target) / divisor, with class weights (p * (sum over
     * c of w[c] target[c]) - w target) / divisor; of BCE w * (sigmoid(x) - target) / divisor, for
     * the mean also / classes; zero past `classes`. NULL = not computed. May be logits if both have
     * the same dtype. */
    void *gradient;
    void *scratch; /* loss_scratch bytes */
    /* The loss writes step, loss_sum, count, correct and bad_sample of ring[step % ring_size], and
     * zeroes the rest of this entry. control NULL: step 0, loss_scale 1. Otherwise the gradient is
     * multiplied by control's loss_scale (if activations are 16-bit; f32 tables may treat the scale
     * as 1), and `halted` is set if loss_sum is not finite. */
    ff_outcome *ring;
    uint32_t ring_size;
    ff_control *control;
} ff_loss;

/* What BCE wants of the logit of a class that has this share of the label. */
FF_HD double ff_loss_target(const ff_loss *loss, double share) {
    const double target = loss->smoothing / loss->classes + (1.0 - loss->smoothing) * share;
    return loss->form.threshold < 0 ? target : (double)(target > loss->form.threshold);
}

/* Shifts and mirrors a batch of images: y[n, c, i, j] = x[n, c, i + down, j' + right],
 * j' = w - 1 - j where `mirror`, else j; pixels outside are reflected without the edge (torch's
 * "reflect"), so |down| < h and |right| < w. */
typedef struct ff_image_view {
    ff_tensor shape;
    int down, right;
    bool mirror;
} ff_image_view;

/* sums = (first ? 0 : sums) + w * gradient; w is `weight`, or, if `weight` is 0, the weight in the
 * step's entry of the ring; else ring and control may be NULL. */
typedef struct ff_gradient_sum {
    size_t count; /* of the CUDA table a multiple of 16; all memory is aligned to 64 bytes */
    const void *gradient;
    ff_dtype dtype;
    float *sums;
    bool first;
    float weight;
    const ff_outcome *ring;
    uint32_t ring_size;
    const ff_control *control;
} ff_gradient_sum;

#endif
