/* Which launches a GPU accepts, by a description of the GPU and by what ptxas reports of the kernel
 * for its architecture. The table (kernels.awk writes it) has a line for each GPU, and one for each
 * kernel and architecture. */
#ifndef FF_TESTS_STRICT_LIMITS_H
#define FF_TESTS_STRICT_LIMITS_H

#include "tests/cuda/sim/cudasim.h"

/* Registers are of a block; shared memory is of a block without and with cudaFuncSetAttribute. */
typedef struct strict_card {
    char name[32];
    int architecture, threads, block[3], grid[3], registers, shared, asked_shared;
} strict_card;

/* Registers are of a thread; threads: of the launch bounds; shared: static, in bytes. */
typedef struct strict_kernel {
    char *name; /* as nvcc mangles it */
    const void *address;
    int architecture, registers, shared, threads;
} strict_kernel;

/* Why the card refuses the launch; NULL: it does not. */
const char *strict_refusal(const strict_card *card, const strict_kernel *kernel,
                           const ff_cudasim_launch *launch);

/* The same of all GPUs of the table, which is FF_STRICT_KERNELS or the file `kernels` next to the
 * program. Valid until the next call. One thread at a time. */
const char *strict_refusal_of_all(const ff_cudasim_launch *launch);

#endif
