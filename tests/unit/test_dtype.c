/* Conversions between element types, against references written from IEEE 754's definition. */
#include "format/disk/dtype.h"
#include "tests/unit/format_set.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The value of a small float: sign, exponent and fraction bits as the standard defines them. */
static double reference_value(uint32_t bits, int exponent_bits, int fraction_bits) {
    uint32_t fraction = bits & ((1u << fraction_bits) - 1);
    uint32_t exponent = bits >> fraction_bits & ((1u << exponent_bits) - 1);
    int bias = (1 << (exponent_bits - 1)) - 1;
    double sign = bits >> (exponent_bits + fraction_bits) ? -1.0 : 1.0;
    if (exponent == (1u << exponent_bits) - 1)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    double value =
        exponent ? 1.0 + ldexp(fraction, -fraction_bits) : ldexp(fraction, -fraction_bits);
    return sign * ldexp(value, (exponent ? (int)exponent : 1) - bias);
}

/* Nearest small float, ties to even, by searching the increasing values 0 .. infinity. */
static uint32_t reference_round(float value, int exponent_bits, int fraction_bits) {
    uint32_t sign = signbit(value) ? 1u << (exponent_bits + fraction_bits) : 0;
    double magnitude = fabs((double)value);
    uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits;
    uint32_t low = 0, high = infinity; /* value(low) <= magnitude < value(high) */
    if (isinf(value)) return sign | infinity;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (reference_value(middle, exponent_bits, fraction_bits) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    double below = reference_value(low, exponent_bits, fraction_bits);
    /* Rounding to infinity is as if the next exponent existed. */
    double above = high == infinity
                       ? below + (below - reference_value(low - 1, exponent_bits, fraction_bits))
                       : reference_value(high, exponent_bits, fraction_bits);
    double down = magnitude - below, up = above - magnitude;
    if (down < up || (down == up && !(low & 1))) return sign | low;
    return sign | high;
}

static void widening_is_exact(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        double half = (double)ff_f32_from_f16((uint16_t)bits);
        double brain = (double)ff_f32_from_bf16((uint16_t)bits);
        double wanted = reference_value(bits, 5, 10), brain_wanted = reference_value(bits, 8, 7);
        assert_true(isnan(wanted) ? isnan(half)
                                  : half == wanted && signbit(half) == signbit(wanted));
        assert_true(isnan(brain_wanted)
                        ? isnan(brain)
                        : brain == brain_wanted && signbit(brain) == signbit(brain_wanted));
    }
}

/* Every 16-bit value, alone and as the last of 37 others, and the edges of f32. */
static void not_finite_is_found(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t row[38] = {0};
        row[37] = (uint16_t)bits;
        bool half = isfinite(reference_value(bits, 5, 10));
        bool brain = isfinite(reference_value(bits, 8, 7));
        assert_true(ff_all_finite(&row[37], FF_F16, 1) == half);
        assert_true(ff_all_finite(row, FF_F16, 38) == half);
        assert_true(ff_all_finite(row, FF_BF16, 38) == brain);
        assert_true(ff_all_finite(row, FF_BF16, 37));
    }
    const float edges[] = {0.0f,     -0.0f,    FLT_MIN,   FLT_TRUE_MIN, FLT_MAX,
                           -FLT_MAX, INFINITY, -INFINITY, NAN,          -NAN};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        float row[19] = {0};
        row[i] = edges[i];
        assert_true(ff_all_finite(row, FF_F32, 19) == isfinite(edges[i]));
    }
    assert_true(ff_all_finite(edges, FF_F32, 6) && ff_all_finite(edges, FF_F32, 0));
}

static void check_narrowing(float value) {
    uint16_t half = ff_f16_from_f32(value), brain = ff_bf16_from_f32(value);
    if (isnan(value)) {
        assert_true((half & 0x7c00) == 0x7c00 && (half & 0x200)); /* quiet */
        assert_true((brain & 0x7f80) == 0x7f80 && (brain & 0x40));
        return;
    }
    if (half != reference_round(value, 5, 10) || brain != reference_round(value, 8, 7))
        fail_msg("%a: f16 %04x, wanted %04x; bf16 %04x, wanted %04x", (double)value, half,
                 reference_round(value, 5, 10), brain, reference_round(value, 8, 7));
#ifdef __FLT16_MANT_DIG__
    _Float16 compiled = (_Float16)value;
    uint16_t bits;
    memcpy(&bits, &compiled, 2);
    assert_int_equal(half, bits);
#endif
}

/* Every value of both types, the midpoints between neighbours, and one f32 step around each. */
static void narrowing_rounds_to_even(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float values[2] = {ff_f32_from_f16((uint16_t)bits), ff_f32_from_bf16((uint16_t)bits)};
        for (int i = 0; i < 2; i++) {
            check_narrowing(values[i]);
            if (!isfinite(values[i])) continue;
            float next =
                i ? ff_f32_from_bf16((uint16_t)(bits + 1)) : ff_f32_from_f16((uint16_t)(bits + 1));
            float middle =
                isfinite(next) ? (float)(((double)values[i] + (double)next) / 2) : values[i];
            check_narrowing(middle);
            check_narrowing(nextafterf(middle, INFINITY));
            check_narrowing(nextafterf(middle, -INFINITY));
        }
    }
    const float edges[] = {65519.996f, 65520.0f, 65536.0f,      FLT_MAX,         FLT_MIN,
                           0x1p-149f,  0x1p-25f, 0x1.8p-25f,    0x1.000002p-25f, 0x1p-24f,
                           0.0f,       -0.0f,    3.3895314e38f, 3.3961776e38f,   -FLT_MAX};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) check_narrowing(edges[i]);
    for (uint64_t i = 0; i < 300000; i++) check_narrowing(ff_bits_float((uint32_t)set_mix(i, 5)));
    for (uint32_t bits = 0x7f800001; bits < 0x7fffffff; bits += 0x1001) {
        check_narrowing(ff_bits_float(bits));
        check_narrowing(ff_bits_float(bits | 0x80000000));
    }
}

