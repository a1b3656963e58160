/* Parameters of mixup and cutmix: golden values, the distribution of weights, torchvision's
 * boxes. */
#include "format/base/bytes.h"
#include "loader/augment/augment.h"
#include "tests/unit/check.h"

#include <math.h>
#include <stdlib.h>

static void golden_values(void **state) {
    (void)state;
    static const struct {
        double mixup, cutmix;
        uint64_t seed, pair;
        uint32_t epoch, height, width;
        uint32_t weight; /* bits of the float */
        int box[5];      /* cutmix; y, x, height, width */
    } wanted[] = {
        {1, 0, UINT64_C(0), UINT64_C(0), 0, 32, 32, 0x3f6dd2bf, {0, 0, 0, 0, 0}},
        {0.2, 0, UINT64_C(0x1), UINT64_C(24999), 7, 32, 32, 0x3a20acb2, {0, 0, 0, 0, 0}},
        {0, 1, UINT64_C(0), UINT64_C(0), 0, 32, 32, 0x3f7a0000, {1, 0, 0, 6, 4}},
        {0, 1, UINT64_C(0x1), UINT64_C(3), 0, 224, 160, 0x3ee22be3, {1, 60, 11, 164, 122}},
        {0.4,
         1,
         UINT64_C(0x123456789abcdef),
         UINT64_C(549755813893),
         100000,
         224,
         224,
         0x3f64ce5e,
         {1, 5, 0, 82, 65}},
        {0.4, 1, UINT64_C(0x2), UINT64_C(1), 1, 224, 224, 0x3b90c440, {0, 0, 0, 0, 0}},
        {0.01, 0, UINT64_C(0x5), UINT64_C(6), 7, 1, 1, 0x3f800000, {0, 0, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        ff_mix found = ff_mix_at(wanted[i].mixup, wanted[i].cutmix, wanted[i].seed, wanted[i].epoch,
                                 wanted[i].pair, wanted[i].height, wanted[i].width);
        assert_int_equal(ff_float_bits(found.weight), wanted[i].weight);
        const int box[] = {(int)found.cutmix, found.y, found.x, found.height, found.width};
        assert_memory_equal(box, wanted[i].box, sizeof box);
    }
}

static void sine(void **state) {
    (void)state;
    for (int i = -1000; i <= 1000; i++) {
        double x = i / 2000.0;
        assert_true(fabs(ff_sin_pi(x) - sin(3.141592653589793 * x)) < 4e-16);
    }
}

/* The share of Beta(a, a) up to x <= 1/2: x^a (1 - x)^a / (a B(a, a)) * the sum over n of
 * x^n (2a)(2a + 1)...(2a + n - 1) / ((a + 1)...(a + n)) (M. Abramowitz, I. Stegun, 26.5.8). */
static double beta_share(double a, double x) {
    double term = 1, sum = 0;
    for (int n = 0; n < 300; n++) {
        sum += term;
        term *= (2 * a + n) / (a + 1 + n) * x;
    }
    return pow(x * (1 - x), a) * sum * tgamma(2 * a) / (tgamma(a) * tgamma(a + 1));
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Kolmogorov and Smirnov's largest distance from the true distribution, and the first moments. */
static void distribution(void **state) {
    (void)state;
    enum { COUNT = 40000 };
    static const double alphas[] = {0.01, 0.1, 0.2, 0.4, 0.5, 1, 1.5, 2, 8, 40};
    double *x = malloc(COUNT * sizeof *x);
    assert_non_null(x);
    for (size_t k = 0; k < sizeof alphas / sizeof alphas[0]; k++) {
        const double a = alphas[k];
        double mean = 0, variance = 0, far = 0;
        for (int i = 0; i < COUNT; i++) {
            ff_random d = ff_philox_draw(99, FF_DOMAIN_MIX, (uint32_t)k, (uint64_t)i, 0);
            x[i] = ff_beta(a, d.word[0], d.word[1]);
            assert_true(x[i] >= 0 && x[i] <= 1);
            mean += x[i] / COUNT;
            variance += (x[i] - 0.5) * (x[i] - 0.5) / COUNT;
        }
        qsort(x, COUNT, sizeof *x, compare_doubles);
        for (int i = 0; i < COUNT; i++) {
            /* Beyond doubles' precision: at alpha 0.01 a third is below 1e-17. */
            if (x[i] < 1e-9 || x[i] > 1 - 1e-9) continue;
            double share = x[i] <= 0.5 ? beta_share(a, x[i]) : 1 - beta_share(a, 1 - x[i]);
            far = fmax(far, fmax(fabs(share - (double)i / COUNT), fabs(share - (i + 1.0) / COUNT)));
        }
        /* 99.9 % of samples of the true distribution are nearer */
        if (far > 1.95 / sqrt(COUNT)) fail_msg("alpha %g: distance %g", a, far);
        assert_true(fabs(mean - 0.5) < 4 * sqrt(0.25 / (2 * a + 1) / COUNT));
        assert_true(fabs(variance * 4 * (2 * a + 1) - 1) < 0.05);
    }
    free(x);
    /* The smallest and the largest word. */
    static const uint32_t words[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};
    for (int i = 0; i < 25; i++)
        for (size_t k = 0; k < sizeof alphas / sizeof alphas[0]; k++) {
            double b = ff_beta(alphas[k], words[i / 5], words[i % 5]);
            assert_true(b >= 0 && b <= 1);
        }
}

/* torchvision 0.16, transforms/v2/_augment.py, CutMix._get_params, with the same draws. */
static void boxes_are_torchvisions(void **state) {
    (void)state;
    int empty = 0, whole = 0;
    for (uint32_t i = 0; i < 20000; i++) {
        const uint32_t h = 1 + i * 7 % 61, w = 1 + i * 13 % 83;
        const double alpha = (const double[]){0.01, 0.3, 1, 5}[i % 4];
        ff_mix mix = ff_mix_at(0, alpha, 3, i, 5 * (uint64_t)i, h, w);
        ff_random d = ff_philox_draw(3, FF_DOMAIN_MIX, i, 5 * (uint64_t)i, 0);
        double lam = ff_beta(alpha, d.word[0], d.word[1]);
        int r_x = (int)((uint64_t)d.word[3] * w >> 32), r_y = (int)((uint64_t)d.word[2] * h >> 32);
        double r = 0.5 * sqrt(1.0 - lam);
        int r_w_half = (int)(r * w), r_h_half = (int)(r * h);
        int x1 = r_x - r_w_half < 0 ? 0 : r_x - r_w_half;
        int y1 = r_y - r_h_half < 0 ? 0 : r_y - r_h_half;
        int x2 = r_x + r_w_half > (int)w ? (int)w : r_x + r_w_half;
        int y2 = r_y + r_h_half > (int)h ? (int)h : r_y + r_h_half;
        double lam_adjusted = 1.0 - (double)((x2 - x1) * (y2 - y1)) / (double)(w * h);
        assert_int_equal(mix.cutmix, 1);
        assert_int_equal(mix.x, x1);
        assert_int_equal(mix.y, y1);
        assert_int_equal(mix.width, x2 - x1);
        assert_int_equal(mix.height, y2 - y1);
        assert_true(mix.weight == (float)lam_adjusted);
        empty += mix.weight == 1, whole += mix.weight == 0;
    }
    assert_true(empty > 100 && whole > 0);
}

/* Both: each pair gets one of them, about equally often; rows of a pair are alike, and a row
 * without a partner is left alone. */
static void pairs(void **state) {
    (void)state;
    ff_augment_spec spec;
    int count[2] = {0};
    assert_ok(ff_augment_parse(&spec, "mixup=0.2,cutmix", error));
    for (uint64_t pair = 0; pair < 4000; pair++) {
        ff_augment_params a = ff_augment_at(&spec, 1, 2, 10 + pair, 32, 32, 32, 32), b = a;
        ff_augment_mix(&spec, &a, 1, 2, pair, 32, 32);
        ff_augment_mix(&spec, &b, 1, 2, pair, 32, 32);
        assert_memory_equal(&a, &b, sizeof a);
        const uint32_t how = a.flags & (FF_AUGMENT_MIXUP | FF_AUGMENT_CUTMIX);
        assert_true(a.weight == 1.0f ? how == 0
                                     : how == FF_AUGMENT_MIXUP || how == FF_AUGMENT_CUTMIX);
        if (how) count[how == FF_AUGMENT_CUTMIX]++;
    }
    assert_in_range(count[0], 1800, 2200);
    assert_in_range(count[1], 1600, 2200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_values),          cmocka_unit_test(sine),
        cmocka_unit_test(distribution),           cmocka_unit_test(pairs),
        cmocka_unit_test(boxes_are_torchvisions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
