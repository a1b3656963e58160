#include "train/net/model.h"

#include "format/base/memory.h"
#include "format/base/thread.h"
#include "train/net/groups.h"
#include "train/net/models/models.h"
#include "train/net/plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ff_model {
    const ff_net *net;
    ff_model_options options; /* resolved: no value is AUTO */
    ff_graph **graphs;        /* of each size of images; the first is the training plan's */
    size_t graph_count, graph_capacity;
    ff_graph *graph; /* the first */
    ff_compute *compute;
    ff_plan *plans; /* the newest first; the last one is the training plan */
    ff_plan *training;
    ff_store store;
    ff_groups groups;
    ff_parameter *parameters;
    float *class_weights; /* [classes] on the device; NULL = all 1 */
};

const char *ff_model_name(int index) {
    const ff_net *net = ff_net_at(index);
    return net ? net->name : NULL;
}

static ff_status find_net(const char *name, const ff_net **net, ff_error *error) {
    char known[256] = "";
    for (int i = 0; ff_net_at(i); i++) {
        *net = ff_net_at(i);
        if (strcmp(name, (*net)->name) == 0) return FF_OK;
        size_t length = strlen(known);
        snprintf(known + length, sizeof known - length, "%s%s", i ? ", " : "", (*net)->name);
    }
    *net = NULL;
    return ff_fail(error, FF_USAGE, "no model '%s'; there are: %s", name, known);
}

/* Fills in defaults and refuses invalid options. */
static ff_status complete(ff_model_options *options, const ff_net *net, ff_error *error) {
    const int side = options->height > options->width ? options->height : options->width;
    if (!net->stems && options->stem != FF_STEM_AUTO)
        return ff_fail(error, FF_USAGE, "%s has one stem only; use --stem auto", net->name);
    if (options->stem == FF_STEM_AUTO)
        options->stem = side <= 64 || !net->stems ? FF_STEM_CIFAR : FF_STEM_IMAGENET;
    if (options->classes < 1)
        return ff_fail(error, FF_USAGE, "a net for %d classes; at least 1 is needed",
                       options->classes);
    if (!(options->label_smoothing >= 0 && options->label_smoothing < 1))
        return ff_fail(error, FF_USAGE, "label smoothing of %g; it must be in [0, 1)",
                       options->label_smoothing);
    if (net->dropout < 0 && options->dropout > 0)
        return ff_fail(error, FF_USAGE, "%s has no dropout", net->name);
    if (options->dropout < 0)
        options->dropout = options->stem == FF_STEM_CIFAR ? net->dropout_small : net->dropout;
    if (options->dropout < 0) options->dropout = 0;
    if (options->threads == 0) options->threads = ff_cpu_count();
    if (options->threads < 1 || options->threads > 4096)
        return ff_fail(error, FF_USAGE, "%d threads; 1 to 4096 are possible", options->threads);
    return FF_OK;
}

static ff_status list_parameters(ff_model *model, ff_error *error) {
    const ff_graph *graph = model->graph;
    FF_TRY(ff_alloc(&model->parameters, (uint64_t)graph->parameter_count, sizeof *model->parameters,
                    "parameters", error));
    for (int i = 0; i < graph->parameter_count; i++) {
        const ff_graph_parameter *from = &graph->parameters[i];
        ff_parameter *to = &model->parameters[i];
        *to = (ff_parameter){.name = from->name,
                             .dtype = from->dtype,
                             .rank = from->rank,
                             .count = ff_graph_elements(from),
                             .trained = from->trained};
        memcpy(to->shape, from->shape, sizeof to->shape);
    }
    return FF_OK;
}

/* ---- graphs ---- */

