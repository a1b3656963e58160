#include "loader/augment/host.h"
#include "format/base/real.h"

#include <stdlib.h>

/* ---- shared by the versions ---------------------------------------------------------------- */

/* Built with -ffp-contract=off: each operation is rounded once, as torchvision's are. */
static float normalized(const ff_metadata *metadata, uint32_t channel, unsigned value) {
    float x = (float)value / 255.0f;
    if (metadata->statistics_count == 0) return x;
    x = x - metadata->mean[channel];
    return x / metadata->std[channel];
}

static ff_status make_table(ff_augment_host *host, const ff_metadata *metadata, ff_error *error) {
    FF_TRY(ff_alloc(&host->table, host->channels * 256u, host->to_bytes, "a table", error));
    for (uint32_t channel = 0; channel < host->channels; channel++) {
        float row[256];
        for (unsigned value = 0; value < 256; value++)
            row[value] = normalized(metadata, channel, value);
        ff_convert((uint8_t *)host->table + (size_t)channel * 256 * host->to_bytes, host->to, row,
                   FF_F32, 256);
    }
    return FF_OK;
}

/* Sets host->scale if it makes the floats that the table is made from. */
static ff_status make_scale(ff_augment_host *host, const ff_metadata *metadata, ff_error *error) {
    const bool known = metadata->statistics_count != 0;
    bool same = true;
    FF_TRY(ff_alloc(&host->scale, host->channels, sizeof *host->scale, "a row", error));
    for (uint32_t channel = 0; channel < host->channels; channel++) {
        ff_augment_scale *scale = &host->scale[channel];
        scale->mean = known ? metadata->mean[channel] * 0x1p32f : 0;
        scale->std = ff_augment_inverse_of(known ? metadata->std[channel] : 1);
        scale->std.high *= 0x1p-32f, scale->std.low *= 0x1p-32f;
        for (unsigned value = 0; value < 256; value++)
            same &= ff_float_bits(ff_augment_scaled(scale, (uint8_t)value)) ==
                    ff_float_bits(normalized(metadata, channel, value));
    }
    if (same) return FF_OK;
    free(host->scale);
    host->scale = NULL;
    return FF_OK;
}

void ff_augment_range(const ff_metadata *metadata, double *low, double *high) {
    static const char line[] = "to_tensor range=";
    *low = 0, *high = metadata->dtype == FF_U8 ? 255 : 1;
    if (metadata->dtype != FF_U16) return;
    for (size_t i = 0; i < metadata->transform_count; i++) {
        const char *at = metadata->transform[i];
        char *end;
        if (strncmp(at, line, sizeof line - 1) != 0) continue;
        double first = ff_real_read(at + sizeof line - 1, &end);
        double second = *end == ',' ? ff_real_read(end + 1, &end) : first;
        if (second > first) *low = first, *high = second;
    }
}

static ff_status make_words(ff_augment_host *host, const ff_metadata *metadata, ff_error *error) {
    double low, high;
    ff_augment_range(metadata, &low, &high);
    FF_TRY(ff_alloc(&host->words, host->channels, sizeof *host->words, "a row", error));
    const bool known = metadata->statistics_count != 0;
    for (uint32_t channel = 0; channel < host->channels; channel++)
        host->words[channel] = (ff_augment_words){.low = low,
                                                  .width = high - low,
                                                  .mean = known ? metadata->mean[channel] : 0,
                                                  .std = known ? metadata->std[channel] : 1};
    host->scaled = known || low < 0 || low > 0 || high < 1 || high > 1;
    return FF_OK;
}

/* Black is converted through the stored dtype, as in an image that was padded before packing. */
static void make_black(ff_augment_host *host, const ff_metadata *metadata) {
    for (uint32_t channel = 0; channel < host->channels; channel++) {
        host->black[channel] = 0;
        if (!ff_dtype_is_float(host->to)) continue;
        float value = metadata->statistics_count ? normalized(metadata, channel, 0) : 0;
        uint32_t stored = 0;
        if (ff_dtype_is_float(host->from)) {
            ff_convert(&stored, host->from, &value, FF_F32, 1);
            ff_convert(&host->black[channel], host->to, &stored, host->from, 1);
        } else {
            ff_convert(&host->black[channel], host->to, &value, FF_F32, 1);
        }
    }
}

