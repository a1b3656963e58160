/* An open storage, shared by storage.c (reading), list.c and upload.c. Private to format/storage.
 */
#ifndef FF_STORAGE_BUCKETS_H
#define FF_STORAGE_BUCKETS_H

#include "format/storage/request.h"
#include "format/storage/url.h"
#include "format/storage/xml.h"

struct ff_storage {
    ff_url url;
    ff_client *client;
};

/* FF_USAGE if the URL is not of a bucket; `verb` for the message: "listed", "written". */
FF_MUST_USE ff_status ff_storage_need_bucket(const ff_storage *storage, const char *verb,
                                             ff_error *error);

/* Sends a request about the bucket (`name` = NULL) or about an object. `query` is encoded, its
 * names in alphabetical order, which the signature wants; NULL: there is none. *answer = the body
 * that is received; NULL: the body is not kept. `request` has the other members that matter. */
FF_MUST_USE ff_status ff_storage_ask(ff_storage *storage, const char *name, const char *query,
                                     ff_request *request, ff_buffer *answer, ff_response *response,
                                     ff_error *error);

/* One answer to ListObjectsV2: calls `take` for each object. `prefix` is the storage's own, which
 * the names come without. *token = what asks for the next answer, allocated; NULL: this was the
 * last. FF_BAD_DATA for an answer that is not such a list. */
FF_MUST_USE ff_status ff_list_take(ff_xml answer, const char *prefix, ff_storage_taker *take,
                                   void *context, char **token, ff_error *error);
/* A name in an answer as the server has it: percent-encoded if `encoded`. In place. */
FF_MUST_USE ff_status ff_list_decode(char *name, bool encoded, ff_error *error);

#endif
