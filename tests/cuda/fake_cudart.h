/* A stand-in for CUDA's runtime, to test the device table without a GPU: the calls that the table
 * makes.
 *
 * Memory is ordinary memory, streams run their work at the call, a capture keeps it and a graph's
 * launch runs it. Three devices. It counts calls, fails the chosen one, and records calls that a
 * real runtime would silently misdirect because another device was current. One thread. */
#ifndef FF_TESTS_FAKE_CUDART_H
#define FF_TESTS_FAKE_CUDART_H

#include <stdbool.h>

typedef struct fake_cudart {
    int device;          /* whose calls are expected */
    int current;         /* set by cudaSetDevice */
    int calls;           /* so far */
    int fail_at;         /* the call that fails; 0: none */
    int fail_with;       /* a cudaError_t */
    char failed[64];     /* the call that failed */
    int last_error;      /* what cudaGetLastError would return next */
    int strays;          /* calls for a device that was not the current one */
    int held;            /* allocations, streams, events, graphs that are not released */
    bool global_capture; /* another thread captures in the global mode */
    int captures;        /* the calling thread's, in the thread-local mode */
    int mode;            /* the calling thread's, a cudaStreamCaptureMode: 0 is the global one */
    bool capture_lost;   /* an event was recorded in a capture as external, or outside as one */
} fake_cudart;

extern fake_cudart fake;

#endif
