#include "train/debug/replay.h"

#include "format/base/memory.h"
#include "format/base/path.h"
#include "format/base/readable.h"
#include "format/cli/interrupt.h"
#include "train/debug/bad_loss.h"
#include "train/debug/hash_log.h"
#include "train/debug/hashes.h"
#include "train/debug/probe.h"
#include "train/net/ops/ops.h"
#include "train/trainer/run_step.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The shown numbers of a tensor, over all micro-batches. */
typedef struct cell {
    bool seen;
    uint64_t count;  /* includes values that are not finite */
    ff_tensor shape; /* with the step's image size, which may differ between epochs */
    ff_value_range range;
} cell;

typedef struct replay {
    ff_trainer *trainer;
    const ff_replay_options *options;
    ff_hashes *hashes; /* NULL = not written */
    cell input;
    cell *outputs, *output_gradients; /* [operations] */
    cell *values, *gradients;         /* [parameters] */
    char bad[FF_PROBE_NAME + 80];     /* the first that is not finite; "" = all are finite */
    ff_outcome outcome;
} replay;

/* ---- what is seen ---- */

static void add(cell *to, const float *values, size_t count) {
    const ff_value_range now = ff_value_range_of(values, count);
    const uint64_t finite = count - now.nan - now.infinite;
    const uint64_t before = to->count - to->range.nan - to->range.infinite;
    ff_value_range *range = &to->range;
    if (finite) {
        range->mean_magnitude =
            (range->mean_magnitude * (double)before + now.mean_magnitude * (double)finite) /
            (double)(before + finite);
        range->minimum = before ? fmin(range->minimum, now.minimum) : now.minimum;
        range->maximum = before ? fmax(range->maximum, now.maximum) : now.maximum;
    }
    range->nan += now.nan;
    range->infinite += now.infinite;
    to->count += count;
    to->seen = true;
}

static bool is_bad(const cell *c) {
    return c->range.nan || c->range.infinite;
}

static ff_status see(void *context, ff_probe *probe, const ff_seen *seen, ff_error *error) {
    replay *r = context;
    static const char *const what[] = {"the batch", "the output of ",
                                       "the gradient of the output of ", "the gradient of "};
    cell *to = seen->kind == FF_SEEN_INPUT      ? &r->input
               : seen->kind == FF_SEEN_OUTPUT   ? &r->outputs[seen->op]
               : seen->kind == FF_SEEN_GRADIENT ? &r->output_gradients[seen->op]
                                                : &r->gradients[seen->parameter];
    const float *values = ff_probe_values(probe, error);
    if (!values) return error->status;
    add(to, values, seen->count);
    to->shape = seen->shape;
    if (is_bad(to) && !*r->bad)
        snprintf(r->bad, sizeof r->bad, "%s%s", what[seen->kind],
                 seen->kind == FF_SEEN_INPUT ? "" : seen->name);
    return FF_OK;
}

static ff_status see_values(replay *r, ff_error *error) {
    const ff_model *model = r->trainer->model;
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        float *values;
        if (!p->trained) continue;
        FF_TRY(ff_alloc(&values, p->count, sizeof *values, "a parameter", error));
        ff_model_get(model, i, FF_PART_VALUE, values);
        add(&r->values[i], values, p->count);
        free(values);
        if (is_bad(&r->values[i]) && !*r->bad)
            snprintf(r->bad, sizeof r->bad, "the parameter %s", p->name);
    }
    return ff_model_check(model, error);
}

/* ---- steps ---- */

static ff_status probe_part(void *context, ff_plan *plan, const ff_batch *batch, bool last,
                            ff_error *error) {
    replay *r = context;
    ff_probe probe;
    if (r->hashes) return ff_hashes_part(r->hashes, plan, batch, last, error);
    ff_probe_begin(&probe, plan, batch->images, see, r);
    const ff_status status = ff_micro_batch_train(r->trainer->step, plan, batch, last, error);
    const ff_status seen = ff_probe_end(&probe, status == FF_OK ? error : NULL);
    return status == FF_OK ? seen : status;
}

