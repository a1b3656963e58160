/* A stand-in for CUDA's execution model, for tests: the text of a .cu file, compiled as C++, runs
 * on the CPU. It is slow, but compilers and sanitizers see everything. A launch runs its blocks one
 * after another, or only chosen blocks (ff_cudasim_choose). The launches of a process also run one
 * after another, because a static __shared__ array is one object of the process. The threads of a
 * block are fibers, which run one at a time, in a new random order between any two barriers, each
 * until it has to wait. AddressSanitizer checks every bound, also of shared memory.
 * UndefinedBehaviorSanitizer finds every 16-byte access that is not aligned. ThreadSanitizer, which
 * sees the fibers as threads ordered only by barriers, finds every race between them: a missing
 * barrier. Environment: FF_SIM_SEED=n seeds the orders.
 *
 * A barrier that some threads of the block (for a warp barrier or shuffle: of its mask) never reach
 * ends the process with a message. Not detected: races between blocks, inline PTX. Compile with
 * -ffp-contract=off, as kernels whose bits matter are with -fmad=false. */
#ifndef FF_CUDA_SIM_H
#define FF_CUDA_SIM_H

#include "cudasim.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tuple>
#include <utility>

/* ---- the language --------------------------------------------------------------------------- */

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __restrict__ __restrict
#define __align__(n) alignas(n)
#define __shared__   static
#define __launch_bounds__(...)

#define FF_SIM_PAIR(name, type, bytes)                                                             \
    struct alignas(bytes) name {                                                                   \
        type x, y;                                                                                 \
    };                                                                                             \
    static inline name make_##name(type x, type y) {                                               \
        return name{x, y};                                                                         \
    }
#define FF_SIM_FOUR(name, type, bytes)                                                             \
    struct alignas(bytes) name {                                                                   \
        type x, y, z, w;                                                                           \
    };                                                                                             \
    static inline name make_##name(type x, type y, type z, type w) {                               \
        return name{x, y, z, w};                                                                   \
    }
FF_SIM_PAIR(uchar2, unsigned char, 2)
FF_SIM_PAIR(ushort2, unsigned short, 4)
FF_SIM_PAIR(int2, int, 8)
FF_SIM_PAIR(uint2, unsigned, 8)
FF_SIM_PAIR(float2, float, 8)
FF_SIM_PAIR(double2, double, 16)
FF_SIM_FOUR(uchar4, unsigned char, 4)
FF_SIM_FOUR(ushort4, unsigned short, 8)
FF_SIM_FOUR(int4, int, 16)
FF_SIM_FOUR(uint4, unsigned, 16)
FF_SIM_FOUR(float4, float, 16)
#undef FF_SIM_PAIR
#undef FF_SIM_FOUR

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {
    }
};

#include "cuda_sim_half.h"

/* ---- a thread of a block -------------------------------------------------------------------- */

struct ff_sim_thread {
    dim3 place;
    unsigned linear;    /* in its block */
    unsigned exchanges; /* shuffles so far */
};
extern thread_local ff_sim_thread *ff_sim_self;
/* One block at a time runs in a process. */
struct ff_sim_block {
    dim3 place, shape, grid;
    void *dynamic_shared;
};
extern ff_sim_block ff_sim_current;

#define threadIdx (ff_sim_self->place)
#define blockIdx  (ff_sim_current.place)
#define blockDim  (ff_sim_current.shape)
#define gridDim   (ff_sim_current.grid)
enum { warpSize = 32 };

static inline void *ff_sim_dynamic_shared(void) {
    return ff_sim_current.dynamic_shared;
}

/* ---- barriers and exchanges ----------------------------------------------------------------- */

void ff_sim_barrier(void);
void ff_sim_warp_barrier(unsigned mask);
/* Every lane of `mask` passes a value; the result is the value of lane `source`. */
uint64_t ff_sim_exchange(unsigned mask, uint64_t value, unsigned source);
unsigned ff_sim_ballot(unsigned mask, bool value);
/* The number of threads of the block that passed true. */
int ff_sim_barrier_count(bool value);

