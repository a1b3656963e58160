/* What a run writes for its readers besides the log: TensorBoard's event files. It never ends a
 * run. One thread at a time. */
#ifndef FF_TRAIN_RECORD_H
#define FF_TRAIN_RECORD_H

#include "train/report.h"

typedef struct ff_record ff_record;

/* Event files in the folder `events`. FF_IO, FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_record_create(ff_record **record, const char *events, ff_error *error);
/* NULL is accepted. */
void ff_record_destroy(ff_record **record);

/* An epoch's numbers. Writing goes on after a failure; only the first one is returned. */
FF_MUST_USE ff_status ff_record_epoch(ff_record *record, const ff_epoch *epoch, ff_error *error);

#endif
