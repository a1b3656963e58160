#include "tools/ffpack/source/imagenet/labels.h"

#include "format/base/path.h"
#include "format/base/read.h"
#include "format/base/text.h"
#include "tools/ffpack/source/archive/archive.h"
#include "tools/ffpack/source/imagenet/matlab.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ID_LIMIT = 100000 };
#define FILE_LIMIT_BYTES (UINT64_C(64) << 20)
static const char truth_name[] = "ILSVRC2012_validation_ground_truth.txt";
static const char meta_name[] = "meta.mat";

bool ff_is_wnid(const char *text) {
    return text[0] == 'n' && strspn(text + 1, "0123456789") == FF_WNID_BYTES - 1;
}

/* ---- the devkit ---------------------------------------------------------------------------- */

typedef struct devkit {
    ff_buffer truth;                 /* the ground truth's text */
    ff_buffer meta;                  /* meta.mat */
    char (*wnid)[FF_WNID_BYTES + 1]; /* [ID_LIMIT] by id; "" = no such leaf */
} devkit;

static ff_status read_member(ff_archive *archive, const ff_archive_member *member, ff_buffer *all,
                             ff_error *error) {
    ff_buffer_free(all);
    if (member->bytes > FILE_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s has %" PRIu64 " bytes, more than %" PRIu64,
                       member->name, member->bytes, FILE_LIMIT_BYTES);
    FF_TRY(ff_alloc(&all->bytes, member->bytes + 1, 1, "the devkit", error));
    return ff_archive_read(archive, all->bytes, member->bytes, &all->length, error);
}

static ff_status read_devkit_archive(devkit *kit, const char *path, ff_error *error) {
    ff_archive *archive;
    FF_TRY(ff_archive_open(&archive, path, false, error));
    ff_status status = FF_OK;
    while (status == FF_OK) {
        ff_archive_member member;
        status = ff_archive_next(archive, &member, error);
        if (status != FF_OK || !member.name) break;
        const char *base = ff_path_base(member.name);
        if (member.kind != FF_ARCHIVE_FILE) continue;
        if (!strcmp(base, truth_name)) status = read_member(archive, &member, &kit->truth, error);
        if (!strcmp(base, meta_name)) status = read_member(archive, &member, &kit->meta, error);
    }
    ff_archive_close(&archive);
    return status;
}

/* The two files are in the folder itself, or in its folder data. */
static ff_status read_devkit_folder(devkit *kit, const char *path, ff_error *error) {
    char *inside, *truth = NULL, *meta = NULL;
    struct stat info;
    FF_TRY(ff_path_join(&inside, path, "data", error));
    bool data = stat(inside, &info) == 0 && S_ISDIR(info.st_mode);
    ff_status status;
    FF_TRY_DONE(ff_path_join(&truth, data ? inside : path, truth_name, error));
    FF_TRY_DONE(ff_path_join(&meta, data ? inside : path, meta_name, error));
    FF_TRY_DONE(ff_read_whole(&kit->truth, truth, FILE_LIMIT_BYTES, error));
    FF_TRY_DONE(ff_read_whole(&kit->meta, meta, FILE_LIMIT_BYTES, error));
done:
    free(inside);
    free(truth);
    free(meta);
    return status;
}

/* Leaves only: the classes of images have no children (torchvision's parse_meta_mat). */
static ff_status take_synset(void *context, const ff_matlab_value *value, ff_error *error) {
    devkit *kit = context;
    (void)error;
    double id = value[0].number;
    if (value[0].is_number && value[1].is_text && value[2].is_number && value[2].number == 0 &&
        id >= 1 && id < ID_LIMIT && ff_is_wnid(value[1].text))
        memcpy(kit->wnid[(size_t)id], value[1].text, FF_WNID_BYTES);
    return FF_OK;
}

