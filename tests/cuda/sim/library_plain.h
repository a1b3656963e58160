/* The library table (train/compute/cuda/library.h) by plain loops, run in stream order on the host:
 * it tests the whole GPU step without a GPU, and cuDNN is compared with it on one. Sums are double,
 * rounded once to the storage type. If it may time engines, it returns made-up times: fused graphs
 * take as long as their convolutions, numbers of channels that are not multiples of 8 take
 * longer. */
#ifndef FF_TESTS_LIBRARY_PLAIN_H
#define FF_TESTS_LIBRARY_PLAIN_H

#include "train/compute/cuda/library.h"

/* With every fused graph. */
extern const ff_library_table ff_library_plain;
/* Without fused graphs: conv_create returns none for each, so that the caller's separate operations
 * are tested. */
extern const ff_library_table ff_library_plain_pieces;
/* As ff_library_plain, but statistics and the sums of a norm's backward pass are over values before
 * they are rounded to the storage type, as some of cuDNN's engines do. */
extern const ff_library_table ff_library_plain_unrounded;

#endif
