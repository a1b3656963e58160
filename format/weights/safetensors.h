/* Room format/weights, floor 3: what training leaves for other programs.
 *
 * This header reads and writes named tensors, trained.h finds the weights in a folder of a run.
 *
 * May include format/base, format/disk.
 *
 * Files of named tensors in the format safetensors (https://github.com/huggingface/safetensors,
 * "Format"):
 *
 *   | u64 N, little-endian | N bytes of JSON | the tensors' bytes, one after another |
 *   {"NAME": {"dtype": "F32", "shape": [64, 3, 7, 7], "data_offsets": [begin, end]}, ...,
 *    "__metadata__": {"KEY": "TEXT", ...}}
 *
 * Offsets count from the end of the JSON, and cover every byte once, in any order of names;
 * elements are little-endian, in row-major order. Every number of a file is checked before it is
 * used.
 *
 * Thread rule: one thread at a time uses an object. */
#ifndef FF_FORMAT_SAFETENSORS_H
#define FF_FORMAT_SAFETENSORS_H

#include "format/base/memory.h"
#include "format/disk/dtype.h"

#define FF_SAFETENSORS_HEADER_LIMIT 100000000u /* bytes of JSON; the format's own limit */
enum { FF_SAFETENSORS_RANK = 8 };              /* the largest rank that is read */

typedef struct ff_safetensor {
    const char *name; /* valid as long as its file */
    char type[8];     /* "F32", "BF16", "I64", "F64", "F8_E4M3", ... */
    ff_dtype dtype;   /* FF_DTYPE_COUNT if we have no such type */
    int rank;
    uint64_t shape[FF_SAFETENSORS_RANK];
    uint64_t count;         /* elements */
    uint64_t offset, bytes; /* in the file */
} ff_safetensor;

typedef struct ff_safetensors ff_safetensors;

/* FF_IO, FF_NO_MEMORY; FF_BAD_DATA states what in the file is wrong, and where. On failure *file =
 * NULL. */
FF_MUST_USE ff_status ff_safetensors_open(ff_safetensors **file, const char *path, ff_error *error);
void ff_safetensors_close(ff_safetensors **file); /* NULL is accepted */

/* The tensors in the order of their bytes; NULL past the last. */
const ff_safetensor *ff_safetensors_at(const ff_safetensors *file, size_t index);
const ff_safetensor *ff_safetensors_find(const ff_safetensors *file, const char *name);
/* A text of the metadata; NULL if it has no such key. */
const char *ff_safetensors_text(const ff_safetensors *file, const char *key);
const char *ff_safetensors_path(const ff_safetensors *file);

/* Reads a tensor's bytes unchanged, [tensor->bytes]. FF_BAD_DATA if the file ends before. */
FF_MUST_USE ff_status ff_safetensors_read(const ff_safetensors *file, const ff_safetensor *tensor,
                                          void *to, ff_error *error);

/* ---- writing ---- */

/* A tensor to be written; the caller keeps its bytes. */
typedef struct ff_safetensors_entry {
    const char *name;
    ff_dtype dtype;
    int rank;
    int64_t shape[4];
    const void *values;
} ff_safetensors_entry;

/* A key of the metadata with its text, UTF-8. */
typedef struct ff_safetensors_fact {
    const char *key, *text;
} ff_safetensors_fact;

struct ff_file;
/* Appends a whole file of these tensors, in their order, to an empty ff_file. id: XXH3-128 of its
 * bytes (format/disk/checksum.h); NULL = not wanted. */
FF_MUST_USE ff_status ff_safetensors_write(struct ff_file *file,
                                           const ff_safetensors_entry *entries, size_t count,
                                           const ff_safetensors_fact *facts, size_t fact_count,
                                           uint8_t id[16], ff_error *error);

#endif