static ff_status take_devkit(ff_imagenet_labels *labels, devkit *kit, ff_error *error) {
    static const char *const fields[] = {"ILSVRC2012_ID", "WNID", "num_children"};
    if (!kit->truth.bytes || !kit->meta.bytes)
        return ff_fail(error, FF_BAD_DATA, "%s: holds no %s, wanted ImageNet's devkit",
                       labels->path, kit->truth.bytes ? meta_name : truth_name);
    FF_TRY(ff_alloc(&kit->wnid, ID_LIMIT, sizeof *kit->wnid, "the devkit", error));
    FF_TRY(ff_matlab_struct((const uint8_t *)kit->meta.bytes, kit->meta.length, labels->path,
                            "synsets", fields, 3, take_synset, kit, error));
    char *cursor = kit->truth.bytes, *line;
    for (size_t number = 1; (line = ff_text_line(&cursor)); number++) {
        char *end;
        unsigned long id = strtoul(line, &end, 10);
        if (!*line && !*cursor) break;
        if (end == line || *end || id >= ID_LIMIT || !kit->wnid[id][0])
            return ff_fail(error, FF_BAD_DATA,
                           "%s: %s, line %zu: '%.40s' is not a class of meta.mat", labels->path,
                           truth_name, number, line);
        FF_TRY(ff_names_add(&labels->wnid, kit->wnid[id], FF_WNID_BYTES, error));
    }
    return FF_OK;
}

/* ---- texts --------------------------------------------------------------------------------- */

/* The image's name without folders and extension. */
static size_t stem(const char **name, size_t bytes) {
    const char *slash = memrchr(*name, '/', bytes);
    if (slash) {
        bytes -= (size_t)(slash + 1 - *name);
        *name = slash + 1;
    }
    const char *dot = memchr(*name, '.', bytes);
    return dot ? (size_t)(dot - *name) : bytes;
}

static ff_status take_line(ff_imagenet_labels *labels, const char *line, size_t number,
                           ff_error *error) {
    size_t first = strcspn(line, " \t,");
    const char *second = line + first + strspn(line + first, " \t,\"");
    if (ff_is_wnid(line) && !labels->name.count)
        return ff_names_add(&labels->wnid, line, FF_WNID_BYTES, error);
    if (!ff_is_wnid(second)) {
        if (number == 1) labels->header = true;
        if (number == 1) return FF_OK;
        return ff_fail(error, FF_BAD_DATA,
                       "%s: line %zu is '%.60s', wanted a wnid (n and 8 digits), or an image's "
                       "name and a wnid",
                       labels->path, number, line);
    }
    if (labels->wnid.count != labels->name.count)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: line %zu has an image's name, the lines before have none", labels->path,
                       number);
    const char *name = line;
    size_t bytes = stem(&name, first);
    FF_TRY(ff_names_add(&labels->name, name, bytes, error));
    return ff_names_add(&labels->wnid, second, FF_WNID_BYTES, error);
}

static int compare_lines(const void *a, const void *b, void *names) {
    return strcmp(ff_names_at(names, *(const size_t *)a), ff_names_at(names, *(const size_t *)b));
}

static ff_status take_text(ff_imagenet_labels *labels, char *text, ff_error *error) {
    char *cursor = text, *line;
    for (size_t number = 1; (line = ff_text_line(&cursor)); number++)
        if (*line || *cursor) FF_TRY(take_line(labels, line, number, error));
    ff_names *names = &labels->name;
    if (!names->count && labels->header && labels->wnid.count)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: line 1 is not a wnid (n and 8 digits), unlike the other lines",
                       labels->path);
    if (!names->count) return FF_OK;
    FF_TRY(ff_alloc(&labels->by_name, names->count, sizeof *labels->by_name, "labels", error));
    for (size_t i = 0; i < names->count; i++) labels->by_name[i] = i;
    qsort_r(labels->by_name, names->count, sizeof *labels->by_name, compare_lines, names);
    return FF_OK;
}

/* ---- the map ------------------------------------------------------------------------------- */

