#include "train/comm/job/channel_socket.h"

#include "format/base/read.h"
#include "format/base/thread.h"
#include "format/cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { TRY_MS = 2000, PAUSE_MS = 50 };

static void prepare(int fd) {
    const int on = 1;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static int find(const char *host, int port, int flags, struct addrinfo **found) {
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    char service[8];
    snprintf(service, sizeof service, "%d", port);
    *found = NULL;
    return getaddrinfo(host, service, &wanted, found);
}

socklen_t ff_channel_name(const char *job, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "fftrain-%s", job);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(address->sun_path + 1));
}

/* -1 with errno if the address is not available. */
static int listen_at(const struct addrinfo *address) {
    const int on = 1, off = 0;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    prepare(fd);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->ai_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    const int number = errno;
    close(fd);
    errno = number;
    return -1;
}

ff_status ff_channel_listen(const ff_ranks *ranks, int *fd, ff_error *error) {
    const char *host = ranks->host;
    const bool here =
        !strncmp(host, "127.", 4) || !strcmp(host, "localhost") || !strcmp(host, "::1");
    struct addrinfo *found;
    *fd = ranks->listener;
    if (*fd >= 0) {
        prepare(*fd);
        return FF_OK;
    }
    /* A machine's own name may resolve to its loopback address, as in Debian's /etc/hosts. */
    const int wrong = find(here ? host : NULL, ranks->port, AI_PASSIVE, &found);
    if (wrong)
        return ff_fail(error, FF_FAILED, "%s: no address to listen at: %s", host,
                       gai_strerror(wrong));
    for (int pass = 0; pass < 2 && *fd < 0; pass++) /* IPv6 first: it serves both */
        for (const struct addrinfo *at = found; at && *fd < 0; at = at->ai_next)
            if ((at->ai_family == AF_INET6) == (pass == 0)) {
                *fd = listen_at(at);
                if (*fd < 0 && errno == EADDRINUSE) pass = 2;
            }
    const int number = errno;
    freeaddrinfo(found);
    errno = number;
    if (*fd >= 0) return FF_OK;
    if (errno == EADDRINUSE)
        return ff_fail(error, FF_FAILED,
                       "port %d of this machine, at which rank 0 waits for the others, is in use: "
                       "end the program that has it, or choose another port",
                       ranks->port);
    return ff_fail_errno(error, "cannot listen at port %d", ranks->port);
}

int ff_channel_accept(int listener) {
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) prepare(fd);
    return fd;
}

/* Connects to one address; returns 0 or an errno. */
static int connect_to(int family, const void *address, socklen_t address_length, uint64_t end_ns,
                      int *fd) {
    int number = 0;
    socklen_t length = sizeof number;
    *fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0) return errno;
    prepare(*fd);
    if (connect(*fd, address, address_length) == 0) return 0;
    number = errno;
    if (number == EINPROGRESS) {
        struct pollfd wait = {.fd = *fd, .events = POLLOUT};
        const uint64_t now = ff_now_ns(), left_ms = end_ns > now ? (end_ns - now) / 1000000 : 0;
        if (poll(&wait, 1, left_ms < TRY_MS ? (int)left_ms : TRY_MS) != 1)
            number = ETIMEDOUT;
        else if (getsockopt(*fd, SOL_SOCKET, SO_ERROR, &number, &length) != 0)
            number = errno;
    }
    if (number) ff_close_file(fd);
    return number;
}

/* Connects to one of the addresses of a host; returns why it did not. */
static const char *connect_host(const ff_ranks *ranks, uint64_t end_ns, int *fd) {
    struct addrinfo *found;
    const char *why = "it has no address";
    const int wrong = find(ranks->host, ranks->port, 0, &found);
    if (wrong) why = gai_strerror(wrong);
    for (const struct addrinfo *at = found; at && *fd < 0; at = at->ai_next) {
        const int number = connect_to(at->ai_family, at->ai_addr, at->ai_addrlen, end_ns, fd);
        if (number) why = strerror(number);
    }
    if (found) freeaddrinfo(found);
    return why;
}

static const char *connect_name(const ff_ranks *ranks, uint64_t end_ns, int *fd) {
    struct sockaddr_un at;
    const socklen_t length = ff_channel_name(ranks->host, &at);
    return strerror(connect_to(AF_UNIX, &at, length, end_ns, fd));
}

ff_status ff_channel_connect(const ff_ranks *ranks, uint64_t end_ns, int *fd, ff_error *error) {
    const struct timespec pause = {0, PAUSE_MS * 1000000L};
    *fd = -1;
    for (;;) {
        const char *why = (ranks->port ? connect_host : connect_name)(ranks, end_ns, fd);
        if (*fd >= 0) return FF_OK;
        FF_TRY(ff_interrupt_check(error));
        if (ff_now_ns() >= end_ns && ranks->port)
            return ff_fail(error, FF_FAILED, "rank 0 does not answer at %s, port %d: %s",
                           ranks->host, ranks->port, why);
        if (ff_now_ns() >= end_ns)
            return ff_fail(error, FF_FAILED, "rank 0 does not answer: %s", why);
        nanosleep(&pause, NULL);
    }
}
