/* Room train/report, floor 16: everything that a run reports to people and programs while it
 * trains.
 *
 * This header writes the progress line, the table and the log. summary.c prints the run before its
 * first step; bottleneck.c explains what the run waited for. record.c writes everything except the
 * log: TensorBoard's events (events/), the evaluation in numbers (tally_json.c) and in pictures
 * (sheets.c), and the page report.html (page/), made from the log of one or several runs.
 * json_log.c appends a line at a time.
 *
 * May include format, loader/cuda, loader/draw, loader/host, loader/rates, train/checkpoint,
 * train/compute, train/net, train/predict, train/trainer.
 *
 * The reports of a run: the progress line on stderr, a table line per epoch and the closing
 * sentences on the given stream, and JSON lines (one object per line, each one write with O_APPEND,
 * so that several runs may share a file; numbers that JSON cannot represent are the strings "NaN",
 * "Infinity" and "-Infinity"; null = no evaluation).
 *
 *   {"event": "start", "version", "model", "data", "val", "first_step", ...}; first_step: the steps
 *    of the checkpoint from which the run resumes; earlier lines of later epochs do not count;
 *    disk: ff_promise_json
 *   {"event": "epoch", "epoch", "train_loss", "train_accuracy", "val_loss", "val_accuracy",
 *    "learning_rate", "seconds", "samples_per_second", "data_wait_percent", "skipped_updates",
 *    "loss_scale"; with --ema "val_ema_loss", "val_ema_accuracy"; with more than 5 classes, after
 *    an evaluation: "val_top5_accuracy"; from NVML, near the end of the epoch's training:
 *    "gpu_utilization_percent", "gpu_memory_bytes", "sm_clock_mhz", "memory_clock_mhz"}
 *   {"event": "step", "epoch", "step", "train_loss", "learning_rate", "samples_per_second",
 *    "data_wait_percent"}: within an epoch, over the steps since the last line; step: of the run.
 *    train_loss is the mean over the outcomes that have arrived from a GPU; null: none has arrived
 *   {"event": "end", "status": "done"|"stopped early"|"interrupted"|"preempted"|"failed",
 *    "message", "steps", ...}; message: why the run did not reach its end
 *   {"event": "note", "text"}: something that the run does differently than requested or expected
 *
 * On a GPU "start" and "end" have "device_free_bytes": the device's "total", and what was free
 * after each stage (train/trainer/device_memory.h): "opened", "model", "communicator", "step",
 * "batches", and, in "end", "warm_up". Values that NVML does not report are left out; "end" has the
 * values of the last epoch. timed_seconds of "end" is the time of whitening, training and the last
 * evaluation, after the warm-up: the time of a run that evaluates once. cold_seconds adds
 * warm_up_seconds (warm_up.h). In a job on CPUs, reduce_seconds is the time spent reducing
 * gradients; reduce_wait_seconds is the part of it that updates waited for. Accuracies are in [0,
 * 1]. One thread at a time. */
#ifndef FF_TRAIN_REPORT_H
#define FF_TRAIN_REPORT_H

#include "loader/cuda/nvml.h"
#include "train/checkpoint/patience.h"
#include "train/report/events/step_points.h"
#include "train/trainer/trainer.h"

#include <jansson.h>
#include <stdio.h>

typedef struct ff_epoch {
    uint32_t epoch;                    /* from 1 */
    uint64_t steps;                    /* of the run so far */
    double train_loss, train_accuracy; /* over the epoch's steps, before their updates */
    bool evaluated;                    /* the next two are valid */
    double val_loss, val_accuracy;
    bool averaged; /* the next two are valid: for the average of the parameters */
    double ema_loss, ema_accuracy;
    double val_top5;      /* share whose label is among the 5 likeliest; -1: at most 5 classes */
    double learning_rate; /* of the epoch's last step */
    double seconds;       /* of the epoch's training, without the evaluation */
    double samples_per_second;
    double data_wait_percent; /* share of `seconds` spent waiting for the loader */
    uint64_t skipped;         /* updates skipped because the loss scale was too large */
    double loss_scale;        /* of the epoch's last step; 1 without a loss scale */
    bool gpu_read;            /* the next is valid */
    ff_nvml_reading gpu;      /* near the end of the epoch's training, while the GPU worked */
} ff_epoch;

typedef struct ff_run_result {
    ff_run_totals totals;
    uint64_t total_ns, warm_up_ns, whiten_ns; /* of this process */
    ff_reducer_times reduced;                 /* in a job on the CPU */
    double loader_rate;   /* samples per second that the loader can deliver; 0 = unknown */
    double storage_share; /* share of the loader's time waiting for storage; 0 = not seen */
    double queued_share;  /* the same, waiting for a processor */
    ff_epoch last;        /* epoch 0 = no epoch finished */
    char early[FF_PATIENCE_BYTES]; /* why the run stopped early; "" = it did not */
} ff_run_result;

typedef struct ff_report ff_report;

enum { FF_REPORT_LOGS = 2 }; /* the run's own log, and that of --log-json */
/* log_paths: NULL = no such log. `table` NULL: prints only the result, one line, to `closing`, and
 * notes to stderr; `closing` NULL: nothing. FF_IO if a log cannot be opened for appending. */
FF_MUST_USE ff_status ff_report_create(ff_report **report,
                                       const char *const log_paths[FF_REPORT_LOGS], FILE *table,
                                       FILE *closing, ff_error *error);
/* Also writes the files of record.h: event files to the folder `events`, NULL: in `folder`; the
 * others to `folder`, NULL: not. FF_IO if the event files cannot be made; later failures become a
 * note. Call before the start. */
FF_MUST_USE ff_status ff_report_record(ff_report *report, const char *events, const char *folder,
                                       ff_error *error);
/* Adds a column for top-5 accuracy to the table, if there are more than 5 classes. */
void ff_report_show_top5(ff_report *report);
/* Steps between two points within an epoch, as in ff_step_points_begin, in the logs and in the
 * event files; without this call FF_STEP_POINTS_CHOSEN. Call before the start. */
void ff_report_points_every(ff_report *report, int64_t every);
/* The options of the logs' start line, an object whose reference is taken; without this call, logs
 * have no start line. Call before the start. */
void ff_report_options(ff_report *report, json_t *options);
/* NULL is accepted. */
void ff_report_destroy(ff_report **report);

FF_MUST_USE ff_status ff_report_start(ff_report *report, const ff_trainer *trainer,
                                      ff_error *error);

/* Begins the progress line, and points within the epoch. sums and clock: of the epoch so far. */
void ff_report_begin_epoch(ff_report *report, const ff_trainer *trainer, uint32_t epoch,
                           ff_step_clock clock);
/* Call after a step is enqueued. */
void ff_report_step(ff_report *report, const ff_epoch_sums *sums, ff_step_clock clock);
/* Takes outcomes that have arrived, each once, in the order of their steps. */
void ff_report_outcomes(ff_report *report, const ff_outcome *outcomes, uint32_t count,
                        ff_step_clock clock);
void ff_report_end_steps(ff_report *report);

/* FF_IO if the log cannot be written: at once, not at the end of a long run. */
FF_MUST_USE ff_status ff_report_epoch(ff_report *report, const ff_epoch *epoch, ff_error *error);

/* Prints and logs a sentence, once; repetitions are ignored. */
void ff_report_note(ff_report *report, const char *note);

/* `status` and `message`: how the run ended. Prints the closing sentences if it finished. */
FF_MUST_USE ff_status ff_report_end(ff_report *report, const ff_trainer *trainer,
                                    const ff_run_result *result, ff_status status,
                                    const char *message, ff_error *error);

#endif
