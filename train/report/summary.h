/* A trainer as text: printed by --dry-run and at the start of every run. */
#ifndef FF_TRAIN_SUMMARY_H
#define FF_TRAIN_SUMMARY_H

#include "train/trainer/trainer.h"

#include <jansson.h>
#include <stdio.h>

struct ff_world; /* world.h */

/* Prints model, shapes, parameters, multiply-accumulates, memory by role, sets, batches, learning
 * rates and every choice that the recipe made. */
void ff_summary_print(FILE *out, const ff_trainer *trainer);

/* Prints the net as planned, a line per operation: its layer's name, what it computes, the shape of
 * its output, its trained values, its multiply-accumulates per sample. */
void ff_summary_print_layers(FILE *out, const ff_trainer *trainer);

/* Writes the same as one JSON document, with the model, its parameters, its memory by role and what
 * the run needs; world: NULL = no "world". FF_NO_MEMORY, FF_IO. */
FF_MUST_USE ff_status ff_summary_write_json(FILE *out, const ff_trainer *trainer,
                                            const struct ff_world *world, ff_error *error);

/* {ranks: [{host, device, samples}], communicator}: the places of a job's ranks, and the number of
 * samples of every (micro-)batch that each rank has; {} without a job. Owned by the caller; NULL
 * when out of memory. */
json_t *ff_summary_ranks(const ff_trainer *trainer);

/* The number of trained values. */
uint64_t ff_summary_parameters(const ff_model *model);

#endif
