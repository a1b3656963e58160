#include "train/comm/job/channel.h"

#include "format/base/read.h"
#include "format/cli/interrupt.h"
#include "format/cli/options.h"
#include "train/comm/job/channel_socket.h"
#include "train/comm/job/channel_tcp.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static const uint64_t second_ns = 1000000000;

static void wake(const ff_channel *channel) {
    const uint64_t one = 1;
    if (write(channel->wake, &one, sizeof one) < 0) return; /* full: the thread is awake */
}

/* ---- failure of the job ---- */

bool ff_channel_set_failure(ff_channel *channel, const char *format, ...) {
    va_list arguments;
    if (channel->failed) return false;
    channel->failed = true;
    va_start(arguments, format);
    vsnprintf(channel->why, sizeof channel->why, format, arguments);
    va_end(arguments);
    pthread_cond_broadcast(&channel->changed);
    return true;
}

static ff_status check(const ff_channel *channel, ff_error *error) {
    return channel->failed ? ff_fail(error, FF_FAILED, "%s", channel->why) : FF_OK;
}

ff_status ff_channel_check(ff_channel *channel, ff_error *error) {
    return ff_channel_await_failure(channel, 0, error);
}

ff_status ff_channel_await_failure(ff_channel *channel, uint64_t wait_ns, ff_error *error) {
    const uint64_t end = ff_now_ns() + wait_ns;
    const struct timespec until = {(time_t)(end / second_ns), (long)(end % second_ns)};
    pthread_mutex_lock(&channel->mutex);
    while (wait_ns && !channel->failed)
        if (pthread_cond_timedwait(&channel->changed, &channel->mutex, &until) != 0) break;
    ff_status status = check(channel, error);
    pthread_mutex_unlock(&channel->mutex);
    return status;
}

void ff_channel_report(ff_channel *channel, const char *why) {
    pthread_mutex_lock(&channel->mutex);
    if (ff_channel_set_failure(channel, "%s failed: %s", channel->name, why) && channel->rank)
        ff_peer_post(channel, &channel->peers[0], FF_MESSAGE_REPORT, why,
                     strnlen(why, FF_MESSAGE_TEXT));
    pthread_mutex_unlock(&channel->mutex);
    wake(channel);
}

ff_status ff_channel_conclude(ff_channel *channel, ff_status status, ff_error *error) {
    ff_error first = {0};
    /* Only these may follow from the loss of another rank. */
    const bool may_follow = status == FF_FAILED || status == FF_INTERRUPTED;
    if (status == FF_OK || status == FF_PREEMPTED) return status;
    /* The cause is known within a second. */
    if (may_follow && ff_channel_await_failure(channel, second_ns, &first) != FF_OK) {
        *error = first;
        return FF_FAILED;
    }
    if (status != FF_INTERRUPTED) ff_channel_report(channel, error->message);
    return status;
}

/* ---- gathering ---- */

static ff_status gather(ff_channel *channel, const void *bytes, size_t length, ff_buffer *parts,
                        ff_error *error) {
    ff_status status;
    pthread_mutex_lock(&channel->mutex);
    const uint64_t round = channel->round;
    FF_TRY_DONE(check(channel, error));
    if (!channel->rank)
        ff_tcp_offer(channel, &channel->peers[0], bytes, length);
    else {
        ff_peer_post(channel, &channel->peers[0], FF_MESSAGE_PART, bytes, length);
        channel->arrived = 1; /* until PARTS comes */
    }
    wake(channel);
    while (channel->round == round && !channel->failed)
        pthread_cond_wait(&channel->changed, &channel->mutex);
    FF_TRY_DONE(channel->round == round ? check(channel, error) : FF_OK);
    status = ff_parts_split(&channel->result, parts, channel->size, error);
done:
    pthread_mutex_unlock(&channel->mutex);
    return status;
}

ff_status ff_channel_gather(ff_channel *channel, const void *bytes, size_t length, ff_buffer *parts,
                            ff_error *error) {
    for (int i = 0; i < channel->size; i++) parts[i] = (ff_buffer){0};
    if (length > FF_CHANNEL_PART)
        return ff_fail(error, FF_FAILED, "%zu bytes are too many for the control channel", length);
    ff_status status = gather(channel, bytes, length, parts, error);
    for (int i = 0; status != FF_OK && i < channel->size; i++) ff_buffer_free(&parts[i]);
    return status;
}

