#include "format/storage/transfer.h"

#include "format/base/file.h"
#include "format/base/read.h"
#include "format/base/thread.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* S3 wants the hash of the body among the signed headers; libcurl signs with the one that it is
 * given. The first is SHA-256 of nothing; bodies have their MD5 in another header. */
#define NO_BODY                                                                                    \
    "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

#define ANY_BODY "x-amz-content-sha256: UNSIGNED-PAYLOAD"

enum { CONNECT_SECONDS = 10, STALL_SECONDS = 20 };

static CURL *take_handle(ff_client *client) {
    CURL *handle = NULL;
    pthread_mutex_lock(&client->mutex);
    while (client->used == client->most) pthread_cond_wait(&client->given, &client->mutex);
    client->used++;
    if (client->handles) handle = client->handle[--client->handles];
    pthread_mutex_unlock(&client->mutex);
    return handle ? handle : client->curl->easy_init();
}

/* NULL is accepted. */
static void give_handle(ff_client *client, CURL *handle) {
    if (handle) client->curl->easy_reset(handle);
    pthread_mutex_lock(&client->mutex);
    if (handle) client->handle[client->handles++] = handle;
    client->used--;
    pthread_cond_signal(&client->given);
    pthread_mutex_unlock(&client->mutex);
}

/* ---- what arrives --------------------------------------------------------------------------- */

/* The value of a header line of this name; NULL = another header. */
static const char *value_of(const char *line, const char *name) {
    const size_t length = strlen(name);
    if (strncasecmp(line, name, length) || line[length] != ':') return NULL;
    return line + length + 1 + strspn(line + length + 1, " \t");
}

static void copy_value(char *to, size_t room, const char *value) {
    const size_t length = strcspn(value, "\r\n");
    snprintf(to, room, "%.*s", (int)(length < room ? length : room - 1), value);
}

static size_t take_header(char *bytes, size_t size, size_t count, void *context) {
    ff_attempt *now = context;
    ff_response *response = now->response;
    const size_t length = size * count;
    char line[1024];
    const char *value;
    snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1),
             bytes);
    if (!strncasecmp(line, "HTTP/", 5)) { /* of another response: after a redirection, or 100 */
        *response = (ff_response){0};
        now->ranged = now->checked = false;
        now->wait_s = 0;
    } else if ((value = value_of(line, "Content-Length")) && !now->ranged) {
        response->total_known = sscanf(value, "%" SCNu64, &response->total) == 1;
    } else if ((value = value_of(line, "Content-Range"))) {
        uint64_t begin = 0, last, total;
        if (sscanf(value, "bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64, &begin, &last, &total) == 3 ||
            sscanf(value, "bytes */%" SCNu64, &total) == 1) {
            now->ranged = response->total_known = true;
            now->begin = begin;
            response->total = total;
        }
    } else if ((value = value_of(line, "ETag"))) {
        copy_value(response->version, sizeof response->version, value);
    } else if ((value = value_of(line, "Last-Modified")) && !*response->version) {
        copy_value(response->version, sizeof response->version, value);
    } else if ((value = value_of(line, "Retry-After"))) {
        now->wait_s = atof(value);
    } else if ((value = value_of(line, "x-amz-bucket-region"))) {
        copy_value(now->region, sizeof now->region, value);
    }
    return length;
}

static long code_of(const ff_attempt *now) {
    long code = 0;
    now->client->curl->easy_getinfo(now->handle, CURLINFO_RESPONSE_CODE, &code);
    return code;
}

/* Whether the response to a request for a part of an object is that part, of that object. */
static ff_status check_part(ff_attempt *now) {
    const ff_request *request = now->request;
    const ff_response *response = now->response;
    ff_object *object = request->object;
    const uint64_t wanted = request->offset + now->got;
    const bool whole =
        response->total == request->bytes || (request->may_end && response->total < request->bytes);
    if (code_of(now) == 200 && wanted == 0 && response->total_known && whole)
        now->ranged = true, now->begin = 0;
    if (!now->ranged)
        return ff_fail(&now->failure, FF_IO,
                       "%s: the server sends the whole object where a range was asked for",
                       request->what);
    if (now->begin != wanted)
        return ff_fail(&now->failure, FF_IO,
                       "%s: the server sends the bytes from %" PRIu64 " on, wanted from %" PRIu64
                       " on",
                       request->what, now->begin, wanted);
    if (*object->version &&
        (response->total != object->bytes || strcmp(response->version, object->version)))
        return ff_fail(&now->failure, FF_IO, "%s: was replaced while it was read", request->what);
    if (!*object->version) {
        object->bytes = response->total;
        memcpy(object->version, response->version, sizeof object->version);
    }
    return FF_OK;
}

