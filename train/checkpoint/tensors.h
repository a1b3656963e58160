/* The tensors of a file of weights, a safetensors file (safetensors.h) or one that torch.save wrote
 * (torch/torch.h).
 *
 * Thread rule: an object belongs to one thread at a time. */
#ifndef FF_TRAIN_TENSORS_H
#define FF_TRAIN_TENSORS_H

#include "format/weights/safetensors.h"

typedef struct ff_tensors ff_tensors;

/* average: which weights of a PyTorch file, as for ff_torch_open. FF_BAD_DATA reports what in the
 * file is wrong, and where; FF_USAGE, FF_IO, FF_NO_MEMORY. On failure *file = NULL. */
FF_MUST_USE ff_status ff_tensors_open(ff_tensors **file, const char *path, bool average,
                                      ff_error *error);
void ff_tensors_close(ff_tensors **file); /* NULL is accepted */

/* A tensor in the file's order; NULL past the last. Valid as long as the file. */
const ff_safetensor *ff_tensors_at(const ff_tensors *file, size_t index);
const ff_safetensor *ff_tensors_find(const ff_tensors *file, const char *name);
/* A text of a safetensors file's metadata; NULL without such a key. */
const char *ff_tensors_text(const ff_tensors *file, const char *key);
const char *ff_tensors_path(const ff_tensors *file);
/* Whether PyTorch wrote the file; and the name of the entry that holds the tensors in such a file,
 * as "model", else "". */
bool ff_tensors_of_torch(const ff_tensors *file);
const char *ff_tensors_part(const ff_tensors *file);

/* Reads a tensor's elements as they are stored, [tensor->bytes]; or as f32, from F32, F16, BF16 and
 * F64 (rounded to nearest even). FF_BAD_DATA if the file ends too early or its bytes differ from
 * their checksum, and for other types. */
FF_MUST_USE ff_status ff_tensors_read(ff_tensors *file, const ff_safetensor *tensor, void *to,
                                      ff_error *error);
FF_MUST_USE ff_status ff_tensors_read_f32(ff_tensors *file, const ff_safetensor *tensor, float *to,
                                          ff_error *error);

#endif
