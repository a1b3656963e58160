#include "loader/augment/augment.h"

#include "format/base/nearest.h"
#include "format/metadata.h"
#include "loader/augment/jitter.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading -------------------------------------------------------------------------------- */

/* torchvision's defaults. */
static const double default_scale[2] = {0.08, 1.0}, default_ratio[2] = {3.0 / 4.0, 4.0 / 3.0};
static const double erase_scale[2] = {0.02, 0.33}, erase_ratio[2] = {0.3, 3.3};

/* Parses the whole text as a decimal number up to FF_SIDE_LIMIT. */
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

/* An entry's `parse` reads the text after "NAME=", which it may modify; NULL where there is
 * none. */
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

static bool parse_flip(ff_augment_spec *spec, char *value) {
    if (!value || strcmp(value, "random") == 0)
        spec->flip = FF_FLIP_RANDOM;
    else if (strcmp(value, "alternate") == 0)
        spec->flip = FF_FLIP_ALTERNATE;
    else
        return false;
    return true;
}

static bool parse_cutout(ff_augment_spec *spec, char *value) {
    return value && parse_pixels(value, &spec->cutout) && spec->cutout > 0;
}

static bool parse_resize(ff_augment_spec *spec, char *value) {
    return value && parse_pixels(value, &spec->resize) && spec->resize > 0;
}

/* Parses a decimal fraction from `least` to `most` at *text and advances *text. */
static bool parse_number(const char **text, double least, double most, double *number) {
    char *end;
    if (**text != '.' && (**text < '0' || **text > '9')) return false;
    *number = strtod(*text, &end);
    *text = end;
    return *number >= least && *number <= most;
}

/* Parses "A-B" with least <= A <= B <= most. */
static bool parse_range(const char *text, double least, double most, double range[2]) {
    return parse_number(&text, least, most, &range[0]) && *text++ == '-' &&
           parse_number(&text, least, most, &range[1]) && *text == 0 && range[0] <= range[1];
}

static bool parse_jitter(ff_augment_spec *spec, char *value) {
    const char *text = value;
    for (int i = 0; i < 4 && text; i++) {
        if (!parse_number(&text, 0, i == FF_JITTER_HUE ? 0.5 : 100, &spec->jitter[i])) return false;
        if (*text == 0) return ff_augment_jitters(spec);
        if (*text++ != ':') return false;
    }
    return false;
}

static bool parse_alpha(const char *value, double *alpha) {
    *alpha = 1;
    return !value || (parse_number(&value, 0.01, 100, alpha) && *value == 0);
}

static bool parse_mixup(ff_augment_spec *spec, char *value) {
    return parse_alpha(value, &spec->mixup);
}

static bool parse_cutmix(ff_augment_spec *spec, char *value) {
    return parse_alpha(value, &spec->cutmix);
}

/* Splits "...[:SCALE-SCALE[:RATIO-RATIO]]" off and parses shares of an area and aspect ratios;
 * those left out keep their values. */
static bool parse_shape(char *value, double scale[2], double ratio[2]) {
    char *first = value ? strchr(value, ':') : NULL, *second = NULL;
    if (first) *first++ = 0, second = strchr(first, ':');
    if (second) *second++ = 0;
    return (!first || parse_range(first, 1e-9, 1, scale)) &&
           (!second || parse_range(second, 0.01, 100, ratio));
}

static bool parse_rrc(ff_augment_spec *spec, char *value) {
    memcpy(spec->scale, default_scale, sizeof default_scale);
    memcpy(spec->ratio, default_ratio, sizeof default_ratio);
    return parse_shape(value, spec->scale, spec->ratio) && value &&
           parse_pixels(value, &spec->rrc) && spec->rrc > 0;
}

static bool parse_erase(ff_augment_spec *spec, char *value) {
    const char *text = value;
    memcpy(spec->erase_scale, erase_scale, sizeof erase_scale);
    memcpy(spec->erase_ratio, erase_ratio, sizeof erase_ratio);
    return parse_shape(value, spec->erase_scale, spec->erase_ratio) && text &&
           parse_number(&text, 1e-9, 1, &spec->erase) && *text == 0;
}

/* ---- printing ------------------------------------------------------------------------------- */

typedef char augment_text[FF_AUGMENT_TEXT_BYTES];

FF_PRINTF(2, 3) static void add(augment_text text, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, FF_AUGMENT_TEXT_BYTES - used, format, arguments);
    va_end(arguments);
}

