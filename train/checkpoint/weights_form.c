/* Finds the form of the net that a file's weights belong to, from the shapes of its tensors. */
#include "loader/device/absent.h"
#include "train/checkpoint/naming.h"
#include "train/checkpoint/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How well a file fits a net: how many of the net's tensors the file has in their shapes. */
typedef struct fitting {
    int wanted, fits;
    uint32_t classes; /* of the file's head; 0 = it has no head */
} fitting;

static ff_status count_fits(fitting *found, const ff_tensors *file, const ff_model *model,
                            ff_error *error) {
    ff_naming naming;
    FF_TRY(ff_naming_find(&naming, file, model, error));
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        char name[2 * FF_NAMING_BYTES];
        if (p->dtype != FF_F32) continue;
        const ff_safetensor *tensor = ff_tensors_find(file, ff_naming_of(&naming, p->name, name));
        const bool head = ff_naming_is_head(model, p);
        found->wanted++;
        if (!tensor || !ff_naming_fits(p, tensor, head)) continue;
        found->fits++;
        if (head && tensor->shape[0] <= UINT32_MAX) found->classes = (uint32_t)tensor->shape[0];
    }
    return FF_OK;
}

/* Counts how well the file fits the net, without allocating the net's values. A net that cannot be
 * built fits nothing. */
static ff_status try_net(fitting *found, const ff_tensors *file, const ff_model_options *net,
                         ff_stem stem, ff_error *error) {
    ff_model_options options = *net;
    ff_device *memory;
    ff_model *model;
    *found = (fitting){0};
    FF_TRY(ff_device_absent_create(&memory, UINT64_MAX, true, error));
    options.stem = stem;
    options.device = NULL;
    options.precision = FF_PRECISION_F32;
    options.memory = memory;
    ff_status status = FF_OK;
    if (ff_model_create(&model, &options, NULL) == FF_OK)
        status = count_fits(found, file, model, error);
    ff_model_destroy(&model);
    ff_device_destroy(&memory);
    return status;
}

ff_status ff_weights_find_form(ff_weights_form *form, const ff_tensors *file,
                               const ff_model_options *net, ff_error *error) {
    const char *text = ff_tensors_text(file, FF_WEIGHTS_NET);
    ff_weights_net said;
    fitting small, large;
    *form = (ff_weights_form){.stem = FF_STEM_AUTO};
    FF_TRY(try_net(&small, file, net, FF_STEM_CIFAR, error));
    FF_TRY(try_net(&large, file, net, FF_STEM_IMAGENET, error));
    if (!small.wanted && !large.wanted) /* the net has only one stem */
        FF_TRY(try_net(&small, file, net, FF_STEM_AUTO, error));
    const fitting *best = small.fits >= large.fits ? &small : &large;
    form->fits = best->wanted && best->fits == best->wanted;
    form->classes = best->classes;
    if (small.fits != large.fits && small.wanted && large.wanted)
        form->stem = best == &small ? FF_STEM_CIFAR : FF_STEM_IMAGENET;
    else if (text && ff_weights_net_parse(&said, text) && !strcmp(said.model, net->name))
        form->stem = said.stem;
    return FF_OK;
}

ff_status ff_weights_read_form(ff_weights_form *form, const char *path, const ff_model_options *net,
                               ff_error *error) {
    ff_tensors *file;
    *form = (ff_weights_form){.stem = FF_STEM_AUTO};
    FF_TRY(ff_weights_open_file(&file, path, error));
    const ff_status status = ff_weights_find_form(form, file, net, error);
    ff_tensors_close(&file);
    return status;
}

/* The name of a model that the file fits completely, with any stem; NULL if no model fits. */
static ff_status find_model(const ff_tensors *file, const ff_model_options *net, const char **name,
                            ff_error *error) {
    ff_model_options other = *net;
    *name = NULL;
    for (int i = 0; ff_model_name(i) && !*name; i++) {
        ff_weights_form form;
        other.name = ff_model_name(i);
        FF_TRY(ff_weights_find_form(&form, file, &other, error));
        if (form.fits) *name = other.name;
    }
    return FF_OK;
}

const char *ff_weights_advice(const ff_tensors *file, const ff_model_options *net, char *text,
                              size_t size) {
    static const char *const stems[] = {"auto", "cifar", "imagenet"};
    ff_weights_form form;
    const char *name = NULL;
    *text = 0;
    if (ff_weights_find_form(&form, file, net, NULL) != FF_OK) return text;
    if (form.fits && form.stem != FF_STEM_AUTO && form.stem != net->stem)
        snprintf(text, size, "; --stem %s fits them", stems[form.stem]);
    else if (!form.fits && find_model(file, net, &name, NULL) == FF_OK && name)
        snprintf(text, size, "; --model %s fits them", name);
    return text;
}
