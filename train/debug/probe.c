#include "train/debug/probe.h"

#include "format/base/memory.h"
#include "train/net/ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static ff_status make_room(void *pointer, size_t *room, size_t count, size_t size,
                           ff_error *error) {
    void **memory = pointer;
    if (*room >= count) return FF_OK;
    free(*memory);
    *memory = NULL;
    *room = 0;
    FF_TRY(ff_alloc(memory, count, size, "values of a step", error));
    *room = count;
    return FF_OK;
}

/* The dtype of what is seen: logits are always f32. */
static ff_dtype dtype_of(const ff_probe *probe) {
    const ff_plan *plan = probe->plan;
    const bool logits =
        probe->seen.kind == FF_SEEN_OUTPUT && plan->ops[probe->seen.op].out == plan->graph->output;
    return logits ? FF_F32 : plan->compute->dtype;
}

/* Copies the tensor's memory to the host. */
static const void *read_bytes(ff_probe *probe, const void *from, size_t *bytes, ff_error *error) {
    ff_compute *compute = probe->plan->compute;
    *bytes = ff_tensor_count(&probe->seen.shape) * ff_dtype_bytes(dtype_of(probe));
    if (make_room(&probe->bytes, &probe->byte_room, *bytes, 1, error) != FF_OK) return NULL;
    ff_compute_read(compute, probe->bytes, from, *bytes);
    return ff_compute_check(compute, error) == FF_OK ? probe->bytes : NULL;
}

const void *ff_probe_bytes(ff_probe *probe, size_t *bytes, ff_error *error) {
    return read_bytes(probe, probe->first, bytes, error);
}

/* values = (add ? values : 0) + the tensor in torch's order. */
static ff_status read_values(ff_probe *probe, const void *from, bool add, ff_error *error) {
    const ff_tensor *t = &probe->seen.shape;
    const ff_dtype dtype = dtype_of(probe);
    const size_t size = ff_dtype_bytes(dtype);
    float *to = probe->values;
    size_t bytes;
    const char *raw = read_bytes(probe, from, &bytes, error);
    if (!raw) return error ? error->status : FF_FAILED;
    for (int n = 0; n < t->n; n++)
        for (int c = 0; c < t->c; c++)
            for (int h = 0; h < t->h; h++)
                for (int w = 0; w < t->w; w++, to++) {
                    float value;
                    ff_convert(&value, FF_F32, raw + ff_tensor_at(t, n, c, h, w) * size, dtype, 1);
                    *to = add ? *to + value : value;
                }
    return FF_OK;
}

const float *ff_probe_values(ff_probe *probe, ff_error *error) {
    const ff_seen *seen = &probe->seen;
    ff_store *store = probe->plan->store;
    if (make_room(&probe->values, &probe->value_room, seen->count, sizeof(float), error) != FF_OK)
        return NULL;
    if (seen->kind == FF_SEEN_PARAMETER_GRADIENT) {
        ff_store_export(store, seen->parameter, FF_PART_GRADIENT, probe->values);
        return ff_compute_check(store->compute, error) == FF_OK ? probe->values : NULL;
    }
    if (read_values(probe, probe->first, false, error) != FF_OK) return NULL;
    for (int i = 0; i < probe->more_count; i++)
        if (read_values(probe, probe->more[i], true, error) != FF_OK) return NULL;
    return probe->values;
}

/* ---- visiting ---- */

static void visit(ff_probe *probe) {
    if (probe->status == FF_OK)
        probe->status = probe->visit(probe->context, probe, &probe->seen, &probe->failure);
}

static void see_tensor(ff_probe *probe, ff_seen_kind kind, int op, const char *name,
                       const ff_tensor *shape, const void *memory) {
    probe->seen = (ff_seen){.kind = kind, .op = op, .parameter = -1, .name = name, .shape = *shape};
    probe->seen.count = (size_t)shape->n * (size_t)shape->c * (size_t)shape->h * (size_t)shape->w;
    probe->first = memory;
    visit(probe);
    probe->more_count = 0;
}

static void see_output(ff_probe *probe, int number) {
    const ff_op *op = &probe->plan->ops[number];
    char name[FF_PROBE_NAME];
    if (op->unwritten) return;
    ff_op_layers(probe->plan, op, true, name, sizeof name);
    see_tensor(probe, FF_SEEN_OUTPUT, number, name, &op->output, ff_plan_at(probe->plan, op->y));
}

