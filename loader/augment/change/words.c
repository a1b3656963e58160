#include "loader/augment/change/words.h"

#include "loader/augment/change/blur.h"

#include <string.h>

/* torchvision's defaults; most: the largest value, 0 = the change has no value. */
static const struct {
    double probability, most;
    bool whole;
} rule[FF_CHANCES] = {
    [FF_CHANCE_GRAYSCALE] = {.probability = 0.1},
    [FF_CHANCE_SOLARIZE] = {.probability = 0.5, .most = 255},
    [FF_CHANCE_POSTERIZE] = {.probability = 0.5, .most = 8, .whole = true},
    [FF_CHANCE_INVERT] = {.probability = 0.5},
    [FF_CHANCE_EQUALIZE] = {.probability = 0.5},
    [FF_CHANCE_AUTOCONTRAST] = {.probability = 0.5},
    [FF_CHANCE_SHARPNESS] = {.probability = 0.5, .most = 100},
};

bool ff_chance_parse(ff_change_spec *spec, ff_chance chance, char *value) {
    const char *text = value;
    double *number = &spec->value[chance], *probability = &spec->probability[chance];
    *probability = rule[chance].probability;
    if (rule[chance].most > 0) {
        if (!text || !ff_text_number(&text, 0, rule[chance].most, number)) return false;
        if (rule[chance].whole && *number != (int)*number) return false;
        if (*text == 0) return true;
        if (*text++ != ':') return false;
    }
    return !text || (ff_text_number(&text, 1e-9, 1, probability) && *text == 0);
}

bool ff_chance_print(const ff_change_spec *spec, ff_chance chance, ff_text text) {
    const double probability = spec->probability[chance];
    const bool valued = rule[chance].most > 0;
    if (!(probability > 0)) return false;
    if (valued) ff_text_add_number(text, '=', spec->value[chance]);
    if (probability != rule[chance].probability)
        ff_text_add_number(text, valued ? ':' : '=', probability);
    return true;
}

/* ---- blur ----------------------------------------------------------------------------------- */

/* torchvision's default. */
static const double usual_sigma[2] = {0.1, 2};

bool ff_change_parse_blur(ff_change_spec *spec, char *value) {
    char *sigma = value ? strchr(value, ':') : NULL;
    char *probability = sigma ? strchr(sigma + 1, ':') : NULL;
    const char *text = probability ? probability + 1 : "1";
    uint32_t size = 0;
    if (sigma) *sigma++ = 0;
    if (probability) *probability = 0;
    memcpy(spec->sigma, usual_sigma, sizeof usual_sigma);
    if (!value || !ff_text_count(value, FF_BLUR_MOST, &size) || size % 2 == 0) return false;
    spec->value[FF_CHANCE_BLUR] = size;
    return (!sigma || ff_text_range(sigma, 0.01, 100, spec->sigma)) &&
           ff_text_number(&text, 1e-9, 1, &spec->probability[FF_CHANCE_BLUR]) && *text == 0;
}

bool ff_change_print_blur(const ff_change_spec *spec, ff_text text) {
    const double probability = spec->probability[FF_CHANCE_BLUR];
    if (!(probability > 0)) return false;
    ff_text_add_number(text, '=', spec->value[FF_CHANCE_BLUR]);
    if (probability != 1 || memcmp(spec->sigma, usual_sigma, sizeof usual_sigma) != 0)
        ff_text_add_range(text, spec->sigma);
    if (probability != 1) ff_text_add_number(text, ':', probability);
    return true;
}

/* ---- affine --------------------------------------------------------------------------------- */

/* Cuts ":WORD", or the whole of "WORD", off the end and returns what is left; NULL: nothing. */
static char *cut(char *value, const char *word, uint32_t *found) {
    const size_t length = value ? strlen(value) : 0, end = strlen(word);
    if (length < end || strcmp(value + length - end, word) != 0) return value;
    if (length > end && value[length - end - 1] != ':') return value;
    *found = 1;
    if (length == end) return NULL;
    value[length - end - 1] = 0;
    return value;
}

static char *cut_bilinear(char *value, uint32_t *bilinear) {
    return cut(value, "bilinear", bilinear);
}

bool ff_change_parse_affine(ff_change_spec *spec, char *value) {
    const char *text = cut_bilinear(value, &spec->bilinear);
    spec->affine = 1;
    spec->scale[0] = spec->scale[1] = 1;
    if (!text || !ff_text_number(&text, 0, 180, &spec->degrees)) return false;
    if (*text == ':' && (text++, !ff_text_number(&text, 0, 1, &spec->translate))) return false;
    if (*text == ':') {
        text++;
        if (!ff_text_number(&text, 0.01, 100, &spec->scale[0]) || *text++ != '-' ||
            !ff_text_number(&text, spec->scale[0], 100, &spec->scale[1]))
            return false;
    }
    if (*text == ':' && (text++, !ff_text_number(&text, 0, 80, &spec->shear))) return false;
    return *text == 0;
}

static void add_bilinear(uint32_t bilinear, char mark, ff_text text) {
    if (bilinear) ff_text_add(text, "%cbilinear", mark);
}

bool ff_change_print_affine(const ff_change_spec *spec, ff_text text) {
    const bool sheared = spec->shear != 0;
    const bool scaled = sheared || spec->scale[0] != 1 || spec->scale[1] != 1;
    ff_text_add_number(text, '=', spec->degrees);
    if (scaled || spec->translate != 0) ff_text_add_number(text, ':', spec->translate);
    if (scaled) ff_text_add_range(text, spec->scale);
    if (sheared) ff_text_add_number(text, ':', spec->shear);
    add_bilinear(spec->bilinear, ':', text);
    return spec->affine;
}

