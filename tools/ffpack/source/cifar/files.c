#include "tools/ffpack/source/cifar/files.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/base/text.h"
#include "format/cli/interrupt.h"
#include "tools/ffpack/source/archive/archive.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CHUNK_BYTES = 256 * 1024, TEXT_BYTES = 1 << 20 };
#define MEMBER_LIMIT_BYTES (UINT64_C(16) << 30)

const ff_cifar_kind ff_cifar_10 = {.name = "CIFAR-10",
                                   .recorded = "cifar-10-binary",
                                   .label_count = 1,
                                   .class_limit = {10},
                                   .names_file = {"batches.meta.txt"}};
const ff_cifar_kind ff_cifar_100 = {
    .name = "CIFAR-100",
    .recorded = "cifar-100-binary",
    .hundred = true,
    .label_count = 2,
    .class_limit = {20, 100},
    .names_file = {"coarse_label_names.txt", "fine_label_names.txt"}};
const ff_cifar_kind ff_cifar_10_python = {.name = "CIFAR-10",
                                          .recorded = "cifar-10-python",
                                          .python = true,
                                          .label_count = 1,
                                          .class_limit = {10},
                                          .meta_file = "batches.meta",
                                          .label_key = {"labels"},
                                          .name_key = {"label_names"}};
const ff_cifar_kind ff_cifar_100_python = {.name = "CIFAR-100",
                                           .recorded = "cifar-100-python",
                                           .hundred = true,
                                           .python = true,
                                           .label_count = 2,
                                           .class_limit = {20, 100},
                                           .meta_file = "meta",
                                           .label_key = {"coarse_labels", "fine_labels"},
                                           .name_key = {"coarse_label_names", "fine_label_names"}};

/* ---- names --------------------------------------------------------------------------------- */

unsigned ff_cifar_batch_number(const char *name) {
    static const char before[] = "data_batch_";
    if (strncmp(name, before, sizeof before - 1) != 0) return 0;
    char *end;
    const char *digits = name + sizeof before - 1;
    if (*digits < '1' || *digits > '9') return 0;
    unsigned long number = strtoul(digits, &end, 10);
    if (*end && strcmp(end, ".bin") != 0) return 0;
    return number < FF_CIFAR_BATCHES_LIMIT ? (unsigned)number : 0;
}

static bool is_bin_name(const char *name) {
    size_t length = strlen(name);
    return length > 4 && !strcmp(name + length - 4, ".bin");
}

/* The version to which a file of this name belongs; NULL = none. */
static const ff_cifar_kind *kind_of_name(const char *name) {
    bool python = !is_bin_name(name);
    size_t length = strlen(name) - (python ? 0 : 4);
    if (ff_cifar_batch_number(name) || (length == 10 && !strncmp(name, "test_batch", 10)))
        return python ? &ff_cifar_10_python : &ff_cifar_10;
    if ((length == 5 && !strncmp(name, "train", 5)) || (length == 4 && !strncmp(name, "test", 4)))
        return python ? &ff_cifar_100_python : &ff_cifar_100;
    return NULL;
}

static bool is_test_name(const char *name) {
    return !strncmp(name, "test", 4);
}

static bool is_text_name(const char *name) {
    return !strcmp(name, ff_cifar_10.names_file[0]) || !strcmp(name, ff_cifar_100.names_file[0]) ||
           !strcmp(name, ff_cifar_100.names_file[1]);
}

/* 0 for CIFAR-10's, 1 for CIFAR-100's, -1 for any other name. */
static int meta_of_name(const char *name) {
    return !strcmp(name, ff_cifar_10_python.meta_file)    ? 0
           : !strcmp(name, ff_cifar_100_python.meta_file) ? 1
                                                          : -1;
}

static bool is_cifar_file(const char *name, unsigned char type) {
    return type != DT_DIR && (kind_of_name(name) || is_text_name(name) || meta_of_name(name) >= 0);
}

static bool is_batch_file(const char *name, unsigned char type) {
    return type != DT_DIR && kind_of_name(name) != NULL;
}

/* The python version's names are common words, so the content decides. An unreadable file is an
 * error, so that nothing is left out silently. */
