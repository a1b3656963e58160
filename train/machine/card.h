/* The limits of a GPU, from what its driver or its description reports: how many bytes it can move
 * and how many floating-point operations it can do per second at most. Pure. */
#ifndef FF_TRAIN_CARD_H
#define FF_TRAIN_CARD_H

#include "train/compute/precision.h"

#include <stdbool.h>

/* The least time of a node of a captured step, in microseconds: the gap between two kernels of a
 * graph. An estimate (1 to 1.5 on Hopper), to be replaced by a measurement. */
#define FF_CARD_NODE_US 1.3

typedef struct ff_card {
    double bytes_per_s; /* device memory, at two transfers per clock; 0 = unknown */
    /* Dense matrix products with f32 sums on tensor cores (F32: without them); 0 = not supported,
     * or unknown. */
    double matrix_flops[FF_PRECISION_COUNT];
    double f32_flops; /* other arithmetic in f32 */
} ff_card;

typedef struct ff_card_facts {
    const char *name; /* "NVIDIA H200": determines the memory's width if memory_bus_bits is 0, and
                         GPUs whose f32 sums run at half the rate */
    int capability;   /* 90 for 9.0 */
    int multiprocessors;
    int clock_khz, memory_clock_khz, memory_bus_bits; /* 0 = unknown */
} ff_card_facts;

ff_card ff_card_limits(const ff_card_facts *facts);
static inline bool ff_card_known(const ff_card *card) {
    return card->bytes_per_s > 0 && card->f32_flops > 0;
}

#endif
