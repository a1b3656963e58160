/* The AVX2 version by shuffles of 16 bytes, with black padding: u8 in planes (or one channel), and
 * three channels from or to pixels, of u8 or 16 bits.
 *
 * A piece of the output are the columns of 16 bytes of a plane. Its elements are loaded with three
 * loads, from the planes or from the pixels; shuffles put them in order, mirrored or not. A load
 * may include elements outside the row, which padding replaces; where it would leave the sample,
 * the elements inside are copied first. u8 become floats after three copies of the byte have been
 * put into each lane. */
#include "loader/augment/host_shuffles.h"

#if defined(__x86_64__) && defined(__GNUC__)
/* Where the lines of an output of `row` bytes a line are stored: from the first one on, `step`
 * bytes apart, or upside down. */
typedef struct lines {
    ptrdiff_t begin, step;
} lines;

static inline lines lines_of(const ff_augment_host *host, const ff_augment_params *params,
                             ptrdiff_t row) {
    if (!(params->flags & FF_AUGMENT_VFLIP)) return (lines){0, row};
    return (lines){(ptrdiff_t)(host->out_height - 1) * row, -row};
}

/* ---- u8, planes to planes ------------------------------------------------------------------- */

/* How a piece is made. */
typedef struct piece_job {
    ff_piece_source all;
    __m256i order[2];
    __m128i bytes; /* the order of u8 */
    ff_eight_scales s;
} piece_job;

/* Consecutive rows of a plane. */
typedef struct piece_rows {
    ptrdiff_t from; /* bytes of the sample before the first one's pixel 0 */
    ptrdiff_t from_step;
    uint8_t *to;
    ptrdiff_t to_step;
    uint32_t count;
} piece_rows;

/* A piece of each row. shown: the rows are in the sample; free: no load leaves it. */
FF_AVX2_INLINE void piece_of_rows(ff_piece_how h, bool streams, bool shown, bool free,
                                  const piece_job *job, const ff_piece *piece,
                                  const piece_rows *rows) {
    const ff_eight_scales s = job->s;
    const __m256i order[2] = {job->order[0], job->order[1]};
    ptrdiff_t from = rows->from + piece->offset;
    uint8_t *to = rows->to + piece->column * ff_piece_to_bytes(h);
    for (uint32_t y = 0; y < rows->count; y++, from += rows->from_step, to += rows->to_step) {
        __m128i v = _mm_setzero_si128();
        if (shown) v = ff_piece_load(h, free, &job->all, from, piece->inside, v);
        if (h == FF_PIECE_MOVE_8)
            ff_put_16(to, _mm_shuffle_epi8(v, job->bytes), streams);
        else
            ff_piece_store(h, to, v, order, &s, &s, streams);
    }
}

/* Few enough rows to stay in the L1 cache: piece by piece, so that a piece's constants stay in
 * registers. */
FF_AVX2_INLINE void some_rows(ff_piece_how h, bool streams, bool shown, bool free,
                              const piece_job *job, const ff_pieces *plan, const piece_rows *rows) {
    for (uint32_t i = 0; i < plan->count; i++)
        piece_of_rows(h, streams, shown, free, job, &plan->piece[i], rows);
}

