#include "loader/augment/finish.h"

#include "format/base/compiler.h"
#include "loader/augment/change/apply.h"
#include "loader/augment/jitter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* what: "colour jitter", ... */
static ff_status check_colours(const char *what, const ff_metadata *metadata,
                               const ff_augment_host *host, ff_error *error) {
    const uint64_t pixels = (uint64_t)host->out_height * host->out_width;
    if (host->channels != 1 && host->channels != 3)
        return ff_fail(error, FF_USAGE, "%s needs samples of 1 or 3 channels, not %" PRIu32, what,
                       host->channels);
    if (metadata->dtype == FF_U16)
        return ff_fail(error, FF_USAGE, "%s needs samples of u8, f16, bf16 or f32, not u16", what);
    if (pixels > FF_COLOUR_PIXELS_LIMIT)
        return ff_fail(error, FF_USAGE, "an output of %" PRIu32 "x%" PRIu32 " is too large for %s",
                       host->out_height, host->out_width, what);
    return FF_OK;
}

/* ---- changes -------------------------------------------------------------------------------- */

/* The image of u8 of `count` values of a channel. */
FF_CLONES static void round_values(uint8_t *restrict to, const float *restrict from, size_t count,
                                   float mean, float std) {
    for (size_t i = 0; i < count; i++)
        to[i] = ff_change_nearest(ff_jitter_clamp(from[i] * std + mean) * 255.0f);
}

/* The values of u8 in a normalised row, and what makes a row from an image. */
static ff_status make_shown(ff_finish *finish, const ff_metadata *metadata, ff_error *error) {
    static const ff_augment_spec plain;
    ff_metadata planes = *metadata;
    planes.dtype = FF_U8, planes.layout = FF_CHW;
    ff_augment_host host;
    FF_TRY(ff_augment_host_init(&host, &planes, &plain, FF_F32, FF_CHW, 1, 1, error));
    finish->shown = host.table;
    host.table = NULL;
    ff_augment_host_free(&host);
    for (uint32_t at = 0; finish->to == FF_U8 && at < metadata->channels * 256; at++)
        finish->shown[at] = (float)(at % 256);
    return ff_augment_host_init(&finish->shows, &planes, &plain, finish->host.to,
                                finish->host.to_layout, finish->host.out_height,
                                finish->host.out_width, error);
}

/* Whether stored floats hold images of u8, each value of which is read back. */
static bool holds_u8(const ff_finish *finish, const ff_metadata *metadata) {
    bool scaled = false;
    for (size_t i = 0; i < metadata->transform_count; i++)
        scaled |= strcmp(metadata->transform[i], "to_tensor scale=1/255") == 0;
    for (uint32_t at = 0; scaled && at < metadata->channels * 256; at++) {
        float value;
        uint8_t byte;
        uint32_t stored;
        ff_convert(&stored, metadata->dtype, &finish->shown[at], FF_F32, 1);
        ff_convert(&value, FF_F32, &stored, metadata->dtype, 1);
        round_values(&byte, &value, 1, finish->mean[at / 256], finish->std[at / 256]);
        scaled = byte == at % 256;
    }
    return scaled;
}

/* A reflection of size / 2 pixels needs more than size / 2 pixels. */
static ff_status check_blur(const ff_change_spec *change, const ff_augment_host *host,
                            ff_error *error) {
    const uint32_t size = (uint32_t)change->value[FF_CHANCE_BLUR];
    const uint32_t height = host->out_height, width = host->out_width;
    if (!(change->probability[FF_CHANCE_BLUR] > 0) || size / 2 < (height < width ? height : width))
        return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "augmentation 'blur=%" PRIu32 "' needs more than %" PRIu32
                   " pixels a side, not an output of %" PRIu32 "x%" PRIu32,
                   size, size / 2, height, width);
}

static ff_status init_changes(ff_finish *finish, const ff_metadata *metadata,
                              const ff_augment_host *host, ff_error *error) {
    static const ff_augment_spec plain;
    FF_TRY(make_shown(finish, metadata, error));
    if (metadata->dtype != FF_U8 &&
        (!ff_dtype_is_float(metadata->dtype) || !holds_u8(finish, metadata)))
        return ff_fail(error, FF_USAGE,
                       "augmentations of u8 values cannot be applied to these samples of %s, from "
                       "which the u8 values cannot be read back exactly; pack them with --dtype u8",
                       ff_dtype_name(metadata->dtype));
    if (!finish->direct) return FF_OK;
    ff_augment_spec moves = plain;
    moves.pad_mode = host->pad_mode;
    FF_TRY(ff_augment_host_init(&finish->pixels, metadata, &moves, FF_U8, FF_CHW, host->out_height,
                                host->out_width, error));
    finish->pixels.rounds = host->to != FF_U8;
    return FF_OK;
}

