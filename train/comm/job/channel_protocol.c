/* Handles the messages of the control channel. */
#include "format/base/read.h"
#include "train/comm/job/channel_tcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ff_peer_name(char *name, size_t size, const ff_hello *hello) {
    snprintf(name, size, "rank %d (host %s, process %d)", hello->rank, hello->host, hello->process);
}

static bool is_root(const ff_channel *channel) {
    return channel->rank == 0;
}

void ff_tcp_fail(ff_channel *channel, const ff_error *why) {
    ff_channel_set_failure(channel, "%s failed: %s", channel->name, why->message);
}

void ff_peer_post(ff_channel *channel, ff_peer *peer, ff_message_kind kind, const void *body,
                  size_t length) {
    ff_error error = {0};
    if (peer->fd < 0 || peer->closing) return;
    if (ff_message_add(&peer->out, kind, body, length, &error) != FF_OK)
        ff_tcp_fail(channel, &error);
}

void ff_peer_close(ff_peer *peer) {
    ff_close_file(&peer->fd);
    ff_buffer_free(&peer->in);
    ff_buffer_free(&peer->out);
    peer->sent = 0;
}

static void refuse(ff_channel *channel, ff_peer *peer, const char *why) {
    ff_peer_post(channel, peer, FF_MESSAGE_REFUSED, why, strlen(why));
    peer->closing = true;
    snprintf(channel->refused, sizeof channel->refused, "%s", why);
}

/* Call when every rank's part has come. */
static void finish_gather(ff_channel *channel) {
    ff_error error = {0};
    channel->arrived = 0;
    channel->result.length = 0;
    if (ff_parts_add(&channel->result, channel->offers, channel->peer_count, &error) != FF_OK) {
        ff_tcp_fail(channel, &error);
        return;
    }
    for (int i = 0; i < channel->peer_count; i++) {
        ff_peer_post(channel, &channel->peers[i], FF_MESSAGE_PARTS, channel->result.bytes,
                     channel->result.length);
        ff_buffer_free(&channel->offers[i]);
        channel->peers[i].offered = false;
    }
    channel->round++;
    pthread_cond_broadcast(&channel->changed);
}

/* Rank 0: takes a part of the gather. */
void ff_tcp_offer(ff_channel *channel, ff_peer *peer, const void *bytes, size_t length) {
    ff_error error = {0};
    if (peer->offered ||
        ff_buffer_add(&channel->offers[peer->rank], bytes, length, &error) != FF_OK) {
        if (peer->offered) ff_fail(&error, FF_FAILED, "it sent two parts of a gather");
        ff_channel_set_failure(channel, "%s failed: %s", peer->name, error.message);
        return;
    }
    peer->offered = true;
    if (++channel->arrived == channel->peer_count) finish_gather(channel);
}

void ff_tcp_welcome(ff_channel *channel) {
    ff_error error = {0};
    ff_buffer body = {0};
    for (int i = 1; i < channel->peer_count; i++)
        if (channel->peers[i].rank < 0) return;
    if (ff_hello_add(&body, &channel->own, &error) != FF_OK) ff_tcp_fail(channel, &error);
    for (int i = 1; i < channel->peer_count; i++)
        ff_peer_post(channel, &channel->peers[i], FF_MESSAGE_WELCOME, body.bytes, body.length);
    ff_buffer_free(&body);
    channel->opened = true;
    pthread_cond_broadcast(&channel->changed);
}

