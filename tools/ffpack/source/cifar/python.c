/* CIFAR-10 and CIFAR-100, python version (https://www.cs.toronto.edu/~kriz/cifar.html).
 *
 * Every file is a pickle of a dict: "data" is an array N x 3072 u8, each row the red, green and
 * blue plane of 32 x 32 pixels, and "labels" (CIFAR-10) or "fine_labels" and "coarse_labels"
 * (CIFAR-100) are lists of N numbers. Files: data_batch_1, ... and test_batch with batches.meta
 * ("label_names"); or train and test with meta ("fine_label_names", "coarse_label_names").
 * torchvision reads them with encoding="latin1", so keys and names may be strings of Python 2 or of
 * Python 3. */
#include "format/base/path.h"
#include "tools/ffpack/source/cifar/files.h"
#include "tools/ffpack/source/cifar/numpy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_LIMIT_BYTES = 4096 };

bool ff_cifar_is_pickle(const unsigned char *head, size_t head_bytes) {
    if (head_bytes < 2) return false;
    if (head[0] == 0x80) return head[1] >= 2 && head[1] <= 5;
    /* Protocols 0 and 1 have no magic; a dict and its memo begin like this. */
    return head_bytes > 3 &&
           (!memcmp(head, "(dp", 3) || !memcmp(head, "(lp", 3) || !memcmp(head, "}q", 2));
}

static ff_status open_pickle(const ff_source *source, const ff_cifar_batch *batch,
                             ff_pickle **pickle, ff_error *error) {
    const ff_source_part *part = &source->part[batch->part];
    const ff_pickle_file at = {part->fd, part->path, batch->offset, batch->bytes,
                               source->temporary};
    ff_status status = ff_numpy_read(pickle, &at, error);
    /* For an archive, the part holds everything unpacked. */
    if (status == FF_BAD_DATA && strcmp(ff_path_base(part->path), batch->name) != 0 && *batch->name)
        ff_fail_within(error, status, "%s", batch->name);
    return status;
}

/* The entry `key` of the pickle's dict, which must exist. */
static ff_status want(const ff_cifar *found, const ff_cifar_batch *batch, ff_pickle *pickle,
                      const char *key, ff_pickle_value *value, ff_error *error) {
    bool there;
    FF_TRY(ff_pickle_find(pickle, ff_pickle_root(pickle), key, &there, value, error));
    if (there) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: %s: the pickle has no '%s', wanted a dict with it",
                   found->place, batch->name, key);
}

ff_status ff_cifar_python_kind(const ff_source *source, const ff_cifar_batch *batch,
                               const ff_cifar_kind **kind, ff_error *error) {
    ff_pickle *pickle;
    FF_TRY(open_pickle(source, batch, &pickle, error));
    bool fine = false, ten = false;
    ff_pickle_value value;
    ff_status status =
        ff_pickle_find(pickle, ff_pickle_root(pickle), "fine_labels", &fine, &value, error);
    if (status == FF_OK)
        status = ff_pickle_find(pickle, ff_pickle_root(pickle), "labels", &ten, &value, error);
    if (status == FF_OK && !fine && !ten)
        status = ff_fail(error, FF_BAD_DATA,
                         "%s: the pickle has neither 'labels' (CIFAR-10) nor 'fine_labels' "
                         "(CIFAR-100), wanted a dict with them",
                         source->part[batch->part].path);
    *kind = fine ? &ff_cifar_100_python : &ff_cifar_10_python;
    ff_pickle_destroy(&pickle);
    return status;
}

/* ---- names --------------------------------------------------------------------------------- */

static ff_status add_name(const ff_cifar *found, const ff_cifar_batch *meta, ff_pickle *pickle,
                          ff_pickle_value value, ff_buffer *lines, ff_error *error) {
    ff_pickle_kind kind = ff_pickle_kind_of(pickle, value);
    if (kind != FF_PICKLE_TEXT && kind != FF_PICKLE_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s: %s: %s among the class names, wanted a string",
                       found->place, meta->name, ff_pickle_kind_name(pickle, kind));
    char *name;
    size_t length;
    FF_TRY(ff_pickle_text(pickle, value, NAME_LIMIT_BYTES, &name, &length, error));
    ff_status status;
    if (!length || memchr(name, 0, length) || strpbrk(name, "\r\n"))
        status = ff_fail(error, FF_BAD_DATA, "%s: %s: a class name that is not a line of text",
                         found->place, meta->name);
    else
        status = ff_buffer_printf(lines, error, "%s\n", name);
    free(name);
    return status;
}

ff_status ff_cifar_python_names(const ff_cifar *found, const ff_source *source, uint32_t which,
                                char **text, ff_error *error) {
    const ff_cifar_batch *meta = &found->meta[found->kind->hundred];
    *text = NULL;
    if (!*meta->name) return FF_OK;
    ff_pickle *pickle;
    FF_TRY(open_pickle(source, meta, &pickle, error));
    ff_buffer lines = {0};
    ff_pickle_value list;
    ff_status status;
    FF_TRY_DONE(want(found, meta, pickle, found->kind->name_key[which], &list, error));
    if (ff_pickle_kind_of(pickle, list) != FF_PICKLE_LIST) {
        status = ff_fail(error, FF_BAD_DATA, "%s: %s: '%s' is %s, wanted a list", found->place,
                         meta->name, found->kind->name_key[which],
                         ff_pickle_kind_name(pickle, ff_pickle_kind_of(pickle, list)));
        goto done;
    }
    for (uint32_t i = 0; i < ff_pickle_count(pickle, list); i++)
        FF_TRY_DONE(add_name(found, meta, pickle, ff_pickle_item(pickle, list, i), &lines, error));
    FF_TRY_DONE(ff_buffer_add(&lines, "", 1, error));
    *text = lines.bytes;
    lines = (ff_buffer){0};
done:
    ff_buffer_free(&lines);
    ff_pickle_destroy(&pickle);
    return status;
}

