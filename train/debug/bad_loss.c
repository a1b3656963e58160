#include "train/debug/bad_loss.h"

#include "format/base/memory.h"
#include "format/base/readable.h"
#include "format/cli/say.h"
#include "train/debug/probe.h"
#include "train/trainer/run_step.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAMED = 3 }; /* samples in a message */

/* The first thing that is not finite. */
typedef struct finding {
    ff_trainer *trainer;
    ff_outcome *ring; /* one entry */
    uint64_t step;
    int part; /* micro-batches so far */
    bool found;
    ff_seen_kind kind;
    char name[FF_PROBE_NAME + 40];
    ff_value_range range;
    size_t count;
    uint64_t rows[NAMED], row_count; /* bad images in the step's batch, over all ranks */
    double largest_logit;
} finding;

/* Below this a dynamic loss scale is useless. */
#define LEAST_SCALE 1e-4f

bool ff_loss_is_bad(const ff_trainer *trainer, const ff_outcome *outcome) {
    if (!isfinite(outcome->loss_sum)) return true;
    if (!outcome->non_finite) return false;
    return trainer->scale_moves ? outcome->loss_scale < LEAST_SCALE : trainer->loss_scale <= 0;
}

/* ---- running the step again ---- */

static void note_rows(finding *f, const ff_seen *seen, const float *values) {
    const size_t each = seen->count / (size_t)seen->shape.n;
    for (int n = 0; n < seen->shape.n; n++) {
        const ff_value_range row = ff_value_range_of(values + (size_t)n * each, each);
        if (!row.nan && !row.infinite) continue;
        if (f->row_count < NAMED)
            f->rows[f->row_count] =
                (uint64_t)(f->part * f->trainer->micro_all + f->trainer->first_row + n);
        f->row_count++;
    }
}

static ff_status look(void *context, ff_probe *probe, const ff_seen *seen, ff_error *error) {
    static const char *const of[] = {"", "the output of ", "the gradient of the output of ",
                                     "the gradient of "};
    finding *f = context;
    if (f->found) return FF_OK;
    const float *values = ff_probe_values(probe, error);
    if (!values) return error->status;
    const ff_value_range range = ff_value_range_of(values, seen->count);
    if (seen->kind == FF_SEEN_OUTPUT)
        f->largest_logit = fmax(fabs(range.minimum), fabs(range.maximum));
    if (!range.nan && !range.infinite) return FF_OK;
    f->found = true;
    f->kind = seen->kind;
    f->range = range;
    f->count = seen->count;
    snprintf(f->name, sizeof f->name, "%s%s", of[seen->kind], seen->name);
    if (seen->kind == FF_SEEN_INPUT) note_rows(f, seen, values);
    return FF_OK;
}

/* Restores the control of the step's beginning; `part`: micro-batches of the step that have run. */
static void set_control(const finding *f, const ff_outcome *outcome) {
    const ff_store *store = ff_model_store(f->trainer->model);
    ff_control control;
    ff_compute_read(store->compute, &control, store->control, sizeof control);
    control.step = outcome->step;
    control.loss_scale = outcome->loss_scale;
    control.part = (uint32_t)f->part;
    ff_compute_write(store->compute, store->control, &control, sizeof control);
}

typedef struct rerun {
    finding *finding;
    const ff_outcome *outcome;
} rerun;

static ff_status run_part(void *context, ff_plan *plan, const ff_batch *batch, bool last,
                          ff_error *error) {
    const rerun *again = context;
    finding *f = again->finding;
    ff_probe probe;
    (void)last;
    set_control(f, again->outcome);
    FF_TRY(ff_feed_make(f->trainer->train_feed, plan->compute->stream, error));
    if (!batch) { /* only other ranks have samples */
        ff_plan_enqueue_empty(plan, NULL);
        return ff_compute_check(plan->compute, error);
    }
    ff_probe_begin(&probe, plan, batch->images, look, f);
    ff_plan_enqueue(plan, batch, true, f->ring, 1, NULL);
    f->part++;
    return ff_probe_end(&probe, error);
}

