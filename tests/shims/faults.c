/* Preloaded into a program: lets one call fail, the FF_FAULT_AT-th (from 1) of a kind.
 *   FF_FAULT=alloc            malloc, calloc, realloc, posix_memalign, aligned_alloc: no memory
 *   FF_FAULT=io FF_FAULT_ERRNO=N   open, read, write, pread, pwrite, fsync, fdatasync, rename,
 *                             renameat2, mkdir, ftruncate, mmap of files, fstat: errno N
 *   FF_FAULT=short            read, write, pread, pwrite: half of what was asked for, from the
 *                             FF_FAULT_AT-th on all of them
 *   FF_FAULT=eintr            the same calls: EINTR once
 *   FF_FAULT=kill             what changes a folder or a file: the process is killed before it
 * The number of such calls in a run is written to FF_FAULT_COUNT at its end. Calls that the C
 * library makes itself are not seen. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static enum { NOTHING, ALLOC, IO, SHORT, EINTR_ONCE, KILL } kind;
static long fail_at;
static int fail_errno = EIO;
static atomic_long count;

__attribute__((constructor)) static void start(void) {
    const char *wanted = getenv("FF_FAULT"), *at = getenv("FF_FAULT_AT");
    const char *number = getenv("FF_FAULT_ERRNO");
    if (at) fail_at = atol(at);
    if (number) fail_errno = atoi(number);
    if (!wanted) return;
    kind = !strcmp(wanted, "alloc")   ? ALLOC
           : !strcmp(wanted, "io")    ? IO
           : !strcmp(wanted, "short") ? SHORT
           : !strcmp(wanted, "kill")  ? KILL
                                      : EINTR_ONCE;
}

__attribute__((destructor)) static void finish(void) {
    const char *to = getenv("FF_FAULT_COUNT");
    char text[32];
    long total = count;
    kind = NOTHING;
    if (!to) return;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    int length = snprintf(text, sizeof text, "%ld\n", total);
    if (fd >= 0) {
        syscall(SYS_write, fd, text, length);
        syscall(SYS_close, fd);
    }
}

static int fails(int of) {
    return kind == (unsigned)of && ++count == fail_at;
}

static int fails_io(void) {
    if (!fails(IO)) return 0;
    errno = fail_errno;
    return 1;
}

static void dies(void) {
    if (fails(KILL)) syscall(SYS_kill, getpid(), SIGKILL);
}

static int fails_change(void) {
    dies();
    return fails_io();
}

/* How much a call may transfer; -1 with EINTR set. */
static ssize_t share(size_t size) {
    if (kind == SHORT && ++count >= fail_at && fail_at > 0 && size > 1) return (ssize_t)(size / 2);
    if (fails(EINTR_ONCE)) {
        errno = EINTR;
        return -1;
    }
    return (ssize_t)size;
}

void *malloc(size_t size) {
    if (!fails(ALLOC)) return __libc_malloc(size);
    errno = ENOMEM;
    return NULL;
}
void *calloc(size_t n, size_t size) {
    if (!fails(ALLOC)) return __libc_calloc(n, size);
    errno = ENOMEM;
    return NULL;
}
void *realloc(void *old, size_t size) {
    if (!fails(ALLOC)) return __libc_realloc(old, size);
    errno = ENOMEM;
    return NULL;
}
void *aligned_alloc(size_t alignment, size_t size) {
    if (!fails(ALLOC)) return __libc_memalign(alignment, size);
    errno = ENOMEM;
    return NULL;
}
int posix_memalign(void **out, size_t alignment, size_t size) {
    if (fails(ALLOC)) return ENOMEM;
    void *made = __libc_memalign(alignment, size);
    if (!made) return ENOMEM;
    *out = made;
    return 0;
}

#define NEXT(name)                                                                                 \
    static __typeof__(name) *next;                                                                 \
    if (!next) next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static int mode_of(int flags, va_list list) {
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, int) : 0;
}
int open(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    int mode = mode_of(flags, list);
    va_end(list);
    if (flags & (O_CREAT | O_TRUNC) ? fails_change() : fails_io()) return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    int mode = mode_of(flags, list);
    va_end(list);
    if (flags & (O_CREAT | O_TRUNC) ? fails_change() : fails_io()) return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    int mode = mode_of(flags, list);
    va_end(list);
    if (flags & (O_CREAT | O_TRUNC) ? fails_change() : fails_io()) return -1;
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}
ssize_t read(int fd, void *to, size_t size) {
    if (fails_io()) return -1;
    ssize_t part = share(size);
    return part < 0 ? -1 : syscall(SYS_read, fd, to, (size_t)part);
}
ssize_t write(int fd, const void *from, size_t size) {
    if (fd <= 2) return syscall(SYS_write, fd, from, size);
    if (fails_change()) return -1;
    ssize_t part = share(size);
    return part < 0 ? -1 : syscall(SYS_write, fd, from, (size_t)part);
}
ssize_t pread(int fd, void *to, size_t size, off_t offset) {
    if (fails_io()) return -1;
    ssize_t part = share(size);
    return part < 0 ? -1 : syscall(SYS_pread64, fd, to, (size_t)part, offset);
}
ssize_t pwrite(int fd, const void *from, size_t size, off_t offset) {
    if (fails_change()) return -1;
    ssize_t part = share(size);
    return part < 0 ? -1 : syscall(SYS_pwrite64, fd, from, (size_t)part, offset);
}
ssize_t pread64(int fd, void *to, size_t size, off64_t offset) {
    return pread(fd, to, size, offset);
}
ssize_t pwrite64(int fd, const void *from, size_t size, off64_t offset) {
    return pwrite(fd, from, size, offset);
}
int fsync(int fd) {
    return fails_io() ? -1 : (int)syscall(SYS_fsync, fd);
}
int fdatasync(int fd) {
    return fails_io() ? -1 : (int)syscall(SYS_fdatasync, fd);
}
int rename(const char *from, const char *to) {
    return fails_change() ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    return fails_change() ? -1 : (int)syscall(SYS_renameat2, a, from, b, to, flags);
}
int mkdir(const char *path, mode_t mode) {
    return fails_change() ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
int symlink(const char *to, const char *path) {
    dies();
    return (int)syscall(SYS_symlinkat, to, AT_FDCWD, path);
}
int unlink(const char *path) {
    dies();
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
int unlinkat(int folder, const char *path, int flags) {
    dies();
    return (int)syscall(SYS_unlinkat, folder, path, flags);
}
int rmdir(const char *path) {
    dies();
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}
int ftruncate(int fd, off_t size) {
    return fails_change() ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}
int fstat(int fd, struct stat *info) {
    NEXT(fstat);
    return fails_io() ? -1 : next(fd, info);
}
int stat(const char *path, struct stat *info) {
    NEXT(stat);
    return fails_io() ? -1 : next(path, info);
}
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    if (fd >= 0 && fails_io()) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}
