/* cuDNN and cuBLAS up to their launches, without a GPU. The files of train/compute/cuda/cudnn are
 * linked as they ship. cuDNN's graph API is the real one, planning for a described GPU; only what
 * needs a handle is replaced: handles, streams, and the execution of a plan (cudnn.c). cuBLAS is
 * replaced as a whole (cublas.c). An execution checks the rules of both libraries, and then
 * enqueues, in the simulated device's stream, plain loops over the graph that cuDNN's text of the
 * plan has (graph.h), or over cuBLAS's arguments: so an attribute that is wrong gives a wrong
 * result.
 *
 * A broken rule is counted, and the first is kept as a sentence; after it every execution fails.
 * Thread rule: any threads. */
#ifndef FF_TESTS_LAUNCHES_H
#define FF_TESTS_LAUNCHES_H

#include "loader/device/device.h"

typedef struct ff_launches {
    int convolutions, products; /* executed */
    int captured;               /* of both, those in a capture */
    int broken;                 /* rules */
    char first[256];            /* the first broken rule */
    bool records;               /* set by the caller: results are zeros */
    bool skips;                 /* the same: nothing is written */
} ff_launches;
extern ff_launches ff_launched;

/* Opens the real cuDNN for the GPU of the description (tests/gpu/README.md). FF_FAILED: why it does
 * not open. `json` must outlive all use. */
FF_MUST_USE ff_status ff_launches_open(const char *json, ff_error *error);

/* ---- for the stand-ins ---- */

void ff_launches_break(const char *format, ...) FF_PRINTF(1, 2);

/* `what` of `bytes` at `at` must lie in one allocation of the stream's device, aligned. */
void ff_launches_memory(const void *stream, const char *what, const void *at, uint64_t bytes,
                        uint64_t alignment);

/* What a handle must keep to. */
typedef struct ff_launches_user {
    ff_device *device; /* current at its creation */
    void *stream;      /* set last */
} ff_launches_user;

ff_launches_user ff_launches_user_here(void);
/* Checks the stream and the device, then enqueues function(context). `loaded`: the kernels are, by
 * an earlier execution; only then may a capture contain them. context is freed. */
int ff_launches_enqueue(const ff_launches_user *user, const char *what, bool loaded,
                        void (*function)(void *), void *context);

#endif
