/* Kernels for the simulator's own test, correct ones and broken ones. */
#include "loader/cuda/kernel.h"

#include "self.h"

/* x: [gridDim.x][count] f32, sums: [gridDim.x]. A block sum with shuffles. */
template <int BROKEN>
static __global__ void sum_kernel(const float *__restrict__ x, unsigned count,
                                  float *__restrict__ sums) {
    __shared__ float part[32];
    float sum = 0;
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x)
        sum += x[(size_t)blockIdx.x * count + i];
    for (int change = 16; change; change /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, change);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    if (BROKEN != FF_SELF_NO_BARRIER) __syncthreads();
    if (threadIdx.x >= 32) return;
    sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    for (int change = 16; change; change /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, change);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/* Bytes reversed through dynamic shared memory, 16 at a time. count: a multiple of 16. */
static __global__ void reverse_kernel(const unsigned char *from, unsigned char *to, unsigned count,
                                      unsigned shift) {
    FF_DYNAMIC_SHARED(unsigned char, bytes);
    for (unsigned i = threadIdx.x; i < count / 16; i += blockDim.x)
        ((uint4 *)(bytes + shift))[i] = ((const uint4 *)from)[i];
    __syncthreads();
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) to[i] = bytes[count - 1 - i];
}

/* Half of the threads return before a barrier. */
static __global__ void leave_kernel(int *out) {
    if (threadIdx.x % 2) return;
    __syncthreads();
    out[threadIdx.x] = 1;
}

/* out: [5][32]: a scan by shuffles up, a broadcast within 8 lanes, a ballot, the sum over the warp
 * by atomics, and the count of odd threads. One warp. */
static __global__ void warp_kernel(unsigned *out) {
    __shared__ unsigned total;
    unsigned lane = threadIdx.x, sum = lane;
    if (lane == 0) total = 0;
    for (unsigned delta = 1; delta < 32; delta *= 2) {
        unsigned below = __shfl_up_sync(0xffffffffu, sum, delta);
        if (lane >= delta) sum += below;
    }
    out[lane] = sum;
    out[32 + lane] = __shfl_sync(0xffffffffu, lane, 3, 8);
    out[64 + lane] = __ballot_sync(0xffffffffu, lane % 3 == 0);
    __syncwarp();
    atomicAdd(&total, lane);
    __syncwarp();
    out[96 + lane] = total;
    out[128 + lane] = (unsigned)__syncthreads_count(lane & 1);
}

extern "C" int ff_self_sum(int broken, const float *x, unsigned rows, unsigned count, float *sums,
                           ff_cuda_stream stream) {
    if (broken)
        return FF_LAUNCH(sum_kernel<FF_SELF_NO_BARRIER>, rows, 128, 0, stream, x, count, sums);
    return FF_LAUNCH(sum_kernel<0>, rows, 128, 0, stream, x, count, sums);
}

extern "C" int ff_self_reverse(const unsigned char *from, unsigned char *to, unsigned count,
                               unsigned shared_bytes, unsigned shift, ff_cuda_stream stream) {
    return FF_LAUNCH(reverse_kernel, 1, 64, shared_bytes, stream, from, to, count, shift);
}

extern "C" int ff_self_leave(int *out, ff_cuda_stream stream) {
    return FF_LAUNCH(leave_kernel, 1, 64, 0, stream, out);
}

extern "C" int ff_self_warp(unsigned *out, ff_cuda_stream stream) {
    return FF_LAUNCH(warp_kernel, 1, 32, 0, stream, out);
}
