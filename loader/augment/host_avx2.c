/* The AVX2 version, for planes of 16-bit elements and padding with black: as the AVX-512 one, but
 * without masked loads of 16 bits. A vector of 16 output columns is one load of its pixels,
 * mirrored by two permutations and blended with the padding. Such a load may include pixels of the
 * rows before or after, which is harmless; where it would leave the sample at either end, its
 * pixels are copied to a buffer first. */
#include "loader/augment/host.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define AVX2   __attribute__((target("avx2,f16c")))
#define INLINE static inline __attribute__((always_inline)) AVX2

#define CHUNKS_LIMIT 128
#define LANES        16

typedef struct row_plan {
    uint32_t count;
    ptrdiff_t low, high;              /* bytes from a row's pixel 0 that its loads touch */
    ptrdiff_t offset[CHUNKS_LIMIT];   /* bytes from a row's pixel 0 to a chunk's load */
    uint32_t column[CHUNKS_LIMIT];    /* of the output; the last chunk overlaps the one before */
    int16_t inside[CHUNKS_LIMIT][16]; /* lanes of the output that show pixels: -1, else 0 */
} row_plan;

static void plan_chunks(row_plan *plan, const ff_augment_host *host,
                        const ff_augment_params *params, uint32_t width) {
    const ff_augment_span span = ff_augment_columns(host, params, width);
    const bool flip = params->flags & FF_AUGMENT_FLIP;
    const int64_t out = host->out_width;
    plan->count = 0;
    plan->low = PTRDIFF_MAX, plan->high = PTRDIFF_MIN;
    for (int64_t first = 0; first < out; first += LANES) {
        uint32_t i = plan->count++;
        if (first + LANES > out) first = out - LANES;
        ptrdiff_t offset =
            2 * (ptrdiff_t)(flip ? params->x + out - first - LANES : params->x + first);
        plan->offset[i] = offset;
        plan->column[i] = (uint32_t)first;
        for (int64_t lane = 0; lane < LANES; lane++)
            plan->inside[i][lane] = first + lane >= span.begin && first + lane < span.end ? -1 : 0;
        if (offset < plan->low) plan->low = offset;
        if (offset + 2 * LANES > plan->high) plan->high = offset + 2 * LANES;
    }
}

/* A row, and how far its loads may reach before leaving the sample. */
typedef struct row {
    const uint8_t *pixels;
    ptrdiff_t before, after; /* bytes of the sample before and from pixel 0 */
    bool free;               /* no load leaves the sample */
} row;

INLINE row row_at(const row_plan *plan, const uint8_t *source, size_t source_bytes, size_t at) {
    row r = {source + at, (ptrdiff_t)at, (ptrdiff_t)(source_bytes - at), false};
    r.free = -plan->low <= r.before && plan->high <= r.after;
    return r;
}

/* For a chunk whose load would leave the sample: copies only the bytes inside. */
static __attribute__((noinline)) void copy_inside(uint8_t to[32], const row *r, ptrdiff_t offset) {
    ptrdiff_t begin = offset > -r->before ? offset : -r->before;
    ptrdiff_t end = offset + 2 * LANES;
    if (end > r->after) end = r->after;
    memset(to, 0, 32);
    if (begin < end) memcpy(to + (begin - offset), r->pixels + begin, (size_t)(end - begin));
}

INLINE __m256i load_any(const void *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}

typedef enum how { MOVE_16, F16_F32, BF16_F32 } how;

INLINE size_t to_bytes_of(how h) {
    return h == MOVE_16 ? 2 : 4;
}

/* Sixteen pixels of a row in 16 bits each; `free`: the load cannot leave the sample. */
INLINE __m256i load(bool flip, bool free, const row *r, ptrdiff_t offset, __m256i inside,
                    __m256i black) {
    const __m256i swap = _mm256_setr_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1, 14,
                                          15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1);
    const uint8_t *from = r->pixels + offset;
    uint8_t copy[32];
    if (!free) {
        copy_inside(copy, r, offset);
        from = copy;
    }
    __m256i v = load_any(from);
    if (flip) {
        v = _mm256_shuffle_epi8(v, swap);
        v = _mm256_permute4x64_epi64(v, 0x4e); /* swap the halves */
    }
    return _mm256_blendv_epi8(black, v, inside);
}

/* Whether stores pass the caches by: all of them must be aligned. */
INLINE bool streams_to(const ff_augment_host *host, const uint8_t *out) {
    return host->streams && ((uintptr_t)out & 31) == 0 && host->out_width % LANES == 0;
}

INLINE void put(uint8_t *to, __m256i v, bool streams) {
    if (streams)
        _mm256_stream_si256((__m256i *)(void *)to, v);
    else
        _mm256_storeu_si256((__m256i *)(void *)to, v);
}

/* Eight elements, converted. */
INLINE void store_8(how h, uint8_t *to, __m128i v, bool streams) {
    if (to_bytes_of(h) == 2 && streams)
        _mm_stream_si128((__m128i *)(void *)to, v);
    else if (to_bytes_of(h) == 2)
        _mm_storeu_si128((__m128i *)(void *)to, v);
    else if (h == F16_F32)
        put(to, _mm256_castps_si256(_mm256_cvtph_ps(v)), streams);
    else
        put(to, _mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16), streams);
}