/* Takes the only outcome that has not arrived. */
static ff_status take_outcome(replay *r, ff_error *error) {
    const ff_outcome *outcomes;
    uint32_t count;
    do {
        FF_TRY(ff_step_outcomes(r->trainer->step, true, &outcomes, &count, error));
        if (count) r->outcome = outcomes[count - 1];
    } while (count);
    return FF_OK;
}

static ff_status run_step(replay *r, uint64_t step, ff_error *error) {
    ff_trainer *trainer = r->trainer;
    const bool shown = step + 1 == r->options->step;
    ff_step_input taken = {0};
    FF_TRY(ff_interrupt_check(error));
    if (shown) FF_TRY(see_values(r, error));
    if (shown && r->hashes) ff_hashes_share(r->hashes, see, r);
    FF_TRY(shown || r->hashes
               ? ff_run_step(trainer, step, probe_part, r, &taken, error)
               : ff_run_step(trainer, step, ff_micro_batch_train, trainer->step, &taken, error));
    FF_TRY(take_outcome(r, error));
    if (r->hashes && isfinite(r->outcome.loss_sum))
        FF_TRY(ff_hashes_write(r->hashes, &r->outcome, error));
    if (shown) return FF_OK;
    if (ff_loss_is_bad(trainer, &r->outcome))
        return ff_fail(error, FF_FAILED,
                       "step %" PRIu64 ": loss or gradients are NaN or infinite already; "
                       "--step %" PRIu64 " shows it",
                       step + 1, step + 1);
    return FF_OK;
}

/* ---- printing ---- */

static void print_cell(FILE *out, const cell *c) {
    const uint64_t bad = c->range.nan + c->range.infinite;
    if (!c->seen)
        fprintf(out, " %11s %11s %10s %9s", "-", "-", "-", "-");
    else if (bad == c->count)
        fprintf(out, " %11s %11s %10s %9" PRIu64, "-", "-", "-", bad);
    else
        fprintf(out, " %11.4g %11.4g %10.4g %9" PRIu64, c->range.minimum, c->range.maximum,
                c->range.mean_magnitude, bad);
}

static void print_row(FILE *out, const char *name, const char *shape, const cell *one,
                      const cell *other) {
    fprintf(out, "%-40s %-18s", name, shape);
    print_cell(out, one);
    fprintf(out, "  ");
    print_cell(out, other);
    fputc('\n', out);
}

static void print_head(FILE *out, const char *name, const char *value, const char *gradient) {
    fprintf(out, "\n%-40s %-18s %-44s   %s\n%-40s %-18s", "", "", value, gradient, name, "shape");
    for (int i = 0; i < 2; i++)
        fprintf(out, "%s %11s %11s %10s %9s", i ? "  " : "", "min", "max", "mean abs", "not fin.");
    fputc('\n', out);
}

static void shape_of(char shape[40], const ff_tensor *t) {
    snprintf(shape, 40, "%d x %d x %d x %d", t->n, t->c, t->h, t->w);
}

static void print_tables(const replay *r, FILE *out) {
    const ff_plan *plan = r->trainer->train_plan;
    const ff_model *model = r->trainer->model;
    const cell none = {0};
    char name[FF_PROBE_NAME], shape[40];
    print_head(out, "layer", "output", "gradient of the output");
    shape_of(shape, &r->input.shape);
    print_row(out, "input", shape, &r->input, &none);
    for (int i = 0; i < plan->op_count; i++) {
        ff_op_layers(plan, &plan->ops[i], r->outputs[i].seen, name, sizeof name);
        shape_of(shape, r->outputs[i].seen ? &r->outputs[i].shape : &plan->ops[i].output);
        print_row(out, name, shape, &r->outputs[i], &r->output_gradients[i]);
    }
    print_head(out, "parameter", "value before the step", "gradient");
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        if (!p->trained) continue;
        size_t used = 0;
        for (int k = 0; k < p->rank; k++)
            used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%" PRId64,
                                     k ? " x " : "", p->shape[k]);
        print_row(out, p->name, shape, &r->values[i], &r->gradients[i]);
    }
}

