/* The simulator's C side: the target of launches. Tests only. */
#ifndef FF_CUDASIM_H
#define FF_CUDASIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* If set, a launch into a stream other than NULL calls this instead of running: the kernel runs as
 * function(context), in any thread, any number of times (a recording is replayed), and
 * release(context) frees it after the last. It takes ownership of the context in any case. It
 * returns 0, or an error, which the launcher returns. Set it before the first launch;
 * ff_device_sim_enqueue (tests/cuda/sim/device.h) is one. */
typedef int (*ff_cudasim_enqueue_function)(void *stream, void (*function)(void *context),
                                           void *context, void (*release)(void *context));
extern ff_cudasim_enqueue_function ff_cudasim_enqueue;

/* If set, a launch runs only some of its blocks, and a grid may have any number of blocks that CUDA
 * accepts: the function writes numbers of blocks, x + grid[0] * (y + grid[1] * z), and returns how
 * many, at most FF_CUDASIM_CHOSEN. file, kernel: where FF_LAUNCH is, and its first argument. */
enum { FF_CUDASIM_CHOSEN = 1024 };
typedef unsigned (*ff_cudasim_choose_function)(const char *file, const char *kernel,
                                               const unsigned grid[3], uint64_t *blocks);
extern ff_cudasim_choose_function ff_cudasim_choose;

/* A launch, from the context that the hook was passed. asked: cudaFuncSetAttribute's bytes of
 * dynamic shared memory for the kernel; 0: never called. */
typedef struct ff_cudasim_launch {
    const void *kernel; /* its function's address */
    unsigned grid[3], block[3];
    size_t shared_bytes, asked;
} ff_cudasim_launch;
ff_cudasim_launch ff_cudasim_launch_of(const void *context);

/* The number of kernels run so far. */
uint64_t ff_cudasim_launches(void);

#ifdef __cplusplus
}
#endif

#endif