ff_status ff_augment_host_init(ff_augment_host *host, const ff_metadata *metadata,
                               const ff_augment_spec *spec, ff_dtype to, ff_layout to_layout,
                               uint32_t out_height, uint32_t out_width, ff_error *error) {
    *host = (ff_augment_host){
        .from = metadata->dtype,
        .to = to,
        .from_layout = metadata->layout,
        .to_layout = to_layout,
        .channels = metadata->channels,
        .out_height = out_height,
        .out_width = out_width,
        .from_bytes = ff_dtype_bytes(metadata->dtype),
        .to_bytes = ff_dtype_bytes(to),
        .pad_mode = spec->pad_mode,
    };
    bool as_stored = !ff_dtype_is_float(to);
    if (as_stored && to != host->from)
        return ff_fail(error, FF_USAGE,
                       "batches of %s cannot be made from samples of %s; f32, f16 and bf16 can",
                       ff_dtype_name(to), ff_dtype_name(host->from));
    if (as_stored && (spec->cutout || spec->erase > 0))
        return ff_fail(
            error, FF_USAGE,
            "a cutout or random erasing needs batches of f32, f16 or bf16, not %s as stored",
            ff_dtype_name(to));
    if (as_stored && to != FF_U8 && ff_augment_resamples(spec))
        return ff_fail(
            error, FF_USAGE,
            "a resize or random resized crop needs batches of f32, f16, bf16 or u8, not %s as "
            "stored",
            ff_dtype_name(to));
    ff_status status;
    FF_TRY_DONE(ff_alloc(&host->black, host->channels, sizeof *host->black, "a row", error));
    if (host->from == FF_U8 && !as_stored) {
        FF_TRY_DONE(make_table(host, metadata, error));
        FF_TRY_DONE(make_scale(host, metadata, error));
    }
    if (host->from == FF_U16 && !as_stored) FF_TRY_DONE(make_words(host, metadata, error));
    make_black(host, metadata);
    /* The portable version fills the entry; faster ones for this CPU override it. */
    const struct {
        const char *name;
        ff_augment_apply apply;
    } versions[] = {{"rows", ff_augment_rows},
                    {"avx2", ff_augment_avx2(host)},
                    {"shuffles", ff_augment_wide() ? NULL : ff_augment_shuffles_avx2(host)},
                    {"avx512", ff_augment_avx512(host)},
                    {"vbmi", ff_augment_bytes_avx512(host)}};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        if (versions[i].apply) host->apply = versions[i].apply, host->name = versions[i].name;
done:
    if (status != FF_OK) ff_augment_host_free(host);
    return status;
}

void ff_augment_host_free(ff_augment_host *host) {
    free(host->black);
    free(host->table);
    free(host->scale);
    free(host->words);
    *host = (ff_augment_host){0};
}

/* The part of the square inside the output. */
static bool cut_box(const ff_augment_host *host, const ff_augment_params *params, uint32_t *top,
                    uint32_t *bottom, uint32_t *left, uint32_t *right) {
    int64_t y = params->cut_y, x = params->cut_x;
    int64_t y1 = y + params->cut_height, x1 = x + params->cut_width;
    if (y1 > host->out_height) y1 = host->out_height;
    if (x1 > host->out_width) x1 = host->out_width;
    if (y < 0) y = 0;
    if (x < 0) x = 0;
    if (params->cut_height == 0 || y >= y1 || x >= x1) return false;
    *top = (uint32_t)y, *bottom = (uint32_t)y1, *left = (uint32_t)x, *right = (uint32_t)x1;
    return true;
}

void ff_augment_cut(const ff_augment_host *host, const ff_augment_params *params, void *out) {
    uint32_t top, bottom, left, right;
    if (!cut_box(host, params, &top, &bottom, &left, &right)) return;
    bool planar = host->to_layout == FF_CHW;
    size_t pixel = planar ? host->to_bytes : host->to_bytes * host->channels;
    for (uint32_t plane = 0; plane < (planar ? host->channels : 1); plane++) {
        uint8_t *image =
            (uint8_t *)out + (size_t)plane * host->out_height * host->out_width * pixel;
        for (uint32_t row = top; row < bottom; row++)
            memset(image + ((size_t)row * host->out_width + left) * pixel, 0,
                   (right - left) * pixel);
    }
}

