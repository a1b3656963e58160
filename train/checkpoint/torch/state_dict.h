/* The weights in a file that a training program saved: either the whole object is a dict of tensors
 * by name, or one entry of a larger dict is.
 *
 * Thread rule: one thread at a time. */
#ifndef FF_TRAIN_TORCH_STATE_DICT_H
#define FF_TRAIN_TORCH_STATE_DICT_H

#include "train/checkpoint/torch/pickle.h"

typedef struct ff_state_dict {
    char *part;              /* "model", "state_dict"; NULL = the file is the state_dict */
    char **name;             /* [count], as in the file */
    ff_torch_tensor *tensor; /* [count] */
    size_t count;
} ff_state_dict;

/* Finds the weights in the pickle's object; average: the average of the weights instead. `path` is
 * for messages. FF_BAD_DATA and FF_USAGE report what the file holds. `state` is empty before the
 * call; the caller frees it also after a failure. */
FF_MUST_USE ff_status ff_state_dict_find(ff_state_dict *state, ff_pickle *pickle, const char *path,
                                         bool average, ff_error *error);
void ff_state_dict_free(ff_state_dict *state);

#endif
