/* Room train/predict, floor 15: how a run would perform on more or other machines.
 *
 * trainer_cost.c has the estimated and measured times of a trainer's step. predict.c computes from
 * these times how long a step takes on N ranks over a network. This header prints the prediction
 * for --world. balance.c uses measured speeds to share a batch among unequal ranks.
 *
 * May include format, train/comm/job, train/cost, train/machine, train/net, train/step,
 * train/trainer.
 *
 * fftrain --dry-run --world N --net NAME: how long a step takes on N devices like this one
 * (predict.h). The times of a rank's micro-batch are measured here or, for a planned GPU, estimated
 * from its limits (cost.h). */
#ifndef FF_TRAIN_WORLD_H
#define FF_TRAIN_WORLD_H

#include "train/machine/card.h"
#include "train/predict/predict.h"
#include "train/trainer/trainer.h"

#include <jansson.h>
#include <stdio.h>

typedef struct ff_world {
    int ranks;
    ff_net net;
    int64_t batch; /* over all ranks */
    int64_t share; /* samples per step of the rank with the most */
    bool estimated;
    bool narrow;         /* gradients are already sent in 16 bits */
    ff_rank_times times; /* the struct owns its buckets */
    ff_prediction step;
    double one_device_s; /* a step of one device with the whole batch */
} ff_world;

/* Predicts for the trainer's batch. card: of a planned GPU; NULL = measures a rank's step for some
 * seconds, with a trainer of its own. The caller frees with ff_world_free. FF_USAGE for more ranks
 * than samples, or a planned GPU whose limits are unknown; the errors of a trainer and of
 * ff_net_open. */
FF_MUST_USE ff_status ff_world_predict(ff_world *world, const ff_trainer *trainer, int64_t ranks,
                                       const char *net, const ff_card *card, ff_error *error);
void ff_world_free(ff_world *world);

/* Prints the prediction, the bottleneck, and what would help. */
void ff_world_print(FILE *out, const ff_world *world);
/* NULL: out of memory. */
json_t *ff_world_json(const ff_world *world);

#endif
