#include "tools/ffpack/bucket/ship.h"

#include "format/base/bytes.h"
#include "format/base/path.h"
#include "format/base/thread.h"
#include "format/disk/checksum.h"
#include "format/disk/layout.h"
#include "format/storage/cache.h"
#include "tools/ffpack/bucket/parts.h"
#include "tools/ffpack/bucket/push.h"
#include "tools/ffpack/bucket/sent.h"
#include "tools/ffpack/bucket/target.h"
#include "tools/ffpack/source/names.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SENDERS = 4, PART_THREADS = 2 };

typedef struct parcel {
    char *directory, *name; /* of the shard; below the URL */
    uint32_t number;
} parcel;

struct ff_ship {
    const ff_ship_options *options;
    ff_target target; /* its list is only used before the threads start */
    ff_threads *threads;
    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t changed;
    parcel waiting[SENDERS];
    int count;
    int sending;
    bool closed;
    ff_error first; /* failure */
};

ff_status ff_ship_place(char **output, const char *url, const ff_part *part, ff_error *error) {
    ff_storage *storage;
    uint8_t id[16];
    char name[64] = "packing-", *folder = NULL;
    ff_status status;
    FF_TRY(ff_storage_open(&storage, url, &(ff_storage_options){0}, error));
    FF_TRY_DONE(ff_storage_may_write(storage, error));
    ff_id_of(id, ff_storage_url(storage), strlen(ff_storage_url(storage)));
    ff_hex(name + strlen(name), id, sizeof id);
    const ff_cache_options options = {.folder = ff_storage_chosen(NULL).cache};
    FF_TRY_DONE(ff_cache_place(&folder, &options, name, error));
    status = part && part->count
                 ? ff_format(output, error, "%s/part-%u-of-%u", folder, part->number, part->count)
                 : ff_path_join(output, folder, "set", error);
done:
    free(folder);
    ff_storage_close(&storage);
    return status;
}

/* ---- what is there -------------------------------------------------------------------------- */

/* Forgets a shard whose object is not on the server as it was sent. */
static ff_status check_record(ff_ship *ship, const char *folder, const char *split,
                              const char *base, ff_error *error) {
    char *path = NULL, *name = NULL;
    ff_object wanted;
    bool sent;
    ff_status status;
    FF_TRY_DONE(ff_path_join(&path, folder, base, error));
    FF_TRY_DONE(ff_format(&name, error, "%s%s%s", split, *split ? "/" : "", base));
    FF_TRY_DONE(ff_sent_read(path, &wanted, &sent, error));
    const ff_object *there = ff_target_find(&ship->target, name);
    const bool same = there && there->bytes == wanted.bytes &&
                      !strcmp(there->version, wanted.version) && ff_path_exists("%s", path);
    if (!same) status = ff_sent_forget(path, error);
done:
    free(path);
    free(name);
    return status;
}

