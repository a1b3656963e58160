#include "train/report/report.h"

#include "format/base/memory.h"
#include "format/cli/options.h"
#include "format/cli/progress.h"
#include "format/cli/say.h"
#include "train/net/whitening.h"
#include "train/report/events/closing.h"
#include "train/report/json_log.h"
#include "train/report/record.h"
#include "train/report/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ff_report {
    int64_t points_every;
    ff_step_points points;
    ff_json_log *logs[FF_REPORT_LOGS]; /* NULL = none */
    ff_record *record;                 /* NULL = none */
    json_t *options;                   /* of the start line; NULL = no line */
    const ff_trainer *trainer;         /* from the start to the end */
    FILE *table, *closing;
    ff_progress progress;
    char description[48];
    char *note;     /* the last note reported */
    bool evaluates; /* the table has columns for evaluation */
    bool top5;      /* and a column for top-5 accuracy */
};

ff_status ff_report_create(ff_report **report, const char *const log_paths[FF_REPORT_LOGS],
                           FILE *table, FILE *closing, ff_error *error) {
    FF_TRY(ff_alloc(report, 1, sizeof **report, "the report", error));
    (*report)->table = table;
    (*report)->closing = closing;
    (*report)->points_every = FF_STEP_POINTS_CHOSEN;
    ff_status status = FF_OK;
    for (int i = 0; status == FF_OK && i < FF_REPORT_LOGS; i++)
        if (log_paths[i]) status = ff_json_log_open(&(*report)->logs[i], log_paths[i], error);
    if (status != FF_OK) ff_report_destroy(report);
    return status;
}

ff_status ff_report_record(ff_report *report, const char *events, const char *folder,
                           ff_error *error) {
    if (!events && !folder) return FF_OK;
    return ff_record_create(&report->record, events, folder, error);
}

void ff_report_show_top5(ff_report *report) {
    report->top5 = true;
}

void ff_report_points_every(ff_report *report, int64_t every) {
    report->points_every = every;
}

void ff_report_options(ff_report *report, json_t *options) {
    json_decref(report->options);
    report->options = options;
}

void ff_report_destroy(ff_report **report) {
    if (!*report) return;
    json_decref((*report)->options);
    ff_record_destroy(&(*report)->record);
    for (int i = 0; i < FF_REPORT_LOGS; i++) ff_json_log_close(&(*report)->logs[i]);
    free((*report)->note);
    free(*report);
    *report = NULL;
}

/* Writes the object to all logs, and takes its reference. */
static ff_status write_log(const ff_report *report, json_t *object, ff_error *error) {
    ff_status status = FF_OK;
    for (int i = 0; status == FF_OK && i < FF_REPORT_LOGS; i++)
        if (report->logs[i])
            status = ff_json_log_write(report->logs[i], json_incref(object), error);
    json_decref(object);
    return status;
}

/* ---- the start ---- */

/* The images used for whitening: the first ones in the random order of this seed. */
static json_t *whitening_object(const ff_trainer *trainer) {
    if (ff_model_whitening(trainer->model) < 0) return json_null();
    uint64_t images = FF_WHITENING_IMAGES;
    if (images > trainer->train_count) images = trainer->train_count;
    return json_pack("{s:I, s:i}", "images", (json_int_t)images, "seed", 0);
}

