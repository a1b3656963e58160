/* The limits of a GPU, from what its driver or its description tells of it: the bytes and the
 * floating-point operations that it can do in a second at most. Pure. */
#ifndef FF_TRAIN_CARD_H
#define FF_TRAIN_CARD_H

#include "train/precision.h"

#include <stdbool.h>

/* What a node of a recorded step takes at least, in microseconds: the gap between two kernels of a
 * graph. An estimate (1 to 1.5 on Hopper), to be replaced by a measurement. */
#define FF_CARD_NODE_US 1.3

typedef struct ff_card {
    double bytes_per_s; /* of device memory: two transfers a clock; 0 = not known */
    /* Dense matrix products with f32 sums on tensor cores (F32: without them); 0 = the card has
     * none, or it is not known. */
    double matrix_flops[FF_PRECISION_COUNT];
    double f32_flops; /* other arithmetic in f32 */
} ff_card;

typedef struct ff_card_facts {
    const char *name; /* "NVIDIA H200": tells the memory's width where memory_bus_bits is 0, and
                         cards whose f32 sums run at half the rate */
    int capability;   /* 90 for 9.0 */
    int multiprocessors;
    int clock_khz, memory_clock_khz, memory_bus_bits; /* 0 = not told */
} ff_card_facts;

ff_card ff_card_limits(const ff_card_facts *facts);
static inline bool ff_card_known(const ff_card *card) {
    return card->bytes_per_s > 0 && card->f32_flops > 0;
}

#endif
