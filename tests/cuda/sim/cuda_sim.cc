#include "cuda_sim.h"

#include "fiber.h"

#include <atomic>
#include <mutex>
#include <stdio.h>
#include <utility>

#ifdef FF_SIM_TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum { THREADS_MOST = 1024, WARPS_MOST = THREADS_MOST / 32, SHARED_MOST = 227 << 10 };
enum { SHARED_UNASKED = 48 << 10, KERNELS_MOST = 64 };
enum { INVALID_CONFIGURATION = 9 }; /* cudaError_t */

thread_local ff_sim_thread *ff_sim_self;
ff_sim_block ff_sim_current;
ff_cudasim_enqueue_function ff_cudasim_enqueue;
ff_cudasim_choose_function ff_cudasim_choose;

/* What ThreadSanitizer is told of barriers: all before a happens_before with an address is before
 * all after a later happens_after with it. Nothing else orders the threads of a block for it, not
 * the turns that the fibers take. This file and fiber.cc are not instrumented. */
#ifdef FF_SIM_TSAN
static void happens_before(void *address) {
    __tsan_release(address);
}
static void happens_after(void *address) {
    __tsan_acquire(address);
}
#else
static void happens_before(void *) {
}
static void happens_after(void *) {
}
#endif

[[noreturn]] static void fail(const char *sentence) {
    const ff_sim_thread *self = ff_sim_self;
    const ff_sim_block *in = &ff_sim_current;
    if (self)
        fprintf(stderr, "cudasim: block %u,%u,%u thread %u of %ux%ux%u: %s\n", in->place.x,
                in->place.y, in->place.z, self->linear, in->shape.x, in->shape.y, in->shape.z,
                sentence);
    else
        fprintf(stderr, "cudasim: %s\n", sentence);
    abort();
}

/* ---- the block that runs -------------------------------------------------------------------- */

/* One launch at a time has it. A warp's lanes: `present` have not returned, `waiting` are at a warp
 * barrier, each with its mask; `passed` may continue. */
struct warp {
    unsigned present;
    unsigned waiting, passed;
    unsigned mask[32];
    uint64_t slot[3][32]; /* exchanged values: even and odd exchanges of the whole warp; others */
};

static struct {
    unsigned threads;
    void (*body)(const void *context);
    const void *context;
    unsigned returned, counted;
    unsigned arrived;            /* at the block's barrier */
    unsigned passed;             /* barriers so far */
    char begins, ends, turns[2]; /* addresses for ThreadSanitizer */
    warp warps[WARPS_MOST];
} block;

static warp *own_warp(void) {
    return &block.warps[ff_sim_self->linear / 32];
}

/* Whether everyone that the lane's barrier is for has come; then they all pass. */
static bool warp_complete(warp *w, unsigned lane) {
    const unsigned need = w->mask[lane] & w->present;
    if ((w->waiting & need) != need) return false;
    for (unsigned i = 0; i < 32; i++)
        if ((need >> i & 1) && w->mask[i] != w->mask[lane]) return false;
    w->waiting &= ~need;
    w->passed |= need;
    return true;
}

static void warp_arrive(warp *w, unsigned lane, unsigned mask) {
    if (!(mask >> lane & 1)) fail("a lane that is not in its own mask is at a warp barrier");
    w->mask[lane] = mask;
    w->waiting |= 1u << lane;
    warp_complete(w, lane);
}

static void warp_return(warp *w, unsigned lane) {
    w->present &= ~(1u << lane);
    for (unsigned i = 0; w->waiting && i < 32; i++)
        if (w->waiting >> i & 1) warp_complete(w, i);
}

static void prepare_block(void) {
    block.returned = 0;
    block.arrived = 0;
    for (unsigned i = 0; i * 32 < block.threads; i++) {
        unsigned lanes = block.threads - i * 32;
        block.warps[i].present = lanes < 32 ? (1u << lanes) - 1 : 0xffffffffu;
        block.warps[i].waiting = block.warps[i].passed = 0;
    }
}

/* ---- fibers --------------------------------------------------------------------------------- */

