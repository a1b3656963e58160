#include "loader/augment/finish.h"

#include "format/base/compiler.h"
#include "loader/augment/jitter.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static ff_status check_jitter(const ff_metadata *metadata, const ff_augment_host *host,
                              ff_error *error) {
    const uint64_t pixels = (uint64_t)host->out_height * host->out_width;
    if (host->channels != 1 && host->channels != 3)
        return ff_fail(error, FF_USAGE,
                       "colour jitter needs samples of 1 or 3 channels, not %" PRIu32,
                       host->channels);
    if (metadata->dtype == FF_U16)
        return ff_fail(error, FF_USAGE,
                       "colour jitter needs samples of u8, f16, bf16 or f32, not u16");
    if (pixels > FF_JITTER_PIXELS_LIMIT)
        return ff_fail(error, FF_USAGE,
                       "an output of %" PRIu32 "x%" PRIu32 " is too large for colour jitter",
                       host->out_height, host->out_width);
    return FF_OK;
}

ff_status ff_finish_init(ff_finish *finish, const ff_metadata *metadata,
                         const ff_augment_spec *spec, const ff_augment_host *host,
                         ff_error *error) {
    *finish = (ff_finish){0};
    const bool jitters = ff_augment_jitters(spec), mixes = ff_augment_mixes(spec);
    if (!jitters && !mixes) return FF_OK;
    if (!ff_dtype_is_float(host->to))
        return ff_fail(error, FF_USAGE,
                       "colour jitter, mixup and cutmix need batches of f32, f16 or bf16, not %s "
                       "as stored",
                       ff_dtype_name(host->to));
    if (jitters) FF_TRY(check_jitter(metadata, host, error));
    *finish = (ff_finish){.used = true,
                          .jitters = jitters,
                          .mixes = mixes,
                          .metadata = *metadata,
                          .to = host->to,
                          .to_layout = host->to_layout};
    memcpy(finish->jitter, spec->jitter, sizeof finish->jitter);
    if (jitters && host->from == FF_U8) finish->metadata.statistics_count = 0;
    const ff_dtype to = jitters || spec->mixup > 0 ? FF_F32 : host->to;
    const ff_layout layout = jitters ? FF_CHW : host->to_layout;
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
    finish->values = (size_t)host->channels * host->out_height * host->out_width;
    finish->row_bytes = finish->values * finish->host.to_bytes;
done:
    if (status != FF_OK) ff_finish_free(finish);
    return status;
}

void ff_finish_free(ff_finish *finish) {
    ff_augment_host_free(&finish->host);
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

void ff_finish_jitter(const ff_finish *finish, const ff_augment_params *params, uint64_t seed,
                      uint32_t epoch, void *row) {
    const size_t pixels = (size_t)finish->host.out_height * finish->host.out_width;
    const uint32_t channels = finish->host.channels;
    const bool ready = finish->metadata.statistics_count == 0;
    float *image = row;
    const ff_jitter jitter = ff_jitter_at(finish->jitter, seed, epoch, params->sample);
    for (uint32_t c = 0; c < channels; c++)
        undo(image + c * pixels, pixels, ready ? 0 : finish->mean[c], ready ? 1 : finish->std[c]);
    ff_jitter_apply(&jitter, image, channels, pixels);
    for (uint32_t c = 0; c < channels; c++)
        normalize(image + c * pixels, pixels, finish->mean[c], finish->std[c]);
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
    enum { PIXELS = 256, CHANNELS = 3 }; /* only jittered rows change their layout */
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
