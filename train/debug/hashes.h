/* Hashes of what a run computes, written every few steps, so that two runs can be compared (fftrain
 * diff). The file has JSON lines:
 *
 *   {"event": "names", "version", "data", "val": content ids, "compute",
 *    "parameters": their names, "outputs": the names of the operations that compute them}
 *   {"step": steps done, "loss", "cut": "2 ranks, 4 micro-batches", "images", "labels",
 *    "parameters": [...], "gradients": [...], "outputs": [...]}
 *
 * Each hash is XXH3-64 as 16 hexadecimal digits: of the last step's batch as the net received it,
 * of each parameter after that step in torch's order, of its gradient, and of each output in
 * memory; "" = never written. With several micro-batches, the hash of each is the seed of the next.
 * With several ranks, the hashes are the first rank's. So hashes are comparable only if the batches
 * were cut the same way. Step 0 has only parameters. Gradients and outputs are there if every
 * operation can be looked at (probe.h) and the user chose the steps between lines.
 *
 * Lines are appended with one write each. A resumed run first cuts off the lines of later steps, so
 * it ends with the lines of a run that was never stopped. Thread rule: the model's thread. */
#ifndef FF_TRAIN_DEBUG_HASHES_H
#define FF_TRAIN_DEBUG_HASHES_H

#include "train/debug/probe.h"
#include "train/trainer/trainer.h"

typedef struct ff_hashes ff_hashes;

/* Steps between two lines; a line also follows the last step. FF_HASHES_CHOSEN: a line after an
 * epoch, if it takes at most a ten-thousandth of the time since the last line. 0: no lines. */
enum { FF_HASHES_CHOSEN = -1 };

/* Opens `path` for a trainer that has done `steps`. If the file has no lines, writes the names and
 * the line of these steps. whole: gradients and outputs even if the user did not request them;
 * steps are then not captured. path NULL or every 0: *hashes = NULL. A file that cannot be written
 * is not an error; there is a note. FF_NO_MEMORY and the device's errors; on failure *hashes =
 * NULL. */
FF_MUST_USE ff_status ff_hashes_open(ff_hashes **hashes, const char *path,
                                     const ff_trainer *trainer, int64_t every, uint64_t steps,
                                     bool whole, ff_error *error);
void ff_hashes_close(ff_hashes **hashes); /* NULL is accepted */

/* Whether a line is due after this number of steps. NULL: never. */
bool ff_hashes_due(const ff_hashes *hashes, uint64_t steps);
/* Replaces ff_micro_batch_train (run_step.h) for a step after which a line is due; the context is
 * the hashes. */
FF_MUST_USE ff_status ff_hashes_part(void *hashes, ff_plan *plan, const ff_batch *batch, bool last,
                                     ff_error *error);
/* From now on `visit` also sees what the hashes see (probe.h); only for hashes that are `whole`. */
void ff_hashes_share(ff_hashes *hashes, ff_probe_visit visit, void *context);
/* Call after the step's outcome has arrived. If the line cannot be written (FF_IO), no more hashes
 * are kept, and there is a note. */
FF_MUST_USE ff_status ff_hashes_write(ff_hashes *hashes, const ff_outcome *outcome,
                                      ff_error *error);
/* Why no more hashes are kept; NULL: they are kept. */
const char *ff_hashes_note(const ff_hashes *hashes);

#endif