enum thread_state : uint8_t { READY, AT_BARRIER, AT_WARP_BARRIER, DONE };

/* A thread has a fiber from when it begins until it returns, and then leaves it to the next one
 * that begins: where none waits, all run on one stack. ThreadSanitizer takes what a fiber does for
 * ordered, so there each thread keeps its own. */
static struct {
    ff_sim_thread self[THREADS_MOST];
    ff_fiber *fiber[THREADS_MOST];
    thread_state state[THREADS_MOST];
} threads;
static ff_fiber *idle[THREADS_MOST]; /* they run no thread */
static unsigned idle_count;
static uint32_t random_state = 2463534242u;

/* Between any two barriers every thread that is ready runs once, in this order. */
static struct {
    uint16_t order[THREADS_MOST];
    unsigned at, ran;
    unsigned running;
} turn;

/* G. Marsaglia's xorshift32. */
static uint32_t random_below(uint32_t count) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return (uint32_t)((uint64_t)random_state * count >> 32);
}

/* Not inlined into a fiber, which host threads take turns to run: the compiler could keep where
 * ff_sim_self is. */
__attribute__((noinline)) static void set_running(unsigned thread) {
    turn.running = thread;
    ff_sim_self = &threads.self[thread];
    turn.at++;
    turn.ran++;
}

/* Whether there is one more thread in the turn: the one at turn.at. */
static bool find_ready(void) {
    while (turn.at < block.threads && threads.state[turn.order[turn.at]] != READY) turn.at++;
    return turn.at < block.threads;
}

static void fiber_wait(thread_state state) {
    const unsigned me = turn.running;
    threads.state[me] = state;
    ff_fiber_leave(threads.fiber[me]);
}

static void fiber_main(void *) {
    for (;;) {
        const unsigned me = turn.running;
        happens_after(&block.begins);
        block.body(block.context);
        happens_before(&block.ends);
        block.returned++;
        warp_return(&block.warps[me / 32], me & 31);
#ifdef FF_SIM_TSAN
        fiber_wait(DONE);
#else
        threads.state[me] = DONE;
        ff_fiber *fiber = std::exchange(threads.fiber[me], nullptr);
        if (find_ready() && !threads.fiber[turn.order[turn.at]]) {
            threads.fiber[turn.order[turn.at]] = fiber;
            set_running(turn.order[turn.at]);
        } else {
            idle[idle_count++] = fiber;
            ff_fiber_leave(fiber);
        }
#endif
    }
}

/* Marks who may continue. */
static void release_threads(void) {
    if (block.arrived && block.arrived + block.returned == block.threads) {
        if (block.returned) fail("other threads of the block returned before a __syncthreads");
        block.arrived = 0;
        block.passed++;
        memset(threads.state, READY, block.threads);
    }
    for (unsigned i = 0; i * 32 < block.threads; i++) {
        warp *w = &block.warps[i];
        for (unsigned lane = 0; w->passed; lane++, w->passed >>= 1)
            if (w->passed & 1) threads.state[i * 32 + lane] = READY;
    }
}

static void run_turn(void) {
    for (unsigned i = block.threads - 1; i > 0; i--)
        std::swap(turn.order[i], turn.order[random_below(i + 1)]);
    turn.at = turn.ran = 0;
    while (find_ready()) {
        ff_fiber **fiber = &threads.fiber[turn.order[turn.at]];
        if (!*fiber) *fiber = idle_count ? idle[--idle_count] : ff_fiber_create(fiber_main, NULL);
        set_running(turn.order[turn.at]);
        ff_fiber_enter(*fiber);
    }
}

static void run_threads(void) {
    happens_before(&block.begins);
    while (block.returned < block.threads) {
        run_turn();
        if (turn.ran == 0) {
            for (unsigned i = 0; i < block.threads; i++)
                if (threads.state[i] != DONE) ff_sim_self = &threads.self[i];
            fail("waits at a barrier that others of its block or warp do not come to");
        }
        release_threads();
    }
    happens_after(&block.ends);
}

