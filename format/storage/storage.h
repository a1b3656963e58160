/* Room format/storage, floor 1: objects that lie behind a URL.
 *
 * This header reads, lists and writes objects; options.h has what a user may choose, as rows of a
 * table of options. url.h splits a URL into a server and a path. credentials.h finds the keys that
 * the AWS tools use. curl.h opens libcurl at the first use of a URL. request.h is one request to a
 * server: how a response is checked, and which failures are tried again; transfer.c is one attempt.
 * list.c lists a bucket and upload.c writes into a bucket; xml.h reads the server's answers to both
 * (buckets.h is what they share with storage.c). cache.h keeps what was fetched on a local disk:
 * pieces.h is its state, cache_fetch.c fetches, room.c removes what is needed last.
 *
 * May include format/base.
 *
 * A storage is a URL below which objects have names, as files have in a folder:
 *
 *     s3://BUCKET/PREFIX       S3: AWS, or the server that `endpoint` names (MinIO, Ceph, R2)
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

/* NULL or 0: as ff_storage_set_defaults has it, else by the environment, else the default. */
typedef struct ff_storage_options {
    /* The server of s3:// and gs://; else AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's. */
    const char *endpoint;
    /* The folder of the cache and the most that it may have, for whoever opens one (cache.h). */
    const char *cache;
    uint64_t cache_bytes;
    /* Seconds for which a failure that may pass is tried again; else FF_STORAGE_TIMEOUT_S. */
    int64_t timeout_s;
    /* Called some times a second while a call waits: a failure ends the call. NULL = never called.
     * For signals: ff_interrupt_check (format/cli/interrupt.h). */
    ff_status (*check)(ff_error *error);
    /* The URL is one object's, whose name below the URL is "". A web URL may then have a query,
     * which no message shows: it may hold a signature. */
    bool object;
} ff_storage_options;

enum { FF_STORAGE_TIMEOUT_S = 300 };

/* What all storages of this process have that their own options leave open: a program's command
 * line. A main calls this once, before it opens a storage or starts a thread; the texts must stay.
 * A library does not call it. */
void ff_storage_set_defaults(const ff_storage_options *defaults);
/* The options with those defaults; NULL = none. */
ff_storage_options ff_storage_chosen(const ff_storage_options *options);

/* Whether a path is a URL of one of the schemes above. */
bool ff_storage_is_url(const char *path);
/* Whether it is a bucket's: s3:// or gs://. */
bool ff_storage_is_bucket(const char *path);
/* The bytes of a path or URL that may be shown and recorded: those before a web URL's query, which
 * may hold a signature. */
size_t ff_storage_shown_bytes(const char *path);
/* FF_USAGE for a URL where a command needs a folder; `verb`: "append changes". */
FF_MUST_USE ff_status ff_storage_refuse(const char *path, const char *verb, ff_error *error);
/* The option that has no effect on any of these paths, which may be NULL: "endpoint" without a URL
 * of s3:// or gs://; "cache", "cache-size" or "storage-timeout" without a URL. NULL = none. */
const char *ff_storage_idle_option(const ff_storage_options *options, const char *const *path,
                                   size_t count);
/* FF_USAGE that names this option without effect; NULL: FF_OK. */
FF_MUST_USE ff_status ff_storage_refuse_idle(const char *option, ff_error *error);
/* For a program whose options they are, with the paths of all sets that it may read: makes the
 * options the defaults. FF_USAGE if one has no effect. */
FF_MUST_USE ff_status ff_storage_use(const ff_storage_options *options, const char *const *path,
                                     size_t count, ff_error *error);

/* Sends no request. Texts of the options need not stay. */
FF_MUST_USE ff_status ff_storage_open(ff_storage **storage, const char *url,
                                      const ff_storage_options *options, ff_error *error);
void ff_storage_close(ff_storage **storage); /* NULL is accepted */
/* Makes all calls of other threads end soon, with FF_INTERRUPTED: those that wait, and later ones.
 */
void ff_storage_stop(ff_storage *storage);

/* The URL, without a final slash. */
const char *ff_storage_url(const ff_storage *storage);
/* Calls the option `check`. */
FF_MUST_USE ff_status ff_storage_check(const ff_storage *storage, ff_error *error);

/* What a server says of an object. */
typedef struct ff_object {
    uint64_t bytes;
    char version[128]; /* its ETag, or the time of its last change; "" = unknown */
} ff_object;

/* *there = false: there is no such object. */
FF_MUST_USE ff_status ff_storage_find(ff_storage *storage, const char *name, ff_object *object,
                                      bool *there, ff_error *error);

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

/* The same into a file that is open for writing, at the offset that the bytes have in the object.
 * path: for messages. */
FF_MUST_USE ff_status ff_storage_read_to_file(ff_storage *storage, const char *name,
                                              ff_object *object, uint64_t offset, uint64_t bytes,
                                              int file, const char *path, ff_error *error);

/* FF_USAGE if it cannot be written: it is a web server. */
FF_MUST_USE ff_status ff_storage_may_write(const ff_storage *storage, ff_error *error);

/* Calls `take` for each object of a bucket whose name begins with `prefix`, in the order of names
 * (by bytes), until a call fails; the name is what follows the storage's URL. FF_USAGE for a web
 * server. */
typedef ff_status ff_storage_taker(void *context, const char *name, const ff_object *object,
                                   ff_error *error);
FF_MUST_USE ff_status ff_storage_list(ff_storage *storage, const char *prefix,
                                      ff_storage_taker *take, void *context, ff_error *error);

/* Writes an object of a bucket from the file `path`, which must not change meanwhile: readers see
 * the old object or the whole new one. A file of 8 MiB or more is sent in parts, by `threads`
 * threads; after a failure its parts are removed, unless the server cannot be reached or the
 * process is killed (ff_storage_abort). *object = what the server has now. FF_USAGE for a web
 * server. */
FF_MUST_USE ff_status ff_storage_write(ff_storage *storage, const char *name, const char *path,
                                       int threads, ff_object *object, ff_error *error);
/* *object = what ff_storage_write would leave: its version is the file's MD5, or one of its parts'.
 * Servers that encrypt with keys of their own (SSE-KMS) name versions otherwise. */
FF_MUST_USE ff_status ff_storage_expect(const char *path, ff_object *object, ff_error *error);
/* An object that does not exist is FF_OK. */
FF_MUST_USE ff_status ff_storage_remove(ff_storage *storage, const char *name, ff_error *error);
/* Removes the parts that killed processes sent of those objects for which `ours` is true. */
typedef bool ff_storage_names(void *context, const char *name);
FF_MUST_USE ff_status ff_storage_abort(ff_storage *storage, ff_storage_names *ours, void *context,
                                       ff_error *error);

#endif
