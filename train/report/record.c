#include "train/report/record.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/thread.h"
#include "train/report/events/events.h"
#include "train/report/page/page.h"
#include "train/report/sheets.h"
#include "train/report/tally_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The share of the time since the start that sheets and counts of evaluations may take. */
#define SHARE 1e-3

/* The time between two writes of points, each with a reading of the GPU. */
#define WRITE_NS UINT64_C(5000000000)

struct ff_record {
    ff_events *events;
    char *folder;              /* NULL = none */
    const ff_trainer *trainer; /* from the start to the end */
    bool failed;               /* a failure was returned */
    uint64_t written_ns;       /* of the last points */
    ff_error step_failure;     /* not returned yet */
    bool pending;              /* the last evaluation is not written */
    uint32_t epoch;            /* of the last evaluation */
    uint64_t steps;
    uint64_t began_ns, spent_ns, last_ns; /* last: the duration of the last write */
};

ff_status ff_record_create(ff_record **record, const char *events, const char *folder,
                           ff_error *error) {
    char *own = NULL;
    ff_status status;
    FF_TRY(ff_alloc(record, 1, sizeof **record, "the reports", error));
    (*record)->began_ns = ff_now_ns();
    if (folder) FF_TRY_DONE(ff_copy_string(&(*record)->folder, folder, error));
    if (!events) FF_TRY_DONE(ff_path_join(&own, folder, "events", error));
    FF_TRY_DONE(ff_events_create(&(*record)->events, events ? events : own, error));
done:
    free(own);
    if (status != FF_OK) ff_record_destroy(record);
    return status;
}

void ff_record_destroy(ff_record **record) {
    if (!*record) return;
    ff_events_close(&(*record)->events);
    free((*record)->folder);
    free(*record);
    *record = NULL;
}

/* `status`, or FF_OK if a failure was returned before. */
static ff_status first_failure(ff_record *record, ff_status status) {
    if (status == FF_OK || record->failed) return FF_OK;
    record->failed = true;
    return status;
}

/* ---- files and sheets ---- */

static ff_status save(const ff_record *record, const char *name, const void *bytes, size_t length,
                      ff_error *error) {
    ff_file *file = NULL;
    char *path = NULL;
    ff_status status;
    FF_TRY_DONE(ff_path_join(&path, record->folder, name, error));
    FF_TRY_DONE(ff_file_replace(&file, path, error));
    FF_TRY_DONE(ff_file_write(file, bytes, length, error));
    FF_TRY_DONE(ff_file_commit(&file, error));
done:
    ff_file_discard(&file);
    free(path);
    return status;
}

typedef ff_status (*draw_function)(const ff_trainer *trainer, ff_canvas *canvas, ff_error *error);

static ff_status add_sheet(ff_record *record, const ff_trainer *trainer, draw_function draw,
                           const char *tag, const char *name, ff_error *error) {
    ff_canvas canvas;
    ff_buffer png = {0};
    ff_status status;
    FF_TRY_DONE(draw(trainer, &canvas, error));
    FF_TRY_DONE(ff_canvas_png(&canvas, &png, error));
    ff_events_image(record->events, tag, record->steps, &png, canvas.width, canvas.height);
    if (record->folder) FF_TRY_DONE(save(record, name, png.bytes, png.length, error));
done:
    ff_canvas_free(&canvas);
    ff_buffer_free(&png);
    return status;
}

static ff_status save_counts(const ff_record *record, const ff_trainer *trainer, ff_error *error) {
    json_t *object = ff_tally_json(trainer, record->epoch);
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(object);
    if (!text) return ff_fail(error, FF_NO_MEMORY, "not enough memory for evaluation.json");
    const ff_status status = save(record, "evaluation.json", text, strlen(text), error);
    free(text);
    return status;
}

/* Writes what the last evaluation found. */
static ff_status write_evaluation(ff_record *record, const ff_trainer *trainer, ff_error *error) {
    const uint64_t began = ff_now_ns();
    ff_status status = FF_OK;
    record->pending = false;
    if (record->folder) FF_TRY_DONE(save_counts(record, trainer, error));
    if (trainer->tally->worst_count)
        FF_TRY_DONE(add_sheet(record, trainer, ff_sheet_worst, "worst errors", "worst.png", error));
done:
    record->last_ns = ff_now_ns() - began;
    record->spent_ns += record->last_ns;
    return status;
}

