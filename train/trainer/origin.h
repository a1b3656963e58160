/* The origin of a run's numbers: its options, sets, ranks, threads and class weights. Checkpoints
 * record them. A resumed run compares them: it refuses a change of what must not change, and
 * reports a change that affects the results.
 *
 * Thread rule: the model's thread. */
#ifndef FF_TRAIN_ORIGIN_H
#define FF_TRAIN_ORIGIN_H

#include "train/checkpoint/checkpoint.h"
#include "train/trainer/trainer.h"

enum { FF_ORIGIN_RANKS = 256 };

/* Texts of a checkpoint; "" = absent. */
typedef struct ff_origin {
    char data[33], val[33];      /* content ids */
    char selected[384];          /* which of their samples, how often; "" = each once */
    char ranks[FF_ORIGIN_RANKS]; /* "2 ranks", "2 ranks with shares 1,3" */
    char threads[16];            /* on the CPU */
    char class_weights[17];      /* a checksum of the weights in use */
} ff_origin;

void ff_origin_of(ff_origin *origin, const ff_trainer *trainer);
/* The effect of another number of ranks on the results of a run; NULL: none. */
const char *ff_origin_effect_of_ranks(const ff_trainer *trainer);

/* The recipe of a run as written to its file: if there are several ranks, a comment with their
 * number comes first. */
FF_MUST_USE ff_status ff_origin_write_recipe(const ff_trainer *trainer, const char *recipe,
                                             ff_buffer *text, ff_error *error);
/* Removes this comment from a recipe's text; *ranks = "" without a comment. */
void ff_origin_take_ranks(char *recipe, char ranks[FF_ORIGIN_RANKS]);

/* How a run that resumes handles another value of an option. */
typedef enum ff_origin_change {
    FF_CHANGE_NOTED,
    FF_CHANGE_REFUSED,  /* the order of the samples or the model depends on it */
    FF_CHANGE_COMPARED, /* what follows from the option is compared, not its text */
} ff_origin_change;

/* FF_USAGE if an option has changed that must not change, FF_BAD_DATA if a set or its classes have;
 * adds other changes of options to the notes, one sentence per line. recipe: the run's options now;
 * change: of the option of this name. */
FF_MUST_USE ff_status ff_origin_check(const ff_checkpoint *checkpoint, const ff_trainer *trainer,
                                      const char *recipe,
                                      ff_origin_change (*change)(const char *name, size_t length),
                                      ff_buffer *notes, ff_error *error);
/* Adds other differences to the notes, one line each. */
FF_MUST_USE ff_status ff_origin_compare(const ff_checkpoint *checkpoint, const ff_trainer *trainer,
                                        ff_buffer *notes, ff_error *error);

#endif