/* Adds the fields of `more`, which is released, to `object`; NULL if either is NULL. */
static json_t *joined(json_t *object, json_t *more) {
    if (!object || !more || json_object_update(object, more) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(more);
    return object;
}

/* On a GPU, adds its free memory after each stage so far. */
static json_t *with_memory(json_t *object, const ff_device_memory *memory) {
    if (!object || !memory->total_bytes) return object;
    json_t *read = json_pack("{s:I}", "total", (json_int_t)memory->total_bytes);
    for (int i = 0; read && i < memory->stages; i++)
        json_object_set_new(read, ff_memory_stage_name((ff_memory_stage)i),
                            json_integer((json_int_t)memory->free_bytes[i]));
    json_object_set_new(object, "device_free_bytes", read);
    return object;
}

/* What a run is, without its options. */
static json_t *facts_object(const ff_trainer *trainer) {
    const ff_splits *splits = &trainer->splits;
    const ff_feed_info feed = ff_feed_describe(trainer->train_feed);
    json_t *object = json_pack(
        "{s:s, s:s, s:i, s:I, s:I, s:[i,i,i], s:I, s:I, s:I, s:b, s:o, s:s, s:o}", "event", "start",
        "version", ff_version, "classes", (int)splits->classes, "samples",
        (json_int_t)trainer->train_count, "val_samples", (json_int_t)trainer->val_count, "shape",
        (int)splits->channels, (int)splits->height, (int)splits->width, "parameters",
        (json_int_t)ff_summary_parameters(trainer->model), "first_step",
        (json_int_t)trainer->options->first_step, "steps",
        (json_int_t)ff_trainer_total_steps(trainer), "summed_loss", (int)trainer->summed_loss,
        "whitening", whitening_object(trainer), "reading", ff_loader_say_reading(&feed.loader).text,
        "disk", ff_promise_json(&trainer->promise));
    const char *reason = trainer->options->precision_reason;
    object =
        joined(object, reason ? json_pack("{s:s}", "precision_reason", reason) : json_object());
    object = joined(object, ff_summary_ranks(trainer));
    return with_memory(object, &trainer->memory);
}

/* The order of the first keys of a start line, as every version has written them. */
static const char *const first_keys[] = {
    "event",        "version",         "model",       "data",         "val",         "label",
    "classes",      "samples",         "val_samples", "shape",        "device",      "precision",
    "placement",    "compute",         "threads",     "workers",      "parameters",  "epochs",
    "batch",        "first_step",      "steps",       "order",        "augment",     "val_resize",
    "seed",         "learning_rate",   "schedule",    "warmup_steps", "momentum",    "nesterov",
    "weight_decay", "label_smoothing", "recipe",      "views",        "summed_loss", "whitening",
    "groups",       "optimizer",       "clip_norm",   "ema",          "accumulate",  "block",
    "group",        "reading",         "disk",        "best_by",      "patience",    NULL,
};

/* The options and the facts; options that first_keys does not have are the last. */
static json_t *start_object(const ff_report *report) {
    json_t *facts = facts_object(report->trainer), *object = json_object();
    json_t *options = report->options;
    if (!facts || !object || !options) goto failed;
    for (int i = 0; first_keys[i]; i++) {
        json_t *fact = json_object_get(facts, first_keys[i]);
        json_t *value = fact ? fact : json_object_get(options, first_keys[i]);
        if (value && json_object_set(object, first_keys[i], value)) goto failed;
    }
    if (json_object_update_missing(object, facts) || json_object_update_missing(object, options))
        goto failed;
    json_decref(facts);
    return object;
failed:
    json_decref(facts);
    json_decref(object);
    return NULL;
}

ff_status ff_report_start(ff_report *report, const ff_trainer *trainer, ff_error *error) {
    ff_error failure = {0};
    report->trainer = trainer;
    ff_step_points_begin(&report->points, report->points_every, trainer->batches);
    report->evaluates = trainer->val_plan != NULL;
    report->top5 &= report->evaluates && trainer->splits.classes > FF_TALLY_TOP;
    if (report->options) FF_TRY(write_log(report, start_object(report), error));
    if (report->record && ff_record_start(report->record, trainer, &failure) != FF_OK)
        ff_report_note(report, failure.message);
    if (!report->table) return FF_OK;
    fprintf(report->table, "epoch  train loss   acc %%%s%s       lr  seconds  samples/s  wait %%\n",
            report->evaluates ? "  val loss   acc %" : "", report->top5 ? "  top-5 %" : "");
    fflush(report->table);
    return FF_OK;
}

/* ---- epochs ---- */

/* Adds NVML's readings to `object`. */
static json_t *with_gpu(json_t *object, const ff_epoch *epoch) {
    const ff_nvml_reading *gpu = &epoch->gpu;
    const struct {
        const char *name;
        bool told;
        json_int_t value;
    } readings[] = {
        {"gpu_utilization_percent", gpu->gpu_percent >= 0, gpu->gpu_percent},
        {"gpu_memory_bytes", gpu->used_bytes > 0, (json_int_t)gpu->used_bytes},
        {"sm_clock_mhz", gpu->sm_mhz >= 0, gpu->sm_mhz},
        {"memory_clock_mhz", gpu->memory_mhz >= 0, gpu->memory_mhz},
    };
    for (int i = 0; epoch->gpu_read && i < 4; i++)
        if (readings[i].told)
            object = joined(object, json_pack("{s:I}", readings[i].name, readings[i].value));
    return object;
}

void ff_report_begin_epoch(ff_report *report, const ff_trainer *trainer, uint32_t epoch,
                           ff_step_clock clock) {
    snprintf(report->description, sizeof report->description, "epoch %" PRIu32 "/%" PRIu32, epoch,
             trainer->epochs);
    ff_progress_begin(&report->progress, report->description, "samples",
                      trainer->train_count - (uint64_t)trainer->dropped, report->table == NULL);
    ff_step_points_begin_epoch(&report->points, clock);
}

static void write_point(ff_report *report, const ff_step_point *point) {
    const ff_trainer *trainer = report->trainer;
    const ff_schedule *schedule = &trainer->groups[trainer->main_group].schedule;
    ff_error ignored = {0}; /* a log that cannot be written fails at the epoch's line */
    if (report->record) ff_record_point(report->record, point);
    (void)!write_log(report,
                     json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "event", "step", "epoch",
                               (json_int_t)((point->steps - 1) / trainer->batches + 1), "step",
                               (json_int_t)point->steps, "train_loss",
                               isnan(point->loss) ? json_null() : ff_json_number(point->loss),
                               "learning_rate",
                               ff_json_number(ff_schedule_rate(schedule, point->steps - 1)),
                               "samples_per_second", ff_json_number(point->samples_per_second),
                               "data_wait_percent", ff_json_number(point->data_wait_percent)),
                     &ignored);
}

