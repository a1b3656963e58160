/* Sends files to S3: small ones by one request, others in parts, which become an object when all of
 * them are there. https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
 *
 * The server compares each request's body with its MD5. Parts have the size that the AWS tools use,
 * so that an object has the same version (ETag) whoever sent it. */
#include "format/base/bytes.h"
#include "format/base/read.h"
#include "format/base/thread.h"
#include "format/storage/buckets.h"
#include "format/storage/md5.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART_BYTES  (UINT64_C(8) << 20)
#define PARTS_LIMIT UINT64_C(10000)

enum { READ_BYTES = 1 << 18, JOIN_ATTEMPTS = 5 };

/* So large that no object has more than 10,000 parts. */
static uint64_t part_bytes(uint64_t bytes) {
    const uint64_t least = ff_align_u64(bytes / PARTS_LIMIT + 1, UINT64_C(1) << 20);
    return least > PART_BYTES ? least : PART_BYTES;
}

/* ---- MD5 ------------------------------------------------------------------------------------ */

static ff_status digest_file(int fd, const char *path, uint64_t offset, uint64_t bytes,
                             uint8_t digest[16], ff_error *error) {
    uint8_t *read;
    ff_md5 md5;
    ff_status status = FF_OK;
    FF_TRY(ff_alloc(&read, READ_BYTES, 1, "a part of a file", error));
    ff_md5_begin(&md5);
    for (uint64_t at = 0; at < bytes && status == FF_OK; at += READ_BYTES) {
        const size_t length = bytes - at < READ_BYTES ? (size_t)(bytes - at) : READ_BYTES;
        status = ff_read_at(fd, path, read, length, offset + at, error);
        ff_md5_add(&md5, read, length);
    }
    ff_md5_end(&md5, digest);
    free(read);
    return status;
}

/* "Content-MD5: " and the digest in base64. */
static void md5_header(char header[64], const uint8_t digest[16]) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *to = header + sprintf(header, "Content-MD5: ");
    uint8_t bytes[18] = {0};
    memcpy(bytes, digest, 16);
    for (int i = 0; i < 18; i += 3) {
        const uint32_t three =
            (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 | bytes[i + 2];
        for (int k = 0; k < 4; k++) *to++ = digits[three >> (18 - 6 * k) & 63];
    }
    strcpy(to - 2, "=="); /* the digits of the two bytes that are added */
}

/* The version of an object in parts: the MD5 of the parts' digests, and their number. */
static void tag_of_parts(char *tag, size_t room, uint8_t (*digest)[16], uint64_t parts) {
    ff_md5 md5;
    uint8_t all[16];
    char text[33];
    ff_md5_begin(&md5);
    ff_md5_add(&md5, digest, (size_t)parts * sizeof *digest);
    ff_md5_end(&md5, all);
    ff_hex(text, all, sizeof all);
    snprintf(tag, room, "\"%s-%" PRIu64 "\"", text, parts);
}

ff_status ff_storage_expect(const char *path, ff_object *object, ff_error *error) {
    int fd;
    *object = (ff_object){0};
    FF_TRY(ff_open_file(path, &fd, &object->bytes, error));
    const uint64_t bytes = object->bytes, step = bytes < PART_BYTES ? bytes : part_bytes(bytes);
    const uint64_t parts = bytes ? (bytes + step - 1) / step : 1;
    uint8_t(*digest)[16];
    ff_status status = ff_alloc(&digest, parts, sizeof *digest, "the parts of a file", error);
    for (uint64_t i = 0; i < parts && status == FF_OK; i++)
        status = digest_file(fd, path, i * step, bytes - i * step < step ? bytes - i * step : step,
                             digest[i], error);
    char text[33];
    if (status == FF_OK) ff_hex(text, digest[0], sizeof digest[0]);
    if (status == FF_OK && bytes < PART_BYTES)
        snprintf(object->version, sizeof object->version, "\"%s\"", text);
    else if (status == FF_OK)
        tag_of_parts(object->version, sizeof object->version, digest, parts);
    free(digest);
    ff_close_file(&fd);
    return status;
}

/* ---- in one request ------------------------------------------------------------------------- */

