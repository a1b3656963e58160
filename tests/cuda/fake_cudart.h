/* CUDA's runtime for tests of the device table without a card: as much of it as the table calls.
 *
 * Memory is ordinary memory, streams run their work at the call, a capture keeps it and a graph's
 * launch runs it. Three devices. It counts calls, fails the one it is told to, and notes what a
 * real runtime would do wrong quietly: a call made while another device was current. One thread. */
#ifndef FF_TESTS_FAKE_CUDART_H
#define FF_TESTS_FAKE_CUDART_H

#include <stdbool.h>

typedef struct fake_cudart {
    int device;        /* whose calls are expected */
    int current;       /* as cudaSetDevice left it */
    int calls;         /* so far */
    int fail_at;       /* the call that fails; 0: none */
    int fail_with;     /* a cudaError_t */
    char failed[64];   /* the one that did */
    int last_error;    /* what cudaGetLastError would give the next who asks */
    int strays;        /* calls for a device that was not current */
    int held;          /* allocations, streams, events, graphs that are not released */
    bool capture_lost; /* an event was recorded in a capture as external, or outside as one */
} fake_cudart;

extern fake_cudart fake;

#endif
