/* Weights as PyTorch's torch.save writes them (torch/serialization.py):
 *
 *   since 1.6   a zip: NAME/data.pkl is a pickle whose tensors name storages, NAME/data/KEY are the
 *               storages' bytes, stored as they are; NAME/byteorder is "little"
 *   before      four pickles: a magic number, the protocol, the system, the object; a fifth, the
 *               list of the storages' keys; then the storages in this order, each as a u64 count
 *               of elements and the bytes
 *
 * The pickle is read, never executed (torch/pickle.h). Training programs save a dict of many
 * things; one entry, under one of the usual names, holds the weights (ff_torch_part). ff_torch_read
 * reads a tensor's bytes from the file, once.
 *
 * Thread rule: an object belongs to one thread at a time. */
#ifndef FF_TRAIN_TORCH_H
#define FF_TRAIN_TORCH_H

#include "format/weights/safetensors.h"

enum { FF_TORCH_HEAD_BYTES = 512 };

typedef struct ff_torch ff_torch;

/* Whether a file that begins with `head` is for this reader, even if it is then refused: a zip, a
 * pickle, a tar. */
bool ff_torch_begins(const uint8_t *head, size_t bytes);

/* average: read the exponential moving average that some training programs save in addition to the
 * weights; FF_USAGE if the file has no average. FF_BAD_DATA reports what in the file is wrong or
 * refused or, if no weights are found, what the file holds; FF_IO, FF_NO_MEMORY. On failure *file =
 * NULL. */
FF_MUST_USE ff_status ff_torch_open(ff_torch **file, const char *path, bool average,
                                    ff_error *error);
void ff_torch_close(ff_torch **file); /* NULL is accepted */

/* A tensor in the order of the state_dict, without offsets; NULL past the last. */
const ff_safetensor *ff_torch_at(const ff_torch *file, size_t index);
/* The name of the entry that holds the tensors, as "model"; "" if the whole file is the
 * state_dict. */
const char *ff_torch_part(const ff_torch *file);
/* Reads a tensor's elements in the stored type, in row-major order, [tensor->bytes]. FF_BAD_DATA if
 * the bytes of its storage differ from their checksum. */
FF_MUST_USE ff_status ff_torch_read(ff_torch *file, const ff_safetensor *tensor, void *to,
                                    ff_error *error);

#endif
