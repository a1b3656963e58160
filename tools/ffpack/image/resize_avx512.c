/* The AVX-512 version (VBMI and VNNI: Ice Lake, Zen 4 and later). Weights are three signed digits
 * of 8 bits, and one instruction adds the products of 64 bytes with 64 digits, four to a sum.
 *
 * Horizontal: a step makes up to 16 neighbouring values of a row from four inputs each. The bytes
 * that they read are within 64, so one load and one permutation provide the four inputs of each
 * sum; if outputs have more taps, several steps add to the same sums. Steps are planned once per
 * axis. Vertical: four rows are interleaved, so that the four bytes of a column are adjacent. */
#include "tools/ffpack/image/resize_passes.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <string.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vnni")))
#define INLINE static inline __attribute__((always_inline)) AVX512

enum { DIGITS = 3, TAPS = 4, LANES = 16, TILE = 4, VERTICAL_GROUPS = 64 };

typedef struct step {
    uint8_t index[64]; /* lane, tap: which of the loaded bytes */
    int8_t digit[DIGITS][64];
    uint64_t reads; /* the bytes from `input` on that are loaded */
    uint32_t input; /* from a row's begin */
    uint32_t output;
    __mmask16 lanes; /* their number, as a mask */
    bool last;       /* lanes whose sums are complete */
    uint8_t unused[43];
} step;
_Static_assert(sizeof(step) == 320, "steps stay aligned to 64 bytes");

static bool runs(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vnni");
}

/* weight = digit[0] + 2^8 digit[1] + 2^16 digit[2]; false if the last digit exceeds 8 bits, which
 * no filter here produces. */
static bool split(int32_t weight, int8_t digit[DIGITS]) {
    digit[0] = (int8_t)(weight & 255);
    weight = (weight - digit[0]) >> 8;
    digit[1] = (int8_t)(weight & 255);
    weight = (weight - digit[1]) >> 8;
    digit[2] = (int8_t)weight;
    return digit[2] == weight;
}

/* The number of values from `value` on that one step can compute: their inputs are within 64
 * bytes. */
static uint32_t lanes_from(const ff_resize_axis *axis, uint32_t channels, uint32_t value) {
    uint32_t total = axis->count * channels, first = axis->first[value / channels], lanes = 0;
    while (lanes < LANES && value + lanes < total &&
           (axis->first[(value + lanes) / channels] - first + TAPS) * channels <= 64)
        lanes++;
    return lanes;
}

static uint32_t groups_of(const ff_resize_axis *axis, uint32_t channels, uint32_t value,
                          uint32_t lanes) {
    uint32_t most = 0;
    for (uint32_t o = value / channels; o <= (value + lanes - 1) / channels; o++)
        if (axis->taps[o] > most) most = axis->taps[o];
    return (most + TAPS - 1) / TAPS;
}

static bool fill(const ff_resize_axis *axis, uint32_t channels, uint32_t value, uint32_t lanes,
                 uint32_t group, step *s) {
    uint32_t first = axis->first[value / channels] + group * TAPS, reads = 0;
    bool fits = true;
    s->input = first * channels;
    s->output = value;
    s->lanes = (__mmask16)((1u << lanes) - 1);
    for (uint32_t lane = 0; lane < lanes; lane++) {
        uint32_t o = (value + lane) / channels, c = (value + lane) % channels;
        const int32_t *weight = axis->weight + (size_t)o * axis->stride;
        uint32_t start = (axis->first[o] + group * TAPS - first) * channels + c;
        for (uint32_t k = 0; k < TAPS && group * TAPS + k < axis->taps[o]; k++) {
            int8_t digit[DIGITS];
            uint32_t at = start + k * channels;
            fits = fits && split(weight[group * TAPS + k], digit);
            s->index[lane * TAPS + k] = (uint8_t)at;
            for (int d = 0; d < DIGITS; d++) s->digit[d][lane * TAPS + k] = digit[d];
            if (at >= reads) reads = at + 1;
        }
    }
    s->reads = reads == 64 ? ~UINT64_C(0) : (UINT64_C(1) << reads) - 1;
    return fits;
}

static ff_status prepare(ff_resize_axis *axis, uint32_t channels, ff_error *error) {
    ff_resize_table *table = &axis->table;
    table->fits = false;
    if (TAPS * channels > 64 || axis->input > UINT32_MAX / 64) return FF_OK;
    uint32_t total = axis->count * channels, steps = 0;
    for (uint32_t value = 0; value < total;) {
        uint32_t lanes = lanes_from(axis, channels, value);
        steps += groups_of(axis, channels, value, lanes);
        value += lanes;
    }
    FF_TRY(ff_resize_table_reserve(axis, steps, sizeof(step), error));
    step *s = table->step;
    bool fits = true;
    for (uint32_t value = 0; value < total;) {
        uint32_t lanes = lanes_from(axis, channels, value);
        uint32_t groups = groups_of(axis, channels, value, lanes);
        for (uint32_t group = 0; group < groups; group++)
            fits = fill(axis, channels, value, lanes, group, s++) && fits;
        s[-1].last = true;
        value += lanes;
    }
    table->fits = fits;
    return FF_OK;
}

/* The sums of the digits to the sums of the weights, shifted; not yet clipped. */
INLINE __m512i whole(const __m512i sum[DIGITS]) {
    __m512i high = _mm512_add_epi32(_mm512_slli_epi32(sum[1], 8), _mm512_slli_epi32(sum[2], 16));
    return _mm512_srai_epi32(_mm512_add_epi32(sum[0], high), FF_RESIZE_POINT_BITS);
}

INLINE void clear(__m512i sum[DIGITS]) {
    sum[0] = _mm512_set1_epi32(FF_RESIZE_HALF);
    sum[1] = sum[2] = _mm512_setzero_si512();
}

