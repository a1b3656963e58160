/* Preloaded: a machine without a network, on which only Unix sockets can be made. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int socket(int family, int type, int protocol) {
    if (family == AF_UNIX) return (int)syscall(SYS_socket, family, type, protocol);
    errno = EAFNOSUPPORT;
    return -1;
}
