#include "loader/augment/augment.h"

#include "format/cli/nearest.h"
#include "format/disk/metadata.h"
#include "loader/augment/change/words.h"
#include "loader/augment/jitter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading -------------------------------------------------------------------------------- */

/* torchvision's defaults. */
static const double default_scale[2] = {0.08, 1.0}, default_ratio[2] = {3.0 / 4.0, 4.0 / 3.0};
static const double erase_scale[2] = {0.02, 0.33}, erase_ratio[2] = {0.3, 3.3};

static bool parse_pixels(const char *text, uint32_t *pixels) {
    return ff_text_count(text, FF_SIDE_LIMIT, pixels);
}

/* An entry's `parse` reads the text after "NAME=", which it may modify; NULL without a value. */
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

static bool parse_vflip(ff_augment_spec *spec, char *value) {
    const char *text = value;
    spec->vflip = 0.5;
    return !text || (ff_text_number(&text, 1e-9, 1, &spec->vflip) && *text == 0);
}

static bool parse_cutout(ff_augment_spec *spec, char *value) {
    return value && parse_pixels(value, &spec->cutout) && spec->cutout > 0;
}

static bool parse_resize(ff_augment_spec *spec, char *value) {
    return value && parse_pixels(value, &spec->resize) && spec->resize > 0;
}

static bool parse_jitter(ff_augment_spec *spec, char *value) {
    const char *text = value;
    for (int i = 0; i < 4 && text; i++) {
        if (!ff_text_number(&text, 0, i == FF_JITTER_HUE ? 0.5 : 100, &spec->jitter[i]))
            return false;
        if (*text == 0) return ff_augment_jitters(spec);
        if (*text++ != ':') return false;
    }
    return false;
}

static bool parse_alpha(const char *value, double *alpha) {
    *alpha = 1;
    return !value || (ff_text_number(&value, 0.01, 100, alpha) && *value == 0);
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
    return (!first || ff_text_range(first, 1e-9, 1, scale)) &&
           (!second || ff_text_range(second, 0.01, 100, ratio));
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
           ff_text_number(&text, 1e-9, 1, &spec->erase) && *text == 0;
}

/* ---- printing ------------------------------------------------------------------------------- */

/* Adds "[:SCALE-SCALE[:RATIO-RATIO]]" as far as they differ from `scale0` and `ratio0`. */
static void add_shape(ff_text text, const double scale[2], const double ratio[2],
                      const double scale0[2], const double ratio0[2]) {
    const bool shaped = memcmp(ratio, ratio0, 2 * sizeof *ratio) != 0;
    if (shaped || memcmp(scale, scale0, 2 * sizeof *scale) != 0) ff_text_add_range(text, scale);
    if (shaped) ff_text_add_range(text, ratio);
}

/* An entry's `print` adds "=VALUE" to its name; false where the spec does not have it. */
static bool print_resize(const ff_augment_spec *spec, ff_text text) {
    ff_text_add(text, "=%u", spec->resize);
    return spec->resize != 0;
}

static bool print_rrc(const ff_augment_spec *spec, ff_text text) {
    if (!spec->rrc) return false;
    ff_text_add(text, "=%u", spec->rrc);
    add_shape(text, spec->scale, spec->ratio, default_scale, default_ratio);
    return true;
}

static bool print_crop(const ff_augment_spec *spec, ff_text text) {
    ff_text_add(text, "=%u%s", spec->pad, spec->pad_mode == FF_PAD_REFLECT ? ":reflect" : "");
    return spec->crop != 0;
}

static bool print_flip(const ff_augment_spec *spec, ff_text text) {
    if (spec->flip == FF_FLIP_ALTERNATE) ff_text_add(text, "=alternate");
    return spec->flip != FF_FLIP_NONE;
}

static bool print_vflip(const ff_augment_spec *spec, ff_text text) {
    if (spec->vflip != 0.5) ff_text_add_number(text, '=', spec->vflip);
    return spec->vflip > 0;
}

/* Without trailing zeros. */
static bool print_jitter(const ff_augment_spec *spec, ff_text text) {
    int count = 4;
    while (count && spec->jitter[count - 1] == 0) count--;
    for (int i = 0; i < count; i++) ff_text_add_number(text, i ? ':' : '=', spec->jitter[i]);
    return count > 0;
}

