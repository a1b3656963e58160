/* Launchers of self.cu. */
#ifndef FF_CUDASIM_SELF_H
#define FF_CUDASIM_SELF_H

#include "loader/cuda/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FF_SELF_NO_BARRIER 1

/* sums[row] = sum of x[row][0..count). broken: 0, or FF_SELF_NO_BARRIER. */
int ff_self_sum(int broken, const float *x, unsigned rows, unsigned count, float *sums,
                ff_cuda_stream stream);
/* to = from reversed; correct with shared_bytes = count and shift = 0. */
int ff_self_reverse(const unsigned char *from, unsigned char *to, unsigned count,
                    unsigned shared_bytes, unsigned shift, ff_cuda_stream stream);
/* Wrong: threads return before a barrier. */
int ff_self_leave(int *out, ff_cuda_stream stream);
/* out: [5][32]. */
int ff_self_warp(unsigned *out, ff_cuda_stream stream);

#ifdef __cplusplus
}
#endif

#endif
