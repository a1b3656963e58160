#include "train/evaluate/inference.h"

#include "train/compute/compute.h"
#include "train/net/plan.h"
#include "train/sets/agreement.h"
#include "train/sets/splits.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 128 };

ff_inference_options ff_inference_default_options(void) {
    return (ff_inference_options){.crop = -1,
                                  .resize = -1,
                                  .views = -1,
                                  .stem = FF_STEM_AUTO,
                                  .verify = FF_VERIFY_FIRST,
                                  .batch = BATCH};
}

static ff_status read_metadata(ff_metadata *trained, const char *path, ff_error *error) {
    char *text;
    FF_TRY(ff_weights_read_fact(path, FF_WEIGHTS_METADATA, &text, error));
    const ff_status status = text ? ff_metadata_read(trained, text, strlen(text), error) : FF_OK;
    free(text);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "%s", path);
}

ff_status ff_learned_read(ff_learned *learned, const char *path, ff_error *error) {
    char *net;
    *learned = (ff_learned){0};
    FF_TRY(ff_weights_read_fact(path, FF_WEIGHTS_NET, &net, error));
    const bool good = !net || ff_weights_net_parse(&learned->net, net);
    free(net);
    if (!good)
        return ff_fail(error, FF_BAD_DATA, "%s: its " FF_WEIGHTS_NET " is not a form of a net",
                       path);
    const ff_metadata *trained = &learned->trained;
    FF_TRY(read_metadata(&learned->trained, path, error));
    for (size_t i = 0; i < trained->field_count; i++)
        if (!strcmp(trained->field[i].name, learned->net.label))
            learned->names = &trained->field[i];
    if (learned->names || !trained->channels) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: has no label field '%s'", path, learned->net.label);
}

void ff_learned_free(ff_learned *learned) {
    ff_metadata_free(&learned->trained);
    *learned = (ff_learned){0};
}

static ff_status read_facts(ff_inference *own, const char *path, ff_error *error) {
    FF_TRY(ff_learned_read(&own->learned, path, error));
    own->net = own->learned.net;
    own->names = own->learned.names;
    return FF_OK;
}

/* Opens the set: with its labels for an evaluation, or if the file does not list the classes. */
static ff_status open_set(ff_inference *own, const ff_inference_options *options, ff_error *error) {
    const char *label = options->label ? options->label : *own->net.label ? own->net.label : NULL;
    own->labelled = !options->predicts || !own->names;
    FF_TRY(ff_splits_open_one(&own->set, options->data, label, options->verify,
                              own->labelled ? &own->field : NULL, error));
    if (!own->names) own->names = &ff_dataset_metadata(own->set)->field[own->field];
    return FF_OK;
}

/* Options replace what the file records; the set supplies what both lack. */
static ff_status complete(ff_inference *own, const ff_inference_options *options, ff_error *error) {
    ff_weights_net *net = &own->net;
    const ff_metadata *set = ff_dataset_metadata(own->set);
    if (options->model) snprintf(net->model, sizeof net->model, "%s", options->model);
    if (options->stem != FF_STEM_AUTO) net->stem = options->stem;
    if (options->resize >= 0) net->resize = (uint32_t)options->resize;
    if (options->crop >= 0) net->crop = (uint32_t)options->crop;
    if (options->crop > 0) net->height = net->width = net->crop;
    if (options->views > 0) net->views = (int)options->views;
    if (!net->views) net->views = 1;
    if (options->precision && !ff_precision_is_auto(options->precision))
        FF_TRY(ff_precision_read(options->precision, &net->precision, error));
    if (!*net->model)
        return ff_fail(error, FF_USAGE, "%s: does not record its model; name it with --model",
                       options->weights);
    if (!net->channels) net->channels = set->channels;
    if (net->height) return FF_OK;
    if (set->variable_size)
        return ff_fail(error, FF_USAGE,
                       "%s: its samples have different sizes, and %s does not record which size "
                       "the net takes; set --resize and --crop",
                       ff_dataset_path(own->set), options->weights);
    net->height = set->height;
    net->width = set->width;
    return FF_OK;
}

/* ---- the set is what the model was trained for ---- */

static int64_t find_class(const ff_field *field, const char *name) {
    for (uint32_t k = 0; k < field->class_count; k++)
        if (!strcmp(field->class_name[k], name)) return k;
    return -1;
}

/* Counts the samples of the set whose class the model does not have. */
static ff_status count_unknown(ff_inference *own, ff_error *error) {
    for (uint64_t i = 0; i < ff_dataset_count(own->set); i++) {
        int64_t value;
        FF_TRY(ff_dataset_class(own->set, i, own->field, &value, error));
        own->unknown += value >= 0 && own->class_numbers[value] < 0;
    }
    return FF_OK;
}