/* Arrays of any length convert as single values do. */
static void arrays(void **state) {
    (void)state;
    enum { MOST = 1000 };
    float from[MOST], back[MOST + 1];
    uint16_t to[MOST + 1], short_floats[MOST + 1];
    for (uint64_t i = 0; i < MOST; i++) from[i] = ff_bits_float((uint32_t)set_mix(i, 6));
    for (size_t count = 0; count <= MOST; count += count < 70 ? 1 : 93) {
        for (int dtype = FF_F16; dtype <= FF_BF16; dtype++) {
            to[count] = 0xabcd;
            ff_convert(to, (ff_dtype)dtype, from, FF_F32, count);
            for (size_t i = 0; i < count; i++)
                assert_int_equal(to[i], dtype == FF_F16 ? ff_f16_from_f32(from[i])
                                                        : ff_bf16_from_f32(from[i]));
            assert_int_equal(to[count], 0xabcd);
            back[count] = 7;
            ff_convert(back, FF_F32, to, (ff_dtype)dtype, count);
            for (size_t i = 0; i < count; i++) {
                float wanted = dtype == FF_F16 ? ff_f32_from_f16(to[i]) : ff_f32_from_bf16(to[i]);
                assert_int_equal(ff_float_bits(back[i]), ff_float_bits(wanted));
            }
            assert_true(back[count] == 7);
            const ff_dtype other = dtype == FF_F16 ? FF_BF16 : FF_F16;
            short_floats[count] = 0xabcd;
            ff_convert(short_floats, other, to, (ff_dtype)dtype, count);
            for (size_t i = 0; i < count; i++)
                assert_int_equal(short_floats[i], other == FF_F16 ? ff_f16_from_f32(back[i])
                                                                  : ff_bf16_from_f32(back[i]));
            assert_int_equal(short_floats[count], 0xabcd);
        }
    }
    /* From integers, and between the two short floats. */
    const uint8_t bytes[3] = {0, 1, 255};
    const uint16_t shorts[3] = {0, 2049, 65535};
    const int32_t ints[3] = {-1, 16777217, INT32_MIN};
    const int64_t longs[3] = {-5, INT64_MAX, INT64_C(1) << 40};
    ff_convert(back, FF_F32, bytes, FF_U8, 3);
    assert_true(back[0] == 0 && back[1] == 1 && back[2] == 255);
    ff_convert(to, FF_F16, shorts, FF_U16, 3);
    assert_true(to[0] == 0 && to[1] == 0x6800 && to[2] == 0x7c00); /* 2048 (even), infinity */
    ff_convert(back, FF_F32, ints, FF_I32, 3);
    assert_true(back[0] == -1 && back[1] == 16777216 && back[2] == -0x1p31f);
    ff_convert(back, FF_F32, longs, FF_I64, 3);
    assert_true(back[0] == -5 && back[1] == 0x1p63f && back[2] == 0x1p40f);
    const uint16_t half[2] = {0x3c01, 0x7bff};
    ff_convert(to, FF_BF16, half, FF_F16, 2);
    assert_true(to[0] == 0x3f80 && to[1] == 0x4780);
    ff_convert(to, FF_F16, half, FF_F16, 2);
    assert_memory_equal(to, half, 4);
}

/* Names, sizes, what NumPy calls them, and the dtypes of --dtype's choices. */
static void names(void **state) {
    (void)state;
    static const struct {
        const char *name, *numpy;
        size_t bytes;
        bool is_float;
    } wanted[FF_DTYPE_COUNT] = {
        [FF_U8] = {"u8", "|u1", 1, false},   [FF_U16] = {"u16", "<u2", 2, false},
        [FF_F16] = {"f16", "<f2", 2, true},  [FF_BF16] = {"bf16", "<u2", 2, true},
        [FF_F32] = {"f32", "<f4", 4, true},  [FF_I32] = {"i32", "<i4", 4, false},
        [FF_I64] = {"i64", "<i8", 8, false},
    };
    for (int i = 0; i < FF_DTYPE_COUNT; i++) {
        assert_string_equal(ff_dtype_name((ff_dtype)i), wanted[i].name);
        assert_string_equal(ff_dtype_numpy((ff_dtype)i), wanted[i].numpy);
        assert_int_equal(ff_dtype_bytes((ff_dtype)i), wanted[i].bytes);
        assert_int_equal(ff_dtype_is_float((ff_dtype)i), wanted[i].is_float);
    }
    char choices[] = FF_DTYPE_CHOICES, *next = choices;
    for (int i = 0; next; i++) {
        const char *name = strsep(&next, "|");
        assert_string_equal(ff_dtype_name(ff_dtype_choice(i)), name);
    }
    assert_string_equal(ff_layout_name(FF_CHW), "chw");
    assert_string_equal(ff_layout_name(FF_HWC), "hwc");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widening_is_exact),
        cmocka_unit_test(not_finite_is_found),
        cmocka_unit_test(narrowing_rounds_to_even),
        cmocka_unit_test(arrays),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests_name("dtype", tests, NULL, NULL);
}
