/* IDX, the format of the MNIST family: big-endian magic 00 00 TYPE NDIM, NDIM sizes of 4 bytes,
 * then the data, plain or gzip. Images are u8 (08) in 3 dimensions, labels u8 in 1.
 * http://yann.lecun.com/exdb/mnist/ ; the files are paired by MNIST's names:
 * PREFIXimages-idx3-ubyte[.gz] with PREFIXlabels-idx1-ubyte[.gz] (also with "." for the first "-").
 * Known gaps: other types and dimensions. */
#include "tools/ffpack/source/disk.h"
#include "tools/ffpack/source/input.h"
#include "tools/ffpack/source/source.h"

#include "format/base/bytes.h"
#include "format/base/interrupt.h"
#include "format/base/thread.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ITEMS_LIMIT (UINT64_C(1) << 32)
enum { CHUNK_BYTES = 256 * 1024, SETS_LIMIT = 16 };

/* A pair of files. */
typedef struct idx_set {
    char *images, *labels;
    char split[256];
    uint32_t count, height, width;
    int fd; /* of the images, or of what was unpacked from them */
    uint64_t data_offset;
    const ff_source *source;
    ff_error error; /* of its unpacking, which runs on a thread */
} idx_set;

typedef struct idx_sets {
    size_t count;
    idx_set set[SETS_LIMIT];
} idx_sets;

/* ---- names --------------------------------------------------------------------------------- */

/* Where "images-idx3-ubyte" or "images.idx3-ubyte" begins as the end of a name, but for .gz. */
static const char *find_role(const char *name, const char *dashed, const char *dotted) {
    size_t length = strlen(name), role = strlen(dashed);
    if (length > 3 && !strcmp(name + length - 3, ".gz")) length -= 3;
    if (length < role) return NULL;
    const char *at = name + length - role;
    return !memcmp(at, dashed, role) || !memcmp(at, dotted, role) ? at : NULL;
}
static const char *images_role(const char *name) {
    return find_role(name, "images-idx3-ubyte", "images.idx3-ubyte");
}
static const char *labels_role(const char *name) {
    return find_role(name, "labels-idx1-ubyte", "labels.idx1-ubyte");
}
static bool is_images_name(const char *name, unsigned char type) {
    (void)type;
    return images_role(name) != NULL;
}

static bool idx_detect(const char *path, const unsigned char *head, size_t head_bytes) {
    if (head)
        return (head_bytes >= 4 && !head[0] && !head[1] && head[2] >= 0x08 && head[2] <= 0x0e &&
                head[3] >= 1 && head[3] <= 4) ||
               images_role(path) || labels_role(path);
    ff_names names;
    if (ff_names_read(&names, path, is_images_name, NULL) != FF_OK) return false;
    bool found = names.count > 0;
    ff_names_free(&names);
    return found;
}

/* The labels beside the images: the same name but for the role, as compressed or not. */
static ff_status find_labels(idx_set *set, ff_error *error) {
    const char *role = images_role(set->images);
    if (!role)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: its labels are found by name, so wanted a name that ends in "
                       "images-idx3-ubyte or images-idx3-ubyte.gz",
                       set->images);
    int before = (int)(role - set->images);
    char separator = role[strlen("images")];
    for (int gz = 0; gz < 2; gz++) {
        FF_TRY(ff_format(&set->labels, error, "%.*slabels%cidx1-ubyte%s", before, set->images,
                         separator, gz ? ".gz" : ""));
        if (access(set->labels, F_OK) == 0) return FF_OK;
        free(set->labels);
        set->labels = NULL;
    }
    return ff_fail(error, FF_BAD_DATA,
                   "%.*slabels%cidx1-ubyte[.gz]: missing, wanted as labels of %s", before,
                   set->images, separator, set->images);
}