/* The graph for images of a size; all have the same parameters, in the same order. */
static ff_status find_graph(ff_model *model, int height, int width, ff_graph **out,
                            ff_error *error) {
    ff_model_options options = model->options;
    ff_graph *graph;
    options.height = height;
    options.width = width;
    for (size_t i = 0; i < model->graph_count; i++) {
        const ff_layer *images = &model->graphs[i]->layers[0];
        *out = model->graphs[i];
        if (images->h == height && images->w == width) return FF_OK;
    }
    FF_TRY(ff_reserve(&model->graphs, &model->graph_capacity, model->graph_count + 1,
                      sizeof(ff_graph *), "a net", error));
    FF_TRY(ff_graph_create(&graph, options.channels, height, width, error));
    model->net->build(graph, &options);
    ff_status status;
    FF_TRY_DONE(ff_graph_check(graph, error));
    if (model->graph_count) FF_TRY_DONE(ff_graph_match(graph, model->graphs[0], error));
    model->graphs[model->graph_count++] = *out = graph;
done:
    if (status != FF_OK) ff_graph_destroy(&graph);
    return status;
}

/* ---- plans ---- */

static ff_status add_plan(ff_model *model, const ff_plan_options *options, ff_plan **plan,
                          ff_error *error) {
    const int height = options->height ? options->height : model->options.height;
    const int width = options->width ? options->width : model->options.width;
    ff_graph *graph;
    FF_TRY(find_graph(model, height, width, &graph, error));
    FF_TRY(ff_plan_create(plan, graph, model->compute, options->batch, options->training,
                          options->without, model->training, error));
    if (model->compute->ops->settle) model->compute->ops->settle(model->compute);
    (*plan)->store = &model->store;
    (*plan)->loss = model->options.loss;
    (*plan)->smoothing = model->options.label_smoothing;
    (*plan)->class_weights = model->class_weights;
    (*plan)->divisor = ff_model_loss_divisor(model);
    (*plan)->seed = model->options.seed;
    (*plan)->share = model->options.share;
    (*plan)->next = model->plans;
    model->plans = *plan;
    /* Larger images have elements in a gradient that are always zero for smaller ones. */
    for (ff_plan *p = model->plans; p; p = p->next)
        if (model->graph_count > 1) ff_plan_write_all(p);
    return FF_OK;
}

static ff_status open_compute(ff_model *model, ff_error *error) {
    const ff_model_options *options = &model->options;
    ff_compute_options compute = {.threads = options->threads,
                                  .precision = options->precision,
                                  .deterministic = options->deterministic};
    compute.device = options->memory;
    if (!options->device)
        return ff_compute_open(&model->compute, options->compute, &compute, error);
    const int sizes = options->sizes > 1 ? options->sizes : 1;
    compute.convolutions = sizes * ff_graph_conv_count(model->graph, false);
    compute.foldable = sizes * ff_graph_conv_count(model->graph, true);
    compute.threads = 1; /* the host only enqueues */
    compute.device = options->device->device;
    compute.cuda = options->device->cuda;
    return options->device->ops->open(&model->compute, &compute, error);
}

static ff_status copy_class_weights(ff_model *model, ff_error *error) {
    const uint64_t bytes = (uint64_t)model->options.classes * sizeof(float);
    if (!model->options.class_weights) return FF_OK;
    FF_TRY(
        ff_compute_allocate(model->compute, &model->class_weights, bytes, "class weights", error));
    ff_compute_write(model->compute, model->class_weights, model->options.class_weights, bytes);
    return ff_compute_check(model->compute, error);
}

static void hold_norms(ff_graph *graph, const char *names) {
    for (int i = 0; i < graph->layer_count && names; i++)
        graph->layers[i].held = graph->layers[i].kind == FF_LAYER_NORM &&
                                ff_groups_match_norm(graph, &graph->layers[i], names);
}

static ff_status build(ff_model *model, ff_error *error) {
    const ff_model_options *options = &model->options;
    const ff_plan_options training = {
        .batch = options->batch,
        .height = options->train_height ? options->train_height : options->height,
        .width = options->train_width ? options->train_width : options->width,
        .training = true};
    FF_TRY(find_graph(model, training.height, training.width, &model->graph, error));
    hold_norms(model->graph, options->held_norms);
    FF_TRY(open_compute(model, error));
    model->compute->ranks.count = options->norm_ranks;
    FF_TRY(copy_class_weights(model, error));
    FF_TRY(add_plan(model, &training, &model->training, error));
    FF_TRY(ff_store_create(&model->store, model->graph, model->compute, model->training->convs,
                           model->training->tensors, error));
    FF_TRY(ff_store_initialise(&model->store, options->loaded ? NULL : &options->seed, error));
    return list_parameters(model, error);
}

