/* The counts of an evaluation as a JSON file, evaluation.json of a run's folder:
 *
 *   {"epoch", "data", "samples", "correct", "val_accuracy", "val_top5_accuracy" (for more than 5
 *    classes), "classes": [{"name", "samples", "correct"}], by label
 *    "confusion": [[label, prediction, samples]], those that are not 0; null beyond
 *    FF_TALLY_MATRIX classes
 *    "worst": [{"sample", "label", "prediction", "probability", "loss"}], the largest loss first}
 *
 * Names are null if the set has no names. */
#ifndef FF_TRAIN_TALLY_JSON_H
#define FF_TRAIN_TALLY_JSON_H

#include "format/base/json.h"
#include "train/trainer/trainer.h"

/* A new reference to the JSON of the trainer's tally; NULL when out of memory. */
json_t *ff_tally_json(const ff_trainer *trainer, uint32_t epoch);

#endif