/* ---- barriers and exchanges ----------------------------------------------------------------- */

void ff_sim_barrier(void) {
    /* By turns: who has passed may come to the next one before others have gone on from here. */
    char *passage = &block.turns[block.passed & 1];
    happens_before(passage);
    block.arrived++;
    fiber_wait(AT_BARRIER);
    happens_after(passage);
}

void ff_sim_warp_barrier(unsigned mask) {
    warp *w = own_warp();
    happens_before(w);
    warp_arrive(w, ff_sim_self->linear & 31, mask);
    fiber_wait(AT_WARP_BARRIER);
    happens_after(w);
}

uint64_t ff_sim_exchange(unsigned mask, uint64_t value, unsigned source) {
    warp *w = own_warp();
    /* Of a whole warp, a slot is written again only after the next exchange's barrier. */
    bool whole = mask == 0xffffffffu;
    uint64_t *slot = w->slot[whole ? ff_sim_self->exchanges++ & 1 : 2];
    if (!(mask >> (source & 31) & 1)) fail("a shuffle reads a lane that is not in its mask");
    slot[ff_sim_self->linear & 31] = value;
    ff_sim_warp_barrier(mask);
    value = slot[source & 31];
    if (!whole) ff_sim_warp_barrier(mask);
    return value;
}

unsigned ff_sim_ballot(unsigned mask, bool value) {
    warp *w = own_warp();
    w->slot[2][ff_sim_self->linear & 31] = value;
    ff_sim_warp_barrier(mask);
    unsigned lanes = mask & w->present, result = 0;
    for (unsigned i = 0; i < 32; i++)
        if (lanes >> i & 1) result |= (unsigned)w->slot[2][i] << i;
    ff_sim_warp_barrier(mask);
    return result;
}

int ff_sim_barrier_count(bool value) {
    ff_sim_barrier();
    if (ff_sim_self->linear == 0) block.counted = 0;
    ff_sim_barrier();
    if (value) block.counted++;
    ff_sim_barrier();
    return (int)block.counted;
}

/* ---- launches ------------------------------------------------------------------------------- */

struct launch {
    ff_sim_name name;
    dim3 grid, block;
    size_t shared_bytes;
    void (*body)(const void *context);
    void *context;
    void (*release)(void *context);
};

static std::mutex launches; /* __shared__ arrays and the block are the process's */
static std::atomic<uint64_t> launched;
static bool seeded;

static void seed_orders(void) {
    const char *seed = getenv("FF_SIM_SEED");
    if (seed && atoi(seed)) random_state = (uint32_t)atoi(seed);
    seeded = true;
}

static void prepare_threads(const launch *one, void *shared) {
    const dim3 shape = one->block;
    block.threads = shape.x * shape.y * shape.z;
    for (unsigned i = 0; i < block.threads; i++) {
        const dim3 place(i % shape.x, i / shape.x % shape.y, i / shape.x / shape.y);
        threads.self[i] = (ff_sim_thread){place, i, 0};
        turn.order[i] = (uint16_t)i;
    }
    ff_sim_current = (ff_sim_block){dim3(), shape, one->grid, shared};
}

static uint64_t blocks_of(const dim3 &grid) {
    return (uint64_t)grid.x * grid.y * grid.z;
}

static void run_block(const launch *one, uint64_t number) {
    const dim3 &grid = one->grid;
    ff_sim_current.place = dim3((unsigned)(number % grid.x), (unsigned)(number / grid.x % grid.y),
                                (unsigned)(number / grid.x / grid.y));
    memset(ff_sim_current.dynamic_shared, 0xa5, one->shared_bytes);
    for (unsigned i = 0; i < block.threads; i++) threads.self[i].exchanges = 0;
    memset(threads.state, READY, block.threads);
    prepare_block();
    run_threads();
}

