#include "format/disk/mapped.h"

#include "format/base/guard.h"
#include "format/disk/checksum.h"

#include <inttypes.h>
#include <string.h>

typedef struct mapped_job {
    const ff_mapped *file;
    const uint8_t *from;
    uint64_t bytes;
    void *to; /* NULL = compute the checksum */
    uint64_t checksum;
    bool whole;
} mapped_job;

static void mapped_body(void *context) {
    mapped_job *job = context;
    if (job->to)
        memcpy(job->to, job->from, job->bytes);
    else
        job->checksum = ff_checksum(job->from, job->bytes);
    job->whole = ff_mapped_is_whole(job->file);
}

static ff_status mapped_run(mapped_job *job, ff_error *error) {
    const uint8_t *at = ff_guard_run(mapped_body, job);
    if (!at && job->whole) return FF_OK;
    const bool within = at >= job->from && at < job->from + job->bytes;
    const uint64_t offset = (uint64_t)((within ? at : job->from) - job->file->map);
    return ff_fail(error, FF_IO, "%s: offset %" PRIu64 ": " FF_MAPPED_FAILED, job->file->path,
                   offset);
}

ff_status ff_mapped_checksum(const ff_mapped *file, uint64_t offset, uint64_t bytes,
                             uint64_t *checksum, ff_error *error) {
    mapped_job job = {.file = file, .from = file->map + offset, .bytes = bytes};
    FF_TRY(mapped_run(&job, error));
    *checksum = job.checksum;
    return FF_OK;
}

ff_status ff_mapped_copy(void *to, const ff_mapped *file, uint64_t offset, uint64_t bytes,
                         ff_error *error) {
    mapped_job job = {.file = file, .from = file->map + offset, .bytes = bytes, .to = to};
    return bytes ? mapped_run(&job, error) : FF_OK;
}
