/* Lists of S3, 1000 names at a time: ListObjectsV2. */
#include "format/storage/buckets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_BYTES = 16 << 20 };

ff_status ff_storage_need_bucket(const ff_storage *storage, const char *verb, ff_error *error) {
    if (storage->url.bucket) return FF_OK;
    return ff_fail(error, FF_USAGE, "%s: a web server cannot be %s; s3:// and gs:// can",
                   storage->url.text, verb);
}

ff_status ff_storage_ask(ff_storage *storage, const char *name, const char *query,
                         ff_request *request, ff_buffer *answer, ff_response *response,
                         ff_error *error) {
    char *object = NULL, *url = NULL, *what = NULL;
    ff_status status;
    FF_TRY_DONE(name ? ff_url_object(&object, &storage->url, name, error)
                     : ff_format(&object, error, "%s/", storage->url.base));
    FF_TRY_DONE(ff_format(&url, error, "%s%s%s", object, query ? "?" : "", query ? query : ""));
    FF_TRY_DONE(ff_format(&what, error, "%s%s%s", storage->url.text, name && *name ? "/" : "",
                          name ? name : ""));
    request->url = url;
    request->what = what;
    request->text = answer;
    request->limit = ANSWER_BYTES;
    FF_TRY_DONE(ff_request_send(storage->client, request, response, error));
    status = answer ? ff_buffer_add(answer, "", 1, error) : FF_OK;
done:
    free(object);
    free(url);
    free(what);
    request->url = request->what = NULL;
    return status;
}

/* The character that a reference &...; stands for; 0 = not one of these. */
static int referred(const char *at, size_t *length) {
    static const struct {
        const char *text;
        char c;
    } names[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *length = strlen(names[i].text);
        if (!strncmp(at, names[i].text, *length)) return names[i].c;
    }
    char *end;
    if (at[1] != '#') return 0;
    const long value = at[2] == 'x' ? strtol(at + 3, &end, 16) : strtol(at + 2, &end, 10);
    *length = (size_t)(end - at) + 1;
    return *end == ';' && value > 0 && value < 0x80 ? (int)value : 0;
}

ff_status ff_xml_next(char **text, const char **cursor, const char *name, ff_error *error) {
    char begin[64];
    snprintf(begin, sizeof begin, "<%s>", name);
    *text = NULL;
    const char *at = strstr(*cursor, begin);
    if (!at) return FF_OK;
    at += strlen(begin);
    const size_t length = strcspn(at, "<");
    FF_TRY(ff_copy_bytes(text, at, length, error));
    *cursor = at + length;
    char *to = *text;
    for (const char *from = *text; *from;) {
        size_t taken = 1;
        const int c = *from == '&' ? referred(from, &taken) : 0;
        if (!c) taken = 1;
        *to++ = c ? (char)c : *from;
        from += taken;
    }
    *to = 0;
    return FF_OK;
}

/* The names of one answer. They come below the storage's own prefix, which `take` does not see. */
static ff_status take_names(const ff_storage *storage, const char *answer, ff_storage_taker *take,
                            void *context, ff_error *error) {
    const size_t own = *storage->url.prefix ? strlen(storage->url.prefix) + 1 : 0;
    ff_status status = FF_OK;
    for (const char *cursor = answer; status == FF_OK;) {
        char *key, *size = NULL;
        FF_TRY(ff_xml_next(&key, &cursor, "Key", error));
        if (!key) return FF_OK;
        status = ff_xml_next(&size, &cursor, "Size", error);
        char *name = key;
        if (status == FF_OK) key[ff_unescape(key, key, strlen(key))] = 0; /* encoding-type=url */
        if (status == FF_OK && strlen(key) >= own) name = key + own;
        if (status == FF_OK)
            status = take(context, name, size ? strtoull(size, NULL, 10) : 0, error);
        free(key);
        free(size);
    }
    return status;
}

ff_status ff_storage_list(ff_storage *storage, const char *prefix, ff_storage_taker *take,
                          void *context, ff_error *error) {
    ff_buffer query = {0}, answer = {0};
    char *token = NULL;
    ff_response response;
    ff_status status;
    FF_TRY(ff_storage_need_bucket(storage, "listed", error));
    do {
        ff_request request = {.method = "GET"};
        const char *cursor;
        query.length = answer.length = 0;
        /* In the order in which the signature wants the names. */
        if (token) {
            FF_TRY_DONE(ff_buffer_printf(&query, error, "continuation-token="));
            FF_TRY_DONE(ff_url_encode(&query, token, false, error));
            FF_TRY_DONE(ff_buffer_printf(&query, error, "&"));
        }
        FF_TRY_DONE(ff_buffer_printf(&query, error, "encoding-type=url&list-type=2&prefix="));
        FF_TRY_DONE(ff_url_encode(&query, storage->url.prefix, false, error));
        if (*storage->url.prefix) FF_TRY_DONE(ff_buffer_printf(&query, error, "%%2F"));
        FF_TRY_DONE(ff_url_encode(&query, prefix, false, error));
        FF_TRY_DONE(ff_buffer_add(&query, "", 1, error));
        FF_TRY_DONE(
            ff_storage_ask(storage, NULL, query.bytes, &request, &answer, &response, error));
        FF_TRY_DONE(take_names(storage, answer.bytes, take, context, error));
        free(token), token = NULL;
        cursor = answer.bytes;
        FF_TRY_DONE(ff_xml_next(&token, &cursor, "NextContinuationToken", error));
    } while (token);
done:
    free(token);
    ff_buffer_free(&query);
    ff_buffer_free(&answer);
    return status;
}
