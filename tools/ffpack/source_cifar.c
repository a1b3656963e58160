/* CIFAR-10 and CIFAR-100, binary version (https://www.cs.toronto.edu/~kriz/cifar.html).
 *
 * A record is one label byte (CIFAR-10) or two, coarse then fine (CIFAR-100), and 3072 bytes: the
 * red, green and blue plane of 32 x 32 pixels. Files: data_batch_1.bin, ... and test_batch.bin with
 * batches.meta.txt; or train.bin and test.bin with fine_label_names.txt and
 * coarse_label_names.txt. They lie in a folder (or in its folder cifar-10-batches-bin or
 * cifar-100-binary), in a tar archive, or one of them is given alone.
 * Known gaps: the python version's pickles. */
#include "tools/ffpack/archive.h"
#include "tools/ffpack/disk.h"
#include "tools/ffpack/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIXEL_BYTES = 3072, BATCHES_LIMIT = 64, CHUNK_BYTES = 256 * 1024, TEXT_BYTES = 1 << 20 };
#define MEMBER_LIMIT_BYTES (UINT64_C(16) << 30)

typedef struct cifar_kind {
    const char *name, *recorded;
    uint32_t label_bytes;
    uint32_t class_limit[2]; /* by label byte */
    const char *names_file[2];
} cifar_kind;

static const cifar_kind cifar_10 = {"CIFAR-10", "cifar-10-binary", 1, {10}, {"batches.meta.txt"}};
static const cifar_kind cifar_100 = {"CIFAR-100",
                                     "cifar-100-binary",
                                     2,
                                     {20, 100},
                                     {"coarse_label_names.txt", "fine_label_names.txt"}};

/* One file of records. */
typedef struct cifar_batch {
    char name[256]; /* "data_batch_1.bin" */
    bool test;
    uint32_t part;
    uint64_t offset, bytes; /* of it in the part */
} cifar_batch;

typedef struct cifar {
    const cifar_kind *kind;
    char *place; /* the folder or archive, for messages */
    size_t batch_count;
    cifar_batch batch[BATCHES_LIMIT];
    char *text[2];      /* contents of names_file, or NULL */
    char *text_path[2]; /* as messages call them */
} cifar;

/* ---- names --------------------------------------------------------------------------------- */

/* 1..BATCHES_LIMIT-1 for data_batch_N.bin, else 0. */
static unsigned batch_number(const char *name) {
    static const char before[] = "data_batch_";
    if (strncmp(name, before, sizeof before - 1) != 0) return 0;
    char *end;
    const char *digits = name + sizeof before - 1;
    if (*digits < '1' || *digits > '9') return 0;
    unsigned long number = strtoul(digits, &end, 10);
    return !strcmp(end, ".bin") && number < BATCHES_LIMIT ? (unsigned)number : 0;
}

/* Which version a file of this name belongs to; NULL = none. */
static const cifar_kind *kind_of_name(const char *name) {
    if (batch_number(name) || !strcmp(name, "test_batch.bin")) return &cifar_10;
    if (!strcmp(name, "train.bin") || !strcmp(name, "test.bin")) return &cifar_100;
    return NULL;
}

static bool is_text_name(const char *name) {
    return !strcmp(name, cifar_10.names_file[0]) || !strcmp(name, cifar_100.names_file[0]) ||
           !strcmp(name, cifar_100.names_file[1]);
}

static bool is_cifar_file(const char *name, unsigned char type) {
    (void)type;
    return kind_of_name(name) || is_text_name(name);
}

static bool is_batch_file(const char *name, unsigned char type) {
    (void)type;
    return kind_of_name(name) != NULL;
}

/* The folder that holds the files: `path` or the one inside it that the archives unpack to; NULL
 * where there is none, or no memory. */
static char *find_folder(const char *path) {
    static const char *const inside[] = {"", "cifar-10-batches-bin", "cifar-100-binary"};
    for (size_t i = 0; i < 3; i++) {
        char *folder;
        ff_names names;
        if ((i ? ff_path_join(&folder, path, inside[i], NULL)
               : ff_copy_string(&folder, path, NULL)) != FF_OK)
            return NULL;
        bool found = false;
        if (ff_names_read(&names, folder, is_batch_file, NULL) == FF_OK) {
            found = names.count > 0;
            ff_names_free(&names);
        }
        if (found) return folder;
        free(folder);
    }
    return NULL;
}

static bool archive_has_batches(const char *path) {
    ff_archive *archive;
    if (ff_archive_open(&archive, path, NULL) != FF_OK) return false;
    const char *name = NULL;
    uint64_t bytes;
    bool found = false;
    for (int i = 0; i < 16 && !found; i++) {
        if (ff_archive_next(archive, &name, &bytes, NULL) != FF_OK || !name) break;
        found = kind_of_name(ff_path_base(name)) || is_text_name(ff_path_base(name));
    }
    ff_archive_close(&archive);
    return found;
}

