#include "train/predict/balance.h"

#include "format/base/memory.h"
#include "train/comm/job/shares.h"
#include "train/predict/step_time.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Speeds that differ by less than this factor are equal: noise must not make shares uneven. */
#define NEARLY 1.1

/* This rank's samples per second, as if it were alone on its device. */
static ff_status measure(const ff_trainer_options *options, int64_t batch, double *speed,
                         ff_error *error) {
    double ns = 0;
    int64_t samples = 0;
    FF_TRY(ff_step_time(options, batch, &ns, &samples, error));
    *speed = (double)samples * 1e9 / fmax(ns, 1);
    return FF_OK;
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
