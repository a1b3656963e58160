#include "format/storage/storage.h"

#include "format/base/thread.h"
#include "format/storage/buckets.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- options -------------------------------------------------------------------------------- */

static ff_storage_options own_defaults;

void ff_storage_set_defaults(const ff_storage_options *defaults) {
    own_defaults = *defaults;
}

ff_storage_options ff_storage_chosen(const ff_storage_options *options) {
    ff_storage_options chosen = options ? *options : (ff_storage_options){0};
    if (!chosen.endpoint) chosen.endpoint = own_defaults.endpoint;
    if (!chosen.cache) chosen.cache = own_defaults.cache;
    if (!chosen.cache_bytes) chosen.cache_bytes = own_defaults.cache_bytes;
    if (!chosen.timeout_s) chosen.timeout_s = own_defaults.timeout_s;
    if (!chosen.timeout_s) chosen.timeout_s = FF_STORAGE_TIMEOUT_S;
    return chosen;
}

bool ff_storage_is_url(const char *path) {
    return ff_url_scheme(path) >= 0;
}
bool ff_storage_is_bucket(const char *path) {
    const int scheme = ff_url_scheme(path);
    return scheme == FF_SCHEME_S3 || scheme == FF_SCHEME_GS;
}
size_t ff_storage_shown_bytes(const char *path) {
    return ff_url_shown_bytes(path);
}

ff_status ff_storage_refuse(const char *path, const char *verb, ff_error *error) {
    if (!ff_storage_is_url(path)) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "%s: is a URL, and %s a set in a folder: ffpack pull fetches the set, ffpack "
                   "push sends the new one",
                   path, verb);
}

const char *ff_storage_idle_option(const ff_storage_options *options, const char *const *path,
                                   size_t count) {
    bool url = false, bucket = false;
    for (size_t i = 0; i < count; i++) {
        const int scheme = path[i] ? ff_url_scheme(path[i]) : -1;
        url |= scheme >= 0;
        bucket |= scheme == FF_SCHEME_S3 || scheme == FF_SCHEME_GS;
    }
    if (options->endpoint && !bucket) return "endpoint";
    if (url) return NULL;
    return options->cache         ? "cache"
           : options->cache_bytes ? "cache-size"
           : options->timeout_s   ? "storage-timeout"
                                  : NULL;
}

ff_status ff_storage_refuse_idle(const char *option, ff_error *error) {
    if (!option) return FF_OK;
    return ff_fail(error, FF_USAGE, "--%s has no effect: no set lies behind a URL%s", option,
                   strcmp(option, "endpoint") ? "" : " of s3:// or gs://");
}

ff_status ff_storage_use(const ff_storage_options *options, const char *const *path, size_t count,
                         ff_error *error) {
    ff_storage_set_defaults(options);
    return ff_storage_refuse_idle(ff_storage_idle_option(options, path, count), error);
}

/* ---- open and close ------------------------------------------------------------------------- */

static ff_status open_all(ff_storage *storage, const char *url, const ff_storage_options *options,
                          ff_error *error) {
    char *region = NULL, *endpoint = NULL;
    ff_status status;
    FF_TRY_DONE(ff_credentials_region(&region, error));
    FF_TRY_DONE(options->endpoint ? ff_copy_string(&endpoint, options->endpoint, error)
                                  : ff_credentials_endpoint(&endpoint, error));
    FF_TRY_DONE(ff_url_parse(&storage->url, url, endpoint, region, options->object, error));
    /* Google takes any region; AWS's settings are not about its buckets. */
    const bool google = storage->url.scheme == FF_SCHEME_GS && !endpoint;
    status = ff_client_create(&storage->client,
                              google                ? "auto"
                              : storage->url.bucket ? region
                                                    : NULL,
                              (double)options->timeout_s, options->check, error);
done:
    free(region);
    free(endpoint);
    return status;
}

ff_status ff_storage_open(ff_storage **out, const char *url, const ff_storage_options *options,
                          ff_error *error) {
    const ff_storage_options chosen = ff_storage_chosen(options);
    *out = NULL;
    FF_TRY(ff_alloc(out, 1, sizeof **out, "a storage", error));
    const ff_status status = open_all(*out, url, &chosen, error);
    if (status != FF_OK) ff_storage_close(out);
    return status;
}

void ff_storage_close(ff_storage **storage) {
    if (!*storage) return;
    ff_client_destroy(&(*storage)->client);
    ff_url_free(&(*storage)->url);
    free(*storage);
    *storage = NULL;
}

void ff_storage_stop(ff_storage *storage) {
    ff_client_stop(storage->client);
}

const char *ff_storage_url(const ff_storage *storage) {
    return storage->url.text;
}
ff_status ff_storage_check(const ff_storage *storage, ff_error *error) {
    return ff_client_check(storage->client, error);
}

/* ---- objects -------------------------------------------------------------------------------- */

/* *url is what is sent, *what the name in messages. */
static ff_status names(const ff_storage *storage, const char *name, char **url, char **what,
                       ff_error *error) {
    *what = NULL;
    FF_TRY(ff_url_object(url, &storage->url, name, error));
    const ff_status status =
        ff_format(what, error, "%s%s%s", storage->url.text, *name ? "/" : "", name);
    if (status != FF_OK) free(*url), *url = NULL;
    return status;
}

/* ---- the begin of an object ----------------------------------------------------------------- */

