/* Statistics of a batch norm over the batches of several ranks (ff_norm_ranks): what each rank
 * sends, and the results; the same source for the CPU and the kernels. Ranks are added in their
 * order in f64, so all ranks get the same bits.
 *
 * C and C++. Pure. */
#ifndef FF_TRAIN_NORM_RANKS_H
#define FF_TRAIN_NORM_RANKS_H

#include "train/compute/arguments.h"

/* A channel's number of values `m`, their mean, and the sum of their squared deviations from it. */
typedef struct ff_norm_moments {
    double m, mean, squares;
} ff_norm_moments;

/* A channel's number of values `m`, dbeta and dgamma. */
typedef struct ff_norm_sums {
    double m, sum, products;
} ff_norm_sums;

/* The count of numbers that a rank sends: the number of values per channel, and two numbers for
 * each channel. */
FF_HD size_t ff_norm_told(const ff_norm *norm) {
    return 1 + 2 * (size_t)ff_tensor_padded_channels(&norm->shape);
}

/* Writes what this rank sends for channel c. Without values a mean is 0. */
FF_HD void ff_norm_tell(const ff_norm *norm, int c, double first, double second) {
    const ff_tensor *t = &norm->shape;
    const bool any = t->n > 0;
    if (c == 0) norm->ranks.own[0] = (double)t->n * t->h * t->w;
    norm->ranks.own[1 + c] = any ? first : 0;
    norm->ranks.own[1 + ff_tensor_padded_channels(t) + c] = any ? second : 0;
}

/* T. F. Chan, G. H. Golub, R. J. LeVeque 1979, around the first rank's mean. */
FF_HD ff_norm_moments ff_norm_join_moments(const ff_norm *norm, int c) {
    const size_t told = ff_norm_told(norm), channels = told / 2;
    const double *one = norm->ranks.all, shift = one[1 + c];
    double m = 0, sum = 0, squares = 0;
    for (int r = 0; r < norm->ranks.count; r++, one += told) {
        const double apart = one[1 + c] - shift;
        m += one[0];
        sum += one[0] * apart;
        squares += one[1 + channels + c] + one[0] * apart * apart;
    }
    const double mean = sum / m, rest = squares - sum * mean;
    const ff_norm_moments joined = {m, shift + mean, rest < 0 ? 0 : rest};
    return joined;
}

FF_HD ff_norm_sums ff_norm_join_sums(const ff_norm *norm, int c) {
    const size_t told = ff_norm_told(norm), channels = told / 2;
    const double *one = norm->ranks.all;
    ff_norm_sums joined = {0, 0, 0};
    for (int r = 0; r < norm->ranks.count; r++, one += told) {
        joined.m += one[0];
        joined.sum += one[1 + c];
        joined.products += one[1 + channels + c];
    }
    return joined;
}

#endif
