/* Hashes of what a run computes, kept every few steps, by which two runs are compared (fftrain
 * diff): JSON lines of a file,
 *
 *   {"event": "names", "version", "data", "val": content ids, "compute",
 *    "parameters": their names, "outputs": the names of the operations that compute them}
 *   {"step": steps done, "loss", "cut": "2 ranks, 4 micro-batches", "images", "labels",
 *    "parameters": [...], "gradients": [...], "outputs": [...]}
 *
 * Each hash is XXH3-64 as 16 hexadecimal digits: of the batch of the last step as the net got it,
 * of each parameter after that step in torch's order, of its gradient, and of each output in
 * memory;
 * "" = never written. Of several micro-batches each one is the seed of the next, and of several
 * ranks they are the first one's: only those of batches that are cut alike compare. Step 0 has
 * parameters only. Gradients and outputs are there where every operation can be looked at (probe.h)
 * and the steps between were chosen by the user.
 *
 * Lines are appended with one write each. A run that goes on first cuts off those of later steps,
 * and then has the lines of one that was never stopped. Thread rule: the model's thread. */
#ifndef FF_TRAIN_DEBUG_HASHES_H
#define FF_TRAIN_DEBUG_HASHES_H

#include "train/debug/probe.h"
#include "train/trainer/trainer.h"

typedef struct ff_hashes ff_hashes;

/* Chosen: at the end of an epoch, where that takes at most a ten-thousandth of the time since the
 * line before, and after the last step. 0 = none; else every that many steps, and after the last.
 */
enum { FF_HASHES_CHOSEN = -1 };

/* Opens `path` for a trainer that has done `steps`; writes the names, and the line of these steps
 * into a file without any. whole: gradients and outputs also where they were not asked for, of
 * steps that are not captured. path NULL or every 0: *hashes = NULL. A file that cannot be written
 * is no error but a note. FF_NO_MEMORY and the device's errors; on failure *hashes = NULL. */
FF_MUST_USE ff_status ff_hashes_open(ff_hashes **hashes, const char *path,
                                     const ff_trainer *trainer, int64_t every, uint64_t steps,
                                     bool whole, ff_error *error);
void ff_hashes_close(ff_hashes **hashes); /* NULL is accepted */

/* Whether there is to be a line after that many steps. NULL: never. */
bool ff_hashes_due(const ff_hashes *hashes, uint64_t steps);
/* In place of ff_part_train (run_step.h) for a step after which there will be; the context is the
 * hashes. */
FF_MUST_USE ff_status ff_hashes_part(void *hashes, ff_plan *plan, const ff_batch *batch, bool last,
                                     ff_error *error);
/* From now on `visit` sees what the hashes see, too (probe.h); of hashes that are `whole`. */
void ff_hashes_share(ff_hashes *hashes, ff_probe_visit visit, void *context);
/* After its outcome has arrived. Where the line cannot be written (FF_IO), no more are kept, and
 * there is a note. */
FF_MUST_USE ff_status ff_hashes_write(ff_hashes *hashes, const ff_outcome *outcome,
                                      ff_error *error);
/* Why no more hashes are kept; NULL: they are. */
const char *ff_hashes_note(const ff_hashes *hashes);

#endif
