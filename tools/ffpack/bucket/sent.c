#include "tools/ffpack/bucket/sent.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/disk/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORD_BYTES = 4096 };

/* "BYTES VERSION\n" */
ff_status ff_sent_read(const char *path, ff_object *object, bool *sent, ff_error *error) {
    ff_buffer text = {0};
    char *record, *end;
    *object = (ff_object){0};
    FF_TRY(ff_format(&record, error, "%s" FF_SENT_SUFFIX, path));
    *sent = ff_path_exists("%s", record);
    ff_status status = *sent ? ff_read_whole(&text, record, RECORD_BYTES, error) : FF_OK;
    if (status == FF_OK && *sent) {
        object->bytes = strtoull(text.bytes, &end, 10);
        const size_t length = *end == ' ' ? strcspn(end + 1, "\n") : 0;
        if (!length || length >= sizeof object->version || end[1 + length] != '\n')
            status = ff_fail(error, FF_BAD_DATA, "%s: is broken", record);
        else
            memcpy(object->version, end + 1, length);
    }
    ff_buffer_free(&text);
    free(record);
    return status;
}

/* Only what lies between header and tables; a file system without holes keeps all. */
static ff_status free_samples(const ff_shard *shard, ff_error *error) {
    const int fd = open(shard->file, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return ff_fail_errno(error, "%s: cannot open", shard->path);
    ff_status status = FF_OK;
    if (shard->footer.samples_end > FF_HEADER_BYTES &&
        fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FF_HEADER_BYTES,
                  (off_t)(shard->footer.samples_end - FF_HEADER_BYTES)) &&
        errno != EOPNOTSUPP && errno != ENOSYS)
        status = ff_fail_errno(error, "%s: cannot free its space", shard->path);
    close(fd);
    return status;
}

ff_status ff_sent_write(const char *directory, uint32_t number, const ff_object *object,
                        ff_error *error) {
    ff_shard shard;
    ff_buffer text = {0};
    char name[64];
    FF_TRY(ff_shard_look(&shard, directory, number, error));
    ff_shard_name(name, number);
    strcat(name, FF_SENT_SUFFIX);
    ff_status status;
    FF_TRY_DONE(ff_buffer_printf(&text, error, "%" PRIu64 " %s\n", object->bytes, object->version));
    FF_TRY_DONE(ff_file_save(directory, name, &text, error));
    status = free_samples(&shard, error);
done:
    ff_buffer_free(&text);
    ff_shard_close(&shard);
    return status;
}

ff_status ff_sent_forget(const char *path, ff_error *error) {
    char *record;
    FF_TRY(ff_format(&record, error, "%s" FF_SENT_SUFFIX, path));
    ff_status status = FF_OK;
    /* A shard without its samples must never stay without its record. */
    if (unlink(path) && errno != ENOENT) status = ff_fail_errno(error, "%s: cannot remove", path);
    if (status == FF_OK && unlink(record) && errno != ENOENT)
        status = ff_fail_errno(error, "%s: cannot remove", record);
    free(record);
    return status;
}
