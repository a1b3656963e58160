/* The arithmetic of the optimizers for one element, the same source for the CPU and the kernels: w
 * is the weight, m and v its state, ratio LARS' or LAMB's factor for a whole parameter.
 *
 * C and C++. Pure except for what is updated. */
#ifndef FF_TRAIN_OPTIMIZERS_ELEMENTS_H
#define FF_TRAIN_OPTIMIZERS_ELEMENTS_H

#include "loader/sequence/philox.h"
#include "train/compute/control.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Optimizers: the rows of ff_optimizer_at. */
typedef enum ff_rule {
    FF_RULE_SGD,
    FF_RULE_MUON,
    FF_RULE_ADAMW,
    FF_RULE_LARS,
    FF_RULE_LAMB,
    FF_RULE_COUNT
} ff_rule;

/* The most blocks of state of an optimizer. */
enum { FF_STATES = 2 };

/* The hyperparameters of a group. An optimizer reads those for which its row has a default. */
typedef struct ff_hyper {
    double learning_rate;
    double momentum; /* in [0, 1) */
    double weight_decay;
    bool nesterov;       /* needs momentum > 0 */
    double beta1, beta2; /* in [0, 1): for the means of gradients and of their squares */
    double epsilon;
    double trust; /* LARS: the trust coefficient */
} ff_hyper;

/* How parameters are updated: for the step, the compute tables and the kernels. */
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
    double ema_decay; /* average = decay * average + (1 - decay) * value after each update */
    /* With sums of gradients: the samples of a micro-batch over all ranks, where this rank's
     * samples begin in it, whether gradients are of the sum over a batch
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

/* What an update needs of the hyperparameters, in f32. */
typedef struct ff_factors {
    float scale; /* of the gradients: clipping, and the inverse of the loss scale */
    float rate, decay, momentum;
    bool nesterov;
    float beta1, new1, beta2, new2; /* new = 1 - beta */
    float unbias1, unbias2;         /* 1 / (1 - beta1^t), 1 / sqrt(1 - beta2^t) */
    float shrink;                   /* rate * decay */
    float epsilon, trust;
} ff_factors;

/* By squaring: the same bits everywhere. */
FF_HD double ff_power(double base, uint64_t exponent) {
    double power = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1) power *= base;
    return power;
}

/* `updates`: the number of updates before this one. */
FF_HD ff_factors ff_factors_of(const ff_hyper *hyper, double rate, uint64_t updates, float scale) {
    ff_factors f;
    f.scale = scale;
    f.rate = (float)rate;
    f.decay = (float)hyper->weight_decay;
    f.momentum = (float)hyper->momentum;
    f.nesterov = hyper->nesterov;
    f.beta1 = (float)hyper->beta1;
    f.new1 = (float)(1 - hyper->beta1);
    f.beta2 = (float)hyper->beta2;
    f.new2 = (float)(1 - hyper->beta2);
    f.unbias1 = f.unbias2 = 1;
    if (hyper->beta1 > 0 || hyper->beta2 > 0) {
        f.unbias1 = (float)(1 / (1 - ff_power(hyper->beta1, updates + 1)));
        f.unbias2 = (float)(1 / sqrt(1 - ff_power(hyper->beta2, updates + 1)));
    }
    f.shrink = (float)(rate * hyper->weight_decay);
    f.epsilon = (float)hyper->epsilon;
    f.trust = (float)hyper->trust;
    return f;
}

/* Adds the outcome of a micro-batch to the outcome of its step, and writes the sum into the ring's
 * entry. part_samples: the samples of a micro-batch over all ranks; first_sample: the position of
 * this rank's first sample in it. */
FF_HD void ff_outcome_add(ff_outcome *total, ff_outcome *entry, bool first, uint32_t part,
                          int part_samples, int first_sample) {
    const int before = (int)part * part_samples + first_sample;
    const int bad = entry->bad_sample < 0 ? -1 : entry->bad_sample + before;
    if (!first) {
        entry->loss_sum += total->loss_sum;
        entry->weight += total->weight;
        entry->count += total->count;
        entry->correct += total->correct;
    }
    entry->bad_sample = first || total->bad_sample < 0 ? bad : total->bad_sample;
    entry->stop = 0;
    entry->parts = first ? 1 : total->parts + 1;
    *total = *entry;
}
/* Adds the outcome of later samples of the step. */
FF_HD void ff_outcome_sum(ff_outcome *to, const ff_outcome *later) {
    to->loss_sum += later->loss_sum;
    to->weight += later->weight;
    to->count += later->count;
    to->correct += later->correct;
    to->parts += later->parts;
    if (later->stop > to->stop) to->stop = later->stop;
    if (later->bad_sample >= 0 && (to->bad_sample < 0 || later->bad_sample < to->bad_sample))
        to->bad_sample = later->bad_sample;
}
/* The step's outcome from the outcomes of all ranks, at most 2^FF_OUTCOME_LEVELS - 1, by the tree
 * of train/comm/collective/comm.h. */
