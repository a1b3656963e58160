/* Descriptors of cuDNN's graph API (cudnn_graph.h of cuDNN 9), created in sequence: the first
 * failure sticks, later calls do nothing, and ff_cudnn_result returns it at the end. cuDNN's
 * enumerations are passed as int and descriptors as void *, so that this header needs no CUDA
 * headers. Thread rule: one thread. */
#ifndef FF_TRAIN_CUDA_CUDNN_DESCRIPTOR_H
#define FF_TRAIN_CUDA_CUDNN_DESCRIPTOR_H

#include "format/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void *ff_cudnn_descriptor; /* a cudnnBackendDescriptor_t */

/* Zero-initialised; owns every descriptor made with it until the builder is released. */
typedef struct ff_cudnn_builder {
    ff_cudnn_descriptor *held;
    size_t count, capacity;
    ff_error failure; /* failure.status != FF_OK: the first failure */
} ff_cudnn_builder;

/* A new descriptor of a cudnnBackendDescriptorType_t; NULL once something has failed. */
ff_cudnn_descriptor ff_cudnn_make(ff_cudnn_builder *builder, int type);
void ff_cudnn_set(ff_cudnn_builder *builder, ff_cudnn_descriptor descriptor, int attribute,
                  int type, int64_t count, const void *values);
void ff_cudnn_set_descriptor(ff_cudnn_builder *builder, ff_cudnn_descriptor descriptor,
                             int attribute, ff_cudnn_descriptor value);
void ff_cudnn_set_int64(ff_cudnn_builder *builder, ff_cudnn_descriptor descriptor, int attribute,
                        int64_t value);
/* cudnnBackendFinalize; `what` names the descriptor in an error message. */
void ff_cudnn_finish(ff_cudnn_builder *builder, ff_cudnn_descriptor descriptor, const char *what);
/* The first failure, if any. */
FF_MUST_USE ff_status ff_cudnn_result(const ff_cudnn_builder *builder, ff_error *error);
void ff_cudnn_release(ff_cudnn_builder *builder);

/* FF_FAILED: "CALL: CUDNN_STATUS_...: cuDNN's own error message; what to do". */
ff_status ff_cudnn_fail(ff_error *error, const char *call, int status);

#endif
