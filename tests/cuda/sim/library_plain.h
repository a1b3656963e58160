/* The library table (train/cuda/library.h) by plain loops, run in stream order on the host: what
 * the whole GPU step is tested with where there is no GPU, and what cuDNN is compared with where
 * there is one. Sums are double, rounded once to the storage type. Where it may time engines, it
 * says times of its own: fused graphs take what their convolutions take, counts of channels that
 * are no multiples of 8 take longer. */
#ifndef FF_TESTS_LIBRARY_PLAIN_H
#define FF_TESTS_LIBRARY_PLAIN_H

#include "train/cuda/library.h"

/* Every fused graph there is. */
extern const ff_library_table ff_library_plain;
/* None: conv_create answers "none" for each, so that the caller's pieces are tested. */
extern const ff_library_table ff_library_plain_pieces;

#endif
