/* Runs a batch through a plan: forward, loss, backward. */
#include "train/net/ops/ops.h"

static void forward(const ff_pass *pass) {
    for (int i = 0; i < pass->plan->op_count; i++) {
        const ff_op *op = &pass->plan->ops[i];
        ff_compute_mark(pass->compute, FF_MARK_FORWARD, i);
        op->type->forward(pass, op);
    }
}

static void backward(const ff_pass *pass, const ff_op *op) {
    const size_t count = ff_tensor_count(&op->output);
    void *dy = ff_pass_at(pass, op->dy);
    ff_compute_mark(pass->compute, FF_MARK_BACKWARD, ff_op_forward_time(pass->plan, op));
    for (int i = 0; i < op->more_count; i++)
        pass->table->add(pass->compute, count, dy, ff_pass_at(pass, op->more[i]), dy);
    op->type->backward(pass, op);
}

static void loss(const ff_pass *pass, const ff_batch *batch, ff_outcome *ring, uint32_t ring_size) {
    const ff_plan *plan = pass->plan;
    const ff_tensor *logits = &plan->tensors[plan->graph->output];
    const ff_loss arguments = {
        .n = plan->batch,
        .classes = logits->c,
        .form = pass->training ? plan->loss : (ff_loss_form){FF_LOSS_CROSS_ENTROPY, 0},
        .smoothing = pass->training ? plan->smoothing : 0,
        .divisor = plan->divisor,
        .stride = ff_tensor_padded_channels(logits),
        .logits = ff_plan_at(plan, plan->logits),
        .labels = batch->labels,
        .label_dtype = batch->label_dtype,
        .weights = batch->weights,
        .mix = pass->training ? batch->mix : NULL,
        .class_weights = pass->training ? plan->class_weights : NULL,
        .gradient = pass->training ? ff_plan_at(plan, plan->logits_gradient) : NULL,
        .scratch = ff_plan_at(plan, plan->loss_scratch),
        .ring = ring,
        .ring_size = ring_size,
        .control = pass->training ? plan->store->control : NULL,
    };
    ff_compute_mark(pass->compute, FF_MARK_LOSS, 0);
    pass->table->loss(pass->compute, &arguments);
}

/* Replaces the logits by the weighted mean of the views' logits. */
static void forward_views(const ff_pass *pass) {
    ff_plan *plan = pass->plan;
    float *logits = ff_plan_at(plan, plan->logits);
    const size_t count = ff_tensor_count(&plan->tensors[plan->graph->output]);
    for (int k = 0; k < plan->views; k++) {
        const ff_planned_view view = ff_plan_view(plan->views, k);
        ff_pass seen = *pass;
        seen.images = ff_plan_make_view(plan, &view, pass->images);
        forward(&seen);
        pass->table->weigh(pass->compute, count, view.weight, k == 0, logits, plan->view_logits);
    }
    ff_compute_copy(pass->compute, logits, plan->view_logits, count * sizeof *logits);
}

/* Reports the buckets that this operation completed to the watch. */
static void complete_buckets(const ff_pass *pass, const ff_op *op, const ff_bucket_watch *watch,
                             int *next) {
    for (; *next < watch->count && op->layer <= watch->buckets[*next].layer; ++*next)
        watch->completed(watch->context, pass->plan, *next);
}

void ff_plan_enqueue(ff_plan *plan, const ff_batch *batch, bool training, ff_outcome *ring,
                     uint32_t ring_size, const ff_bucket_watch *watch) {
    const ff_pass pass = {
        .plan = plan,
        .table = plan->compute->ops,
        .compute = plan->compute,
        .images = batch->images,
        .training = training,
    };
    int bucket = 0;
    ff_compute_enter(plan->compute);
    if (training || plan->views == 1)
        forward(&pass);
    else
        forward_views(&pass);
    if (ring_size) loss(&pass, batch, ring, ring_size);
    for (int i = plan->op_count; training && i-- > 0;) {
        if (plan->ops[i].backward) backward(&pass, &plan->ops[i]);
        if (watch) complete_buckets(&pass, &plan->ops[i], watch, &bucket);
    }
}

/* Whether ranks exchange the operation's statistics. */
static bool is_joined(const ff_plan *plan, const ff_op *op) {
    return plan->compute->ranks.count && op->type == &ff_op_norm && !op->norm.held;
}

void ff_plan_enqueue_empty(ff_plan *plan, const ff_bucket_watch *watch) {
    const ff_pass pass = {.plan = plan,
                          .table = plan->compute->ops,
                          .compute = plan->compute,
                          .training = true,
                          .empty = true};
    int bucket = 0;
    ff_compute_enter(plan->compute);
    for (int i = 0; i < plan->op_count; i++)
        if (is_joined(plan, &plan->ops[i])) ff_op_norm.forward(&pass, &plan->ops[i]);
    for (int i = plan->op_count; i-- > 0;) {
        if (is_joined(plan, &plan->ops[i]) && plan->ops[i].backward)
            ff_op_norm.backward(&pass, &plan->ops[i]);
        if (watch) complete_buckets(&pass, &plan->ops[i], watch, &bucket);
    }
}

int ff_plan_batch(const ff_plan *plan) {
    return plan->batch;
}
