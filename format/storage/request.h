/* One HTTP request, sent again after failures that may pass (storage.h says which). Private to
 * format/storage.
 *
 * Thread rule: any thread may send over one ff_client; each request has a connection for itself. */
#ifndef FF_STORAGE_REQUEST_H
#define FF_STORAGE_REQUEST_H

#include "format/storage/credentials.h"
#include "format/storage/storage.h"

#include <stdbool.h>

typedef struct ff_client ff_client;

/* `region`: requests are signed for S3 in this region, with the credentials that are found at the
 * first request; NULL: no request is signed. check: as in ff_storage_options. */
FF_MUST_USE ff_status ff_client_create(ff_client **client, const char *region, double timeout_s,
                                       ff_status (*check)(ff_error *error), ff_error *error);
/* Calls `check`, unless it is NULL; fails if the client was stopped. */
FF_MUST_USE ff_status ff_client_check(const ff_client *client, ff_error *error);
/* All requests fail from now on (FF_INTERRUPTED), also those under way. */
void ff_client_stop(ff_client *client);
void ff_client_destroy(ff_client **client); /* NULL is accepted */

typedef struct ff_request {
    const char *method; /* "GET", "PUT", "POST", "DELETE" */
    const char *url;    /* encoded */
    const char *header; /* one more, "Name: value"; or NULL */
    const char *what;   /* for messages: the object's URL as a user writes it */
    /* The body that is sent: `send_bytes` of memory or, if `send` is NULL, of a file. */
    const void *send;
    int send_fd;
    const char *send_path;
    uint64_t send_offset, send_bytes;
    /* The body that is received: with `object` exactly the `bytes` at `offset` of an object, into
     * `to` or, if `to` is NULL, to the same offset of a file; without `object` all of the body into
     * the empty `text`, at most `limit` bytes; NULL: nowhere. */
    void *to;
    int to_fd;
    const char *to_path;
    uint64_t offset, bytes;
    ff_object *object; /* compared with the response, and filled if it has no version */
    ff_buffer *text;
    size_t limit;
    bool may_lack; /* 404 is no failure */
    bool finishes; /* `check` stops no attempt that is under way: its answer must be known */
    bool tidies;   /* sent even after `check` has failed, and tried again for a few seconds only */
    bool may_end;  /* an object that ends before has fewer bytes */
} ff_request;

typedef struct ff_response {
    long code;      /* of HTTP: 2xx; 404 if it may lack; 416 for a range past the end */
    uint64_t total; /* size of the object; of the body, without a range */
    bool total_known;
    char version[128];
} ff_response;

FF_MUST_USE ff_status ff_request_send(ff_client *client, const ff_request *request,
                                      ff_response *response, ff_error *error);

#endif