ff_status ff_finish_init(ff_finish *finish, const ff_metadata *metadata,
                         const ff_augment_spec *spec, const ff_augment_host *host,
                         ff_error *error) {
    *finish = (ff_finish){0};
    const bool jitters = ff_augment_jitters(spec), mixes = ff_augment_mixes(spec);
    const bool changes = ff_change_any(&spec->change);
    if (!jitters && !mixes && !changes) return FF_OK;
    if ((jitters || mixes) && !ff_dtype_is_float(host->to))
        return ff_fail(
            error, FF_USAGE,
            "colour jitter, mixup and cutmix need batches of f32, f16 or bf16, not %s as "
            "stored",
            ff_dtype_name(host->to));
    if (jitters) FF_TRY(check_colours("colour jitter", metadata, host, error));
    if (changes) FF_TRY(check_colours("an augmentation of u8 values", metadata, host, error));
    if (changes) FF_TRY(check_blur(&spec->change, host, error));
    *finish = (ff_finish){.used = true,
                          .jitters = jitters,
                          .changes = changes,
                          .mixes = mixes,
                          .direct = changes && !jitters && metadata->dtype == FF_U8,
                          .change = spec->change,
                          .metadata = *metadata,
                          .to = host->to,
                          .to_layout = host->to_layout};
    memcpy(finish->jitter, spec->jitter, sizeof finish->jitter);
    const bool planes = ff_finish_alters(finish) && !finish->direct;
    if (ff_finish_alters(finish) && host->from == FF_U8) finish->metadata.statistics_count = 0;
    const ff_dtype to = planes || spec->mixup > 0 ? FF_F32 : host->to;
    const ff_layout layout = planes ? FF_CHW : host->to_layout;
    finish->apart = to != host->to || (layout != host->to_layout && host->channels > 1);
    ff_status status = FF_OK;
    FF_TRY_DONE(ff_augment_host_init(&finish->host, &finish->metadata, spec, to, layout,
                                     host->out_height, host->out_width, error));
    FF_TRY_DONE(ff_alloc(&finish->mean, host->channels, sizeof(float), "a row", error));
    FF_TRY_DONE(ff_alloc(&finish->std, host->channels, sizeof(float), "a row", error));
    for (uint32_t c = 0; c < host->channels; c++) {
        finish->mean[c] = metadata->statistics_count ? metadata->mean[c] : 0;
        finish->std[c] = metadata->statistics_count ? metadata->std[c] : 1;
    }
    if (changes) FF_TRY_DONE(init_changes(finish, metadata, host, error));
    const size_t pixels = (size_t)host->out_height * host->out_width;
    if (changes) finish->image_bytes = ff_change_bytes(&spec->change, host->channels, pixels);
    finish->values = host->channels * pixels;
    finish->row_bytes = finish->values * finish->host.to_bytes;
done:
    if (status != FF_OK) ff_finish_free(finish);
    return status;
}

void ff_finish_free(ff_finish *finish) {
    ff_augment_host_free(&finish->host);
    ff_augment_host_free(&finish->pixels);
    ff_augment_host_free(&finish->shows);
    free(finish->shown);
    free(finish->mean);
    free(finish->std);
    *finish = (ff_finish){0};
}

ff_augment_params ff_finish_params(const ff_augment_params *params) {
    ff_augment_params uncut = *params;
    uncut.cut_height = uncut.cut_width = 0;
    return uncut;
}

/* ---- jitter --------------------------------------------------------------------------------- */

FF_CLONES static void undo(float *value, size_t count, float mean, float std) {
    for (size_t i = 0; i < count; i++) value[i] = ff_jitter_clamp(value[i] * std + mean);
}

FF_CLONES static void normalize(float *value, size_t count, float mean, float std) {
    for (size_t i = 0; i < count; i++) value[i] = (value[i] - mean) / std;
}

/* Leaves [0, 1] where changes follow. */
static void jitter_row(const ff_finish *finish, uint64_t seed, uint32_t epoch, uint64_t index,
                       float *image) {
    const size_t pixels = (size_t)finish->host.out_height * finish->host.out_width;
    const uint32_t channels = finish->host.channels;
    const bool ready = finish->metadata.statistics_count == 0;
    const ff_jitter jitter = ff_jitter_at(finish->jitter, seed, epoch, index);
    for (uint32_t c = 0; c < channels; c++)
        undo(image + c * pixels, pixels, ready ? 0 : finish->mean[c], ready ? 1 : finish->std[c]);
    ff_jitter_apply(&jitter, image, channels, pixels);
    for (uint32_t c = 0; c < channels && !finish->changes; c++)
        normalize(image + c * pixels, pixels, finish->mean[c], finish->std[c]);
}

