/* The files that a run writes in addition to the log: TensorBoard's event files and, in the run's
 * folder, evaluation.json (tally_json.h) and worst.png of the last evaluation, and inputs.png of
 * the first samples. A failure never ends the run. Writing takes at most a thousandth of the run's
 * time, except for the sheet of inputs before the first step and the results of the last
 * evaluation, after the last step. One thread at a time. */
#ifndef FF_TRAIN_RECORD_H
#define FF_TRAIN_RECORD_H

#include "train/report/events/step_points.h"
#include "train/report/report.h"

typedef struct ff_record ff_record;

/* events: the folder of the event files, NULL: the folder `events` in `folder`. folder: of the
 * other files, must exist; NULL: none. At least one of the two is set. FF_IO, FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_record_create(ff_record **record, const char *events, const char *folder,
                                       ff_error *error);
/* NULL is accepted. */
void ff_record_destroy(ff_record **record);

/* Records a point within an epoch; points are written every few seconds. The next of the functions
 * below returns a failure. */
void ff_record_point(ff_record *record, const ff_step_point *point);

/* Call before the first step, after each epoch and its evaluation, and after the last one. Writing
 * continues after a failure; only the first failure of the run is returned. rest: the epoch's last
 * point; NULL: none. */
FF_MUST_USE ff_status ff_record_start(ff_record *record, const ff_trainer *trainer,
                                      ff_error *error);
FF_MUST_USE ff_status ff_record_epoch(ff_record *record, const ff_trainer *trainer,
                                      const ff_epoch *epoch, const ff_step_point *rest,
                                      ff_error *error);
FF_MUST_USE ff_status ff_record_end(ff_record *record, const ff_trainer *trainer, ff_error *error);
/* Writes report.html (page/page.h). Call after the end of the log. */
FF_MUST_USE ff_status ff_record_page(ff_record *record, ff_error *error);

#endif