ff_augment_span ff_augment_columns(const ff_augment_host *host, const ff_augment_params *params,
                                   uint32_t width) {
    int64_t out = host->out_width, x = params->x, begin, end, source;
    if (params->flags & FF_AUGMENT_FLIP) {
        /* Column c shows x + out - 1 - c. */
        begin = x + out - width > 0 ? x + out - width : 0;
        end = x < 0 ? x + out : out;
        source = x + out - 1 - begin;
    } else {
        begin = x < 0 ? -x : 0;
        end = width - x < out ? width - x : out;
        source = x + begin;
    }
    if (begin >= end) return (ff_augment_span){host->out_width, host->out_width, 0};
    return (ff_augment_span){(uint32_t)begin, (uint32_t)end, (uint32_t)source};
}

ff_augment_span ff_augment_lines(const ff_augment_host *host, const ff_augment_params *params,
                                 uint32_t height) {
    int64_t out = host->out_height, y = params->y;
    int64_t begin = y < 0 ? -y : 0, end = height - y < out ? height - y : out;
    if (begin >= end) return (ff_augment_span){host->out_height, host->out_height, 0};
    return (ff_augment_span){(uint32_t)begin, (uint32_t)end, (uint32_t)(y + begin)};
}

/* ---- the plain version ---------------------------------------------------------------------- */

/* One element; from NULL = padding. */
static void plain_element(const ff_augment_host *host, uint32_t channel, const uint8_t *from,
                          uint8_t *to) {
    if (!from) {
        uint32_t black = host->black[channel];
        if (host->to_bytes == 4)
            ff_store_u32(to, black);
        else if (host->to_bytes == 2)
            ff_store_u16(to, (uint16_t)black);
        else
            *to = (uint8_t)black;
    } else if (host->table) {
        memcpy(to, (const uint8_t *)host->table + ((size_t)channel * 256 + *from) * host->to_bytes,
               host->to_bytes);
    } else if (host->words) {
        float value = ff_augment_word(&host->words[channel], ff_load_u16(from));
        ff_convert(to, host->to, &value, FF_F32, 1);
    } else if (host->from == host->to) {
        memcpy(to, from, host->to_bytes);
    } else {
        ff_convert(to, host->to, from, host->from, 1);
    }
}

void ff_augment_plain(const ff_augment_host *host, const ff_augment_params *params,
                      const void *source, uint32_t height, uint32_t width, void *out) {
    uint32_t channels = host->channels, out_height = host->out_height, out_width = host->out_width;
    uint32_t top = 0, bottom = 0, left = 0, right = 0;
    bool cut = cut_box(host, params, &top, &bottom, &left, &right);
    for (uint32_t channel = 0; channel < channels; channel++) {
        for (uint32_t row = 0; row < out_height; row++) {
            for (uint32_t column = 0; column < out_width; column++) {
                uint32_t across = params->flags & FF_AUGMENT_FLIP ? out_width - 1 - column : column;
                int32_t y = params->y + (int32_t)ff_augment_line(params, row, out_height);
                int32_t x = params->x + (int32_t)across;
                if (host->pad_mode == FF_PAD_REFLECT) {
                    y = ff_augment_reflect(y, (int32_t)height);
                    x = ff_augment_reflect(x, (int32_t)width);
                }
                bool inside = y >= 0 && y < (int32_t)height && x >= 0 && x < (int32_t)width;
                size_t from = 0;
                if (inside)
                    from = host->from_layout == FF_CHW
                               ? ((size_t)channel * height + (size_t)y) * width + (size_t)x
                               : ((size_t)y * width + (size_t)x) * channels + channel;
                size_t to = host->to_layout == FF_CHW
                                ? ((size_t)channel * out_height + row) * out_width + column
                                : ((size_t)row * out_width + column) * channels + channel;
                uint8_t *element = (uint8_t *)out + to * host->to_bytes;
                if (cut && row >= top && row < bottom && column >= left && column < right)
                    memset(element, 0, host->to_bytes);
                else
                    plain_element(host, channel,
                                  inside ? (const uint8_t *)source + from * host->from_bytes : NULL,
                                  element);
            }
        }
    }
}
