/* The steps of a plan: its operations forward, the loss, and backward. */
#include "train/plan.h"

/* One step's view of things; images are the caller's. */
typedef struct runner {
    ff_plan *plan;
    const ff_compute_ops *table;
    ff_compute *compute;
    const void *images;
    bool training; /* batch statistics and dropout */
} runner;

static void *value(const runner *r, ff_buffer_id id) {
    return id == FF_BUFFER_IMAGES ? (void *)r->images : ff_plan_at(r->plan, id);
}

/* The k-th parameter of an operation's layer: its f32 values, what convolutions and linear layers
 * read of it, and its gradient; NULL where it is not trained. */
static int index_of(const runner *r, const ff_op *op, int k) {
    return r->plan->graph->layers[op->layer].parameter + k;
}
static float *parameter(const runner *r, const ff_op *op, int k) {
    return ff_store_value(r->plan->store, index_of(r, op, k));
}
static const void *working(const runner *r, const ff_op *op, int k) {
    return ff_store_working(r->plan->store, index_of(r, op, k));
}
static void *gradient(const runner *r, const ff_op *op, int k) {
    if (!ff_op_trains(r->plan, op, k)) return NULL;
    return ff_store_gradient(r->plan->store, index_of(r, op, k));
}

static const void *bias_of(const runner *r, const ff_op *op) {
    return r->plan->graph->layers[op->layer].bias ? working(r, op, 1) : NULL;
}

/* NULL where there is no bias, or where it is not trained. */
static float *bias_gradient(const runner *r, const ff_op *op) {
    return r->plan->graph->layers[op->layer].bias ? gradient(r, op, 1) : NULL;
}

static ff_pool pool_of(const runner *r, const ff_op *op, const ff_tensor *input) {
    const ff_layer *layer = &r->plan->graph->layers[op->pool >= 0 ? op->pool : op->layer];
    ff_pool pool = {
        .input = *input,
        .output = op->output,
        .kernel_h = layer->kernel_h,
        .kernel_w = layer->kernel_w,
        .stride = layer->stride,
        .pad = layer->pad,
        .max = layer->kind == FF_LAYER_MAX_POOL,
    };
    pool.output.n = input->n;
    return pool;
}

/* A chunk of the samples of CONV_POOL: its convolution, and where its parts lie. */
typedef struct chunk {
    ff_conv *conv;
    ff_tensor middle;
    const char *x;
    char *dx, *y, *dy;
    uint8_t *index;
} chunk;

static char *from_byte(void *memory, size_t bytes) {
    return memory ? (char *)memory + bytes : NULL;
}

/* The chunk that begins at sample `from`. */
static chunk chunk_at(const runner *r, const ff_op *op, int from) {
    const size_t input = (size_t)from * ff_tensor_sample(&op->input);
    const size_t output = (size_t)from * ff_tensor_sample(&op->output);
    const size_t bytes = r->compute->element_bytes;
    const int left = op->input.n - from;
    chunk c = {
        .conv = left < op->chunk ? op->tail : op->conv,
        .middle = op->middle,
        .x = from_byte(value(r, op->x), input * bytes),
        .dx = from_byte(value(r, op->dx), input * bytes),
        .y = from_byte(value(r, op->y), output * bytes),
        .dy = from_byte(value(r, op->dy), output * bytes),
    };
    if (left < op->chunk) c.middle.n = left;
    if (r->training) c.index = (uint8_t *)from_byte(value(r, op->index), output);
    return c;
}

static void conv_pool_forward(const runner *r, const ff_op *op) {
    void *room = value(r, op->room);
    for (int from = 0; from < op->input.n; from += op->chunk) {
        const chunk c = chunk_at(r, op, from);
        r->table->conv_forward(r->compute, c.conv, c.x, working(r, op, 0), bias_of(r, op), room,
                               ff_plan_at(r->plan, r->plan->conv_scratch));
        const ff_pool pool = pool_of(r, op, &c.middle);
        r->table->pool_forward(r->compute, &pool, room, c.y, c.index);
    }
}