/* What ff_storage_look_ahead found, for the next ff_storage_look. */
enum { KEPT = 8 };
#define KEPT_NS (UINT64_C(10) * 1000 * 1000 * 1000)
static struct {
    pthread_mutex_t mutex;
    struct {
        char *url;
        uint64_t at_ns;
        ff_look look;
    } one[KEPT];
    unsigned next;
} kept = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* False if nothing is kept for this URL. */
static bool take_kept(const char *url, ff_look *look) {
    bool taken = false;
    pthread_mutex_lock(&kept.mutex);
    for (int i = 0; i < KEPT; i++) {
        if (!kept.one[i].url || strcmp(kept.one[i].url, url)) continue;
        taken = ff_now_ns() - kept.one[i].at_ns < KEPT_NS;
        if (taken)
            *look = kept.one[i].look;
        else
            ff_look_free(&kept.one[i].look);
        kept.one[i].look = (ff_look){0};
        free(kept.one[i].url), kept.one[i].url = NULL;
        break;
    }
    pthread_mutex_unlock(&kept.mutex);
    return taken;
}

/* Takes over both. */
static void keep(char *url, ff_look look) {
    ff_look older;
    if (take_kept(url, &older)) ff_look_free(&older);
    pthread_mutex_lock(&kept.mutex);
    const unsigned at = kept.next++ % KEPT;
    free(kept.one[at].url);
    ff_look_free(&kept.one[at].look);
    kept.one[at].url = url;
    kept.one[at].look = look;
    kept.one[at].at_ns = ff_now_ns();
    pthread_mutex_unlock(&kept.mutex);
}

void ff_look_free(ff_look *look) {
    free(look->head);
    *look = (ff_look){0};
}

/* What a server says of an object, and its first `bytes`, at most. A range tells the size, and
 * needs no right that reading does not need. */
static ff_status look_at(ff_storage *storage, const char *url, const char *what, uint64_t bytes,
                         uint8_t *to, ff_object *object, bool *there, ff_error *error) {
    ff_response response;
    *object = (ff_object){0};
    *there = false;
    const ff_request request = {.method = "GET",
                                .url = url,
                                .what = what,
                                .to = to,
                                .bytes = bytes,
                                .object = object,
                                .may_lack = true,
                                .may_end = true};
    FF_TRY(ff_request_send(storage->client, &request, &response, error));
    *there = response.code != 404;
    if (response.code != 416) return FF_OK;
    object->bytes = 0; /* an empty object has no range */
    memcpy(object->version, response.version, sizeof object->version);
    return FF_OK;
}

static ff_status look_with_head(ff_storage *storage, const char *url, const char *what,
                                ff_look *look, ff_error *error) {
    *look = (ff_look){0};
    FF_TRY(ff_alloc(&look->head, FF_LOOK_BYTES, 1, "the begin of an object", error));
    const ff_status status =
        look_at(storage, url, what, FF_LOOK_BYTES, look->head, &look->object, &look->there, error);
    const uint64_t bytes = look->object.bytes;
    look->head_bytes = bytes < FF_LOOK_BYTES ? bytes : FF_LOOK_BYTES;
    if (!look->there) ff_look_free(look);
    return status;
}

ff_status ff_storage_find(ff_storage *storage, const char *name, ff_object *object, bool *there,
                          ff_error *error) {
    char *url, *what;
    uint8_t byte;
    *there = false;
    FF_TRY(names(storage, name, &url, &what, error));
    const ff_status status = look_at(storage, url, what, 1, &byte, object, there, error);
    free(url);
    free(what);
    return status;
}

ff_status ff_storage_look(ff_storage *storage, const char *name, ff_look *look, ff_error *error) {
    char *url, *what;
    *look = (ff_look){0};
    FF_TRY(names(storage, name, &url, &what, error));
    const ff_status status =
        take_kept(url, look) ? FF_OK : look_with_head(storage, url, what, look, error);
    free(url);
    free(what);
    return status;
}

ff_status ff_storage_look_ahead(ff_storage *storage, const char *name, bool *there,
                                ff_error *error) {
    char *url, *what;
    ff_look look;
    *there = false;
    FF_TRY(names(storage, name, &url, &what, error));
    const ff_status status = look_with_head(storage, url, what, &look, error);
    *there = look.there;
    free(what);
    if (look.there)
        keep(url, look);
    else
        free(url);
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Reads into memory or a file. */
static ff_status read_range(ff_storage *storage, const char *name, ff_request *request,
                            ff_error *error) {
    char *url, *what;
    ff_response response;
    FF_TRY(names(storage, name, &url, &what, error));
    request->method = "GET";
    request->url = url;
    request->what = what;
    ff_status status = ff_request_send(storage->client, request, &response, error);
    if (status == FF_OK && response.code == 416)
        status = ff_fail(error, FF_IO, "%s: was replaced while it was read", what);
    free(url);
    free(what);
    return status;
}

ff_status ff_storage_read(ff_storage *storage, const char *name, ff_object *object, uint64_t offset,
                          uint64_t bytes, void *to, ff_error *error) {
    ff_request request = {.to = to, .offset = offset, .bytes = bytes, .object = object};
    return read_range(storage, name, &request, error);
}

ff_status ff_storage_read_to_file(ff_storage *storage, const char *name, ff_object *object,
                                  uint64_t offset, uint64_t bytes, int file, const char *path,
                                  ff_error *error) {
    ff_request request = {
        .to_fd = file, .to_path = path, .offset = offset, .bytes = bytes, .object = object};
    return read_range(storage, name, &request, error);
}
