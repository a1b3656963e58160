/* One attempt of a request, over libcurl. Private to request.c. */
#ifndef FF_STORAGE_TRANSFER_H
#define FF_STORAGE_TRANSFER_H

#include "format/storage/curl.h"
#include "format/storage/request.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    FF_SAID_BYTES = 4096, /* of the body of a failure */
    FF_CONNECTIONS = 64   /* that are kept open */
};

struct ff_client {
    const ff_curl *curl;
    char *region; /* NULL: nothing is signed */
    double timeout_s;
    ff_status (*check)(ff_error *error);
    atomic_bool stopped;
    pthread_mutex_t mutex;        /* of all below */
    CURL *handle[FF_CONNECTIONS]; /* with their open connections */
    int handles;
    bool found;   /* the credentials were looked for */
    bool reached; /* a server has answered */
    bool lost;    /* a request was given up for want of an answer, and none has come since */
    ff_credentials credentials;
};

/* One attempt. */
typedef struct ff_attempt {
    ff_client *client;
    CURL *handle;
    const ff_request *request;
    ff_response *response;
    uint64_t got;                 /* of `to`, over all attempts */
    uint64_t sent, furthest;      /* of the body: by this attempt, and the most by any */
    uint64_t moved_ns;            /* when a byte last arrived, or left for the first time */
    char said[FF_SAID_BYTES + 1]; /* the body of a failure */
    size_t said_bytes;
    char region[64];  /* in which the server says that the bucket is */
    double wait_s;    /* Retry-After */
    bool checked;     /* the response is the part that was asked for */
    bool ranged;      /* the response has a range */
    uint64_t begin;   /* of it */
    ff_error failure; /* why a callback ended the transfer */
} ff_attempt;

/* Sends the request once, from byte `got` on: *result is libcurl's, the code of HTTP is in the
 * response. A failure of this call is final: its reason is not the server's or the link's. `user`
 * is "KEY:SECRET" and `token` a header, or NULL. */
FF_MUST_USE ff_status ff_attempt_run(ff_attempt *now, const char *user, const char *token,
                                     CURLcode *result, ff_error *error);
/* ff_client_check, unless the request is one that tidies up. */
FF_MUST_USE ff_status ff_attempt_check(const ff_attempt *now, ff_error *error);

#endif