/* ---- beginning and end ---- */

void ff_channel_close(ff_channel **one) {
    ff_channel *channel = *one;
    *one = NULL;
    if (!channel) return;
    const uint64_t timeout_ns = channel->options.timeout_ns;
    pthread_mutex_lock(&channel->mutex);
    channel->ending = true;
    channel->ending_ns =
        ff_now_ns() + (timeout_ns < FF_CHANNEL_CLOSING_NS ? timeout_ns : FF_CHANNEL_CLOSING_NS);
    pthread_mutex_unlock(&channel->mutex);
    wake(channel);
    ff_threads_join(&channel->thread);
    for (int i = 0; i < channel->slots && channel->peers; i++) {
        ff_peer_close(&channel->peers[i]);
        if (channel->offers && i < channel->peer_count) ff_buffer_free(&channel->offers[i]);
    }
    ff_close_file(&channel->listener);
    ff_close_file(&channel->wake);
    ff_buffer_free(&channel->result);
    pthread_cond_destroy(&channel->changed);
    pthread_mutex_destroy(&channel->mutex);
    free(channel->polled);
    free(channel->offers);
    free(channel->peers);
    free(channel);
}

/* Listens or connects, and starts the thread. */
static ff_status start(ff_channel *channel, const ff_ranks *ranks, ff_error *error) {
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
    channel->peer_count = !channel->rank ? ranks->size : 1;
    channel->slots = channel->peer_count + (!channel->rank ? FF_CHANNEL_STRANGERS : 0);
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
    if (channel->rank) {
        FF_TRY(ff_channel_connect(ranks, channel->end_ns, &root->fd, error));
        snprintf(root->name, sizeof root->name, "rank 0");
        if (ranks->port)
            snprintf(root->name, sizeof root->name, "rank 0 (%.100s, port %d)", ranks->host,
                     ranks->port);
        FF_TRY_DONE(ff_hello_add(&body, own, error));
        ff_peer_post(channel, root, FF_MESSAGE_HELLO, body.bytes, body.length);
    } else {
        memcpy(root->name, channel->name, sizeof root->name);
        if (ranks->size > 1) FF_TRY(ff_channel_listen(ranks, &channel->listener, error));
        ff_tcp_welcome(channel);
    }
    status = ff_threads_start(&channel->thread, 1, "channel", ff_channel_serve, channel, error);
done:
    ff_buffer_free(&body);
    return status;
}

ff_status ff_channel_open(ff_channel **out, const ff_ranks *ranks,
                          const ff_channel_options *options, ff_error *error) {
    pthread_condattr_t monotonic;
    ff_channel *channel;
    *out = NULL;
    FF_TRY(ff_alloc(&channel, 1, sizeof *channel, "the control channel", error));
    channel->options = *options;
    channel->rank = ranks->rank;
    channel->size = ranks->size;
    pthread_mutex_init(&channel->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&channel->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    channel->listener = channel->wake = -1;
    channel->end_ns = ff_now_ns() + options->timeout_ns;
    channel->beat_ns = options->timeout_ns / 10 < second_ns ? options->timeout_ns / 10 : second_ns;
    if (channel->beat_ns < second_ns / 1000) channel->beat_ns = second_ns / 1000;
    ff_status status = start(channel, ranks, error);
    pthread_mutex_lock(&channel->mutex);
    while (status == FF_OK && !channel->opened && (status = check(channel, error)) == FF_OK &&
           (status = ff_interrupt_check(error)) == FF_OK) {
        const uint64_t until = ff_now_ns() + second_ns / 10;
        const struct timespec time = {(time_t)(until / second_ns), (long)(until % second_ns)};
        pthread_cond_timedwait(&channel->changed, &channel->mutex, &time);
    }
    pthread_mutex_unlock(&channel->mutex);
    *out = channel;
    if (status == FF_OK) return FF_OK;
    if (channel->thread) ff_channel_report(*out, error ? error->message : "it was stopped");
    ff_channel_close(out);
    return status;
}