INLINE void horizontal_rows(const ff_resize_axis *axis, const uint8_t *input, size_t input_stride,
                            size_t output_stride, uint8_t *output, const int rows) {
    __m512i sum[TILE][DIGITS];
    for (int r = 0; r < rows; r++) clear(sum[r]);
    const step *s = axis->table.step, *end = s + axis->table.steps;
    for (; s < end; s++) {
        const __m512i index = _mm512_load_si512(s->index);
        for (int r = 0; r < rows; r++) {
            const uint8_t *from = input + (size_t)r * input_stride + s->input;
            __m512i bytes = _mm512_permutexvar_epi8(index, _mm512_maskz_loadu_epi8(s->reads, from));
            for (int d = 0; d < DIGITS; d++)
                sum[r][d] = _mm512_dpbusd_epi32(sum[r][d], bytes, _mm512_load_si512(s->digit[d]));
        }
        if (!s->last) continue;
        for (int r = 0; r < rows; r++) {
            __m512i value = _mm512_max_epi32(whole(sum[r]), _mm512_setzero_si512());
            _mm_mask_storeu_epi8(output + (size_t)r * output_stride + s->output, s->lanes,
                                 _mm512_cvtusepi32_epi8(value));
            clear(sum[r]);
        }
    }
}

AVX512 static void horizontal(const ff_resize_axis *axis, uint32_t channels, const uint8_t *input,
                              size_t input_stride, size_t rows, uint8_t *output) {
    const size_t stride = (size_t)axis->count * channels;
    size_t row = 0;
    for (; row + TILE <= rows; row += TILE)
        horizontal_rows(axis, input + row * input_stride, input_stride, stride,
                        output + row * stride, TILE);
    for (; row < rows; row++)
        horizontal_rows(axis, input + row * input_stride, input_stride, stride,
                        output + row * stride, 1);
}

/* The weights of an output, four taps' digits in each element. */
static uint32_t split_taps(const int32_t *weight, uint32_t taps,
                           int8_t digit[DIGITS][VERTICAL_GROUPS * TAPS]) {
    uint32_t padded = (taps + TAPS - 1) / TAPS * TAPS;
    for (uint32_t k = 0; k < padded; k++) {
        int8_t digits[DIGITS];
        (void)split(k < taps ? weight[k] : 0, digits);
        for (int d = 0; d < DIGITS; d++) digit[d][k] = digits[d];
    }
    return padded;
}

INLINE __m512i four(const int8_t *digit) {
    int32_t together;
    memcpy(&together, digit, sizeof together);
    return _mm512_set1_epi32(together);
}

AVX512 static void vertical(const ff_resize_axis *axis, const uint8_t *input, size_t input_stride,
                            uint32_t first_row, size_t row_values, uint8_t *output,
                            size_t output_stride) {
    if (axis->stride > VERTICAL_GROUPS * TAPS) {
        ff_resize_plain.vertical(axis, input, input_stride, first_row, row_values, output,
                                 output_stride);
        return;
    }
    for (uint32_t o = 0; o < axis->count; o++) {
        const uint32_t taps = axis->taps[o];
        const uint8_t *top = input + (size_t)(axis->first[o] - first_row) * input_stride;
        uint8_t *to = output + (size_t)o * output_stride;
        int8_t digit[DIGITS][VERTICAL_GROUPS * TAPS];
        const uint32_t padded = split_taps(axis->weight + (size_t)o * axis->stride, taps, digit);
        for (size_t at = 0; at < row_values; at += 64) {
            const size_t left = row_values - at;
            const __mmask64 mask = left < 64 ? (UINT64_C(1) << left) - 1 : ~UINT64_C(0);
            __m512i sum[4][DIGITS];
            for (int q = 0; q < 4; q++) clear(sum[q]);
            for (uint32_t k = 0; k < padded; k += TAPS) {
                __m512i row[TAPS];
                for (uint32_t t = 0; t < TAPS; t++) /* the digits beyond the last tap are zero */
                    row[t] = _mm512_maskz_loadu_epi8(
                        mask, top + (k + t < taps ? k + t : k) * input_stride + at);
                const __m512i pairs[4] = {
                    _mm512_unpacklo_epi8(row[0], row[1]), _mm512_unpacklo_epi8(row[2], row[3]),
                    _mm512_unpackhi_epi8(row[0], row[1]), _mm512_unpackhi_epi8(row[2], row[3])};
                const __m512i columns[4] = {_mm512_unpacklo_epi16(pairs[0], pairs[1]),
                                            _mm512_unpackhi_epi16(pairs[0], pairs[1]),
                                            _mm512_unpacklo_epi16(pairs[2], pairs[3]),
                                            _mm512_unpackhi_epi16(pairs[2], pairs[3])};
                for (int d = 0; d < DIGITS; d++)
                    for (int q = 0; q < 4; q++)
                        sum[q][d] = _mm512_dpbusd_epi32(sum[q][d], columns[q], four(digit[d] + k));
            }
            /* Both packs saturate, and undo the order of the interleaving. */
            __m512i low = _mm512_packs_epi32(whole(sum[0]), whole(sum[1]));
            __m512i high = _mm512_packs_epi32(whole(sum[2]), whole(sum[3]));
            _mm512_mask_storeu_epi8(to + at, mask, _mm512_packus_epi16(low, high));
        }
    }
}

const ff_resize_passes ff_resize_avx512 = {.name = "avx512",
                                           .runs = runs,
                                           .prepare = prepare,
                                           .horizontal = horizontal,
                                           .vertical = vertical};

#else
static bool runs(void) {
    return false;
}
const ff_resize_passes ff_resize_avx512 = {.name = "avx512", .runs = runs};
#endif
