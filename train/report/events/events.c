#include "train/report/events/events.h"

#include "format/base/bytes.h"
#include "format/base/crc32c.h"
#include "format/base/file.h"
#include "format/base/json.h"
#include "format/base/read.h"
#include "train/checkpoint/protobuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HOST_BYTES = 65, FRAME_BYTES = 12 /* before a message */ };

struct ff_events {
    int descriptor;
    char *path;
    off_t length; /* of complete records in the file */
    ff_buffer records;
    ff_error failure; /* of the records since the last flush */
};

static ff_status put_wall_time(ff_buffer *to, unsigned field, ff_error *error) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ff_protobuf_double(to, field, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec, error);
}

/* ---- records ---- */

static ff_status add_record(ff_buffer *records, const ff_buffer *message, ff_error *error) {
    uint8_t frame[FRAME_BYTES], end[4];
    ff_store_u64(frame, message->length);
    ff_store_u32(frame + 8, ff_crc32c_masked(frame, 8));
    ff_store_u32(end, ff_crc32c_masked(message->bytes, message->length));
    FF_TRY(ff_buffer_add(records, frame, sizeof frame, error));
    FF_TRY(ff_buffer_add(records, message->bytes, message->length, error));
    return ff_buffer_add(records, end, sizeof end, error);
}

/* Adds an event with `field` = these bytes. Adds nothing on failure. */
static ff_status add_event(ff_events *events, uint64_t step, unsigned field, const void *bytes,
                           size_t length, ff_error *error) {
    const size_t before = events->records.length;
    ff_buffer message = {0};
    ff_status status;
    FF_TRY_DONE(put_wall_time(&message, 1, error));
    FF_TRY_DONE(ff_protobuf_number(&message, 2, step, error));
    FF_TRY_DONE(ff_protobuf_bytes(&message, field, bytes, length, error));
    FF_TRY_DONE(add_record(&events->records, &message, error));
done:
    if (status != FF_OK) events->records.length = before;
    ff_buffer_free(&message);
    return status;
}

/* Begins a Summary's Value with the tag. */
static ff_status put_tag(ff_buffer *value, const char *tag, ff_error *error) {
    json_t *text = ff_json_text(tag); /* valid UTF-8, which protobuf requires */
    if (!text) return ff_fail(error, FF_NO_MEMORY, "not enough memory for the tag %s", tag);
    ff_status status =
        ff_protobuf_bytes(value, 1, json_string_value(text), json_string_length(text), error);
    json_decref(text);
    return status;
}

static ff_status put_scalar(ff_buffer *value, const char *tag, double scalar, ff_error *error) {
    FF_TRY(put_tag(value, tag, error));
    return ff_protobuf_float(value, 2, (float)scalar, error);
}

static ff_status put_image(ff_buffer *value, const char *tag, const ff_buffer *png, unsigned width,
                           unsigned height, ff_error *error) {
    enum { RGB = 3 };
    ff_buffer image = {0};
    ff_status status;
    FF_TRY_DONE(ff_protobuf_number(&image, 1, height, error));
    FF_TRY_DONE(ff_protobuf_number(&image, 2, width, error));
    FF_TRY_DONE(ff_protobuf_number(&image, 3, RGB, error));
    FF_TRY_DONE(ff_protobuf_bytes(&image, 4, png->bytes, png->length, error));
    FF_TRY_DONE(put_tag(value, tag, error));
    FF_TRY_DONE(ff_protobuf_bytes(value, 4, image.bytes, image.length, error));
done:
    ff_buffer_free(&image);
    return status;
}

/* Adds the event of a summary of one value, and frees the value. Keeps a failure in the events:
 * `status`, or its own. */
static void add_value(ff_events *events, uint64_t step, ff_buffer *value, ff_status status) {
    ff_buffer summary = {0};
    if (status != FF_OK) goto done;
    FF_TRY_DONE(ff_protobuf_bytes(&summary, 1, value->bytes, value->length, &events->failure));
    FF_TRY_DONE(add_event(events, step, 5, summary.bytes, summary.length, &events->failure));
done:
    ff_buffer_free(&summary);
    ff_buffer_free(value);
}

void ff_events_scalar(ff_events *events, const char *tag, uint64_t step, double value) {
    ff_buffer made = {0};
    add_value(events, step, &made, put_scalar(&made, tag, value, &events->failure));
}

void ff_events_image(ff_events *events, const char *tag, uint64_t step, const ff_buffer *png,
                     unsigned width, unsigned height) {
    ff_buffer made = {0};
    add_value(events, step, &made, put_image(&made, tag, png, width, height, &events->failure));
}

/* ---- the file ---- */

/* Makes a name that no other process has. A run that is restarted at once has another process id
 * or, if the system reuses the id, another last number. */
static ff_status open_file(ff_events *events, const char *folder, ff_error *error) {
    char host[HOST_BYTES] = "";
    const long long seconds = (long long)time(NULL);
    if (gethostname(host, sizeof host - 1) != 0 || !host[0]) strcpy(host, "localhost");
    for (unsigned i = 0; events->descriptor < 0; i++) {
        free(events->path);
        FF_TRY(ff_format(&events->path, error, "%s/events.out.tfevents.%010lld.%s.%ld.%u", folder,
                         seconds, host, (long)getpid(), i));
        events->descriptor =
            open(events->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
        if (events->descriptor < 0 && errno != EEXIST)
            return ff_fail_errno(error, "%s: cannot create", events->path);
    }
    return FF_OK;
}

ff_status ff_events_create(ff_events **out, const char *folder, ff_error *error) {
    static const char version[] = "brain.Event:2";
    ff_events *events;
    ff_status status;
    *out = NULL;
    FF_TRY(ff_alloc(&events, 1, sizeof *events, "event files", error));
    events->descriptor = -1;
    FF_TRY_DONE(ff_make_folders(folder, error));
    FF_TRY_DONE(open_file(events, folder, error));
    FF_TRY_DONE(add_event(events, 0, 3, version, sizeof version - 1, error));
    FF_TRY_DONE(ff_events_flush(events, error));
    *out = events;
    return FF_OK;
done:
    ff_events_close(&events);
    return status;
}

void ff_events_close(ff_events **events) {
    if (!*events) return;
    ff_close_file(&(*events)->descriptor);
    ff_buffer_free(&(*events)->records);
    free((*events)->path);
    free(*events);
    *events = NULL;
}

/* One write, so that a reader sees only complete records. */
static ff_status write_records(ff_events *events, ff_error *error) {
    const ff_buffer *records = &events->records;
    ssize_t written;
    do written = write(events->descriptor, records->bytes, records->length);
    while (written < 0 && errno == EINTR);
    if (written == (ssize_t)records->length) {
        events->length += written;
        return FF_OK;
    }
    const int reason = written < 0 ? errno : ENOSPC;
    const bool whole = ftruncate(events->descriptor, events->length) == 0;
    errno = reason;
    return ff_fail_errno(error, "%s: cannot write%s", events->path,
                         whole ? "" : ", and the last record is cut");
}

ff_status ff_events_flush(ff_events *events, ff_error *error) {
    ff_status status = events->records.length ? write_records(events, error) : FF_OK;
    events->records.length = 0;
    if (status == FF_OK && events->failure.status != FF_OK)
        status = ff_fail(error, events->failure.status, "%s: %s; records are left out",
                         events->path, events->failure.message);
    events->failure.status = FF_OK;
    return status;
}