static ff_status write_whole(ff_storage *storage, const char *name, int fd, const char *path,
                             ff_object *object, ff_error *error) {
    uint8_t digest[16];
    char header[64];
    ff_response response;
    FF_TRY(digest_file(fd, path, 0, object->bytes, digest, error));
    md5_header(header, digest);
    ff_request request = {.method = "PUT",
                          .header = header,
                          .send_fd = fd,
                          .send_path = path,
                          .send_bytes = object->bytes};
    FF_TRY(ff_storage_ask(storage, name, NULL, &request, NULL, &response, error));
    memcpy(object->version, response.version, sizeof object->version);
    return FF_OK;
}

/* ---- in parts ------------------------------------------------------------------------------- */

typedef struct upload {
    ff_storage *storage;
    const char *name, *path;
    int fd;
    uint64_t bytes, step, parts;
    char *id;
    char (*tag)[128];      /* [parts]: what the server calls each */
    uint8_t (*digest)[16]; /* [parts] */
    atomic_bool failed;
    pthread_mutex_t mutex; /* of `first` */
    ff_error first;        /* failure */
} upload;

/* "partNumber=N&uploadId=ID"; number 0: the ID alone. */
static ff_status make_query(ff_buffer *query, const upload *own, uint64_t number, ff_error *error) {
    if (number) FF_TRY(ff_buffer_printf(query, error, "partNumber=%" PRIu64 "&", number));
    FF_TRY(ff_buffer_printf(query, error, "uploadId="));
    FF_TRY(ff_url_encode(query, own->id, false, error));
    return ff_buffer_add(query, "", 1, error);
}

static ff_status send_part(upload *own, uint64_t part, ff_error *error) {
    const uint64_t at = part * own->step, left = own->bytes - at;
    ff_buffer query = {0};
    char header[64];
    ff_response response;
    ff_request request = {.method = "PUT",
                          .header = header,
                          .send_fd = own->fd,
                          .send_path = own->path,
                          .send_offset = at,
                          .send_bytes = left < own->step ? left : own->step};
    FF_TRY(digest_file(own->fd, own->path, at, request.send_bytes, own->digest[part], error));
    md5_header(header, own->digest[part]);
    ff_status status = make_query(&query, own, part + 1, error);
    if (status == FF_OK)
        status =
            ff_storage_ask(own->storage, own->name, query.bytes, &request, NULL, &response, error);
    ff_buffer_free(&query);
    FF_TRY(status);
    memcpy(own->tag[part], response.version, sizeof own->tag[part]);
    if (*response.version && !strpbrk(response.version, "<>&")) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s/%s: the server names no version of a part",
                   own->storage->url.text, own->name);
}

static void part_body(void *context, size_t part) {
    upload *own = context;
    ff_error error = {0};
    if (atomic_load(&own->failed) || send_part(own, part, &error) == FF_OK) return;
    pthread_mutex_lock(&own->mutex);
    if (!atomic_exchange(&own->failed, true)) own->first = error;
    pthread_mutex_unlock(&own->mutex);
}

static ff_status send_parts(upload *own, int threads, ff_error *error) {
    FF_TRY(ff_parallel_for(threads, own->parts, part_body, own, error));
    if (!atomic_load(&own->failed)) return FF_OK;
    if (error) *error = own->first;
    return own->first.status;
}

/* What was sent of an upload that failed costs its owner money until it is removed. */
static void give_up(ff_storage *storage, const char *name, const char *query) {
    ff_request request = {.method = "DELETE", .tidies = true};
    ff_response response;
    (void)!ff_storage_ask(storage, name, query, &request, NULL, &response, NULL);
}

static ff_status list_parts(const upload *own, ff_buffer *list, ff_error *error) {
    FF_TRY(ff_buffer_printf(list, error, "<CompleteMultipartUpload>"));
    for (uint64_t i = 0; i < own->parts; i++)
        FF_TRY(ff_buffer_printf(list, error,
                                "<Part><PartNumber>%" PRIu64 "</PartNumber><ETag>%s</ETag></Part>",
                                i + 1, own->tag[i]));
    return ff_buffer_printf(list, error, "</CompleteMultipartUpload>");
}

/* An upload that is unknown was joined by an earlier request whose answer was lost, if the object
 * is there. */
static ff_status find_joined(const upload *own, ff_object *object, ff_error *error) {
    char tag[128];
    bool there;
    tag_of_parts(tag, sizeof tag, own->digest, own->parts);
    FF_TRY(ff_storage_look(own->storage, own->name, object, &there, error));
    if (there && object->bytes == own->bytes && !strcmp(object->version, tag)) return FF_OK;
    return ff_fail(error, FF_IO,
                   "%s/%s: the server has lost the parts; the same command sends them again",
                   own->storage->url.text, own->name);
}

