/* Lists of S3, 1000 names at a time.
 * https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html */
#include "format/storage/buckets.h"

#include <inttypes.h>
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
    status = ff_request_send(storage->client, request, response, error);
done:
    free(object);
    free(url);
    free(what);
    request->url = request->what = NULL;
    return status;
}

/* ---- one answer ----------------------------------------------------------------------------- */

ff_status ff_list_decode(char *name, bool encoded, ff_error *error) {
    if (!encoded) return FF_OK;
    for (char *c = name; *c; c++)
        if (*c == '+') *c = ' ';
    const size_t length = ff_unescape(name, name, strlen(name));
    name[length] = 0;
    if (strlen(name) == length) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "the server lists a name with a zero byte");
}

static ff_status take_object(ff_xml entry, const char *prefix, bool encoded, ff_storage_taker *take,
                             void *context, ff_error *error) {
    char *key = NULL, *size = NULL, *tag = NULL, *end = NULL;
    const size_t own = strlen(prefix);
    ff_object object = {0};
    ff_status status;
    FF_TRY_DONE(ff_xml_text(&key, entry, "Key", error));
    FF_TRY_DONE(ff_xml_text(&size, entry, "Size", error));
    FF_TRY_DONE(ff_xml_text(&tag, entry, "ETag", error));
    if (size) object.bytes = strtoull(size, &end, 10);
    if (!key || !size || !*size || *end || *size == '-' || *size == '+')
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA, "the server lists an object without %s",
                            key ? "a size" : "a name"));
    FF_TRY_DONE(ff_list_decode(key, encoded, error));
    if (strncmp(key, prefix, own) || (own && key[own] != '/'))
        FF_TRY_DONE(
            ff_fail(error, FF_BAD_DATA, "the server lists %s, which is not below %s", key, prefix));
    if (tag) snprintf(object.version, sizeof object.version, "%s", tag);
    status = take(context, key + own + (own ? 1 : 0), &object, error);
done:
    free(key);
    free(size);
    free(tag);
    return status;
}

ff_status ff_list_take(ff_xml answer, const char *prefix, ff_storage_taker *take, void *context,
                       char **token, ff_error *error) {
    ff_xml list, entry;
    char *encoding = NULL, *more = NULL;
    ff_status status;
    *token = NULL;
    if (!ff_xml_next(&answer, "ListBucketResult", &list))
        return ff_fail(error, FF_BAD_DATA, "the server's answer is not a list of objects");
    /* Entries hold no elements of these names; a < in a name is a reference. */
    FF_TRY_DONE(ff_xml_text(&encoding, list, "EncodingType", error));
    FF_TRY_DONE(ff_xml_text(&more, list, "IsTruncated", error));
    FF_TRY_DONE(ff_xml_text(token, list, "NextContinuationToken", error));
    if (more && !strcmp(more, "true") && !*token)
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA, "the server's list ends in the middle"));
    while (status == FF_OK && ff_xml_next(&list, "Contents", &entry))
        status =
            take_object(entry, prefix, encoding && !strcmp(encoding, "url"), take, context, error);
done:
    free(encoding);
    free(more);
    if (status != FF_OK) free(*token), *token = NULL;
    return status;
}

/* ---- all answers ---------------------------------------------------------------------------- */

static ff_status make_query(ff_buffer *query, const ff_storage *storage, const char *prefix,
                            const char *token, ff_error *error) {
    query->length = 0;
    if (token) {
        FF_TRY(ff_buffer_printf(query, error, "continuation-token="));
        FF_TRY(ff_url_encode(query, token, false, error));
        FF_TRY(ff_buffer_printf(query, error, "&"));
    }
    FF_TRY(ff_buffer_printf(query, error, "encoding-type=url&list-type=2&prefix="));
    FF_TRY(ff_url_encode(query, storage->url.prefix, false, error));
    if (*storage->url.prefix) FF_TRY(ff_buffer_printf(query, error, "%%2F"));
    FF_TRY(ff_url_encode(query, prefix, false, error));
    return ff_buffer_add(query, "", 1, error);
}

ff_status ff_storage_list(ff_storage *storage, const char *prefix, ff_storage_taker *take,
                          void *context, ff_error *error) {
    ff_buffer query = {0}, answer = {0};
    char *token = NULL, *next = NULL;
    ff_response response;
    ff_status status = FF_OK;
    FF_TRY(ff_storage_need_bucket(storage, "listed", error));
    do {
        ff_request request = {.method = "GET"};
        answer.length = 0;
        FF_TRY_DONE(make_query(&query, storage, prefix, token, error));
        FF_TRY_DONE(
            ff_storage_ask(storage, NULL, query.bytes, &request, &answer, &response, error));
        status = ff_list_take((ff_xml){answer.bytes, answer.length}, storage->url.prefix, take,
                              context, &next, error);
        if (status == FF_OK && next && token && !strcmp(next, token))
            status = ff_fail(error, FF_BAD_DATA, "the server's list has no end");
        if (status == FF_BAD_DATA) ff_fail_within(error, status, "%s", storage->url.text);
        FF_TRY_DONE(status);
        free(token), token = next, next = NULL;
    } while (token);
done:
    free(token);
    free(next);
    ff_buffer_free(&query);
    ff_buffer_free(&answer);
    return status;
}