static inline void __syncthreads(void) {
    ff_sim_barrier();
}
static inline int __syncthreads_count(int value) {
    return ff_sim_barrier_count(value != 0);
}
static inline int __syncthreads_or(int value) {
    return ff_sim_barrier_count(value != 0) > 0;
}
static inline int __syncthreads_and(int value) {
    return ff_sim_barrier_count(value == 0) == 0;
}
static inline void __syncwarp(unsigned mask = 0xffffffffu) {
    ff_sim_warp_barrier(mask);
}
static inline unsigned __ballot_sync(unsigned mask, int value) {
    return ff_sim_ballot(mask, value != 0);
}
static inline int __any_sync(unsigned mask, int value) {
    return ff_sim_ballot(mask, value != 0) != 0;
}
static inline int __all_sync(unsigned mask, int value) {
    return ff_sim_ballot(mask, value == 0) == 0;
}

static inline unsigned ff_sim_lane(void) {
    return ff_sim_self->linear & 31;
}
template <typename T> static inline T ff_sim_shuffle(unsigned mask, T value, unsigned source) {
    static_assert(sizeof value <= 8, "a shuffle moves up to 8 bytes");
    uint64_t bits = 0;
    memcpy((void *)&bits, (const void *)&value, sizeof value);
    bits = ff_sim_exchange(mask, bits, source);
    memcpy((void *)&value, (const void *)&bits, sizeof value);
    return value;
}
/* For lanes outside the segment of `width` the result is the lane's own value, as in hardware. */
template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
    unsigned first = ff_sim_lane() & ~(unsigned)(width - 1);
    return ff_sim_shuffle(mask, value, first + ((unsigned)source & (unsigned)(width - 1)));
}
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int change, int width = 32) {
    unsigned lane = ff_sim_lane(), source = lane ^ (unsigned)change;
    unsigned end = (lane & ~(unsigned)(width - 1)) + (unsigned)width;
    return ff_sim_shuffle(mask, value, source < end ? source : lane);
}
template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    unsigned lane = ff_sim_lane(), end = (lane & ~(unsigned)(width - 1)) + (unsigned)width;
    return ff_sim_shuffle(mask, value, lane + delta < end ? lane + delta : lane);
}
template <typename T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
    unsigned lane = ff_sim_lane(), first = lane & ~(unsigned)(width - 1);
    return ff_sim_shuffle(mask, value, lane >= first + delta ? lane - delta : lane);
}

/* Relaxed, as CUDA's are. */
template <typename T> static inline T atomicAdd(T *at, T value) {
    static_assert((T)0.5 == 0, "sums of floats in no fixed order are not deterministic");
    return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
template <typename T> static inline T atomicOr(T *at, T value) {
    return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}
template <typename T> static inline T atomicExch(T *at, T value) {
    return __atomic_exchange_n(at, value, __ATOMIC_RELAXED);
}
template <typename T> static inline T atomicMax(T *at, T value) {
    T old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (old < value && !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED)) {
    }
    return old;
}
static inline void __threadfence(void) {
}
static inline void __threadfence_block(void) {
}

/* ---- memory --------------------------------------------------------------------------------- */

template <typename T> static inline T __ldg(const T *at) {
    return *at;
}
template <typename T> static inline T __ldcs(const T *at) {
    return *at;
}
template <typename T> static inline T __ldcg(const T *at) {
    return *at;
}
template <typename T> static inline void __stcs(T *at, T value) {
    *at = value;
}
template <typename T> static inline void __stcg(T *at, T value) {
    *at = value;
}

/* ---- integers and floats -------------------------------------------------------------------- */

