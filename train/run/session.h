/* The files of a run of fftrain: its folder, the checkpoint from which it resumes, and the
 * checkpoints that it writes. In the order of their use:
 *
 *     ff_session_open(&session, &options, recipe_file, &error);  options from ff_session_recipe
 *     ff_session_begin(session, model_name, &error);             the folder, locked
 *     ff_trainer_create(&trainer, ...);                          from ff_session_step on
 *     ff_session_start(session, trainer, recipe, &error);        values loaded
 *     ff_run(trainer, report, &run_options, &error);
 *         ff_session_write(session, trainer, recipe, &error);    before its first step
 *
 * Thread rule: one thread at a time. */
#ifndef FF_TRAIN_SESSION_H
#define FF_TRAIN_SESSION_H

#include "train/run/run.h"
#include "train/trainer/origin.h"

/* --resume without a value: ff_run_folder_newest */
#define FF_SESSION_NEWEST "newest"

typedef struct ff_session_options {
    const char *out;  /* NULL = runs/NAME-N; "none" = nothing is kept */
    const char *name; /* instead of `out`: runs/NAME; NULL = none */
    /* The folder of a run, or a checkpoint; "auto" = `out`, if it holds a run; FF_SESSION_NEWEST;
     * NULL = a new run. */
    const char *resume;
    const char *every;  /* ff_every_parse */
    int64_t keep;       /* checkpoints, at least 1 */
    int best_by;        /* ff_best_by */
    int64_t hash_every; /* as in ff_run_options */
    /* What a run that resumes may change of the option of this name. */
    ff_origin_change (*change)(const char *name, size_t length);
} ff_session_options;

/* Whether a run has a folder: false with --out none. */
bool ff_session_keeps(const ff_session_options *options);

typedef struct ff_session ff_session;

/* Reads the newest checkpoint of a run that resumes, or a recipe file; either may be NULL. FF_USAGE
 * if both are set; FF_BAD_DATA, FF_IO. The options must outlive the session. On failure *session =
 * NULL. */
FF_MUST_USE ff_status ff_session_open(ff_session **session, const ff_session_options *options,
                                      const char *recipe_file, ff_error *error);
/* Waits until checkpoints are written. Removes a new folder in which no run has started. NULL is
 * accepted. */
void ff_session_close(ff_session **session);

/* The options of the run that resumes, or of the recipe file, as ff_options_read takes them, with a
 * name for errors; NULL: there are no options. Owned by the session. */
char *ff_session_recipe(ff_session *session);
const char *ff_session_recipe_path(const ff_session *session);
/* Whether the recipe is a run's, with its numbers as they were chosen: its learning rate is already
 * scaled. */
bool ff_session_recipe_is_resolved(const ff_session *session);
/* Whether --resume is auto. */
bool ff_session_is_automatic(const ff_session *session);
/* Steps done before; 0: a new run. */
uint64_t ff_session_step(const ff_session *session);

/* When a run resumes, the content ids of the sets with which it began; NULL: a new run. Owned by
 * the session. */
const char *ff_session_data(const ff_session *session);
const char *ff_session_val(const ff_session *session);

/* Creates the folder of a new run, or locks the folder of an old one, to which only one process may
 * write; `name` is the model's. FF_USAGE or FF_IO. Does nothing with --out none. */
FF_MUST_USE ff_status ff_session_begin(ff_session *session, const char *name, ff_error *error);
/* The run's log, and its folder; NULL if nothing is kept. */
const char *ff_session_log(const ff_session *session);
const char *ff_session_path(const ff_session *session);

/* Adds a note. */
FF_MUST_USE ff_status ff_session_add_note(ff_session *session, const char *text, ff_error *error);
/* Adds a note if the recipe's run had another number of ranks than the trainer, which changes the
 * results. */
FF_MUST_USE ff_status ff_session_compare_ranks(ff_session *session, const ff_trainer *trainer,
                                               ff_error *error);
/* Loads the checkpoint into the trainer's model; changes no file. FF_BAD_DATA if the trainer's data
 * is not the checkpoint's. `recipe`: the options of this run. */
FF_MUST_USE ff_status ff_session_start(ff_session *session, ff_trainer *trainer,
                                       const ff_buffer *recipe, ff_error *error);
/* Call once it is certain that the run makes steps: writes the recipe, and moves newer checkpoints
 * aside (keeper.h). FF_IO. */
FF_MUST_USE ff_status ff_session_write(ff_session *session, const ff_trainer *trainer,
                                       const ff_buffer *recipe, ff_error *error);
/* Sentences for the user: the step at which the run resumes, and what is different. NULL if there
 * are none. */
const char *ff_session_notes(const ff_session *session);
/* The options for ff_run. */
ff_run_options ff_session_run(const ff_session *session);

#endif
