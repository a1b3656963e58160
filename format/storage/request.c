#include "format/storage/request.h"

#include "format/base/read.h"
#include "format/base/thread.h"
#include "format/storage/transfer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SIGNS_S3 = 0x075800, /* libcurl 7.88 */
    FIRST_SECONDS = 15,
    TIDY_SECONDS = 3,
    FRESH_SECONDS = 300,
    AGAIN_SECONDS = 30
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
    /* libcurl opens up to four descriptors for each connection. */
    (*out)->most = (int)ff_descriptor_share(16, 2, FF_CONNECTIONS);
    pthread_mutex_init(&(*out)->mutex, NULL);
    pthread_cond_init(&(*out)->given, NULL);
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
    pthread_cond_destroy(&(*client)->given);
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

/* ---- keys ----------------------------------------------------------------------------------- */

/* Keys are asked for again five minutes before they expire; shorter ones after half their time. */
static bool expires_soon(const ff_client *client, int64_t now) {
    const ff_credentials *keys = &client->credentials;
    const int64_t half = (keys->expires - client->found_s) / 2;
    return keys->expires && now >= client->again_s &&
           keys->expires - now < (half < FRESH_SECONDS ? half : FRESH_SECONDS);
}

/* Looks for the keys. If there were keys before, and none are found now, their service may be back
 * soon: the older ones are used while they last; then *later = true. With the lock held. */
static ff_status look_for_keys(ff_client *client, int64_t now, bool *later, ff_error *error) {
    static const char over[] = "the keys have expired, and nothing has newer ones";
    ff_credentials found, *keys = &client->credentials;
    int64_t left = client->found ? keys->expires - now : 0;
    if (left < 0) left = 0;
    *later = keys->key != NULL;
    if (*later && now < client->again_s) return ff_fail(error, FF_IO, over);
    ff_status status = ff_credentials_find(&found, error);
    if (status == FF_OK && (found.key || !keys->key)) {
        ff_credentials_free(keys);
        *keys = found;
        client->found = true;
        client->found_s = now;
        client->again_s = 0;
    } else {
        client->again_s = now + 1 + (left / 4 < AGAIN_SECONDS ? left / 4 : AGAIN_SECONDS);
        if (left)
            status = FF_OK;
        else if (status == FF_OK)
            status = ff_fail(error, FF_IO, over);
    }
    if (status == FF_OK) *later = false;
    return status;
}

/* The keys for the next request. *later: a failure may pass. */
static ff_status find_keys(ff_attempt *attempt, char **user, char **token, bool *later,
                           ff_error *error) {
    ff_client *client = attempt->client;
    const int64_t now = (int64_t)time(NULL);
    const ff_credentials *keys = &client->credentials;
    ff_status status = FF_OK;
    *user = *token = NULL;
    *later = false;
    if (!client->region) return FF_OK;
    pthread_mutex_lock(&client->mutex);
    if (!client->found || expires_soon(client, now))
        status = look_for_keys(client, now, later, error);
    attempt->renewals = client->renewals;
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

/* Whether the server calls the keys expired: they are looked for again. *lasting = true if they are
 * not of a service, which has newer ones later. */
static bool renew_keys(const ff_attempt *now, bool *lasting) {
    ff_client *client = now->client;
    if (!client->region || (!strstr(now->said, "<Code>ExpiredToken") &&
                            !strstr(now->said, "<Code>TokenRefreshRequired")))
        return false;
    pthread_mutex_lock(&client->mutex);
    /* Another thread may have renewed them since this request was signed. */
    if (client->renewals == now->renewals) {
        client->found = false;
        client->again_s = 0;
        client->renewals++;
    }
    *lasting = !client->credentials.expires;
    pthread_mutex_unlock(&client->mutex);
    return true;
}

static ff_status attempt_once(ff_attempt *now, CURLcode *result, bool *later, ff_error *error) {
    char *user, *token;
    ff_status status = find_keys(now, &user, &token, later, error);
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

/* Whether nothing has arrived for too long. A server that never answered is more likely named
 * wrongly than out of order. Whoever asks after others have waited in vain does not wait again. */
static bool is_over(const ff_attempt *now) {
    ff_client *client = now->client;
    pthread_mutex_lock(&client->mutex);
    const bool reached = client->reached, lost = client->lost;
    pthread_mutex_unlock(&client->mutex);
    if (lost) return true;
    const double most = now->request->tidies ? TIDY_SECONDS
                        : reached            ? client->timeout_s
                                             : FIRST_SECONDS;
    const double seconds = client->timeout_s < most ? client->timeout_s : most;
    return ff_now_ns() - now->moved_ns > (uint64_t)(seconds * 1e9);
}

/* Bytes of `to` that an answered request has. */
static uint64_t wanted_bytes(const ff_request *request, const ff_response *response) {
    const uint64_t left = response->total - request->offset;
    return request->may_end && response->total_known && left < request->bytes ? left
                                                                              : request->bytes;
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
        bool later;
        if (request->text) request->text->length = 0;
        const ff_status status = attempt_once(&now, &result, &later, error);
        if (later && !is_over(&now)) {
            FF_TRY(pause_before(&now, attempts, error));
            continue;
        }
        if (later) return ff_fail_within(error, status, "%s", request->what);
        FF_TRY(status);
        const long code = response->code;
        const bool whole = !request->object || now.got == wanted_bytes(request, response);
        if (result == CURLE_OK && code >= 200 && code < 300) set_lost(client, false);
        if (result == CURLE_OK && code >= 200 && code < 300 && whole) return FF_OK;
        if (result == CURLE_OK && ((code == 404 && request->may_lack) || code == 416)) return FF_OK;
        const bool cut = result == CURLE_OK && code >= 200 && code < 300;
        if (cut) result = CURLE_PARTIAL_FILE;
        bool lasting = true;
        if (renew_keys(&now, &lasting) && !renewed) {
            renewed = true;
            continue;
        }
        const bool passes = may_pass(result, code);
        if ((!passes && lasting) || is_over(&now)) {
            if (passes && !request->tidies) set_lost(client, true);
            return fail(&now, result, attempts, error);
        }
        FF_TRY(pause_before(&now, attempts, error));
    }
}
