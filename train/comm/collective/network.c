#include "train/comm/collective/network.h"

#include "format/base/thread.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SLICE_MS = 50, GREETING_MS = 3000, LAST_NOTICE_MS = 500 };

/* The first message of a connection. The answer has the two ranks exchanged; then the first message
 * is sent again. */
typedef struct greeting {
    uint8_t token[16];
    int32_t from, to;
    bool notices; /* what the connection is for */
} greeting;

/* `why` empty: the sender has ended without a failure. */
typedef struct notice {
    int32_t rank; /* the rank that failed */
    char why[1000];
} notice;

/* Writes an IPv4 address as IPv6, ::ffff:a.b.c.d: one kind of socket serves both. */
static bool address_of(const struct sockaddr *from, struct in6_addr *to) {
    if (from->sa_family == AF_INET6) {
        *to = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
        return !IN6_IS_ADDR_LINKLOCAL(to);
    }
    if (from->sa_family != AF_INET) return false;
    memset(to, 0, sizeof *to);
    to->s6_addr[10] = to->s6_addr[11] = 0xff;
    memcpy(&to->s6_addr[12], &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
    return true;
}

/* Lists the addresses of all interfaces that are up. Loopback addresses come last: they reach only
 * ranks on this machine. */
static ff_status own_addresses(ff_network_place *place, ff_error *error) {
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0) return ff_fail_errno(error, "cannot list network addresses");
    for (int loopback = 0; loopback < 2; loopback++)
        for (struct ifaddrs *one = all; one; one = one->ifa_next)
            if (one->ifa_addr && (one->ifa_flags & IFF_UP) &&
                !(one->ifa_flags & IFF_LOOPBACK) == !loopback &&
                place->count < FF_NETWORK_ADDRESSES &&
                address_of(one->ifa_addr, &place->addresses[place->count]))
                place->count++;
    freeifaddrs(all);
    return FF_OK;
}

