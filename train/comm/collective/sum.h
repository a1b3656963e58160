/* The sum over ranks that every communicator of the host uses: the fixed tree of comm.h. Thread
 * rule: pure. */
#ifndef FF_TRAIN_COMM_SUM_H
#define FF_TRAIN_COMM_SUM_H

#include "format/disk/dtype.h"

enum { FF_COMM_RANKS_MOST = 64 }; /* in a communicator of the host */

/* to[n] = the sum of parts[count][n], of FF_F32, FF_F16 or FF_BF16. `to` may be one of the parts.
 */
void ff_comm_sum(void *to, const void *const *parts, int count, ff_dtype dtype, size_t n);

/* The beginning of the slice of `bytes` that rank `r` sums; r = size: the end. */
size_t ff_comm_slice(size_t bytes, int r, int size);

#endif
