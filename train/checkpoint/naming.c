#include "train/checkpoint/naming.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIXES = 64 }; /* the most prefixes that are compared */

/* ---- timm's names (timm/models/vgg.py, efficientnet.py); its resnets use torchvision's names
 * ---- */

/* Prefixes of names in torchvision, and in timm. VGG's first linear layers are convolutions in
 * timm. */
static const struct {
    const char *ours, *timm;
} beginnings[] = {
    {"classifier.0.", "pre_logits.fc1."},
    {"classifier.3.", "pre_logits.fc2."},
    {"classifier.6.", "head.fc."},
    {"features.0.0.", "conv_stem."},
    {"features.0.1.", "bn1."},
    {"features.18.0.", "conv_head."},
    {"features.18.1.", "bn2."},
    {"classifier.1.", "classifier."},
};

/* Blocks in each stage of MobileNetV2; timm counts blocks within a stage. */
static const int blocks[] = {1, 2, 3, 4, 3, 3, 1};

/* Parts of a block, without the expanding layer (in the first stage) and with it. */
static const struct {
    const char *ours, *timm;
} narrow[] = {{"0.0.", "conv_dw."}, {"0.1.", "bn1."}, {"1.", "conv_pw."}, {"2.", "bn2."}},
  wide[] = {{"0.0.", "conv_pw."}, {"0.1.", "bn1."},    {"1.0.", "conv_dw."},
            {"1.1.", "bn2."},     {"2.", "conv_pwl."}, {"3.", "bn3."}};

/* features.PLACE.conv.REST */
static bool timm_block(const char *name, char *text, size_t size) {
    int place, used = 0, stage = 0;
    if (sscanf(name, "features.%d.conv.%n", &place, &used) != 1 || !used || place < 1) return false;
    const char *rest = name + used;
    for (place--; stage < 7 && place >= blocks[stage]; stage++) place -= blocks[stage];
    if (stage == 7) return false;
    const size_t parts = stage ? sizeof wide / sizeof *wide : sizeof narrow / sizeof *narrow;
    for (size_t i = 0; i < parts; i++) {
        const char *ours = stage ? wide[i].ours : narrow[i].ours;
        if (strncmp(rest, ours, strlen(ours)) != 0) continue;
        snprintf(text, size, "blocks.%d.%d.%s%s", stage, place,
                 stage ? wide[i].timm : narrow[i].timm, rest + strlen(ours));
        return true;
    }
    return false;
}

const char *ff_naming_of(const ff_naming *naming, const char *parameter,
                         char text[2 * FF_NAMING_BYTES]) {
    char own[FF_NAMING_BYTES];
    snprintf(own, sizeof own, "%s", parameter);
    if (naming->timm && !timm_block(parameter, own, sizeof own))
        for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
            const size_t length = strlen(beginnings[i].ours);
            if (!strncmp(parameter, beginnings[i].ours, length))
                snprintf(own, sizeof own, "%s%s", beginnings[i].timm, parameter + length);
        }
    snprintf(text, 2 * FF_NAMING_BYTES, "%s%s", naming->prefix, own);
    return text;
}

/* ---- shapes ---- */

bool ff_naming_is_head(const ff_model *model, const ff_parameter *parameter) {
    const char *head = ff_model_head(model);
    const size_t length = strlen(head);
    return !strncmp(parameter->name, head, length) && parameter->name[length] == '.';
}

bool ff_naming_fits(const ff_parameter *p, const ff_safetensor *tensor, bool any_classes) {
    uint64_t inputs = 1;
    const bool flat = p->rank == 2 && tensor->rank == 4;
    if (tensor->rank != p->rank && !flat) return false;
    for (int i = any_classes; i < (flat ? 1 : p->rank); i++)
        if (tensor->shape[i] != (uint64_t)p->shape[i]) return false;
    for (int i = 1; flat && i < tensor->rank; i++)
        if (!ff_mul_u64(inputs, tensor->shape[i], &inputs)) return false;
    return !flat || inputs == (uint64_t)p->shape[1];
}

/* ---- which naming ---- */

/* The number of the model's tensors that the file has under this naming. */
static int count(const ff_naming *naming, const ff_tensors *file, const ff_model *model) {
    char text[2 * FF_NAMING_BYTES];
    int found = 0;
    for (int i = 0; i < ff_model_parameter_count(model); i++)
        found += ff_tensors_find(
                     file, ff_naming_of(naming, ff_model_parameter(model, i)->name, text)) != NULL;
    return found;
}

/* The prefixes under which the file has the model's first tensor, each once; "" first. */
static int list_prefixes(char (*prefixes)[FF_NAMING_BYTES], bool timm, const ff_tensors *file,
                         const ff_model *model) {
    const ff_naming bare = {.timm = timm};
    char first[2 * FF_NAMING_BYTES];
    int found = 1;
    ff_naming_of(&bare, ff_model_parameter(model, 0)->name, first);
    const size_t length = strlen(first);
    *prefixes[0] = 0;
    for (size_t i = 0; ff_tensors_at(file, i) && found < PREFIXES; i++) {
        const char *name = ff_tensors_at(file, i)->name;
        const size_t whole = strlen(name);
        if (whole <= length || whole - length >= FF_NAMING_BYTES ||
            strcmp(name + whole - length, first) != 0 || name[whole - length - 1] != '.')
            continue;
        memcpy(prefixes[found], name, whole - length);
        prefixes[found++][whole - length] = 0;
    }
    return found;
}

ff_status ff_naming_find(ff_naming *naming, const ff_tensors *file, const ff_model *model,
                         ff_error *error) {
    char(*prefixes)[FF_NAMING_BYTES], other[FF_NAMING_BYTES] = "";
    int most = 0, again = 0;
    *naming = (ff_naming){0};
    FF_TRY(ff_alloc(&prefixes, PREFIXES, sizeof *prefixes, "names of tensors", error));
    for (int timm = 0; timm < 2; timm++) {
        const int prefix_count = list_prefixes(prefixes, timm, file, model);
        for (int i = 0; i < prefix_count; i++) {
            ff_naming one = {.timm = timm};
            memcpy(one.prefix, prefixes[i], sizeof one.prefix);
            const int found = count(&one, file, model);
            /* Names without a prefix are tried first, and our names before timm's. */
            if (found == most && found && *naming->prefix &&
                strcmp(one.prefix, naming->prefix) != 0) {
                again = found;
                memcpy(other, one.prefix, sizeof other);
            }
            if (found <= most) continue;
            most = found;
            *naming = one;
        }
    }
    free(prefixes);
    if (2 * most < ff_model_parameter_count(model)) {
        *naming = (ff_naming){0};
        return FF_OK;
    }
    if (again < most) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s: has tensors of this model several times, as under '%s' and '%s'; save only "
                   "one of these",
                   ff_tensors_path(file), naming->prefix, other);
}