static inline unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((uint64_t)a * b >> 32);
}
static inline int __popc(unsigned value) {
    return __builtin_popcount(value);
}
static inline int __clz(int value) {
    return value ? __builtin_clz((unsigned)value) : 32;
}
static inline int __clzll(long long value) {
    return value ? __builtin_clzll((unsigned long long)value) : 64;
}
static inline int __ffs(int value) {
    return __builtin_ffs(value);
}
/* Four bytes out of the eight of b:a, each chosen by a nibble of `selector`. */
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    uint64_t bytes = (uint64_t)b << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned nibble = selector >> 4 * i & 15, byte = bytes >> 8 * (nibble & 7) & 255;
        if (nibble & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}
/* The low word of high:low shifted right by 0 to 31. */
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}

#define FF_SIM_MIN_MAX(type)                                                                       \
    static inline type min(type a, type b) {                                                       \
        return b < a ? b : a;                                                                      \
    }                                                                                              \
    static inline type max(type a, type b) {                                                       \
        return a < b ? b : a;                                                                      \
    }
FF_SIM_MIN_MAX(int)
FF_SIM_MIN_MAX(unsigned)
FF_SIM_MIN_MAX(long)
FF_SIM_MIN_MAX(unsigned long)
FF_SIM_MIN_MAX(long long)
FF_SIM_MIN_MAX(unsigned long long)
#undef FF_SIM_MIN_MAX
static inline float min(float a, float b) {
    return fminf(a, b);
}
static inline float max(float a, float b) {
    return fmaxf(a, b);
}

static inline float __fadd_rn(float a, float b) {
    return a + b;
}
static inline float __fsub_rn(float a, float b) {
    return a - b;
}
static inline float __fmul_rn(float a, float b) {
    return a * b;
}
static inline float __fdiv_rn(float a, float b) {
    return a / b;
}
static inline float __fmaf_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}
static inline float __frcp_rn(float a) {
    return 1.0f / a;
}
static inline float __fsqrt_rn(float a) {
    return sqrtf(a);
}
static inline float __fdividef(float a, float b) {
    return a / b;
}
static inline float rsqrtf(float a) {
    return 1.0f / sqrtf(a);
}
/* The C library declares some of these names. */
#define __expf  expf
#define __logf  logf
#define __log2f log2f
#define __powf  powf
#define __sinf  sinf
#define __cosf  cosf
static inline float __saturatef(float a) {
    return a > 0.0f ? a < 1.0f ? a : 1.0f : 0.0f;
}
static inline int __float2int_rn(float a) {
    return (int)nearbyintf(a);
}
static inline unsigned __float2uint_rn(float a) {
    return (unsigned)nearbyintf(a);
}

/* ---- launching ------------------------------------------------------------------------------ */

typedef int cudaError_t;
enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8
};
int ff_sim_ask_shared(const void *kernel, int bytes);
template <typename Kernel>
static inline cudaError_t cudaFuncSetAttribute(Kernel *kernel, int, int bytes) {
    return ff_sim_ask_shared((const void *)kernel, bytes);
}

/* FF_LAUNCH's place and first argument. */
struct ff_sim_name {
    const char *file, *kernel;
};

/* Checks the shape as CUDA does (error 9), and enqueues the work or runs it immediately. Takes over
 * `context`. */
int ff_sim_enqueue(ff_sim_name name, dim3 grid, dim3 block, size_t shared_bytes, void *stream,
                   void (*body)(const void *context), void *context,
                   void (*release)(void *context));

template <typename... Parameters> struct ff_sim_call {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> parameters;

    static void run(const void *context) {
        const ff_sim_call *call = (const ff_sim_call *)context;
        std::apply(call->kernel, call->parameters);
    }
    static void release(void *context) {
        delete (ff_sim_call *)context;
    }
};

template <typename... Parameters, typename... Arguments>
static inline int ff_sim_launch(ff_sim_name name, void (*kernel)(Parameters...), dim3 grid,
                                dim3 block, size_t shared_bytes, void *stream,
                                Arguments... arguments) {
    typedef ff_sim_call<Parameters...> call;
    return ff_sim_enqueue(
        name, grid, block, shared_bytes, stream, call::run,
        new call{kernel, std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)},
        call::release);
}

#endif