static ff_status is_pickle_file(const char *path, bool *is, ff_error *error) {
    int fd;
    unsigned char head[16];
    size_t got = 0;
    *is = false;
    ff_status status = ff_source_open_file(path, &fd, NULL, error);
    if (status == FF_OK) {
        status = ff_read_some(fd, path, head, 2, sizeof head, 0, &got, error);
        ff_close_file(&fd);
    }
    if (status == FF_OK) *is = ff_cifar_is_pickle(head, got);
    return status == FF_BAD_DATA ? FF_OK : status; /* no regular file, or too short */
}

/* Whether `folder` holds a file of records. */
static ff_status holds_batches(const char *folder, bool *found, ff_error *error) {
    ff_names names;
    *found = false;
    FF_TRY(ff_names_read(&names, folder, is_batch_file, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && !*found && status == FF_OK; i++) {
        char *path;
        *found = !kind_of_name(ff_names_at(&names, i))->python;
        if (*found) break;
        status = ff_path_join(&path, folder, ff_names_at(&names, i), error);
        if (status == FF_OK) status = is_pickle_file(path, found, error);
        free(path);
    }
    ff_names_free(&names);
    return status;
}

/* *folder = the folder with the files: `path`, or the folder in it that the archives unpack to,
 * allocated; NULL if there is none. */
static ff_status find_folder(const char *path, char **folder, ff_error *error) {
    static const char *const inside[] = {"cifar-10-batches-bin", "cifar-100-binary",
                                         "cifar-10-batches-py", "cifar-100-python"};
    bool found;
    *folder = NULL;
    FF_TRY(holds_batches(path, &found, error));
    if (found) return ff_copy_string(folder, path, error);
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        FF_TRY(ff_path_join(folder, path, inside[i], error));
        struct stat info;
        ff_status status = FF_OK;
        found = false;
        bool there = stat(*folder, &info) == 0;
        if (there && S_ISDIR(info.st_mode))
            status = holds_batches(*folder, &found, error);
        else if (!there && errno != ENOENT)
            status = ff_fail_errno(error, "%s: cannot stat", *folder);
        if (found) return FF_OK;
        free(*folder);
        *folder = NULL;
        FF_TRY(status);
    }
    return FF_OK;
}

static bool is_cifar_member(const char *base) {
    return kind_of_name(base) != NULL;
}

static const ff_cifar_kind *kind_of_size(uint64_t bytes) {
    if (bytes && bytes % (FF_CIFAR_PIXEL_BYTES + 1) == 0) return &ff_cifar_10;
    if (bytes && bytes % (FF_CIFAR_PIXEL_BYTES + 2) == 0) return &ff_cifar_100;
    return NULL;
}

bool ff_cifar_detect(const char *path, const unsigned char *head, size_t head_bytes,
                     ff_error *error) {
    if (!head) {
        char *folder;
        bool found = find_folder(path, &folder, error) == FF_OK && folder;
        if (found) free(folder);
        return found;
    }
    if (ff_archive_looks_like(head, head_bytes))
        return ff_archive_holds(path, is_cifar_member, error);
    if (ff_cifar_is_pickle(head, head_bytes)) return true;
    const ff_cifar_kind *kind = kind_of_name(ff_path_base(path));
    if (kind && !kind->python) return true;
    /* There is no magic: check the size, a name *.bin, and a valid label. */
    struct stat info;
    return is_bin_name(path) && stat(path, &info) == 0 && kind_of_size((uint64_t)info.st_size) &&
           head[0] < 100;
}

/* ---- finding the files --------------------------------------------------------------------- */

static ff_status add_batch(ff_cifar *found, const char *name, const ff_cifar_kind *kind,
                           uint32_t part, uint64_t offset, uint64_t bytes, ff_error *error) {
    if (found->kind && found->kind != kind)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: holds files of both %s and %s (%s and %s), wanted one", found->place,
                       found->kind->recorded, kind->recorded, found->batch[0].name, name);
    for (size_t i = 0; i < found->batch_count; i++)
        if (!strcmp(found->batch[i].name, name))
            return ff_fail(error, FF_BAD_DATA, "%s: holds %s twice", found->place, name);
    if (found->batch_count == FF_CIFAR_BATCHES_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "%s: more than %d files of records", found->place,
                       FF_CIFAR_BATCHES_LIMIT);
    found->kind = kind;
    ff_cifar_batch *batch = &found->batch[found->batch_count++];
    *batch = (ff_cifar_batch){.part = part, .offset = offset, .bytes = bytes};
    snprintf(batch->name, sizeof batch->name, "%s", name);
    batch->test = is_test_name(name);
    return FF_OK;
}

