/* Ranks of a job whose control channel is a port of this machine, in threads or forked processes.
 */
#ifndef FF_TESTS_LOOPBACK_H
#define FF_TESTS_LOOPBACK_H

#include "tests/unit/check.h"
#include "train/comm/job/ranks.h"

#include <netinet/in.h>
#include <sys/socket.h>

typedef struct loopback {
    int size, listener, port;
} loopback;

static inline loopback open_loopback(int size) {
    loopback l = {.size = size, .listener = socket(AF_INET, SOCK_STREAM, 0)};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    assert_int_equal(bind(l.listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(l.listener, 64), 0);
    assert_int_equal(getsockname(l.listener, (struct sockaddr *)&at, &length), 0);
    l.port = ntohs(at.sin_port);
    return l;
}

/* The channel of rank 0 closes the listener. */
static inline ff_ranks loopback_rank(const loopback *l, int rank) {
    static char host[] = "127.0.0.1", job[] = "test";
    return (ff_ranks){.rank = rank,
                      .size = l->size,
                      .local_rank = rank,
                      .local_size = l->size,
                      .family = "fftrain",
                      .host = host,
                      .port = l->port,
                      .job = job,
                      .listener = rank ? -1 : l->listener};
}

#endif
