/* A file of JSON lines that grows: one object a line, each appended by one write.
 * One thread at a time. */
#ifndef FF_TRAIN_JSON_LOG_H
#define FF_TRAIN_JSON_LOG_H

#include "format/base/status.h"

#include <jansson.h>

typedef struct ff_json_log ff_json_log;

/* Opens for appending, creating the file where there is none. FF_IO. */
FF_MUST_USE ff_status ff_json_log_open(ff_json_log **log, const char *path, ff_error *error);
/* NULL is accepted. */
void ff_json_log_close(ff_json_log **log);

/* Writes `object` (NULL = it could not be made, FF_NO_MEMORY) and takes its reference in any case.
 * FF_IO. */
FF_MUST_USE ff_status ff_json_log_write(ff_json_log *log, json_t *object, ff_error *error);

/* A number, or the string "NaN", "Infinity" or "-Infinity"; a new reference. */
json_t *ff_json_number(double value);

/* Text that may hold any bytes, as a path may: percent-escaped where it is not UTF-8; NULL becomes
 * null; a new reference, NULL without memory. */
json_t *ff_json_text(const char *text);

#endif
