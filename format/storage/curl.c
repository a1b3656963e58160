#include "format/storage/curl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ff_curl library;
static ff_error failure;
static pthread_once_t once = PTHREAD_ONCE_INIT;

enum { OLDEST = 0x074b00 }; /* 7.75: signature 4 */

/* A library that was built on another system looks for certificates in that system's place. */
static const char *certificates(void) {
    static const char *const places[] = {
        "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Arch */
        "/etc/pki/tls/certs/ca-bundle.crt",                  /* Fedora, RHEL */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* newer ones */
        "/etc/ssl/ca-bundle.pem",                            /* openSUSE */
        "/etc/ssl/cert.pem"};                                /* Alpine */
    const char *own = getenv("SSL_CERT_FILE");
    if (own && *own) return own;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (access(places[i], R_OK) == 0) return places[i];
    return NULL;
}

static void open_once(void) {
    /* The first one lies in bundles and wheels (tools/build/libcurl.sh). */
    static const char *const names[] = {"libcurl-ffpack.so.4", "libcurl.so.4",
                                        "libcurl-gnutls.so.4"};
    void *handle = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !handle; i++)
        handle = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        (void)!ff_fail(
            &failure, FF_FAILED,
            "a URL needs libcurl.so.4, which is not installed: libcurl4 (Debian, Ubuntu; "
            "there libcurl4t64 from 24.04 on), libcurl (Fedora, RHEL, conda)");
        return;
    }
    CURLcode (*start)(long) = NULL;
    curl_version_info_data *(*info)(CURLversion) = NULL;
    const struct {
        const char *name;
        void *to;
    } functions[] = {{"curl_easy_init", &library.easy_init},
                     {"curl_easy_setopt", &library.easy_setopt},
                     {"curl_easy_perform", &library.easy_perform},
                     {"curl_easy_getinfo", &library.easy_getinfo},
                     {"curl_easy_reset", &library.easy_reset},
                     {"curl_easy_cleanup", &library.easy_cleanup},
                     {"curl_easy_strerror", &library.easy_strerror},
                     {"curl_slist_append", &library.slist_append},
                     {"curl_slist_free_all", &library.slist_free_all},
                     {"curl_global_init", &start},
                     {"curl_version_info", &info}};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(handle, functions[i].name);
        if (!found) {
            (void)!ff_fail(&failure, FF_FAILED, "libcurl.so.4 has no function %s",
                           functions[i].name);
            return;
        }
        memcpy(functions[i].to, &found, sizeof found);
    }
    const curl_version_info_data *version = info(CURLVERSION_NOW);
    library.version = version->version_num;
    library.version_text = version->version;
    library.certificates = certificates();
    if (library.version < OLDEST)
        (void)!ff_fail(&failure, FF_FAILED,
                       "libcurl %s is too old for URLs; 7.75 or newer is needed", version->version);
    else if (start(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        (void)!ff_fail(&failure, FF_FAILED, "libcurl %s cannot start", version->version);
}

ff_status ff_curl_open(const ff_curl **curl, ff_error *error) {
    pthread_once(&once, open_once);
    *curl = &library;
    if (failure.status == FF_OK) return FF_OK;
    return ff_fail(error, failure.status, "%s", failure.message);
}
