#include "format/storage/request.h"

#include "format/base/thread.h"
#include "format/storage/transfer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SIGNS_S3 = 0x075800, /* libcurl 7.88 */
    FIRST_SECONDS = 15,
    TIDY_SECONDS = 3
};

ff_status ff_client_create(ff_client **out, const char *region, double timeout_s,
                           ff_status (*check)(ff_error *error), ff_error *error) {
    const ff_curl *curl;
    *out = NULL;
    FF_TRY(ff_curl_open(&curl, error));
    FF_TRY(ff_alloc(out, 1, sizeof **out, "a client", error));
    (*out)->curl = curl;
    (*out)->timeout_s = timeout_s;
    (*out)->check = check;
    pthread_mutex_init(&(*out)->mutex, NULL);
    if (!region) return FF_OK;
    const ff_status status = ff_copy_string(&(*out)->region, region, error);
    if (status != FF_OK) ff_client_destroy(out);
    return status;
}

void ff_client_destroy(ff_client **client) {
    if (!*client) return;
    for (int i = 0; i < (*client)->handles; i++)
        (*client)->curl->easy_cleanup((*client)->handle[i]);
    ff_credentials_free(&(*client)->credentials);
    pthread_mutex_destroy(&(*client)->mutex);
    free((*client)->region);
    free(*client);
    *client = NULL;
}

ff_status ff_client_check(const ff_client *client, ff_error *error) {
    if (client->stopped) return ff_fail(error, FF_INTERRUPTED, "stopped");
    return client->check ? client->check(error) : FF_OK;
}

void ff_client_stop(ff_client *client) {
    client->stopped = true;
}

/* The keys for the next request; those that expire within five minutes are asked for again. */
static ff_status find_keys(ff_client *client, char **user, char **token, ff_error *error) {
    ff_status status = FF_OK;
    *user = *token = NULL;
    if (!client->region) return FF_OK;
    pthread_mutex_lock(&client->mutex);
    ff_credentials *keys = &client->credentials;
    if (!client->found || (keys->expires && keys->expires - (int64_t)time(NULL) < 300)) {
        ff_credentials_free(keys);
        status = ff_credentials_find(keys, error);
        client->found = status == FF_OK;
    }
    if (status == FF_OK && keys->key)
        status = ff_format(user, error, "%s:%s", keys->key, keys->secret);
    if (status == FF_OK && keys->token)
        status = ff_format(token, error, "x-amz-security-token: %s", keys->token);
    pthread_mutex_unlock(&client->mutex);
    if (status == FF_OK && *user && client->curl->version < SIGNS_S3)
        status = ff_fail(error, FF_FAILED,
                         "libcurl %s cannot sign requests to S3; 7.88 or newer is needed",
                         client->curl->version_text);
    return status;
}

static ff_status attempt_once(ff_attempt *now, CURLcode *result, ff_error *error) {
    char *user, *token;
    ff_status status = find_keys(now->client, &user, &token, error);
    if (status == FF_OK) status = ff_attempt_run(now, user, token, result, error);
    free(user);
    free(token);
    return status;
}

/* ---- what a failure means ------------------------------------------------------------------- */

static bool may_pass(CURLcode result, long code) {
    switch (result) {
    case CURLE_OK: return code == 408 || code == 429 || (code >= 500 && code != 501 && code != 505);
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM: return true;
    default: return false;
    }
}

/* The text of an element of S3's XML: <Code>NoSuchKey</Code>. */
static const char *element(const char *xml, const char *name, int *length) {
    char begin[32];
    snprintf(begin, sizeof begin, "<%s>", name);
    const char *at = strstr(xml, begin);
    if (!at) return NULL;
    at += strlen(begin);
    *length = (int)strcspn(at, "<");
    return *length ? at : NULL;
}