static bool looks_like_tar(const unsigned char *head, size_t head_bytes) {
    return head_bytes == 512 && !memcmp(head + 257, "ustar", 5);
}

/* Tar headers compressed with something else than gzip. */
static bool looks_compressed(const unsigned char *head, size_t head_bytes) {
    return head_bytes > 6 && (!memcmp(head, "\x28\xb5\x2f\xfd", 4) || !memcmp(head, "BZh", 3) ||
                              !memcmp(head,
                                      "\xfd"
                                      "7zXZ",
                                      5));
}

static const cifar_kind *kind_of_size(uint64_t bytes) {
    if (bytes && bytes % (PIXEL_BYTES + 1) == 0) return &cifar_10;
    if (bytes && bytes % (PIXEL_BYTES + 2) == 0) return &cifar_100;
    return NULL;
}

static bool cifar_detect(const char *path, const unsigned char *head, size_t head_bytes) {
    if (!head) {
        char *folder = find_folder(path);
        free(folder);
        return folder != NULL;
    }
    if (looks_like_tar(head, head_bytes) || looks_compressed(head, head_bytes))
        return archive_has_batches(path);
    if (kind_of_name(ff_path_base(path))) return true;
    /* No magic: what is left is the size, a name *.bin, and a label that can be one. */
    size_t length = strlen(path);
    struct stat info;
    return length > 4 && !strcmp(path + length - 4, ".bin") && stat(path, &info) == 0 &&
           kind_of_size((uint64_t)info.st_size) && head[0] < 100;
}

/* ---- finding the files --------------------------------------------------------------------- */

static ff_status add_batch(cifar *found, const char *name, const cifar_kind *kind, uint32_t part,
                           uint64_t offset, uint64_t bytes, ff_error *error) {
    if (found->kind && found->kind != kind)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: holds files of both CIFAR-10 and CIFAR-100 (%s and %s), wanted one",
                       found->place, found->batch[0].name, name);
    for (size_t i = 0; i < found->batch_count; i++)
        if (!strcmp(found->batch[i].name, name))
            return ff_fail(error, FF_BAD_DATA, "%s: holds %s twice", found->place, name);
    if (found->batch_count == BATCHES_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "%s: more than %d files of records", found->place,
                       BATCHES_LIMIT);
    found->kind = kind;
    cifar_batch *batch = &found->batch[found->batch_count++];
    *batch = (cifar_batch){.part = part, .offset = offset, .bytes = bytes};
    snprintf(batch->name, sizeof batch->name, "%s", name);
    batch->test = !strcmp(name, "test_batch.bin") || !strcmp(name, "test.bin");
    return FF_OK;
}

/* Keeps the text of a names file; which of them it is decides its place. */
static ff_status add_text(cifar *found, const char *name, char *text, const char *path,
                          ff_error *error) {
    int which = !strcmp(name, cifar_100.names_file[1]);
    free(found->text[which]);
    free(found->text_path[which]);
    found->text[which] = text;
    found->text_path[which] = NULL;
    return ff_copy_string(&found->text_path[which], path, error);
}

static ff_status add_file(cifar *found, ff_source *source, const char *path, const cifar_kind *kind,
                          ff_error *error) {
    int fd;
    uint64_t bytes;
    uint32_t part;
    FF_TRY(ff_disk_open(path, &fd, &bytes, error));
    FF_TRY(ff_source_add_part(source, path, fd, &part, error));
    if (!kind) kind = kind_of_size(bytes);
    if (!kind)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: has %" PRIu64 " bytes, wanted a multiple of %d (CIFAR-10) or %d "
                       "(CIFAR-100)",
                       path, bytes, PIXEL_BYTES + 1, PIXEL_BYTES + 2);
    return add_batch(found, ff_path_base(path), kind, part, 0, bytes, error);
}