void ff_report_outcomes(ff_report *report, const ff_outcome *outcomes, uint32_t count,
                        ff_step_clock clock) {
    ff_step_point point;
    ff_step_points_arrive(&report->points, count, clock);
    for (uint32_t i = 0; i < count; i++)
        if (ff_step_points_add(&report->points, &outcomes[i],
                               ff_trainer_samples(report->trainer, outcomes[i].step), &point))
            write_point(report, &point);
}

void ff_report_step(ff_report *report, const ff_epoch_sums *sums, ff_step_clock clock) {
    char note[80];
    const double loss = sums->count ? sums->loss_sum / (double)sums->count : 0;
    const double share = clock.elapsed > 0 ? 100 * clock.waited / clock.elapsed : 0;
    snprintf(note, sizeof note, "loss %.4f, data wait %.1f %%", loss, share);
    ff_progress_update(&report->progress, sums->samples, note);
}

void ff_report_end_steps(ff_report *report) {
    ff_progress_end(&report->progress);
}

static json_t *epoch_object(const ff_epoch *epoch) {
    json_t *object = json_pack(
        "{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "event", "epoch", "epoch",
        (int)epoch->epoch, "train_loss", ff_json_number(epoch->train_loss), "train_accuracy",
        ff_json_number(epoch->train_accuracy), "val_loss",
        epoch->evaluated ? ff_json_number(epoch->val_loss) : json_null(), "val_accuracy",
        epoch->evaluated ? ff_json_number(epoch->val_accuracy) : json_null(), "learning_rate",
        ff_json_number(epoch->learning_rate), "seconds", ff_json_number(epoch->seconds),
        "samples_per_second", ff_json_number(epoch->samples_per_second), "data_wait_percent",
        ff_json_number(epoch->data_wait_percent), "skipped_updates", (json_int_t)epoch->skipped,
        "loss_scale", ff_json_number(epoch->loss_scale));
    if (epoch->averaged)
        object =
            joined(object, json_pack("{s:o, s:o}", "val_ema_loss", ff_json_number(epoch->ema_loss),
                                     "val_ema_accuracy", ff_json_number(epoch->ema_accuracy)));
    if (!epoch->evaluated || epoch->val_top5 < 0) return object;
    return joined(object, json_pack("{s:f}", "val_top5_accuracy", epoch->val_top5));
}

ff_status ff_report_epoch(ff_report *report, const ff_epoch *epoch, ff_error *error) {
    if (report->table) {
        fprintf(report->table, "%5" PRIu32 "  %10.4f  %6.2f", epoch->epoch, epoch->train_loss,
                100 * epoch->train_accuracy);
        if (epoch->evaluated)
            fprintf(report->table, "  %8.4f  %6.2f", epoch->val_loss, 100 * epoch->val_accuracy);
        else if (report->evaluates)
            fprintf(report->table, "  %8s  %6s", "-", "-");
        if (report->top5 && epoch->evaluated)
            fprintf(report->table, "  %7.2f", 100 * epoch->val_top5);
        else if (report->top5)
            fprintf(report->table, "  %7s", "-");
        fprintf(report->table, "  %7.2g  %7.*f  %9.0f  %6.1f\n", epoch->learning_rate,
                epoch->seconds < 1000 ? 2 : 1, epoch->seconds, epoch->samples_per_second,
                epoch->data_wait_percent);
        if (epoch->averaged)
            fprintf(report->table, "%5s  %10s  %6s  %8.4f  %6.2f\n", "ema", "", "", epoch->ema_loss,
                    100 * epoch->ema_accuracy);
        if (epoch->skipped)
            fprintf(report->table, "%5s  %" PRIu64 " update%s skipped\n", "", epoch->skipped,
                    epoch->skipped == 1 ? "" : "s");
        fflush(report->table);
    }
    ff_error failure = {0};
    ff_step_point rest;
    const bool left = ff_step_points_rest(&report->points, epoch->steps, &rest);
    if (report->record && ff_record_epoch(report->record, report->trainer, epoch,
                                          left ? &rest : NULL, &failure) != FF_OK)
        ff_report_note(report, failure.message);
    return write_log(report, with_gpu(epoch_object(epoch), epoch), error);
}

