#include "train/comm/job/channel_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

void ff_channel_state_init(ff_channel_state *state, const ff_channel_options *options) {
    pthread_condattr_t monotonic;
    state->options = *options;
    pthread_mutex_init(&state->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&state->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void ff_channel_state_release(ff_channel_state *state) {
    pthread_cond_destroy(&state->changed);
    pthread_mutex_destroy(&state->mutex);
}

static bool set_failure(ff_channel_state *state, const char *format, va_list arguments) {
    if (state->failed) return false;
    state->failed = true;
    vsnprintf(state->why, sizeof state->why, format, arguments);
    pthread_cond_broadcast(&state->changed);
    return true;
}

bool ff_channel_state_set(ff_channel_state *state, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const bool first = set_failure(state, format, arguments);
    va_end(arguments);
    return first;
}

void ff_channel_state_fail(ff_channel_state *state, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&state->mutex);
    const bool first = set_failure(state, format, arguments);
    pthread_mutex_unlock(&state->mutex);
    va_end(arguments);
    if (first && state->options.failed) state->options.failed(state->options.context, state->why);
}

ff_status ff_channel_state_check(const ff_channel_state *state, ff_error *error) {
    return state->failed ? ff_fail(error, FF_FAILED, "%s", state->why) : FF_OK;
}

ff_status ff_channel_gather(ff_channel *channel, const void *bytes, size_t length, ff_buffer *parts,
                            ff_error *error) {
    for (int i = 0; i < channel->size; i++) parts[i] = (ff_buffer){0};
    if (length > FF_CHANNEL_PART)
        return ff_fail(error, FF_FAILED, "%zu bytes are too many for the control channel", length);
    ff_status status = channel->table->gather(channel, bytes, length, parts, error);
    for (int i = 0; status != FF_OK && i < channel->size; i++) ff_buffer_free(&parts[i]);
    return status;
}

ff_status ff_channel_check(ff_channel *channel, ff_error *error) {
    return ff_channel_await_failure(channel, 0, error);
}

ff_status ff_channel_await_failure(ff_channel *channel, uint64_t wait_ns, ff_error *error) {
    ff_channel_state *state = channel->state;
    const uint64_t end = ff_now_ns() + wait_ns;
    const struct timespec until = {(time_t)(end / 1000000000), (long)(end % 1000000000)};
    pthread_mutex_lock(&state->mutex);
    while (wait_ns && !state->failed)
        if (pthread_cond_timedwait(&state->changed, &state->mutex, &until) != 0) break;
    ff_status status = ff_channel_state_check(state, error);
    pthread_mutex_unlock(&state->mutex);
    return status;
}

void ff_channel_report(ff_channel *channel, const char *why) {
    channel->table->report(channel, why);
}

ff_status ff_channel_conclude(ff_channel *channel, ff_status status, ff_error *error) {
    ff_error first = {0};
    /* Only these may follow from the loss of another rank. */
    const bool may_follow = status == FF_FAILED || status == FF_INTERRUPTED;
    if (status == FF_OK || status == FF_PREEMPTED) return status;
    if (may_follow &&
        ff_channel_await_failure(channel, channel->table->cause_ns, &first) != FF_OK) {
        *error = first;
        return FF_FAILED;
    }
    if (status != FF_INTERRUPTED) ff_channel_report(channel, error->message);
    return status;
}

void ff_channel_close(ff_channel **channel) {
    if (*channel) (*channel)->table->close(*channel);
    *channel = NULL;
}
