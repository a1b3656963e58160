/* Weights as PyTorch's torch.save writes them (torch/serialization.py):
 *
 *   since 1.6   a zip: NAME/data.pkl is a pickle whose tensors name storages, NAME/data/KEY are the
 *               storages' bytes, stored as they are; NAME/byteorder says "little"
 *   before      four pickles: a magic number, the protocol, the system, the object; a fifth, the
 *               list of the storages' keys; then in this order u64 elements and bytes of each
 *
 * The pickle is read and nothing of it is executed (torch/pickle.h). Training programs save a dict
 * of many things: the weights are its part of one of the usual names (ff_torch_part). The bytes of
 * a tensor are read from where they lie, once, when it is asked for.
 *
 * Thread rule: an object belongs to one thread at a time. */
#ifndef FF_TRAIN_TORCH_H
#define FF_TRAIN_TORCH_H

#include "format/safetensors.h"

enum { FF_TORCH_HEAD_BYTES = 512 };

typedef struct ff_torch ff_torch;

/* Whether a file that begins with `head` is to be read here, also where it is then refused: a zip,
 * a pickle, a tar. */
bool ff_torch_begins(const uint8_t *head, size_t bytes);

/* average: the exponential moving average of the weights that training programs keep beside them;
 * FF_USAGE where there is none. FF_BAD_DATA says what in the file is wrong or refused, and where
 * weights are not found what there is; FF_IO, FF_NO_MEMORY. On failure *file = NULL. */
FF_MUST_USE ff_status ff_torch_open(ff_torch **file, const char *path, bool average,
                                    ff_error *error);
void ff_torch_close(ff_torch **file); /* NULL is accepted */

/* In the order of the state_dict, without offsets; NULL past the last. */
const ff_safetensor *ff_torch_at(const ff_torch *file, size_t index);
/* Of what they are in the file, as "model"; "" where they are all of it. */
const char *ff_torch_part(const ff_torch *file);
/* A tensor's elements as they are, in row-major order, [tensor->bytes]. FF_BAD_DATA where the bytes
 * of its storage differ from their checksum. */
FF_MUST_USE ff_status ff_torch_read(ff_torch *file, const ff_safetensor *tensor, void *to,
                                    ff_error *error);

#endif