void ff_report_note(ff_report *report, const char *note) {
    if (report->note && strcmp(report->note, note) == 0) return;
    free(report->note);
    report->note = strdup(note); /* out of memory: may be reported again */
    if (!report->closing) return;
    FILE *out = report->table ? report->closing : stderr;
    fprintf(out, "note: %s\n", note);
    fflush(out);
    ff_error ignored = {0}; /* a log that cannot be written fails at the next epoch's line */
    (void)!write_log(report, json_pack("{s:s, s:o}", "event", "note", "text", ff_json_text(note)),
                     &ignored);
}

/* ---- the end ---- */

static json_t *end_object(const ff_run_result *result, ff_status status, const char *message) {
    const double warm_up = (double)result->warm_up_ns * 1e-9;
    const bool early = status == FF_OK && *result->early;
    const char *how = early                      ? "stopped early"
                      : status == FF_OK          ? "done"
                      : status == FF_INTERRUPTED ? "interrupted"
                      : status == FF_PREEMPTED   ? "preempted"
                                                 : "failed";
    const bool evaluated = result->totals.val.epoch != 0;
    const bool best = result->totals.best.epoch != 0;
    double train_ns = (double)result->totals.train_ns;
    return json_pack(
        "{s:s, s:s, s:o, s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, "
        "s:o}",
        "event", "end", "status", how, "message",
        ff_json_text(early             ? result->early
                     : status == FF_OK ? NULL
                                       : message),
        "epochs", (int)result->last.epoch, "steps", (json_int_t)result->totals.steps, "samples",
        (json_int_t)result->totals.samples, "val_accuracy",
        evaluated ? ff_json_number(result->totals.val.accuracy) : json_null(), "best_val_accuracy",
        best ? ff_json_number(result->totals.best.accuracy) : json_null(), "best_epoch",
        best ? json_integer(result->totals.best.epoch) : json_null(), "seconds",
        ff_json_number((double)result->total_ns * 1e-9), "train_seconds",
        ff_json_number(train_ns * 1e-9), "val_seconds",
        ff_json_number((double)result->totals.val_ns * 1e-9), "timed_seconds",
        ff_json_number(ff_closing_timed_seconds(result)), "warm_up_seconds",
        ff_json_number(warm_up), "cold_seconds",
        ff_json_number(ff_closing_timed_seconds(result) + warm_up), "data_wait_percent",
        ff_json_number(train_ns > 0 ? 100 * (double)result->totals.wait_ns / train_ns : 0),
        "skipped_updates", (json_int_t)result->totals.skipped, "loss_scale",
        result->last.epoch ? ff_json_number(result->last.loss_scale) : json_null());
}

/* In a job on the CPU, adds how long gradients were reduced, and how long updates waited for
 * it. */
static json_t *with_reduction(json_t *object, const ff_reducer_times *times) {
    if (!object || !times->busy_ns) return object;
    json_object_set_new(object, "reduce_seconds", ff_json_number((double)times->busy_ns * 1e-9));
    json_object_set_new(object, "reduce_wait_seconds",
                        ff_json_number((double)times->exposed_ns * 1e-9));
    return object;
}

ff_status ff_report_end(ff_report *report, const ff_trainer *trainer, const ff_run_result *result,
                        ff_status status, const char *message, ff_error *error) {
    ff_error failure = {0};
    if (report->record && ff_record_end(report->record, trainer, &failure) != FF_OK)
        ff_report_note(report, failure.message);
    if (report->closing && (status == FF_OK || status == FF_INTERRUPTED || status == FF_PREEMPTED))
        ff_closing_print(report->closing, report->table != NULL, trainer, result, status);
    json_t *end = with_reduction(end_object(result, status, message), &result->reduced);
    end = with_memory(end, &trainer->memory);
    FF_TRY(write_log(report, with_gpu(end, &result->last), error));
    if (report->record && ff_record_page(report->record, &failure) != FF_OK)
        ff_report_note(report, failure.message);
    return FF_OK;
}
