/* Image folders inside an archive (tar, zip; plain, gzip, bzip2, xz, zstd), read in memory: nothing
 * is unpacked to disk, and the result equals the unpacked folder's. */
#include "tools/ffpack/source/archive/archive.h"
#include "tools/ffpack/source/tree/tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_LIMIT_BYTES (UINT64_C(64) << 20)

/* Accepts any archive that no other source accepted; listing reports problems. */
static bool archive_detect(const char *path, const unsigned char *head, size_t head_bytes,
                           ff_error *error) {
    (void)path;
    (void)error;
    return head && ff_archive_looks_like(head, head_bytes);
}

typedef struct reading {
    const char *path;
    bool nested;
    ff_archive *archive;
} reading;

static ff_status look(void *context, unsigned char *head, size_t size, size_t *got,
                      ff_error *error) {
    reading *from = context;
    return ff_archive_read(from->archive, head, size, got, error);
}

static ff_status read_table(reading *from, const ff_archive_member *member, ff_table **table,
                            ff_error *error) {
    char *text, *path;
    size_t got;
    if (member->bytes > TABLE_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: member %s has %" PRIu64 " bytes, more than %" PRIu64, from->path,
                       member->name, member->bytes, TABLE_LIMIT_BYTES);
    FF_TRY(ff_format(&path, error, "%s: %s", from->path, member->name));
    ff_status status = ff_alloc(&text, member->bytes + 1, 1, "a list of labels", error);
    if (status == FF_OK) {
        status = ff_archive_read(from->archive, text, member->bytes, &got, error);
        if (status == FF_OK)
            status = ff_table_open_text(table, path, text, got, true, error);
        else
            free(text);
    }
    free(path);
    return status;
}

/* Archives are read sequentially: a list in one is found in a separate pass. */
static ff_status open_table(void *context, const char *name, ff_table **table, ff_error *error) {
    reading from = *(reading *)context;
    *table = NULL;
    FF_TRY(ff_archive_open(&from.archive, from.path, from.nested, error));
    ff_status status = FF_OK;
    while (status == FF_OK && !*table) {
        ff_archive_member member;
        status = ff_archive_next(from.archive, &member, error);
        if (status == FF_OK && !member.name)
            status = ff_fail(error, FF_BAD_DATA, "%s: changed while it was read", from.path);
        else if (status == FF_OK && !strcmp(member.name, name))
            status = read_table(&from, &member, table, error);
    }
    ff_archive_close(&from.archive);
    return status;
}

static ff_status add_member(ff_tree *tree, const char *path, const ff_archive_member *member,
                            ff_error *error) {
    bool taken;
    if (member->kind == FF_ARCHIVE_FOLDER)
        return ff_tree_add_folder(tree, member->name, &taken, error);
    if (member->kind == FF_ARCHIVE_LINK && ff_is_image_name(member->name))
        return ff_fail(error, FF_BAD_DATA, "%s: member %s is a link, wanted images in the archive",
                       path, member->name);
    if (member->kind != FF_ARCHIVE_FILE) return FF_OK;
    ff_tree_place place = {
        .ordinal = member->ordinal, .offset = member->offset, .bytes = member->bytes};
    FF_TRY(ff_tree_add_file(tree, member->name, &place, &taken, error));
    if (!taken || member->bytes <= FF_ENCODED_LIMIT_BYTES) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: member %s has %" PRIu64 " bytes, more than %" PRIu64,
                   path, member->name, member->bytes, FF_ENCODED_LIMIT_BYTES);
}

ff_status ff_tree_list_archive(ff_source *source, const char *path, bool nested, const char *split,
                               ff_error *error) {
    reading from = {.path = path, .nested = nested};
    ff_tree_options options = {.rooted = split != NULL,
                               .split = split,
                               .context = &from,
                               .look = look,
                               .open = open_table};
    ff_tree *tree;
    uint32_t part;
    FF_TRY(ff_tree_create(&tree, source, path, &options, error));
    ff_status status;
    FF_TRY_DONE(ff_archive_open(&from.archive, path, nested, error));
    for (;;) {
        ff_archive_member member;
        FF_TRY_DONE(ff_archive_next(from.archive, &member, error));
        if (!member.name) break;
        FF_TRY_DONE(add_member(tree, path, &member, error));
    }
    const bool plain = ff_archive_is_plain(from.archive);
    ff_archive_close(&from.archive);
    FF_TRY_DONE(ff_source_add_archive(source, path, plain, nested, &part, error));
    FF_TRY_DONE(ff_tree_fill(tree, part, plain, error));
done:
    ff_archive_close(&from.archive);
    ff_tree_destroy(&tree);
    return status;
}

static ff_status archive_list(ff_source *source, ff_error *error) {
    source->kind = "archive";
    source->encoded = true;
    FF_TRY(ff_metadata_add_field(&source->labels, "label", FF_FIELD_CLASS, FF_I32, 1, error));
    return ff_tree_list_archive(source, source->path, false, NULL, error);
}

extern const ff_source_format ff_source_archive;
const ff_source_format ff_source_archive = {
    .name = "archive",
    .elsewhere = true,
    .wanted = "a tar or zip archive, compressed or not, of images in one folder per class",
    .endings = "tar zip tgz tbz txz gz bz2 xz zst",
    .detect = archive_detect,
    .list = archive_list,
    .uses = FF_USES_CLASSES | FF_USES_TREE | FF_USES_LABEL_KIND | FF_USES_EMPTY | FF_USES_SPLITS |
            FF_USES_COLUMNS,
};