static void add_meta(ff_cifar *found, const char *name, uint32_t part, uint64_t offset,
                     uint64_t bytes) {
    ff_cifar_batch *meta = &found->meta[meta_of_name(name)];
    *meta = (ff_cifar_batch){.part = part, .offset = offset, .bytes = bytes};
    snprintf(meta->name, sizeof meta->name, "%s", name);
}

/* Keeps the text of a names file, at the index of that file. */
static ff_status add_text(ff_cifar *found, const char *name, char *text, const char *path,
                          ff_error *error) {
    int which = !strcmp(name, ff_cifar_100.names_file[1]);
    free(found->text[which]);
    free(found->text_path[which]);
    found->text[which] = text;
    found->text_path[which] = NULL;
    return ff_copy_string(&found->text_path[which], path, error);
}

/* A file of records, a pickle of them, or a meta file. kind NULL: by content. */
static ff_status add_file(ff_cifar *found, ff_source *source, const char *path,
                          const ff_cifar_kind *kind, ff_error *error) {
    int fd;
    uint64_t bytes;
    uint32_t part;
    const char *name = ff_path_base(path);
    FF_TRY(ff_open_file(path, &fd, &bytes, error));
    FF_TRY(ff_source_add_part(source, path, fd, &part, error));
    if (meta_of_name(name) >= 0) {
        add_meta(found, name, part, 0, bytes);
        return FF_OK;
    }
    bool pickle = false;
    if (!kind) FF_TRY(is_pickle_file(path, &pickle, error));
    if (pickle) {
        ff_cifar_batch batch = {.part = part, .bytes = bytes};
        FF_TRY(ff_cifar_python_kind(source, &batch, &kind, error));
    }
    if (!kind) kind = kind_of_size(bytes);
    if (!kind)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: has %" PRIu64 " bytes, wanted a multiple of %d (CIFAR-10) or %d "
                       "(CIFAR-100)",
                       path, bytes, FF_CIFAR_PIXEL_BYTES + 1, FF_CIFAR_PIXEL_BYTES + 2);
    return add_batch(found, name, kind, part, 0, bytes, error);
}

static ff_status find_in_folder(ff_cifar *found, ff_source *source, const char *folder,
                                bool batches, ff_error *error) {
    ff_names names;
    FF_TRY(ff_names_read(&names, folder, is_cifar_file, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        const char *name = ff_names_at(&names, i);
        char *path, *text;
        status = ff_path_join(&path, folder, name, error);
        if (status != FF_OK) break;
        const ff_cifar_kind *kind = kind_of_name(name);
        if (!is_text_name(name)) {
            bool wanted = !kind || batches;
            if (wanted && (!kind || kind->python)) status = is_pickle_file(path, &wanted, error);
            if (wanted && status == FF_OK) status = add_file(found, source, path, kind, error);
        } else if ((status = ff_text_read(path, &text, error)) == FF_OK) {
            status = add_text(found, name, text, path, error);
        }
        free(path);
    }
    ff_names_free(&names);
    return status;
}

static ff_status read_text_member(ff_cifar *found, ff_archive *archive, const char *member,
                                  ff_error *error) {
    char *text, *path = NULL;
    size_t got;
    FF_TRY(ff_alloc(&text, TEXT_BYTES, 1, "a list of names", error));
    ff_status status;
    FF_TRY_DONE(ff_archive_read(archive, text, TEXT_BYTES - 1, &got, error));
    if (got == TEXT_BYTES - 1 || memchr(text, 0, got))
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA, "%s: %s is not a short list of names", found->place,
                            member));
    FF_TRY_DONE(ff_format(&path, error, "%s: %s", ff_path_base(found->place), member));
    status = add_text(found, ff_path_base(member), text, path, error);
    text = NULL; /* add_text's */
done:
    free(text);
    free(path);
    return status;
}

