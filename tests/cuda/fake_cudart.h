/* A stand-in for CUDA's runtime, to test the device table without a GPU: the calls that the table
 * makes.
 *
 * Memory is ordinary memory. Work waits in its stream until something waits for it: a stream's or
 * an event's synchronization, the end of a stream. A capture keeps work and a graph's launch
 * enqueues it. Three devices. It counts calls, fails the chosen one, and refuses what the real
 * runtime refuses, above all in captures ("CUDA Runtime API", cudaStreamCaptureMode). What the real
 * one would let pass with undefined results is a misuse: handles and memory that are not, or no
 * longer, there; memory released, or a graph destroyed, while enqueued work uses it; another device
 * than the current one. One thread. */
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
    bool capture_lost;   /* a call was refused in a capture, which is invalid from then on */
    char misuse[128];    /* the first one: "CALL: what is wrong" */
} fake_cudart;

extern fake_cudart fake;

#endif
