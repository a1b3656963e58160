/* Optimizers. Values, gradients and state are flat f32 arrays in the same order (each parameter in
 * the layout that it is held in), so that one pass updates the whole model. Pure except for what it
 * updates. */
#ifndef FF_TRAIN_OPTIMIZERS_H
#define FF_TRAIN_OPTIMIZERS_H

#include <stdbool.h>
#include <stddef.h>

/* As torch.optim.SGD with dampening 0 (its documentation gives the formula):
 *   g = gradient + weight_decay * w;  m = momentum * m + g;
 *   w -= learning_rate * (nesterov ? g + momentum * m : momentum > 0 ? m : g)
 * torch starts with m = g, the same as starting from m = 0. */
typedef struct ff_sgd {
    double learning_rate;
    double momentum; /* in [0, 1) */
    double weight_decay;
    bool nesterov; /* needs momentum > 0 */
} ff_sgd;

/* How a group of parameters is updated: by SGD, or by Muon (muon.h), which reads learning_rate,
 * momentum and nesterov of an ff_sgd and has no weight decay. */
typedef enum ff_rule { FF_RULE_SGD, FF_RULE_MUON } ff_rule;

/* Parameters that are updated alike: those whose name matches an fnmatch(3) pattern. */
typedef struct ff_group {
    const char *names; /* "*.bias"; "*" = all */
    ff_rule rule;
} ff_group;

/* Updates `count` values; all pointers 64-byte aligned. Runs on the caller's OpenMP threads.
 * Every element is computed alone: the result does not depend on the number of threads. */
void ff_sgd_update(const ff_sgd *sgd, size_t count, float *value, float *momentum,
                   const float *gradient);

#endif
