/* Room train/cost, floor 13: how long a step should take on a GPU, and how long its parts take.
 *
 * This header sums up the bytes and operations of each part of a step. count.c and update.c are a
 * compute table that counts instead of computing. profile.c measures the same parts on a device, so
 * that each row has an estimate and a time.
 *
 * May include format, loader/augment, train/machine, train/net, train/step.
 *
 * The work of a training step on a GPU, counted from its plan: bytes read and written in device
 * memory, floating-point operations, and nodes (kernels and copies). With a GPU's limits (card.h)
 * they yield an estimate of how long each part should take, so that a measurement (profile.h) shows
 * which part is too slow. The count runs nothing and needs no GPU.
 *
 * How the work is counted: the plan and the update call a compute table that only adds up
 * (count.c), so order, fusions and shapes are those of the plan itself. Each entry counts what
 * train/compute/cuda does for it: padded channels included; every array once per kernel, even if it
 * may still be in the L2 cache; a convolution or matrix product as one kernel, whatever the engine
 * runs. Elementwise operations are counted roughly. */
#ifndef FF_TRAIN_COST_H
#define FF_TRAIN_COST_H

#include "format/disk/metadata.h"
#include "loader/augment/augment.h"
#include "train/machine/card.h"
#include "train/net/plan.h"

#include <stdio.h>

typedef enum ff_cost_pass {
    FF_COST_BATCH, /* making the batch from a resident set */
    FF_COST_FORWARD,
    FF_COST_LOSS,
    FF_COST_BACKWARD,
    FF_COST_UPDATE,
    FF_COST_PASSES
} ff_cost_pass;
const char *ff_cost_pass_name(ff_cost_pass pass);

/* A kernel, or several similar ones; part of a row. */
typedef struct ff_cost_piece {
    double bytes;                   /* read and written */
    double matrix_flops, f32_flops; /* of matrix products; of everything else */
    ff_precision precision;         /* of the matrix products */
    int nodes;                      /* kernels and copies */
} ff_cost_piece;

/* An operation of a pass: pieces[first, first + count) of the list. */
typedef struct ff_cost_row {
    ff_cost_pass pass;
    ff_mark mark; /* the row's beginning, and its operation; unused for BATCH */
    int op;
    char layer[64]; /* "layer1.0.conv1"; empty for the update */
    char what[96];  /* "conv 3x3, sums for the norm" */
    size_t first, count;
} ff_cost_row;

typedef struct ff_costs {
    ff_cost_row *rows; /* in the order of a step */
    size_t row_count;
    ff_cost_piece *pieces;
    size_t piece_count;
    int samples; /* per step */
    /* the rest is private */
    size_t row_capacity, piece_capacity;
} ff_costs;

typedef struct ff_cost_options {
    /* The set that batches are made from, and how; NULL = batches already exist. */
    const ff_metadata *metadata;
    const ff_augment_spec *augment;
} ff_cost_options;

/* Counts a step of a training plan of the CUDA compute table. Set the model's groups before. The
 * caller frees with ff_costs_free; on failure there is nothing to free. FF_NO_MEMORY, FF_USAGE for
 * a plan of another table. Thread rule: the model's thread. */
FF_MUST_USE ff_status ff_costs_count(ff_costs *costs, ff_plan *plan, const ff_cost_options *options,
                                     ff_error *error);
void ff_costs_free(ff_costs *costs);

/* The sum of a row's pieces, and of all rows of a pass (FF_COST_PASSES: of the step). The precision
 * of the sum is meaningless. */
ff_cost_piece ff_cost_of_row(const ff_costs *costs, const ff_cost_row *row);
ff_cost_piece ff_cost_of_pass(const ff_costs *costs, ff_cost_pass pass);

/* Microseconds at `share` (0.8) of the GPU's limits. A piece takes as long as the slowest of its
 * bytes, its operations, and its nodes at FF_CARD_NODE_US each; a row is the sum of its pieces. The
 * estimate assumes that kernels do not overlap, that caches keep nothing between kernels, and that
 * a kernel may be as short as a node. So Muon's row of small kernels takes longer if its filter
 * banks run in sequence, and may take less if they run concurrently. 0 if the GPU's limits are
 * unknown. */
double ff_cost_row_us(const ff_costs *costs, const ff_cost_row *row, const ff_card *card,
                      double share);
double ff_cost_pass_us(const ff_costs *costs, ff_cost_pass pass, const ff_card *card, double share);

/* Prints a line per pass, and one for the whole step, with samples per second. */
void ff_costs_print(FILE *out, const ff_costs *costs, const ff_card *card);

/* ---- for count.c and update.c ---- */

/* Appends the rows of the passes that a compute table runs: forward, loss, backward, update. */
FF_MUST_USE ff_status ff_cost_count_step(ff_costs *costs, ff_plan *plan, ff_error *error);
FF_MUST_USE ff_status ff_cost_add_row(ff_costs *costs, const ff_cost_row *row, ff_error *error);
/* Appends a piece to the last row. */
FF_MUST_USE ff_status ff_cost_add_piece(ff_costs *costs, const ff_cost_piece *piece,
                                        ff_error *error);

#endif