static ff_status add_set(idx_sets *sets, const ff_source *source, const char *path,
                         ff_error *error) {
    if (sets->count == SETS_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "%s: more than %d image files", source->path,
                       SETS_LIMIT);
    idx_set *set = &sets->set[sets->count++];
    *set = (idx_set){.fd = -1, .source = source};
    FF_TRY(ff_copy_string(&set->images, path, error));
    FF_TRY(find_labels(set, error));
    /* "train-" is train, "t10k-" MNIST's test; any other prefix names its split itself. */
    const char *base = ff_path_base(path), *role = images_role(base);
    size_t length = (size_t)(role - base);
    while (length && strchr("-._", base[length - 1])) length--;
    snprintf(set->split, sizeof set->split, "%.*s", (int)length, base);
    if (!strcmp(set->split, "t10k")) strcpy(set->split, "test");
    return FF_OK;
}

static int compare_sets(const void *a, const void *b) {
    const idx_set *first = a, *second = b;
    int train = !strcmp(second->split, "train") - !strcmp(first->split, "train");
    return train ? train : strcmp(first->split, second->split);
}

static ff_status find_sets(idx_sets *sets, const ff_source *source, ff_error *error) {
    struct stat info;
    if (stat(source->path, &info) < 0) return ff_fail_errno(error, "%s: cannot open", source->path);
    if (!S_ISDIR(info.st_mode)) return add_set(sets, source, source->path, error);
    ff_names names;
    FF_TRY(ff_names_read(&names, source->path, is_images_name, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        const char *name = ff_names_at(&names, i);
        /* A file that lies there both plain and compressed comes once: sorted, plain is first. */
        size_t length = i ? strlen(ff_names_at(&names, i - 1)) : 0;
        if (i && !strncmp(name, ff_names_at(&names, i - 1), length) &&
            !strcmp(name + length, ".gz"))
            continue;
        char *path;
        status = ff_path_join(&path, source->path, name, error);
        if (status == FF_OK) status = add_set(sets, source, path, error);
        free(path);
    }
    ff_names_free(&names);
    FF_TRY(status);
    if (!sets->count)
        return ff_fail(error, FF_BAD_DATA, "%s: holds no file *images-idx3-ubyte[.gz]",
                       source->path);
    qsort(sets->set, sets->count, sizeof sets->set[0], compare_sets);
    return FF_OK;
}

/* ---- content ------------------------------------------------------------------------------- */

static ff_status read_exactly(ff_input *input, const char *path, void *to, size_t size,
                              uint64_t offset, uint64_t total, ff_error *error) {
    size_t got;
    FF_TRY(ff_input_read(input, to, size, &got, error));
    if (got == size) return FF_OK;
    const char *unpacked = ff_input_compressed(input) ? " when unpacked" : "";
    return ff_fail(error, FF_BAD_DATA, "%s: ends at byte %" PRIu64 "%s, wanted %" PRIu64, path,
                   offset + got, unpacked, total);
}

static ff_status expect_end(ff_input *input, const char *path, uint64_t total, ff_error *error) {
    unsigned char extra;
    size_t got;
    FF_TRY(ff_input_read(input, &extra, 1, &got, error));
    if (!got) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: goes on behind byte %" PRIu64 "%s, wanted the end",
                   path, total, ff_input_compressed(input) ? " when unpacked" : "");
}

/* Magic and sizes. `size`: [dimensions]. */
static ff_status read_header(ff_input *input, const char *path, unsigned dimensions, uint32_t *size,
                             ff_error *error) {
    unsigned char header[4 + 4 * 4];
    uint64_t bytes = 4 + 4 * dimensions;
    FF_TRY(read_exactly(input, path, header, 4, 0, bytes, error));
    if (header[0] || header[1] || header[2] != 0x08 || header[3] != dimensions)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: its magic is %02x %02x %02x %02x, wanted 00 00 08 %02x (%s)", path,
                       header[0], header[1], header[2], header[3], dimensions,
                       dimensions == 3 ? "images: u8, 3 dimensions" : "labels: u8, 1 dimension");
    FF_TRY(read_exactly(input, path, header + 4, bytes - 4, 4, bytes, error));
    for (unsigned i = 0; i < dimensions; i++) {
        size[i] = ff_load_be32(header + 4 + 4 * i);
        if (!size[i] || (i && size[i] > FF_SIDE_LIMIT))
            return ff_fail(error, FF_BAD_DATA, "%s: dimension %u at byte %u is %u, wanted 1 to %u",
                           path, i, 4 + 4 * i, size[i], i ? FF_SIDE_LIMIT : UINT32_MAX);
    }
    return FF_OK;
}

