/* The steps of a plan: its operations forward, the loss, and backward. */
#include "train/plan.h"

#include <inttypes.h>
#include <omp.h>
#include <string.h>

/* One step's view of things; images are the caller's. */
typedef struct runner {
    ff_plan *plan;
    const ff_compute_ops *table;
    ff_compute *compute;
    const float *images;
    bool training; /* batch statistics and dropout */
    uint32_t step;
    ff_error *error;
} runner;

static float *value(const runner *r, ff_buffer_id id) {
    return id == FF_BUFFER_IMAGES ? (float *)r->images : ff_plan_at(r->plan, id);
}

/* The k-th parameter of an operation's layer. */
static float *parameter(const runner *r, const ff_op *op, int k) {
    int index = r->plan->graph->layers[op->layer].parameter + k;
    return ff_store_block(r->plan->store, index) + r->plan->store->offsets[index];
}
/* NULL where the parameter is not trained. */
static float *gradient(const runner *r, const ff_op *op, int k) {
    if (!ff_op_trains(r->plan, op, k)) return NULL;
    int index = r->plan->graph->layers[op->layer].parameter + k;
    return r->plan->store->gradients + r->plan->store->offsets[index];
}

static float *bias_of(const runner *r, const ff_op *op) {
    return r->plan->graph->layers[op->layer].bias ? parameter(r, op, 1) : NULL;
}

/* NULL where there is no bias, or where it is not trained. */
static float *bias_gradient(const runner *r, const ff_op *op) {
    return r->plan->graph->layers[op->layer].bias ? gradient(r, op, 1) : NULL;
}

static ff_linear linear_of(const runner *r, const ff_op *op) {
    return (ff_linear){op->input, op->output.c, (float)r->plan->graph->layers[op->layer].scale};
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

/* A chunk of the samples of CONV_POOL: its convolution, and where its parts begin. */
typedef struct chunk {
    ff_conv *conv;
    ff_tensor middle;
    size_t input, output; /* floats before it */
} chunk;

/* The chunk that begins at sample `from`. */
static chunk chunk_at(const ff_op *op, int from) {
    int left = op->input.n - from;
    chunk c = {.conv = left < op->chunk ? op->tail : op->conv, .middle = op->middle};
    if (left < op->chunk) c.middle.n = left;
    c.input = (size_t)from * ff_tensor_sample(&op->input);
    c.output = (size_t)from * ff_tensor_sample(&op->output);
    return c;
}

static ff_status conv_pool_forward(const runner *r, const ff_op *op) {
    float *room = value(r, op->room), *y = value(r, op->y);
    uint8_t *index = r->training ? ff_plan_at(r->plan, op->index) : NULL;
    for (int from = 0; from < op->input.n; from += op->chunk) {
        const chunk c = chunk_at(op, from);
        FF_TRY(r->table->conv_forward(r->compute, c.conv, value(r, op->x) + c.input,
                                      parameter(r, op, 0), bias_of(r, op), room,
                                      ff_plan_at(r->plan, r->plan->conv_scratch), r->error));
        const ff_pool pool = pool_of(r, op, &c.middle);
        r->table->pool_forward(r->compute, &pool, room, y + c.output,
                               index ? index + c.output : NULL);
    }
    return FF_OK;
}

static ff_status conv_pool_backward(const runner *r, const ff_op *op) {
    float *room = value(r, op->room), *dx = value(r, op->dx);
    float *dw = gradient(r, op, 0), *partial = value(r, op->partial);
    float *dbias = bias_gradient(r, op);
    float *partial_bias = partial + ff_op_partial_weights(op);
    const size_t outputs = (size_t)ff_tensor_padded_channels(&op->middle);
    void *scratch = ff_plan_at(r->plan, r->plan->conv_scratch);
    for (int from = 0; from < op->input.n; from += op->chunk) {
        const chunk c = chunk_at(op, from);
        const ff_pool pool = pool_of(r, op, &c.middle);
        r->table->pool_backward(r->compute, &pool, value(r, op->dy) + c.output,
                                (uint8_t *)ff_plan_at(r->plan, op->index) + c.output, room);
        FF_TRY(r->table->conv_backward_weights(
            r->compute, c.conv, value(r, op->x) + c.input, room, dw && from ? partial : dw,
            dbias && from ? partial_bias : dbias, scratch, r->error));
        if (from && dw) r->table->add(r->compute, op->conv->weight_count, dw, partial, dw);
        if (from && dbias) r->table->add(r->compute, outputs, dbias, partial_bias, dbias);
        if (dx)
            FF_TRY(r->table->conv_backward_data(r->compute, c.conv, room, parameter(r, op, 0),
                                                dx + c.input, scratch, r->error));
    }
    return FF_OK;
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
    };
}

