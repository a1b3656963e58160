/* Muon (K. Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"; as in K.
 * Jordan's cifar10-airbench). The update of a filter bank is the momentum's matrix with its
 * singular values moved close to 1; the weights keep their norm. With W, m, g as matrices [rows =
 * output channels][columns = taps * input channels]:
 *   m = momentum * m + g;  u = nesterov ? g + momentum * m : m
 *   X = u / (|u| + 1e-7), |.| the root of the sum of squares; then three times
 *     A = X X';  B = b A + c A A;  X = a X + B X      (a, b, c = 3.4445, -4.7750, 2.0315)
 *   on X' if there are more rows than columns
 *   W = W * sqrt(rows) / |W| - learning_rate * X
 * Pure except for what is updated; the product decides the threads. */
#ifndef FF_TRAIN_OPTIMIZERS_MUON_H
#define FF_TRAIN_OPTIMIZERS_MUON_H

#include <stdbool.h>
#include <stddef.h>

/* The quintic's coefficients, and the number of times it is applied. */
#define FF_MUON_A     3.4445f
#define FF_MUON_B     -4.7750f
#define FF_MUON_C     2.0315f
#define FF_MUON_STEPS 3

typedef struct ff_muon {
    double learning_rate;
    double momentum;
    bool nesterov;
    /* u, X / |X| and every result of a matrix product are rounded to bf16, as on a GPU; the sums
     * inside a product are not. false: f32 throughout. */
    bool bf16;
} ff_muon;

/* c = alpha * a b + beta * c, or a b' if `transposed`; a: [m][k], b: [k][n] or [n][k], c: [m][n],
 * row-major. */
typedef void (*ff_matrix_product)(void *context, bool transposed, size_t m, size_t n, size_t k,
                                  float alpha, const float *a, const float *b, float beta,
                                  float *c);

/* m = momentum * m + g, and u, over `count` values in any order; g = scale * gradient. u may be
 * the gradient. */
void ff_muon_momentum(const ff_muon *muon, float scale, size_t count, float *momentum,
                      const float *gradient, float *u);
/* u: [rows][columns] becomes X; `room`: scratch of ff_muon_room(rows, columns) floats. */
size_t ff_muon_room(size_t rows, size_t columns);
void ff_muon_orthogonalise(const ff_muon *muon, size_t rows, size_t columns, float *u, float *room,
                           ff_matrix_product product, void *context);
/* W = W * sqrt(rows) / |W| - learning_rate * x, over `count` values in any order, padding zero. */
void ff_muon_apply(const ff_muon *muon, size_t rows, size_t count, float *value, const float *x);

#endif