/* Undoes gzip into temporary space, where items can be read in any order. */
static ff_status unpack(idx_set *set, ff_input *input, uint64_t data, ff_error *error) {
    FF_TRY(ff_disk_temporary(set->source->temporary, &set->fd, error));
    char *chunk;
    FF_TRY(ff_alloc_aligned(&chunk, CHUNK_BYTES, 1, 0, "unpacking", error));
    uint64_t header = 16;
    ff_status status = FF_OK;
    for (uint64_t done = 0; done < data && status == FF_OK;) {
        FF_TRY_DONE(ff_interrupt_check(error));
        size_t part = data - done < CHUNK_BYTES ? data - done : CHUNK_BYTES;
        status = read_exactly(input, set->images, chunk, part, header + done, header + data, error);
        if (status == FF_OK)
            status = ff_disk_write_at(set->fd, set->source->temporary, chunk, part, done, error);
        done += part;
    }
    set->data_offset = 0;
    if (status == FF_OK) status = expect_end(input, set->images, header + data, error);
done:
    free(chunk);
    return status;
}

static ff_status open_images(idx_set *set, ff_error *error) {
    ff_input *input;
    FF_TRY(ff_input_open(&input, set->images, error));
    uint32_t size[3];
    uint64_t data = 0;
    ff_status status = read_header(input, set->images, 3, size, error);
    if (status == FF_OK &&
        (!ff_mul_u64((uint64_t)size[1] * size[2], size[0], &data) || data > UINT64_C(1) << 50))
        status = ff_fail(error, FF_BAD_DATA, "%s: %u x %u x %u bytes are too many", set->images,
                         size[0], size[1], size[2]);
    if (status == FF_OK) {
        set->count = size[0];
        set->height = size[1];
        set->width = size[2];
        set->data_offset = 16;
    }
    if (status == FF_OK && ff_input_compressed(input)) {
        status = unpack(set, input, data, error);
    } else if (status == FF_OK) {
        uint64_t bytes;
        status = ff_disk_open(set->images, &set->fd, &bytes, error);
        if (status == FF_OK && bytes != 16 + data)
            status = ff_fail(error, FF_BAD_DATA,
                             "%s: has %" PRIu64 " bytes, wanted %" PRIu64 " (16 + %u x %u x %u)",
                             set->images, bytes, 16 + data, size[0], size[1], size[2]);
    }
    ff_input_close(&input);
    return status;
}

static void open_images_of(void *context, size_t index) {
    idx_set *set = &((idx_sets *)context)->set[index];
    if (open_images(set, &set->error) != FF_OK && set->error.status == FF_OK)
        set->error.status = FF_FAILED;
}