/* Adds `mark` and the fewest digits that parse back to the number. */
static void add_number(augment_text text, char mark, double value) {
    char number[32];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, value);
        if (strtod(number, NULL) == value) break;
    }
    add(text, "%c%s", mark, number);
}

static void add_range(augment_text text, const double range[2]) {
    add_number(text, ':', range[0]);
    add_number(text, '-', range[1]);
}

/* Adds "[:SCALE-SCALE[:RATIO-RATIO]]" as far as they differ from `scale0` and `ratio0`. */
static void add_shape(augment_text text, const double scale[2], const double ratio[2],
                      const double scale0[2], const double ratio0[2]) {
    const bool shaped = memcmp(ratio, ratio0, 2 * sizeof *ratio) != 0;
    if (shaped || memcmp(scale, scale0, 2 * sizeof *scale) != 0) add_range(text, scale);
    if (shaped) add_range(text, ratio);
}

/* An entry's `print` adds "=VALUE" to its name; false where the spec does not have it. */
static bool print_resize(const ff_augment_spec *spec, augment_text text) {
    add(text, "=%u", spec->resize);
    return spec->resize != 0;
}

static bool print_rrc(const ff_augment_spec *spec, augment_text text) {
    if (!spec->rrc) return false;
    add(text, "=%u", spec->rrc);
    add_shape(text, spec->scale, spec->ratio, default_scale, default_ratio);
    return true;
}

static bool print_crop(const ff_augment_spec *spec, augment_text text) {
    add(text, "=%u%s", spec->pad, spec->pad_mode == FF_PAD_REFLECT ? ":reflect" : "");
    return spec->crop != 0;
}

static bool print_flip(const ff_augment_spec *spec, augment_text text) {
    if (spec->flip == FF_FLIP_ALTERNATE) add(text, "=alternate");
    return spec->flip != FF_FLIP_NONE;
}

/* Without trailing zeros. */
static bool print_jitter(const ff_augment_spec *spec, augment_text text) {
    int count = 4;
    while (count && spec->jitter[count - 1] == 0) count--;
    for (int i = 0; i < count; i++) add_number(text, i ? ':' : '=', spec->jitter[i]);
    return count > 0;
}

static bool print_cutout(const ff_augment_spec *spec, augment_text text) {
    add(text, "=%u", spec->cutout);
    return spec->cutout != 0;
}

static bool print_erase(const ff_augment_spec *spec, augment_text text) {
    if (!(spec->erase > 0)) return false;
    add_number(text, '=', spec->erase);
    add_shape(text, spec->erase_scale, spec->erase_ratio, erase_scale, erase_ratio);
    return true;
}

static bool print_mixup(const ff_augment_spec *spec, augment_text text) {
    add_number(text, '=', spec->mixup);
    return spec->mixup > 0;
}