static void norm_forward(const runner *r, const ff_op *op) {
    const ff_norm norm = norm_of(r, op);
    float *scratch = ff_plan_at(r->plan, r->plan->norm_scratch);
    if (!r->training) {
        r->table->norm_evaluate(r->compute, &norm, scratch);
        return;
    }
    r->table->norm_train(r->compute, &norm, scratch);
    r->plan->store->tracked[r->plan->graph->layers[op->layer].parameter + 4]++;
}

static void norm_backward(const runner *r, const ff_op *op) {
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

static void dropout(const runner *r, const ff_op *op, const float *from, float *to) {
    const ff_dropout arguments = {
        .shape = op->output,
        .probability = r->training ? r->plan->graph->layers[op->layer].probability : 0,
        .seed = r->plan->seed,
        .step = r->step,
        .layer = op->dropout,
    };
    r->table->dropout(r->compute, &arguments, from, to);
}

static ff_status forward(const runner *r, const ff_op *op) {
    const size_t count = ff_tensor_count(&op->output);
    const float *x = value(r, op->x);
    float *y = value(r, op->y);
    switch (op->kind) {
    case FF_OP_CONV:
        return r->table->conv_forward(r->compute, op->conv, x, parameter(r, op, 0), bias_of(r, op),
                                      y, ff_plan_at(r->plan, r->plan->conv_scratch), r->error);
    case FF_OP_CONV_POOL: return conv_pool_forward(r, op);
    case FF_OP_NORM: norm_forward(r, op); break;
    case FF_OP_RELU: r->table->relu_forward(r->compute, count, x, y); break;
    case FF_OP_GELU: r->table->gelu_forward(r->compute, count, x, y); break;
    case FF_OP_POOL: {
        const ff_pool pool = pool_of(r, op, &op->input);
        r->table->pool_forward(r->compute, &pool, x, y,
                               r->training ? ff_plan_at(r->plan, op->index) : NULL);
        break;
    }
    case FF_OP_LINEAR: {
        const ff_linear linear = linear_of(r, op);
        r->table->linear_forward(r->compute, &linear, x, parameter(r, op, 0), bias_of(r, op), y);
        break;
    }
    case FF_OP_ADD: r->table->add(r->compute, count, x, value(r, op->x2), y); break;
    case FF_OP_DROPOUT: dropout(r, op, x, y); break;
    }
    return FF_OK;
}

static ff_status conv_backward(const runner *r, const ff_op *op) {
    void *scratch = ff_plan_at(r->plan, r->plan->conv_scratch);
    float *dw = gradient(r, op, 0), *dbias = bias_gradient(r, op);
    if (dw || dbias)
        FF_TRY(r->table->conv_backward_weights(r->compute, op->conv, value(r, op->x),
                                               value(r, op->dy), dw, dbias, scratch, r->error));
    if (op->dx < 0) return FF_OK;
    return r->table->conv_backward_data(r->compute, op->conv, value(r, op->dy), parameter(r, op, 0),
                                        value(r, op->dx), scratch, r->error);
}

static ff_status backward(const runner *r, const ff_op *op) {
    const size_t count = ff_tensor_count(&op->output);
    float *dy = value(r, op->dy), *dx = value(r, op->dx);
    for (int i = 0; i < op->more_count; i++)
        r->table->add(r->compute, count, dy, value(r, op->more[i]), dy);
    switch (op->kind) {
    case FF_OP_CONV: return conv_backward(r, op);
    case FF_OP_CONV_POOL: return conv_pool_backward(r, op);
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
        r->table->linear_backward(r->compute, &linear, value(r, op->x), parameter(r, op, 0), dy, dx,
                                  gradient(r, op, 0), bias_gradient(r, op));
        break;
    }
    case FF_OP_ADD:
        if (op->dx2 >= 0) memcpy(value(r, op->dx2), dy, count * sizeof *dy);
        break;
    case FF_OP_DROPOUT: dropout(r, op, dy, dx); break;
    }
    return FF_OK;
}

