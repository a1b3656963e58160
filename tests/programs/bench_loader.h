/* Shared by the loader's benchmarks. */
#ifndef FF_TESTS_BENCH_LOADER_H
#define FF_TESTS_BENCH_LOADER_H

#include "format/base/thread.h"
#include "loader/host/loader.h"
#include "tests/unit/packed_set.h"

#include <stdio.h>

/* A call that must succeed; a failure prints its message and ends the program. */
#define MUST(call)                                                                                 \
    do {                                                                                           \
        ff_error error_ = {0}, *error = &error_;                                                   \
        if ((call) != FF_OK) {                                                                     \
            fprintf(stderr, "%s\n", error->message);                                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Samples per second over this many batches. */
static inline double epoch(ff_loader *loader, uint64_t batches) {
    uint64_t samples = 0, began = ff_now_ns();
    ff_slot *slot;
    for (uint64_t i = 0; i < batches; i++) {
        MUST(ff_loader_acquire(loader, &slot, error));
        samples += slot->count;
        ff_loader_release(loader, slot, NULL);
    }
    return (double)samples * 1e9 / (double)(ff_now_ns() - began);
}

#endif