enum { FF_OUTCOME_LEVELS = 16 };
FF_HD void ff_outcome_join(const ff_outcome *ranks, int count, ff_outcome *total, ff_outcome *entry,
                           ff_control *control) {
    ff_outcome sums[FF_OUTCOME_LEVELS] = {ranks[0]};
    int top = 0;
    for (int i = 0; i < count; i++) {
        sums[top++] = ranks[i];
        for (int next = i + 1; next % 2 == 0; next /= 2, top--)
            ff_outcome_sum(&sums[top - 2], &sums[top - 1]);
    }
    for (; top > 1; top--) ff_outcome_sum(&sums[top - 2], &sums[top - 1]);
    if (sums->loss_sum - sums->loss_sum != 0) control->halted = control->non_finite = 1;
    *total = *entry = *sums;
}
/* The factor that turns the sum of gradients over micro-batches into the gradient of a mean over
 * the batch. */
FF_HD double ff_sum_factor(const ff_outcome *total, bool summed) {
    return !total || summed || !(total->weight > 0) ? 1 : 1 / total->weight;
}

/* The factor of all gradients, as in torch.nn.utils.clip_grad_norm_. */
FF_HD float ff_clip_factor(double most, double norm) {
    const double factor = most / (norm + 1e-6);
    return factor < 1 ? (float)factor : 1;
}

/* As torch.optim.SGD with dampening 0 (its documentation has the formula):
 *   g = gradient + weight_decay * w;  m = momentum * m + g;
 *   w -= learning_rate * (nesterov ? g + momentum * m : momentum > 0 ? m : g)
 * torch starts with m = g, the same as starting from m = 0. */
FF_HD void ff_sgd_element(const ff_factors *f, float gradient, float *w, float *m) {
    const float g = gradient * f->scale + f->decay * *w;
    *m = f->momentum * *m + g;
    *w -= f->rate * (f->nesterov ? g + f->momentum * *m : *m);
}

FF_HD void ff_moments_element(const ff_factors *f, float gradient, float *m, float *v) {
    const float g = gradient * f->scale;
    *m = f->beta1 * *m + f->new1 * g;
    *v = f->beta2 * *v + f->new2 * g * g;
}

/* As torch.optim.AdamW (I. Loshchilov and F. Hutter 2019, arXiv 1711.05101), t counting updates
 * from 1:
 *   m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g * g;
 *   w = w - learning_rate * weight_decay * w
 *         - learning_rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) */
FF_HD void ff_adamw_element(const ff_factors *f, float gradient, float *w, float *m, float *v) {
    ff_moments_element(f, gradient, m, v);
    *w -= f->shrink * *w + f->rate * (*m * f->unbias1 / (sqrtf(*v) * f->unbias2 + f->epsilon));
}

/* LARS (Y. You, I. Gitman and B. Ginsburg 2017, arXiv 1708.03888), in the form of timm's Lars and
 * of NVIDIA apex' LARC without clipping, which have the learning rate outside the momentum:
 *   ratio = trust * |w| / (|g| + weight_decay * |w| + epsilon), 1 if |w| or |g| is 0;
 *   u = ratio * (g + weight_decay * w);  m = momentum * m + u;
 *   w -= learning_rate * (nesterov ? u + momentum * m : m)
 * with the norms of a whole parameter. For norms and biases the ratio is 1. */
FF_HD float ff_lars_ratio(const ff_factors *f, double weights, double gradients) {
    const double w = sqrt(weights), g = sqrt(gradients) * (double)f->scale;
    if (!(w > 0 && g > 0)) return 1;
    return (float)((double)f->trust * w / (g + (double)f->decay * w + (double)f->epsilon));
}
FF_HD void ff_lars_element(const ff_factors *f, float ratio, float gradient, float *w, float *m) {
    const float u = ratio * (gradient * f->scale + f->decay * *w);
    *m = f->momentum * *m + u;
    *w -= f->rate * (f->nesterov ? u + f->momentum * *m : *m);
}

/* LAMB (Y. You et al. 2020, arXiv 1904.00962), in the form of timm's Lamb and of NVIDIA apex'
 * FusedLAMB with bias correction and averaged gradients (whose clipping is --clip-norm here): m and
 * v as in AdamW,
 *   u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay * w;
 *   ratio = |w| / |u|, 1 if one of them is 0;  w -= learning_rate * ratio * u
 * with the norms of a whole parameter. For norms and biases the ratio is 1. */
FF_HD float ff_lamb_update(const ff_factors *f, float w, float m, float v) {
    return m * f->unbias1 / (sqrtf(v) * f->unbias2 + f->epsilon) + f->decay * w;
}
FF_HD float ff_lamb_ratio(double weights, double updates) {
    return weights > 0 && updates > 0 ? (float)sqrt(weights / updates) : 1;
}

#endif
