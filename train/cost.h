/* What a training step on a GPU has to do, counted from its plan: bytes read and written in device
 * memory, floating-point operations, and pieces of work (kernels and copies) given to the stream.
 * With a card's limits (card.h) it says how long each part should take, so that a measurement
 * (profile.h) shows at once which one is off. Nothing runs for it, and the card need not be here.
 *
 * How it is counted: the plan and the update give their work to a compute table that does nothing
 * but add up (cost_count.c), so the order, the fusions and the shapes are those of the plan itself;
 * what each entry costs is what train/cuda does for it: padded channels included, every array once
 * a kernel, also where it may still be in the L2 cache; a convolution or a matrix product as one
 * kernel, whatever the engine makes of it. Elementwise arithmetic is a rough number. */
#ifndef FF_TRAIN_COST_H
#define FF_TRAIN_COST_H

#include "format/metadata.h"
#include "loader/augment/augment.h"
#include "train/card.h"
#include "train/plan.h"

#include <stdio.h>

typedef enum ff_cost_pass {
    FF_COST_BATCH, /* what makes the batch of a resident set */
    FF_COST_FORWARD,
    FF_COST_LOSS,
    FF_COST_BACKWARD,
    FF_COST_UPDATE,
    FF_COST_PASSES
} ff_cost_pass;
const char *ff_cost_pass_name(ff_cost_pass pass);

/* A kernel, or several that are alike; of ff_work of a row. */
typedef struct ff_cost_piece {
    double bytes;                   /* read and written */
    double matrix_flops, f32_flops; /* of matrix products in the net's precision; others */
    ff_precision precision;         /* of the matrix products */
    int nodes;                      /* kernels and copies */
} ff_cost_piece;

/* An operation of a pass: pieces[first, first + count) of the list. */
typedef struct ff_cost_row {
    ff_cost_pass pass;
    ff_mark mark; /* where it begins, and of which operation; of BATCH not looked at */
    int op;
    char layer[64]; /* "layer1.0.conv1"; of the update empty */
    char what[96];  /* "conv 3x3, sums for the norm" */
    size_t first, count;
} ff_cost_row;

typedef struct ff_costs {
    ff_cost_row *rows; /* in the order in which a step does them */
    size_t row_count;
    ff_cost_piece *pieces;
    size_t piece_count;
    int samples; /* of a step */
    /* the rest is private */
    size_t row_capacity, piece_capacity;
} ff_costs;

typedef struct ff_cost_options {
    /* The set that batches are made of, and how; NULL = they are there. */
    const ff_metadata *metadata;
    const ff_augment_spec *augment;
} ff_cost_options;

/* Counts a step of a training plan whose model has its groups, on the CUDA compute table. The
 * caller frees; on failure there is nothing to free. FF_NO_MEMORY, FF_USAGE for a plan of another
 * table. Thread rule: the model's thread. */
FF_MUST_USE ff_status ff_costs_count(ff_costs *costs, ff_plan *plan, const ff_cost_options *options,
                                     ff_error *error);
void ff_costs_free(ff_costs *costs);

/* The pieces of a row, and of all rows of a pass (FF_COST_PASSES: of the step), as one;
 * its precision is not looked at. */
ff_cost_piece ff_cost_of_row(const ff_costs *costs, const ff_cost_row *row);
ff_cost_piece ff_cost_of_pass(const ff_costs *costs, ff_cost_pass pass);

/* Microseconds at `share` of the card's limits (0.8): each piece takes as long as the slowest of
 * its bytes, its operations, and its nodes at FF_CARD_NODE_US each; a row is the sum. An estimate:
 * kernels do not overlap, caches hold nothing from one to the next, and a kernel may be as short as
 * a node. So Muon's row, small kernels one after another, takes longer than it says where its banks
 * are one chain, and may take less where they run beside each other. 0 where the card's limits are
 * not known. */
double ff_cost_row_us(const ff_costs *costs, const ff_cost_row *row, const ff_card *card,
                      double share);
double ff_cost_pass_us(const ff_costs *costs, ff_cost_pass pass, const ff_card *card, double share);

/* A few lines: a pass each, and the whole step, with samples a second. */
void ff_costs_print(FILE *out, const ff_costs *costs, const ff_card *card);

/* ---- for cost_count.c and cost_update.c ---- */

/* Appends the rows of the passes that a compute table has: forward, loss, backward, update. */
FF_MUST_USE ff_status ff_cost_count_step(ff_costs *costs, ff_plan *plan, ff_error *error);
FF_MUST_USE ff_status ff_cost_add_row(ff_costs *costs, const ff_cost_row *row, ff_error *error);
/* To the last row. */
FF_MUST_USE ff_status ff_cost_add_piece(ff_costs *costs, const ff_cost_piece *piece,
                                        ff_error *error);

#endif
