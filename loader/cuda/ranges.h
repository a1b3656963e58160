/* Names of stages for profilers (NVTX), in the domain "fftrain": part of the module (table.h). */
#ifndef FF_LOADER_CUDA_RANGES_H
#define FF_LOADER_CUDA_RANGES_H

/* Ranges nest; push and pop must be called by the same thread. Without NVTX at build time they do
 * nothing. */
void ff_cuda_range_push(const char *name);
void ff_cuda_range_pop(void);

#endif
