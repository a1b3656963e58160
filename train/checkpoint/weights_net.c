/* The form of a net as a JSON text among its weights' metadata. */
#include "format/base/json.h"
#include "train/checkpoint/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const stems[] = {"auto", "cifar", "imagenet"};
enum { STEMS = sizeof stems / sizeof *stems };

ff_status ff_weights_net_text(const ff_weights_net *net, char **text, ff_error *error) {
    json_t *object = json_pack(
        "{s:s, s:s, s:[I, I, I], s:I, s:I, s:I, s:i, s:s, s:o}", "model", net->model, "stem",
        stems[net->stem], "input", (json_int_t)net->channels, (json_int_t)net->height,
        (json_int_t)net->width, "classes", (json_int_t)net->classes, "resize",
        (json_int_t)net->resize, "crop", (json_int_t)net->crop, "views", net->views, "precision",
        ff_precision_name(net->precision), "label", ff_json_text(net->label));
    *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    return *text ? FF_OK : ff_fail(error, FF_NO_MEMORY, "no memory for the form of the net");
}

/* Reads a size or count of an image or net. */
static bool take(json_int_t value, uint32_t *out) {
    *out = (uint32_t)value;
    return value >= 0 && value <= FF_SIDE_LIMIT * 16;
}

static bool unpack(json_t *object, ff_weights_net *net) {
    const char *model, *stem, *label, *precision = "f32";
    json_int_t input[3], classes, resize, crop;
    int s = 0;
    if (json_unpack(object, "{s:s, s:s, s:[I, I, I], s:I, s:I, s:I, s:i, s?s, s:s}", "model",
                    &model, "stem", &stem, "input", &input[0], &input[1], &input[2], "classes",
                    &classes, "resize", &resize, "crop", &crop, "views", &net->views, "precision",
                    &precision, "label", &label) != 0)
        return false;
    while (s < STEMS && strcmp(stem, stems[s]) != 0) s++;
    net->stem = (ff_stem)s;
    const int lengths[] = {snprintf(net->model, sizeof net->model, "%s", model),
                           snprintf(net->label, sizeof net->label, "%s", label)};
    return s < STEMS && ff_precision_parse(precision, &net->precision) &&
           lengths[0] < (int)sizeof net->model && lengths[1] < (int)sizeof net->label &&
           take(input[0], &net->channels) && take(input[1], &net->height) &&
           take(input[2], &net->width) && take(classes, &net->classes) &&
           take(resize, &net->resize) && take(crop, &net->crop);
}

bool ff_weights_net_parse(ff_weights_net *net, const char *text) {
    *net = (ff_weights_net){0};
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const bool good = object && unpack(object, net);
    json_decref(object);
    return good;
}

ff_model_options ff_weights_net_model(const ff_weights_net *net) {
    return (ff_model_options){
        .name = net->model,
        .stem = net->stem,
        .channels = (int)net->channels,
        .height = (int)net->height,
        .width = (int)net->width,
        .classes = (int)net->classes,
        .batch = 2,
        .dropout = -1,
    };
}