/* ---- policies ------------------------------------------------------------------------------- */

/* torchvision's defaults. */
enum { OPS = 2, MAGNITUDE = 9 };

bool ff_change_parse_trivial(ff_change_spec *spec, char *value) {
    spec->policy = FF_POLICY_TRIVIAL;
    return !cut_bilinear(value, &spec->policy_bilinear);
}

bool ff_change_print_trivial(const ff_change_spec *spec, ff_text text) {
    add_bilinear(spec->policy_bilinear, '=', text);
    return spec->policy == FF_POLICY_TRIVIAL;
}

bool ff_change_parse_rand(ff_change_spec *spec, char *value) {
    char *ops = cut_bilinear(value, &spec->policy_bilinear);
    char *magnitude = ops ? strchr(ops, ':') : NULL;
    if (magnitude) *magnitude++ = 0;
    spec->policy = FF_POLICY_RAND;
    spec->ops = OPS, spec->magnitude = MAGNITUDE;
    return (!ops || (ff_text_count(ops, FF_POLICY_OPS_MOST, &spec->ops) && spec->ops > 0)) &&
           (!magnitude || ff_text_count(magnitude, FF_POLICY_BINS - 1, &spec->magnitude));
}

bool ff_change_print_rand(const ff_change_spec *spec, ff_text text) {
    const bool usual = spec->ops == OPS && spec->magnitude == MAGNITUDE;
    if (!usual) ff_text_add(text, "=%u", spec->ops);
    if (spec->magnitude != MAGNITUDE) ff_text_add(text, ":%u", spec->magnitude);
    add_bilinear(spec->policy_bilinear, usual ? '=' : ':', text);
    return spec->policy == FF_POLICY_RAND;
}

static const struct {
    const char *name;
    ff_policy policy;
} automatic[] = {
    {"imagenet", FF_POLICY_IMAGENET}, {"cifar10", FF_POLICY_CIFAR10}, {"svhn", FF_POLICY_SVHN}};

bool ff_change_parse_auto(ff_change_spec *spec, char *value) {
    const char *name = cut_bilinear(value, &spec->policy_bilinear);
    if (!name) name = automatic[0].name;
    for (size_t i = 0; i < sizeof automatic / sizeof *automatic; i++)
        if (strcmp(name, automatic[i].name) == 0) {
            spec->policy = automatic[i].policy;
            return true;
        }
    return false;
}

bool ff_change_print_auto(const ff_change_spec *spec, ff_text text) {
    for (size_t i = 0; i < sizeof automatic / sizeof *automatic; i++) {
        if (spec->policy != (uint32_t)automatic[i].policy) continue;
        ff_text_add(text, "=%s", automatic[i].name);
        add_bilinear(spec->policy_bilinear, ':', text);
        return true;
    }
    return false;
}

/* ---- augmix --------------------------------------------------------------------------------- */

/* torchvision's defaults. */
static const ff_augmix_spec usual_augmix = {.severity = 3, .chains = 3, .alpha = 1};

bool ff_change_parse_augmix(ff_change_spec *spec, char *value) {
    ff_augmix_spec *augmix = &spec->augmix;
    uint32_t nearest = 0;
    *augmix = usual_augmix;
    spec->policy = FF_POLICY_AUGMIX;
    char *part[4] = {cut(cut(value, "nearest", &nearest), "basic", &augmix->basic)};
    spec->policy_bilinear = !nearest;
    for (int i = 0; i < 3 && part[i]; i++)
        if ((part[i + 1] = strchr(part[i], ':'))) *part[i + 1]++ = 0;
    const char *alpha = part[3];
    return (!part[0] || (ff_text_count(part[0], FF_AUGMIX_SEVERITY_MOST, &augmix->severity) &&
                         augmix->severity > 0)) &&
           (!part[1] || (ff_text_count(part[1], FF_AUGMIX_CHAINS_MOST, &augmix->chains) &&
                         augmix->chains > 0)) &&
           (!part[2] || strcmp(part[2], "-1") == 0 ||
            (ff_text_count(part[2], FF_AUGMIX_DEPTH_MOST, &augmix->depth) && augmix->depth > 0)) &&
           (!alpha || (ff_text_number(&alpha, 0.01, 100, &augmix->alpha) && *alpha == 0));
}

bool ff_change_print_augmix(const ff_change_spec *spec, ff_text text) {
    const ff_augmix_spec *augmix = &spec->augmix;
    const int parts = augmix->alpha != 1                          ? 4
                      : augmix->depth                             ? 3
                      : augmix->chains != usual_augmix.chains     ? 2
                      : augmix->severity != usual_augmix.severity ? 1
                                                                  : 0;
    if (parts > 0) ff_text_add(text, "=%u", augmix->severity);
    if (parts > 1) ff_text_add(text, ":%u", augmix->chains);
    if (parts > 2) ff_text_add(text, ":%d", augmix->depth ? (int)augmix->depth : -1);
    if (parts > 3) ff_text_add_number(text, ':', augmix->alpha);
    if (augmix->basic) ff_text_add(text, "%cbasic", parts ? ':' : '=');
    if (!spec->policy_bilinear) ff_text_add(text, "%cnearest", parts || augmix->basic ? ':' : '=');
    return spec->policy == FF_POLICY_AUGMIX;
}
