/* Matrix products of library.h by cuBLAS.
 * Thread rule: one thread, in which the device is current. */
#ifndef FF_TRAIN_CUDA_CUDNN_CUBLAS_H
#define FF_TRAIN_CUDA_CUDNN_CUBLAS_H

#include "train/compute/cuda/library.h"

typedef struct ff_cublas ff_cublas;

/* On the thread's current device. The workspace is 32 MiB, as cuBLAS recommends for compute
 * capability 9.0, and more than its default elsewhere. */
enum { FF_CUBLAS_WORKSPACE = 32 << 20 };
FF_MUST_USE ff_status ff_cublas_create(ff_cublas **cublas, ff_error *error);
void ff_cublas_destroy(ff_cublas **cublas); /* NULL is accepted */

FF_MUST_USE ff_status ff_cublas_run(ff_cublas *cublas, void *stream, const ff_library_gemm *gemm,
                                    void *workspace, ff_error *error);

#endif