/* Whether another write would stay within SHARE. */
static bool is_due(const ff_record *record) {
    const uint64_t first_ns = 300000000, next = record->last_ns ? record->last_ns : first_ns;
    return (double)(record->spent_ns + next) <= SHARE * (double)(ff_now_ns() - record->began_ns);
}

/* ---- the run ---- */

/* Flushes after a function that ended with `status`. */
static ff_status flush(ff_record *record, ff_status status, ff_error *error) {
    const ff_status flushed = ff_events_flush(record->events, status == FF_OK ? error : NULL);
    if (status == FF_OK) status = flushed;
    if (status == FF_OK && record->step_failure.status != FF_OK) {
        status = record->step_failure.status;
        *error = record->step_failure;
    }
    return first_failure(record, status);
}

static void add_point(ff_events *events, const ff_step_point *point) {
    if (!isnan(point->loss)) ff_events_scalar(events, "step/loss", point->steps, point->loss);
    ff_events_scalar(events, "step/samples_per_second", point->steps, point->samples_per_second);
    ff_events_scalar(events, "step/data_wait_percent", point->steps, point->data_wait_percent);
}

static void write_points(ff_record *record, uint64_t steps) {
    ff_nvml_reading gpu;
    if (ff_machine_read(record->trainer->machine, &gpu) && gpu.gpu_percent >= 0)
        ff_events_scalar(record->events, "step/gpu_utilization_percent", steps, gpu.gpu_percent);
    record->written_ns = ff_now_ns();
    (void)!ff_events_flush(record->events, &record->step_failure); /* returned after the epoch */
}

void ff_record_point(ff_record *record, const ff_step_point *point) {
    add_point(record->events, point);
    if (ff_now_ns() - record->written_ns > WRITE_NS) write_points(record, point->steps);
}

ff_status ff_record_start(ff_record *record, const ff_trainer *trainer, ff_error *error) {
    record->trainer = trainer;
    if (trainer->options->first_step) return FF_OK; /* written before */
    return flush(record, add_sheet(record, trainer, ff_sheet_inputs, "inputs", "inputs.png", error),
                 error);
}

static void add_epoch(ff_events *events, const ff_epoch *epoch) {
    const ff_nvml_reading *gpu = &epoch->gpu;
    const struct {
        const char *tag;
        bool told;
        double value;
    } scalars[] = {
        {"train/loss", true, epoch->train_loss},
        {"train/accuracy", true, epoch->train_accuracy},
        {"val/loss", epoch->evaluated, epoch->val_loss},
        {"val/accuracy", epoch->evaluated, epoch->val_accuracy},
        {"val/top5_accuracy", epoch->evaluated && epoch->val_top5 >= 0, epoch->val_top5},
        {"val/ema_loss", epoch->averaged, epoch->ema_loss},
        {"val/ema_accuracy", epoch->averaged, epoch->ema_accuracy},
        {"learning_rate", true, epoch->learning_rate},
        {"speed/samples_per_second", true, epoch->samples_per_second},
        {"speed/data_wait_percent", true, epoch->data_wait_percent},
        {"speed/gpu_utilization_percent", epoch->gpu_read && gpu->gpu_percent >= 0,
         gpu->gpu_percent},
        {"speed/gpu_memory_bytes", epoch->gpu_read && gpu->used_bytes > 0, (double)gpu->used_bytes},
    };
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        if (scalars[i].told)
            ff_events_scalar(events, scalars[i].tag, epoch->steps, scalars[i].value);
}

ff_status ff_record_epoch(ff_record *record, const ff_trainer *trainer, const ff_epoch *epoch,
                          const ff_step_point *rest, ff_error *error) {
    ff_status status = FF_OK;
    record->steps = epoch->steps;
    if (rest) add_point(record->events, rest);
    add_epoch(record->events, epoch);
    if (epoch->evaluated) {
        record->pending = true;
        record->epoch = epoch->epoch;
        if (is_due(record)) status = write_evaluation(record, trainer, error);
    }
    return flush(record, status, error);
}

ff_status ff_record_end(ff_record *record, const ff_trainer *trainer, ff_error *error) {
    ff_status status = FF_OK;
    /* A later evaluation may have been stopped. */
    if (record->pending && trainer->tally->whole) status = write_evaluation(record, trainer, error);
    return flush(record, status, error);
}

ff_status ff_record_page(ff_record *record, ff_error *error) {
    const char *const run = record->folder;
    char *path;
    if (!run) return FF_OK;
    FF_TRY(ff_path_join(&path, run, "report.html", error));
    const ff_status status = ff_page_write(path, &run, 1, NULL, error);
    free(path);
    return first_failure(record, status);
}
