/* An open storage, shared by storage.c (reading), list.c and upload.c. Private to format/storage.
 */
#ifndef FF_STORAGE_BUCKETS_H
#define FF_STORAGE_BUCKETS_H

#include "format/storage/request.h"
#include "format/storage/url.h"

struct ff_storage {
    ff_url url;
    ff_client *client;
};

/* FF_USAGE if it cannot list and write; `verb` for the message. */
FF_MUST_USE ff_status ff_storage_need_bucket(const ff_storage *storage, const char *verb,
                                             ff_error *error);

/* Sends a request about the bucket (`name` = NULL) or an object, with a query, encoded and without
 * ?; a body of `bytes` bytes; *answer = the body received, ending with a zero byte. `request` has
 * the other members that matter. */
FF_MUST_USE ff_status ff_storage_ask(ff_storage *storage, const char *name, const char *query,
                                     ff_request *request, ff_buffer *answer, ff_response *response,
                                     ff_error *error);

/* The text of the next element NAME of S3's XML from *cursor on, decoded, allocated; NULL = there
 * is none. *cursor moves past it. */
FF_MUST_USE ff_status ff_xml_next(char **text, const char **cursor, const char *name,
                                  ff_error *error);

#endif