/* Unpacks the files of records one after the other into temporary space, in one pass. */
static ff_status unpack(ff_cifar *found, ff_source *source, ff_archive *archive, char *chunk,
                        ff_error *error) {
    int fd;
    uint32_t part;
    FF_TRY(ff_open_temporary(source->temporary, &fd, error));
    FF_TRY(ff_source_add_part(source, source->path, fd, &part, error));
    uint64_t end = 0;
    for (;;) {
        ff_archive_member member;
        FF_TRY(ff_archive_next(archive, &member, error));
        if (!member.name) return FF_OK;
        if (member.kind != FF_ARCHIVE_FILE) continue;
        uint64_t bytes = member.bytes, begin = end;
        char name[256];
        snprintf(name, sizeof name, "%s", ff_path_base(member.name));
        if (is_text_name(name)) {
            FF_TRY(read_text_member(found, archive, name, error));
            continue;
        }
        const ff_cifar_kind *kind = kind_of_name(name);
        bool meta = meta_of_name(name) >= 0;
        if (!kind && !meta) continue;
        if (bytes > MEMBER_LIMIT_BYTES)
            return ff_fail(error, FF_BAD_DATA, "%s: %s has %" PRIu64 " bytes, more than %" PRIu64,
                           source->path, name, bytes, MEMBER_LIMIT_BYTES);
        for (size_t got = CHUNK_BYTES; got == CHUNK_BYTES; end += got) {
            FF_TRY(ff_interrupt_check(error));
            FF_TRY(ff_archive_read(archive, chunk, CHUNK_BYTES, &got, error));
            FF_TRY(ff_write_temporary(fd, source->temporary, chunk, got, end, error));
        }
        if (meta)
            add_meta(found, name, part, begin, end - begin);
        else
            FF_TRY(add_batch(found, name, kind, part, begin, end - begin, error));
    }
}

static ff_status find_in_archive(ff_cifar *found, ff_source *source, ff_error *error) {
    ff_archive *archive;
    char *chunk = NULL;
    FF_TRY(ff_archive_open(&archive, source->path, false, error));
    ff_status status;
    FF_TRY_DONE(ff_alloc(&chunk, CHUNK_BYTES, 1, "unpacking", error));
    FF_TRY_DONE(unpack(found, source, archive, chunk, error));
done:
    free(chunk);
    ff_archive_close(&archive);
    return status;
}

static ff_status nothing_found(const char *path, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "%s: holds neither data_batch_N.bin and test_batch.bin (CIFAR-10) nor train.bin "
                   "and test.bin (CIFAR-100), nor the python version's files with these names "
                   "without .bin",
                   path);
}

static ff_status find_files(ff_cifar *found, ff_source *source, ff_error *error) {
    bool in_folder;
    char *folder;
    FF_TRY(ff_source_is_folder(source->path, &in_folder, error));
    if (in_folder) {
        FF_TRY(find_folder(source->path, &folder, error));
        if (!folder) return nothing_found(source->path, error);
        ff_status status = find_in_folder(found, source, folder, true, error);
        free(folder);
        return status;
    }
    const char *base = ff_path_base(source->path);
    bool bin = is_bin_name(base), pickle = false;
    if (!bin) FF_TRY(is_pickle_file(source->path, &pickle, error));
    if (!bin && !pickle) return find_in_archive(found, source, error);
    if (source->elsewhere)
        return ff_fail(error, FF_USAGE,
                       "%s: a file of CIFAR has the classes' names next to it, on this machine; "
                       "wanted the archive, as in cifar-10-binary.tar.gz",
                       source->path);
    FF_TRY(add_file(found, source, source->path, bin ? kind_of_name(base) : NULL, error));
    FF_TRY(ff_format(&folder, error, "%.*s", (int)(base - source->path), source->path));
    ff_status status = find_in_folder(found, source, *folder ? folder : ".", false, error);
    free(folder);
    return status;
}

ff_status ff_cifar_find(ff_cifar *found, ff_source *source, ff_error *error) {
    FF_TRY(ff_copy_string(&found->place, source->path, error));
    FF_TRY(find_files(found, source, error));
    if (found->batch_count) return FF_OK;
    return nothing_found(source->path, error);
}

void ff_cifar_free(ff_cifar *found) {
    for (int i = 0; i < 2; i++) {
        free(found->text[i]);
        free(found->text_path[i]);
    }
    for (size_t i = 0; i < found->batch_count; i++) free(found->batch[i].labels);
    free(found->place);
    *found = (ff_cifar){0};
}