/* In no particular order: from a random one on, in random steps that reach them all. */
static void run_all(const launch *one) {
    uint64_t count = blocks_of(one->grid), step = 1;
    uint64_t at = random_below((uint32_t)count);
    for (int i = 0; i < 3; i++) {
        uint64_t candidate = 1 + random_below((uint32_t)count), a = count, b = candidate;
        while (b) std::swap(a %= b, b);
        if (a == 1) step = candidate;
    }
    for (uint64_t i = 0; i < count; i++, at = (at + step) % count) run_block(one, at);
}

static void run_chosen(const launch *one) {
    uint64_t chosen[FF_CUDASIM_CHOSEN];
    const unsigned grid[] = {one->grid.x, one->grid.y, one->grid.z};
    const unsigned taken = ff_cudasim_choose(one->name.file, one->name.kernel, grid, chosen);
    for (unsigned i = 0; i < taken; i++) run_block(one, chosen[i]);
}

static void run(void *context) {
    const launch *one = (const launch *)context;
    std::lock_guard<std::mutex> lock(launches);
    if (!seeded) seed_orders();
    void *shared;
    if (posix_memalign(&shared, 128, one->shared_bytes ? one->shared_bytes : 1) != 0)
        fail("no memory for shared memory");
    ff_sim_thread *outside = ff_sim_self;
    prepare_threads(one, shared);
    block.body = one->body;
    block.context = one->context;
    if (ff_cudasim_choose)
        run_chosen(one);
    else
        run_all(one);
    ff_sim_self = outside;
    free(shared);
    launched++;
}

static void release(void *context) {
    launch *one = (launch *)context;
    one->release(one->context);
    delete one;
}

/* What cudaFuncSetAttribute was called with. */
static struct {
    const void *kernel;
    size_t bytes;
} asked[KERNELS_MOST];

static size_t asked_of(const void *kernel) {
    std::lock_guard<std::mutex> lock(launches);
    size_t bytes = 0;
    for (unsigned i = 0; i < KERNELS_MOST && asked[i].kernel; i++)
        if (asked[i].kernel == kernel) bytes = asked[i].bytes;
    return bytes;
}

int ff_sim_ask_shared(const void *kernel, int bytes) {
    std::lock_guard<std::mutex> lock(launches);
    unsigned i = 0;
    while (i < KERNELS_MOST - 1 && asked[i].kernel && asked[i].kernel != kernel) i++;
    asked[i] = {kernel, (size_t)bytes};
    return bytes <= SHARED_MOST ? cudaSuccess : cudaErrorInvalidValue;
}

/* An ff_sim_call begins with it. */
static const void *kernel_of(const launch *one) {
    return *(const void *const *)one->context;
}

static bool valid(const launch *one) {
    const dim3 &grid = one->grid, &shape = one->block;
    uint64_t count = (uint64_t)shape.x * shape.y * shape.z;
    uint64_t blocks = blocks_of(grid), most = ff_cudasim_choose ? UINT64_MAX : 1u << 31;
    return count > 0 && count <= THREADS_MOST && shape.z <= 64 && blocks > 0 &&
           grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535 && blocks < most &&
           (one->shared_bytes <= SHARED_UNASKED || one->shared_bytes <= asked_of(kernel_of(one)));
}

int ff_sim_enqueue(ff_sim_name name, dim3 grid, dim3 shape, size_t shared_bytes, void *stream,
                   void (*body)(const void *context), void *context,
                   void (*release_context)(void *context)) {
    launch *one = new launch{name, grid, shape, shared_bytes, body, context, release_context};
    int status = INVALID_CONFIGURATION;
    if (!valid(one)) {
        release(one);
    } else if (stream && ff_cudasim_enqueue) {
        status = ff_cudasim_enqueue(stream, run, one, release);
    } else {
        run(one);
        release(one);
        status = 0;
    }
    return status;
}

ff_cudasim_launch ff_cudasim_launch_of(const void *context) {
    const launch *one = (const launch *)context;
    const dim3 &grid = one->grid, &shape = one->block;
    return {kernel_of(one),
            {grid.x, grid.y, grid.z},
            {shape.x, shape.y, shape.z},
            one->shared_bytes,
            asked_of(kernel_of(one))};
}

uint64_t ff_cudasim_launches(void) {
    return launched;
}