FF_AVX2_INLINE void planes(ff_piece_how h, bool streams, const ff_augment_host *host,
                           const ff_augment_params *params, const uint8_t *source, uint32_t height,
                           uint32_t width, uint8_t *out) {
    /* Stores past the caches fill line after line. */
    const uint32_t most = streams ? 1 : 8;
    const ff_augment_span span = ff_augment_lines(host, params, height);
    const bool flip = params->flags & FF_AUGMENT_FLIP;
    const ptrdiff_t out_row = (ptrdiff_t)(host->out_width * ff_piece_to_bytes(h));
    const lines down = lines_of(host, params, out_row);
    const __m128i up = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    ff_pieces plan;
    piece_job job = {.all = {source, (ptrdiff_t)host->channels * height * width},
                     .order = {ff_piece_spread(0, flip), ff_piece_spread(8, flip)},
                     .bytes = flip ? _mm_xor_si128(up, _mm_set1_epi8(15)) : up};
    ff_pieces_plan(&plan, h, true, host, params, width);
    for (uint32_t c = 0; c < host->channels; c++, out += out_row * host->out_height) {
        const ptrdiff_t first = ((ptrdiff_t)c * height + span.source) * width;
        piece_rows rows = {0, width, out + down.begin, down.step, 0};
        if (h != FF_PIECE_MOVE_8) job.s = ff_eight_scales_of(host, c, 0);
        for (uint32_t y = 0; y < host->out_height;
             y += rows.count, rows.to += rows.count * down.step) {
            const bool shown = y >= span.begin && y < span.end;
            const uint32_t end = y < span.begin ? span.begin : shown ? span.end : host->out_height;
            rows.count = end - y < most ? end - y : most;
            if (!shown) {
                some_rows(h, streams, false, true, &job, &plan, &rows);
                continue;
            }
            rows.from = first + (ptrdiff_t)(y - span.begin) * width;
            bool free =
                ff_pieces_free(&job.all, &plan, rows.from, (ptrdiff_t)(rows.count - 1) * width);
            if (!free) rows.count = 1, free = ff_pieces_free(&job.all, &plan, rows.from, 0);
            for (uint32_t i = 0; i < rows.count; i++)
                ff_augment_ask(source + rows.from + i * (size_t)width, width);
            if (free)
                some_rows(h, streams, true, true, &job, &plan, &rows);
            else
                some_rows(h, streams, true, false, &job, &plan, &rows);
        }
    }
}

/* ---- three channels, from or to pixels ------------------------------------------------------ */

/* Where the bytes of a piece's output are in its loads. */
FF_AVX2_INLINE void find_places(uint8_t place[FF_PIECE_THREE], ff_piece_how h, bool from_planes,
                                bool to_planes, bool flip) {
    const uint32_t bytes = ff_piece_from_bytes(h), columns = ff_piece_columns(h);
    for (uint32_t at = 0; at < FF_PIECE_THREE; at++) {
        const uint32_t element = at / bytes;
        const uint32_t channel = to_planes ? element / columns : element % 3;
        uint32_t pixel = to_planes ? element % columns : element / 3;
        if (flip) pixel = columns - 1 - pixel;
        const uint32_t from = from_planes ? channel * columns + pixel : pixel * 3 + channel;
        place[at] = (uint8_t)(from * bytes + at % bytes);
    }
}

/* The shuffles of the three loads for each third of the output: others' bytes become 0. */
FF_AVX2_INLINE void find_shuffles(__m128i shuffle[3][3], const uint8_t place[FF_PIECE_THREE]) {
    for (int m = 0; m < 3; m++) {
        const __m128i own =
            _mm_loadu_si128((const __m128i *)(const void *)(place + m * FF_PIECE_BYTES));
        for (int k = 0; k < 3; k++) /* 0 to 15 stay below 128. */
            shuffle[m][k] = _mm_adds_epu8(
                _mm_sub_epi8(own, _mm_set1_epi8((char)(k * FF_PIECE_BYTES))), _mm_set1_epi8(0x70));
    }
}

/* Padding in the source's type and order: the output's was converted from it, so this is exact. */
FF_AVX2_INLINE void find_black(__m128i black[3], ff_piece_how h, bool from_planes,
                               const ff_augment_host *host) {
    uint16_t value[3], element[FF_PIECE_THREE / 2];
    black[0] = black[1] = black[2] = _mm_setzero_si128();
    if (ff_piece_from_bytes(h) == 1) return;
    for (int c = 0; c < 3; c++) {
        const uint32_t own = host->black[c];
        value[c] = (uint16_t)(h == FF_PIECE_F16_F32    ? ff_f16_from_f32(ff_bits_float(own))
                              : h == FF_PIECE_BF16_F32 ? own >> 16
                                                       : own);
    }
    for (int i = 0; i < FF_PIECE_THREE / 2; i++)
        element[i] = value[from_planes ? i / (FF_PIECE_BYTES / 2) : i % 3];
    for (int k = 0; k < 3; k++)
        black[k] =
            _mm_loadu_si128((const __m128i *)(const void *)(element + k * (FF_PIECE_BYTES / 2)));
}

