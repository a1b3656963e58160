/* IDX, the format of the MNIST family: big-endian magic 00 00 TYPE NDIM, NDIM sizes of 4 bytes,
 * then the data, plain or gzip. Images have 3 dimensions or 4 (see list.h), labels 1 or 2.
 * http://yann.lecun.com/exdb/mnist/ ; the files are paired by MNIST's names:
 * PREFIXimages-idx3-ubyte[.gz] with PREFIXlabels-idx1-ubyte[.gz], also with "." for the first "-",
 * with the digit of the dimensions, and with byte, short, int, float or double for ubyte. */
#include "format/base/path.h"
#include "format/base/read.h"
#include "tools/ffpack/source/array/list.h"
#include "tools/ffpack/source/input.h"

#include "format/base/bytes.h"
#include "format/base/thread.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SETS_LIMIT = 16 };

/* A pair of files. */
typedef struct idx_set {
    ff_array_set set;
    int images_fd, labels_fd; /* until they become parts of the source */
    const ff_source *source;
    ff_error error; /* the error of reading it, which runs on a thread */
} idx_set;

typedef struct idx_sets {
    size_t count;
    idx_set set[SETS_LIMIT];
} idx_sets;

/* ---- names --------------------------------------------------------------------------------- */

static const char *const type_words[] = {"ubyte", "byte", "short", "int", "float", "double"};
enum { TYPE_WORDS = sizeof type_words / sizeof type_words[0] };

/* The place at which "images-idx3-ubyte" or "images.idx3-ubyte" begins at the end of a name,
 * ignoring .gz. */
static const char *find_role(const char *name, const char *role) {
    size_t length = strlen(name), word = strlen(role);
    if (length > 3 && !strcmp(name + length - 3, ".gz")) length -= 3;
    for (size_t i = 0; i < TYPE_WORDS; i++) {
        size_t type = strlen(type_words[i]), whole = word + sizeof "-idx3-" - 1 + type;
        if (length < whole) continue;
        const char *at = name + length - whole, *after = at + word;
        if (!memcmp(at, role, word) && strchr("-.", *after) && !memcmp(after + 1, "idx", 3) &&
            after[4] >= '1' && after[4] <= '4' && after[5] == '-' &&
            !memcmp(after + 6, type_words[i], type))
            return at;
    }
    return NULL;
}
static const char *images_role(const char *name) {
    return find_role(name, "images");
}
static const char *labels_role(const char *name) {
    return find_role(name, "labels");
}
static bool is_images_name(const char *name, unsigned char type) {
    (void)type;
    return images_role(name) != NULL;
}

static bool idx_detect(const char *path, const unsigned char *head, size_t head_bytes,
                       ff_error *error) {
    if (head)
        return (head_bytes >= 4 && !head[0] && !head[1] && head[2] >= 0x08 && head[2] <= 0x0e &&
                head[3] >= 1 && head[3] <= 4) ||
               images_role(path) || labels_role(path);
    ff_names names;
    if (ff_names_read(&names, path, is_images_name, error) != FF_OK) return false;
    bool found = names.count > 0;
    ff_names_free(&names);
    return found;
}

/* The labels next to the images: the same name except for the role, compressed or not. */
static ff_status find_labels(ff_array_set *set, ff_error *error) {
    const char *role = images_role(set->images_path);
    if (!role)
        return ff_fail(
            error, FF_BAD_DATA,
            "%s: its labels are found by name: wanted a name that ends in images-idx3-ubyte or images-idx3-ubyte.gz",
            set->images_path);
    int before = (int)(role - set->images_path);
    char separator = role[strlen("images")];
    for (int i = 0; i < TYPE_WORDS * 4; i++) {
        FF_TRY(ff_format(&set->labels_path, error, "%.*slabels%cidx%d-%s%s", before,
                         set->images_path, separator, i / 2 % 2 + 1, type_words[i / 4],
                         i % 2 ? ".gz" : ""));
        if (access(set->labels_path, F_OK) == 0) return FF_OK;
        free(set->labels_path);
        set->labels_path = NULL;
    }
    return ff_fail(error, FF_BAD_DATA,
                   "%.*slabels%cidx1-ubyte[.gz]: missing, wanted as labels of %s", before,
                   set->images_path, separator, set->images_path);
}