static ff_status run_again(finding *f, const ff_outcome *outcome, ff_error *error) {
    ff_compute *compute = ff_model_compute(f->trainer->model);
    rerun again = {f, outcome};
    ff_step_input taken = {0};
    FF_TRY(ff_compute_wait(compute, error));
    FF_TRY(ff_trainer_rewind(f->trainer, outcome->step, error));
    FF_TRY(ff_compute_allocate(compute, &f->ring, sizeof *f->ring, "the outcome of a step", error));
    const ff_status status =
        ff_run_step(f->trainer, outcome->step, run_part, &again, &taken, error);
    ff_compute_release(compute, f->ring);
    return status;
}

/* A bad parameter is reported before anything except the images. */
static ff_status check_parameters(finding *f, ff_error *error) {
    const ff_model *model = f->trainer->model;
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        float *values;
        if (!p->trained) continue; /* running statistics already include the step's batch */
        FF_TRY(ff_alloc(&values, p->count, sizeof *values, "a parameter", error));
        ff_model_get(model, i, FF_PART_VALUE, values);
        const ff_value_range range = ff_value_range_of(values, p->count);
        free(values);
        if (!range.nan && !range.infinite) continue;
        f->found = true;
        f->kind = FF_SEEN_PARAMETER_GRADIENT;
        f->range = range;
        f->count = p->count;
        snprintf(f->name, sizeof f->name, "the parameter %s", p->name);
        break;
    }
    return ff_model_check(model, error);
}

/* ---- the message ---- */

/* Adds "17 (cats/3.png), 40 (...) and 2 more". */
static ff_status add_samples(const finding *f, ff_buffer *text, ff_error *error) {
    ff_dataset *set = f->trainer->splits.train;
    ff_loader_options options = ff_trainer_input(f->trainer, f->step);
    options.share_total = 0;
    ff_loader *loader = NULL;
    ff_slot *slot;
    char key[FF_KEY_LIMIT_BYTES];
    size_t length;
    ff_status status;
    FF_TRY_DONE(ff_loader_create(&loader, set, &options, error));
    FF_TRY_DONE(ff_loader_acquire(loader, &slot, error));
    for (uint64_t i = 0; i < f->row_count && i < NAMED; i++) {
        const uint64_t number = slot->source[f->rows[i]].sample[0];
        FF_TRY_DONE(ff_dataset_key(set, number, key, &length, error));
        FF_TRY_DONE(ff_buffer_printf(text, error, "%s%" PRIu64 " (", i ? ", " : "", number));
        FF_TRY_DONE(ff_key_text(text, key, length < 200 ? length : 200, true, error));
        FF_TRY_DONE(ff_buffer_printf(text, error, ")"));
    }
    if (f->row_count > NAMED)
        status = ff_buffer_printf(text, error, " and %" PRIu64 " more", f->row_count - NAMED);
done:
    ff_loader_destroy(&loader);
    return status;
}

static ff_status add_finding(const finding *f, ff_buffer *text, ff_error *error) {
    const ff_dtype dtype = ff_model_compute(f->trainer->model)->dtype;
    const bool narrow = dtype == FF_F16;
    const char *overflow = narrow ? "; f16 holds at most 65504" : "";
    if (!f->found)
        return ff_buffer_printf(text, error,
                                "all outputs and gradients are finite, the largest logit is %g%s",
                                f->largest_logit,
                                f->trainer->options->reduce_dtype == FF_F16
                                    ? "; gradients are sent in f16 (--reduce-dtype), which holds "
                                      "at most 65504"
                                    : "");
    if (f->kind == FF_SEEN_INPUT) {
        FF_TRY(ff_buffer_printf(text, error, "%s holds NaN or %s values: sample%s ",
                                ff_dataset_path(f->trainer->splits.train),
                                narrow ? "huge" : "infinite", f->row_count > 1 ? "s" : ""));
        return add_samples(f, text, error);
    }
    return ff_buffer_printf(
        text, error,
        "%s is the first that is not finite (%" PRIu64 " NaN, %" PRIu64 " infinite of %s%s)",
        f->name, f->range.nan, f->range.infinite, ff_say_count(f->count, "value", "values").text,
        f->kind == FF_SEEN_OUTPUT ? overflow : "");
}

