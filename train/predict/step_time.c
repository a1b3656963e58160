#include "train/predict/step_time.h"

#include "format/base/thread.h"
#include "format/cli/interrupt.h"

#include <stdlib.h>

enum { ROUNDS = 9, ROUNDS_LEAST = 3, MEASURE_NS = 1000000000 };

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

ff_status ff_step_time(const ff_trainer_options *options, int64_t batch, double *ns,
                       int64_t *samples, ff_error *error) {
    static const uint32_t whole[] = {0, 1};
    ff_job *job = options->job;
    ff_job alone = {.size = 1, .cuts = whole, .lock = PTHREAD_MUTEX_INITIALIZER};
    ff_trainer_options own = *options;
    ff_trainer *trainer;
    if (job) {
        alone.local_size = job->local_size;
        alone.ranks = job->ranks;
        own.job = &alone;
    }
    own.batch = batch;
    own.accumulate = 1;
    own.epochs = 1;
    own.warmup_epochs = 0;
    own.last_batch = FF_LAST_BATCH_DROP;
    if (options->first_step) own.weights = NULL; /* the recipe has what they decided */
    own.tuning = NULL;
    own.checkpoints = own.measures_disk = own.scale_lr = own.reproducible = false;
    own.parts = 0;
    own.first_step = 0;
    FF_TRY(ff_trainer_create(&trainer, &own, error));
    const ff_status status = take_time(trainer, job, ns, error);
    *samples = trainer->micro;
    ff_trainer_destroy(&trainer);
    return status;
}
