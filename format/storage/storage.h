/* Room format/storage, floor 1: objects that lie behind a URL.
 *
 * This header reads objects. url.h splits a URL into a server and a path. credentials.h finds the
 * keys that the AWS tools use. curl.h opens libcurl at the first use of a URL. request.h is one
 * request to a server: how a response is checked, and which failures are tried again; transfer.c is
 * one attempt. cache.h keeps what was fetched on a local disk: pieces.h is its state, cache_fetch.c
 * fetches, room.c removes what is needed last.
 *
 * May include format/base.
 *
 * A storage is a URL below which objects have names, as files have in a folder:
 *
 *     s3://BUCKET/PREFIX       S3: AWS, or the server that AWS_ENDPOINT_URL names (MinIO, Ceph, R2)
 *     gs://BUCKET/PREFIX       Google Cloud Storage by its S3 interface, with HMAC keys
 *     https://HOST/PATH        a web server that answers ranges; read only
 *     http://HOST/PATH         the same, unencrypted
 *
 * Failures. A request that fails for a reason that may pass (no connection, a stall of 20 s, a body
 * that ends early, HTTP 408, 429 and 5xx) is sent again, after pauses that double from 0.1 to 10 s,
 * each drawn between half of it and all of it, until `timeout_s` have passed since the last byte
 * arrived; 15 s if no server has ever answered. A body that ended early continues at the byte where
 * it ended. All other failures end the call with a sentence that names the URL: FF_IO; FF_USAGE for
 * a URL that cannot be meant; FF_FAILED if libcurl is missing.
 *
 * Thread rule: any thread. Each call blocks; calls of several threads run at the same time, each
 * over its own connection, which later calls use again. */
#ifndef FF_FORMAT_STORAGE_H
#define FF_FORMAT_STORAGE_H

#include "format/base/memory.h"

typedef struct ff_storage ff_storage;

typedef struct ff_storage_options {
    /* Called some times a second while a call waits: a failure ends the call. NULL = never called.
     * For signals: ff_interrupt_check (format/cli/interrupt.h). */
    ff_status (*check)(ff_error *error);
    /* Seconds for which a failure that may pass is tried again; 0 = FF_STORAGE_TIMEOUT_S. */
    double timeout_s;
} ff_storage_options;

#define FF_STORAGE_TIMEOUT_S 300.0

/* Whether a path is a URL of one of the schemes above. */
bool ff_storage_is_url(const char *path);

/* Sends no request. */
FF_MUST_USE ff_status ff_storage_open(ff_storage **storage, const char *url,
                                      const ff_storage_options *options, ff_error *error);
void ff_storage_close(ff_storage **storage); /* NULL is accepted */

/* The URL, without a final slash. */
const char *ff_storage_url(const ff_storage *storage);
/* Calls the option `check`. */
FF_MUST_USE ff_status ff_storage_check(const ff_storage *storage, ff_error *error);

/* What a server says of an object. */
typedef struct ff_object {
    uint64_t bytes;
    char version[128]; /* its ETag, or the time of its last change; "" = unknown */
} ff_object;

/* An object and its begin. */
#define FF_LOOK_BYTES (UINT64_C(16) << 10)
typedef struct ff_look {
    bool there; /* else all is zero */
    ff_object object;
    uint8_t *head;       /* allocated */
    uint64_t head_bytes; /* FF_LOOK_BYTES, or all of a shorter object */
} ff_look;
FF_MUST_USE ff_status ff_storage_look(ff_storage *storage, const char *name, ff_look *look,
                                      ff_error *error);
void ff_look_free(ff_look *look);

/* Whether there is such an object, for a caller after whom another one looks at it: the next
 * ff_storage_look of this process for the same URL takes what was found here, without a request, if
 * it comes within 10 s. */
FF_MUST_USE ff_status ff_storage_look_ahead(ff_storage *storage, const char *name, bool *there,
                                            ff_error *error);

/* Reads `bytes` (at least 1) at `offset` into `to`. `object` comes from ff_storage_look, or from
 * whoever knows the size: with version "" the first response fills it. FF_IO if the object has
 * another size or version now. */
FF_MUST_USE ff_status ff_storage_read(ff_storage *storage, const char *name, ff_object *object,
                                      uint64_t offset, uint64_t bytes, void *to, ff_error *error);

#endif
