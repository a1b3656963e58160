/* Pickles with PyTorch's tensors. Only the calls that rebuild tensors are followed
 * (torch/_utils.py). An object of any other class is skipped: nothing of it is read or run.
 *
 *   _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks[, metadata])
 *   _rebuild_parameter(tensor, requires_grad, hooks)
 *   storage: the persistent id ("storage", torch.FloatStorage, key, location, elements[, None])
 *
 * A pickle that names anything that runs programs (os.system, eval and the like) is refused.
 *
 * Thread rule: one thread at a time. */
#ifndef FF_TRAIN_TORCH_PICKLE_H
#define FF_TRAIN_TORCH_PICKLE_H

#include "format/disk/dtype.h"
#include "format/pickle/pickle.h"

enum { FF_TORCH_RANK = 8, FF_TORCH_KEY_BYTES = 64 };
#define FF_TORCH_MADE_LIMIT 262144u /* tensors and mentions of storages */

typedef struct ff_torch_type {
    const char *storage; /* "FloatStorage" */
    const char *name;    /* in safetensors: "F32" */
    ff_dtype dtype;      /* FF_DTYPE_COUNT if ff_dtype lacks the type */
    uint32_t bytes;
} ff_torch_type;

typedef struct ff_torch_storage {
    const ff_torch_type *type;
    char key[FF_TORCH_KEY_BYTES]; /* name of its bytes in the file */
    uint64_t count;               /* elements */
} ff_torch_storage;

/* A view of a storage: element i is at offset + the sum of i[k] stride[k]. All elements are inside
 * the storage. */
typedef struct ff_torch_tensor {
    ff_torch_storage of;
    uint64_t offset; /* in elements, as strides */
    int rank;
    uint64_t shape[FF_TORCH_RANK], stride[FF_TORCH_RANK];
    uint64_t count; /* elements */
    uint64_t span;  /* elements from the first to the last one; 0 if the tensor is empty */
} ff_torch_tensor;

/* Names of what was imported and skipped; owned by the caller. */
typedef struct ff_torch_names {
    char **name;
    size_t count;
} ff_torch_names;
void ff_torch_names_free(ff_torch_names *names);

/* Like ff_pickle_read. */
FF_MUST_USE ff_status ff_torch_pickle_read(ff_pickle **pickle, ff_torch_names *names,
                                           const ff_pickle_file *at, ff_error *error);

/* The tensor of a value that is an array. */
const ff_torch_tensor *ff_torch_tensor_of(const ff_pickle *pickle, ff_pickle_value value);
/* The storages that the pickle names, one for each mention; NULL past the last. */
const ff_torch_storage *ff_torch_storage_at(const ff_pickle *pickle, size_t index);
/* Copies a string of fewer than 256 bytes. FF_BAD_DATA if the value is not such a string. */
FF_MUST_USE ff_status ff_torch_key(ff_pickle *pickle, ff_pickle_value value, char text[256],
                                   ff_error *error);
/* Describes a value for messages: "an object of argparse.Namespace", "a list". `text` has 600 bytes
 * and is returned. */
const char *ff_torch_what(const ff_pickle *pickle, ff_pickle_value value, char *text, size_t size);

#endif