ff_status ff_network_listen(ff_network *network, int rank, int size, ff_network_place *place,
                            ff_error *error) {
    *network = (ff_network){.rank = rank, .size = size};
    *place = (ff_network_place){.count = 0};
    for (int r = 0; r < FF_COMM_RANKS_MOST; r++) network->sockets[r] = network->notices[r] = -1;
    network->listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (network->listener < 0) return ff_fail_errno(error, "cannot make a socket");
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    socklen_t length = sizeof at;
    int both = 0;
    if (setsockopt(network->listener, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both) != 0 ||
        bind(network->listener, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(network->listener, FF_COMM_RANKS_MOST) != 0 ||
        getsockname(network->listener, (struct sockaddr *)&at, &length) != 0)
        return ff_fail_errno(error, "cannot listen for other ranks");
    place->port = at.sin6_port;
    if (getrandom(place->token, sizeof place->token, 0) != sizeof place->token)
        return ff_fail_errno(error, "no random numbers");
    return own_addresses(place, error);
}

/* Waits until `events` come at the socket or the time is over; true also for an error of the
 * socket. */
static bool ready(int socket, short events, int milliseconds) {
    struct pollfd one = {.fd = socket, .events = events};
    return poll(&one, 1, milliseconds) == 1;
}

static bool receive_greeting(int socket, greeting *got) {
    size_t have = 0;
    for (ssize_t n; have < sizeof *got; have += (size_t)n) {
        if (!ready(socket, POLLIN, GREETING_MS)) return false;
        n = recv(socket, (char *)got + have, sizeof *got - have, MSG_DONTWAIT);
        if (n <= 0) return false;
    }
    return true;
}

static bool send_greeting(const ff_network *network, int socket, int to, bool notices) {
    greeting hello = {.from = network->rank, .to = to, .notices = notices};
    memcpy(hello.token, network->token, sizeof hello.token);
    int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return send(socket, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
}

static bool greets(const ff_network *network, const greeting *got) {
    return memcmp(got->token, network->token, sizeof got->token) == 0 && got->to == network->rank;
}

/* Returns a socket to rank `r` at one of its addresses, or -1: a machine in another network may
 * have the same address. */
static int connect_at(const ff_network *network, int r, const struct in6_addr *address,
                      in_port_t port, bool notices) {
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = *address};
    greeting got;
    int one = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (one < 0) return -1;
    bool connected = connect(one, (struct sockaddr *)&to, sizeof to) == 0 ||
                     (errno == EINPROGRESS && ready(one, POLLOUT, GREETING_MS));
    if (connected && send_greeting(network, one, r, notices) && receive_greeting(one, &got) &&
        greets(network, &got) && got.from == r && send_greeting(network, one, r, notices))
        return one;
    close(one);
    return -1;
}

static ff_status connect_to(ff_network *network, int r, const ff_network_place *place,
                            uint64_t deadline_ns, ff_error *error) {
    do {
        for (int a = 0; a < place->count && network->notices[r] < 0; a++) {
            const struct in6_addr *address = &place->addresses[a];
            if (network->sockets[r] < 0)
                network->sockets[r] = connect_at(network, r, address, place->port, false);
            if (network->sockets[r] >= 0)
                network->notices[r] = connect_at(network, r, address, place->port, true);
        }
        if (network->notices[r] >= 0) return FF_OK;
    } while (ff_now_ns() < deadline_ns);
    char text[INET6_ADDRSTRLEN] = "none";
    if (place->count) inet_ntop(AF_INET6, &place->addresses[0], text, sizeof text);
    return ff_fail(error, FF_FAILED,
                   "rank %d cannot connect to rank %d: tried %d addresses, the first %s, port %d",
                   network->rank, r, place->count, text, ntohs(place->port));
}

/* Accepts only ranks that are still to connect. The greeting is confirmed: a rank that has given up
 * waiting for the answer connects again. */
static void accept_one(ff_network *network, const bool *peer) {
    greeting got;
    int one = accept4(network->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (one < 0) return;
    bool wanted = receive_greeting(one, &got) && greets(network, &got) &&
                  got.from > network->rank && got.from < network->size && peer[got.from];
    int *place = !wanted ? NULL : got.notices ? network->notices : network->sockets;
    if (place && place[got.from] < 0 && send_greeting(network, one, got.from, got.notices) &&
        receive_greeting(one, &got) && greets(network, &got))
        place[got.from] = one;
    else
        close(one);
}

/* Each rank connects to lower ranks and then waits for higher ones. Rank 0 waits at once, so the
 * chain ends. */
ff_status ff_network_connect(ff_network *network, const ff_network_place *places, const bool *peer,
                             uint64_t timeout_ns, ff_error *error) {
    const uint64_t deadline_ns = ff_now_ns() + timeout_ns;
    memcpy(network->token, places[0].token, sizeof network->token);
    for (int r = 0; r < network->rank; r++)
        if (peer[r]) FF_TRY(connect_to(network, r, &places[r], deadline_ns, error));
    for (int r = network->rank + 1; r < network->size; r++)
        while (peer[r] && (network->sockets[r] < 0 || network->notices[r] < 0)) {
            if (ff_now_ns() > deadline_ns)
                return ff_fail(error, FF_FAILED, "rank %d has not connected to rank %d", r,
                               network->rank);
            if (ready(network->listener, POLLIN, SLICE_MS)) accept_one(network, peer);
        }
    close(network->listener);
    network->listener = -1;
    return FF_OK;
}

static ff_status lost(ff_network *network, int r, int reason, ff_error *error) {
    ff_barrier_name(network->barrier, r);
    return ff_fail(error, FF_FAILED, "rank %d is lost: %s", r,
                   reason ? strerror(reason) : "its process has ended");
}

/* Reads a notice of rank `r`, if there is one. */
static ff_status read_notice(ff_network *network, int r, ff_error *error) {
    notice got = {.why = ""};
    ssize_t n = recv(network->notices[r], &got, sizeof got, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return FF_OK;
    if (n <= 0) return lost(network, r, n ? errno : 0, error);
    network->left[r] = !got.why[0];
    if (network->left[r]) return FF_OK;
    got.why[sizeof got.why - 1] = 0;
    ff_barrier_name(network->barrier, got.rank);
    return ff_fail(error, FF_FAILED, "%s", got.why);
}

/* Handles the end of the connection to rank `r`. If it could, the rank has sent a notice with the
 * reason. */
static ff_status ended(ff_network *network, int r, int reason, ff_error *error) {
    if (!network->left[r] && ready(network->notices[r], POLLIN, LAST_NOTICE_MS))
        FF_TRY(read_notice(network, r, error));
    return lost(network, r, reason, error);
}

/* Sends and receives what is possible now. `sent` and `received`: bytes. */
static ff_status move_some(ff_network *network, int r, ff_message *message, size_t *sent,
                           size_t *received, ff_error *error) {
    const int socket = network->sockets[r];
    while (*sent < message->send_bytes) {
        ssize_t n = send(socket, (const char *)message->send + *sent, message->send_bytes - *sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0 && errno != EINTR) return ended(network, r, errno, error);
        if (n > 0) *sent += (size_t)n;
    }
    while (*received < message->receive_bytes) {
        ssize_t n = recv(socket, (char *)(uintptr_t)message->received + *received,
                         message->receive_bytes - *received, MSG_DONTWAIT);
        if (n == 0) return ended(network, r, 0, error);
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0 && errno != EINTR) return ended(network, r, errno, error);
        if (n > 0) *received += (size_t)n;
    }
    return FF_OK;
}

ff_status ff_network_exchange(ff_network *network, ff_message *messages, char *inbox,
                              ff_error *error) {
    size_t sent[FF_COMM_RANKS_MOST] = {0}, received[FF_COMM_RANKS_MOST] = {0};
    for (int r = 0; r < network->size; r++) {
        if (network->sockets[r] < 0 || messages[r].receive_bytes == 0) continue;
        messages[r].received = messages[r].receive ? messages[r].receive : inbox;
        if (!messages[r].receive) inbox += (messages[r].receive_bytes + 63) / 64 * 64;
    }
    for (;;) {
        struct pollfd waiting[2 * FF_COMM_RANKS_MOST];
        int noticed[FF_COMM_RANKS_MOST];
        nfds_t count = 0;
        for (int r = 0; r < network->size; r++) {
            if (network->sockets[r] < 0) continue;
            FF_TRY(move_some(network, r, &messages[r], &sent[r], &received[r], error));
            short events = (short)((sent[r] < messages[r].send_bytes ? POLLOUT : 0) |
                                   (received[r] < messages[r].receive_bytes ? POLLIN : 0));
            if (events) waiting[count++] = (struct pollfd){network->sockets[r], events, 0};
        }
        if (count == 0) return FF_OK;
        FF_TRY(ff_barrier_check(network->barrier, error));
        const nfds_t data = count;
        for (int r = 0; r < network->size; r++) {
            if (network->notices[r] < 0 || network->left[r]) continue;
            noticed[count - data] = r;
            waiting[count++] = (struct pollfd){network->notices[r], POLLIN, 0};
        }
        if (poll(waiting, count, SLICE_MS) < 0 && errno != EINTR)
            return ff_fail_errno(error, "poll failed");
        for (nfds_t i = data; i < count; i++)
            if (waiting[i].revents) FF_TRY(read_notice(network, noticed[i - data], error));
    }
}

static void send_notices(const ff_network *network, const notice *message) {
    for (int r = 0; r < network->size; r++)
        if (network->notices[r] >= 0)
            (void)send(network->notices[r], message, sizeof *message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void ff_network_abort(ff_network *network) {
    notice message = {.rank = atomic_load(&network->barrier->lost) - 1};
    ff_error failure = {0};
    if (ff_barrier_check(network->barrier, &failure) == FF_OK) return;
    snprintf(message.why, sizeof message.why, "%.*s", (int)sizeof message.why - 1, failure.message);
    send_notices(network, &message);
}

void ff_network_close(ff_network *network) {
    if (network->barrier && ff_barrier_check(network->barrier, NULL) == FF_OK)
        send_notices(network, &(notice){.rank = network->rank});
    if (network->listener >= 0) close(network->listener);
    network->listener = -1;
    for (int r = 0; r < FF_COMM_RANKS_MOST; r++) {
        if (network->sockets[r] >= 0) close(network->sockets[r]);
        if (network->notices[r] >= 0) close(network->notices[r]);
        network->sockets[r] = network->notices[r] = -1;
    }
}
