/* libcurl, opened at the first use of a URL: no program links it. 7.75 or newer; requests with keys
 * need 7.88, which signs S3's headers. Private to format/storage. */
#ifndef FF_STORAGE_CURL_H
#define FF_STORAGE_CURL_H

#include "format/base/status.h"

#define CURL_DISABLE_DEPRECATION /* the newer names are newer than 7.75 */
#include <curl/curl.h>

typedef struct ff_curl {
    CURL *(*easy_init)(void);
    CURLcode (*easy_setopt)(CURL *, CURLoption, ...);
    CURLcode (*easy_perform)(CURL *);
    CURLcode (*easy_getinfo)(CURL *, CURLINFO, ...);
    void (*easy_reset)(CURL *);
    void (*easy_cleanup)(CURL *);
    const char *(*easy_strerror)(CURLcode);
    struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
    void (*slist_free_all)(struct curl_slist *);
    unsigned version;         /* 0x075800 = 7.88.0 */
    const char *version_text; /* "7.88.1" */
    const char *certificates; /* a file of the system's; NULL = the library knows one */
} ff_curl;

/* The library, open until the process ends. FF_FAILED with what to install. Thread rule: any
 * thread. */
FF_MUST_USE ff_status ff_curl_open(const ff_curl **curl, ff_error *error);

#endif
