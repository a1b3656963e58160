#include "loader/augment/augment.h"

#include "format/base/nearest.h"
#include "format/metadata.h"
#include "loader/augment/jitter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KNOWN                                                                                      \
    "known are crop[=PAD][:reflect], flip[=alternate], cutout=SIZE, resize=SIZE, "                 \
    "rrc=SIZE[:SCALE-SCALE[:RATIO-RATIO]], jitter=BRIGHTNESS[:CONTRAST[:SATURATION[:HUE]]], "      \
    "erase=PROBABILITY[:SCALE-SCALE[:RATIO-RATIO]], mixup[=ALPHA], cutmix[=ALPHA], or none"

/* torchvision's. */
static const double default_scale[2] = {0.08, 1.0}, default_ratio[2] = {3.0 / 4.0, 4.0 / 3.0};
static const double erase_scale[2] = {0.02, 0.33}, erase_ratio[2] = {0.3, 3.3};

/* A decimal number up to FF_SIDE_LIMIT that fills the whole text. */
static bool parse_pixels(const char *text, uint32_t *pixels) {
    uint32_t value = 0;
    if (!*text) return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        value = value * 10 + (uint32_t)(*text - '0');
        if (value > FF_SIDE_LIMIT) return false;
    }
    *pixels = value;
    return true;
}

/* crop[=PAD][:reflect|:black] */
static bool parse_crop(ff_augment_spec *spec, char *value) {
    spec->crop = 1;
    if (!value) return true;
    char *mode = strchr(value, ':');
    if (mode) {
        *mode++ = 0;
        if (strcmp(mode, "reflect") == 0)
            spec->pad_mode = FF_PAD_REFLECT;
        else if (strcmp(mode, "black") != 0)
            return false;
    }
    return parse_pixels(value, &spec->pad);
}

static bool parse_flip(ff_augment_spec *spec, const char *value) {
    if (!value || strcmp(value, "random") == 0)
        spec->flip = FF_FLIP_RANDOM;
    else if (strcmp(value, "alternate") == 0)
        spec->flip = FF_FLIP_ALTERNATE;
    else
        return false;
    return true;
}

/* A decimal fraction from `least` to `most` at *text, which is moved behind it. */
static bool parse_number(const char **text, double least, double most, double *number) {
    char *end;
    if (**text != '.' && (**text < '0' || **text > '9')) return false;
    *number = strtod(*text, &end);
    *text = end;
    return *number >= least && *number <= most;
}

/* "A-B" with least <= A <= B <= most. */
static bool parse_range(const char *text, double least, double most, double range[2]) {
    return parse_number(&text, least, most, &range[0]) && *text++ == '-' &&
           parse_number(&text, least, most, &range[1]) && *text == 0 && range[0] <= range[1];
}

/* jitter=B[:C[:S[:H]]] */
static bool parse_jitter(ff_augment_spec *spec, const char *value) {
    for (int i = 0; i < 4 && value; i++) {
        if (!parse_number(&value, 0, i == FF_JITTER_HUE ? 0.5 : 100, &spec->jitter[i]))
            return false;
        if (*value == 0) return ff_augment_jitters(spec);
        if (*value++ != ':') return false;
    }
    return false;
}

/* mixup[=ALPHA] or cutmix[=ALPHA] */
static bool parse_alpha(const char *value, double *alpha) {
    *alpha = 1;
    return !value || (parse_number(&value, 0.01, 100, alpha) && *value == 0);
}

/* Cuts "...[:SCALE-SCALE[:RATIO-RATIO]]" off after what stands before, into shares of an area and
 * aspect ratios; where they are left out they stay. */
static bool parse_shape(char *value, double scale[2], double ratio[2]) {
    char *first = value ? strchr(value, ':') : NULL, *second = NULL;
    if (first) *first++ = 0, second = strchr(first, ':');
    if (second) *second++ = 0;
    return (!first || parse_range(first, 1e-9, 1, scale)) &&
           (!second || parse_range(second, 0.01, 100, ratio));
}

/* rrc=SIZE[:SCALE-SCALE[:RATIO-RATIO]] */
static bool parse_rrc(ff_augment_spec *spec, char *value) {
    memcpy(spec->scale, default_scale, sizeof default_scale);
    memcpy(spec->ratio, default_ratio, sizeof default_ratio);
    return parse_shape(value, spec->scale, spec->ratio) && value &&
           parse_pixels(value, &spec->rrc) && spec->rrc > 0;
}

