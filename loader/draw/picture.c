#include "loader/draw/picture.h"

#include <math.h>

static uint32_t shown_channels(const ff_metadata *metadata) {
    return metadata->channels >= 3 ? 3 : 1;
}

static double value_at(const ff_metadata *metadata, const void *tensor, size_t area, size_t pixel,
                       size_t channel) {
    size_t index =
        metadata->layout == FF_CHW ? channel * area + pixel : pixel * metadata->channels + channel;
    return ff_element(tensor, metadata->dtype, index);
}

void ff_picture_range(const ff_metadata *metadata, const void *tensor, uint32_t height,
                      uint32_t width, double *minimum, double *maximum) {
    size_t area = (size_t)height * width;
    for (size_t i = 0; i < area; i++)
        for (uint32_t c = 0; c < shown_channels(metadata); c++) {
            double value = value_at(metadata, tensor, area, i, c);
            if (!isfinite(value)) continue;
            if (value < *minimum) *minimum = value;
            if (value > *maximum) *maximum = value;
        }
}

static ff_picture_scale same_for_all(double gain, double offset, const char *sentence) {
    ff_picture_scale scale = {.sentence = sentence};
    for (int c = 0; c < 3; c++) {
        scale.gain[c] = gain;
        scale.offset[c] = offset;
    }
    return scale;
}

ff_picture_scale ff_picture_choose_scale(const ff_metadata *metadata, double minimum,
                                         double maximum) {
    if (metadata->dtype == FF_U8) return same_for_all(1, 0, "raw values");
    if (ff_dtype_is_float(metadata->dtype) && metadata->statistics_count) {
        ff_picture_scale scale = {.sentence = "denormalized with the recorded mean and std"};
        for (uint32_t c = 0; c < shown_channels(metadata); c++) {
            scale.gain[c] = 255.0 * (double)metadata->std[c];
            scale.offset[c] = 255.0 * (double)metadata->mean[c];
        }
        return scale;
    }
    if (minimum > maximum) return same_for_all(1, 0, "no finite values");
    if (ff_dtype_is_float(metadata->dtype) && minimum >= 0 && maximum <= 1)
        return same_for_all(255, 0, "values from 0 to 1 shown as black to white");
    /* Scaled, 12-bit pictures in 16 bits would be all black: only a wide range is shown
     * unscaled. */
    if (metadata->dtype == FF_U16 && maximum >= 32768)
        return same_for_all(1 / 257.0, 0, "values from 0 to 65535 shown as black to white");
    double gain = maximum > minimum ? 255 / (maximum - minimum) : 1;
    return same_for_all(gain, -minimum * gain,
                        "stretched: the smallest value shown black, the largest white");
}

void ff_picture_convert(const ff_metadata *metadata, const ff_picture_scale *scale,
                        const void *tensor, uint32_t height, uint32_t width, uint8_t *rgb) {
    size_t area = (size_t)height * width;
    uint32_t channels = shown_channels(metadata);
    for (size_t i = 0; i < area; i++) {
        uint8_t *to = rgb + 3 * i;
        bool missing = false;
        for (uint32_t c = 0; c < 3; c++) {
            if (c >= channels) {
                to[c] = to[0];
                continue;
            }
            double value =
                value_at(metadata, tensor, area, i, c) * scale->gain[c] + scale->offset[c];
            missing |= isnan(value);
            to[c] = value >= 254.5 ? 255 : value >= 0.5 ? (uint8_t)(value + 0.5) : 0;
        }
        if (missing) {
            to[0] = to[2] = 255;
            to[1] = 0;
        }
    }
}
