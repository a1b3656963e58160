#include "tools/ffpack/image/transform.h"

#include "format/base/memory.h"
#include "format/base/real.h"
#include "tools/ffpack/image/transform_apply.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

float ff_transform_value(const ff_transform *transform, uint32_t channel, uint8_t value) {
    float scaled = (float)value / 255.0f;
    if (!transform->mean) return scaled;
    return ff_transform_normalize(scaled, transform->mean[channel], transform->std[channel]);
}

static ff_status check_spec(const ff_transform_spec *spec, ff_error *error) {
    if (spec->channels < 1 || spec->channels > FF_CHANNELS_LIMIT)
        return ff_fail(error, FF_USAGE, "%u channels; 1 to %u are packed", spec->channels,
                       FF_CHANNELS_LIMIT);
    if (!spec->mean != !spec->std)
        return ff_fail(error, FF_USAGE, "--mean and --std go together: set both or neither");
    bool is_known = spec->dtype == FF_U8 || spec->dtype == FF_U16 || ff_dtype_is_float(spec->dtype);
    if (!is_known)
        return ff_fail(error, FF_USAGE, "dtype %s: images are packed as u8, u16, f16, bf16 or f32",
                       ff_dtype_name(spec->dtype));
    if (spec->dtype == FF_U16 && spec->source != FF_VALUES_U16)
        return ff_fail(error, FF_USAGE,
                       "dtype u16 holds raw u16 values, and this source has others; f16, bf16 or "
                       "f32 is wanted");
    if (spec->dtype == FF_U8 && spec->source != FF_VALUES_U8)
        return ff_fail(error, FF_USAGE,
                       "dtype u8 holds raw pixel values, and this source has others; f16, bf16 or "
                       "f32 is wanted");
    for (uint32_t c = 0; spec->mean && c < spec->channels; c++) {
        if (!isfinite(spec->mean[c]))
            return ff_fail(error, FF_USAGE, "the mean of channel %u is %g, a finite number wanted",
                           c, (double)spec->mean[c]);
        if (!isfinite(spec->std[c]) || !(spec->std[c] > 0.0f))
            return ff_fail(error, FF_USAGE,
                           "the std of channel %u is %g, a finite number above 0 wanted", c,
                           (double)spec->std[c]);
    }
    return FF_OK;
}

static void fill_table(ff_transform *transform) {
    for (uint32_t c = 0; c < transform->channels; c++) {
        for (uint32_t v = 0; v < 256; v++) {
            size_t at = (size_t)c * 256 + v;
            float value = ff_transform_value(transform, c, (uint8_t)v);
            if (transform->dtype == FF_F32)
                transform->table32[at] = ff_float_bits(value);
            else
                ff_convert(&transform->table16[at], transform->dtype, &value, FF_F32, 1);
        }
    }
}

static ff_status fill(ff_transform *transform, const ff_transform_spec *spec, ff_error *error) {
    transform->source = spec->source;
    transform->channels = spec->channels;
    transform->dtype = spec->dtype;
    transform->layout = spec->layout;
    transform->fast = ff_transform_avx512();
    transform->low = spec->low;
    transform->high = spec->high;
    if (spec->mean) {
        const char *what = "the statistics of a transform";
        FF_TRY(ff_alloc(&transform->mean, spec->channels, sizeof(float), what, error));
        FF_TRY(ff_alloc(&transform->std, spec->channels, sizeof(float), what, error));
        for (uint32_t c = 0; c < spec->channels; c++) {
            transform->mean[c] = spec->mean[c];
            transform->std[c] = spec->std[c];
        }
    }
    transform->always_finite = !ff_dtype_is_float(spec->dtype);
    if (spec->source != FF_VALUES_U8 || spec->dtype == FF_U8) return FF_OK;
    void *table;
    FF_TRY(ff_alloc_aligned(&table, (uint64_t)spec->channels * 256, ff_dtype_bytes(spec->dtype), 0,
                            "a transform's table", error));
    if (spec->dtype == FF_F32)
        transform->table32 = table;
    else
        transform->table16 = table;
    fill_table(transform);
    transform->always_finite = ff_all_finite(table, spec->dtype, (size_t)spec->channels * 256);
    return FF_OK;
}

ff_status ff_transform_create(ff_transform **transform, const ff_transform_spec *spec,
                              ff_error *error) {
    *transform = NULL;
    FF_TRY(check_spec(spec, error));
    ff_transform *created;
    FF_TRY(ff_alloc(&created, 1, sizeof *created, "a transform", error));
    ff_status status = fill(created, spec, error);
    if (status != FF_OK) {
        ff_transform_destroy(&created);
        return status;
    }
    *transform = created;
    return FF_OK;
}

void ff_transform_destroy(ff_transform **transform) {
    if (!transform || !*transform) return;
    free((*transform)->mean);
    free((*transform)->std);
    free((*transform)->table16);
    free((*transform)->table32);
    free(*transform);
    *transform = NULL;
}

size_t ff_transform_bytes(const ff_transform *transform, uint32_t width, uint32_t height) {
    return (size_t)width * height * transform->channels * ff_dtype_bytes(transform->dtype);
}