static ff_status fail(const ff_attempt *now, CURLcode result, int attempts, ff_error *error) {
    const char *what = now->request->what;
    const long code = now->response->code;
    char times[48] = "";
    int code_length, message_length;
    if (attempts > 1) snprintf(times, sizeof times, ", after %d attempts", attempts);
    if (result != CURLE_OK)
        return ff_fail(error, FF_IO, "%s: %s%s", what, now->client->curl->easy_strerror(result),
                       times);
    const char *name = element(now->said, "Code", &code_length);
    const char *message = element(now->said, "Message", &message_length);
    if (*now->region && (code == 301 || code == 307 || code == 400))
        return ff_fail(error, FF_USAGE, "%s: the bucket is in region %s, not %s: set AWS_REGION",
                       what, now->region, now->client->region);
    if (name)
        return ff_fail(error, FF_IO, "%s: the server answers %ld %.*s%s%.*s%s", what, code,
                       code_length, name, message ? ": " : "", message ? message_length : 0,
                       message ? message : "", times);
    return ff_fail(error, FF_IO, "%s: the server answers %ld%s%s", what, code,
                   code == 404   ? ", there is no such object"
                   : code == 403 ? ", it refuses access"
                   : code == 401 ? ", it wants a user's name and password"
                                 : "",
                   times);
}

/* A pause before attempt `attempts` + 1: jitter keeps many clients from coming back at once. */
static ff_status pause_before(const ff_attempt *now, int attempts, ff_error *error) {
    double seconds = 0.1;
    for (int i = 1; i < attempts && seconds < 10; i++) seconds *= 2;
    if (seconds > 10) seconds = 10;
    struct timespec clock;
    clock_gettime(CLOCK_REALTIME, &clock);
    seconds *= 0.5 + 0.5 * (double)((uint64_t)clock.tv_nsec * 2654435761U % 1000) / 1000;
    if (now->wait_s > seconds) seconds = now->wait_s < 60 ? now->wait_s : 60;
    for (const uint64_t end = ff_now_ns() + (uint64_t)(seconds * 1e9); ff_now_ns() < end;) {
        FF_TRY(ff_attempt_check(now, error));
        const struct timespec slice = {.tv_nsec = 20 * 1000 * 1000};
        nanosleep(&slice, NULL);
    }
    return FF_OK;
}

/* Keys that ran out since they were found are looked for once more. */
static bool renew_keys(const ff_attempt *now, bool *renewed) {
    ff_client *client = now->client;
    if (*renewed || !client->region || !strstr(now->said, "<Code>ExpiredToken")) return false;
    pthread_mutex_lock(&client->mutex);
    client->found = false;
    pthread_mutex_unlock(&client->mutex);
    return *renewed = true;
}

/* A server that never answered is more likely named wrongly than out of order. Whoever asks after
 * others have waited in vain does not wait again. */
static uint64_t patience_ns(const ff_attempt *now) {
    ff_client *client = now->client;
    pthread_mutex_lock(&client->mutex);
    const bool reached = client->reached, lost = client->lost;
    pthread_mutex_unlock(&client->mutex);
    if (lost) return 0;
    const double most = now->request->tidies ? TIDY_SECONDS
                        : reached            ? client->timeout_s
                                             : FIRST_SECONDS;
    return (uint64_t)((client->timeout_s < most ? client->timeout_s : most) * 1e9);
}

static void set_lost(ff_client *client, bool lost) {
    pthread_mutex_lock(&client->mutex);
    client->lost = lost;
    pthread_mutex_unlock(&client->mutex);
}

ff_status ff_request_send(ff_client *client, const ff_request *request, ff_response *response,
                          ff_error *error) {
    ff_attempt now = {
        .client = client, .request = request, .response = response, .moved_ns = ff_now_ns()};
    bool renewed = false;
    for (int attempts = 1;; attempts++) {
        CURLcode result;
        if (request->text) request->text->length = 0;
        FF_TRY(attempt_once(&now, &result, error));
        const long code = response->code;
        const bool whole = !request->to || now.got == request->bytes;
        if (result == CURLE_OK && code >= 200 && code < 300) set_lost(client, false);
        if (result == CURLE_OK && code >= 200 && code < 300 && whole) return FF_OK;
        if (result == CURLE_OK && ((code == 404 && request->may_lack) || code == 416)) return FF_OK;
        const bool cut = result == CURLE_OK && code >= 200 && code < 300;
        if (cut) result = CURLE_PARTIAL_FILE;
        if (renew_keys(&now, &renewed)) continue;
        const bool passes = may_pass(result, code);
        if (!passes || ff_now_ns() - now.moved_ns > patience_ns(&now)) {
            if (passes && !request->tidies) set_lost(client, true);
            return fail(&now, result, attempts, error);
        }
        FF_TRY(pause_before(&now, attempts, error));
    }
}
