/* The folder of a run, locked by one process at a time:
 *
 *   recipe.txt     its options by name, one per line
 *   log.jsonl      JSON lines (report.h)
 *   hashes.jsonl   hashes of what it computes, every few steps (debug/hashes.h)
 *   checkpoints/   step-N/ (checkpoint.h); last and best are links to two of them (keeping.h);
 *                  branch-N/ has the ones that the run left when it resumed from an older one
 *
 * Thread rule: one thread at a time. */
#ifndef FF_TRAIN_RUN_FOLDER_H
#define FF_TRAIN_RUN_FOLDER_H

#include "format/weights/trained.h"

#define FF_RUN_RECIPE_FILE   "recipe.txt"
#define FF_RUN_LOG_FILE      "log.jsonl"
#define FF_RUN_HASHES        "hashes.jsonl"
#define FF_RUN_FOLDERS       "runs" /* folder of runs without --out, in the working directory */
#define FF_RUN_STEP_PREFIX   "step-"
#define FF_RUN_BRANCH_PREFIX "branch-"

typedef struct ff_run_folder ff_run_folder;

/* Creates `path`, which must be absent or empty; NULL: runs/NAME-N with the first free N. FF_USAGE
 * if it already holds a run or other files; FF_IO. On failure *folder = NULL. */
FF_MUST_USE ff_status ff_run_folder_create(ff_run_folder **folder, const char *path,
                                           const char *name, ff_error *error);
/* Finds the folder of a run in order to resume it; each rank of a job calls this. `path` may be one
 * of the run's checkpoints. FF_USAGE if there is no run. */
FF_MUST_USE ff_status ff_run_folder_open(ff_run_folder **folder, const char *path, ff_error *error);
/* The run in FF_RUN_FOLDERS whose newest checkpoint was written last; a run without checkpoints
 * counts from its start. The caller frees *path. FF_USAGE if there is no run. */
FF_MUST_USE ff_status ff_run_folder_newest(char **path, ff_error *error);
/* Call before writing to an opened folder. FF_USAGE if another process holds it. */
FF_MUST_USE ff_status ff_run_folder_lock(ff_run_folder *folder, ff_error *error);
/* Whether a process holds the folder at `path`, so that its run is training. */
bool ff_run_folder_is_locked(const char *path);
void ff_run_folder_close(ff_run_folder **folder); /* NULL is accepted */

const char *ff_run_folder_path(const ff_run_folder *folder);
/* Paths of the files and folders in it. */
const char *ff_run_folder_log(const ff_run_folder *folder);
const char *ff_run_folder_checkpoints(const ff_run_folder *folder);
/* The checkpoint whose path ff_run_folder_open received; NULL if it received the run's path. */
const char *ff_run_folder_chosen(const ff_run_folder *folder);

/* Reads the N of a name step-N; false for other names. */
bool ff_checkpoint_step_of(const char *name, uint64_t *step);
/* The numbers N of the checkpoints step-N in a folder, largest first; the caller frees *steps. */
FF_MUST_USE ff_status ff_checkpoint_steps(const char *checkpoints, uint64_t **steps, size_t *count,
                                          ff_error *error);

#endif
