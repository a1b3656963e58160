#include "train/compute/optimizers/muon.h"

#include "format/disk/dtype.h"
#include "train/compute/optimizers/optimizers.h"

#include <math.h>
#include <string.h>

static float rounded(float value) {
    return ff_f32_from_bf16(ff_bf16_from_f32(value));
}

static void round_all(const ff_muon *muon, size_t count, float *values) {
    for (size_t i = 0; muon->bf16 && i < count; i++) values[i] = rounded(values[i]);
}

static double norm_of(size_t count, const float *values) {
    double squares = 0;
    for (size_t i = 0; i < count; i++) squares += (double)values[i] * (double)values[i];
    return sqrt(squares);
}

static void transpose(size_t rows, size_t columns, const float *from, float *to) {
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) to[c * rows + r] = from[r * columns + c];
}

void ff_muon_momentum(const ff_muon *muon, float scale, size_t count, float *momentum,
                      const float *gradient, float *u) {
    const float keep = (float)muon->momentum;
    for (size_t i = 0; i < count; i++) {
        const float g = scale * gradient[i];
        momentum[i] = keep * momentum[i] + g;
        u[i] = muon->nesterov ? g + keep * momentum[i] : momentum[i];
    }
}

size_t ff_muon_room(size_t rows, size_t columns) {
    size_t least = rows < columns ? rows : columns;
    return 2 * rows * columns + 2 * least * least;
}

void ff_muon_orthogonalise(const ff_muon *muon, size_t rows, size_t columns, float *u, float *room,
                           ff_matrix_product product, void *context) {
    const bool tall = rows > columns;
    const size_t m = tall ? columns : rows, n = tall ? rows : columns, count = rows * columns;
    float *x = room, *next = x + count, *a = next + count, *b = a + m * m;
    round_all(muon, count, u);
    const float scale = (float)(1.0 / (norm_of(count, u) + 1e-7));
    if (tall)
        transpose(rows, columns, u, x);
    else
        memcpy(x, u, count * sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] *= scale;
    round_all(muon, count, x);
    for (int step = 0; step < FF_MUON_STEPS; step++) {
        product(context, true, m, m, n, 1, x, x, 0, a);
        round_all(muon, m * m, a);
        memcpy(b, a, m * m * sizeof *b);
        product(context, false, m, m, m, FF_MUON_C, a, a, FF_MUON_B, b);
        round_all(muon, m * m, b);
        memcpy(next, x, count * sizeof *next);
        product(context, false, m, n, m, 1, b, x, FF_MUON_A, next);
        round_all(muon, count, next);
        float *kept = x;
        x = next;
        next = kept;
    }
    if (tall)
        transpose(columns, rows, x, u);
    else
        memcpy(u, x, count * sizeof *u);
}

void ff_muon_apply(const ff_muon *muon, size_t rows, size_t count, float *value, const float *x) {
    const double norm = norm_of(count, value);
    const float factor = norm > 0 ? (float)(sqrt((double)rows) / norm) : 1;
    const float rate = (float)muon->learning_rate;
    for (size_t i = 0; i < count; i++) value[i] = value[i] * factor - rate * x[i];
}

const ff_optimizer ff_optimizer_muon = {
    .name = "muon",
    .title = "Muon",
    .states = 1,
    .state_name = {"momentum_buffer"},
    .norms = true,
    .defaults = {.learning_rate = 0.02,
                 .momentum = 0.95,
                 .nesterov = true,
                 .weight_decay = FF_UNREAD,
                 .beta1 = FF_UNREAD,
                 .beta2 = FF_UNREAD,
                 .epsilon = FF_UNREAD,
                 .trust = FF_UNREAD},
};
