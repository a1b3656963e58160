/* TensorBoard's event files, written without TensorFlow: records of scalars and images that
 * `tensorboard --logdir` reads while the run continues.
 *
 *   FOLDER/events.out.tfevents.SECONDS.HOST.PID.N
 *   record   u64 length, masked CRC-32C of these 8 bytes, the message, masked CRC-32C of it
 *   message  protobuf (event.proto, summary.proto): Event {1: double wall_time, 2: int64 step,
 *            3: string file_version | 5: Summary {1: Value {1: string tag, 2: float simple_value |
 *            4: Image {1: height, 2: width, 3: colorspace, 4: bytes png}}}}
 *
 * Records are kept in memory until ff_events_flush writes them with one write(). A report must not
 * end a run: a record is left out if there is no memory. A flush that fails drops its records and
 * cuts the file back to the last complete record, so that the next flush may succeed; the caller
 * reports the error and continues. One thread at a time. */
#ifndef FF_TRAIN_EVENTS_EVENTS_H
#define FF_TRAIN_EVENTS_EVENTS_H

#include "format/base/memory.h"

typedef struct ff_events ff_events;

/* Makes FOLDER, if needed, and a new file in it, with the version record. FF_IO. */
FF_MUST_USE ff_status ff_events_create(ff_events **events, const char *folder, ff_error *error);
/* Closes without a flush. NULL is accepted. */
void ff_events_close(ff_events **events);

/* A tag is UTF-8, "val/loss"; the part before the first slash is its group. A tag that is not UTF-8
 * is percent-escaped. `value` becomes a float: NaN and infinities are kept; values beyond a float's
 * range become infinite. */
void ff_events_scalar(ff_events *events, const char *tag, uint64_t step, double value);
/* png: a complete PNG file of width x height RGB pixels; copied. */
void ff_events_image(ff_events *events, const char *tag, uint64_t step, const ff_buffer *png,
                     unsigned width, unsigned height);

/* FF_IO, FF_NO_MEMORY: some records are lost. FF_OK if there is nothing to write. */
FF_MUST_USE ff_status ff_events_flush(ff_events *events, ff_error *error);

#endif
