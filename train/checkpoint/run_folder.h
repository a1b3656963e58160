/* The folder of a run, which one process at a time holds:
 *
 *   recipe.txt     its options by name, one a line
 *   log.jsonl      JSON lines (report.h)
 *   hashes.jsonl   of what it computes, every few steps (debug/hashes.h)
 *   checkpoints/   step-N/ (checkpoint.h); last and best are links to two of them (keeping.h);
 *                  branch-N/ has those that the run left when it resumed from an older one
 *
 * Thread rule: one thread at a time. */
#ifndef FF_TRAIN_RUN_FOLDER_H
#define FF_TRAIN_RUN_FOLDER_H

#include "format/trained.h"

#define FF_RUN_RECIPE_FILE   "recipe.txt"
#define FF_RUN_LOG_FILE      "log.jsonl"
#define FF_RUN_HASHES        "hashes.jsonl"
#define FF_RUN_FOLDERS       "runs" /* of runs without --out, in the working directory */
#define FF_RUN_STEP_PREFIX   "step-"
#define FF_RUN_BRANCH_PREFIX "branch-"

typedef struct ff_run_folder ff_run_folder;

/* Creates `path`, which must not exist or be empty; NULL: runs/NAME-N with the first free N.
 * FF_USAGE where it holds a run already, or other files; FF_IO. On failure *folder = NULL. */
FF_MUST_USE ff_status ff_run_folder_create(ff_run_folder **folder, const char *path,
                                           const char *name, ff_error *error);
/* Finds the folder of a run, to go on with it; every rank of a job does. `path` may be one of its
 * checkpoints. FF_USAGE where there is no run. */
FF_MUST_USE ff_status ff_run_folder_open(ff_run_folder **folder, const char *path, ff_error *error);
/* The run in FF_RUN_FOLDERS whose newest checkpoint was written last, where a run without one
 * counts from its start. The caller frees *path. FF_USAGE where there is none. */
FF_MUST_USE ff_status ff_run_folder_newest(char **path, ff_error *error);
/* Before anything is written in an opened folder. FF_USAGE where another process holds it. */
FF_MUST_USE ff_status ff_run_folder_lock(ff_run_folder *folder, ff_error *error);
void ff_run_folder_close(ff_run_folder **folder); /* NULL is accepted */

const char *ff_run_folder_path(const ff_run_folder *folder);
/* Paths of files and folders in it. */
const char *ff_run_folder_log(const ff_run_folder *folder);
const char *ff_run_folder_checkpoints(const ff_run_folder *folder);
/* The checkpoint that ff_run_folder_open was given; NULL where it was given the run. */
const char *ff_run_folder_chosen(const ff_run_folder *folder);

/* The N of a name step-N; false for other names. */
bool ff_checkpoint_step_of(const char *name, uint64_t *step);
/* The numbers N of the checkpoints step-N of a folder, largest first; the caller frees *steps. */
FF_MUST_USE ff_status ff_checkpoint_steps(const char *checkpoints, uint64_t **steps, size_t *count,
                                          ff_error *error);

#endif
