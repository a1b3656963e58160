/* Preloaded into a program: a file system that has neither renameat2's flags, as NFS, nor locks of
 * whole files, as Lustre without -o flock. FF_PLAIN_KILL=N ends the program before its N-th rename
 * (from 1). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

static long renames;

static void count(void) {
    const char *at = getenv("FF_PLAIN_KILL");
    if (at && ++renames == atol(at)) _exit(137);
}

int flock(int fd, int operation) {
    (void)fd;
    (void)operation;
    errno = ENOSYS;
    return -1;
}

int rename(const char *from, const char *to) {
    count();
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to,
              unsigned int flags) {
    if (flags) {
        errno = EINVAL;
        return -1;
    }
    count();
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}
