/* The AVX2 version. Weights are a low digit of 12 bits and a high one, both signed; one instruction
 * adds the products of two pixels with two digits, 8 sums at a time.
 *
 * Horizontal: a step makes up to 4 neighbouring values of a row in each half of a vector, from two
 * inputs each. The bytes that a half reads are within 16, so one load and one shuffle provide the
 * two inputs of each sum; if outputs have more taps, several steps add to the same sums. Steps are
 * planned once per axis. Vertical: two rows are interleaved and widened. */
#include "tools/ffpack/image/resize_passes.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <string.h>

#define AVX2   __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline)) AVX2

enum { DIGIT_BITS = 12, TAPS = 2, LANES = 4, HALVES = 2, TILE = 4, VERTICAL_TAPS = 256 };

typedef struct step {
    uint8_t shuffle[HALVES][16]; /* lane, tap: which of the loaded bytes, as 16 bits */
    int16_t low[HALVES][8], high[HALVES][8];
    uint32_t input[HALVES]; /* from a row's begin; 16 bytes are loaded */
    uint32_t output[HALVES];
    uint8_t lanes[HALVES];
    bool last; /* lanes whose sums are complete */
    uint8_t unused[13];
} step;
_Static_assert(sizeof(step) == 128, "steps stay aligned to 64 bytes");

static bool runs(void) {
    return __builtin_cpu_supports("avx2");
}

/* weight = low + 2^12 high; both fit 16 bits for every weight of 28 bits. */
static void split(int32_t weight, int16_t *low, int16_t *high) {
    int32_t rounded = (weight + (1 << (DIGIT_BITS - 1))) >> DIGIT_BITS;
    *high = (int16_t)rounded;
    *low = (int16_t)(weight - rounded * (1 << DIGIT_BITS));
}

/* The number of values from `value` on that half a step can compute: their inputs are within 16
 * bytes. */
static uint32_t lanes_from(const ff_resize_axis *axis, uint32_t channels, uint32_t value) {
    uint32_t total = axis->count * channels, lanes = 0;
    if (value >= total) return 0;
    uint32_t first = axis->first[value / channels];
    while (lanes < LANES && value + lanes < total &&
           (axis->first[(value + lanes) / channels] - first + TAPS) * channels <= 16)
        lanes++;
    return lanes;
}

static uint32_t groups_of(const ff_resize_axis *axis, uint32_t channels, uint32_t value,
                          uint32_t lanes) {
    uint32_t most = 0;
    for (uint32_t o = value / channels; lanes && o <= (value + lanes - 1) / channels; o++)
        if (axis->taps[o] > most) most = axis->taps[o];
    return (most + TAPS - 1) / TAPS;
}

static void fill(const ff_resize_axis *axis, uint32_t channels, uint32_t value, uint32_t lanes,
                 uint32_t group, uint32_t half, step *s) {
    memset(s->shuffle[half], 0x80, sizeof s->shuffle[half]); /* zero */
    s->output[half] = value;
    s->lanes[half] = (uint8_t)lanes;
    if (lanes == 0) return;
    uint32_t row_values = axis->input * channels;
    uint32_t input = (axis->first[value / channels] + group * TAPS) * channels;
    if (input > row_values - 16) input = row_values - 16;
    s->input[half] = input;
    for (uint32_t lane = 0; lane < lanes; lane++) {
        uint32_t o = (value + lane) / channels, c = (value + lane) % channels;
        const int32_t *weight = axis->weight + (size_t)o * axis->stride;
        for (uint32_t t = 0; t < TAPS && group * TAPS + t < axis->taps[o]; t++) {
            uint32_t k = group * TAPS + t, at = lane * TAPS + t;
            s->shuffle[half][2 * at] = (uint8_t)((axis->first[o] + k) * channels + c - input);
            split(weight[k], &s->low[half][at], &s->high[half][at]);
        }
    }
}

/* Counts the steps, and fills them if `s` is not NULL. */
static uint32_t lay_out(const ff_resize_axis *axis, uint32_t channels, step *s) {
    uint32_t total = axis->count * channels, steps = 0;
    for (uint32_t value = 0; value < total;) {
        uint32_t lanes[HALVES], groups = 0;
        uint32_t begin[HALVES] = {value, value};
        for (uint32_t half = 0; half < HALVES; half++) {
            begin[half] = value;
            lanes[half] = lanes_from(axis, channels, value);
            uint32_t wanted = groups_of(axis, channels, value, lanes[half]);
            if (wanted > groups) groups = wanted;
            value += lanes[half];
        }
        for (uint32_t group = 0; s && group < groups; group++, s++) {
            for (uint32_t half = 0; half < HALVES; half++)
                fill(axis, channels, begin[half], lanes[half], group, half, s);
            s->last = group + 1 == groups;
        }
        steps += groups;
    }
    return steps;
}

static ff_status prepare(ff_resize_axis *axis, uint32_t channels, ff_error *error) {
    ff_resize_table *table = &axis->table;
    table->fits = TAPS * channels <= 16 && (uint64_t)axis->input * channels >= 16 &&
                  axis->input <= UINT32_MAX / 16;
    if (!table->fits) return FF_OK;
    FF_TRY(ff_resize_table_reserve(axis, lay_out(axis, channels, NULL), sizeof(step), error));
    lay_out(axis, channels, table->step);
    return FF_OK;
}

typedef struct sums {
    __m256i low, high;
} sums;

INLINE sums clear(void) {
    return (sums){_mm256_set1_epi32(FF_RESIZE_HALF), _mm256_setzero_si256()};
}

INLINE sums add(sums sum, __m256i pairs, __m256i low, __m256i high) {
    return (sums){_mm256_add_epi32(sum.low, _mm256_madd_epi16(pairs, low)),
                  _mm256_add_epi32(sum.high, _mm256_madd_epi16(pairs, high))};
}