/* ---- samples ------------------------------------------------------------------------------- */

/* Finds the data of a batch and adds its bytes as a part of the source. */
static ff_status find_data(const ff_cifar *found, ff_source *source, const ff_cifar_batch *batch,
                           ff_pickle *pickle, ff_array *data, ff_error *error) {
    ff_pickle_value value;
    FF_TRY(want(found, batch, pickle, "data", &value, error));
    ff_pickle_kind kind = ff_pickle_kind_of(pickle, value);
    if (kind != FF_PICKLE_ARRAY)
        return ff_fail(error, FF_BAD_DATA, "%s: %s: 'data' is %s, wanted an array", found->place,
                       batch->name, ff_pickle_kind_name(pickle, kind));
    bool decoded;
    *data = ff_numpy_array(pickle, value, &decoded);
    if (data->element != FF_ELEMENT_U8 || data->dimensions != 2 ||
        data->size[1] != FF_CIFAR_PIXEL_BYTES) {
        char shape[256];
        return ff_fail(error, FF_BAD_DATA, "%s: %s: 'data' is %s, wanted N x %d u8", found->place,
                       batch->name, ff_array_shape(data, shape, sizeof shape),
                       FF_CIFAR_PIXEL_BYTES);
    }
    data->part = batch->part;
    if (decoded) {
        int fd;
        FF_TRY(ff_pickle_decoded(pickle, &fd, error));
        FF_TRY(ff_source_add_part(source, source->part[batch->part].path, fd, &data->part, error));
    }
    return ff_array_straighten(data, source, source->part[batch->part].path, error);
}

/* One label list, which must have `count` labels. */
static ff_status find_labels(const ff_cifar *found, const ff_cifar_batch *batch, ff_pickle *pickle,
                             const char *key, uint64_t count, ff_pickle_value *list,
                             ff_error *error) {
    FF_TRY(want(found, batch, pickle, key, list, error));
    ff_pickle_kind kind = ff_pickle_kind_of(pickle, *list);
    if (kind != FF_PICKLE_LIST)
        return ff_fail(error, FF_BAD_DATA, "%s: %s: '%s' is %s, wanted a list", found->place,
                       batch->name, key, ff_pickle_kind_name(pickle, kind));
    if (ff_pickle_count(pickle, *list) == count) return FF_OK;
    return ff_fail(error, FF_BAD_DATA,
                   "%s: %s: '%s' has %" PRIu32 " labels, but 'data' %" PRIu64 " rows", found->place,
                   batch->name, key, ff_pickle_count(pickle, *list), count);
}

static ff_status label_at(const ff_cifar *found, const ff_source *source,
                          const ff_cifar_batch *batch, const ff_pickle *pickle,
                          ff_pickle_value list, uint32_t which, uint32_t index, int32_t *label,
                          ff_error *error) {
    const ff_cifar_kind *kind = found->kind;
    uint32_t limit = source->labels.field[kind->label_count - 1 - which].class_count;
    if (!limit) limit = kind->class_limit[which];
    ff_pickle_value value = ff_pickle_item(pickle, list, index);
    ff_pickle_kind type = ff_pickle_kind_of(pickle, value);
    if (type != FF_PICKLE_INTEGER)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: %s: label %" PRIu32 " of '%s' is %s, wanted a number", found->place,
                       batch->name, index, kind->label_key[which],
                       ff_pickle_kind_name(pickle, type));
    int64_t number = ff_pickle_integer(pickle, value);
    if (number < 0 || number >= limit)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: %s: label %" PRIu32 " of '%s' is %" PRId64 ", wanted 0 to %" PRIu32,
                       found->place, batch->name, index, kind->label_key[which], number, limit - 1);
    *label = (int32_t)number;
    return FF_OK;
}

static ff_status list_pickle(const ff_cifar *found, ff_source *source, const ff_cifar_batch *batch,
                             ff_pickle *pickle, ff_listing *listing, ff_error *error) {
    const ff_cifar_kind *kind = found->kind;
    ff_array data;
    ff_pickle_value list[2];
    FF_TRY(find_data(found, source, batch, pickle, &data, error));
    for (uint32_t which = 0; which < kind->label_count; which++)
        FF_TRY(find_labels(found, batch, pickle, kind->label_key[which], data.size[0], &list[which],
                           error));
    for (uint32_t i = 0; i < data.size[0]; i++) {
        int32_t label[2];
        for (uint32_t which = 0; which < kind->label_count; which++)
            FF_TRY(label_at(found, source, batch, pickle, list[which], which, i,
                            &label[kind->label_count - 1 - which], error));
        char key[FF_RECORD_KEY_BYTES];
        ff_item item = {.part = data.part,
                        .offset = data.offset + (uint64_t)i * FF_CIFAR_PIXEL_BYTES,
                        .bytes = FF_CIFAR_PIXEL_BYTES,
                        .key = key,
                        .key_bytes = ff_record_key(key, batch->name, i),
                        .labels = label};
        FF_TRY(ff_listing_add(listing, &item, error));
    }
    return FF_OK;
}

ff_status ff_cifar_python_list(const ff_cifar *found, ff_source *source,
                               const ff_cifar_batch *batch, ff_listing *listing, ff_error *error) {
    ff_pickle *pickle;
    FF_TRY(open_pickle(source, batch, &pickle, error));
    ff_status status = list_pickle(found, source, batch, pickle, listing, error);
    ff_pickle_destroy(&pickle);
    return status;
}