ff_status ff_model_create(ff_model **out, const ff_model_options *options, ff_error *error) {
    const ff_net *net;
    ff_model_options completed = *options;
    *out = NULL;
    FF_TRY(find_net(options->name, &net, error));
    FF_TRY(complete(&completed, net, error));
    completed.name = net->name;
    ff_model *model;
    FF_TRY(ff_alloc(&model, 1, sizeof *model, "a model", error));
    model->net = net;
    model->options = completed;
    ff_status status = build(model, error);
    if (status != FF_OK) {
        ff_model_destroy(&model);
        return ff_fail_within(error, status, "%s", net->name);
    }
    *out = model;
    return FF_OK;
}

void ff_model_destroy(ff_model **model_pointer) {
    ff_model *model = *model_pointer;
    if (!model) return;
    if (model->compute && ff_compute_wait(model->compute, NULL) != FF_OK) {
        /* ignored: the memory is not in use any more */
    }
    ff_groups_destroy(&model->groups);
    ff_store_destroy(&model->store);
    while (model->plans) {
        ff_plan *plan = model->plans;
        model->plans = plan->next;
        ff_plan_destroy(&plan);
    }
    if (model->compute) ff_compute_release(model->compute, model->class_weights);
    ff_compute_close(&model->compute);
    for (size_t i = 0; i < model->graph_count; i++) ff_graph_destroy(&model->graphs[i]);
    free(model->graphs);
    free(model->parameters);
    free(model);
    *model_pointer = NULL;
}

ff_status ff_model_plan(ff_model *model, int batch, bool training, ff_plan **plan,
                        ff_error *error) {
    const ff_plan_options options = {.batch = batch, .training = training};
    return ff_model_plan_with(model, &options, plan, error);
}

ff_status ff_model_plan_with(ff_model *model, const ff_plan_options *options, ff_plan **plan,
                             ff_error *error) {
    *plan = NULL;
    return add_plan(model, options, plan, error);
}

double ff_model_loss_divisor(const ff_model *model) {
    const ff_model_options *options = &model->options;
    if (options->summed_loss || (options->sums_in_place && model->compute->dtype == FF_F32))
        return 1;
    return options->norm_ranks ? (double)options->share.rows : 0;
}

ff_plan *ff_model_training_plan(ff_model *model) {
    return model->training;
}

ff_compute *ff_model_compute(ff_model *model) {
    return model->compute;
}

ff_store *ff_model_store(ff_model *model) {
    return &model->store;
}

/* ---- properties ---- */

const char *ff_model_compute_name(const ff_model *model) {
    return model->compute->description;
}

ff_stem ff_model_stem(const ff_model *model) {
    return model->net->stems ? model->options.stem : FF_STEM_AUTO;
}

void ff_model_input_size(const ff_model *model, uint32_t *height, uint32_t *width) {
    *height = (uint32_t)model->options.height;
    *width = (uint32_t)model->options.width;
}

int ff_model_threads(const ff_model *model) {
    return model->options.threads;
}

double ff_model_macs(const ff_model *model) {
    return ff_graph_macs(model->graph);
}

const char *ff_role_name(ff_role role) {
    static const char *const names[] = {"parameters", "gradients",   "state",
                                        "buffers",    "activations", "scratch"};
    return role < FF_ROLE_COUNT ? names[role] : "?";
}

