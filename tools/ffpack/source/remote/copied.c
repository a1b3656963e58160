#include "tools/ffpack/source/remote/copied.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "format/cli/say.h"
#include "format/storage/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    CONNECTIONS = 8,
    PIECE_BYTES = 8 << 20, /* one connection's, in memory */
    INPUT_BYTES = 1 << 20
};

/* ---- an object ------------------------------------------------------------------------------ */

typedef struct copying {
    const char *path, *temporary;
    ff_storage *storage;
    ff_object object;
    int fd;
    pthread_mutex_t mutex; /* of the following */
    uint64_t done;         /* bytes */
    ff_error failure;      /* the first; status FF_OK = none */
    ff_progress progress;
} copying;

static ff_status copy_piece(copying *state, uint64_t offset, uint64_t bytes, ff_error *error) {
    ff_object object = state->object;
    char *piece;
    FF_TRY(ff_alloc_aligned(&piece, bytes, 1, 0, "a piece of an object", error));
    ff_status status = ff_storage_read(state->storage, "", &object, offset, bytes, piece, error);
    /* Without a version only the size shows that it is another object. */
    if (status == FF_OK && object.bytes != state->object.bytes)
        status = ff_fail(error, FF_IO, "%s: was replaced while it was read", state->path);
    if (status == FF_OK)
        status = ff_write_temporary(state->fd, state->temporary, piece, bytes, offset, error);
    free(piece);
    return status;
}

static void copy_number(void *context, size_t number) {
    copying *state = context;
    ff_error failure = {0};
    const uint64_t offset = (uint64_t)number * PIECE_BYTES, left = state->object.bytes - offset,
                   bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
    pthread_mutex_lock(&state->mutex);
    ff_status status = state->failure.status;
    pthread_mutex_unlock(&state->mutex);
    if (status != FF_OK) return;
    status = copy_piece(state, offset, bytes, &failure);
    pthread_mutex_lock(&state->mutex);
    if (status == FF_OK) {
        state->done += bytes;
        ff_progress_update(&state->progress, state->done, NULL);
    } else if (state->failure.status == FF_OK) {
        state->failure = failure;
        state->failure.status = status;
        ff_storage_stop(state->storage);
    }
    pthread_mutex_unlock(&state->mutex);
}

/* Takes the space first, so that a disk that is too small is found before anything is fetched. */
static ff_status take_space(const copying *state, ff_error *error) {
    struct statvfs found;
    if (!state->object.bytes || !fallocate(state->fd, 0, 0, (off_t)state->object.bytes))
        return FF_OK;
    if (errno != ENOSPC && errno != EFBIG && errno != EDQUOT) return FF_OK;
    char room[96] = "";
    if (fstatvfs(state->fd, &found) == 0)
        snprintf(room, sizeof room, ", which has %s free",
                 ff_say_bytes((uint64_t)found.f_bavail * found.f_frsize).text);
    return ff_fail(error, FF_IO, "%s: its %s need temporary space in %s%s", state->path,
                   ff_say_bytes(state->object.bytes).text, state->temporary, room);
}

static ff_status copy_all(copying *state, const char *title, ff_error *error) {
    const size_t pieces = (size_t)((state->object.bytes + PIECE_BYTES - 1) / PIECE_BYTES);
    ff_progress_begin(&state->progress, title, FF_PROGRESS_BYTES, state->object.bytes, false);
    const ff_status status = ff_parallel_for(CONNECTIONS, pieces, copy_number, state, error);
    ff_progress_end(&state->progress);
    if (state->failure.status == FF_OK) return status;
    if (error) *error = state->failure;
    return state->failure.status;
}

ff_status ff_copy_object(const char *url, const char *path, const char *temporary, int *fd,
                         uint64_t *bytes, ff_error *error) {
    const ff_storage_options options = {.check = ff_interrupt_check, .object = true};
    copying state = {.path = path, .temporary = temporary, .fd = -1};
    char *title = NULL;
    bool there;
    ff_status status;
    pthread_mutex_init(&state.mutex, NULL);
    FF_TRY_DONE(ff_storage_open(&state.storage, url, &options, error));
    FF_TRY_DONE(ff_storage_find(state.storage, "", &state.object, &there, error));
    if (!there)
        FF_TRY_DONE(
            ff_fail(error, FF_IO, "%s: the server answers 404, there is no such object", path));
    FF_TRY_DONE(ff_open_temporary(temporary, &state.fd, error));
    FF_TRY_DONE(take_space(&state, error));
    FF_TRY_DONE(ff_format(&title, error, "fetching %s", ff_path_base(path)));
    status = copy_all(&state, title, error);
done:
    ff_storage_close(&state.storage);
    pthread_mutex_destroy(&state.mutex);
    free(title);
    if (status != FF_OK) ff_close_file(&state.fd);
    *fd = state.fd;
    *bytes = state.object.bytes;
    return status;
}

/* ---- the standard input ---------------------------------------------------------------------- */

/* *got = 0 at its end. Interrupts are noticed while nothing comes. */
static ff_status read_input(const char *path, char *to, size_t size, size_t *got, ff_error *error) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    for (;;) {
        FF_TRY(ff_interrupt_check(error));
        const int ready = poll(&input, 1, 100);
        if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
        const ssize_t bytes = ready < 0 ? -1 : read(STDIN_FILENO, to, size);
        if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (bytes < 0) return ff_fail_errno(error, "%s: cannot read", path);
        *got = (size_t)bytes;
        return FF_OK;
    }
}

static ff_status copy_rest(const char *path, const char *temporary, int fd, uint64_t *bytes,
                           ff_error *error) {
    ff_progress progress = {0};
    char *chunk;
    FF_TRY(ff_alloc_aligned(&chunk, INPUT_BYTES, 1, 0, "a chunk of the input", error));
    ff_progress_begin(&progress, "reading the standard input", FF_PROGRESS_BYTES, 0, false);
    ff_status status;
    for (size_t got = 1; got; *bytes += got) {
        FF_TRY_DONE(read_input(path, chunk, INPUT_BYTES, &got, error));
        FF_TRY_DONE(ff_write_temporary(fd, temporary, chunk, got, *bytes, error));
        ff_progress_update(&progress, *bytes + got, NULL);
    }
done:
    ff_progress_end(&progress);
    free(chunk);
    return status;
}

ff_status ff_copy_input(const char *path, const char *temporary, int *fd, uint64_t *bytes,
                        ff_error *error) {
    struct stat info;
    *fd = -1;
    *bytes = 0;
    if (isatty(STDIN_FILENO))
        return ff_fail(error, FF_USAGE,
                       "%s: is a terminal; wanted an archive, as in: curl URL | ffpack - -o OUT",
                       path);
    if (fstat(STDIN_FILENO, &info) < 0) return ff_fail_errno(error, "%s: cannot read", path);
    if (S_ISREG(info.st_mode) && lseek(STDIN_FILENO, 0, SEEK_CUR) == 0) {
        *fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        *bytes = (uint64_t)info.st_size;
        return *fd < 0 ? ff_fail_errno(error, "%s: cannot open", path) : FF_OK;
    }
    FF_TRY(ff_open_temporary(temporary, fd, error));
    const ff_status status = copy_rest(path, temporary, *fd, bytes, error);
    if (status != FF_OK) ff_close_file(fd);
    return status;
}
