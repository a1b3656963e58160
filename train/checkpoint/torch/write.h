/* Writes a file that torch.load reads, also with weights_only: a dict of tensors by name. */
#ifndef FF_TRAIN_TORCH_WRITE_H
#define FF_TRAIN_TORCH_WRITE_H

#include "format/weights/safetensors.h"

/* Appends these tensors (F32 and I64), in their order, to an empty ff_file. */
FF_MUST_USE ff_status ff_torch_write(struct ff_file *file, const ff_safetensors_entry *entries,
                                     size_t count, ff_error *error);

#endif
