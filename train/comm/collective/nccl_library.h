/* NCCL's functions, found in libnccl.so.2 when a run needs them (loader/cuda/libraries.h).
 *
 * The few prototypes are declared by hand (docs.nvidia.com/deeplearning/nccl, "NCCL API"), so that
 * the communicator is plain C and is built without NCCL's headers. */
#ifndef FF_TRAIN_CUDA_NCCL_LIBRARY_H
#define FF_TRAIN_CUDA_NCCL_LIBRARY_H

#include "format/base/status.h"

/* NCCL's names below are those of nccl.h with the prefix ff_. */
typedef struct ff_nccl_job *ff_ncclComm_t;
typedef struct ff_ncclUniqueId {
    char internal[128];
} ff_ncclUniqueId;

/* ncclConfig_t as in 2.14: later versions treat the missing members as not set. */
typedef struct ff_ncclConfig_t {
    size_t size;
    unsigned magic, version;
    int blocking;
} ff_ncclConfig_t;
enum { FF_NCCL_MAGIC = 0xcafebeef, FF_NCCL_CONFIG_VERSION = 21400 };

enum { FF_ncclSuccess = 0, FF_ncclInProgress = 7 }; /* ncclResult_t */
enum { FF_ncclUint8 = 1, FF_ncclFloat16 = 6, FF_ncclFloat32 = 7, FF_ncclBfloat16 = 9 };
enum { FF_ncclSum = 0 };

/* X(member, symbol, result, parameters) */
#define FF_NCCL_FUNCTIONS(X)                                                                       \
    X(version, ncclGetVersion, int, (int *version))                                                \
    X(error_string, ncclGetErrorString, const char *, (int result))                                \
    X(last_error, ncclGetLastError, const char *, (ff_ncclComm_t comm))                            \
    X(unique_id, ncclGetUniqueId, int, (ff_ncclUniqueId * id))                                     \
    X(init, ncclCommInitRankConfig, int,                                                           \
      (ff_ncclComm_t * comm, int size, ff_ncclUniqueId id, int rank, ff_ncclConfig_t *config))     \
    X(async_error, ncclCommGetAsyncError, int, (ff_ncclComm_t comm, int *result))                  \
    X(all_reduce, ncclAllReduce, int,                                                              \
      (const void *from, void *to, size_t count, int type, int operation, ff_ncclComm_t comm,      \
       void *stream))                                                                              \
    X(broadcast, ncclBroadcast, int,                                                               \
      (const void *from, void *to, size_t count, int type, int root, ff_ncclComm_t comm,           \
       void *stream))                                                                              \
    X(all_gather, ncclAllGather, int,                                                              \
      (const void *from, void *to, size_t count, int type, ff_ncclComm_t comm, void *stream))      \
    X(finalize, ncclCommFinalize, int, (ff_ncclComm_t comm))                                       \
    X(destroy, ncclCommDestroy, int, (ff_ncclComm_t comm))                                         \
    X(kill, ncclCommAbort, int, (ff_ncclComm_t comm))

typedef struct ff_nccl_library {
    int found; /* the version found: 22809 is 2.28.9 */
#define FF_NCCL_MEMBER(member, symbol, result, parameters) result(*member) parameters;
    FF_NCCL_FUNCTIONS(FF_NCCL_MEMBER)
#undef FF_NCCL_MEMBER
} ff_nccl_library;

/* The oldest accepted NCCL, numbered as by ncclGetVersion: 2.14 was the first with communicators
 * that do not block, and with ncclCommFinalize. */
enum { FF_NCCL_LEAST = 21400 };

/* FF_FAILED: NCCL is missing (with what was searched), too old, or the file is not NCCL. The
 * library stays open. */
FF_MUST_USE ff_status ff_nccl_library_open(ff_nccl_library *library, ff_error *error);

/* "2.28.9" */
typedef struct ff_nccl_version {
    char text[32];
} ff_nccl_version;
ff_nccl_version ff_nccl_version_text(int version);

#endif