static ff_status explain(finding *f, const ff_outcome *outcome, ff_buffer *text, ff_error *error) {
    finding parameter = *f;
    FF_TRY(check_parameters(&parameter, error));
    FF_TRY(run_again(f, outcome, error));
    const bool images = f->found && f->kind == FF_SEEN_INPUT;
    return add_finding(parameter.found && !images ? &parameter : f, text, error);
}

/* Each rank looks only at its own samples. Takes the finding of a rank with bad images, else any
 * rank's. */
static ff_status choose(finding *f, ff_buffer *text, ff_error *error) {
    ff_job *job = f->trainer->options->job;
    int32_t weight = f->found ? 1 + (f->kind == FF_SEEN_INPUT) : 0;
    if (!job) return FF_OK;
    if (weight) {
        char found[sizeof error->message];
        snprintf(found, sizeof found, "%s", text->bytes);
        text->length = 0;
        FF_TRY(ff_buffer_printf(text, error, "rank %d: %s", job->rank, found));
    }
    FF_TRY(ff_job_choose(job, &weight, text, error));
    f->found = weight == 2;
    f->kind = FF_SEEN_INPUT;
    return FF_OK;
}

static ff_status add_advice(const finding *f, const char *checkpoint, const char *run,
                            ff_buffer *text, ff_error *error) {
    const ff_trainer *trainer = f->trainer;
    if (f->found && f->kind == FF_SEEN_INPUT)
        FF_TRY(ff_buffer_printf(text, error, " (ffinspect --stats shows them)"));
    else
        FF_TRY(ff_buffer_printf(text, error, "; lower --lr (it is %g) or lengthen --warmup",
                                trainer->groups[trainer->main_group].schedule.peak));
    if (checkpoint)
        FF_TRY(ff_buffer_printf(text, error,
                                "; --resume %s continues from the last good "
                                "checkpoint",
                                checkpoint));
    if (!run) return FF_OK;
    return ff_buffer_printf(text, error, "; fftrain replay %s --step %" PRIu64 " shows the step",
                            run, f->step + 1);
}

/* Rank 0 knows the run's folder. All ranks end with rank 0's sentence; none reports another rank's
 * failure. */
static ff_status explain_to_all(finding *f, const ff_outcome *outcome, const char *checkpoint,
                                const char *run, ff_buffer *text, ff_error *error) {
    ff_job *job = f->trainer->options->job;
    int32_t weight = 0; /* equal at all ranks: takes rank 0's */
    if (explain(f, outcome, text, error) != FF_OK) {
        char why[sizeof error->message];
        snprintf(why, sizeof why, "%s", error->message);
        text->length = 0;
        FF_TRY(ff_buffer_printf(text, error, "its cause was not found (%s)", why));
    }
    FF_TRY(choose(f, text, error));
    FF_TRY(add_advice(f, checkpoint, run, text, error));
    FF_TRY(ff_job_choose(job, &weight, text, error));
    if (job) job->concluded = true;
    return FF_OK;
}

ff_status ff_loss_failed(ff_trainer *trainer, const ff_outcome *outcome, const char *checkpoint,
                         const char *run, ff_error *error) {
    const ff_outcome bad = *outcome;
    finding f = {.trainer = trainer, .step = bad.step};
    ff_buffer text = {0};
    ff_error why = {0};
    const ff_status status = explain_to_all(&f, &bad, checkpoint, run, &text, &why);
    const bool gradients = isfinite(bad.loss_sum);
    char at[40] = "the first step";
    if (bad.step) snprintf(at, sizeof at, "step %" PRIu64, bad.step + 1);
    ff_fail(error, FF_FAILED, "the %s %s %s at %s (epoch %" PRIu64 ", learning rate %g): %s",
            gradients ? "gradients" : "training loss",
            bad.step    ? "became"
            : gradients ? "are"
                        : "is",
            gradients             ? "NaN or infinite"
            : isnan(bad.loss_sum) ? "NaN"
                                  : "infinite",
            at, bad.step / trainer->batches + 1,
            ff_schedule_rate(&trainer->groups[trainer->main_group].schedule, bad.step),
            status == FF_OK ? text.bytes : why.message);
    ff_buffer_free(&text);
    return FF_FAILED;
}