/* Matches classes by name, if both sides have some of the same names. *matched: the set's classes
 * are others, or in another order. */
static ff_status match_classes(ff_inference *own, bool *matched, ff_error *error) {
    const ff_field *set = &ff_dataset_metadata(own->set)->field[own->field];
    bool same = set->class_count == own->names->class_count, any = false;
    *matched = false;
    FF_TRY(ff_alloc(&own->class_numbers, (uint64_t)set->class_count + 1, sizeof *own->class_numbers,
                    "classes", error));
    for (uint32_t k = 0; k < set->class_count; k++) {
        own->class_numbers[k] = (int32_t)find_class(own->names, set->class_name[k]);
        same = same && own->class_numbers[k] == (int32_t)k;
        any = any || own->class_numbers[k] >= 0;
    }
    *matched = any && !same;
    if (*matched) return count_unknown(own, error);
    free(own->class_numbers);
    own->class_numbers = NULL;
    return FF_OK;
}

static ff_status check_set(ff_inference *own, const ff_inference_options *options,
                           ff_error *error) {
    const ff_metadata *set = ff_dataset_metadata(own->set), *trained = &own->learned.trained;
    bool matched = false;
    if (!trained->channels || options->made) return FF_OK;
    if (own->labelled) FF_TRY(match_classes(own, &matched, error));
    const ff_agreement_side learned = {options->weights, trained,
                                       (size_t)(own->names - trained->field)};
    const ff_agreement_side seen = ff_agreement_of(
        own->set, own->labelled && !matched ? own->field : FF_AGREEMENT_ANY_CLASSES);
    const bool whole = set->height == own->net.height && set->width == own->net.width;
    return ff_agreement_check(&learned, &seen,
                              own->net.resize           ? FF_FIT_RESAMPLED
                              : own->net.crop || !whole ? FF_FIT_CROPPED
                                                        : FF_FIT_WHOLE,
                              error);
}

/* ---- the model ---- */

/* Infers what PyTorch's files do not record from their tensors: the stem and, if the set's classes
 * have no names, the number of classes from the head. */
static ff_status complete_form(ff_inference *own, const ff_inference_options *options,
                               ff_error *error) {
    ff_weights_net *net = &own->net;
    ff_weights_form form;
    if (!net->classes) net->classes = own->names->class_count;
    if (net->classes && (net->stem != FF_STEM_AUTO || own->learned.trained.channels)) return FF_OK;
    ff_model_options model = ff_weights_net_model(net);
    if (!net->classes) model.classes = 1;
    FF_TRY(ff_weights_read_form(&form, options->weights, &model, error));
    if (net->stem == FF_STEM_AUTO) net->stem = form.stem;
    if (!net->classes) net->classes = form.classes;
    if (net->classes) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "%s: the classes of '%s' have no names, and %s has no head of %s that would "
                   "show their number",
                   options->data, own->names->name, options->weights, net->model);
}

/* Refuses weights whose head is for other classes than the set has. */
static ff_status check_head(const ff_inference *own, const ff_inference_options *options,
                            const ff_weights *weights, const ff_model_options *model,
                            ff_error *error) {
    ff_weights_form form;
    if (ff_weights_has_head(weights)) return FF_OK;
    FF_TRY(ff_weights_read_form(&form, options->weights, model, error));
    return ff_fail(error, FF_USAGE,
                   "%s: its head is for %u classes, but '%s' of %s has %u; train a new head first: "
                   "fftrain --recipe finetune --weights %s",
                   options->weights, form.classes, own->names->name, options->data,
                   own->net.classes, options->weights);
}

/* net: the form that the weights must have. */
static ff_status load_weights(ff_inference *own, const ff_inference_options *options,
                              const ff_model_options *net, ff_error *error) {
    const ff_weights_options how = {
        .path = options->weights,
        .net = net,
        .average = options->average,
        .data = options->any_normalization ? NULL : ff_dataset_metadata(own->set)};
    ff_weights *weights;
    ff_status status;
    FF_TRY(ff_weights_open(&weights, &how, own->model, error));
    FF_TRY_DONE(check_head(own, options, weights, net, error));
    FF_TRY_DONE(ff_copy_string(&own->text, ff_weights_text(weights), error));
    status = ff_weights_load(weights, error);
done:
    ff_weights_close(&weights);
    return status;
}

