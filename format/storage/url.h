/* The parts of a storage's URL. Private to format/storage. Thread rule: pure. */
#ifndef FF_STORAGE_URL_H
#define FF_STORAGE_URL_H

#include "format/base/memory.h"

typedef enum ff_scheme { FF_SCHEME_HTTP, FF_SCHEME_HTTPS, FF_SCHEME_S3, FF_SCHEME_GS } ff_scheme;

/* All strings are allocated. */
typedef struct ff_url {
    ff_scheme scheme;
    char *text; /* for messages: as given, without final slashes and without the query */
    char *base; /* "https://HOST[:PORT][/BUCKET]": what the path of an object follows */
    char
        *prefix; /* the path below it, not percent-encoded for S3; "" or "a/b", no slashes around */
    char *bucket; /* S3: its name; else NULL */
    char *query;  /* of one object's web URL: "" or "?...", which may hold a signature */
} ff_url;

/* -1: not a URL of a known scheme. */
int ff_url_scheme(const char *text);
/* How much of a text may be shown: a web URL's query may hold a signature. */
size_t ff_url_shown_bytes(const char *text);

/* Where AWS's servers of a region are: "amazonaws.com", or China's. */
const char *ff_url_domain(const char *region);

/* `endpoint`: the S3 server, or NULL; `region`: AWS's; `object`: the URL is one object's and may
 * have a query. FF_USAGE. A zeroed url after a failure. */
FF_MUST_USE ff_status ff_url_parse(ff_url *url, const char *text, const char *endpoint,
                                   const char *region, bool object, ff_error *error);
void ff_url_free(ff_url *url);

/* The URL of object `name`, allocated: percent-encoded as AWS's signature 4 wants it, with the
 * bytes A-Z a-z 0-9 - . _ ~ and / as they are. The path of a web URL was encoded by its author:
 * only bytes that no URL has are encoded. */
FF_MUST_USE ff_status ff_url_object(char **object, const ff_url *url, const char *name,
                                    ff_error *error);
/* Appends a text encoded in this way; `slashes`: / stays as it is. */
FF_MUST_USE ff_status ff_url_encode(ff_buffer *to, const char *text, bool slashes, ff_error *error);

#endif