static bool print_cutmix(const ff_augment_spec *spec, augment_text text) {
    add_number(text, '=', spec->cutmix);
    return spec->cutmix > 0;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* In the order in which they are applied, also that of the canonical text. */
static const struct {
    const char *name, *usage;
    const char *note; /* what --help adds, or NULL */
    bool (*parse)(ff_augment_spec *spec, char *value);
    bool (*print)(const ff_augment_spec *spec, augment_text text);
} known[] = {
    {"resize", "resize=SIZE", "the short side", parse_resize, print_resize},
    {"rrc", "rrc=SIZE[:SCALE-SCALE[:RATIO-RATIO]]",
     "random resized crop; scale 0.08-1, ratio 3/4 to 4/3", parse_rrc, print_rrc},
    {"crop", "crop[=PAD][:reflect]", "PAD of small images 4, else an eighth of the side",
     parse_crop, print_crop},
    {"flip", "flip[=alternate]", NULL, parse_flip, print_flip},
    {"jitter", "jitter=BRIGHTNESS[:CONTRAST[:SATURATION[:HUE]]]", "colour jitter, as torchvision's",
     parse_jitter, print_jitter},
    {"cutout", "cutout=SIZE", NULL, parse_cutout, print_cutout},
    {"erase", "erase=PROBABILITY[:SCALE-SCALE[:RATIO-RATIO]]", "random erasing", parse_erase,
     print_erase},
    {"mixup", "mixup[=ALPHA]", NULL, parse_mixup, print_mixup},
    {"cutmix", "cutmix[=ALPHA]", "ALPHA 1; of mixup and cutmix each pair has one", parse_cutmix,
     print_cutmix},
};
enum { KNOWN = sizeof known / sizeof *known };

static const char *list_known(char text[FF_AUGMENT_HELP_BYTES], bool notes) {
    size_t used = 0;
    for (size_t i = 0; i < KNOWN; i++) {
        const char *note = notes ? known[i].note : NULL;
        used +=
            (size_t)snprintf(text + used, FF_AUGMENT_HELP_BYTES - used, "%s%s%s%s%s", i ? ", " : "",
                             known[i].usage, note ? " (" : "", note ? note : "", note ? ")" : "");
    }
    return text;
}

const char *ff_augment_help(char text[FF_AUGMENT_HELP_BYTES]) {
    return list_known(text, true);
}

static ff_status refuse(const char *whole, const char *what, const char *nearest, ff_error *error) {
    char usages[FF_AUGMENT_HELP_BYTES];
    return ff_fail(error, FF_USAGE, "augmentation '%s' %s%s%s%s; known are %s, or none", whole,
                   what, nearest ? " (did you mean " : "", nearest ? nearest : "",
                   nearest ? "?)" : "", list_known(usages, false));
}

static ff_status refuse_name(const char *name, const char *whole, ff_error *error) {
    ff_nearest nearest = {.wanted = name, .length = strlen(name)};
    for (size_t i = 0; i < KNOWN; i++) ff_nearest_offer(&nearest, known[i].name);
    ff_nearest_offer(&nearest, "none");
    return refuse(whole, "is not known", nearest.name, error);
}

/* given: a bit for each entry of the table seen so far. */
static ff_status parse_part(ff_augment_spec *spec, char *part, unsigned *given, ff_error *error) {
    char whole[96];
    snprintf(whole, sizeof whole, "%s", part);
    char *value = strchr(part, '=');
    if (value) *value++ = 0;
    size_t i = 0;
    while (i < KNOWN && strcmp(part, known[i].name) != 0) i++;
    if (i == KNOWN) return refuse_name(part, whole, error);
    if (!known[i].parse(spec, value))
        return refuse(whole, "has a value that is not understood", NULL, error);
    if (*given & 1u << i) return ff_fail(error, FF_USAGE, "augmentation '%s' is given twice", part);
    *given |= 1u << i;
    return FF_OK;
}

ff_status ff_augment_parse(ff_augment_spec *spec, const char *text, ff_error *error) {
    memset(spec, 0, sizeof *spec);
    if (strcmp(text, "none") == 0) return FF_OK;
    char *copy;
    FF_TRY(ff_copy_string(&copy, text, error));
    ff_status status = FF_OK;
    unsigned given = 0;
    for (char *part = copy; part && status == FF_OK;) {
        char *comma = strchr(part, ',');
        if (comma) *comma++ = 0;
        status = parse_part(spec, part, &given, error);
        part = comma;
    }
    free(copy);
    FF_TRY(status);
    if (spec->rrc && (spec->crop || spec->resize))
        return ff_fail(error, FF_USAGE,
                       "augmentations 'rrc' and '%s' exclude each other: a random resized crop is "
                       "both a resize and a crop",
                       spec->crop ? "crop" : "resize");
    if (spec->erase > 0 && spec->cutout)
        return ff_fail(error, FF_USAGE,
                       "augmentations 'erase' and 'cutout' exclude each other: either fills one "
                       "box");
    if (spec->resize && spec->pad)
        return ff_fail(error, FF_USAGE,
                       "augmentations 'resize' and a padding of 'crop' exclude each other: a "
                       "resized sample is cropped without padding");
    return FF_OK;
}

bool ff_augment_chooses_pad(const char *text) {
    for (const char *part = text; part; part = strchr(part, ',')) {
        part += *part == ',';
        if (strcspn(part, ",") == 4 && strncmp(part, "crop", 4) == 0) return true;
    }
    return false;
}

uint32_t ff_augment_usual_pad(uint32_t height, uint32_t width, uint32_t out_height,
                              uint32_t out_width) {
    if (!out_height) out_height = height;
    if (!out_width) out_width = width;
    const uint32_t side = out_height > out_width ? out_height : out_width;
    if (height > out_height || width > out_width) return 0;
    return side <= FF_AUGMENT_SMALL ? 4 : side / 8;
}

void ff_augment_text(const ff_augment_spec *spec, char text[FF_AUGMENT_TEXT_BYTES]) {
    text[0] = 0;
    for (size_t i = 0; i < KNOWN; i++) {
        const size_t used = strlen(text);
        add(text, "%s%s", used ? "," : "", known[i].name);
        if (!known[i].print(spec, text)) text[used] = 0;
    }
    if (!text[0]) add(text, "none");
}

/* ---- what fits a sample --------------------------------------------------------------------- */

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
