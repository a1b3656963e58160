#include "tools/ffpack/pack/unchanged.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/disk/checksum.h"
#include "format/disk/layout.h"
#include "tools/ffpack/split/skipped.h"

#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STATE_LIMIT_BYTES = 4096 };

/* ---- the source ------------------------------------------------------------------------------ */

/* The hash of a split's items. */
typedef struct hashing {
    XXH3_state_t *hash;
    const ff_source_split *split;
    ff_buffer path, folder; /* an item's; its folder, zero-terminated */
    char *real;             /* the folder's path from the root */
} hashing;

static void add_text(XXH3_state_t *hash, const char *text) {
    ff_hash_update(hash, text, strlen(text) + 1);
}

/* Size and time of change of a file; zeros if it is missing, as --on-error skip allows. */
static void add_file(XXH3_state_t *hash, const struct stat *info) {
    const int64_t numbers[] = {info->st_size, info->st_mtim.tv_sec, info->st_mtim.tv_nsec};
    ff_hash_update(hash, numbers, sizeof numbers);
}

/* hashing.real = the real path of the file's folder, however the folder is spelled; the files of a
 * folder come one after another. */
static ff_status find_folder(hashing *to, const char *path, size_t bytes, ff_error *error) {
    if (to->real && to->folder.length == bytes && !memcmp(to->folder.bytes, path, bytes))
        return FF_OK;
    to->folder.length = 0;
    FF_TRY(ff_buffer_add(&to->folder, path, bytes, error));
    free(to->real);
    to->real = realpath(bytes ? to->folder.bytes : ".", NULL);
    return to->real ? FF_OK : ff_copy_string(&to->real, bytes ? to->folder.bytes : ".", error);
}

static ff_status add_path(hashing *to, const char *path, ff_error *error) {
    struct stat info;
    const char *base = ff_path_base(path);
    if (stat(path, &info) != 0) info = (struct stat){0};
    FF_TRY(find_folder(to, path, (size_t)(base - path), error));
    add_text(to->hash, to->real);
    add_text(to->hash, base);
    add_file(to->hash, &info);
    return FF_OK;
}

static ff_status add_item(void *context, const ff_item *item, ff_error *error) {
    hashing *to = context;
    if (item->part != FF_PART_FILE) return FF_OK;
    FF_TRY(ff_source_item_path(to->split, item, &to->path, error));
    return add_path(to, to->path.bytes, error);
}

static ff_status add_split(hashing *to, const ff_metadata *metadata, ff_error *error) {
    ff_buffer text = {0};
    ff_status status;
    FF_TRY_DONE(ff_metadata_write(metadata, &text, error));
    ff_hash_update(to->hash, text.bytes, text.length);
    status = ff_listing_visit(to->split->listing, add_item, to, error);
done:
    ff_buffer_free(&text);
    return status;
}

ff_status ff_unchanged_source(const ff_run *run, uint8_t id[16], ff_error *error) {
    const ff_source *source = run->source;
    const ff_settings *settings = run->settings;
    hashing to = {.hash = XXH3_createState()};
    ff_status status;
    if (!to.hash) return ff_fail(error, FF_NO_MEMORY, "no memory for a checksum");
    XXH3_128bits_reset(to.hash);
    /* The options that the metadata do not record. */
    const uint64_t numbers[] = {settings->skip, settings->stats_sample, settings->statistics};
    ff_hash_update(to.hash, numbers, sizeof numbers);
    add_text(to.hash, settings->max_skip.text);
    for (size_t i = 0; i < source->part_count; i++)
        FF_TRY_DONE(add_path(&to, source->part[i].path, error));
    for (size_t i = 0; i < source->split_count; i++) {
        to.split = &source->split[i];
        FF_TRY_DONE(add_split(&to, &run->report->split[i].metadata, error));
    }
    status = FF_OK;
    ff_id_store(id, ff_hash_digest(to.hash));
done:
    XXH3_freeState(to.hash);
    ff_buffer_free(&to.path);
    ff_buffer_free(&to.folder);
    free(to.real);
    return status;
}

/* ---- the set --------------------------------------------------------------------------------- */

static int by_name(const FTSENT **a, const FTSENT **b) {
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Files that a finished OUT has; measured.ffp is removed before OUT gets its name. */
static bool is_of_set(const FTSENT *at) {
    return at->fts_info != FTS_D && at->fts_info != FTS_DP &&
           strcmp(at->fts_name, FF_SOURCE_STATE_NAME) != 0 &&
           strncmp(at->fts_name, FF_MEASURED_NAME, strlen(FF_MEASURED_NAME)) != 0;
}

static ff_status hash_set(const char *folder, uint8_t id[16], ff_error *error) {
    char *roots[] = {(char *)(uintptr_t)folder, NULL};
    XXH3_state_t *hash = XXH3_createState();
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    ff_status status = FF_OK;
    if (hash) XXH3_128bits_reset(hash);
    for (FTSENT *at; hash && walk && (at = fts_read(walk));) {
        if (!is_of_set(at)) continue;
        const char *inside = at->fts_path + strlen(folder);
        add_text(hash, inside + strspn(inside, "/"));
        add_file(hash, at->fts_statp);
    }
    if (!hash)
        status = ff_fail(error, FF_NO_MEMORY, "no memory for a checksum");
    else if (!walk)
        status = ff_fail_errno(error, "%s: cannot list", folder);
    else
        ff_id_store(id, ff_hash_digest(hash));
    if (walk) fts_close(walk);
    XXH3_freeState(hash);
    return status;
}

static ff_status make_text(const char *folder, const char *output, const uint8_t source[16],
                           ff_buffer *text, ff_error *error) {
    uint8_t set[16];
    char source_text[33], set_text[33], *skipped;
    FF_TRY(hash_set(folder, set, error));
    ff_hex(source_text, source, 16);
    ff_hex(set_text, set, 16);
    FF_TRY(ff_skipped_name(&skipped, output, error));
    const ff_status status = ff_buffer_printf(text, error, "source %s\nset %s\nskipped %d\n",
                                              source_text, set_text, ff_path_exists("%s", skipped));
    free(skipped);
    return status;
}

ff_status ff_unchanged_check(const char *output, const uint8_t source[16], bool *unchanged,
                             ff_error *error) {
    ff_buffer found = {0}, wanted = {0};
    char *path = NULL;
    ff_status status;
    *unchanged = false;
    FF_TRY_DONE(ff_path_join(&path, output, FF_SOURCE_STATE_NAME, error));
    if (!ff_path_exists("%s", path)) goto done;
    FF_TRY_DONE(ff_read_whole(&found, path, STATE_LIMIT_BYTES, error));
    FF_TRY_DONE(make_text(output, output, source, &wanted, error));
    *unchanged = found.length == wanted.length && !memcmp(found.bytes, wanted.bytes, found.length);
done:
    ff_buffer_free(&wanted);
    ff_buffer_free(&found);
    free(path);
    return status;
}

ff_status ff_unchanged_write(const char *partial, const char *output, const uint8_t source[16],
                             ff_error *error) {
    ff_buffer text = {0};
    ff_status status;
    FF_TRY_DONE(make_text(partial, output, source, &text, error));
    FF_TRY_DONE(ff_file_save(partial, FF_SOURCE_STATE_NAME, &text, error));
done:
    ff_buffer_free(&text);
    return status;
}
