/* What the stand-in for CUDA's runtime (fake_cudart.h) holds: memory, handles, and work in streams.
 */
#ifndef FF_TESTS_FAKE_STATE_H
#define FF_TESTS_FAKE_STATE_H

#include "tests/cuda/fake_cudart.h"

#include <cuda_runtime_api.h>

enum { WORK_MOST = 64 };

typedef struct work {
    enum { COPY, FILL, CALL, RECORD, WAIT, LAUNCH } kind;
    void *to;
    const void *from;
    int value;
    size_t bytes;
    cudaHostFn_t function;
    void *context;
    cudaEvent_t event;
    cudaGraphExec_t graph;
} work;

typedef struct queue {
    work list[WORK_MOST];
    int count;
} queue;

struct CUgraph_st {
    queue work;
};
struct CUgraphExec_st {
    queue work;
};
struct CUstream_st {
    cudaGraph_t capture;
    queue work; /* enqueued, not run */
};
struct CUevent_st {
    unsigned flags;
    int records;         /* that were reached */
    cudaStream_t stream; /* of the last record outside captures */
    cudaGraph_t capture; /* of the last record in one, without the external flag */
};

typedef enum sort { DEVICE_MEMORY, PINNED, STREAM, EVENT, GRAPH, EXEC } sort;

typedef struct thing {
    struct thing *next;
    sort sort;
    int device;
    void *at;
    size_t bytes;
} thing;

extern thing *fake_things;

/* NULL: it is not, or no longer, there. */
const thing *fake_find(sort of, const void *at);
/* Zeroed. */
void *fake_hold(sort of, size_t bytes);
void fake_drop(const void *at);

/* Each returns the error of the call `name`, of which they keep the last error. */
cudaError_t fake_refuse(cudaError_t code);
cudaError_t fake_misuse(const char *name, const char *what);
/* Counts the call. */
cudaError_t fake_call(const char *name, bool of_device);
cudaError_t fake_check(const char *name, sort of, const void *at);
cudaError_t fake_check_range(const char *name, const void *at, size_t bytes);
/* A "potentially unsafe" call, while this thread captures, or another one in the global mode, is
 * refused; then this thread's captures are lost. */
cudaError_t fake_check_safe(void);
cudaError_t fake_lose_capture(cudaError_t code);

/* Keeps the work, in the stream or in its capture, until the stream is drained. */
cudaError_t fake_enqueue(cudaStream_t stream, work piece);
void fake_drain(cudaStream_t stream);
/* Whether enqueued work uses the memory or the graph. */
bool fake_in_use(const void *memory, size_t bytes, cudaGraphExec_t graph);

#endif
