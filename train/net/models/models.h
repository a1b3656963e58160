/* The nets, one file each or one per family, and their table (models.c): a new net is a file and a
 * line in that table. */
#ifndef FF_TRAIN_MODELS_H
#define FF_TRAIN_MODELS_H

#include "train/net/graph.h"
#include "train/net/model.h"

typedef struct ff_net {
    const char *name;
    bool stems;            /* has the CIFAR and the IMAGENET stem; others accept AUTO only */
    double dropout;        /* the default; negative = the net has no dropout */
    double dropout_small;  /* the default with the CIFAR stem */
    const char *whitening; /* the parameter that whitening.h sets from images; NULL = no such one */
    /* Adds the layers and finishes. `options` are complete: the stem is not AUTO if the net has
     * stems, dropout is not negative if the net has dropout. */
    void (*build)(ff_graph *graph, const ff_model_options *options);
} ff_net;

/* NULL past the last. */
const ff_net *ff_net_at(int index);

#endif
