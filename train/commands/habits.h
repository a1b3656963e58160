/* Options of PyTorch's training scripts, and fftrain's equivalents. */
#ifndef FF_TRAIN_HABITS_H
#define FF_TRAIN_HABITS_H

#include "format/base/status.h"
#include "format/cli/habits.h"

/* Ends with an entry of names NULL. */
extern const ff_habit ff_train_habits[];

/* FF_USAGE for a word that is not an option; the error names the command that people mean by it. */
FF_MUST_USE ff_status ff_habits_refuse_word(const char *word, ff_error *error);

/* FF_USAGE if --pretrained is among the arguments; the error names the commands that get the
 * weights of --model. */
FF_MUST_USE ff_status ff_habits_check_pretrained(int argc, char **argv, ff_error *error);

#endif
