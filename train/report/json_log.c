#include "train/report/json_log.h"

#include "format/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ff_json_log {
    int descriptor;
    char *path;
};

ff_status ff_json_log_open(ff_json_log **log, const char *path, ff_error *error) {
    FF_TRY(ff_alloc(log, 1, sizeof **log, "the log", error));
    (*log)->descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    ff_status status = FF_OK;
    if ((*log)->descriptor < 0)
        status = ff_fail_errno(error, "--log-json: %s: cannot open for appending", path);
    else
        status = ff_copy_string(&(*log)->path, path, error);
    if (status != FF_OK) ff_json_log_close(log);
    return status;
}

void ff_json_log_close(ff_json_log **log) {
    if (!*log) return;
    if ((*log)->descriptor >= 0) close((*log)->descriptor);
    free((*log)->path);
    free(*log);
    *log = NULL;
}

ff_status ff_json_log_write(ff_json_log *log, json_t *object, ff_error *error) {
    char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(object);
    if (!text) return ff_fail(error, FF_NO_MEMORY, "--log-json: %s: no memory", log->path);
    ff_buffer line = {0};
    ff_status status = ff_buffer_printf(&line, error, "%s\n", text);
    free(text);
    if (status == FF_OK) {
        /* A signal may arrive before anything is written: retry. A partial write is not completed,
         * because another process may already have appended a line. */
        ssize_t written;
        do written = write(log->descriptor, line.bytes, line.length);
        while (written < 0 && errno == EINTR);
        if (written < 0)
            status = ff_fail_errno(error, "--log-json: %s: cannot write", log->path);
        else if ((size_t)written < line.length)
            status = ff_fail(error, FF_IO, "--log-json: %s: wrote %zd of a line's %zu bytes",
                             log->path, written, line.length);
    }
    ff_buffer_free(&line);
    return status;
}
