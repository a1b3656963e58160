/* How long steps take on the device, by events in the compute's stream; one step in `every` is
 * timed.
 *
 * Thread rule: the step's thread. */
#ifndef FF_TRAIN_STEP_TIMER_H
#define FF_TRAIN_STEP_TIMER_H

#include "train/compute/compute.h"

/* Device time of timed steps. */
typedef struct ff_step_times {
    uint64_t steps;
    uint64_t step_ns; /* from the end of the previous step to the end of the step */
    uint64_t
        wait_ns; /* part of it before the net's first kernel: waiting for data, making a batch */
} ff_step_times;

typedef struct ff_step_timer {
    ff_compute *compute;
    uint32_t every; /* one step in `every` is timed, if the previous timing is over */
    /* In the step being timed: the end of the previous step, its first kernel, its end. */
    ff_event *before, *begun, *ended;
    bool next;    /* the next step is timed, unless the caller decides otherwise */
    bool running; /* a timed step may not have ended */
    ff_step_times times;
} ff_step_timer;

/* The caller destroys it, after a failure too. */
FF_MUST_USE ff_status ff_step_timer_create(ff_step_timer *timer, ff_compute *compute,
                                           uint32_t every, ff_error *error);
void ff_step_timer_destroy(ff_step_timer *timer);
/* Forgets all times and the step being timed; its work must be done. */
void ff_step_timer_restart(ff_step_timer *timer);

/* Enqueues the event before a timed step's first kernel, also in a capture. */
FF_MUST_USE ff_status ff_step_timer_begun(ff_step_timer *timer, ff_error *error);
/* Enqueues, at the end of step `number`, the event of its end if it is timed, or of the start of a
 * timing. */
FF_MUST_USE ff_status ff_step_timer_end(ff_step_timer *timer, uint64_t number, bool timed,
                                        ff_error *error);
/* The steps that have been timed since the last call. */
ff_step_times ff_step_timer_measure(ff_step_timer *timer);

#endif
