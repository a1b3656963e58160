/* A convolution. It may compute the sums for the norm after it, and the norm and ReLU or ReLU6
 * before it may be folded into it. */
#include "train/net/ops/ops.h"

#include <math.h>
#include <stdio.h>

ff_node ff_graph_conv(ff_graph *graph, ff_node from, const char *name, int channels,
                      const ff_conv_form *form) {
    if (graph->failure.status != FF_OK) return 0;
    ff_layer layer = ff_graph_begin(graph, FF_LAYER_CONV, from, name);
    const int inputs = layer.c, groups = form->groups ? form->groups : 1;
    layer.kernel_h = layer.kernel_w = form->kernel;
    layer.stride = form->stride ? form->stride : 1;
    layer.pad = form->pad;
    layer.groups = groups;
    layer.bias = form->bias;
    if (channels < 1 || channels > FF_GRAPH_LARGEST) {
        ff_fail(&graph->failure, FF_USAGE, "%s: a convolution with %d channels", name, channels);
        return 0;
    }
    if (groups < 1 || inputs % groups || channels % groups) {
        ff_fail(&graph->failure, FF_USAGE,
                "%s: a convolution of %d to %d channels in %d groups; groups must divide both",
                name, inputs, channels, groups);
        return 0;
    }
    if (!ff_graph_slide(graph, &layer, "convolution")) return 0;
    layer.c = channels;
    double taps = (double)form->kernel * form->kernel, bound = 1.0 / sqrt(taps * (inputs / groups));
    const bool fan_out = form->filters == FF_FILTERS_FAN_OUT;
    const ff_initial initial = fan_out                             ? FF_INITIAL_NORMAL
                               : form->filters == FF_FILTERS_DIRAC ? FF_INITIAL_DIRAC
                                                                   : FF_INITIAL_UNIFORM;
    ff_graph_parameter *p = ff_graph_add_parameter(graph, &layer, "weight", FF_F32, true, initial,
                                                   fan_out ? sqrt(2.0 / (taps * channels)) : bound);
    p->rank = 4;
    p->shape[0] = channels;
    p->shape[1] = inputs / groups;
    p->shape[2] = p->shape[3] = form->kernel;
    if (form->bias)
        ff_graph_add_vector(graph, &layer, "bias", true,
                            fan_out ? FF_INITIAL_CONSTANT : FF_INITIAL_UNIFORM,
                            fan_out ? 0 : bound);
    return ff_graph_append(graph, &layer);
}

static ff_status conv_shape(const ff_plan *plan, const ff_layer *layer, ff_tensor *output,
                            ff_error *error) {
    (void)layer, (void)error;
    output->block = plan->compute->ops->channel_block(plan->compute, output->c);
    return FF_OK;
}

/* Fuses a max pool right after it, if that pays off. */
static void conv_fuse(ff_fuser *f, ff_op *op) {
    op->conv = (ff_conv_op){.sums = FF_BUFFER_NONE, .kept = FF_BUFFER_NONE};
    if (!(f->plan->compute->fusions & FF_FUSE_CONV_POOL)) return;
    const ff_node pool = ff_fuser_only_user(f, op->out, FF_LAYER_MAX_POOL);
    if (pool < 0) return;
    op->type = &ff_op_conv_pool;
    op->conv_pool = (ff_conv_pool_op){.pool = pool,
                                      .index = FF_BUFFER_NONE,
                                      .room = FF_BUFFER_NONE,
                                      .partial = FF_BUFFER_NONE,
                                      .sums = FF_BUFFER_NONE};
    ff_fuser_take(f, op, pool);
}

ff_conv_shape ff_op_conv_shape(const ff_plan *plan, const ff_op *op) {
    const ff_layer *layer = &plan->graph->layers[op->layer];
    const bool whole = op->type == &ff_op_conv;
    return (ff_conv_shape){
        .input = op->input,
        .output = plan->tensors[op->layer],
        .kernel = layer->kernel_h,
        .stride = layer->stride,
        .pad = layer->pad,
        .groups = layer->groups,
        .bias = layer->bias,
        .input_gradient = plan->training && plan->wanted[op->from],
        .training = plan->training,
        .frozen = !ff_op_trains(plan, op, 0),
        .statistics = whole && op->conv.counts_for,
        .fold = whole && op->conv.folds,
        .gradient_zeroed = whole, /* in the store; chunks share a buffer */
    };
}

/* If the table does not grant a fusion, the norms do the work themselves. */
static ff_status conv_choose(const ff_planner *b, ff_op *op, ff_error *error) {
    ff_plan *plan = b->plan;
    const ff_conv_shape shape = ff_op_conv_shape(plan, op);
    const ff_conv *shared = b->sibling ? b->sibling->convs[op->layer] : NULL;
    ff_conv_op *own = &op->conv;
    FF_TRY(plan->compute->ops->conv_create(plan->compute, &shape, shared, &own->planned, error));
    plan->convs[op->layer] = own->planned;
    if (own->counts_for && !own->planned->statistics) {
        own->counts_for->norm.counted_by = NULL;
        own->counts_for = NULL;
    }
    if (own->folds && !own->planned->folded) {
        own->folds->norm.folded_by = NULL;
        own->folds->unwritten = false;
        own->folds = NULL;
    }
    return FF_OK;
}