/* erase=PROBABILITY[:SCALE-SCALE[:RATIO-RATIO]] */
static bool parse_erase(ff_augment_spec *spec, char *value) {
    const char *text = value;
    memcpy(spec->erase_scale, erase_scale, sizeof erase_scale);
    memcpy(spec->erase_ratio, erase_ratio, sizeof erase_ratio);
    return parse_shape(value, spec->erase_scale, spec->erase_ratio) && text &&
           parse_number(&text, 1e-9, 1, &spec->erase) && *text == 0;
}

static ff_status refuse_name(const char *name, const char *whole, ff_error *error) {
    static const char *const names[] = {"crop",   "flip",  "cutout", "resize", "rrc",
                                        "jitter", "erase", "mixup",  "cutmix", "none"};
    ff_nearest nearest = {.wanted = name, .length = strlen(name)};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) ff_nearest_offer(&nearest, names[i]);
    if (nearest.name)
        return ff_fail(error, FF_USAGE, "augmentation '%s' is not known (did you mean %s?); " KNOWN,
                       whole, nearest.name);
    return ff_fail(error, FF_USAGE, "augmentation '%s' is not known; " KNOWN, whole);
}

static ff_status parse_part(ff_augment_spec *spec, char *part, ff_error *error) {
    char whole[96];
    snprintf(whole, sizeof whole, "%s", part);
    char *value = strchr(part, '=');
    if (value) *value++ = 0;
    bool again, good;
    if (strcmp(part, "crop") == 0) {
        again = spec->crop;
        good = parse_crop(spec, value);
    } else if (strcmp(part, "flip") == 0) {
        again = spec->flip != FF_FLIP_NONE;
        good = parse_flip(spec, value);
    } else if (strcmp(part, "cutout") == 0) {
        again = spec->cutout != 0;
        good = value && parse_pixels(value, &spec->cutout) && spec->cutout > 0;
    } else if (strcmp(part, "resize") == 0) {
        again = spec->resize != 0;
        good = value && parse_pixels(value, &spec->resize) && spec->resize > 0;
    } else if (strcmp(part, "rrc") == 0) {
        again = spec->rrc != 0;
        good = parse_rrc(spec, value);
    } else if (strcmp(part, "jitter") == 0) {
        again = ff_augment_jitters(spec);
        good = parse_jitter(spec, value);
    } else if (strcmp(part, "erase") == 0) {
        again = spec->erase > 0;
        good = parse_erase(spec, value);
    } else if (strcmp(part, "mixup") == 0) {
        again = spec->mixup > 0;
        good = parse_alpha(value, &spec->mixup);
    } else if (strcmp(part, "cutmix") == 0) {
        again = spec->cutmix > 0;
        good = parse_alpha(value, &spec->cutmix);
    } else {
        return refuse_name(part, whole, error);
    }
    if (!good)
        return ff_fail(error, FF_USAGE,
                       "augmentation '%s' has a value that is not understood; " KNOWN, whole);
    if (again) return ff_fail(error, FF_USAGE, "augmentation '%s' is given twice", part);
    return FF_OK;
}

ff_status ff_augment_parse(ff_augment_spec *spec, const char *text, ff_error *error) {
    memset(spec, 0, sizeof *spec);
    if (strcmp(text, "none") == 0) return FF_OK;
    char *copy;
    FF_TRY(ff_copy_string(&copy, text, error));
    ff_status status = FF_OK;
    for (char *part = copy; part && status == FF_OK;) {
        char *comma = strchr(part, ',');
        if (comma) *comma++ = 0;
        status = parse_part(spec, part, error);
        part = comma;
    }
    free(copy);
    if (status == FF_OK && spec->rrc && (spec->crop || spec->resize))
        status = ff_fail(error, FF_USAGE,
                         "augmentations 'rrc' and '%s' exclude each other: a random resized crop "
                         "is both a resize and a crop",
                         spec->crop ? "crop" : "resize");
    if (status == FF_OK && spec->erase > 0 && spec->cutout)
        status = ff_fail(error, FF_USAGE,
                         "augmentations 'erase' and 'cutout' exclude each other: either fills one "
                         "box");
    if (status == FF_OK && spec->resize && spec->pad)
        status = ff_fail(error, FF_USAGE,
                         "augmentations 'resize' and a padding of 'crop' exclude each other: a "
                         "resized sample is cropped without padding");
    return status;
}

/* The fewest digits that give the number back. */
static void number_text(double value, char text[32]) {
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
}

/* ":A-B" */
static void range_text(const double range[2], char text[72]) {
    char low[32], high[32];
    number_text(range[0], low);
    number_text(range[1], high);
    snprintf(text, 72, ":%s-%s", low, high);
}