uint64_t ff_model_bytes(const ff_model *model, ff_role role) {
    const ff_store *store = &model->store;
    const uint64_t element = model->compute->element_bytes, narrow = element != sizeof(float);
    const uint64_t copies = store->average ? 2 : 1, each = sizeof(float) + narrow * element;
    const uint64_t channels = store->trained_count - store->weight_count;
    uint64_t bytes;
    switch (role) {
    case FF_ROLE_PARAMETERS: return copies * store->trained_count * each;
    case FF_ROLE_GRADIENTS:
        bytes = ff_store_sums_apart(store) ? store->trained_count * sizeof(float) : 0;
        return bytes + store->weight_count * element + channels * sizeof(float);
    case FF_ROLE_STATE:
        return (uint64_t)ff_model_states(model) * store->trained_count * sizeof(float);
    case FF_ROLE_BUFFERS: return copies * store->buffer_count * each;
    case FF_ROLE_ACTIVATIONS: return model->training->arenas->bytes[FF_ARENA_ACTIVATIONS];
    case FF_ROLE_SCRATCH:
        bytes = model->training->arenas->bytes[FF_ARENA_SCRATCH] + model->compute->update_bytes;
        for (const ff_plan *plan = model->plans; plan; plan = plan->next) bytes += plan->view_bytes;
        return bytes;
    default: return 0;
    }
}

/* ---- parameters ---- */

int ff_model_parameter_count(const ff_model *model) {
    return model->graph->parameter_count;
}

const ff_parameter *ff_model_parameter(const ff_model *model, int index) {
    return &model->parameters[index];
}

int ff_model_find(const ff_model *model, const char *name) {
    for (int i = 0; i < model->graph->parameter_count; i++)
        if (strcmp(model->parameters[i].name, name) == 0) return i;
    return -1;
}

const char *ff_model_head(const ff_model *model) {
    return model->graph->layers[model->graph->output].name;
}

int ff_model_whitening(const ff_model *model) {
    return model->net->whitening ? ff_model_find(model, model->net->whitening) : -1;
}

/* Training forward passes that num_batches_tracked counts in addition to store.tracked. */
static int64_t forwards_of(const ff_model *model, int index) {
    const ff_graph *graph = model->graph;
    return graph->layers[graph->parameters[index].layer].held ? 0 : model->store.forwards;
}

void ff_model_get(const ff_model *model, int index, ff_parameter_part part, void *to) {
    const int64_t tracked = model->store.tracked[index] + forwards_of(model, index);
    if (model->parameters[index].dtype == FF_I64)
        memcpy(to, &tracked, sizeof tracked);
    else
        ff_store_export(&model->store, index, part, to);
}

void ff_model_set(ff_model *model, int index, ff_parameter_part part, const void *from) {
    int64_t tracked;
    if (model->parameters[index].dtype == FF_I64) {
        memcpy(&tracked, from, sizeof tracked);
        model->store.tracked[index] = tracked - forwards_of(model, index);
    } else {
        ff_store_import(&model->store, index, part, from);
    }
}

ff_status ff_model_check(const ff_model *model, ff_error *error) {
    return ff_compute_check(model->compute, error);
}

ff_status ff_model_set_groups(ff_model *model, const ff_group *list, int count, ff_error *error) {
    int states = 1;
    ff_groups_destroy(&model->groups);
    model->store.groups = &model->groups;
    FF_TRY(ff_groups_create(&model->groups, &model->store, list, count, error));
    for (int i = 0; i < count; i++)
        if (ff_optimizer_at(list[i].rule)->states > states)
            states = ff_optimizer_at(list[i].rule)->states;
    return ff_store_reserve_states(&model->store, states, error);
}

int ff_model_states(const ff_model *model) {
    int states = 0;
    while (states < FF_STATES && model->store.state[states]) states++;
    return states;
}

int ff_model_group(const ff_model *model, int parameter) {
    if (!model->groups.count) return model->parameters[parameter].trained ? 0 : -1;
    return model->groups.of[parameter];
}

const ff_optimizer *ff_model_optimizer(const ff_model *model, int parameter) {
    const int group = ff_model_group(model, parameter);
    const ff_groups *groups = &model->groups;
    for (int i = 0; group >= 0 && i < groups->span_count; i++)
        if (groups->spans[i].group == group) return ff_optimizer_at(groups->spans[i].rule);
    return group < 0 ? NULL : ff_optimizer_at(FF_RULE_SGD);
}

bool ff_model_averages(const ff_model *model) {
    return model->store.average != NULL;
}
