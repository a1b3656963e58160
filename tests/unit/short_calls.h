/* The test's own write and pwrite, which transfer fewer bytes than requested or are interrupted. */
#ifndef FF_TESTS_SHORT_CALLS_H
#define FF_TESTS_SHORT_CALLS_H

#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    size_t most;      /* bytes per call; 0 = as many as requested */
    bool interrupted; /* every second call first fails with EINTR */
    int calls;
} short_calls;

static bool interrupts(void) {
    if (!short_calls.interrupted || short_calls.calls++ % 2) return false;
    errno = EINTR;
    return true;
}

static size_t least(size_t length) {
    return short_calls.most && length > short_calls.most ? short_calls.most : length;
}

ssize_t write(int file, const void *from, size_t length) {
    return interrupts() ? -1 : syscall(SYS_write, file, from, least(length));
}

ssize_t pwrite(int file, const void *from, size_t length, off_t offset) {
    return interrupts() ? -1 : syscall(SYS_pwrite64, file, from, least(length), offset);
}

#endif
