/* The library table (train/cuda/library.h) by plain loops, run in stream order on the host: what
 * the whole GPU step is tested with where there is no GPU, and what cuDNN is compared with where
 * there is one. Sums are double, rounded once to the storage type. */
#ifndef FF_TESTS_LIBRARY_PLAIN_H
#define FF_TESTS_LIBRARY_PLAIN_H

#include "train/cuda/library.h"

/* Every fused graph there is. */
extern const ff_library_table ff_library_plain;
/* None: conv_create answers "none" for each, so that the caller's pieces are tested. */
extern const ff_library_table ff_library_plain_pieces;

#endif
