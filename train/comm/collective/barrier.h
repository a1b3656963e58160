/* A barrier of the ranks on one machine, threads or processes that map it, with the first failure
 * of any of them. Waiting spins for some microseconds, then sleeps: ranks share their cores with
 * the threads that compute.
 * Thread rule: everything here from any thread; memory is ordered as by a mutex. */
#ifndef FF_TRAIN_COMM_BARRIER_H
#define FF_TRAIN_COMM_BARRIER_H

#include "format/base/status.h"

#include <stdatomic.h>
#include <stdint.h>

typedef struct ff_barrier {
    atomic_uint arrived, generation, sleepers;
    unsigned count;
    uint64_t spin_ns;
    atomic_int failed; /* 0; 1 while `why` is written; 2 */
    atomic_int lost;   /* 1 + the rank whose failure it is; 0 = not known yet */
    char why[1000];
} ff_barrier;

/* In zeroed memory; nothing to release. */
void ff_barrier_init(ff_barrier *barrier, int count);

/* Returns when `count` callers have come, or FF_FAILED with the failure. Where it takes long,
 * lost(context) is asked many times a second whether a caller to come is lost; NULL = never. */
FF_MUST_USE ff_status ff_barrier_wait(ff_barrier *barrier,
                                      ff_status (*lost)(void *context, ff_error *error),
                                      void *context, ff_error *error);

/* Names the rank that is lost, before the failure; the first name stays. */
void ff_barrier_name(ff_barrier *barrier, int rank);
/* The first failure stays; all waits end. */
void ff_barrier_fail(ff_barrier *barrier, const char *why);
/* FF_OK, or FF_FAILED with the failure. */
FF_MUST_USE ff_status ff_barrier_check(ff_barrier *barrier, ff_error *error);

#endif
