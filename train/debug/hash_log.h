/* The hashes of a run (hashes.h), read. One thread at a time. */
#ifndef FF_TRAIN_DEBUG_HASH_LOG_H
#define FF_TRAIN_DEBUG_HASH_LOG_H

#include "format/base/status.h"

#include <jansson.h>
#include <stdint.h>

typedef struct ff_hash_log {
    json_t *names; /* the first line; its arrays "parameters" and "outputs" are there */
    json_t *lines; /* the others, whose steps rise */
    uint64_t end;  /* bytes of the file that they take */
} ff_hash_log;

/* Lines up to step `last`. A last line that is cut off, as by a kill, is left out. FF_BAD_DATA
 * names the first line that is none of hashes.h, after those before it were read; FF_IO. The caller
 * frees the log in any case. */
FF_MUST_USE ff_status ff_hash_log_read(ff_hash_log *log, const char *path, uint64_t last,
                                       ff_error *error);
void ff_hash_log_free(ff_hash_log *log);

static inline uint64_t ff_hash_log_step(const ff_hash_log *log, size_t line) {
    return (uint64_t)json_integer_value(json_object_get(json_array_get(log->lines, line), "step"));
}

#endif