static ff_status add_set(idx_sets *sets, const ff_source *source, const char *path,
                         ff_error *error) {
    if (sets->count == SETS_LIMIT)
        return ff_fail(error, FF_BAD_DATA, "%s: more than %d image files", source->path,
                       SETS_LIMIT);
    idx_set *added = &sets->set[sets->count++];
    *added = (idx_set){.images_fd = -1, .labels_fd = -1, .source = source};
    ff_array_set *set = &added->set;
    set->labeled = true;
    FF_TRY(ff_copy_string(&set->images_path, path, error));
    FF_TRY(find_labels(set, error));
    /* "train-" is train, "t10k-" MNIST's test; any other prefix is the split's name. */
    const char *base = ff_path_base(path), *role = images_role(base);
    size_t length = (size_t)(role - base), key = strlen(base);
    if (!strcmp(base + key - 3, ".gz")) key -= 3;
    FF_TRY(ff_copy_bytes(&set->key, base, key, error));
    while (length && strchr("-._", base[length - 1])) length--;
    if (length >= sizeof set->split)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: its split would be called %.*s, wanted at most %zu "
                       "bytes",
                       path, (int)length, base, sizeof set->split - 1);
    snprintf(set->split, sizeof set->split, "%.*s", (int)length, base);
    if (!strcmp(set->split, "t10k")) strcpy(set->split, "test");
    return FF_OK;
}

static int compare_sets(const void *a, const void *b) {
    const idx_set *first = a, *second = b;
    const char *a_split = first->set.split, *b_split = second->set.split;
    int train = !strcmp(b_split, "train") - !strcmp(a_split, "train");
    return train ? train : strcmp(a_split, b_split);
}

static ff_status find_sets(idx_sets *sets, const ff_source *source, ff_error *error) {
    bool folder;
    FF_TRY(ff_source_is_folder(source->path, &folder, error));
    if (!folder) return add_set(sets, source, source->path, error);
    ff_names names;
    FF_TRY(ff_names_read(&names, source->path, is_images_name, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        const char *name = ff_names_at(&names, i);
        /* A file that is there both plain and compressed is taken once: sorted, plain is first. */
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

static const struct {
    unsigned char code;
    ff_element_type element;
} types[] = {{0x08, FF_ELEMENT_U8},  {0x09, FF_ELEMENT_I8},  {0x0b, FF_ELEMENT_I16},
             {0x0c, FF_ELEMENT_I32}, {0x0d, FF_ELEMENT_F32}, {0x0e, FF_ELEMENT_F64}};

static bool element_of(unsigned char code, ff_element_type *element) {
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].code == code) {
            *element = types[i].element;
            return true;
        }
    return false;
}

/* Magic and sizes of an array of `least` or `least` + 1 dimensions. */
static ff_status read_header(int fd, const char *path, unsigned least, uint64_t bytes,
                             const char *unpacked, ff_array *array, ff_error *error) {
    unsigned char header[4 + 4 * 4] = {0};
    size_t got = bytes < sizeof header ? (size_t)bytes : sizeof header;
    FF_TRY(ff_read_at(fd, path, header, got, 0, error));
    unsigned dimensions = header[3];
    uint64_t wanted =
        4 + 4 * (uint64_t)(dimensions >= least && dimensions <= 4 ? dimensions : least);
    if (got < 4 || (got < wanted && dimensions >= least && dimensions <= least + 1))
        return ff_fail(error, FF_BAD_DATA, "%s: ends at byte %zu%s, wanted %" PRIu64, path, got,
                       unpacked, wanted);
    if (header[0] || header[1] || !element_of(header[2], &array->element) || dimensions < least ||
        dimensions > least + 1)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: its magic is %02x %02x %02x %02x, wanted 00 00 08 %02x for %s of u8, "
                       "another known type for 08 (09, 0b, 0c, 0d, 0e), or %02x for %02x",
                       path, header[0], header[1], header[2], header[3], least,
                       least == 3 ? "images" : "labels", least + 1, least);
    array->dimensions = dimensions;
    array->offset = wanted;
    array->big_endian = ff_element_bytes(array->element) > 1;
    for (unsigned i = 0; i < dimensions; i++) {
        array->size[i] = ff_load_be32(header + 4 + 4 * i);
        if (!array->size[i] || (i && array->size[i] > FF_SIDE_LIMIT))
            return ff_fail(error, FF_BAD_DATA,
                           "%s: dimension %u at byte %u is %" PRIu64 ", wanted 1 to %u", path, i,
                           4 + 4 * i, array->size[i], i ? FF_SIDE_LIMIT : UINT32_MAX);
    }
    return FF_OK;
}