static void see_gradient(ff_probe *probe, int number) {
    const ff_op *op = &probe->plan->ops[number];
    char name[FF_PROBE_NAME];
    if (op->unwritten && !probe->plan->compute->ops->fold_finish) return;
    ff_op_layers(probe->plan, op, false, name, sizeof name);
    if (op->dy2 != FF_BUFFER_NONE)
        probe->more[probe->more_count++] = ff_plan_at(probe->plan, op->dy2);
    for (int i = 0; i < op->more_count; i++)
        probe->more[probe->more_count++] = ff_plan_at(probe->plan, op->more[i]);
    see_tensor(probe, FF_SEEN_GRADIENT, number, name, &op->output, ff_plan_at(probe->plan, op->dy));
}

/* Whether the operation's backward pass computes gradients of a layer's parameters: of its own, or
 * of the bias before it, if the bias's own operation has nothing left to do. */
static bool trains(const ff_op *op, ff_node layer) {
    const ff_op *conv = op->type == &ff_op_activation ? op->activation.bias_of : NULL;
    return layer == op->layer || (conv && !conv->backward && layer == conv->layer);
}

static void see_parameters(ff_probe *probe, int number) {
    const ff_plan *plan = probe->plan;
    const ff_graph *graph = plan->graph;
    for (int i = 0; i < graph->parameter_count; i++) {
        const ff_graph_parameter *p = &graph->parameters[i];
        if (!trains(&plan->ops[number], p->layer) || !ff_plan_trains_parameter(plan, i)) continue;
        probe->seen = (ff_seen){.kind = FF_SEEN_PARAMETER_GRADIENT,
                                .op = number,
                                .parameter = i,
                                .name = p->name,
                                .count = 1};
        for (int k = 0; k < p->rank; k++) probe->seen.count *= (size_t)p->shape[k];
        visit(probe);
    }
}

/* Waits for the part that has run, and visits what it computed. */
static void look(ff_probe *probe) {
    if (probe->status == FF_OK)
        probe->status = ff_compute_wait(probe->plan->compute, &probe->failure);
    if (probe->op < 0) return;
    if (probe->mark == FF_MARK_FORWARD) see_output(probe, probe->op);
    if (probe->mark == FF_MARK_BACKWARD) see_parameters(probe, probe->op);
    probe->op = -1;
}

static void begins(void *context, ff_mark mark, int op) {
    ff_probe *probe = context;
    look(probe);
    probe->mark = mark;
    probe->op = op;
    if (mark == FF_MARK_FORWARD && op == 0)
        see_tensor(probe, FF_SEEN_INPUT, -1, probe->plan->graph->layers[0].name,
                   &probe->plan->tensors[0], probe->images);
    if (mark == FF_MARK_BACKWARD) see_gradient(probe, op);
}

void ff_probe_begin(ff_probe *probe, ff_plan *plan, const void *images, ff_probe_visit visitor,
                    void *context) {
    *probe = (ff_probe){.plan = plan, .images = images, .visit = visitor, .context = context};
    probe->watch = (ff_compute_watch){.begins = begins, .context = probe};
    probe->op = -1;
    plan->compute->watch = &probe->watch;
}

ff_status ff_probe_end(ff_probe *probe, ff_error *error) {
    look(probe);
    probe->plan->compute->watch = NULL;
    free(probe->bytes);
    free(probe->values);
    probe->bytes = probe->values = NULL;
    if (probe->status != FF_OK && error) *error = probe->failure;
    return probe->status;
}

/* ---- values ---- */

ff_value_range ff_value_range_of(const float *values, size_t count) {
    ff_value_range range = {.minimum = INFINITY, .maximum = -INFINITY};
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double value = (double)values[i];
        if (isfinite(value)) {
            range.minimum = fmin(range.minimum, value);
            range.maximum = fmax(range.maximum, value);
            sum += fabs(value);
        }
        range.nan += isnan(value) != 0;
        range.infinite += isinf(value) != 0;
    }
    const uint64_t finite = count - range.nan - range.infinite;
    if (!finite) range.minimum = range.maximum = 0;
    if (finite) range.mean_magnitude = sum / (double)finite;
    return range;
}