/* Labels are looked at before anything is changed. */
static ff_status check_labels(const ff_plan *plan, const ff_batch *batch, ff_error *error) {
    const int classes = plan->tensors[plan->graph->output].c;
    for (int n = 0; n < plan->batch; n++) {
        int64_t label = batch->label_dtype == FF_I64 ? ((const int64_t *)batch->labels)[n]
                                                     : ((const int32_t *)batch->labels)[n];
        if (label < -1 || label >= classes)
            return ff_fail(error, FF_BAD_DATA,
                           "label %" PRId64 " of sample %d of the batch lies outside [-1, %d)",
                           label, n, classes);
    }
    return FF_OK;
}

static ff_status run(ff_plan *plan, const ff_batch *batch, bool training, ff_step_result *result,
                     ff_error *error) {
    const runner r = {
        .plan = plan,
        .table = plan->compute->ops,
        .compute = plan->compute,
        .images = batch->images,
        .training = training,
        .step = (uint32_t)batch->step,
        .error = error,
    };
    FF_TRY(check_labels(plan, batch, error));
    omp_set_num_threads(plan->compute->threads);
    for (int i = 0; i < plan->op_count; i++) FF_TRY(forward(&r, &plan->ops[i]));
    const ff_loss loss = {
        .n = plan->batch,
        .classes = plan->tensors[plan->graph->output].c,
        .smoothing = training ? plan->smoothing : 0,
        .summed = plan->summed,
        .logits = value(&r, plan->logits),
        .labels = batch->labels,
        .label_dtype = batch->label_dtype,
        .weights = batch->weights,
        .mix = training ? batch->mix : NULL,
        .gradient = training ? value(&r, plan->logits_gradient) : NULL,
        .sample_loss = ff_plan_at(plan, plan->sample_loss),
    };
    ff_loss_result sums;
    r.table->loss(r.compute, &loss, &sums);
    *result = (ff_step_result){sums.loss_sum, sums.count, sums.correct};
    for (int i = plan->op_count; training && i-- > 0;)
        if (plan->ops[i].backward) FF_TRY(backward(&r, &plan->ops[i]));
    return FF_OK;
}

ff_status ff_plan_gradients(ff_plan *plan, const ff_batch *batch, ff_step_result *result,
                            ff_error *error) {
    if (!plan->training)
        return ff_fail(error, FF_USAGE, "a plan for evaluation (batch %d) cannot train",
                       plan->batch);
    return run(plan, batch, true, result, error);
}

ff_status ff_plan_evaluate(ff_plan *plan, const ff_batch *batch, ff_step_result *result,
                           ff_error *error) {
    return run(plan, batch, false, result, error);
}

ff_status ff_plan_train(ff_plan *plan, const ff_batch *batch, const ff_sgd *sgd,
                        ff_step_result *result, ff_error *error) {
    FF_TRY(ff_plan_gradients(plan, batch, result, error));
    plan->compute->ops->sgd(plan->compute, sgd, plan->store->trained_count, plan->store->values,
                            plan->store->momentum, plan->store->gradients);
    return FF_OK;
}

int ff_plan_batch(const ff_plan *plan) {
    return plan->batch;
}

bool ff_plan_trains(const ff_plan *plan) {
    return plan->training;
}

const float *ff_plan_logits(const ff_plan *plan) {
    return ff_plan_at(plan, plan->logits);
}
