/* The loader's kernels in plain C, for tests of their callers: the host's own functions, row by
 * row, on memory of the asynchronous host device, in its streams. */
#ifndef FF_CUDASIM_LOADER_PLAIN_H
#define FF_CUDASIM_LOADER_PLAIN_H

#include "loader/cuda/kernels.h"

extern const ff_loader_kernels ff_loader_plain_kernels;

#endif