/* Prints the loss, and the run's own loss of the step, if the log has it. */
static void print_loss(const replay *r, FILE *out) {
    const double count = r->outcome.count ? (double)r->outcome.count : 1;
    const double loss = ff_outcome_loss(&r->outcome) / count;
    const char *path = r->options->log;
    ff_hash_log log = {0};
    if (isfinite(loss))
        fprintf(out, "loss       %.17g\n", loss);
    else
        fprintf(out, "loss       %s\n", isnan(loss) ? "NaN" : "infinite");
    if (path && ff_path_exists("%s", path) &&
        ff_hash_log_read(&log, path, r->options->step, NULL) == FF_OK) {
        const size_t lines = json_array_size(log.lines);
        const json_t *line = lines ? json_array_get(log.lines, lines - 1) : NULL;
        const json_t *kept = json_object_get(line, "loss");
        if (kept && ff_hash_log_step(&log, lines - 1) == r->options->step) {
            if (json_number_value(kept) == loss)
                fprintf(out, "           the same as in the run\n");
            else
                fprintf(out, "           in the run it was %.17g\n", json_number_value(kept));
        }
    }
    ff_hash_log_free(&log);
}

static ff_status print_samples(const replay *r, FILE *out, ff_error *error) {
    ff_dataset *set = r->trainer->splits.train;
    const ff_loader_options options = ff_trainer_input(r->trainer, r->options->step - 1);
    ff_loader *loader = NULL;
    ff_buffer text = {0};
    ff_slot *slot;
    char key[FF_KEY_LIMIT_BYTES];
    size_t length;
    ff_status status;
    FF_TRY_DONE(ff_loader_create(&loader, set, &options, error));
    FF_TRY_DONE(ff_loader_acquire(loader, &slot, error));
    fprintf(out, "\n%10s  key of each sample\n", "number");
    for (uint32_t i = 0; i < slot->count; i++) {
        const uint64_t number = slot->source[i].sample[0];
        text.length = 0;
        FF_TRY_DONE(ff_dataset_key(set, number, key, &length, error));
        FF_TRY_DONE(ff_key_text(&text, key, length, true, error));
        fprintf(out, "%10" PRIu64 "  %s\n", number, text.bytes);
    }
done:
    ff_loader_destroy(&loader);
    ff_buffer_free(&text);
    return status;
}

ff_status ff_replay(ff_trainer *trainer, const ff_replay_options *options, FILE *out,
                    ff_error *error) {
    const uint64_t first = trainer->options->first_step;
    const uint64_t ops = (uint64_t)trainer->train_plan->op_count;
    const uint64_t parameters = (uint64_t)ff_model_parameter_count(trainer->model);
    replay r = {.trainer = trainer, .options = options};
    const char *const what = "what a step computes";
    ff_status status;
    FF_TRY_DONE(ff_alloc(&r.outputs, ops, sizeof(cell), what, error));
    FF_TRY_DONE(ff_alloc(&r.output_gradients, ops, sizeof(cell), what, error));
    FF_TRY_DONE(ff_alloc(&r.values, parameters, sizeof(cell), what, error));
    FF_TRY_DONE(ff_alloc(&r.gradients, parameters, sizeof(cell), what, error));
    FF_TRY_DONE(ff_hashes_open(&r.hashes, options->hashes, trainer, 1, first, true, error));
    for (uint64_t step = first; step < options->step; step++)
        FF_TRY_DONE(run_step(&r, step, error));
    fprintf(out, "step       %" PRIu64 " of %" PRIu64 ", epoch %" PRIu64 ", learning rate %g\n",
            options->step, ff_trainer_total_steps(trainer),
            (options->step - 1) / trainer->batches + 1,
            ff_schedule_rate(&trainer->groups[trainer->main_group].schedule, options->step - 1));
    print_loss(&r, out);
    if (r.outcome.loss_scale != 1)
        fprintf(out, "loss scale %g: the gradients are multiplied by it\n",
                (double)r.outcome.loss_scale);
    if (*r.bad) fprintf(out, "not finite %s is the first\n", r.bad);
    print_tables(&r, out);
    FF_TRY_DONE(print_samples(&r, out, error));
    if (ff_hashes_note(r.hashes))
        status = ff_fail(error, FF_IO, "--hashes: %s", ff_hashes_note(r.hashes));
done:
    ff_hashes_close(&r.hashes);
    free(r.outputs);
    free(r.output_gradients);
    free(r.values);
    free(r.gradients);
    return status;
}
