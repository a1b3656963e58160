/* What a run writes for its readers besides the log: TensorBoard's event files, and in the run's
 * folder evaluation.json (tally_json.h), worst.png and inputs.png, of the last evaluation and of
 * the first samples. It never ends a run, and takes at most a thousandth of its time, but for the
 * sheet of inputs before the first step and what the last evaluation found, after the last. One
 * thread at a time. */
#ifndef FF_TRAIN_RECORD_H
#define FF_TRAIN_RECORD_H

#include "train/report/events/step_points.h"
#include "train/report/report.h"

typedef struct ff_record ff_record;

/* events: the folder of the event files, NULL: events in `folder`; folder: of the others, which is
 * there, or NULL: none; one of the two is given. FF_IO, FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_record_create(ff_record **record, const char *events, const char *folder,
                                       ff_error *error);
/* NULL is accepted. */
void ff_record_destroy(ff_record **record);

/* A point within an epoch, written every few seconds; a failure is returned by the next of the
 * functions below. */
void ff_record_point(ff_record *record, const ff_step_point *point);

/* Before the first step, after each epoch and its evaluation, and after the last. Writing goes on
 * after a failure; only the first one of the run is returned. rest: the epoch's last point; NULL:
 * there is none. */
FF_MUST_USE ff_status ff_record_start(ff_record *record, const ff_trainer *trainer,
                                      ff_error *error);
FF_MUST_USE ff_status ff_record_epoch(ff_record *record, const ff_trainer *trainer,
                                      const ff_epoch *epoch, const ff_step_point *rest,
                                      ff_error *error);
FF_MUST_USE ff_status ff_record_end(ff_record *record, const ff_trainer *trainer, ff_error *error);
/* After the end of the log: report.html (page/page.h). */
FF_MUST_USE ff_status ff_record_page(ff_record *record, ff_error *error);

#endif
