#include "train/predict/balance.h"

#include "format/base/memory.h"
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "train/comm/job/shares.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 9, ROUNDS_LEAST = 3, MEASURE_NS = 1000000000 };
/* Speeds that differ by less than this factor are equal: noise must not make shares uneven. */
#define NEARLY 1.1

/* Repeats the same batch. What the model learns is dropped with the trainer. */
static ff_status take_step(ff_trainer *trainer, uint64_t *ns, ff_error *error) {
    ff_feed_batch next;
    const uint64_t began = ff_now_ns();
    FF_TRY(ff_interrupt_check(error));
    FF_TRY(ff_feed_next(trainer->train_feed, &next, error));
    next.batch.weights = NULL;
    FF_TRY(ff_step_run(trainer->step, trainer->train_plan, &next.batch, error));
    FF_TRY(ff_step_restart(trainer->step, error)); /* waits */
    *ns = ff_now_ns() - began;
    return ff_feed_again(trainer->train_feed, error);
}

static int compare(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The median of some steps, after two steps that load kernels and capture graphs. */
static ff_status take_time(ff_trainer *trainer, ff_job *job, double *ns, ff_error *error) {
    uint64_t times[ROUNDS], spent = 0;
    int count = 0;
    for (int i = 0; i < 2; i++) FF_TRY(take_step(trainer, times, error));
    FF_TRY(ff_job_agree(job, "another measurement", "", 0, error)); /* a barrier */
    for (; count < ROUNDS && (count < ROUNDS_LEAST || spent < MEASURE_NS); spent += times[count++])
        FF_TRY(take_step(trainer, &times[count], error));
    qsort(times, (size_t)count, sizeof *times, compare);
    *ns = (double)times[count / 2];
    return FF_OK;
}

/* This rank's samples per second, as if it were alone on its device. */
static ff_status measure(const ff_trainer_options *options, int64_t batch, double *speed,
                         ff_error *error) {
    static const uint32_t whole[] = {0, 1};
    ff_job *job = options->job;
    ff_job alone = {.size = 1,
                    .local_size = job->local_size,
                    .cuts = whole,
                    .ranks = job->ranks,
                    .lock = PTHREAD_MUTEX_INITIALIZER};
    ff_trainer_options own = *options;
    ff_trainer *trainer;
    double ns = 0;
    own.job = &alone;
    own.batch = batch;
    own.accumulate = 1;
    own.epochs = 1;
    own.warmup_epochs = 0;
    own.last_batch = FF_LAST_BATCH_DROP;
    own.weights = NULL;
    own.tuning = NULL;
    own.checkpoints = own.measures_disk = own.scale_lr = own.reproducible = false;
    own.parts = 0;
    own.first_step = 0;
    FF_TRY(ff_trainer_create(&trainer, &own, error));
    const ff_status status = take_time(trainer, job, &ns, error);
    *speed = (double)trainer->micro * 1e9 / fmax(ns, 1);
    ff_trainer_destroy(&trainer);
    return status;
}

/* speed and most: [size], of all ranks. Writes "412, 250 samples/s; room for 40, 25". */
static ff_status describe(const ff_job *job, const double *speed, const int64_t *most, char **text,
                          ff_error *error) {
    ff_buffer told = {0};
    ff_status status = FF_OK;
    for (int i = 0; i < job->size && status == FF_OK; i++)
        status = ff_buffer_printf(&told, error, "%s%.*f", i ? ", " : "", speed[i] < 100, speed[i]);
    for (int i = 0; i < job->size && status == FF_OK; i++)
        status = ff_buffer_printf(&told, error, "%s%" PRId64, i ? ", " : " samples/s; room for ",
                                  most[i]);
    if (status == FF_OK) status = ff_copy_string(text, told.bytes, error);
    ff_buffer_free(&told);
    return status;
}

ff_status ff_balance_measure(const ff_trainer_options *options, int64_t *rows, char **text,
                             ff_error *error) {
    ff_job *job = options->job;
    const size_t count = (size_t)job->size;
    const ff_trainer_options counting = ff_trainer_options_counting(options);
    ff_trainer *trainer = NULL;
    double *room = NULL, *speed = NULL;
    int64_t *most = NULL;
    ff_status status;
    *text = NULL;
    FF_TRY_DONE(ff_alloc(&room, count, sizeof *room, "shares", error));
    FF_TRY_DONE(ff_alloc(&speed, count, sizeof *speed, "shares", error));
    FF_TRY_DONE(ff_alloc(&most, count, sizeof *most, "shares", error));
    FF_TRY_DONE(ff_trainer_create(&trainer, &counting, error));
    const int64_t all = trainer->micro_all, equal = all / job->size;
    const int64_t own = ff_needs_most_rows(trainer);
    const bool pairs = ff_augment_mixes(&trainer->augment);
    room[job->rank] = (double)own;
    /* No rank allocates memory before all have counted their needs. */
    FF_TRY_DONE(ff_job_sum(job, room, count, error));
    for (size_t i = 0; i < count; i++) most[i] = (int64_t)room[i];
    for (size_t i = 0; i < count; i++) speed[i] = 1;
    if (!ff_shares_choose(speed, most, job->size, all, pairs, rows)) {
        FF_TRY_DONE(ff_needs_check(trainer, error)); /* its error has advice */
        FF_TRY_DONE(ff_fail(error, FF_NO_MEMORY,
                            "--dp-balance auto: no shares of batches of %" PRId64
                            " fit into the memory of all ranks; use a smaller --batch",
                            trainer->batch));
    }
    memset(speed, 0, count * sizeof *speed);
    FF_TRY_DONE(measure(options, own < equal ? own : equal, &speed[job->rank], error));
    FF_TRY_DONE(ff_job_sum(job, speed, count, error));
    FF_TRY_DONE(describe(job, speed, most, text, error));
    double least = speed[0], fastest = speed[0];
    for (size_t i = 0; i < count; i++) least = fmin(least, speed[i]);
    for (size_t i = 0; i < count; i++) fastest = fmax(fastest, speed[i]);
    for (size_t i = 0; i < count && fastest < NEARLY * least; i++) speed[i] = 1;
    (void)!ff_shares_choose(speed, most, job->size, all, pairs, rows); /* succeeds, as above */
done:
    ff_trainer_destroy(&trainer);
    free(room);
    free(speed);
    free(most);
    return status;
}