/* Only where activations are f32: the parts' gradients are added as activations are. */
static void conv_pool_backward(const runner *r, const ff_op *op) {
    void *room = value(r, op->room);
    float *dw = gradient(r, op, 0), *partial = value(r, op->partial);
    float *dbias = bias_gradient(r, op);
    float *partial_bias = partial + ff_op_partial_weights(op);
    const size_t outputs = (size_t)ff_tensor_padded_channels(&op->middle);
    void *scratch = ff_plan_at(r->plan, r->plan->conv_scratch);
    for (int from = 0; from < op->input.n; from += op->chunk) {
        const chunk c = chunk_at(r, op, from);
        const ff_pool pool = pool_of(r, op, &c.middle);
        r->table->pool_backward(r->compute, &pool, c.dy, c.index, room);
        if (dw || dbias)
            r->table->conv_backward_weights(r->compute, c.conv, c.x, room,
                                            dw && from ? partial : dw,
                                            dbias && from ? partial_bias : dbias, scratch);
        if (from && dw) r->table->add(r->compute, op->conv->weight_count, dw, partial, dw);
        if (from && dbias) r->table->add(r->compute, outputs, dbias, partial_bias, dbias);
        if (c.dx)
            r->table->conv_backward_data(r->compute, c.conv, room, working(r, op, 0), c.dx,
                                         scratch);
    }
}

static ff_norm norm_of(const runner *r, const ff_op *op) {
    const ff_layer *layer = &r->plan->graph->layers[op->layer];
    float *saved = value(r, op->saved);
    return (ff_norm){
        .shape = op->output,
        .activation = op->activation,
        .momentum = (float)layer->momentum,
        .epsilon = (float)layer->epsilon,
        .gamma = parameter(r, op, 0),
        .beta = parameter(r, op, 1),
        .running_mean = parameter(r, op, 2),
        .running_var = parameter(r, op, 3),
        .mean = saved,
        .inv_std = saved + ff_tensor_padded_channels(&op->output),
        .x = value(r, op->x),
        .residual = value(r, op->x2),
        .y = value(r, op->y),
        .mask = value(r, op->index),
    };
}

/* The norm `op` as its convolution does it. */
static ff_fold fold_of(const runner *r, const ff_op *op) {
    const size_t bytes = (size_t)ff_tensor_padded_channels(&op->output) * r->compute->element_bytes;
    char *scale = value(r, op->fold);
    return (ff_fold){
        .norm = norm_of(r, op),
        .scale = scale,
        .shift = scale + bytes,
        .dgamma = gradient(r, op, 0),
        .dbeta = gradient(r, op, 1),
        .factors = value(r, op->factors),
    };
}

static void norm_forward(const runner *r, const ff_op *op) {
    ff_norm norm = norm_of(r, op);
    if (op->counted_by >= 0) {
        norm.sums = value(r, r->plan->ops[op->counted_by].sums);
        norm.counted = !norm.sums;
    }
    float *scratch = ff_plan_at(r->plan, r->plan->norm_scratch);
    if (op->folded_by >= 0) {
        ff_fold fold = fold_of(r, op);
        fold.norm = norm;
        r->table->fold_norm(r->compute, &fold, r->training, scratch);
    } else if (r->training)
        r->table->norm_train(r->compute, &norm, scratch);
    else
        r->table->norm_evaluate(r->compute, &norm, scratch);
}

static void norm_backward(const runner *r, const ff_op *op) {
    if (op->folded_by >= 0) {
        const ff_fold fold = fold_of(r, op);
        r->table->fold_finish(r->compute, &fold, value(r, op->dy), value(r, op->dx));
        return;
    }
    const ff_norm_backward norm = {
        .forward = norm_of(r, op),
        .dy = value(r, op->dy),
        .dy2 = value(r, op->dy2),
        .dx = value(r, op->dx),
        .dresidual = value(r, op->dx2),
        .dgamma = gradient(r, op, 0),
        .dbeta = gradient(r, op, 1),
    };
    r->table->norm_backward(r->compute, &norm, ff_plan_at(r->plan, r->plan->norm_scratch));
}

static void dropout(const runner *r, const ff_op *op, const void *from, void *to) {
    const ff_dropout arguments = {
        .shape = op->output,
        .probability = r->training ? r->plan->graph->layers[op->layer].probability : 0,
        .seed = r->plan->seed,
        .layer = op->dropout,
        .step = &r->plan->store->control->step,
    };
    r->table->dropout(r->compute, &arguments, from, to);
}

static ff_linear linear_of(const runner *r, const ff_op *op) {
    return (ff_linear){
        .input = op->input,
        .outputs = ff_tensor_padded_channels(&op->output),
        .scale = (float)r->plan->graph->layers[op->layer].scale,
        .logits = op->out == r->plan->graph->output,
    };
}

