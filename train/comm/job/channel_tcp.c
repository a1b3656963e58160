#include "train/comm/job/channel_tcp.h"

#include "train/comm/job/channel_socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK = 65536, CHUNKS = 16 };

static bool is_root(const ff_channel *channel) {
    return channel->rank == 0;
}

/* Sends what the socket takes. Errors are left to receiving, which first reads the bytes that came
 * before the error. */
static void send_some(ff_peer *peer) {
    while (peer->sent < peer->out.length) {
        const ssize_t sent = send(peer->fd, peer->out.bytes + peer->sent,
                                  peer->out.length - peer->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (sent < 0 && errno == EINTR) continue;
        peer->unsent_ns = 0;
        peer->sent += sent < 0 ? peer->out.length - peer->sent : (size_t)sent;
    }
    peer->sent = peer->out.length = 0;
    if (peer->closing) shutdown(peer->fd, SHUT_WR);
    if (peer->out.capacity > CHUNK) ff_buffer_free(&peer->out);
}

static void receive_some(ff_channel *channel, ff_peer *peer) {
    char bytes[CHUNK];
    ff_error error = {0};
    for (int i = 0; i < CHUNKS; i++) {
        const ssize_t got = recv(peer->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got > 0) {
            peer->silent_ns = 0;
            if (ff_buffer_add(&peer->in, bytes, (size_t)got, &error) == FF_OK) continue;
            ff_tcp_fail(channel, &error);
        } else if (got == 0 || errno == ECONNRESET)
            snprintf(peer->lost, sizeof peer->lost, "it ended without reporting why");
        else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            snprintf(peer->lost, sizeof peer->lost, "its connection broke: %s", strerror(errno));
        return;
    }
}

static void accept_some(ff_channel *channel) {
    for (int i = channel->peer_count; i < channel->slots; i++) {
        if (channel->peers[i].fd >= 0) continue;
        const int fd = ff_channel_accept(channel->listener);
        if (fd < 0) return;
        channel->peers[i] = (ff_peer){.fd = fd, .rank = -1};
    }
}

/* Handles the end of a peer's connection. */
static void lose(ff_channel *channel, ff_peer *peer) {
    if (peer->rank >= 0 && !peer->left && !channel->ending)
        ff_channel_set_failure(channel, "%s was lost: %s", peer->name, peer->lost);
    ff_peer_close(peer);
}

static void check_silence(ff_channel *channel, ff_peer *peer, uint64_t passed_ns) {
    const uint64_t timeout_ns = channel->options.timeout_ns;
    peer->silent_ns += passed_ns;
    peer->unsent_ns += passed_ns;
    if (peer->rank < 0 &&
        peer->silent_ns > (timeout_ns < FF_CHANNEL_CLOSING_NS ? timeout_ns : FF_CHANNEL_CLOSING_NS))
        ff_peer_close(peer);
    else if (peer->silent_ns > timeout_ns) {
        snprintf(peer->lost, sizeof peer->lost, "it was silent for %.3g s",
                 (double)timeout_ns * 1e-9);
        lose(channel, peer);
    } else if (peer->unsent_ns >= channel->beat_ns && !peer->out.length && peer->rank >= 0)
        ff_peer_post(channel, peer, FF_MESSAGE_BEAT, NULL, 0);
}

/* Rank 0: reports the ranks that have not come in time. */
static void check_opening(ff_channel *channel) {
    char missing[200] = "";
    int count = 0;
    if (channel->opened || !is_root(channel) || ff_now_ns() < channel->end_ns) return;
    for (int i = 1; i < channel->peer_count; i++) {
        if (channel->peers[i].rank >= 0) continue;
        const size_t used = strlen(missing);
        if (count++ < 16)
            snprintf(missing + used, sizeof missing - used, "%s%d", used ? ", " : "", i);
    }
    ff_channel_set_failure(channel, "%s %s%s of %d did not come within %.3g s%s%s",
                           count == 1 ? "rank" : "ranks", missing, count > 16 ? ", ..." : "",
                           channel->peer_count, (double)channel->options.timeout_ns * 1e-9,
                           *channel->refused ? "; refused: " : "", channel->refused);
}

/* A rank that has ended cannot take part in a gather that others wait for. */
static void check_gather(ff_channel *channel) {
    for (int i = 0; i < channel->peer_count && channel->arrived; i++)
        if (channel->peers[i].left && !channel->peers[i].offered)
            ff_channel_set_failure(channel, "%s ended before the others", channel->peers[i].name);
}

/* Notifies the other ranks and, once, this process; releases the mutex meanwhile. */
static void tell(ff_channel *channel) {
    if (!channel->failed || channel->told) return;
    channel->told = true;
    for (int i = 0; i < channel->peer_count && is_root(channel); i++)
        if (channel->peers[i].rank >= 0)
            ff_peer_post(channel, &channel->peers[i], FF_MESSAGE_FAILED, channel->why,
                         strlen(channel->why));
    if (!channel->options.failed) return;
    pthread_mutex_unlock(&channel->mutex);
    channel->options.failed(channel->options.context, channel->why);
    pthread_mutex_lock(&channel->mutex);
}

/* Everything that is still to be sent is left with the peers; true when they have sent it, or it
 * takes too long. */
static bool has_ended(ff_channel *channel) {
    bool open = false;
    if (!channel->ending) return false;
    for (int i = 0; i < channel->slots; i++) {
        ff_peer *peer = &channel->peers[i];
        if (!channel->failed && peer->rank >= 0)
            ff_peer_post(channel, peer, FF_MESSAGE_BYE, NULL, 0);
        peer->closing = true;
        open |= peer->fd >= 0 && (peer->rank >= 0 || peer->out.length);
    }
    return !open || ff_now_ns() > channel->ending_ns;
}

/* polled[0] wakes the thread, [1] is the listener, the rest are the peers. Only those up to the
 * last open one are polled: poll refuses more than the process may have descriptors. */
static void wait_for_some(ff_channel *channel) {
    struct pollfd *polled = channel->polled;
    bool space = false;
    nfds_t count = 2;
    polled[0] = (struct pollfd){.fd = channel->wake, .events = POLLIN};
    for (int i = 0; i < channel->slots; i++) {
        ff_peer *peer = &channel->peers[i];
        if (peer->fd >= 0 && (peer->out.length || peer->closing)) send_some(peer);
        polled[2 + i] = (struct pollfd){
            .fd = peer->fd, .events = (short)(POLLIN | (peer->out.length ? POLLOUT : 0))};
        space |= peer->fd < 0 && i >= channel->peer_count;
        if (peer->fd >= 0) count = (nfds_t)i + 3;
    }
    polled[1] = (struct pollfd){.fd = space ? channel->listener : -1, .events = POLLIN};
    pthread_mutex_unlock(&channel->mutex);
    poll(polled, count, (int)(channel->beat_ns / 1000000));
    pthread_mutex_lock(&channel->mutex);
}

void ff_channel_serve(void *context, int index) {
    (void)index;
    ff_channel *channel = context;
    pthread_mutex_lock(&channel->mutex);
    for (uint64_t before = ff_now_ns(); tell(channel), !has_ended(channel);) {
        uint64_t many;
        wait_for_some(channel);
        if (channel->polled[0].revents && read(channel->wake, &many, sizeof many) < 0) continue;
        /* Receives first: the reason that a rank sent must count before the end of its connection,
         * and before failures of other ranks that follow from it. */
        for (int i = 0; i < channel->slots; i++)
            if (channel->polled[2 + i].revents) receive_some(channel, &channel->peers[i]);
        for (int i = channel->slots - 1; i >= 0; i--) ff_peer_take(channel, &channel->peers[i]);
        const uint64_t now = ff_now_ns();
        /* The time in which this process was stopped does not count as silence of others. */
        const uint64_t passed =
            now - before < 2 * channel->beat_ns ? now - before : 2 * channel->beat_ns;
        for (int i = 0; i < channel->slots; i++) {
            ff_peer *peer = &channel->peers[i];
            if (peer->fd >= 0 && *peer->lost)
                lose(channel, peer);
            else if (peer->fd >= 0)
                check_silence(channel, peer, passed);
        }
        if (channel->polled[1].revents) accept_some(channel);
        check_opening(channel);
        check_gather(channel);
        before = now;
    }
    pthread_mutex_unlock(&channel->mutex);
}
