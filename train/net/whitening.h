/* Filters that whiten small patches of images, for nets that begin with such a frozen convolution
 * (cifarnet). With the eigenvectors e and eigenvalues v of the patches' covariance (about zero: the
 * images are normalized), the filters are e / sqrt(v + epsilon), then their negatives (K. Jordan
 * 2024, arXiv 2404.00498, section 3.1; D. Page 2019, "How to train your ResNet"). */
#ifndef FF_TRAIN_WHITENING_H
#define FF_TRAIN_WHITENING_H

#include "loader/host/options.h"
#include "train/net/model.h"

/* Images used: the first in the random order of seed 0, epoch 0 (loader/sequence/order.h), for any
 * seed of the run, so that a set has one whitening. */
enum { FF_WHITENING_IMAGES = 5000 };
#define FF_WHITENING_EPSILON 5e-4

/* Eigenvalues, ascending, and eigenvectors, as rows of length 1, of a symmetric matrix [n][n],
 * which is overwritten. Cyclic Jacobi rotations until the off-diagonal is negligible (G. Golub, C.
 * Van Loan, "Matrix Computations", section 8.5). For small matrices; n <= 64. */
void ff_symmetric_eigen(int n, double *matrix, double *values, double *vectors);

/* Adds the products of all pairs of values of each side x side patch of an image [channels][height]
 * [width] to sums [k][k], k = channels * side * side, values in the order channel, row, column. */
void ff_whitening_add(int channels, int height, int width, int side, const float *image,
                      double *sums);
/* filters: [2 k][k], from the covariance sums / patches. sums is overwritten. */
FF_MUST_USE ff_status ff_whitening_filters(int k, double *sums, double patches, double epsilon,
                                           float *filters, ff_error *error);

/* Sets the model's whitening convolution, if the model has one, from a packed set. `resize`: the
 * short side to which samples are resized before they are cropped to the net's size; 0 = not
 * resized. Uses up to `threads` threads. The loader's errors. */
FF_MUST_USE ff_status ff_whiten(ff_model *model, ff_dataset *set, const ff_selection *selection,
                                uint32_t resize, int threads, ff_error *error);

#endif