static ff_status build_model(ff_inference *own, const ff_inference_options *options,
                             ff_error *error) {
    const uint64_t count = ff_dataset_count(own->set);
    const uint64_t batch = (uint64_t)options->batch < count ? (uint64_t)options->batch : count;
    const ff_machine_options machine = {.device = options->device,
                                        .tune_seconds = options->tune_seconds,
                                        .compile_nothing = options->tune_seconds == 0};
    FF_TRY(ff_machine_open(&own->machine, &machine, error));
    ff_model_options model = ff_weights_net_model(&own->net);
    model.loaded = true;
    model.threads = (int)options->threads;
    model.device = ff_machine_device(own->machine);
    ff_error why;
    if (model.device || ff_compute_allows(NULL, own->net.precision, &why) == FF_OK)
        model.precision = own->net.precision;
    else if (options->precision && !ff_precision_is_auto(options->precision))
        return ff_fail(error, FF_USAGE, "--precision %s: %s (device: %s)", options->precision,
                       why.message, ff_machine_text(own->machine));
    ff_weights_net built = own->net;
    FF_TRY(ff_model_create(&own->model, &model, error));
    built.stem = ff_model_stem(own->model);
    const ff_model_options net = ff_weights_net_model(&built);
    FF_TRY(load_weights(own, options, &net, error));
    FF_TRY(ff_model_plan(own->model, (int)batch, false, &own->plan, error));
    FF_TRY(ff_plan_set_views(own->plan, own->net.views, error));
    return ff_tally_create(&own->tally, own->plan, error);
}

static ff_status build_feed(ff_inference *own, const ff_inference_options *options,
                            ff_error *error) {
    const char *label =
        own->labelled ? ff_dataset_metadata(own->set)->field[own->field].name : NULL;
    ff_feed_options how = {.compute = ff_model_compute(own->model),
                           .kernels = ff_machine_kernels(own->machine),
                           .quiet = options->quiet};
    how.loader = ff_feed_in_order(own->model, label ? &label : NULL,
                                  (uint64_t)ff_plan_batch(own->plan), own->net.resize);
    how.loader.class_numbers = own->class_numbers;
    if (own->class_numbers)
        how.loader.class_count = ff_dataset_metadata(own->set)->field[own->field].class_count;
    const ff_status status = ff_feed_create(&own->feed, own->set, &how, error);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "%s", ff_dataset_path(own->set));
}

ff_status ff_inference_open(ff_inference **out, const ff_inference_options *options,
                            ff_error *error) {
    ff_inference *own;
    ff_status status;
    *out = NULL;
    FF_TRY(ff_alloc(&own, 1, sizeof *own, "an evaluation", error));
    FF_TRY_DONE(read_facts(own, options->weights, error));
    FF_TRY_DONE(open_set(own, options, error));
    FF_TRY_DONE(complete(own, options, error));
    FF_TRY_DONE(check_set(own, options, error));
    FF_TRY_DONE(complete_form(own, options, error));
    FF_TRY_DONE(build_model(own, options, error));
    FF_TRY_DONE(build_feed(own, options, error));
    *out = own;
    return FF_OK;
done:
    ff_inference_close(&own);
    return status;
}

void ff_inference_close(ff_inference **pointer) {
    ff_inference *own = *pointer;
    if (!own) return;
    ff_feed_destroy(&own->feed);
    ff_tally_destroy(&own->tally);
    ff_model_destroy(&own->model);
    ff_machine_close(&own->machine);
    ff_dataset_close(&own->set);
    ff_learned_free(&own->learned);
    free(own->class_numbers);
    free(own->text);
    free(own);
    *pointer = NULL;
}

ff_status ff_inference_next(ff_inference *own, float *values, uint32_t *count, ff_error *error) {
    ff_compute *compute = ff_model_compute(own->model);
    const ff_tensor *logits = &own->plan->tensors[own->plan->graph->output];
    const size_t stride = (size_t)ff_tensor_padded_channels(logits);
    ff_feed_batch batch;
    *count = 0;
    if (own->over) return FF_OK;
    FF_TRY(ff_feed_next(own->feed, &batch, error));
    ff_status status = ff_feed_make(own->feed, compute->stream, error);
    if (status == FF_OK) {
        ff_plan_enqueue(own->plan, &batch.batch, false, NULL, 0, NULL);
        ff_compute_read(compute, values, ff_plan_at(own->plan, own->plan->logits),
                        batch.count * stride * sizeof *values);
        status = ff_compute_check(compute, error);
    }
    ff_status done = ff_feed_done(own->feed, status == FF_OK ? error : NULL);
    FF_TRY(status == FF_OK ? done : status);
    const size_t classes = (size_t)logits->c;
    for (uint32_t n = 1; n < batch.count; n++)
        memmove(values + n * classes, values + n * stride, classes * sizeof *values);
    *count = batch.count;
    own->over = batch.last;
    return FF_OK;
}