static size_t take_body(char *bytes, size_t size, size_t count, void *context) {
    ff_attempt *now = context;
    const ff_request *request = now->request;
    const size_t length = size * count;
    const long code = code_of(now);
    if (code < 200 || code >= 300) {
        const size_t room = FF_SAID_BYTES - now->said_bytes, more = length < room ? length : room;
        memcpy(now->said + now->said_bytes, bytes, more);
        now->said_bytes += more;
        return length;
    }
    if (!request->object) {
        if (!request->text) return length;
        if (request->text->length + length <= request->limit)
            return ff_buffer_add(request->text, bytes, length, &now->failure) == FF_OK ? length : 0;
        (void)!ff_fail(&now->failure, FF_BAD_DATA,
                       "%s: the server's answer has more than %zu bytes", request->what,
                       request->limit);
        return 0;
    }
    if (!now->checked && check_part(now) != FF_OK) return 0;
    now->checked = true;
    if (length > request->bytes - now->got) {
        (void)!ff_fail(&now->failure, FF_IO,
                       "%s: the server sends more than the %" PRIu64 " bytes asked for",
                       request->what, request->bytes);
        return 0;
    }
    if (request->to)
        memcpy((char *)request->to + now->got, bytes, length);
    else if (ff_write_at(request->to_fd, request->to_path, bytes, length,
                         request->offset + now->got, &now->failure) != FF_OK)
        return 0;
    now->got += length;
    now->moved_ns = ff_now_ns();
    return length;
}

static size_t give_body(char *to, size_t size, size_t count, void *context) {
    ff_attempt *now = context;
    const ff_request *request = now->request;
    const uint64_t left = request->send_bytes - now->sent;
    const size_t room = size * count, length = left < room ? (size_t)left : room;
    if (request->send)
        memcpy(to, (const char *)request->send + now->sent, length);
    else if (length && ff_read_at(request->send_fd, request->send_path, to, length,
                                  request->send_offset + now->sent, &now->failure) != FF_OK)
        return CURL_READFUNC_ABORT;
    now->sent += length;
    if (now->sent > now->furthest) {
        now->furthest = now->sent;
        now->moved_ns = ff_now_ns();
    }
    return length;
}

/* libcurl begins again after a refused connection that was kept open. */
static int seek_body(void *context, curl_off_t offset, int origin) {
    ff_attempt *now = context;
    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > now->request->send_bytes)
        return CURL_SEEKFUNC_CANTSEEK;
    now->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

ff_status ff_attempt_check(const ff_attempt *now, ff_error *error) {
    return now->request->tidies ? FF_OK : ff_client_check(now->client, error);
}

static int look_around(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    const ff_attempt *now = context;
    (void)a, (void)b, (void)c, (void)d;
    return !now->request->finishes && ff_attempt_check(now, NULL) != FF_OK;
}

/* ---- one attempt ---------------------------------------------------------------------------- */

static ff_status add_header(const ff_curl *curl, struct curl_slist **headers, const char *line,
                            ff_error *error) {
    struct curl_slist *longer = curl->slist_append(*headers, line);
    if (!longer) return ff_fail(error, FF_NO_MEMORY, "out of memory for a request");
    *headers = longer;
    return FF_OK;
}

static void set_up_body(ff_attempt *now) {
    const ff_curl *curl = now->client->curl;
    const ff_request *request = now->request;
    if (!strcmp(request->method, "GET")) return;
    curl->easy_setopt(now->handle, CURLOPT_CUSTOMREQUEST, request->method);
    if (!strcmp(request->method, "DELETE")) return;
    if (!strcmp(request->method, "POST") && !request->send_bytes) {
        curl->easy_setopt(now->handle, CURLOPT_POSTFIELDS, "");
        curl->easy_setopt(now->handle, CURLOPT_POSTFIELDSIZE, 0L);
        return;
    }
    curl->easy_setopt(now->handle, CURLOPT_UPLOAD, 1L);
    /* The header Expect cannot be left out: libcurl would sign its absence. */
    curl->easy_setopt(now->handle, CURLOPT_EXPECT_100_TIMEOUT_MS, 1L);
    curl->easy_setopt(now->handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->send_bytes);
    curl->easy_setopt(now->handle, CURLOPT_READFUNCTION, give_body);
    curl->easy_setopt(now->handle, CURLOPT_READDATA, now);
    curl->easy_setopt(now->handle, CURLOPT_SEEKFUNCTION, seek_body);
    curl->easy_setopt(now->handle, CURLOPT_SEEKDATA, now);
}

