/* The weights in what a training program saved: a dict of tensors by name, or a part of a dict of
 * many things.
 *
 * Thread rule: one thread at a time. */
#ifndef FF_TRAIN_TORCH_STATE_DICT_H
#define FF_TRAIN_TORCH_STATE_DICT_H

#include "train/checkpoint/torch/pickle.h"

typedef struct ff_state_dict {
    char *part;              /* "model", "state_dict"; NULL = the file is the state_dict */
    char **name;             /* [count], as the file has them */
    ff_torch_tensor *tensor; /* [count] */
    size_t count;
} ff_state_dict;

/* Finds it in the pickle's object; average: that of the average of the weights. `path` is for
 * messages. FF_BAD_DATA, FF_USAGE say what there is; `state` is empty before, and the caller frees
 * it in any case. */
FF_MUST_USE ff_status ff_state_dict_find(ff_state_dict *state, ff_pickle *pickle, const char *path,
                                         bool average, ff_error *error);
void ff_state_dict_free(ff_state_dict *state);

#endif
