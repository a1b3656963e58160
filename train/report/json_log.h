/* A log of JSON lines: one object per line, each appended by one write. One thread at a time. */
#ifndef FF_TRAIN_JSON_LOG_H
#define FF_TRAIN_JSON_LOG_H

#include "format/base/json.h"
#include "format/base/status.h"

typedef struct ff_json_log ff_json_log;

/* Opens the log for appending, creating the file if needed. FF_IO. */
FF_MUST_USE ff_status ff_json_log_open(ff_json_log **log, const char *path, ff_error *error);
/* NULL is accepted. */
void ff_json_log_close(ff_json_log **log);

/* Writes `object` (NULL: FF_NO_MEMORY) and takes its reference, after a failure too. FF_IO. */
FF_MUST_USE ff_status ff_json_log_write(ff_json_log *log, json_t *object, ff_error *error);

#endif
