/* The parts of the strict stand-in (strict.h), and what they share. All of it under one lock. */
#ifndef FF_TESTS_STRICT_STATE_H
#define FF_TESTS_STRICT_STATE_H

#include "tests/cuda/strict/strict.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- order.c: clocks, and the accesses to each byte ---- */

enum { LANES = 192 };

/* What is ordered before: of each lane (a stream, or a branch of a graph) the work up to a time. */
typedef struct instant {
    uint32_t at[LANES];
} instant;

/* Where work was enqueued: what it is, the kernel's address or NULL, and the callers. */
typedef struct place {
    struct place *next;
    const char *what;
    const void *kernel;
    int depth;
    void *frames[12];
} place;

/* A piece of work while it runs. Of the host, operation is 0. */
typedef struct actor {
    uint32_t operation;
    const instant *when;
    const place *where;
    int device;
    bool kernel; /* of the device, and alone: its accesses are checked when it ends */
    bool host;
} actor;

extern instant host_instant;

void join(instant *into, const instant *from);
bool is_before(const instant *a, const instant *b);
int take_lane(void);
void give_lane(int lane);
/* The next operation of the lane; `when` is then of it. */
uint32_t new_operation(int lane, instant *when, const place *where);
/* Checks the access to these bytes of the arena against earlier ones, and keeps it. */
void order_access(const actor *by, size_t offset, size_t bytes, bool writes);
/* Forgets the accesses. */
void order_forget(size_t offset, size_t bytes);

/* ---- places.c ---- */

const place *find_place(const char *what, const void *kernel);
/* Reports, and ends the program unless strict_kept is set. places: up to two, or NULL. at: a line
 * of code, or NULL. */
void fail(const place *now, const place *then, const void *at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- memory.c ---- */

/* Zeroed memory that takes pages only where it is written. */
void *reserve(size_t bytes);

enum { ARENA_BITS = 35, PINNED = -1 };
extern char *arena;

/* NULL: the device has not so much. device: or PINNED. */
void *take_memory(int device, size_t bytes, const place *where);
void give_memory(const char *name, int device, void *memory);
/* Allocations that were not released. */
size_t memory_held(void);
void memory_info(int device, size_t *unused, size_t *total);
/* The offset of these bytes in the arena; SIZE_MAX after a failure: they are not in one allocation.
 */
size_t find_range(const char *name, const void *at, size_t bytes);
/* The device of the allocation there, or PINNED. */
int device_of_range(size_t offset);
/* What is written or read of memory without the callbacks. */
void copy_range(const actor *by, size_t to, size_t from, size_t bytes);
void fill_range(const actor *by, size_t to, int value, size_t bytes);
/* Between these, a kernel's loads and stores are its own. */
void begin_kernel(void);
void end_kernel(const actor *by);
/* `at` is the code's. */
void touch(const void *memory, size_t bytes, bool writes, const void *at);

/* ---- access.c: without a check ---- */

void *__real_memmove(void *to, const void *from, size_t bytes);
void *__real_memset(void *to, int value, size_t bytes);

/* ---- runtime.c ---- */

extern _Thread_local const actor *running; /* NULL: the host's own code */
extern _Thread_local int current_device;
extern strict_counts counts;

void lock_all(void);
void unlock_all(void);
int device_count(void);

typedef enum sort { STREAM, EVENT, GRAPH, EXEC } sort;
void *hold(sort of, size_t bytes);
void drop(const void *handle);
/* Calls it for each handle of the sort. */
void each(sort of, void (*function)(void *handle, void *context), void *context);
/* False after a failure. */
bool check_handle(const char *call, sort of, const void *handle);

/* Each call of the runtime begins with it, and ends with it once the GPU is gone. */
typedef struct call {
    const char *name;
    bool gone;
} call;
call begin_call(const char *name);
void end_call(const call *of);
#define CALL(name)                                                                                 \
    __attribute__((cleanup(end_call))) const call this_call = begin_call(name);                    \
    if (this_call.gone) return cudaErrorUnknown
cudaError_t refuse(const char *call, cudaError_t code, const char *what);

/* ---- graphs.c ---- */

typedef struct work {
    enum { KERNEL, FUNCTION, COPY, FILL, RECORD } kind;
    const place *where;
    int device;
    void (*function)(void *context);
    void *context;
    void (*release)(void *context); /* or NULL */
    size_t to, from, bytes;         /* in the arena */
    int value;
    bool waits; /* a kernel that waits for one of another thread */
    cudaEvent_t event;
    int *after, after_count; /* in a graph: the nodes before */
} work;

typedef struct tips {
    int *list, count;
} tips;

typedef struct capture {
    work *nodes;
    int count, room, users; /* users: the graph, and what is made from it */
    struct CUstream_st *origin;
    enum cudaStreamCaptureMode mode;
    bool lost;
} capture;

struct CUstream_st {
    int device, lane;
    instant when;
    capture *capture; /* NULL: in none */
    tips tips;        /* the nodes that the next one comes after */
};
struct CUevent_st {
    unsigned flags;
    int device;
    bool recorded;
    instant when;
    uint64_t ns;
    capture *capture; /* last recorded in it, without the external flag */
    bool inner;       /* last recorded in a capture that has ended */
    tips tips;
};

extern _Thread_local int own_captures; /* of this thread, not in the relaxed mode */
extern int global_captures;
extern _Thread_local enum cudaStreamCaptureMode own_mode;

void tips_set(tips *to, const tips *from);
void tips_add(tips *to, const tips *from);
void capture_release(capture *of);
/* Its streams and events are in no capture any more. */
void leave_capture(capture *of);
/* Runs it at this instant, as the lane's next operation. */
void perform(const work *piece, int lane, instant *when);
/* Runs it in the stream, or keeps it in the stream's capture. */
cudaError_t enqueue(cudaStream_t stream, work piece);

#endif