static ff_status join_parts(upload *own, const char *query, ff_object *object, ff_error *error) {
    ff_buffer answer = {0}, list = {0};
    char *tag = NULL, *code = NULL;
    ff_response response;
    ff_xml failure;
    ff_status status;
    FF_TRY_DONE(list_parts(own, &list, error));
    for (int attempt = 1;; attempt++) {
        ff_request request = {
            .method = "POST", .send = list.bytes, .send_bytes = list.length, .may_lack = true};
        answer.length = 0;
        FF_TRY_DONE(
            ff_storage_ask(own->storage, own->name, query, &request, &answer, &response, error));
        ff_xml all = {answer.bytes, answer.length};
        /* A server may find out that it cannot after it has begun to answer with 200. */
        if (response.code == 404 || !answer.length || !ff_xml_next(&all, "Error", &failure)) break;
        if (attempt < JOIN_ATTEMPTS) continue;
        FF_TRY_DONE(ff_xml_text(&code, failure, "Code", error));
        FF_TRY_DONE(ff_fail(error, FF_IO, "%s/%s: the server cannot join the parts: %s",
                            own->storage->url.text, own->name, code ? code : "no reason is given"));
    }
    if (response.code == 404) FF_TRY_DONE(find_joined(own, object, error));
    if (response.code != 404 && answer.length)
        FF_TRY_DONE(ff_xml_text(&tag, (ff_xml){answer.bytes, answer.length}, "ETag", error));
    if (tag) snprintf(object->version, sizeof object->version, "%s", tag);
done:
    free(tag);
    free(code);
    ff_buffer_free(&answer);
    ff_buffer_free(&list);
    return status;
}

static ff_status begin(upload *own, ff_error *error) {
    ff_buffer answer = {0};
    ff_request request = {.method = "POST", .finishes = true};
    ff_response response;
    ff_status status =
        ff_storage_ask(own->storage, own->name, "uploads=", &request, &answer, &response, error);
    if (status == FF_OK && answer.length)
        status = ff_xml_text(&own->id, (ff_xml){answer.bytes, answer.length}, "UploadId", error);
    if (status == FF_OK && !own->id)
        status = ff_fail(error, FF_BAD_DATA, "%s/%s: the server begins no upload",
                         own->storage->url.text, own->name);
    ff_buffer_free(&answer);
    return status;
}

static ff_status write_parts(upload *own, int threads, ff_object *object, ff_error *error) {
    ff_buffer query = {0};
    ff_status status;
    own->step = part_bytes(own->bytes);
    own->parts = (own->bytes + own->step - 1) / own->step;
    pthread_mutex_init(&own->mutex, NULL);
    FF_TRY_DONE(ff_alloc(&own->tag, own->parts, sizeof *own->tag, "parts", error));
    FF_TRY_DONE(ff_alloc(&own->digest, own->parts, sizeof *own->digest, "parts", error));
    FF_TRY_DONE(begin(own, error));
    FF_TRY_DONE(make_query(&query, own, 0, error));
    FF_TRY_DONE(send_parts(own, threads, error));
    status = join_parts(own, query.bytes, object, error);
done:
    if (status != FF_OK && query.length) give_up(own->storage, own->name, query.bytes);
    pthread_mutex_destroy(&own->mutex);
    ff_buffer_free(&query);
    free(own->tag);
    free(own->digest);
    free(own->id);
    return status;
}

ff_status ff_storage_write(ff_storage *storage, const char *name, const char *path, int threads,
                           ff_object *object, ff_error *error) {
    upload own = {.storage = storage, .name = name, .path = path};
    *object = (ff_object){0};
    FF_TRY(ff_storage_need_bucket(storage, "written", error));
    FF_TRY(ff_open_file(path, &own.fd, &own.bytes, error));
    object->bytes = own.bytes;
    const ff_status status = own.bytes < PART_BYTES
                                 ? write_whole(storage, name, own.fd, path, object, error)
                                 : write_parts(&own, threads, object, error);
    ff_close_file(&own.fd);
    return status;
}

ff_status ff_storage_may_write(const ff_storage *storage, ff_error *error) {
    return ff_storage_need_bucket(storage, "written", error);
}

/* ---- removing ------------------------------------------------------------------------------- */