FF_AVX2_INLINE void pixels(ff_piece_how h, bool streams, bool from_planes, bool to_planes,
                           const ff_augment_host *host, const ff_augment_params *params,
                           const uint8_t *source, uint32_t height, uint32_t width, uint8_t *out) {
    const ff_augment_span rows = ff_augment_lines(host, params, height);
    const uint32_t each = to_planes ? 1 : 3, to_bytes = ff_piece_to_bytes(h);
    const ptrdiff_t plane = (ptrdiff_t)height * width * ff_piece_from_bytes(h);
    const ptrdiff_t row_bytes = (ptrdiff_t)width * ff_piece_from_bytes(h) * (from_planes ? 1 : 3);
    const ptrdiff_t from_third = from_planes ? plane : FF_PIECE_BYTES;
    const ptrdiff_t out_row = (ptrdiff_t)(host->out_width * to_bytes * each);
    const ptrdiff_t third = to_planes ? out_row * host->out_height : ff_piece_columns(h) * to_bytes;
    const ff_piece_source all = {source, 3 * plane};
    const lines down = lines_of(host, params, out_row);
    const __m256i order[2] = {ff_piece_spread(0, false), ff_piece_spread(8, false)};
    uint8_t place[FF_PIECE_THREE];
    __m128i shuffle[3][3], black[3];
    ff_eight_scales s[3];
    ff_pieces plan;
    ff_pieces_plan(&plan, h, from_planes, host, params, width);
    find_places(place, h, from_planes, to_planes, params->flags & FF_AUGMENT_FLIP);
    find_shuffles(shuffle, place);
    find_black(black, h, from_planes, host);
    /* In pixels, eight elements number k begin with channel 8 k % 3. */
    for (uint32_t m = 0; m < 3 && (h == FF_PIECE_U8_F16 || h == FF_PIECE_U8_F32); m++)
        s[m] = to_planes ? ff_eight_scales_of(host, m, 0) : ff_eight_scales_of(host, 8 * m % 3, 1);
    ptrdiff_t row = rows.source * row_bytes;
    out += down.begin;
    for (uint32_t y = 0; y < host->out_height; y++, out += down.step) {
        const bool inside = y >= rows.begin && y < rows.end;
        const bool free = ff_pieces_free(&all, &plan, row, 2 * from_third);
        for (int k = 0; k < 3 && inside; k += from_planes ? 1 : 3)
            ff_augment_ask(source + row + k * plane, (size_t)row_bytes);
        for (uint32_t i = 0; i < plan.count; i++) {
            const ff_piece *own = &plan.piece[i];
            const ptrdiff_t at = row + own->offset;
            __m128i v[3] = {black[0], black[1], black[2]};
            for (int k = 0; k < 3 && inside; k++)
                v[k] = free ? ff_piece_load(h, true, &all, at + k * from_third,
                                            own->inside + k * FF_PIECE_BYTES, black[k])
                            : ff_piece_load(h, false, &all, at + k * from_third,
                                            own->inside + k * FF_PIECE_BYTES, black[k]);
            uint8_t *to = out + own->column * to_bytes * each;
            for (int m = 0; m < 3; m++, to += third) {
                const __m128i two = _mm_or_si128(_mm_shuffle_epi8(v[0], shuffle[m][0]),
                                                 _mm_shuffle_epi8(v[1], shuffle[m][1]));
                const __m128i w = _mm_or_si128(two, _mm_shuffle_epi8(v[2], shuffle[m][2]));
                ff_piece_store(h, to, w, order, &s[to_planes ? m : 2 * m % 3],
                               &s[to_planes ? m : (2 * m + 1) % 3], streams);
            }
        }
        if (inside) row += row_bytes;
    }
}

/* ---- the versions --------------------------------------------------------------------------- */

/* Whether stores pass the caches by: all of them must be aligned. */
FF_AVX2_INLINE bool streams_to(ff_piece_how h, const ff_augment_host *host, const uint8_t *out) {
    return h != FF_PIECE_MOVE_8 && host->streams && ((uintptr_t)out & 31) == 0 &&
           host->out_width % FF_PIECE_BYTES == 0;
}