/* images: of which the first is the image of u8. */
static void change_row(const ff_finish *finish, uint64_t seed, uint32_t epoch, uint64_t index,
                       void *row, uint8_t *images) {
    static const ff_augment_params as_it_is;
    const ff_augment_host *shows = &finish->shows;
    const uint32_t height = shows->out_height, width = shows->out_width;
    ff_changes changes;
    ff_changes_at(&changes, &finish->change, seed, epoch, index, height, width);
    const uint8_t *changed = ff_change_apply(&changes, images, shows->channels, height, width);
    shows->apply(shows, &as_it_is, changed, height, width, row);
}

/* The image of u8 of a row of f32. */
static void read_image(const ff_finish *finish, const float *row, uint8_t *image) {
    const size_t pixels = (size_t)finish->host.out_height * finish->host.out_width;
    const bool ready = finish->jitters || finish->metadata.statistics_count == 0;
    for (uint32_t c = 0; c < finish->host.channels; c++)
        round_values(image + c * pixels, row + c * pixels, pixels, ready ? 0 : finish->mean[c],
                     ready ? 1 : finish->std[c]);
}

void ff_finish_alter(const ff_finish *finish, const ff_augment_params *params, uint64_t seed,
                     uint32_t epoch, uint64_t index, void *row, uint8_t *images) {
    if (finish->jitters) jitter_row(finish, seed, epoch, index, row);
    if (finish->changes && !finish->direct) read_image(finish, row, images);
    if (finish->changes) change_row(finish, seed, epoch, index, row, images);
    ff_augment_cut(&finish->host, params, row);
}

/* ---- mixing --------------------------------------------------------------------------------- */

FF_CLONES static void blend(float *restrict even, float *restrict odd, size_t count, float own) {
    const float rest = 1.0f - own;
    for (size_t i = 0; i < count; i++) {
        const float a = even[i], b = odd[i];
        even[i] = a * own + b * rest;
        odd[i] = b * own + a * rest;
    }
}

static void swap_bytes(uint8_t *restrict a, uint8_t *restrict b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint8_t kept = a[i];
        a[i] = b[i], b[i] = kept;
    }
}

/* Swaps the box of the two rows. */
static void swap_boxes(const ff_augment_host *host, const ff_augment_params *params, uint8_t *even,
                       uint8_t *odd) {
    const bool planar = host->to_layout == FF_CHW;
    const size_t pixel = planar ? host->to_bytes : host->to_bytes * host->channels;
    const size_t line = host->out_width * pixel;
    for (uint32_t plane = 0; plane < (planar ? host->channels : 1); plane++)
        for (int32_t y = params->mix_y; y < params->mix_y + params->mix_height; y++) {
            const size_t at = (plane * (size_t)host->out_height + (size_t)y) * line +
                              (size_t)params->mix_x * pixel;
            swap_bytes(even + at, odd + at, (size_t)params->mix_width * pixel);
        }
}

void ff_finish_mix(const ff_finish *finish, const ff_augment_params *params, void *even,
                   void *odd) {
    if (params->flags & FF_AUGMENT_MIXUP) blend(even, odd, finish->values, params->weight);
    if (params->flags & FF_AUGMENT_CUTMIX) swap_boxes(&finish->host, params, even, odd);
}

/* ---- storing -------------------------------------------------------------------------------- */

/* Interleaves planes into pixels, in pieces that stay in the L1 cache. */
static void interleave(const ff_finish *finish, const float *row, uint8_t *out) {
    enum { PIXELS = 256, CHANNELS = 3 }; /* only altered rows change their layout */
    const size_t pixels = (size_t)finish->host.out_height * finish->host.out_width;
    const size_t bytes = CHANNELS * ff_dtype_bytes(finish->to);
    float some[PIXELS * CHANNELS];
    for (size_t at = 0; at < pixels; at += PIXELS) {
        const size_t n = pixels - at < PIXELS ? pixels - at : PIXELS;
        for (size_t i = 0; i < n; i++)
            for (size_t c = 0; c < CHANNELS; c++) some[i * CHANNELS + c] = row[c * pixels + at + i];
        ff_convert(out + at * bytes, finish->to, some, FF_F32, n * CHANNELS);
    }
}

void ff_finish_store(const ff_finish *finish, const void *row, void *out) {
    if (finish->host.to_layout != finish->to_layout && finish->host.channels == 3)
        interleave(finish, row, out);
    else
        ff_convert(out, finish->to, row, FF_F32, finish->values);
}