static ff_status read_any(ff_imagenet_labels *labels, devkit *kit, ff_error *error) {
    struct stat info;
    const char *path = labels->path;
    if (stat(path, &info) < 0) return ff_fail_errno(error, "%s: cannot open", path);
    if (S_ISDIR(info.st_mode)) {
        FF_TRY(read_devkit_folder(kit, path, error));
        return take_devkit(labels, kit, error);
    }
    int fd;
    unsigned char head[512];
    uint64_t bytes;
    FF_TRY(ff_open_file(path, &fd, &bytes, error));
    size_t head_bytes = bytes < sizeof head ? (size_t)bytes : sizeof head;
    ff_status status = ff_read_at(fd, path, head, head_bytes, 0, error);
    ff_close_file(&fd);
    FF_TRY(status);
    if (ff_archive_looks_like(head, head_bytes)) {
        FF_TRY(read_devkit_archive(kit, path, error));
        return take_devkit(labels, kit, error);
    }
    char *text;
    FF_TRY(ff_text_read(path, &text, error));
    status = take_text(labels, text, error);
    free(text);
    return status;
}

ff_status ff_imagenet_labels_read(ff_imagenet_labels *labels, const char *path, ff_error *error) {
    *labels = (ff_imagenet_labels){0};
    devkit kit = {0};
    ff_status status = ff_copy_string(&labels->path, path, error);
    if (status == FF_OK) status = read_any(labels, &kit, error);
    if (status == FF_OK && !labels->wnid.count)
        status = ff_fail(error, FF_BAD_DATA, "%s: has no line, wanted one wnid per image", path);
    ff_buffer_free(&kit.truth);
    ff_buffer_free(&kit.meta);
    free(kit.wnid);
    return status;
}

/* The number in ILSVRC2012_val_00000003, from 1 on; 0 = none. */
static uint64_t number_of(const char *name) {
    static const char begin[] = "ILSVRC2012_val_";
    size_t bytes = stem(&name, strlen(name)), known = sizeof begin - 1;
    int64_t number;
    if (bytes <= known || strncmp(name, begin, known) != 0) return 0;
    return ff_text_whole(name + known, bytes - known, &number) > 0 && number > 0 ? (uint64_t)number
                                                                                 : 0;
}

/* Lines without names. */
static ff_status find_by_number(const ff_imagenet_labels *labels, const char *name, uint64_t rank,
                                uint64_t count, const char **wnid, ff_error *error) {
    uint64_t number = number_of(name), lines = labels->wnid.count;
    if (number ? number > lines : count > lines)
        return ff_fail(error, FF_BAD_DATA, "%s: has %zu lines, but there are more images (%s)",
                       labels->path, labels->wnid.count, name);
    if (!number && count < lines)
        return ff_fail(
            error, FF_BAD_DATA,
            "%s: has %zu lines for %" PRIu64
            " images, and %s has no number like ILSVRC2012_val_00000001; wanted a line for "
            "each, or lines with the images' names",
            labels->path, labels->wnid.count, count, name);
    *wnid = ff_names_at(&labels->wnid, number ? number - 1 : rank);
    return FF_OK;
}

ff_status ff_imagenet_labels_find(const ff_imagenet_labels *labels, const char *name, uint64_t rank,
                                  uint64_t count, const char **wnid, ff_error *error) {
    if (!labels->name.count) return find_by_number(labels, name, rank, count, wnid, error);
    size_t low = 0, high = labels->name.count, bytes = stem(&name, strlen(name));
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *here = ff_names_at(&labels->name, labels->by_name[middle]);
        int order = strncmp(here, name, bytes);
        if (!order && here[bytes]) order = 1;
        if (!order) {
            *wnid = ff_names_at(&labels->wnid, labels->by_name[middle]);
            return FF_OK;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return ff_fail(error, FF_BAD_DATA, "%s: has no line for the image %s", labels->path, name);
}

void ff_imagenet_labels_free(ff_imagenet_labels *labels) {
    free(labels->path);
    ff_names_free(&labels->wnid);
    ff_names_free(&labels->name);
    free(labels->by_name);
    *labels = (ff_imagenet_labels){0};
}