/* " name=bits,bits,..." */
static ff_status add_bits(ff_buffer *line, const char *name, const float *values, uint32_t count,
                          ff_error *error) {
    FF_TRY(ff_buffer_printf(line, error, " %s=", name));
    for (uint32_t c = 0; c < count; c++)
        FF_TRY(ff_buffer_printf(line, error, "%s%08x", c > 0 ? "," : "", ff_float_bits(values[c])));
    return FF_OK;
}

/* Writes a whole number as it is, others in the fewest digits that restore the value. */
static ff_status add_number(ff_buffer *line, double value, ff_error *error) {
    char text[FF_REAL_BYTES];
    if (fabs(value) < 1e15 && trunc(value) == value)
        return ff_buffer_printf(line, error, "%.0f", value);
    ff_real_write(value, 1, text);
    return ff_buffer_printf(line, error, "%s", text);
}

static ff_status record_geometry(ff_metadata *metadata, const ff_geometry *geometry,
                                 ff_buffer *line, ff_error *error) {
    if (geometry->pad_square) FF_TRY(ff_metadata_add_transform(metadata, "pad_square", error));
    if (geometry->resize != FF_RESIZE_NONE || geometry->max_side != 0) {
        line->length = 0;
        if (geometry->resize == FF_RESIZE_NONE)
            FF_TRY(ff_buffer_printf(line, error, "max_side size=%u", geometry->max_side));
        else if (geometry->resize == FF_RESIZE_SHORT && geometry->max_side != 0)
            FF_TRY(ff_buffer_printf(line, error, "resize size=%u max_size=%u", geometry->size,
                                    geometry->max_side));
        else if (geometry->resize == FF_RESIZE_SHORT)
            FF_TRY(ff_buffer_printf(line, error, "resize size=%u", geometry->size));
        else
            FF_TRY(ff_buffer_printf(line, error, "resize size=%ux%u", geometry->resize_height,
                                    geometry->resize_width));
        FF_TRY(ff_buffer_printf(line, error, " interpolation=%s",
                                ff_interpolation_name(geometry->interpolation)));
        if (geometry->order == FF_CHEAPER_FIRST)
            FF_TRY(ff_buffer_printf(line, error, " passes=cheaper_first"));
        FF_TRY(ff_metadata_add_transform(metadata, line->bytes, error));
    }
    if (geometry->crop_height != 0) {
        line->length = 0;
        FF_TRY(ff_buffer_printf(line, error, "center_crop size=%ux%u", geometry->crop_height,
                                geometry->crop_width));
        FF_TRY(ff_metadata_add_transform(metadata, line->bytes, error));
    }
    return FF_OK;
}

static ff_status record_normalize(ff_metadata *metadata, const float *mean, const float *std,
                                  uint32_t channels, ff_buffer *line, ff_error *error) {
    line->length = 0;
    FF_TRY(ff_buffer_printf(line, error, "normalize"));
    FF_TRY(add_bits(line, "mean", mean, channels, error));
    FF_TRY(add_bits(line, "std", std, channels, error));
    FF_TRY(ff_metadata_add_transform(metadata, line->bytes, error));
    return ff_metadata_set_statistics(metadata, mean, std, channels, error);
}

static ff_status record(ff_metadata *metadata, ff_image_mode mode, const ff_geometry *geometry,
                        const ff_transform_spec *spec, ff_buffer *line, ff_error *error) {
    if (mode == FF_MODE_GRAY) FF_TRY(ff_metadata_add_transform(metadata, "grayscale", error));
    if (geometry) FF_TRY(record_geometry(metadata, geometry, line, error));
    if (spec->ranged) {
        line->length = 0;
        FF_TRY(ff_buffer_printf(line, error, "to_tensor range="));
        FF_TRY(add_number(line, spec->low, error));
        FF_TRY(ff_buffer_printf(line, error, ","));
        FF_TRY(add_number(line, spec->high, error));
        FF_TRY(ff_metadata_add_transform(metadata, line->bytes, error));
    } else if (spec->source == FF_VALUES_U8) {
        FF_TRY(ff_metadata_add_transform(metadata, "to_tensor scale=1/255", error));
    }
    if (!spec->mean) return FF_OK;
    return record_normalize(metadata, spec->mean, spec->std, spec->channels, line, error);
}

ff_status ff_transform_record(ff_metadata *metadata, ff_image_mode mode,
                              const ff_geometry *geometry, const ff_transform_spec *spec,
                              ff_error *error) {
    ff_buffer line = {0};
    ff_status status = record(metadata, mode, geometry, spec, &line, error);
    ff_buffer_free(&line);
    return status;
}

ff_status ff_transform_record_again(ff_metadata *metadata, const float *mean, const float *std,
                                    ff_error *error) {
    ff_buffer line = {0};
    free(metadata->transform[--metadata->transform_count]);
    const ff_status status =
        record_normalize(metadata, mean, std, metadata->statistics_count, &line, error);
    ff_buffer_free(&line);
    return status;
}
