/* Sends files to S3: small ones in one request, others in parts, which become an object when all of
 * them are there. https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html */
#include "format/base/read.h"
#include "format/storage/buckets.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PART_BYTES  (UINT64_C(64) << 20)
#define PARTS_LIMIT UINT64_C(10000)

/* Aligned to MiBs, and so large that no object has more than 10,000 parts. */
static uint64_t part_bytes(uint64_t bytes) {
    const uint64_t least = ff_align_u64(bytes / PARTS_LIMIT + 1, UINT64_C(1) << 20);
    return least > PART_BYTES ? least : PART_BYTES;
}

static ff_status send_parts(ff_storage *storage, const char *name, const char *id, int fd,
                            const char *path, uint64_t bytes, ff_buffer *list, ff_error *error) {
    const uint64_t step = part_bytes(bytes);
    FF_TRY(ff_buffer_printf(list, error, "<CompleteMultipartUpload>"));
    for (uint64_t at = 0, number = 1; at < bytes; at += step, number++) {
        ff_request request = {.method = "PUT",
                              .send_fd = fd,
                              .send_path = path,
                              .send_offset = at,
                              .send_bytes = bytes - at < step ? bytes - at : step};
        ff_response response;
        ff_buffer query = {0};
        ff_status status =
            ff_buffer_printf(&query, error, "partNumber=%" PRIu64 "&uploadId=", number);
        if (status == FF_OK) status = ff_url_encode(&query, id, false, error);
        if (status == FF_OK) status = ff_buffer_add(&query, "", 1, error);
        if (status == FF_OK)
            status = ff_storage_ask(storage, name, query.bytes, &request, NULL, &response, error);
        ff_buffer_free(&query);
        FF_TRY(status);
        FF_TRY(ff_buffer_printf(list, error,
                                "<Part><PartNumber>%" PRIu64 "</PartNumber><ETag>%s</ETag></Part>",
                                number, response.version));
    }
    return ff_buffer_printf(list, error, "</CompleteMultipartUpload>");
}

/* What was sent of an upload that failed costs its owner money until it is removed. */
static void give_up(ff_storage *storage, const char *name, const char *query) {
    ff_request request = {.method = "DELETE"};
    ff_response response;
    (void)!ff_storage_ask(storage, name, query, &request, NULL, &response, NULL);
}

static ff_status write_parts(ff_storage *storage, const char *name, int fd, const char *path,
                             uint64_t bytes, ff_error *error) {
    ff_buffer answer = {0}, list = {0}, query = {0};
    ff_request begin = {.method = "POST"}, end = {.method = "POST"};
    ff_response response;
    char *id = NULL;
    const char *cursor;
    ff_status status;
    FF_TRY_DONE(ff_storage_ask(storage, name, "uploads=", &begin, &answer, &response, error));
    cursor = answer.bytes;
    FF_TRY_DONE(ff_xml_next(&id, &cursor, "UploadId", error));
    if (!id) {
        status =
            ff_fail(error, FF_IO, "%s/%s: the server begins no upload", storage->url.text, name);
        goto done;
    }
    FF_TRY_DONE(ff_buffer_printf(&query, error, "uploadId="));
    FF_TRY_DONE(ff_url_encode(&query, id, false, error));
    FF_TRY_DONE(ff_buffer_add(&query, "", 1, error));
    status = send_parts(storage, name, id, fd, path, bytes, &list, error);
    answer.length = 0;
    end.send = list.bytes;
    end.send_bytes = list.length;
    if (status == FF_OK)
        status = ff_storage_ask(storage, name, query.bytes, &end, &answer, &response, error);
    /* The server may find out after it has begun to answer with 200. */
    if (status == FF_OK && strstr(answer.bytes, "<Error>"))
        status = ff_fail(error, FF_IO, "%s/%s: the server cannot join the parts", storage->url.text,
                         name);
    if (status != FF_OK) give_up(storage, name, query.bytes);
done:
    free(id);
    ff_buffer_free(&answer);
    ff_buffer_free(&list);
    ff_buffer_free(&query);
    return status;
}

ff_status ff_storage_write(ff_storage *storage, const char *name, const char *path,
                           ff_error *error) {
    int fd;
    uint64_t bytes;
    ff_response response;
    FF_TRY(ff_storage_need_bucket(storage, "written", error));
    FF_TRY(ff_open_file(path, &fd, &bytes, error));
    ff_request request = {.method = "PUT", .send_fd = fd, .send_path = path, .send_bytes = bytes};
    const ff_status status =
        bytes > PART_BYTES ? write_parts(storage, name, fd, path, bytes, error)
                           : ff_storage_ask(storage, name, NULL, &request, NULL, &response, error);
    ff_close_file(&fd);
    return status;
}