ff_status ff_storage_remove(ff_storage *storage, const char *name, ff_error *error) {
    ff_request request = {.method = "DELETE", .may_lack = true};
    ff_response response;
    FF_TRY(ff_storage_need_bucket(storage, "written", error));
    return ff_storage_ask(storage, name, NULL, &request, NULL, &response, error);
}

/* One answer to ListMultipartUploads. *key and *id, allocated, ask for the next answer; NULL: this
 * was the last. */
static ff_status abort_listed(ff_storage *storage, ff_xml answer, ff_storage_names *ours,
                              void *context, char **key, char **id, ff_error *error) {
    const char *prefix = storage->url.prefix;
    const size_t own = strlen(prefix);
    char *encoding = NULL, *more = NULL;
    ff_xml list, entry;
    ff_status status;
    if (!ff_xml_next(&answer, "ListMultipartUploadsResult", &list))
        return ff_fail(error, FF_BAD_DATA, "the server's answer is not a list of uploads");
    FF_TRY_DONE(ff_xml_text(&encoding, list, "EncodingType", error));
    FF_TRY_DONE(ff_xml_text(&more, list, "IsTruncated", error));
    const bool encoded = encoding && !strcmp(encoding, "url"), last = !more || strcmp(more, "true");
    if (!last) FF_TRY_DONE(ff_xml_text(key, list, "NextKeyMarker", error));
    if (!last) FF_TRY_DONE(ff_xml_text(id, list, "NextUploadIdMarker", error));
    if (*key) FF_TRY_DONE(ff_list_decode(*key, encoded, error));
    while (status == FF_OK && ff_xml_next(&list, "Upload", &entry)) {
        upload one = {.storage = storage};
        ff_buffer query = {0};
        char *name = NULL;
        status = ff_xml_text(&name, entry, "Key", error);
        if (status == FF_OK) status = ff_xml_text(&one.id, entry, "UploadId", error);
        if (status == FF_OK && name) status = ff_list_decode(name, encoded, error);
        const bool below =
            name && one.id && !strncmp(name, prefix, own) && (!own || name[own] == '/');
        if (status == FF_OK && below && ours(context, name + own + (own ? 1 : 0))) {
            status = make_query(&query, &one, 0, error);
            if (status == FF_OK) give_up(storage, name + own + (own ? 1 : 0), query.bytes);
        }
        ff_buffer_free(&query);
        free(name);
        free(one.id);
    }
done:
    free(encoding);
    free(more);
    return status;
}

static ff_status uploads_query(ff_buffer *query, const ff_storage *storage, const char *key,
                               const char *id, ff_error *error) {
    query->length = 0;
    FF_TRY(ff_buffer_printf(query, error, "encoding-type=url"));
    if (key) FF_TRY(ff_buffer_printf(query, error, "&key-marker="));
    if (key) FF_TRY(ff_url_encode(query, key, false, error));
    FF_TRY(ff_buffer_printf(query, error, "&prefix="));
    FF_TRY(ff_url_encode(query, storage->url.prefix, false, error));
    if (*storage->url.prefix) FF_TRY(ff_buffer_printf(query, error, "%%2F"));
    if (key && id) FF_TRY(ff_buffer_printf(query, error, "&upload-id-marker="));
    if (key && id) FF_TRY(ff_url_encode(query, id, false, error));
    FF_TRY(ff_buffer_printf(query, error, "&uploads="));
    return ff_buffer_add(query, "", 1, error);
}

ff_status ff_storage_abort(ff_storage *storage, ff_storage_names *ours, void *context,
                           ff_error *error) {
    ff_buffer query = {0}, answer = {0};
    char *key = NULL, *id = NULL;
    ff_response response;
    ff_status status = FF_OK;
    FF_TRY(ff_storage_need_bucket(storage, "written", error));
    do {
        ff_request request = {.method = "GET"};
        answer.length = 0;
        FF_TRY_DONE(uploads_query(&query, storage, key, id, error));
        free(key), key = NULL;
        free(id), id = NULL;
        FF_TRY_DONE(
            ff_storage_ask(storage, NULL, query.bytes, &request, &answer, &response, error));
        status = abort_listed(storage, (ff_xml){answer.bytes, answer.length}, ours, context, &key,
                              &id, error);
        if (status == FF_BAD_DATA) ff_fail_within(error, status, "%s", storage->url.text);
    } while (status == FF_OK && key);
done:
    free(key);
    free(id);
    ff_buffer_free(&query);
    ff_buffer_free(&answer);
    return status;
}