static bool print_cutout(const ff_augment_spec *spec, ff_text text) {
    ff_text_add(text, "=%u", spec->cutout);
    return spec->cutout != 0;
}

static bool print_erase(const ff_augment_spec *spec, ff_text text) {
    if (!(spec->erase > 0)) return false;
    ff_text_add_number(text, '=', spec->erase);
    add_shape(text, spec->erase_scale, spec->erase_ratio, erase_scale, erase_ratio);
    return true;
}

static bool print_mixup(const ff_augment_spec *spec, ff_text text) {
    ff_text_add_number(text, '=', spec->mixup);
    return spec->mixup > 0;
}

static bool print_cutmix(const ff_augment_spec *spec, ff_text text) {
    ff_text_add_number(text, '=', spec->cutmix);
    return spec->cutmix > 0;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* The order in which they are applied and written in the canonical text. */
static const struct {
    const char *name, *usage;
    const char *note; /* what --help adds, or NULL */
    bool (*parse)(ff_augment_spec *spec, char *value);
    bool (*print)(const ff_augment_spec *spec, ff_text text);
    /* For the changes of u8, whose functions above are NULL; if these are NULL too, `chance`. */
    bool (*parse_change)(ff_change_spec *spec, char *value);
    bool (*print_change)(const ff_change_spec *spec, ff_text text);
    ff_chance chance;
} known[] = {
    {"resize", "resize=SIZE", "the short side", parse_resize, print_resize, NULL, NULL, 0},
    {"rrc", "rrc=SIZE[:SCALE-SCALE[:RATIO-RATIO]]",
     "random resized crop; scale 0.08-1, ratio 3/4 to 4/3", parse_rrc, print_rrc, NULL, NULL, 0},
    {"crop", "crop[=PAD][:reflect]", "PAD of small images 4, else an eighth of the side",
     parse_crop, print_crop, NULL, NULL, 0},
    {"flip", "flip[=alternate]", NULL, parse_flip, print_flip, NULL, NULL, 0},
    {"vflip", "vflip[=PROBABILITY]", "0.5", parse_vflip, print_vflip, NULL, NULL, 0},
    {"jitter", "jitter=BRIGHTNESS[:CONTRAST[:SATURATION[:HUE]]]", "colour jitter, as torchvision's",
     parse_jitter, print_jitter, NULL, NULL, 0},
    {"affine", "affine=DEGREES[:SHIFT[:LOW-HIGH[:SHEAR]]][:bilinear]",
     "SHIFT in parts of the sides, LOW-HIGH: scale", NULL, NULL, ff_change_parse_affine,
     ff_change_print_affine, 0},
    {"trivialaugment", "trivialaugment[=bilinear]", "TrivialAugmentWide", NULL, NULL,
     ff_change_parse_trivial, ff_change_print_trivial, 0},
    {"randaugment", "randaugment[=OPS[:MAGNITUDE]][:bilinear]", "2:9", NULL, NULL,
     ff_change_parse_rand, ff_change_print_rand, 0},
    {"autoaugment", "autoaugment[=imagenet|cifar10|svhn][:bilinear]", NULL, NULL, NULL,
     ff_change_parse_auto, ff_change_print_auto, 0},
    {"augmix", "augmix[=SEVERITY:CHAINS:DEPTH:ALPHA][:basic][:nearest]",
     "3:3:-1:1; basic: without colours", NULL, NULL, ff_change_parse_augmix, ff_change_print_augmix,
     0},
    {"grayscale", "grayscale[=PROBABILITY]", "0.1", NULL, NULL, NULL, NULL, FF_CHANCE_GRAYSCALE},
    {"blur", "blur=SIZE[:LOW-HIGH[:PROBABILITY]]", "Gaussian; LOW-HIGH: sigma, 0.1-2; 1", NULL,
     NULL, ff_change_parse_blur, ff_change_print_blur, 0},
    {"solarize", "solarize=THRESHOLD[:PROBABILITY]", "0-255; 0.5, as for those below", NULL, NULL,
     NULL, NULL, FF_CHANCE_SOLARIZE},
    {"posterize", "posterize=BITS[:PROBABILITY]", NULL, NULL, NULL, NULL, NULL,
     FF_CHANCE_POSTERIZE},
    {"invert", "invert[=PROBABILITY]", NULL, NULL, NULL, NULL, NULL, FF_CHANCE_INVERT},
    {"equalize", "equalize[=PROBABILITY]", NULL, NULL, NULL, NULL, NULL, FF_CHANCE_EQUALIZE},
    {"autocontrast", "autocontrast[=PROBABILITY]", NULL, NULL, NULL, NULL, NULL,
     FF_CHANCE_AUTOCONTRAST},
    {"sharpness", "sharpness=FACTOR[:PROBABILITY]", NULL, NULL, NULL, NULL, NULL,
     FF_CHANCE_SHARPNESS},
    {"cutout", "cutout=SIZE", NULL, parse_cutout, print_cutout, NULL, NULL, 0},
    {"erase", "erase=PROBABILITY[:SCALE-SCALE[:RATIO-RATIO]]", "random erasing", parse_erase,
     print_erase, NULL, NULL, 0},
    {"mixup", "mixup[=ALPHA]", NULL, parse_mixup, print_mixup, NULL, NULL, 0},
    {"cutmix", "cutmix[=ALPHA]", "ALPHA 1; each pair has mixup or cutmix", parse_cutmix,
     print_cutmix, NULL, NULL, 0},
};
enum { KNOWN = sizeof known / sizeof *known };

static bool parse_known(ff_augment_spec *spec, size_t i, char *value) {
    return known[i].parse          ? known[i].parse(spec, value)
           : known[i].parse_change ? known[i].parse_change(&spec->change, value)
                                   : ff_chance_parse(&spec->change, known[i].chance, value);
}

static bool print_known(const ff_augment_spec *spec, size_t i, ff_text text) {
    return known[i].print          ? known[i].print(spec, text)
           : known[i].print_change ? known[i].print_change(&spec->change, text)
                                   : ff_chance_print(&spec->change, known[i].chance, text);
}

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

/* given: one bit for each entry of the table that was seen. */
static ff_status parse_part(ff_augment_spec *spec, char *part, unsigned *given, ff_error *error) {
    char whole[96];
    snprintf(whole, sizeof whole, "%s", part);
    char *value = strchr(part, '=');
    if (value) *value++ = 0;
    size_t i = 0;
    while (i < KNOWN && strcmp(part, known[i].name) != 0) i++;
    if (i == KNOWN) return refuse_name(part, whole, error);
    const uint32_t policy = spec->change.policy;
    if (!parse_known(spec, i, value))
        return refuse(whole, "has a value that is not understood", NULL, error);
    if (policy && spec->change.policy != policy)
        return ff_fail(error, FF_USAGE,
                       "augmentation '%s' is one policy more; trivialaugment, randaugment, "
                       "autoaugment and augmix exclude each other",
                       whole);
    if (*given & 1u << i) return ff_fail(error, FF_USAGE, "augmentation '%s' is there twice", part);
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
    const uint32_t least = height < width ? height : width;
    if (height > out_height || width > out_width) return 0;
    const uint32_t usual = side <= FF_AUGMENT_SMALL ? 4 : side / 8;
    return usual < least ? usual : least;
}

void ff_augment_text(const ff_augment_spec *spec, ff_text text) {
    text[0] = 0;
    for (size_t i = 0; i < KNOWN; i++) {
        const size_t used = strlen(text);
        ff_text_add(text, "%s%s", used ? "," : "", known[i].name);
        if (!print_known(spec, i, text)) text[used] = 0;
    }
    if (!text[0]) ff_text_add(text, "none");
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
    const bool reflected = spec->pad_mode == FF_PAD_REFLECT;
    const uint32_t most = (height < width ? height : width) - reflected;
    if (pad > most)
        return ff_fail(error, FF_USAGE,
                       "a%s padding of %u is too large for samples of %ux%u; it may be %u pixels "
                       "at most",
                       reflected ? " reflected" : "", (unsigned)pad, height, width, most);
    return FF_OK;
}