INLINE void store_16(how h, uint8_t *to, __m256i v, bool streams) {
    if (h == MOVE_16) {
        put(to, v, streams);
        return;
    }
    store_8(h, to, _mm256_castsi256_si128(v), streams);
    store_8(h, to + 8 * to_bytes_of(h), _mm256_extracti128_si256(v, 1), streams);
}

/* Padding in the source's type: the output's was converted from it, so this is exact. */
INLINE __m256i black_of(how h, const ff_augment_host *host, uint32_t channel) {
    uint32_t black = host->black[channel];
    if (h == F16_F32) black = ff_f16_from_f32(ff_bits_float(black));
    if (h == BF16_F32) black >>= 16;
    return _mm256_set1_epi16((int16_t)black);
}

/* `n` rows, few enough to stay in the L1 cache: chunk by chunk, so that a chunk's constants stay in
 * registers. */
INLINE void some_rows(how h, bool flip, bool free, const row_plan *plan, row r, size_t row_bytes,
                      uint32_t n, uint8_t *out, size_t out_bytes, __m256i black, bool streams) {
    const size_t to_bytes = to_bytes_of(h);
    for (uint32_t i = 0; i < plan->count; i++) {
        const __m256i inside = load_any(plan->inside[i]);
        const ptrdiff_t offset = plan->offset[i];
        uint8_t *to = out + plan->column[i] * to_bytes;
        row at = r;
        for (uint32_t y = 0; y < n; y++, to += out_bytes) {
            store_16(h, to, load(flip, free, &at, offset, inside, black), streams);
            at.pixels += row_bytes;
            at.before += (ptrdiff_t)row_bytes, at.after -= (ptrdiff_t)row_bytes;
        }
    }
}

INLINE void black_rows(how h, uint8_t *out, size_t out_width, uint32_t n, __m256i black,
                       bool streams) {
    const size_t to_bytes = to_bytes_of(h), elements = n * out_width;
    /* A row is at least a vector long, so the last store may overlap the one before. */
    for (size_t i = 0; i < elements; i += LANES)
        store_16(h, out + (i + LANES > elements ? elements - LANES : i) * to_bytes, black, streams);
}

INLINE void planes(how h, bool flip, const ff_augment_host *host, const ff_augment_params *params,
                   const uint8_t *source, uint32_t height, uint32_t width, uint8_t *out) {
    enum { TILE = 8 };
    const size_t to_bytes = to_bytes_of(h), row_bytes = (size_t)width * 2;
    const uint32_t channels = host->channels, out_height = host->out_height;
    const size_t out_bytes = host->out_width * to_bytes, plane = height * row_bytes;
    const ff_augment_span rows = ff_augment_lines(host, params, height);
    const bool streams = streams_to(host, out);
    row_plan plan;
    plan_chunks(&plan, host, params, width);
    for (uint32_t channel = 0; channel < channels; channel++, out += out_height * out_bytes) {
        const __m256i black = black_of(h, host, channel);
        black_rows(h, out, host->out_width, rows.begin, black, streams);
        black_rows(h, out + rows.end * out_bytes, host->out_width, out_height - rows.end, black,
                   streams);
        for (uint32_t y = rows.begin; y < rows.end; y += TILE) {
            uint32_t n = rows.end - y < TILE ? rows.end - y : TILE;
            size_t at = channel * plane + (rows.source + y - rows.begin) * row_bytes;
            row first = row_at(&plan, source, channels * plane, at);
            row last = row_at(&plan, source, channels * plane, at + (n - 1) * row_bytes);
            uint8_t *to = out + y * out_bytes;
            for (uint32_t i = 0; i < n; i++)
                ff_augment_ask(first.pixels + i * row_bytes, row_bytes);
            if (first.free && last.free)
                some_rows(h, flip, true, &plan, first, row_bytes, n, to, out_bytes, black, streams);
            else
                some_rows(h, flip, false, &plan, first, row_bytes, n, to, out_bytes, black,
                          streams);
        }
    }
}

/* Eight pixels of three channels are three vectors of eight elements: each takes its elements from
 * each channel by one byte shuffle. */
static const int8_t spread[3][3][16] = {
    /* [output vector][channel] */
    {{0, 1, -128, -128, -128, -128, 2, 3, -128, -128, -128, -128, 4, 5, -128, -128},
     {-128, -128, 0, 1, -128, -128, -128, -128, 2, 3, -128, -128, -128, -128, 4, 5},
     {-128, -128, -128, -128, 0, 1, -128, -128, -128, -128, 2, 3, -128, -128, -128, -128}},
    {{-128, -128, 6, 7, -128, -128, -128, -128, 8, 9, -128, -128, -128, -128, 10, 11},
     {-128, -128, -128, -128, 6, 7, -128, -128, -128, -128, 8, 9, -128, -128, -128, -128},
     {4, 5, -128, -128, -128, -128, 6, 7, -128, -128, -128, -128, 8, 9, -128, -128}},
    {{-128, -128, -128, -128, 12, 13, -128, -128, -128, -128, 14, 15, -128, -128, -128, -128},
     {10, 11, -128, -128, -128, -128, 12, 13, -128, -128, -128, -128, 14, 15, -128, -128},
     {-128, -128, 10, 11, -128, -128, -128, -128, 12, 13, -128, -128, -128, -128, 14, 15}},
};

