#include "train/comm/collective/barrier.h"

#include "format/base/thread.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPIN_NS = 10000, SLICE_NS = 50000000 };

void ff_barrier_init(ff_barrier *barrier, int count) {
    barrier->count = (unsigned)count;
    barrier->spin_ns = count <= ff_cpu_count() ? SPIN_NS : 0;
}

static void sleep_while(atomic_uint *word, unsigned value) {
    const struct timespec slice = {.tv_nsec = SLICE_NS};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &slice, NULL, 0);
}

static void wake_all(atomic_uint *word) {
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void pause_some(void) {
    for (int i = 0; i < 16; i++)
#if defined(__x86_64__)
        __builtin_ia32_pause();
#else
        __asm__ volatile("" ::: "memory");
#endif
}

ff_status ff_barrier_check(ff_barrier *barrier, ff_error *error) {
    int failed = atomic_load(&barrier->failed);
    if (failed == 0) return FF_OK;
    if (failed == 1) return ff_fail(error, FF_FAILED, "a rank failed");
    return ff_fail(error, FF_FAILED, "%s", barrier->why);
}

void ff_barrier_name(ff_barrier *barrier, int rank) {
    int none = 0;
    atomic_compare_exchange_strong(&barrier->lost, &none, rank + 1);
}

void ff_barrier_fail(ff_barrier *barrier, const char *why) {
    int none = 0;
    if (atomic_compare_exchange_strong(&barrier->failed, &none, 1)) {
        snprintf(barrier->why, sizeof barrier->why, "%s", why);
        atomic_store(&barrier->failed, 2);
    }
    wake_all(&barrier->generation);
}

ff_status ff_barrier_wait(ff_barrier *barrier, ff_status (*lost)(void *context, ff_error *error),
                          void *context, ff_error *error) {
    FF_TRY(ff_barrier_check(barrier, error));
    unsigned generation = atomic_load(&barrier->generation);
    if (atomic_fetch_add(&barrier->arrived, 1) + 1 == barrier->count) {
        atomic_store(&barrier->arrived, 0);
        atomic_fetch_add(&barrier->generation, 1);
        if (atomic_load(&barrier->sleepers)) wake_all(&barrier->generation);
        return FF_OK;
    }
    uint64_t begun = barrier->spin_ns ? ff_now_ns() : 0;
    while (barrier->spin_ns && ff_now_ns() - begun < barrier->spin_ns) {
        if (atomic_load(&barrier->generation) != generation) return FF_OK;
        pause_some();
    }
    while (atomic_load(&barrier->generation) == generation) {
        FF_TRY(ff_barrier_check(barrier, error));
        /* Asked before the generation is read again: a lost rank may have arrived before, as the
         * last. */
        ff_status status = lost ? lost(context, error) : FF_OK;
        if (atomic_load(&barrier->generation) != generation) return FF_OK;
        if (status != FF_OK) return status;
        atomic_fetch_add(&barrier->sleepers, 1);
        sleep_while(&barrier->generation, generation);
        atomic_fetch_sub(&barrier->sleepers, 1);
    }
    return FF_OK;
}
