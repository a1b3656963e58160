#include "tools/ffinspect/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ff_outfile {
    char *path;      /* for sentences */
    char *temporary; /* NULL where the path is written to directly */
    int descriptor;
};

static ff_status open_temporary(ff_outfile *file, ff_error *error) {
    FF_TRY(ff_format(&file->temporary, error, "%s.XXXXXX", file->path));
    file->descriptor = mkostemp(file->temporary, O_CLOEXEC);
    if (file->descriptor < 0) {
        free(file->temporary);
        file->temporary = NULL;
        return ff_fail_errno(error, "%s: cannot create", file->path);
    }
    /* mkostemp makes it private; the user's mask decides here. */
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(file->descriptor, 0666 & ~mask))
        return ff_fail_errno(error, "%s: cannot set the mode", file->path);
    return FF_OK;
}

static ff_status open_any(ff_outfile *file, const char *path, ff_error *error) {
    struct stat info;
    bool standard = !strcmp(path, "-");
    FF_TRY(ff_copy_string(&file->path, standard ? "standard output" : path, error));
    if (standard) {
        file->descriptor = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    } else if (!stat(path, &info) && S_ISDIR(info.st_mode)) {
        return ff_fail(error, FF_IO, "%s: is a folder; name a file to write", path);
    } else if (!stat(path, &info) && !S_ISREG(info.st_mode)) {
        file->descriptor = open(path, O_WRONLY | O_CLOEXEC);
    } else {
        return open_temporary(file, error);
    }
    if (file->descriptor < 0) return ff_fail_errno(error, "%s: cannot open", file->path);
    return FF_OK;
}

ff_status ff_outfile_open(ff_outfile **out, const char *path, ff_error *error) {
    ff_outfile *file;
    *out = NULL;
    FF_TRY(ff_alloc(&file, 1, sizeof *file, "a file", error));
    file->descriptor = -1;
    ff_status status = open_any(file, path, error);
    if (status != FF_OK) ff_outfile_discard(&file);
    *out = file;
    return status;
}

bool ff_outfile_seekable(const ff_outfile *file) {
    return file->temporary != NULL;
}

ff_status ff_outfile_write(ff_outfile *file, const void *bytes, size_t length, ff_error *error) {
    for (const char *at = bytes; length;) {
        ssize_t done = write(file->descriptor, at, length);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return ff_fail_errno(error, "%s: cannot write", file->path);
        at += done;
        length -= (size_t)done;
    }
    return FF_OK;
}

ff_status ff_outfile_write_at(ff_outfile *file, uint64_t offset, const void *bytes, size_t length,
                              ff_error *error) {
    for (const char *at = bytes; length;) {
        ssize_t done = pwrite(file->descriptor, at, length, (off_t)offset);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return ff_fail_errno(error, "%s: cannot write", file->path);
        at += done;
        offset += (uint64_t)done;
        length -= (size_t)done;
    }
    return FF_OK;
}

static ff_status finish(ff_outfile *file, ff_error *error) {
    int descriptor = file->descriptor;
    file->descriptor = -1;
    if (close(descriptor)) return ff_fail_errno(error, "%s: cannot write", file->path);
    if (!file->temporary) return FF_OK;
    if (rename(file->temporary, file->path))
        return ff_fail_errno(error, "%s: cannot rename the finished file to it", file->path);
    free(file->temporary);
    file->temporary = NULL;
    return FF_OK;
}

ff_status ff_outfile_commit(ff_outfile **file, ff_error *error) {
    ff_status status = finish(*file, error);
    ff_outfile_discard(file);
    return status;
}

void ff_outfile_discard(ff_outfile **out) {
    ff_outfile *file = *out;
    if (!file) return;
    if (file->descriptor >= 0) close(file->descriptor);
    if (file->temporary) unlink(file->temporary);
    free(file->temporary);
    free(file->path);
    free(file);
    *out = NULL;
}
