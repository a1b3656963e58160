/* Includes the header KERNELS four times: for blocks of 8 and 16 channels, each for the baseline
 * and for the instruction set that fits the block (vector.h). Within it LANES    channels of a
 * block;  V, M  vectors of their floats and of comparisons NAME(x)  x with the variant's ending;
 * TARGET  before every function, helpers too */
#define LANES 8
#define V     ff_v8
#define M     ff_m8
#define TARGET
#define NAME(x) x##_8_baseline
#include KERNELS
#undef TARGET
#undef NAME
#if FF_HAS_TARGETS
#define TARGET  FF_AVX2
#define NAME(x) x##_8_fast
#include KERNELS
#undef TARGET
#undef NAME
#endif
#undef LANES
#undef V
#undef M

#define LANES 16
#define V     ff_v16
#define M     ff_m16
#define TARGET
#define NAME(x) x##_16_baseline
#include KERNELS
#undef TARGET
#undef NAME
#if FF_HAS_TARGETS
#define TARGET  FF_AVX512
#define NAME(x) x##_16_fast
#include KERNELS
#undef TARGET
#undef NAME
#endif
#undef LANES
#undef V
#undef M
