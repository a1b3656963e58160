/* DLPack's structs, as far as ffload gives or takes them: what all array libraries exchange tensors
 * by. Declared after the specification of DLPack 1.1 (dmlc.github.io/dlpack/latest/c_api.html),
 * with its names, so that one program may use this header or DLPack's own, dlpack/dlpack.h: the one
 * that is included first declares them. */
#ifndef FFLOAD_DLPACK_H
#define FFLOAD_DLPACK_H

#ifndef DLPACK_DLPACK_H_ /* that of dlpack/dlpack.h */
#define DLPACK_DLPACK_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 1

/* A consumer refuses another major version; a higher minor version only adds to the enumerations.
 */
typedef struct {
    uint32_t major;
    uint32_t minor;
} DLPackVersion;

/* Where memory is. Only the kinds that ffload knows. */
typedef enum {
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3, /* pinned host memory */
} DLDeviceType;

typedef struct {
    DLDeviceType device_type;
    int32_t device_id; /* the ordinal; 0 for the host */
} DLDevice;

typedef enum {
    kDLInt = 0,
    kDLUInt = 1,
    kDLFloat = 2,
    kDLBfloat = 4,
} DLDataTypeCode;

typedef struct {
    uint8_t code;   /* a DLDataTypeCode */
    uint8_t bits;   /* of a lane: 32 for f32 */
    uint16_t lanes; /* 1: a scalar */
} DLDataType;

/* A view of memory that somebody else owns. Element (i, j, ..) is at
 * data + byte_offset + (i * strides[0] + j * strides[1] + ..) * bytes of an element. */
typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;   /* [ndim] */
    int64_t *strides; /* [ndim], in elements; NULL: rows after one another */
    uint64_t byte_offset;
} DLTensor;

/* A tensor with its owner, as it was before version 1. Whoever takes it calls
 * deleter(tensor) once when it is done; a NULL deleter needs no call. */
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx; /* the producer's */
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

#define DLPACK_FLAG_BITMASK_READ_ONLY (UINT64_C(1) << 0) /* the memory must not be written to */
#define DLPACK_FLAG_BITMASK_IS_COPIED (UINT64_C(1) << 1) /* a copy made for this exchange */

/* A tensor with its owner, from version 1 on. The first three members never move. */
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags; /* DLPACK_FLAG_BITMASK_... */
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

#ifdef __cplusplus
}
#endif

#endif
#endif
