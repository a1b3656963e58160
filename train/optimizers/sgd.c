#include "train/optimizers/optimizers.h"

#include "train/cpu/vector.h"

/* Floats that one thread updates at a time: three such arrays stay in the L1 cache. */
enum { SPAN = 2048 };

typedef struct factors {
    float rate, momentum, decay;
} factors;

FF_VECTOR_CLONES
static void update_plain(const factors *f, size_t count, float *restrict value,
                         float *restrict momentum, const float *restrict gradient) {
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i] + f->decay * value[i];
        float m = f->momentum * momentum[i] + g;
        momentum[i] = m;
        value[i] -= f->rate * m;
    }
}

FF_VECTOR_CLONES
static void update_nesterov(const factors *f, size_t count, float *restrict value,
                            float *restrict momentum, const float *restrict gradient) {
    for (size_t i = 0; i < count; i++) {
        float g = gradient[i] + f->decay * value[i];
        float m = f->momentum * momentum[i] + g;
        momentum[i] = m;
        value[i] -= f->rate * (g + f->momentum * m);
    }
}

void ff_sgd_update(const ff_sgd *sgd, size_t count, float *value, float *momentum,
                   const float *gradient) {
    const factors f = {(float)sgd->learning_rate, (float)sgd->momentum, (float)sgd->weight_decay};
#pragma omp parallel for schedule(static)
    for (size_t from = 0; from < count; from += SPAN) {
        size_t length = count - from < SPAN ? count - from : SPAN;
        if (sgd->nesterov)
            update_nesterov(&f, length, value + from, momentum + from, gradient + from);
        else
            update_plain(&f, length, value + from, momentum + from, gradient + from);
    }
}
