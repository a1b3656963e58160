#include "format/storage/storage.h"

#include "format/base/thread.h"
#include "format/storage/request.h"
#include "format/storage/url.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct ff_storage {
    ff_url url;
    ff_client *client;
};

bool ff_storage_is_url(const char *path) {
    return ff_url_scheme(path) >= 0;
}

static ff_status open_all(ff_storage *storage, const char *url, const ff_storage_options *options,
                          ff_error *error) {
    char *region = NULL, *endpoint = NULL;
    ff_status status;
    FF_TRY_DONE(ff_credentials_region(&region, error));
    FF_TRY_DONE(ff_credentials_endpoint(&endpoint, error));
    FF_TRY_DONE(ff_url_parse(&storage->url, url, endpoint, region, error));
    status = ff_client_create(&storage->client, storage->url.bucket ? region : NULL,
                              options->timeout_s > 0 ? options->timeout_s : FF_STORAGE_TIMEOUT_S,
                              options->check, error);
done:
    free(region);
    free(endpoint);
    return status;
}

ff_status ff_storage_open(ff_storage **out, const char *url, const ff_storage_options *options,
                          ff_error *error) {
    *out = NULL;
    FF_TRY(ff_alloc(out, 1, sizeof **out, "a storage", error));
    const ff_status status = open_all(*out, url, options, error);
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

const char *ff_storage_url(const ff_storage *storage) {
    return storage->url.text;
}
ff_status ff_storage_check(const ff_storage *storage, ff_error *error) {
    return ff_client_check(storage->client, error);
}

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

/* A range tells the size, and needs no right that reading does not need. */
static ff_status look_at(ff_storage *storage, const char *url, const char *what, ff_look *look,
                         ff_error *error) {
    ff_response response;
    *look = (ff_look){0};
    FF_TRY(ff_alloc(&look->head, FF_LOOK_BYTES, 1, "the begin of an object", error));
    const ff_request request = {.method = "GET",
                                .url = url,
                                .what = what,
                                .to = look->head,
                                .bytes = FF_LOOK_BYTES,
                                .object = &look->object,
                                .may_lack = true,
                                .may_end = true};
    const ff_status status = ff_request_send(storage->client, &request, &response, error);
    if (status != FF_OK || response.code == 404) {
        ff_look_free(look);
        return status;
    }
    look->there = true;
    if (response.code == 416) { /* an empty object has no range */
        look->object.bytes = 0;
        memcpy(look->object.version, response.version, sizeof look->object.version);
    }
    look->head_bytes = look->object.bytes < FF_LOOK_BYTES ? look->object.bytes : FF_LOOK_BYTES;
    return FF_OK;
}

ff_status ff_storage_look(ff_storage *storage, const char *name, ff_look *look, ff_error *error) {
    char *url, *what;
    *look = (ff_look){0};
    FF_TRY(names(storage, name, &url, &what, error));
    const ff_status status =
        take_kept(url, look) ? FF_OK : look_at(storage, url, what, look, error);
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
    const ff_status status = look_at(storage, url, what, &look, error);
    *there = look.there;
    free(what);
    if (look.there)
        keep(url, look);
    else
        free(url);
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

ff_status ff_storage_read(ff_storage *storage, const char *name, ff_object *object, uint64_t offset,
                          uint64_t bytes, void *to, ff_error *error) {
    char *url, *what;
    ff_response response;
    FF_TRY(names(storage, name, &url, &what, error));
    const ff_request request = {.method = "GET",
                                .url = url,
                                .what = what,
                                .to = to,
                                .offset = offset,
                                .bytes = bytes,
                                .object = object};
    ff_status status = ff_request_send(storage->client, &request, &response, error);
    if (status == FF_OK && response.code == 416)
        status = ff_fail(error, FF_IO, "%s: was replaced while it was read", what);
    free(url);
    free(what);
    return status;
}
