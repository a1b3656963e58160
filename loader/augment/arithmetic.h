/* Logarithm, exponential and rounding with + - * / only: the same bits on every host and device,
 * which math libraries do not guarantee. Series and argument reduction are the textbook's (J.-M.
 * Muller, "Elementary Functions", 3rd ed., sections 4.2 and 11.1). Compiled without fused
 * multiply-adds. Thread rule: everything here is pure. */
#ifndef FF_LOADER_AUGMENT_ARITHMETIC_H
#define FF_LOADER_AUGMENT_ARITHMETIC_H

#include "loader/sequence/philox.h"

#define FF_LN2_HIGH 0x1.62e42fefa3800p-1 /* its products with small integers are exact */
#define FF_LN2_LOW  0x1.ef35793c76730p-45

/* e^x for |x| <= 100, within 2 units in the last place: x = k ln 2 + r with |r| <= ln 2 / 2, and
 * Taylor's series of r. */
FF_HD double ff_exp(double x) {
    int k = (int)(x * 1.4426950408889634 + (x < 0 ? -0.5 : 0.5));
    double r = (x - k * FF_LN2_HIGH) - k * FF_LN2_LOW, sum = 1;
    for (int n = 14; n > 0; n--) sum = 1 + r * sum / n;
    for (; k > 0; k--) sum *= 2;
    for (; k < 0; k++) sum *= 0.5;
    return sum;
}

/* ln x for 2^-100 <= x <= 2^100, within 2 units in the last place (near 1: of 2^-52): x = 2^k m
 * with m about 1, s = (m - 1) / (m + 1), ln m = 2 (s + s^3 / 3 + s^5 / 5 + ...). */
FF_HD double ff_log(double x) {
    int k = 0;
    for (; x > 1.4142135623730951; x *= 0.5) k++;
    for (; x < 0.7071067811865476; x *= 2) k--;
    double s = (x - 1) / (x + 1), square = s * s, sum = 0;
    for (int n = 25; n > 0; n -= 2) sum = 1.0 / n + square * sum;
    return k * FF_LN2_HIGH + (k * FF_LN2_LOW + 2 * s * sum);
}

/* 0 <= x < 2^62 to the nearest integer, halves to the even one, as Python's round. */
FF_HD int64_t ff_round_even(double x) {
    int64_t low = (int64_t)x;
    double rest = x - (double)low;
    return low + (rest > 0.5 || (rest == 0.5 && (low & 1)));
}

#endif
