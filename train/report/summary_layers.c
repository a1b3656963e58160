/* The net layer by layer, as a table and as JSON. */
#include "train/report/summary.h"

#include "format/base/json.h"
#include "train/net/ops/ops.h"
#include "train/net/plan.h"
#include "train/predict/world.h"

#include <inttypes.h>

/* The number of trained values of an operation's layer. */
static uint64_t op_parameters(const ff_trainer *trainer, const ff_plan *plan, const ff_op *op) {
    uint64_t count = 0;
    for (int i = 0; i < plan->graph->parameter_count; i++) {
        const ff_parameter *parameter = ff_model_parameter(trainer->model, i);
        if (plan->graph->parameters[i].layer == op->layer && parameter->trained)
            count += parameter->count;
    }
    return count;
}

void ff_summary_print_layers(FILE *out, const ff_trainer *trainer) {
    const ff_plan *plan = ff_model_training_plan(trainer->model);
    fprintf(out, "\n%-28s  %-40s  %16s  %12s  %20s\n", "layer", "computes", "output", "parameters",
            "multiply-accumulates");
    for (int i = 0; i < plan->op_count; i++) {
        const ff_op *op = &plan->ops[i];
        char what[FF_OP_NAME], shape[48];
        ff_op_describe(plan, op, true, what);
        snprintf(shape, sizeof shape, "%dx%dx%d", op->output.c, op->output.h, op->output.w);
        fprintf(out, "%-28s  %-40s  %16s  %12" PRIu64 "  %20.0f\n",
                plan->graph->layers[op->layer].name, what, shape, op_parameters(trainer, plan, op),
                ff_graph_layer_macs(plan->graph, op->layer));
    }
}

static json_t *layer_objects(const ff_trainer *trainer) {
    const ff_plan *plan = ff_model_training_plan(trainer->model);
    json_t *list = json_array();
    for (int i = 0; list && i < plan->op_count; i++) {
        const ff_op *op = &plan->ops[i];
        char what[FF_OP_NAME];
        ff_op_describe(plan, op, true, what);
        json_t *layer = json_pack("{s:s, s:s, s:[i,i,i], s:I, s:I}", "name",
                                  plan->graph->layers[op->layer].name, "computes", what, "shape",
                                  op->output.c, op->output.h, op->output.w, "parameters",
                                  (json_int_t)op_parameters(trainer, plan, op), "macs",
                                  (json_int_t)ff_graph_layer_macs(plan->graph, op->layer));
        ff_json_append(&list, layer);
    }
    return list;
}

static json_t *memory_object(const ff_trainer *trainer) {
    json_t *object = json_object();
    for (int role = 0; object && role < FF_ROLE_COUNT; role++) {
        json_t *bytes = json_integer((json_int_t)ff_model_bytes(trainer->model, (ff_role)role));
        if (json_object_set_new(object, ff_role_name((ff_role)role), bytes) == 0) continue;
        json_decref(object);
        object = NULL;
    }
    return object;
}

static json_t *size_objects(const ff_trainer *trainer) {
    json_t *list = json_array();
    for (int i = 0; list && i < trainer->size_count; i++) {
        const ff_trainer_size *size = &trainer->sizes[i];
        json_t *object =
            json_pack("{s:I, s:I, s:I}", "epoch", (json_int_t)size->epoch + 1, "height",
                      (json_int_t)size->height, "width", (json_int_t)size->width);
        ff_json_append(&list, object);
    }
    return list;
}

ff_status ff_summary_write_json(FILE *out, const ff_trainer *trainer, const ff_world *world,
                                ff_error *error) {
    const ff_splits *splits = &trainer->splits;
    json_t *object =
        json_pack("{s:s, s:[i,i,i], s:i, s:I, s:o, s:I, s:o, s:s, s:I, s:I, s:o, s:I, s:I, s:o}",
                  "model", trainer->model_name, "shape", (int)splits->channels, (int)splits->height,
                  (int)splits->width, "classes", (int)splits->classes, "batch",
                  (json_int_t)trainer->batch, "batch_reason", ff_json_text(trainer->batch_reason),
                  "accumulate", (json_int_t)trainer->accumulate, "sizes", size_objects(trainer),
                  "compute", ff_model_compute_name(trainer->model), "parameters",
                  (json_int_t)ff_summary_parameters(trainer->model), "macs",
                  (json_int_t)ff_model_macs(trainer->model), "memory_bytes", memory_object(trainer),
                  "host_bytes", (json_int_t)trainer->needs.host_bytes, "device_bytes",
                  (json_int_t)trainer->needs.device_bytes, "layers", layer_objects(trainer));
    if (world && object && json_object_set_new(object, "world", ff_world_json(world)) != 0) {
        json_decref(object);
        object = NULL;
    }
    if (!object) return ff_fail(error, FF_NO_MEMORY, "no memory for the net as JSON");
    const int failed = json_dumpf(object, out, JSON_INDENT(2));
    json_decref(object);
    if (failed || fputc('\n', out) == EOF)
        return ff_fail_errno(error, "cannot write the net as JSON");
    return FF_OK;
}