static void conv_forward(const runner *r, const ff_op *op) {
    const void *x = value(r, op->x), *w = working(r, op, 0);
    void *y = value(r, op->y), *scratch = ff_plan_at(r->plan, r->plan->conv_scratch);
    if (op->folds >= 0) {
        const ff_fold fold = fold_of(r, &r->plan->ops[op->folds]);
        r->table->fold_forward(r->compute, op->conv, &fold, w, y, value(r, op->sums), scratch);
    } else if (r->training && op->counts_for >= 0)
        r->table->conv_forward_sums(r->compute, op->conv, x, w, y, value(r, op->sums), scratch);
    else
        r->table->conv_forward(r->compute, op->conv, x, w, bias_of(r, op), y, scratch);
}

static void pool_forward(const runner *r, const ff_op *op) {
    const ff_pool pool = pool_of(r, op, &op->input);
    const void *x = value(r, op->x);
    void *y = value(r, op->y);
    uint8_t *index = r->training ? ff_plan_at(r->plan, op->index) : NULL;
    if (r->training && op->counts_for >= 0) {
        const ff_norm norm = norm_of(r, &r->plan->ops[op->counts_for]);
        r->table->pool_norm(r->compute, &pool, x, y, index, &norm,
                            ff_plan_at(r->plan, r->plan->norm_scratch));
    } else {
        r->table->pool_forward(r->compute, &pool, x, y, index);
    }
}

static void forward(const runner *r, const ff_op *op) {
    const size_t count = ff_tensor_count(&op->output);
    ff_compute_mark(r->compute, FF_MARK_FORWARD, (int)(op - r->plan->ops));
    const void *x = value(r, op->x);
    void *y = value(r, op->y);
    switch (op->kind) {
    case FF_OP_CONV: conv_forward(r, op); break;
    case FF_OP_CONV_POOL: conv_pool_forward(r, op); break;
    case FF_OP_NORM: norm_forward(r, op); break;
    case FF_OP_RELU: r->table->relu_forward(r->compute, count, x, y); break;
    case FF_OP_GELU: r->table->gelu_forward(r->compute, count, x, y); break;
    case FF_OP_POOL: pool_forward(r, op); break;
    case FF_OP_LINEAR: {
        const ff_linear linear = linear_of(r, op);
        const bool biased = r->plan->graph->layers[op->layer].bias;
        r->table->linear_forward(r->compute, &linear, x, working(r, op, 0),
                                 biased ? parameter(r, op, 1) : NULL, y);
        break;
    }
    case FF_OP_ADD: r->table->add(r->compute, count, x, value(r, op->x2), y); break;
    case FF_OP_DROPOUT: dropout(r, op, x, y); break;
    }
}

static void conv_backward(const runner *r, const ff_op *op) {
    void *scratch = ff_plan_at(r->plan, r->plan->conv_scratch);
    void *dw = gradient(r, op, 0), *dbias = bias_gradient(r, op);
    if (op->folds >= 0) {
        const ff_fold fold = fold_of(r, &r->plan->ops[op->folds]);
        r->table->fold_backward(r->compute, op->conv, &fold, working(r, op, 0), value(r, op->dy),
                                value(r, op->dx), dw, scratch);
        return;
    }
    if (dw || dbias)
        r->table->conv_backward_weights(r->compute, op->conv, value(r, op->x), value(r, op->dy), dw,
                                        dbias, scratch);
    if (op->dx >= 0)
        r->table->conv_backward_data(r->compute, op->conv, value(r, op->dy), working(r, op, 0),
                                     value(r, op->dx), scratch);
}

