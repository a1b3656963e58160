/* A barrier of the ranks on one machine, threads or processes that map it. It stores the first
 * failure of any rank. Waiting spins for some microseconds, then sleeps: ranks share their cores
 * with the threads that compute. Thread rule: every function from any thread; memory is ordered as
 * by a mutex. */
#ifndef FF_TRAIN_COMM_BARRIER_H
#define FF_TRAIN_COMM_BARRIER_H

#include "format/base/status.h"

#include <stdatomic.h>
#include <stdint.h>

typedef struct ff_barrier {
    atomic_uint arrived, generation, sleepers;
    unsigned count;
    uint64_t spin_ns;
    atomic_int failed; /* 0; 1 while `why` is being written; 2 */
    atomic_int lost;   /* 1 + the rank that failed; 0 = not known yet */
    char why[1000];
} ff_barrier;

/* Initializes a barrier in zeroed memory; there is nothing to release. */
void ff_barrier_init(ff_barrier *barrier, int count);

/* Returns FF_OK when `count` callers have come, or FF_FAILED with the failure. During a long wait,
 * asks lost(context) many times a second whether a missing caller is lost; NULL = never. */
FF_MUST_USE ff_status ff_barrier_wait(ff_barrier *barrier,
                                      ff_status (*lost)(void *context, ff_error *error),
                                      void *context, ff_error *error);

/* Names the lost rank, before the failure is set; the first name stays. */
void ff_barrier_name(ff_barrier *barrier, int rank);
/* Sets the failure and ends all waits; the first failure stays. */
void ff_barrier_fail(ff_barrier *barrier, const char *why);
/* FF_OK, or FF_FAILED with the failure. */
FF_MUST_USE ff_status ff_barrier_check(ff_barrier *barrier, ff_error *error);

#endif