/* Opens one file, decompressed if gzip, and checks it completely. */
static ff_status open_array(const ff_source *source, const char *path, unsigned least, int *fd,
                            ff_array *array, ff_error *error) {
    bool gzip;
    uint64_t bytes, data;
    char shape[256];
    FF_TRY(ff_input_unpack(path, source->temporary, fd, &bytes, &gzip, error));
    const char *unpacked = gzip ? " when unpacked" : "";
    FF_TRY(read_header(*fd, path, least, bytes, unpacked, array, error));
    if (!ff_array_bytes(array, &data))
        return ff_fail(error, FF_BAD_DATA, "%s: %s are too many", path,
                       ff_array_shape(array, shape, sizeof shape));
    if (bytes == array->offset + data) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s: has %" PRIu64 " bytes%s, wanted %" PRIu64 " (%" PRIu64 " and %s)", path,
                   bytes, unpacked, array->offset + data, array->offset,
                   ff_array_shape(array, shape, sizeof shape));
}

static void open_set(void *context, size_t index) {
    idx_set *set = &((idx_sets *)context)->set[index];
    ff_array_set *arrays = &set->set;
    ff_status status = open_array(set->source, arrays->images_path, 3, &set->images_fd,
                                  &arrays->images, &set->error);
    if (status == FF_OK)
        status = open_array(set->source, arrays->labels_path, 1, &set->labels_fd, &arrays->labels,
                            &set->error);
    if (status != FF_OK && set->error.status == FF_OK) set->error.status = FF_FAILED;
}

static ff_status add_parts(ff_source *source, idx_set *set, ff_error *error) {
    ff_array_set *arrays = &set->set;
    int images = set->images_fd, labels = set->labels_fd;
    set->images_fd = -1;
    FF_TRY(ff_source_add_part(source, arrays->images_path, images, &arrays->images.part, error));
    set->labels_fd = -1;
    return ff_source_add_part(source, arrays->labels_path, labels, &arrays->labels.part, error);
}

static ff_status list_sets(ff_source *source, idx_sets *sets, ff_error *error) {
    FF_TRY(find_sets(sets, source, error));
    source->kind = "idx";
    for (size_t i = 1; i < sets->count; i++)
        if (!strcmp(sets->set[i].set.split, sets->set[i - 1].set.split))
            return ff_fail(error, FF_BAD_DATA, "%s and %s: both are split '%s', wanted one",
                           sets->set[i - 1].set.images_path, sets->set[i].set.images_path,
                           sets->set[i].set.split);
    FF_TRY(ff_parallel_for(source->jobs, sets->count, open_set, sets, error));
    ff_array_set arrays[SETS_LIMIT];
    for (size_t i = 0; i < sets->count; i++) {
        idx_set *set = &sets->set[i];
        if (set->error.status != FF_OK) {
            if (error) *error = set->error;
            return set->error.status;
        }
        FF_TRY(add_parts(source, set, error));
        if (sets->count == 1) *set->set.split = 0;
        arrays[i] = set->set;
    }
    return ff_array_list(source, arrays, sets->count, error);
}

static ff_status idx_list(ff_source *source, ff_error *error) {
    idx_sets *sets;
    FF_TRY(ff_alloc(&sets, 1, sizeof *sets, "IDX files", error));
    ff_status status = list_sets(source, sets, error);
    for (size_t i = 0; i < sets->count; i++) {
        ff_close_file(&sets->set[i].images_fd);
        ff_close_file(&sets->set[i].labels_fd);
        ff_array_set_free(&sets->set[i].set);
    }
    free(sets);
    return status;
}

extern const ff_source_format ff_source_idx;
const ff_source_format ff_source_idx = {
    .name = "idx",
    .wanted = "IDX files named as MNIST's (plain or .gz), or a folder of them",
    .endings = "ubyte idx gz /",
    .detect = idx_detect,
    .list = idx_list,
    .labels = "in the file of labels next to the file of images",
    .uses = FF_USES_CLASSES | FF_USES_ARRAY_LAYOUT | FF_USES_LABEL_KIND,
};