static void backward(const runner *r, const ff_op *op) {
    const size_t count = ff_tensor_count(&op->output);
    void *dy = value(r, op->dy), *dx = value(r, op->dx);
    ff_compute_mark(r->compute, FF_MARK_BACKWARD, (int)(op - r->plan->ops));
    for (int i = 0; i < op->more_count; i++)
        r->table->add(r->compute, count, dy, value(r, op->more[i]), dy);
    switch (op->kind) {
    case FF_OP_CONV: conv_backward(r, op); break;
    case FF_OP_CONV_POOL: conv_pool_backward(r, op); break;
    case FF_OP_NORM: norm_backward(r, op); break;
    case FF_OP_RELU:
        if (dx) r->table->relu_backward(r->compute, count, value(r, op->y), dy, dx);
        break;
    case FF_OP_GELU:
        if (dx) r->table->gelu_backward(r->compute, count, value(r, op->x), dy, dx);
        break;
    case FF_OP_POOL: {
        const ff_pool pool = pool_of(r, op, &op->input);
        if (dx) r->table->pool_backward(r->compute, &pool, dy, ff_plan_at(r->plan, op->index), dx);
        break;
    }
    case FF_OP_LINEAR: {
        const ff_linear linear = linear_of(r, op);
        r->table->linear_backward(r->compute, &linear, value(r, op->x), working(r, op, 0), dy, dx,
                                  gradient(r, op, 0), bias_gradient(r, op),
                                  ff_plan_at(r->plan, r->plan->conv_scratch));
        break;
    }
    case FF_OP_ADD:
        if (op->dx2 >= 0)
            ff_compute_copy(r->compute, value(r, op->dx2), dy, count * r->compute->element_bytes);
        break;
    case FF_OP_DROPOUT: dropout(r, op, dy, dx); break;
    }
}

static void loss(const runner *r, const ff_batch *batch, ff_outcome *ring, uint32_t ring_size) {
    const ff_plan *plan = r->plan;
    const ff_tensor *logits = &plan->tensors[plan->graph->output];
    const ff_loss arguments = {
        .n = plan->batch,
        .classes = logits->c,
        .smoothing = r->training ? plan->smoothing : 0,
        .summed = plan->summed,
        .stride = ff_tensor_padded_channels(logits),
        .logits = ff_plan_at(plan, plan->logits),
        .labels = batch->labels,
        .label_dtype = batch->label_dtype,
        .weights = batch->weights,
        .mix = r->training ? batch->mix : NULL,
        .gradient = r->training ? ff_plan_at(plan, plan->logits_gradient) : NULL,
        .scratch = ff_plan_at(plan, plan->loss_scratch),
        .ring = ring,
        .ring_size = ring_size,
        .control = r->training ? plan->store->control : NULL,
    };
    ff_compute_mark(r->compute, FF_MARK_LOSS, 0);
    r->table->loss(r->compute, &arguments);
}

/* The weighted mean of what the views' logits are, in the place of the logits. */
static void forward_views(const runner *r) {
    ff_plan *plan = r->plan;
    float *logits = ff_plan_at(plan, plan->logits);
    const size_t count = ff_tensor_count(&plan->tensors[plan->graph->output]);
    for (int k = 0; k < plan->views; k++) {
        const ff_planned_view view = ff_plan_view(plan->views, k);
        runner seen = *r;
        seen.images = ff_plan_make_view(plan, &view, r->images);
        for (int i = 0; i < plan->op_count; i++) forward(&seen, &plan->ops[i]);
        r->table->weigh(r->compute, count, view.weight, k == 0, logits, plan->view_logits);
    }
    ff_compute_copy(r->compute, logits, plan->view_logits, count * sizeof *logits);
}

/* Records the events of buckets that the operation was the last to write to. */
static void complete_buckets(const runner *r, const ff_op *op, const ff_bucket_events *events,
                             int *next) {
    ff_device *device = r->compute->device;
    for (; *next < events->count && op->layer <= events->buckets[*next].layer; ++*next)
        device->table->event_record_external(device, events->events[*next], r->compute->stream,
                                             ff_compute_error(r->compute));
}

void ff_plan_enqueue(ff_plan *plan, const ff_batch *batch, bool training, ff_outcome *ring,
                     uint32_t ring_size, const ff_bucket_events *events) {
    const runner r = {
        .plan = plan,
        .table = plan->compute->ops,
        .compute = plan->compute,
        .images = batch->images,
        .training = training,
    };
    int bucket = 0;
    ff_compute_enter(plan->compute);
    if (training || plan->views == 1)
        for (int i = 0; i < plan->op_count; i++) forward(&r, &plan->ops[i]);
    else
        forward_views(&r);
    loss(&r, batch, ring, ring_size);
    for (int i = plan->op_count; training && i-- > 0;) {
        if (plan->ops[i].backward) backward(&r, &plan->ops[i]);
        if (events) complete_buckets(&r, &plan->ops[i], events, &bucket);
    }
}

int ff_plan_batch(const ff_plan *plan) {
    return plan->batch;
}