static ff_status find_in_folder(cifar *found, ff_source *source, const char *folder, bool batches,
                                ff_error *error) {
    ff_names names;
    FF_TRY(ff_names_read(&names, folder, is_cifar_file, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        const char *name = ff_names_at(&names, i);
        char *path, *text;
        status = ff_path_join(&path, folder, name, error);
        if (status != FF_OK) break;
        if (!is_text_name(name)) {
            if (batches) status = add_file(found, source, path, kind_of_name(name), error);
        } else if ((status = ff_disk_text(path, &text, error)) == FF_OK) {
            status = add_text(found, name, text, path, error);
        }
        free(path);
    }
    ff_names_free(&names);
    return status;
}

static ff_status read_text_member(cifar *found, ff_archive *archive, const char *member,
                                  ff_error *error) {
    char *text;
    size_t got;
    FF_TRY(ff_alloc(&text, TEXT_BYTES, 1, "a list of names", error));
    ff_status status = ff_archive_read(archive, text, TEXT_BYTES - 1, &got, error);
    if (status == FF_OK && (got == TEXT_BYTES - 1 || memchr(text, 0, got)))
        status =
            ff_fail(error, FF_BAD_DATA, "%s: %s is no short list of names", found->place, member);
    if (status != FF_OK) {
        free(text);
        return status;
    }
    char path[512];
    snprintf(path, sizeof path, "%s: %s", ff_path_base(found->place), member);
    return add_text(found, ff_path_base(member), text, path, error);
}

/* Unpacks the files of records one behind the other into temporary space, in one pass. */
static ff_status find_in_archive(cifar *found, ff_source *source, ff_archive *archive, char *chunk,
                                 ff_error *error) {
    int fd;
    uint32_t part;
    FF_TRY(ff_disk_temporary(source->temporary, &fd, error));
    FF_TRY(ff_source_add_part(source, source->path, fd, &part, error));
    uint64_t end = 0;
    for (;;) {
        const char *member;
        uint64_t bytes;
        FF_TRY(ff_archive_next(archive, &member, &bytes, error));
        if (!member) return FF_OK;
        char name[256];
        snprintf(name, sizeof name, "%s", ff_path_base(member));
        if (is_text_name(name)) {
            FF_TRY(read_text_member(found, archive, name, error));
            continue;
        }
        const cifar_kind *kind = kind_of_name(name);
        if (!kind) continue;
        if (bytes > MEMBER_LIMIT_BYTES)
            return ff_fail(error, FF_BAD_DATA, "%s: %s has %" PRIu64 " bytes, more than %" PRIu64,
                           source->path, name, bytes, MEMBER_LIMIT_BYTES);
        uint64_t begin = end;
        for (size_t got = CHUNK_BYTES; got == CHUNK_BYTES; end += got) {
            FF_TRY(ff_archive_read(archive, chunk, CHUNK_BYTES, &got, error));
            FF_TRY(ff_disk_write_at(fd, chunk, got, end, error));
        }
        FF_TRY(add_batch(found, name, kind, part, begin, end - begin, error));
    }
}

static ff_status find_batches(cifar *found, ff_source *source, ff_error *error) {
    struct stat info;
    if (stat(source->path, &info) < 0) return ff_fail_errno(error, "%s: cannot open", source->path);
    if (S_ISDIR(info.st_mode)) {
        char *folder = find_folder(source->path);
        if (!folder)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: holds neither data_batch_N.bin and test_batch.bin (CIFAR-10) nor "
                           "train.bin and test.bin (CIFAR-100)",
                           source->path);
        ff_status status = find_in_folder(found, source, folder, true, error);
        free(folder);
        return status;
    }
    ff_archive *archive;
    if (ff_archive_open(&archive, source->path, error) == FF_OK) {
        const char *base = ff_path_base(source->path);
        size_t length = strlen(base);
        bool records = length > 4 && !strcmp(base + length - 4, ".bin");
        char *chunk = NULL;
        ff_status status = FF_OK;
        if (!records) {
            status = ff_alloc(&chunk, CHUNK_BYTES, 1, "unpacking", error);
            if (status == FF_OK) status = find_in_archive(found, source, archive, chunk, error);
        }
        free(chunk);
        ff_archive_close(&archive);
        if (!records) return status;
    }
    FF_TRY(add_file(found, source, source->path, kind_of_name(ff_path_base(source->path)), error));
    char *folder;
    FF_TRY(ff_format(&folder, error, "%.*s", (int)(ff_path_base(source->path) - source->path),
                     source->path));
    ff_status status = find_in_folder(found, source, *folder ? folder : ".", false, error);
    free(folder);
    return status;
}

/* ---- listing ------------------------------------------------------------------------------- */

static int compare_batches(const void *a, const void *b) {
    const cifar_batch *first = a, *second = b;
    if (first->test != second->test) return first->test - second->test;
    return (int)batch_number(first->name) - (int)batch_number(second->name);
}

static ff_status check_batches(cifar *found, ff_error *error) {
    if (!found->batch_count)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: holds neither data_batch_N.bin and test_batch.bin (CIFAR-10) nor "
                       "train.bin and test.bin (CIFAR-100)",
                       found->place);
    qsort(found->batch, found->batch_count, sizeof found->batch[0], compare_batches);
    uint64_t record = PIXEL_BYTES + found->kind->label_bytes;
    for (size_t i = 0; i < found->batch_count; i++) {
        const cifar_batch *batch = &found->batch[i];
        unsigned number = batch_number(batch->name);
        if (number && number != i + 1 && found->batch_count > 1)
            return ff_fail(error, FF_BAD_DATA, "%s: data_batch_%zu.bin is missing, but %s is there",
                           found->place, i + 1, batch->name);
        if (!batch->bytes || batch->bytes % record)
            return ff_fail(error, FF_BAD_DATA,
                           "%s: %s has %" PRIu64 " bytes, wanted a multiple of %" PRIu64
                           ", the size of a %s record",
                           found->place, batch->name, batch->bytes, record, found->kind->name);
    }
    return FF_OK;
}

