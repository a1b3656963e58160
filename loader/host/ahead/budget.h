/* How much is read ahead, decided before anything is read. Private to loader/. */
#ifndef FF_LOADER_AHEAD_BUDGET_H
#define FF_LOADER_AHEAD_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct ff_loader_settings;

typedef struct ff_ahead_budget {
    uint64_t rows;  /* the most of a stage */
    uint64_t bytes; /* of the arena; 0 = nothing is read ahead */
    bool in_cache;  /* the cache keeps these bytes, and no arena is allocated */
    uint64_t plan_bytes;
    uint64_t blocks; /* as in ff_loader_info.ahead_blocks */
} ff_ahead_budget;

/* For settings whose order, access and threads are decided. given: the most bytes for reading
 * ahead; if two samples need more, the budget is what two samples need. */
ff_ahead_budget ff_ahead_budget_of(const struct ff_loader_settings *settings, uint64_t given);

/* The samples of the largest group of blocks of `block` samples that `given` bytes can hold whole
 * while the group before it is in use; at least 1. */
uint64_t ff_ahead_group_samples(const struct ff_loader_settings *settings, uint64_t block,
                                uint64_t given);

#endif