static ff_status list_set(ff_source *source, idx_set *set, bool alone, ff_error *error) {
    ff_input *input;
    FF_TRY(ff_input_open(&input, set->labels, error));
    ff_status status;
    uint32_t count, part;
    FF_TRY_DONE(read_header(input, set->labels, 1, &count, error));
    if (count != set->count) {
        status = ff_fail(error, FF_BAD_DATA, "%s: has %u labels for %u images in %s", set->labels,
                         count, set->count, set->images);
        goto done;
    }
    int fd = set->fd;
    set->fd = -1;
    FF_TRY_DONE(ff_source_add_part(source, set->images, fd, &part, error));
    ff_source_split *split;
    FF_TRY_DONE(ff_source_add_split(source, alone ? "" : set->split, &split, error));

    const char *base = ff_path_base(set->images);
    size_t base_length = strlen(base);
    if (base_length > 3 && !strcmp(base + base_length - 3, ".gz")) base_length -= 3;
    uint32_t class_count = source->labels.field[0].class_count;
    uint64_t bytes = (uint64_t)set->height * set->width;
    unsigned char labels[4096];
    for (uint32_t i = 0; i < count; i++) {
        if (i % sizeof labels == 0) {
            size_t wanted = count - i < sizeof labels ? count - i : sizeof labels;
            FF_TRY_DONE(read_exactly(input, set->labels, labels, wanted, 8 + (uint64_t)i,
                                     8 + (uint64_t)count, error));
        }
        int32_t label = labels[i % sizeof labels];
        if (class_count && (uint32_t)label >= class_count) {
            status = ff_fail(error, FF_BAD_DATA,
                             "%s: label %d of item %u at byte %u, wanted 0 to %u as %s names %u "
                             "classes",
                             set->labels, label, i, 8 + i, class_count - 1, source->classes,
                             class_count);
            goto done;
        }
        char key[512];
        int key_bytes = snprintf(key, sizeof key, "%.*s:%u", (int)base_length, base, i);
        ff_item item = {.part = part,
                        .offset = set->data_offset + i * bytes,
                        .bytes = bytes,
                        .key = key,
                        .key_bytes = (size_t)key_bytes,
                        .labels = &label};
        FF_TRY_DONE(ff_listing_add(split->listing, &item, error));
    }
    status = expect_end(input, set->labels, 8 + (uint64_t)count, error);
done:
    ff_input_close(&input);
    return status;
}

static ff_status list_sets(ff_source *source, idx_sets *sets, ff_error *error) {
    FF_TRY(find_sets(sets, source, error));
    source->kind = "idx";
    FF_TRY(ff_metadata_add_field(&source->labels, "label", FF_FIELD_CLASS, FF_I32, 1, error));
    if (source->classes) FF_TRY(ff_source_read_classes(source, 0, source->classes, error));
    for (size_t i = 1; i < sets->count; i++)
        if (!strcmp(sets->set[i].split, sets->set[i - 1].split))
            return ff_fail(error, FF_BAD_DATA, "%s and %s: both are split '%s', wanted one",
                           sets->set[i - 1].images, sets->set[i].images, sets->set[i].split);
    FF_TRY(ff_parallel_for(source->jobs, sets->count, open_images_of, sets, error));
    const idx_set *first = &sets->set[0];
    for (size_t i = 0; i < sets->count; i++) {
        idx_set *set = &sets->set[i];
        if (set->error.status != FF_OK) {
            if (error) *error = set->error;
            return set->error.status;
        }
        if (set->height != first->height || set->width != first->width)
            return ff_fail(error, FF_BAD_DATA, "%s: images of %u x %u, but %s has %u x %u",
                           set->images, set->height, set->width, first->images, first->height,
                           first->width);
        FF_TRY(list_set(source, set, sets->count == 1, error));
    }
    source->raw = (ff_source_raw){
        .channels = 1, .height = first->height, .width = first->width, .layout = FF_CHW};
    return FF_OK;
}

static ff_status idx_list(ff_source *source, ff_error *error) {
    idx_sets *sets;
    FF_TRY(ff_alloc(&sets, 1, sizeof *sets, "IDX files", error));
    ff_status status = list_sets(source, sets, error);
    for (size_t i = 0; i < sets->count; i++) {
        ff_disk_close(&sets->set[i].fd);
        free(sets->set[i].images);
        free(sets->set[i].labels);
    }
    free(sets);
    return status;
}

extern const ff_source_format ff_source_idx;
const ff_source_format ff_source_idx = {
    .name = "idx",
    .wanted = "IDX files named as MNIST's (plain or .gz), or a folder of them",
    .detect = idx_detect,
    .list = idx_list,
};