/* "[:SCALE-SCALE[:RATIO-RATIO]]", as far as they differ from `scale0` and `ratio0`. */
static void shape_text(const double scale[2], const double ratio[2], const double scale0[2],
                       const double ratio0[2], char text[144]) {
    const bool shaped = memcmp(ratio, ratio0, 2 * sizeof *ratio) != 0;
    text[0] = 0;
    if (shaped || memcmp(scale, scale0, 2 * sizeof *scale) != 0) range_text(scale, text);
    if (shaped) range_text(ratio, text + strlen(text));
}

/* ",jitter=B:C:S:H" without zeros at the end, or "". */
static void jitter_text(const double jitter[4], char text[144]) {
    size_t used = 0;
    int count = 4;
    while (count && jitter[count - 1] == 0) count--;
    text[0] = 0;
    for (int i = 0; i < count; i++) {
        char number[32];
        number_text(jitter[i], number);
        used += (size_t)snprintf(text + used, 144 - used, "%s%s", i ? ":" : ",jitter=", number);
    }
}

/* ",NAME=ALPHA", or "". */
static void alpha_text(const char *name, double alpha, char text[40]) {
    char number[32];
    number_text(alpha, number);
    text[0] = 0;
    if (alpha > 0) snprintf(text, 40, ",%s=%s", name, number);
}

void ff_augment_text(const ff_augment_spec *spec, char text[FF_AUGMENT_TEXT_BYTES]) {
    char crop[40] = "", flip[20] = "", cutout[24] = "";
    if (spec->crop)
        snprintf(crop, sizeof crop, ",crop=%u%s", spec->pad,
                 spec->pad_mode == FF_PAD_REFLECT ? ":reflect" : "");
    if (spec->flip != FF_FLIP_NONE)
        snprintf(flip, sizeof flip, ",flip%s", spec->flip == FF_FLIP_ALTERNATE ? "=alternate" : "");
    if (spec->cutout) snprintf(cutout, sizeof cutout, ",cutout=%u", spec->cutout);
    char resize[24] = "", rrc[24] = "", shape[144] = "", erase[48] = "", erased[144] = "";
    if (spec->resize) snprintf(resize, sizeof resize, ",resize=%u", spec->resize);
    if (spec->rrc) {
        snprintf(rrc, sizeof rrc, ",rrc=%u", spec->rrc);
        shape_text(spec->scale, spec->ratio, default_scale, default_ratio, shape);
    }
    if (spec->erase > 0) {
        char number[32];
        number_text(spec->erase, number);
        snprintf(erase, sizeof erase, ",erase=%s", number);
        shape_text(spec->erase_scale, spec->erase_ratio, erase_scale, erase_ratio, erased);
    }
    char jitter[144], mixup[40], cutmix[40];
    jitter_text(spec->jitter, jitter);
    alpha_text("mixup", spec->mixup, mixup);
    alpha_text("cutmix", spec->cutmix, cutmix);
    char all[FF_AUGMENT_TEXT_BYTES + 1];
    snprintf(all, sizeof all, "%s%s%s%s%s%s%s%s%s%s%s", resize, rrc, shape, crop, flip, jitter,
             cutout, erase, erased, mixup, cutmix);
    snprintf(text, FF_AUGMENT_TEXT_BYTES, "%s", all[0] ? all + 1 : "none");
}

ff_status ff_augment_check(const ff_augment_spec *spec, uint32_t height, uint32_t width,
                           uint32_t out_height, uint32_t out_width, ff_error *error) {
    uint64_t pad = spec->crop ? spec->pad : 0;
    if (spec->rrc && out_height && out_width) return FF_OK;
    uint32_t resized_height = height, resized_width = width;
    if (spec->resize) ff_augment_resized(spec->resize, &resized_height, &resized_width);
    if (spec->resize && (out_height > resized_height || out_width > resized_width))
        return ff_fail(error, FF_USAGE,
                       "an output of %ux%u cannot be cropped from a sample of %ux%u resized to "
                       "%ux%u",
                       out_height, out_width, height, width, resized_height, resized_width);
    if (out_height == 0 || out_width == 0 ||
        (!spec->resize && (out_height > height + 2 * pad || out_width > width + 2 * pad)))
        return ff_fail(error, FF_USAGE,
                       "an output of %ux%u cannot be cropped from a sample of %ux%u padded by %u",
                       out_height, out_width, height, width, (unsigned)pad);
    if (spec->pad_mode == FF_PAD_REFLECT && (pad >= height || pad >= width))
        return ff_fail(error, FF_USAGE,
                       "a reflected padding of %u needs samples of more than %u pixels a side, not "
                       "%ux%u",
                       (unsigned)pad, (unsigned)pad, height, width);
    return FF_OK;
}
