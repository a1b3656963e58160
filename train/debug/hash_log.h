/* Reads the hashes of a run (hashes.h). One thread at a time. */
#ifndef FF_TRAIN_DEBUG_HASH_LOG_H
#define FF_TRAIN_DEBUG_HASH_LOG_H

#include "format/base/status.h"

#include <jansson.h>
#include <stdint.h>

typedef struct ff_hash_log {
    json_t *names; /* the first line; has the arrays "parameters" and "outputs" */
    json_t *lines; /* the others, by increasing step */
    uint64_t end;  /* bytes of the file up to the last of these lines */
} ff_hash_log;

/* Reads lines up to step `last`. A last line that is cut off, for example by a kill, is left out.
 * FF_BAD_DATA names the first line that hashes.h does not write; the lines before it are in the
 * log. FF_IO. The caller frees the log, after a failure too. */
FF_MUST_USE ff_status ff_hash_log_read(ff_hash_log *log, const char *path, uint64_t last,
                                       ff_error *error);
void ff_hash_log_free(ff_hash_log *log);

static inline uint64_t ff_hash_log_step(const ff_hash_log *log, size_t line) {
    return (uint64_t)json_integer_value(json_object_get(json_array_get(log->lines, line), "step"));
}

#endif
