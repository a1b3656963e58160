/* What a run tells: the progress line on stderr, a table line an epoch and the closing sentences on
 * the stream it is given, and JSON lines (one object a line, each one write with O_APPEND, so that
 * several runs may share a file; numbers that JSON cannot hold are the strings "NaN", "Infinity"
 * and "-Infinity"; null = there was no evaluation).
 *
 *   {"event": "start", "version", "model", "data", "val", ...}
 *   {"event": "epoch", "epoch", "train_loss", "train_accuracy", "val_loss", "val_accuracy",
 *    "learning_rate", "seconds", "samples_per_second", "data_wait_percent", "skipped_updates",
 *    "loss_scale"; what NVML tells of a GPU, near the end of the epoch's training:
 *    "gpu_utilization_percent", "gpu_memory_bytes", "sm_clock_mhz", "memory_clock_mhz"}
 *   {"event": "end", "status": "done"|"interrupted"|"failed", "message", "steps", ...}
 *
 *   {"event": "note", "text"}: something that the run does otherwise than it was asked to
 *
 * What NVML does not tell is left out; the end has it of the last epoch. timed_seconds of the end
 * are those of whitening, training and the last evaluation, once the GPU is warm: what a run that
 * evaluates once would take; cold_seconds are those and warm_up_seconds (warm_up.h). Accuracies are
 * shares in [0, 1]. One thread at a time. */
#ifndef FF_TRAIN_REPORT_H
#define FF_TRAIN_REPORT_H

#include "loader/cuda/nvml.h"
#include "train/trainer.h"

#include <stdio.h>

typedef struct ff_epoch {
    uint32_t epoch;                    /* from 1 */
    double train_loss, train_accuracy; /* over the epoch's steps, each before its update */
    bool evaluated;                    /* the next two are known */
    double val_loss, val_accuracy;
    double learning_rate; /* of the epoch's last step */
    double seconds;       /* of its training, without the evaluation */
    double samples_per_second;
    double data_wait_percent; /* of `seconds`, waited for the loader */
    uint64_t skipped;         /* updates that the loss' scale was too large for */
    double loss_scale;        /* of the epoch's last step; 1 where none is used */
    bool gpu_read;            /* the next is known: */
    ff_nvml_reading gpu;      /* near the end of the epoch's training, while the GPU worked */
} ff_epoch;

typedef struct ff_run_result {
    uint64_t steps, samples;
    uint64_t skipped; /* updates */
    uint64_t total_ns, warm_up_ns, whiten_ns, train_ns, wait_ns;
    uint64_t val_ns, last_val_ns;   /* of all evaluations, and of the last one */
    double loader_rate;             /* samples a second that the loader could give; 0 = unknown */
    ff_epoch last;                  /* epoch 0 = none was finished */
    uint32_t val_epoch, best_epoch; /* last and best that were evaluated; 0 = none */
    double val_accuracy, best_accuracy;
} ff_run_result;

typedef struct ff_report ff_report;

/* `log_path` NULL: no JSON lines. `table` NULL: nothing is printed but the closing sentences, to
 * `closing`. FF_IO where the log cannot be opened for appending. */
FF_MUST_USE ff_status ff_report_create(ff_report **report, const char *log_path, FILE *table,
                                       FILE *closing, ff_error *error);
/* NULL is accepted. */
void ff_report_destroy(ff_report **report);

FF_MUST_USE ff_status ff_report_start(ff_report *report, const ff_trainer *trainer,
                                      ff_error *error);

/* The progress line. `loss` is the mean so far. */
void ff_report_begin_epoch(ff_report *report, const ff_trainer *trainer, uint32_t epoch);
void ff_report_step(ff_report *report, uint64_t samples, double loss, uint64_t wait_ns,
                    uint64_t elapsed_ns);
void ff_report_end_steps(ff_report *report);

/* A log that cannot be written fails here, with FF_IO, rather than at the end of a long run. */
FF_MUST_USE ff_status ff_report_epoch(ff_report *report, const ff_epoch *epoch, ff_error *error);

/* Prints and logs a sentence; the same one again is not told twice. */
void ff_report_note(ff_report *report, const char *note);

/* `status` and `message`: how the run ended. Prints the closing sentences where it was finished. */
FF_MUST_USE ff_status ff_report_end(ff_report *report, const ff_trainer *trainer,
                                    const ff_run_result *result, ff_status status,
                                    const char *message, ff_error *error);

#endif
