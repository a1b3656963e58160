#include "train/run/ranks.h"

#include "format/cli/interrupt.h"
#include "format/disk/checksum.h"
#include "train/compute/compute.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

ff_status ff_ranks_begin(ff_trainer *trainer, bool *goes_on, ff_run_state *state, ff_error *error) {
    ff_job *job = trainer->options->job;
    ff_reducer *reducer = ff_step_reducer(trainer->step);
    if (!reducer) return FF_OK;
    FF_TRY(ff_job_broadcast(job, goes_on, sizeof *goes_on, error));
    if (!*goes_on) return FF_OK;
    FF_TRY(ff_job_broadcast(job, state, sizeof *state, error));
    ff_model_store(trainer->model)->forwards = state->forwards;
    return ff_reducer_share_state(reducer, error);
}

ff_status ff_ranks_share_buffers(ff_trainer *trainer, ff_error *error) {
    ff_reducer *reducer = ff_step_reducer(trainer->step);
    return reducer ? ff_reducer_share_buffers(reducer, error) : FF_OK;
}

/* Checks that memory of the device has the same bytes on all ranks. */
static ff_status agree(ff_trainer *trainer, const char *what, const float *memory, size_t count,
                       ff_error *error) {
    ff_compute *compute = ff_model_compute(trainer->model);
    const size_t bytes = count * sizeof(float);
    const bool here = compute->device->table->unified;
    void *copy = NULL;
    if (!here) {
        FF_TRY(ff_alloc(&copy, bytes, 1, "the parameters", error));
        ff_compute_read(compute, copy, memory, bytes);
    }
    const uint64_t sum = ff_checksum(here ? memory : copy, bytes);
    free(copy);
    FF_TRY(ff_compute_check(compute, error));
    return ff_job_agree(trainer->options->job, what, &sum, sizeof sum, error);
}

ff_status ff_ranks_compare(ff_trainer *trainer, uint64_t step, ff_error *error) {
    const ff_store *store = ff_model_store(trainer->model);
    char what[64];
    if (!ff_step_reducer(trainer->step)) return FF_OK;
    snprintf(what, sizeof what, "other parameters after step %" PRIu64, step);
    FF_TRY(agree(trainer, what, store->values, store->trained_count, error));
    /* Running statistics differ between ranks later. */
    if (step != trainer->options->first_step || !store->buffer_count) return FF_OK;
    return agree(trainer, "other running statistics", store->buffers, store->buffer_count, error);
}

/* ---- stopping ---- */

/* A rank that reads of a stop may have enqueued later steps: at most the number of steps for which
 * a device's outcomes may still be missing. */
void ff_stop_note(ff_stop *stop, const ff_trainer *trainer, const ff_outcome *outcome) {
    const bool unified = ff_model_compute(trainer->model)->device->table->unified;
    if (!outcome->stop || stop->signal) return;
    stop->signal = (int)outcome->stop;
    stop->at = outcome->step + 1 + (unified ? 0 : FF_STEP_AHEAD);
}

ff_status ff_stop_check(ff_stop *stop, ff_trainer *trainer, uint64_t step, ff_error *error) {
    ff_reducer *reducer = ff_step_reducer(trainer->step);
    const int number = ff_interrupt_signal();
    if (!reducer) return ff_interrupt_check(error);
    if (number) ff_reducer_stop(reducer, number);
    if (!stop->signal || step < stop->at) return FF_OK;
    return ff_interrupt_fail(stop->signal, error);
}

ff_status ff_ranks_stopped(ff_trainer *trainer, const ff_stop *stop, ff_status status,
                           ff_error *error) {
    ff_job *job = trainer->options->job;
    int first = (int)status;
    if (!job) return status;
    FF_TRY(ff_job_broadcast(job, &first, sizeof first, error));
    if (error) {
        error->status = (ff_status)first;
        error->signal_number = stop->signal;
    }
    return (ff_status)first;
}

ff_reducer_times ff_ranks_measure(const ff_trainer *trainer) {
    const ff_reducer *reducer = ff_step_reducer(trainer->step);
    return reducer ? ff_reducer_measure(reducer) : (ff_reducer_times){0, 0};
}