/* Rank 0: takes the greeting of a stranger, a connection whose rank is not known yet. */
static void take_hello(ff_channel *channel, ff_peer *stranger, const ff_hello *hello) {
    char name[sizeof stranger->name], why[FF_CHANNEL_WHY] = "";
    const ff_hello *own = &channel->own;
    ff_peer_name(name, sizeof name, hello);
    if (strcmp(hello->job, own->job) != 0) {
        snprintf(why, sizeof why, "%s belongs to job '%.200s', %s to '%.200s'", name, hello->job,
                 channel->name, own->job);
        refuse(channel, stranger, why);
        return;
    }
    ff_peer *place = hello->rank < channel->peer_count ? &channel->peers[hello->rank] : NULL;
    if (strcmp(hello->version, own->version) != 0)
        snprintf(why, sizeof why, "%s is fftrain %s, %s is fftrain %s", name, hello->version,
                 channel->name, own->version);
    else if (hello->size != own->size || !place)
        snprintf(why, sizeof why, "%s was started as one of %d ranks, %s as one of %d", name,
                 hello->size, channel->name, own->size);
    else if (hello->rank == 0 || place->rank >= 0)
        snprintf(why, sizeof why, "rank %d comes twice: as %s and as %s", hello->rank,
                 hello->rank ? place->name : channel->name, name);
    if (*why) {
        if (channel->opened) /* the job continues without the stranger */
            snprintf(why + strlen(why), sizeof why - strlen(why), "; the job has begun");
        else
            ff_channel_set_failure(channel, "%s", why);
        refuse(channel, stranger, why);
        return;
    }
    if (channel->failed) { /* too late */
        refuse(channel, stranger, channel->why);
        return;
    }
    memcpy(stranger->name, name, sizeof name);
    stranger->rank = hello->rank;
    *place = *stranger;
    *stranger = (ff_peer){.fd = -1, .rank = -1};
    ff_tcp_welcome(channel);
}

static void take(ff_channel *channel, ff_peer *peer, const ff_message *message) {
    const int length = (int)message->length;
    ff_hello hello;
    ff_error error = {0};
    switch (message->kind) {
    case FF_MESSAGE_BEAT: return;
    case FF_MESSAGE_BYE: peer->left = true; return;
    case FF_MESSAGE_PART:
        if (!is_root(channel)) break;
        ff_tcp_offer(channel, peer, message->body, message->length);
        return;
    case FF_MESSAGE_REPORT:
        if (!is_root(channel)) break;
        ff_channel_set_failure(channel, "%s failed: %.*s", peer->name, length, message->body);
        return;
    case FF_MESSAGE_WELCOME:
        if (is_root(channel) || channel->opened) break;
        if (ff_hello_parse(message, &hello, &error) != FF_OK) break;
        ff_peer_name(peer->name, sizeof peer->name, &hello);
        channel->opened = true;
        pthread_cond_broadcast(&channel->changed);
        return;
    case FF_MESSAGE_PARTS:
        if (is_root(channel) || !channel->opened) break;
        channel->result.length = 0;
        if (ff_buffer_add(&channel->result, message->body, message->length, &error) != FF_OK)
            ff_tcp_fail(channel, &error);
        channel->arrived = 0;
        channel->round++;
        pthread_cond_broadcast(&channel->changed);
        return;
    case FF_MESSAGE_REFUSED:
    case FF_MESSAGE_FAILED:
        if (is_root(channel)) break;
        ff_channel_set_failure(channel, "%.*s", length, message->body);
        return;
    default: break;
    }
    ff_channel_set_failure(channel, "%s failed: it sent a message out of turn", peer->name);
}

void ff_peer_take(ff_channel *channel, ff_peer *peer) {
    size_t at = 0, used = 1;
    ff_message message;
    ff_hello hello;
    ff_error error = {0};
    while (peer->fd >= 0 && peer->rank >= 0 && used) {
        if (ff_message_parse(peer->in.bytes + at, peer->in.length - at, channel->size, &message,
                             &used, &error) != FF_OK) {
            ff_channel_set_failure(channel, "%s failed: %s", peer->name, error.message);
            used = 0;
        }
        if (used) take(channel, peer, &message);
        at += used;
    }
    /* A stranger may only greet. It then becomes a rank, at another index of `peers`. */
    if (peer->fd >= 0 && peer->rank < 0 && peer->in.length && !peer->closing) {
        if (ff_message_parse(peer->in.bytes, peer->in.length, 1, &message, &used, &error) !=
                FF_OK ||
            (used && (message.kind != FF_MESSAGE_HELLO ||
                      ff_hello_parse(&message, &hello, &error) != FF_OK)))
            ff_peer_close(peer);
        else if (used)
            at = used;
    }
    if (!at) return;
    peer->in.length -= at;
    memmove(peer->in.bytes, peer->in.bytes + at, peer->in.length);
    if (peer->rank < 0) take_hello(channel, peer, &hello);
}