/* Shifted; not yet clipped. */
INLINE __m256i whole(sums sum) {
    return _mm256_srai_epi32(_mm256_add_epi32(sum.low, _mm256_slli_epi32(sum.high, DIGIT_BITS)),
                             FF_RESIZE_POINT_BITS);
}

INLINE __m256i load(const void *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}

INLINE __m256i load_halves(const uint8_t *first, const uint8_t *second) {
    __m128i low = _mm_loadu_si128((const __m128i *)(const void *)first);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low),
                                   _mm_loadu_si128((const __m128i *)(const void *)second), 1);
}

INLINE void store(uint8_t *to, int values, uint32_t lanes) {
    if (lanes == LANES)
        memcpy(to, &values, LANES);
    else
        for (uint32_t lane = 0; lane < lanes; lane++) to[lane] = (uint8_t)(values >> (8 * lane));
}

INLINE void horizontal_rows(const ff_resize_axis *axis, const uint8_t *input, size_t input_stride,
                            size_t output_stride, uint8_t *output, const int rows) {
    sums sum[TILE];
    for (int r = 0; r < rows; r++) sum[r] = clear();
    const step *s = axis->table.step, *end = s + axis->table.steps;
    for (; s < end; s++) {
        const __m256i shuffle = load(s->shuffle), low = load(s->low), high = load(s->high);
        for (int r = 0; r < rows; r++) {
            const uint8_t *row = input + (size_t)r * input_stride;
            __m256i bytes = load_halves(row + s->input[0], row + s->input[1]);
            sum[r] = add(sum[r], _mm256_shuffle_epi8(bytes, shuffle), low, high);
        }
        if (!s->last) continue;
        for (int r = 0; r < rows; r++) {
            uint8_t *row = output + (size_t)r * output_stride;
            __m256i words = _mm256_packs_epi32(whole(sum[r]), _mm256_setzero_si256());
            __m256i values = _mm256_packus_epi16(words, words);
            store(row + s->output[0], _mm256_extract_epi32(values, 0), s->lanes[0]);
            store(row + s->output[1], _mm256_extract_epi32(values, 4), s->lanes[1]);
            sum[r] = clear();
        }
    }
}

AVX2 static void horizontal(const ff_resize_axis *axis, uint32_t channels, const uint8_t *input,
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

/* The 32 columns of an output from `top` on. */
INLINE void column_block(const uint8_t *top, size_t stride, uint32_t taps, const int32_t *low,
                         const int32_t *high, uint8_t *to) {
    const __m256i zero = _mm256_setzero_si256();
    sums sum[4] = {clear(), clear(), clear(), clear()};
    for (uint32_t k = 0; k < taps; k += TAPS) {
        __m256i a = load(top + k * stride);
        __m256i b = load(top + (k + 1 < taps ? k + 1 : k) * stride); /* beyond: its digit is zero */
        const __m256i l = _mm256_set1_epi32(low[k / TAPS]), h = _mm256_set1_epi32(high[k / TAPS]);
        const __m256i first = _mm256_unpacklo_epi8(a, b), second = _mm256_unpackhi_epi8(a, b);
        sum[0] = add(sum[0], _mm256_unpacklo_epi8(first, zero), l, h);
        sum[1] = add(sum[1], _mm256_unpackhi_epi8(first, zero), l, h);
        sum[2] = add(sum[2], _mm256_unpacklo_epi8(second, zero), l, h);
        sum[3] = add(sum[3], _mm256_unpackhi_epi8(second, zero), l, h);
    }
    /* Both packs saturate, and undo the order of the interleaving. */
    __m256i front = _mm256_packs_epi32(whole(sum[0]), whole(sum[1]));
    __m256i back = _mm256_packs_epi32(whole(sum[2]), whole(sum[3]));
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_packus_epi16(front, back));
}

AVX2 static void vertical(const ff_resize_axis *axis, const uint8_t *input, size_t input_stride,
                          uint32_t first_row, size_t row_values, uint8_t *output,
                          size_t output_stride) {
    if (axis->stride > VERTICAL_TAPS || row_values < 32) {
        ff_resize_plain.vertical(axis, input, input_stride, first_row, row_values, output,
                                 output_stride);
        return;
    }
    for (uint32_t o = 0; o < axis->count; o++) {
        const uint32_t taps = axis->taps[o];
        const int32_t *weight = axis->weight + (size_t)o * axis->stride;
        int16_t low[VERTICAL_TAPS + 1] = {0}, high[VERTICAL_TAPS + 1] = {0};
        int32_t low_pairs[VERTICAL_TAPS / TAPS], high_pairs[VERTICAL_TAPS / TAPS];
        for (uint32_t k = 0; k < taps; k++) split(weight[k], &low[k], &high[k]);
        memcpy(low_pairs, low, sizeof low_pairs);
        memcpy(high_pairs, high, sizeof high_pairs);
        const uint8_t *top = input + (size_t)(axis->first[o] - first_row) * input_stride;
        uint8_t *to = output + (size_t)o * output_stride;
        /* The last block overlaps the one before. */
        for (size_t at = 0; at < row_values; at += 32) {
            size_t from = at + 32 > row_values ? row_values - 32 : at;
            column_block(top + from, input_stride, taps, low_pairs, high_pairs, to + from);
        }
    }
}

const ff_resize_passes ff_resize_avx2 = {.name = "avx2",
                                         .runs = runs,
                                         .prepare = prepare,
                                         .horizontal = horizontal,
                                         .vertical = vertical};

#else
static bool runs(void) {
    return false;
}
const ff_resize_passes ff_resize_avx2 = {.name = "avx2", .runs = runs};
#endif
