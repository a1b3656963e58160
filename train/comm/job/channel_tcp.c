#include "train/comm/job/channel_tcp.h"

#include "format/base/interrupt.h"
#include "format/base/options.h"
#include "format/base/read.h"
#include "train/comm/job/channel_socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 65536, CHUNKS = 16 };
static const uint64_t second_ns = 1000000000, most_closing_ns = UINT64_C(5000000000);

static void wake(const ff_tcp_channel *channel) {
    const uint64_t one = 1;
    if (write(channel->wake, &one, sizeof one) < 0) return; /* full: the thread is awake */
}

static bool is_root(const ff_tcp_channel *channel) {
    return channel->base.rank == 0;
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

static void receive_some(ff_tcp_channel *channel, ff_peer *peer) {
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

static void accept_some(ff_tcp_channel *channel) {
    for (int i = channel->peer_count; i < channel->slots; i++) {
        if (channel->peers[i].fd >= 0) continue;
        const int fd = ff_channel_accept(channel->listener);
        if (fd < 0) return;
        channel->peers[i] = (ff_peer){.fd = fd, .rank = -1};
    }
}

/* Handles the end of a peer's connection. */
static void lose(ff_tcp_channel *channel, ff_peer *peer) {
    if (peer->rank >= 0 && !peer->left && !channel->ending)
        ff_channel_state_set(&channel->state, "%s was lost: %s", peer->name, peer->lost);
    ff_peer_close(peer);
}

static void check_silence(ff_tcp_channel *channel, ff_peer *peer, uint64_t passed_ns) {
    const uint64_t timeout_ns = channel->state.options.timeout_ns;
    peer->silent_ns += passed_ns;
    peer->unsent_ns += passed_ns;
    if (peer->rank < 0 &&
        peer->silent_ns > (timeout_ns < most_closing_ns ? timeout_ns : most_closing_ns))
        ff_peer_close(peer);
    else if (peer->silent_ns > timeout_ns) {
        snprintf(peer->lost, sizeof peer->lost, "it was silent for %.3g s",
                 (double)timeout_ns * 1e-9);
        lose(channel, peer);
    } else if (peer->unsent_ns >= channel->beat_ns && !peer->out.length && peer->rank >= 0)
        ff_peer_post(channel, peer, FF_MESSAGE_BEAT, NULL, 0);
}

/* Rank 0: reports the ranks that have not come in time. */
static void check_opening(ff_tcp_channel *channel) {
    char missing[200] = "";
    int count = 0;
    if (channel->opened || !is_root(channel) || ff_now_ns() < channel->end_ns) return;
    for (int i = 1; i < channel->peer_count; i++) {
        if (channel->peers[i].rank >= 0) continue;
        const size_t used = strlen(missing);
        if (count++ < 16)
            snprintf(missing + used, sizeof missing - used, "%s%d", used ? ", " : "", i);
    }
    ff_channel_state_set(&channel->state, "%s %s%s of %d did not come within %.3g s%s%s",
                         count == 1 ? "rank" : "ranks", missing, count > 16 ? ", ..." : "",
                         channel->peer_count, (double)channel->state.options.timeout_ns * 1e-9,
                         *channel->refused ? "; refused: " : "", channel->refused);
}

/* A rank that has ended cannot take part in a gather that others wait for. */
static void check_gather(ff_tcp_channel *channel) {
    for (int i = 0; i < channel->peer_count && channel->arrived; i++)
        if (channel->peers[i].left && !channel->peers[i].offered)
            ff_channel_state_set(&channel->state, "%s ended before the others",
                                 channel->peers[i].name);
}

/* Notifies the other ranks and, once, this process; releases the mutex meanwhile. */
static void tell(ff_tcp_channel *channel) {
    ff_channel_state *state = &channel->state;
    if (!state->failed || channel->told) return;
    channel->told = true;
    for (int i = 0; i < channel->peer_count && is_root(channel); i++)
        if (channel->peers[i].rank >= 0)
            ff_peer_post(channel, &channel->peers[i], FF_MESSAGE_FAILED, state->why,
                         strlen(state->why));
    if (!state->options.failed) return;
    pthread_mutex_unlock(&state->mutex);
    state->options.failed(state->options.context, state->why);
    pthread_mutex_lock(&state->mutex);
}

/* Everything that is still to be sent is left with the peers; true when they have sent it, or it
 * takes too long. */
static bool has_ended(ff_tcp_channel *channel) {
    bool open = false;
    if (!channel->ending) return false;
    for (int i = 0; i < channel->slots; i++) {
        ff_peer *peer = &channel->peers[i];
        if (!channel->state.failed && peer->rank >= 0)
            ff_peer_post(channel, peer, FF_MESSAGE_BYE, NULL, 0);
        peer->closing = true;
        open |= peer->fd >= 0 && (peer->rank >= 0 || peer->out.length);
    }
    return !open || ff_now_ns() > channel->ending_ns;
}

/* polled[0] wakes the thread, [1] is the listener, the rest are the peers. Only those up to the
 * last open one are polled: poll refuses more than the process may have descriptors. */
static void wait_for_some(ff_tcp_channel *channel) {
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
    pthread_mutex_unlock(&channel->state.mutex);
    poll(polled, count, (int)(channel->beat_ns / 1000000));
    pthread_mutex_lock(&channel->state.mutex);
}

static void run(void *context, int index) {
    (void)index;
    ff_tcp_channel *channel = context;
    pthread_mutex_lock(&channel->state.mutex);
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
    pthread_mutex_unlock(&channel->state.mutex);
}

static ff_status gather(ff_channel *base, const void *bytes, size_t length, ff_buffer *parts,
                        ff_error *error) {
    ff_tcp_channel *channel = (ff_tcp_channel *)base;
    ff_channel_state *state = &channel->state;
    ff_status status;
    pthread_mutex_lock(&state->mutex);
    const uint64_t round = channel->round;
    FF_TRY_DONE(ff_channel_state_check(state, error));
    if (is_root(channel))
        ff_tcp_offer(channel, &channel->peers[0], bytes, length);
    else {
        ff_peer_post(channel, &channel->peers[0], FF_MESSAGE_PART, bytes, length);
        channel->arrived = 1; /* until PARTS comes */
    }
    wake(channel);
    while (channel->round == round && !state->failed)
        pthread_cond_wait(&state->changed, &state->mutex);
    FF_TRY_DONE(channel->round == round ? ff_channel_state_check(state, error) : FF_OK);
    status = ff_parts_split(&channel->result, parts, base->size, error);
done:
    pthread_mutex_unlock(&state->mutex);
    return status;
}

static void report(ff_channel *base, const char *why) {
    ff_tcp_channel *channel = (ff_tcp_channel *)base;
    pthread_mutex_lock(&channel->state.mutex);
    if (ff_channel_state_set(&channel->state, "%s failed: %s", channel->name, why) &&
        !is_root(channel))
        ff_peer_post(channel, &channel->peers[0], FF_MESSAGE_REPORT, why,
                     strnlen(why, FF_MESSAGE_TEXT));
    pthread_mutex_unlock(&channel->state.mutex);
    wake(channel);
}

static void close_channel(ff_channel *base) {
    ff_tcp_channel *channel = (ff_tcp_channel *)base;
    const uint64_t timeout_ns = channel->state.options.timeout_ns;
    pthread_mutex_lock(&channel->state.mutex);
    channel->ending = true;
    channel->ending_ns =
        ff_now_ns() + (timeout_ns < most_closing_ns ? timeout_ns : most_closing_ns);
    pthread_mutex_unlock(&channel->state.mutex);
    wake(channel);
    ff_threads_join(&channel->thread);
    for (int i = 0; i < channel->slots && channel->peers; i++) {
        ff_peer_close(&channel->peers[i]);
        if (channel->offers && i < channel->peer_count) ff_buffer_free(&channel->offers[i]);
    }
    ff_close_file(&channel->listener);
    ff_close_file(&channel->wake);
    ff_buffer_free(&channel->result);
    ff_channel_state_release(&channel->state);
    free(channel->polled);
    free(channel->offers);
    free(channel->peers);
    free(channel);
}

/* Listens or connects, and starts the thread. */
static ff_status start(ff_tcp_channel *channel, const ff_ranks *ranks, ff_error *error) {
    ff_hello *own = &channel->own;
    ff_buffer body = {0};
    ff_status status;
    own->rank = ranks->rank;
    own->size = ranks->size;
    own->process = (int)getpid();
    if (gethostname(own->host, sizeof own->host - 1) != 0) snprintf(own->host, 2, "?");
    snprintf(own->version, sizeof own->version, "%s", ff_version);
    snprintf(own->job, sizeof own->job, "%s", ranks->job ? ranks->job : "");
    ff_peer_name(channel->name, sizeof channel->name, own);
    channel->peer_count = is_root(channel) ? ranks->size : 1;
    channel->slots = channel->peer_count + (is_root(channel) ? FF_CHANNEL_STRANGERS : 0);
    FF_TRY(ff_alloc(&channel->peers, (uint64_t)channel->slots, sizeof *channel->peers,
                    "the control channel", error));
    for (int i = 0; i < channel->slots; i++) channel->peers[i].fd = channel->peers[i].rank = -1;
    FF_TRY(ff_alloc(&channel->offers, (uint64_t)channel->peer_count, sizeof *channel->offers,
                    "the control channel", error));
    FF_TRY(ff_alloc(&channel->polled, (uint64_t)channel->slots + 2, sizeof *channel->polled,
                    "the control channel", error));
    channel->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (channel->wake < 0) return ff_fail_errno(error, "the control channel: cannot wake it");
    ff_peer *root = &channel->peers[0];
    root->rank = 0;
    if (!is_root(channel)) {
        FF_TRY(ff_channel_connect(ranks, channel->end_ns, &root->fd, error));
        snprintf(root->name, sizeof root->name, "rank 0 (%.100s, port %d)", ranks->host,
                 ranks->port);
        FF_TRY_DONE(ff_hello_add(&body, own, error));
        ff_peer_post(channel, root, FF_MESSAGE_HELLO, body.bytes, body.length);
    } else {
        memcpy(root->name, channel->name, sizeof root->name);
        if (ranks->size > 1) FF_TRY(ff_channel_listen(ranks, &channel->listener, error));
        ff_tcp_welcome(channel);
    }
    status = ff_threads_start(&channel->thread, 1, "channel", run, channel, error);
done:
    ff_buffer_free(&body);
    return status;
}

ff_status ff_channel_open(ff_channel **out, const ff_ranks *ranks,
                          const ff_channel_options *options, ff_error *error) {
    static const ff_channel_table table = {gather, report, close_channel, UINT64_C(1000000000)};
    ff_tcp_channel *channel;
    ff_channel_state *state;
    *out = NULL;
    FF_TRY(ff_alloc(&channel, 1, sizeof *channel, "the control channel", error));
    state = &channel->state;
    ff_channel_state_init(state, options);
    channel->base = (ff_channel){&table, state, ranks->rank, ranks->size};
    channel->listener = channel->wake = -1;
    channel->end_ns = ff_now_ns() + options->timeout_ns;
    channel->beat_ns = options->timeout_ns / 10 < second_ns ? options->timeout_ns / 10 : second_ns;
    if (channel->beat_ns < second_ns / 1000) channel->beat_ns = second_ns / 1000;
    ff_status status = start(channel, ranks, error);
    pthread_mutex_lock(&state->mutex);
    while (status == FF_OK && !channel->opened &&
           (status = ff_channel_state_check(state, error)) == FF_OK &&
           (status = ff_interrupt_check(error)) == FF_OK) {
        const uint64_t until = ff_now_ns() + second_ns / 10;
        const struct timespec time = {(time_t)(until / second_ns), (long)(until % second_ns)};
        pthread_cond_timedwait(&state->changed, &state->mutex, &time);
    }
    pthread_mutex_unlock(&state->mutex);
    *out = &channel->base;
    if (status == FF_OK) return FF_OK;
    if (channel->thread) ff_channel_report(*out, error ? error->message : "it was stopped");
    ff_channel_close(out);
    return status;
}