static void set_up(ff_attempt *now, const struct curl_slist *headers, const char *user,
                   const char *signature) {
    const ff_curl *curl = now->client->curl;
    const ff_request *request = now->request;
    CURL *handle = now->handle;
    const double half = now->client->timeout_s / 2;
    curl->easy_setopt(handle, CURLOPT_URL, request->url);
    curl->easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L); /* a key may have a part ".." */
    curl->easy_setopt(handle, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    curl->easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(handle, CURLOPT_USERAGENT, "ffpack");
    curl->easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
    curl->easy_setopt(handle, CURLOPT_CONNECTTIMEOUT,
                      half < CONNECT_SECONDS ? (half < 1 ? 1L : (long)half)
                                             : (long)CONNECT_SECONDS);
    curl->easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl->easy_setopt(handle, CURLOPT_LOW_SPEED_TIME,
                      half < STALL_SECONDS ? (half < 1 ? 1L : (long)half) : (long)STALL_SECONDS);
    curl->easy_setopt(handle, CURLOPT_HEADERFUNCTION, take_header);
    curl->easy_setopt(handle, CURLOPT_HEADERDATA, now);
    curl->easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_body);
    curl->easy_setopt(handle, CURLOPT_WRITEDATA, now);
    curl->easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    curl->easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, look_around);
    curl->easy_setopt(handle, CURLOPT_XFERINFODATA, now);
    curl->easy_setopt(handle, CURLOPT_BUFFERSIZE, 512L << 10);
    if (curl->certificates) curl->easy_setopt(handle, CURLOPT_CAINFO, curl->certificates);
    const char *bundle = getenv("AWS_CA_BUNDLE"); /* as the AWS tools have it, for their servers */
    if (now->client->region && bundle && *bundle) curl->easy_setopt(handle, CURLOPT_CAINFO, bundle);
    if (!now->client->region) { /* S3 refuses passwords, which ~/.netrc may have for all servers */
        curl->easy_setopt(handle, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
        curl->easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 1L);
        curl->easy_setopt(handle, CURLOPT_MAXREDIRS, 10L);
    }
    if (user) {
        curl->easy_setopt(handle, CURLOPT_USERPWD, user);
        curl->easy_setopt(handle, CURLOPT_AWS_SIGV4, signature);
    }
    set_up_body(now);
}

ff_status ff_attempt_run(ff_attempt *now, const char *user, const char *token, CURLcode *result,
                         ff_error *error) {
    ff_client *client = now->client;
    const ff_request *request = now->request;
    struct curl_slist *headers = NULL;
    char *signature = NULL, range[64];
    ff_status status;
    *now->response = (ff_response){0};
    now->said_bytes = 0;
    now->sent = 0;
    now->wait_s = 0;
    now->ranged = now->checked = false;
    now->failure = (ff_error){0};
    now->handle = take_handle(client);
    if (!now->handle) FF_TRY_DONE(ff_fail(error, FF_NO_MEMORY, "out of memory for a request"));
    FF_TRY_DONE(
        ff_format(&signature, error, "aws:amz:%s:s3", client->region ? client->region : ""));
    if (user)
        FF_TRY_DONE(
            add_header(client->curl, &headers, request->send_bytes ? ANY_BODY : NO_BODY, error));
    if (token) FF_TRY_DONE(add_header(client->curl, &headers, token, error));
    if (request->header) FF_TRY_DONE(add_header(client->curl, &headers, request->header, error));
    set_up(now, headers, user, signature);
    if (request->object) {
        snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, request->offset + now->got,
                 request->offset + request->bytes - 1);
        client->curl->easy_setopt(now->handle, CURLOPT_RANGE, range);
    }
    *result = client->curl->easy_perform(now->handle);
    now->response->code = code_of(now);
    now->said[now->said_bytes] = 0;
    pthread_mutex_lock(&client->mutex);
    client->reached |= now->response->code != 0;
    pthread_mutex_unlock(&client->mutex);
    status = request->finishes ? FF_OK : ff_attempt_check(now, error);
    if (status == FF_OK && now->failure.status != FF_OK)
        status = ff_fail(error, now->failure.status, "%s", now->failure.message);
done:
    if (headers) {
        client->curl->easy_setopt(now->handle, CURLOPT_HTTPHEADER, NULL);
        client->curl->slist_free_all(headers);
    }
    give_handle(client, now->handle);
    free(signature);
    return status;
}