#define DEFINE(name, h, body, ...)                                                                 \
    FF_AVX2 static void name(const ff_augment_host *host, const ff_augment_params *params,         \
                             const void *source, uint32_t height, uint32_t width, void *out) {     \
        if (streams_to(h, host, out)) {                                                            \
            body(h, true, __VA_ARGS__ host, params, source, height, width, out);                   \
            _mm_sfence();                                                                          \
        } else {                                                                                   \
            body(h, false, __VA_ARGS__ host, params, source, height, width, out);                  \
        }                                                                                          \
        if (params->cut_height) ff_augment_cut(host, params, out);                                 \
    }
#define COMMA ,
#define DEFINE_FROM_PIXELS(suffix, h)                                                              \
    DEFINE(separate_##suffix, h, pixels, false COMMA true COMMA)                                   \
    DEFINE(pixels_##suffix, h, pixels, false COMMA false COMMA)
#define DEFINE_ALL(suffix, h)                                                                      \
    DEFINE(planes_##suffix, h, planes, )                                                           \
    DEFINE(interleave_##suffix, h, pixels, true COMMA false COMMA)                                 \
    DEFINE_FROM_PIXELS(suffix, h)
DEFINE_ALL(u8, FF_PIECE_MOVE_8)
DEFINE_ALL(u8_f16, FF_PIECE_U8_F16)
DEFINE_ALL(u8_f32, FF_PIECE_U8_F32)
DEFINE_FROM_PIXELS(16, FF_PIECE_MOVE_16)
DEFINE_FROM_PIXELS(f16_f32, FF_PIECE_F16_F32)
DEFINE_FROM_PIXELS(bf16_f32, FF_PIECE_BF16_F32)

ff_augment_apply ff_augment_shuffles_avx2(const ff_augment_host *host) {
    static const ff_augment_apply by_layout[][2][2] = {
        /* [how][from HWC][to HWC] */
        [FF_PIECE_MOVE_8] = {{planes_u8, interleave_u8}, {separate_u8, pixels_u8}},
        [FF_PIECE_U8_F16] = {{planes_u8_f16, interleave_u8_f16}, {separate_u8_f16, pixels_u8_f16}},
        [FF_PIECE_U8_F32] = {{planes_u8_f32, interleave_u8_f32}, {separate_u8_f32, pixels_u8_f32}},
        [FF_PIECE_MOVE_16] = {{NULL, NULL}, {separate_16, pixels_16}},
        [FF_PIECE_F16_F32] = {{NULL, NULL}, {separate_f16_f32, pixels_f16_f32}},
        [FF_PIECE_BF16_F32] = {{NULL, NULL}, {separate_bf16_f32, pixels_bf16_f32}}};
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c") ||
        !__builtin_cpu_supports("fma"))
        return NULL;
    const bool one = host->channels == 1;
    const bool from_pixels = !one && host->from_layout == FF_HWC;
    const bool to_pixels = !one && host->to_layout == FF_HWC;
    const ff_dtype from = host->from, to = host->to;
    if (host->pad_mode != FF_PAD_BLACK || host->out_width < FF_PIECE_BYTES ||
        host->out_width > (FF_PIECES_LIMIT / 2 - 1) * FF_PIECE_BYTES ||
        ((from_pixels || to_pixels) && host->channels != 3))
        return NULL;
    if (from == FF_U8 && to == FF_U8) return by_layout[FF_PIECE_MOVE_8][from_pixels][to_pixels];
    if (host->scale && to == FF_F16) return by_layout[FF_PIECE_U8_F16][from_pixels][to_pixels];
    if (host->scale && to == FF_F32) return by_layout[FF_PIECE_U8_F32][from_pixels][to_pixels];
    if (from == to && host->to_bytes == 2)
        return by_layout[FF_PIECE_MOVE_16][from_pixels][to_pixels];
    if (from == FF_F16 && to == FF_F32) return by_layout[FF_PIECE_F16_F32][from_pixels][to_pixels];
    if (from == FF_BF16 && to == FF_F32)
        return by_layout[FF_PIECE_BF16_F32][from_pixels][to_pixels];
    return NULL;
}

#else
ff_augment_apply ff_augment_shuffles_avx2(const ff_augment_host *host) {
    (void)host;
    return NULL;
}
#endif
