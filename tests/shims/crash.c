/* Preloaded into a writer: records every operation on files below FF_CRASH_ROOT in the file
 * FF_CRASH_TRACE, and kills the process at operation number FF_CRASH_AT (from 1; before it happens,
 * or in the middle of a write where FF_CRASH_TORN is set). tests/crash/disk_model.py replays the
 * records. A record: op u8, length of a u32, length of b u32, offset u64, a, b; little-endian.
 * Ops: O create or truncate a (b: "c" or "t"), W write b to a at offset, S fsync a, R rename a to
 * b, L link a to b, X exchange a and b, U unlink a, M mkdir a, D rmdir a. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DESCRIPTORS = 1024 };
static char *path_of[DESCRIPTORS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int trace = -1;
static long count, kill_at;
static const char *root;

__attribute__((constructor)) static void start(void) {
    root = getenv("FF_CRASH_ROOT");
    const char *at = getenv("FF_CRASH_AT"), *to = getenv("FF_CRASH_TRACE");
    kill_at = at ? atol(at) : 0;
    if (root && to)
        trace = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
}

/* The absolute path; 0 where it is not below the root. */
static int resolve(int folder, const char *path, char out[PATH_MAX]) {
    if (!root) return 0;
    if (path[0] == '/')
        snprintf(out, PATH_MAX, "%s", path);
    else if (folder == AT_FDCWD) {
        char cwd[PATH_MAX / 2];
        if (!getcwd(cwd, sizeof cwd)) return 0;
        snprintf(out, PATH_MAX, "%s/%s", cwd, path);
    } else if (folder >= 0 && folder < DESCRIPTORS && path_of[folder])
        snprintf(out, PATH_MAX, "%s/%s", path_of[folder], path);
    else {
        char link[64], at[PATH_MAX / 2];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, at, sizeof at - 1);
        if (length < 0) return 0;
        at[length] = 0;
        snprintf(out, PATH_MAX, "%s/%s", at, path);
    }
    size_t length = strlen(root);
    return !strncmp(out, root, length) && out[length] == '/';
}

/* Counts and records; returns 1 if the process is to be killed in the middle of this one. */
static int record(char op, const char *a, const void *b, size_t b_length, uint64_t offset) {
    int torn = 0;
    pthread_mutex_lock(&mutex);
    if (++count == kill_at) {
        if (op == 'W' && getenv("FF_CRASH_TORN"))
            torn = 1;
        else
            syscall(SYS_kill, getpid(), SIGKILL);
    }
    uint8_t head[17];
    uint32_t a_bytes = (uint32_t)strlen(a), b_bytes = (uint32_t)b_length;
    head[0] = (uint8_t)op;
    memcpy(head + 1, &a_bytes, 4);
    memcpy(head + 5, &b_bytes, 4);
    memcpy(head + 9, &offset, 8);
    if (trace >= 0) {
        (void)!syscall(SYS_write, trace, head, sizeof head);
        (void)!syscall(SYS_write, trace, a, a_bytes);
        (void)!syscall(SYS_write, trace, b, b_bytes);
    }
    pthread_mutex_unlock(&mutex);
    return torn;
}

static int open_at(int folder, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    struct stat info;
    int ours = resolve(folder, path, full);
    int fresh = fstatat(folder, path, &info, AT_SYMLINK_NOFOLLOW) != 0;
    if (ours && (flags & O_CREAT) && fresh) record('O', full, "c", 1, 0);
    if (ours && (flags & O_TRUNC) && !fresh) record('O', full, "t", 1, 0);
    int descriptor = (int)syscall(SYS_openat, folder, path, flags, mode);
    if (descriptor >= 0 && descriptor < DESCRIPTORS) {
        free(path_of[descriptor]);
        path_of[descriptor] = ours ? strdup(full) : NULL;
    }
    return descriptor;
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int openat(int folder, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return open_at(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) __attribute__((alias("openat")));

int close(int descriptor) {
    if (descriptor >= 0 && descriptor < DESCRIPTORS) {
        free(path_of[descriptor]);
        path_of[descriptor] = NULL;
    }
    return (int)syscall(SYS_close, descriptor);
}

static const char *ours(int descriptor) {
    return descriptor >= 0 && descriptor < DESCRIPTORS ? path_of[descriptor] : NULL;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t length, off_t offset) {
    const char *path = ours(descriptor);
    if (path && record('W', path, bytes, length, (uint64_t)offset)) {
        (void)!syscall(SYS_pwrite64, descriptor, bytes, length / 2, offset);
        syscall(SYS_kill, getpid(), SIGKILL);
    }
    return syscall(SYS_pwrite64, descriptor, bytes, length, offset);
}
ssize_t pwrite64(int descriptor, const void *bytes, size_t length, off_t offset)
    __attribute__((alias("pwrite")));

ssize_t write(int descriptor, const void *bytes, size_t length) {
    if (ours(descriptor)) {
        off_t at = lseek(descriptor, 0, SEEK_CUR);
        ssize_t written = pwrite(descriptor, bytes, length, at);
        if (written > 0) lseek(descriptor, at + written, SEEK_SET);
        return written;
    }
    return syscall(SYS_write, descriptor, bytes, length);
}

int fsync(int descriptor) {
    const char *path = ours(descriptor);
    if (path) record('S', path, "", 0, 0);
    if (!path && root) { /* the root itself, which resolve() does not count as below */
        char link[64], at[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        ssize_t length = readlink(link, at, sizeof at - 1);
        if (length > 0 && (at[length] = 0, !strcmp(at, root))) record('S', root, "", 0, 0);
    }
    return (int)syscall(SYS_fsync, descriptor);
}
int fdatasync(int descriptor) __attribute__((alias("fsync")));

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    char a[PATH_MAX], b[PATH_MAX];
    if (resolve(from_folder, from, a) && resolve(to_folder, to, b))
        record(flags & 2 ? 'X' : 'R', a, b, strlen(b), 0);
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}
int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    return renameat2(from_folder, from, to_folder, to, 0);
}
int rename(const char *from, const char *to) {
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    char a[PATH_MAX], b[PATH_MAX];
    struct stat info;
    if (resolve(from_folder, from, a) && resolve(to_folder, to, b) &&
        fstatat(to_folder, to, &info, AT_SYMLINK_NOFOLLOW))
        record('L', a, b, strlen(b), 0);
    return (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
}
int link(const char *from, const char *to) {
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlinkat(int folder, const char *path, int flags) {
    char full[PATH_MAX];
    if (resolve(folder, path, full)) record(flags & AT_REMOVEDIR ? 'D' : 'U', full, "", 0, 0);
    return (int)syscall(SYS_unlinkat, folder, path, flags);
}
int unlink(const char *path) {
    return unlinkat(AT_FDCWD, path, 0);
}
int rmdir(const char *path) {
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdirat(int folder, const char *path, mode_t mode) {
    char full[PATH_MAX];
    struct stat info;
    if (resolve(folder, path, full) && fstatat(folder, path, &info, AT_SYMLINK_NOFOLLOW))
        record('M', full, "", 0, 0);
    return (int)syscall(SYS_mkdirat, folder, path, mode);
}
int mkdir(const char *path, mode_t mode) {
    return mkdirat(AT_FDCWD, path, mode);
}