INLINE void interleave(how h, bool flip, const ff_augment_host *host,
                       const ff_augment_params *params, const uint8_t *source, uint32_t height,
                       uint32_t width, uint8_t *out) {
    const size_t to_bytes = to_bytes_of(h), row_bytes = (size_t)width * 2;
    const uint32_t out_height = host->out_height;
    const size_t plane = height * row_bytes, out_bytes = host->out_width * 3 * to_bytes;
    const int32_t first = params->y;
    const bool streams = streams_to(host, out);
    row_plan plan;
    plan_chunks(&plan, host, params, width);
    const uint32_t count = plan.count;
    __m256i black[3], shuffle[3][3];
    for (uint32_t k = 0; k < 3; k++) {
        black[k] = black_of(h, host, k);
        for (uint32_t c = 0; c < 3; c++)
            shuffle[k][c] = _mm256_broadcastsi128_si256(
                _mm_loadu_si128((const __m128i *)(const void *)spread[k][c]));
    }
    for (uint32_t y = 0; y < out_height; y++, out += out_bytes) {
        uint32_t at = (uint32_t)(first + (int32_t)y);
        for (uint32_t k = 0; k < 3 && at < height; k++)
            ff_augment_ask(source + k * plane + at * row_bytes, row_bytes);
        for (uint32_t i = 0; i < count; i++) {
            __m256i v[3] = {black[0], black[1], black[2]};
            for (uint32_t k = 0; k < 3 && at < height; k++) {
                row r = row_at(&plan, source, 3 * plane, k * plane + at * row_bytes);
                __m256i inside = load_any(plan.inside[i]);
                v[k] = r.free ? load(flip, true, &r, plan.offset[i], inside, black[k])
                              : load(flip, false, &r, plan.offset[i], inside, black[k]);
            }
            uint8_t *to = out + (size_t)plan.column[i] * 3 * to_bytes;
            for (uint32_t k = 0; k < 3; k++, to += 8 * to_bytes) {
                __m256i w = _mm256_or_si256(_mm256_shuffle_epi8(v[0], shuffle[k][0]),
                                            _mm256_shuffle_epi8(v[1], shuffle[k][1]));
                w = _mm256_or_si256(w, _mm256_shuffle_epi8(v[2], shuffle[k][2]));
                store_8(h, to, _mm256_castsi256_si128(w), streams);
                store_8(h, to + 24 * to_bytes, _mm256_extracti128_si256(w, 1), streams);
            }
        }
    }
}

#define DEFINE(name, body, h)                                                                      \
    AVX2 static void name(const ff_augment_host *host, const ff_augment_params *params,            \
                          const void *source, uint32_t height, uint32_t width, void *out) {        \
        if (params->flags & FF_AUGMENT_VFLIP) {                                                    \
            ff_augment_rows(host, params, source, height, width, out);                             \
            return;                                                                                \
        }                                                                                          \
        if (params->flags & FF_AUGMENT_FLIP)                                                       \
            body(h, true, host, params, source, height, width, out);                               \
        else                                                                                       \
            body(h, false, host, params, source, height, width, out);                              \
        if (host->streams) _mm_sfence();                                                           \
        if (params->cut_height) ff_augment_cut(host, params, out);                                 \
    }
DEFINE(planes_move_16, planes, MOVE_16)
DEFINE(planes_f16_f32, planes, F16_F32)
DEFINE(planes_bf16_f32, planes, BF16_F32)
DEFINE(interleave_move_16, interleave, MOVE_16)
DEFINE(interleave_f16_f32, interleave, F16_F32)
DEFINE(interleave_bf16_f32, interleave, BF16_F32)

ff_augment_apply ff_augment_avx2(const ff_augment_host *host) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c")) return NULL;
    bool one = host->channels == 1;
    bool to_planes = one || (host->from_layout == FF_CHW && host->to_layout == FF_CHW);
    bool to_pixels =
        host->channels == 3 && host->from_layout == FF_CHW && host->to_layout == FF_HWC;
    if (host->pad_mode != FF_PAD_BLACK || host->out_width < LANES ||
        host->out_width > (CHUNKS_LIMIT - 1) * LANES || !(to_planes || to_pixels))
        return NULL;
    if (host->from == host->to && host->to_bytes == 2)
        return to_planes ? planes_move_16 : interleave_move_16;
    if (host->from == FF_F16 && host->to == FF_F32)
        return to_planes ? planes_f16_f32 : interleave_f16_f32;
    if (host->from == FF_BF16 && host->to == FF_F32)
        return to_planes ? planes_bf16_f32 : interleave_bf16_f32;
    return NULL;
}

#else
ff_augment_apply ff_augment_avx2(const ff_augment_host *host) {
    (void)host;
    return NULL;
}
#endif