static void conv_destroy(ff_compute *compute, ff_op *op) {
    if (op->conv.planned) compute->ops->conv_destroy(compute, op->conv.planned);
}

static ff_status conv_plan_forward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    ff_conv_op *own = &op->conv;
    ff_planner_share(b, own->planned->scratch_bytes);
    if (own->planned->kept_bytes)
        FF_TRY(ff_plan_buffer(b->plan, FF_ARENA_ACTIVATIONS, own->planned->kept_bytes, now,
                              &own->kept, error));
    if (!own->counts_for) return FF_OK;
    const size_t channels = (size_t)ff_tensor_padded_channels(&op->output);
    FF_TRY(ff_plan_buffer(b->plan, FF_ARENA_SCRATCH, 2 * channels * sizeof(float), now, &own->sums,
                          error));
    ff_plan_use(b->plan, own->sums, ff_op_forward_time(b->plan, own->counts_for));
    return FF_OK;
}

static ff_status conv_plan_backward(ff_planner *b, ff_op *op, int now, ff_error *error) {
    ff_plan_use(b->plan, op->x, now);
    ff_plan_use(b->plan, op->conv.kept, now);
    FF_TRY(ff_planner_give_input(b, op, now, error));
    if (!op->conv.folds) return FF_OK;
    return ff_op_norm_plan_folded(b->plan, op->conv.folds, now, error);
}

static void conv_forward(const ff_pass *pass, const ff_op *op) {
    const ff_conv_op *own = &op->conv;
    const void *x = ff_pass_at(pass, op->x), *w = ff_pass_working(pass, op, 0);
    void *y = ff_pass_at(pass, op->y), *scratch = ff_pass_scratch(pass);
    float *sums = ff_pass_at(pass, own->sums);
    own->planned->kept = ff_pass_at(pass, own->kept);
    if (own->folds || (pass->training && own->counts_for)) {
        const ff_fold fold = own->folds ? ff_op_fold_of(pass, own->folds) : (ff_fold){0};
        pass->table->conv_forward_fused(pass->compute, own->planned, x, own->folds ? &fold : NULL,
                                        w, y, sums, scratch);
    } else
        pass->table->conv_forward(pass->compute, own->planned, x, w, ff_pass_bias(pass, op), y,
                                  scratch);
}

static void conv_backward(const ff_pass *pass, const ff_op *op) {
    const ff_conv_op *own = &op->conv;
    void *scratch = ff_pass_scratch(pass), *dx = ff_pass_at(pass, op->dx);
    const void *dy = ff_pass_at(pass, op->dy), *w = ff_pass_working(pass, op, 0);
    void *dw = ff_pass_gradient(pass, op, 0);
    float *dbias = own->bias_apart ? NULL : ff_pass_bias_gradient(pass, op);
    if (own->folds) {
        const ff_fold fold = ff_op_fold_of(pass, own->folds);
        pass->table->fold_backward(pass->compute, own->planned, &fold, w, dy, dx, dw, scratch);
        return;
    }
    if (dw || dbias)
        pass->table->conv_backward_weights(pass->compute, own->planned, ff_pass_at(pass, op->x), dy,
                                           dw, dbias, scratch);
    if (op->dx >= 0)
        pass->table->conv_backward_data(pass->compute, own->planned, dy, w, dx, scratch);
}

static void conv_describe(const ff_plan *plan, const ff_op *op, bool forward,
                          char text[FF_OP_NAME]) {
    const ff_conv_shape *s = &op->conv.planned->shape;
    const bool bias = plan->graph->layers[op->layer].bias;
    const ff_op *folds = op->conv.folds;
    char before[40] = "";
    if (folds)
        snprintf(before, sizeof before, ", norm and %s before it",
                 ff_activation_called(folds->norm.activation).text);
    const char *also = folds && forward        ? before
                       : folds                 ? ", with the norm before it"
                       : !forward && s->frozen ? ", the bias alone"
                       : bias && !op->conv.planned->adds_bias && forward ? ", bias apart"
                       : bias                                            ? ", bias"
                                                                         : "";
    char groups[24] = "";
    if (s->groups > 1) snprintf(groups, sizeof groups, ", %d groups", s->groups);
    snprintf(text, FF_OP_NAME, "conv %dx%d /%d%s%s%s", s->kernel, s->kernel, s->stride, groups,
             also, forward && op->conv.counts_for ? ", sums for the norm" : "");
}

const ff_op_type ff_op_conv = {
    .shape = conv_shape,
    .fuse = conv_fuse,
    .choose = conv_choose,
    .destroy = conv_destroy,
    .plan_forward = conv_plan_forward,
    .plan_backward = conv_plan_backward,
    .forward = conv_forward,
    .backward = conv_backward,
    .describe = conv_describe,
};