static ff_status add_fields(cifar *found, ff_source *source, ff_error *error) {
    const cifar_kind *kind = found->kind;
    bool fine = kind == &cifar_100;
    FF_TRY(ff_metadata_add_field(&source->labels, fine ? "fine" : "label", FF_FIELD_CLASS, FF_I32,
                                 1, error));
    if (fine)
        FF_TRY(ff_metadata_add_field(&source->labels, "coarse", FF_FIELD_CLASS, FF_I32, 1, error));
    for (uint32_t byte = 0; byte < kind->label_bytes; byte++) {
        size_t field = fine ? 1 - byte : 0; /* the record has coarse before fine */
        if (found->text[byte] && source->classes && field == 0)
            return ff_fail(error, FF_USAGE, "--classes: %s names the classes already",
                           found->text_path[byte]);
        if (found->text[byte])
            FF_TRY(ff_source_take_classes(source, field, found->text_path[byte], found->text[byte],
                                          error));
        else if (source->classes && field == 0)
            FF_TRY(ff_source_read_classes(source, field, source->classes, error));
    }
    return FF_OK;
}

static ff_status list_batch(const cifar *found, ff_source *source, const cifar_batch *batch,
                            ff_listing *listing, ff_error *error) {
    const cifar_kind *kind = found->kind;
    const ff_source_part *part = &source->part[batch->part];
    uint64_t record = PIXEL_BYTES + kind->label_bytes;
    for (uint64_t i = 0; i < batch->bytes / record; i++) {
        unsigned char byte[2];
        int32_t label[2];
        FF_TRY(ff_disk_read_at(part->fd, part->path, byte, kind->label_bytes,
                               batch->offset + i * record, error));
        for (uint32_t k = 0; k < kind->label_bytes; k++) {
            size_t field = kind->label_bytes - 1 - k;
            uint32_t limit = source->labels.field[field].class_count;
            if (!limit) limit = kind->class_limit[k];
            if (byte[k] >= limit)
                return ff_fail(error, FF_BAD_DATA,
                               "%s: %s: label %u at byte %" PRIu64 ", wanted 0 to %u", found->place,
                               batch->name, byte[k], i * record + k, limit - 1);
            label[field] = byte[k];
        }
        char key[300];
        int key_bytes = snprintf(key, sizeof key, "%s:%" PRIu64, batch->name, i);
        ff_item item = {.part = batch->part,
                        .offset = batch->offset + i * record,
                        .bytes = record,
                        .key = key,
                        .key_bytes = (size_t)key_bytes,
                        .labels = label};
        FF_TRY(ff_listing_add(listing, &item, error));
    }
    return FF_OK;
}

static ff_status list_found(cifar *found, ff_source *source, ff_error *error) {
    FF_TRY(ff_copy_string(&found->place, source->path, error));
    FF_TRY(find_batches(found, source, error));
    FF_TRY(check_batches(found, error));
    source->kind = found->kind->recorded;
    source->raw = (ff_source_raw){.offset = found->kind->label_bytes,
                                  .channels = 3,
                                  .height = 32,
                                  .width = 32,
                                  .layout = FF_CHW};
    FF_TRY(add_fields(found, source, error));
    bool alone = found->batch[0].test == found->batch[found->batch_count - 1].test;
    ff_source_split *split = NULL;
    for (size_t i = 0; i < found->batch_count; i++) {
        const cifar_batch *batch = &found->batch[i];
        if (i == 0 || (batch->test && !found->batch[i - 1].test))
            FF_TRY(ff_source_add_split(source,
                                       alone         ? ""
                                       : batch->test ? "test"
                                                     : "train",
                                       &split, error));
        FF_TRY(list_batch(found, source, batch, split->listing, error));
    }
    return FF_OK;
}

static ff_status cifar_list(ff_source *source, ff_error *error) {
    cifar *found;
    FF_TRY(ff_alloc(&found, 1, sizeof *found, "CIFAR files", error));
    ff_status status = list_found(found, source, error);
    for (int i = 0; i < 2; i++) {
        free(found->text[i]);
        free(found->text_path[i]);
    }
    free(found->place);
    free(found);
    return status;
}

extern const ff_source_format ff_source_cifar;
const ff_source_format ff_source_cifar = {
    .name = "cifar",
    .wanted = "CIFAR-10 or CIFAR-100, binary version: a .bin file, a folder or a .tar.gz of them",
    .detect = cifar_detect,
    .list = cifar_list,
};