static ff_status check_sent(ff_ship *ship, const char *folder, const char *split, ff_error *error) {
    ff_names names;
    if (!ff_path_exists("%s/.", folder)) return FF_OK;
    FF_TRY(ff_names_read(&names, folder, NULL, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        char stem[64];
        if (ff_path_stem(stem, sizeof stem, ff_names_at(&names, i), FF_SENT_SUFFIX))
            status = check_record(ship, folder, split, stem, error);
    }
    ff_names_free(&names);
    return status;
}

static bool is_any(void *context, const char *name) {
    const ff_ship *ship = context;
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    uint32_t number;
    const size_t length = slash ? (size_t)(slash - name) : 0;
    bool own = false;
    for (size_t i = 0; i < ship->options->splits; i++) {
        const char *split = ship->options->split[i];
        own |= strlen(split) == length && !memcmp(split, name, length);
    }
    return own && ff_shard_name_parse(base, &number);
}

static ff_status look(ff_ship *ship, ff_error *error) {
    const ff_ship_options *options = ship->options;
    ff_target *target = &ship->target;
    const char *other;
    uint64_t removed = 0;
    ff_error unlisted = {0};
    FF_TRY(ff_target_look(target, error));
    FF_TRY(ff_target_compare(target, options->partial, &other, error));
    if (other && !options->force) return ff_target_refuse(target, other, error);
    /* Other parts send shards of the same splits; the merge removes what is left of all. */
    if (!options->part->count &&
        ff_storage_abort(target->storage, is_any, ship, &unlisted) != FF_OK) {
        FF_TRY(ff_storage_check(target->storage, error));
        options->tell(options->context, unlisted.message);
    }
    if (other) FF_TRY(ff_target_remove(target, NULL, NULL, &removed, error));
    for (size_t i = 0; i < options->splits; i++) {
        char *folder;
        FF_TRY(*options->split[i]
                   ? ff_path_join(&folder, options->partial, options->split[i], error)
                   : ff_copy_string(&folder, options->partial, error));
        const ff_status status = check_sent(ship, folder, options->split[i], error);
        free(folder);
        FF_TRY(status);
    }
    return FF_OK;
}

/* ---- sending -------------------------------------------------------------------------------- */

static void free_parcel(parcel *one) {
    free(one->directory);
    free(one->name);
}

static ff_status send(ff_ship *ship, const parcel *one, ff_error *error) {
    char name[32], *path;
    ff_object object;
    bool sent;
    ff_shard_name(name, one->number);
    FF_TRY(ff_path_join(&path, one->directory, name, error));
    ff_status status = ff_sent_read(path, &object, &sent, error);
    if (status == FF_OK && !sent) {
        const ff_object *there = ff_target_find(&ship->target, one->name);
        if (there) status = ff_storage_expect(path, &object, error);
        sent = there && status == FF_OK && there->bytes == object.bytes &&
               !strcmp(there->version, object.version);
        if (status == FF_OK && !sent)
            status = ff_storage_write(ship->target.storage, one->name, path, PART_THREADS, &object,
                                      error);
        if (status == FF_OK) status = ff_sent_write(one->directory, one->number, &object, error);
    }
    free(path);
    return status;
}

static void sender(void *context, int index) {
    ff_ship *ship = context;
    (void)index;
    pthread_mutex_lock(&ship->mutex);
    for (;;) {
        while (!ship->count && !ship->closed) pthread_cond_wait(&ship->changed, &ship->mutex);
        if (!ship->count) break;
        parcel one = ship->waiting[0];
        memmove(ship->waiting, ship->waiting + 1, (size_t)--ship->count * sizeof one);
        const bool failed = ship->first.status != FF_OK;
        ship->sending++;
        pthread_cond_broadcast(&ship->changed);
        pthread_mutex_unlock(&ship->mutex);
        ff_error error = {0};
        if (!failed && send(ship, &one, &error) == FF_OK) error.status = FF_OK;
        free_parcel(&one);
        pthread_mutex_lock(&ship->mutex);
        if (error.status != FF_OK && ship->first.status == FF_OK) ship->first = error;
        ship->sending--;
        pthread_cond_broadcast(&ship->changed);
    }
    pthread_mutex_unlock(&ship->mutex);
}

ff_status ff_ship_open(ff_ship **out, const ff_ship_options *options, ff_error *error) {
    ff_ship *ship;
    *out = NULL;
    FF_TRY(ff_alloc(&ship, 1, sizeof *ship, "an upload", error));
    ship->options = options;
    ship->target.split = options->split;
    ship->target.splits = options->splits;
    pthread_mutex_init(&ship->mutex, NULL);
    pthread_cond_init(&ship->changed, NULL);
    ff_status status;
    FF_TRY_DONE(ff_storage_open(&ship->target.storage, options->url, &options->storage, error));
    FF_TRY_DONE(look(ship, error));
    status = ff_threads_start_small(&ship->threads, SENDERS, "send", sender, ship, error);
done:
    if (status != FF_OK) ff_ship_close(&ship);
    *out = ship;
    return status;
}

/* The caller holds the mutex. */
static ff_status failure(const ff_ship *ship, ff_error *error) {
    if (ship->first.status != FF_OK && error) *error = ship->first;
    return ship->first.status;
}

ff_status ff_ship_shard(ff_ship *ship, const char *directory, const char *split, uint32_t number,
                        ff_error *error) {
    parcel one = {.number = number};
    char name[32];
    ff_shard_name(name, number);
    ff_status status;
    FF_TRY_DONE(ff_copy_string(&one.directory, directory, error));
    FF_TRY_DONE(ff_format(&one.name, error, "%s%s%s", split, *split ? "/" : "", name));
    pthread_mutex_lock(&ship->mutex);
    while (ship->count == SENDERS && ship->first.status == FF_OK)
        pthread_cond_wait(&ship->changed, &ship->mutex);
    status = failure(ship, error);
    if (status == FF_OK) ship->waiting[ship->count++] = one;
    pthread_cond_broadcast(&ship->changed);
    pthread_mutex_unlock(&ship->mutex);
done:
    if (status != FF_OK) free_parcel(&one);
    return status;
}

static void tell_nobody(const char *sentence) {
    (void)sentence;
}

ff_status ff_ship_finish(ff_ship *ship, const char *skipped, ff_error *error) {
    const ff_ship_options *options = ship->options;
    ff_object object;
    ff_push_report report;
    pthread_mutex_lock(&ship->mutex);
    while (ship->count || ship->sending) pthread_cond_wait(&ship->changed, &ship->mutex);
    const ff_status status = failure(ship, error);
    pthread_mutex_unlock(&ship->mutex);
    FF_TRY(status);
    if (options->part->count)
        return ff_parts_send(&ship->target, options->partial, options->part, skipped, error);
    if (access(skipped, F_OK) == 0)
        FF_TRY(
            ff_storage_write(ship->target.storage, FF_SKIPPED_OBJECT, skipped, 1, &object, error));
    return ff_push_run(&(ff_push_options){.folder = options->partial,
                                          .url = options->url,
                                          .jobs = SENDERS,
                                          .storage = options->storage,
                                          .tell = tell_nobody},
                       &report, error);
}

void ff_ship_close(ff_ship **out) {
    ff_ship *ship = *out;
    if (!ship) return;
    pthread_mutex_lock(&ship->mutex);
    ship->closed = true;
    while (ship->count) free_parcel(&ship->waiting[--ship->count]);
    pthread_cond_broadcast(&ship->changed);
    pthread_mutex_unlock(&ship->mutex);
    ff_threads_join(&ship->threads);
    ff_target_free(&ship->target);
    ff_storage_close(&ship->target.storage);
    pthread_cond_destroy(&ship->changed);
    pthread_mutex_destroy(&ship->mutex);
    free(ship);
    *out = NULL;
}
