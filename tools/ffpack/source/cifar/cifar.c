/* CIFAR-10 and CIFAR-100, binary version, and what the python version shares with it
 * (https://www.cs.toronto.edu/~kriz/cifar.html).
 *
 * A record is one label byte (CIFAR-10) or two, coarse then fine (CIFAR-100), and 3072 bytes: the
 * red, green and blue plane of 32 x 32 pixels. Files: data_batch_1.bin, ... and test_batch.bin with
 * batches.meta.txt; or train.bin and test.bin with fine_label_names.txt and coarse_label_names.txt.
 * SOURCE is a folder that holds them (or holds a folder cifar-10-batches-bin or cifar-100-binary),
 * a tar archive, or one of them alone. The python version has the same names without .bin:
 * python.c. */
#include "format/base/read.h"
#include "format/base/thread.h"
#include "tools/ffpack/source/cifar/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CIFAR_10_BATCHES = 5 };

static int compare_batches(const void *a, const void *b) {
    const ff_cifar_batch *first = a, *second = b;
    if (first->test != second->test) return first->test - second->test;
    return (int)ff_cifar_batch_number(first->name) - (int)ff_cifar_batch_number(second->name);
}

/* CIFAR-10 has five batches and a test batch. Several files without one of these are an interrupted
 * copy; a single batch is intended. */
static ff_status check_whole(const ff_cifar *found, ff_error *error) {
    unsigned last = 0;
    bool test = false;
    if (found->kind->hundred || found->batch_count < 2) return FF_OK;
    for (size_t i = 0; i < found->batch_count; i++) {
        unsigned number = ff_cifar_batch_number(found->batch[i].name);
        test |= found->batch[i].test;
        if (!found->batch[i].test && number > last) last = number;
    }
    if (test && last >= CIFAR_10_BATCHES) return FF_OK;
    char missing[32] = "test_batch";
    if (last < CIFAR_10_BATCHES) snprintf(missing, sizeof missing, "data_batch_%u", last + 1);
    return ff_fail(error, FF_BAD_DATA,
                   "%s: %s%s is missing; wanted the %d batches of CIFAR-10 and its test batch, or "
                   "one batch alone as SOURCE",
                   found->place, missing, found->kind->python ? "" : ".bin", CIFAR_10_BATCHES);
}

static ff_status check_batches(ff_cifar *found, ff_error *error) {
    qsort(found->batch, found->batch_count, sizeof found->batch[0], compare_batches);
    const ff_cifar_kind *kind = found->kind;
    uint64_t record = FF_CIFAR_PIXEL_BYTES + kind->label_count;
    for (size_t i = 0; i < found->batch_count; i++) {
        const ff_cifar_batch *batch = &found->batch[i];
        unsigned number = ff_cifar_batch_number(batch->name);
        if (number && number != i + 1 && found->batch_count > 1)
            return ff_fail(error, FF_BAD_DATA, "%s: data_batch_%zu%s is missing, but %s is there",
                           found->place, i + 1, kind->python ? "" : ".bin", batch->name);
        if (!kind->python && (!batch->bytes || batch->bytes % record))
            return ff_fail(error, FF_BAD_DATA,
                           "%s: %s has %" PRIu64 " bytes, wanted a multiple of %" PRIu64
                           ", the size of a %s record",
                           found->place, batch->name, batch->bytes, record, kind->name);
    }
    return check_whole(found, error);
}

/* The names of the classes of label `which`, if the files have them. */
static ff_status take_names(ff_cifar *found, ff_source *source, uint32_t which, size_t field,
                            ff_error *error) {
    const ff_cifar_kind *kind = found->kind;
    const char *path = found->text_path[which];
    if (kind->python) {
        path = found->meta[kind->hundred].name;
        free(found->text[which]);
        FF_TRY(ff_cifar_python_names(found, source, which, &found->text[which], error));
    }
    if (found->text[which] && source->classes && field == 0)
        return ff_fail(error, FF_USAGE, "--classes: %s names the classes already", path);
    if (found->text[which])
        return ff_source_take_classes(source, field, path, found->text[which], error);
    if (source->classes && field == 0)
        return ff_source_read_classes(source, field, source->classes, error);
    return FF_OK;
}

static ff_status add_fields(ff_cifar *found, ff_source *source, ff_error *error) {
    const ff_cifar_kind *kind = found->kind;
    FF_TRY(ff_metadata_add_field(&source->labels, kind->hundred ? "fine" : "label", FF_FIELD_CLASS,
                                 FF_I32, 1, error));
    if (kind->hundred)
        FF_TRY(ff_metadata_add_field(&source->labels, "coarse", FF_FIELD_CLASS, FF_I32, 1, error));
    for (uint32_t which = 0; which < kind->label_count; which++) /* coarse comes before fine */
        FF_TRY(take_names(found, source, which, kind->label_count - 1 - which, error));
    return FF_OK;
}

/* One batch per thread: the labels are far apart, so most of the file is read. */
typedef struct label_reader {
    ff_cifar *found;
    const ff_source *source;
} label_reader;

static void read_labels(void *context, size_t index) {
    const label_reader *job = context;
    ff_cifar_batch *batch = &job->found->batch[index];
    const ff_source_part *part = &job->source->part[batch->part];
    size_t bytes = job->found->kind->label_count;
    uint64_t record = FF_CIFAR_PIXEL_BYTES + bytes, count = batch->bytes / record;
    ff_status status = ff_alloc(&batch->labels, count, bytes, "labels", &batch->error);
    if (status == FF_OK)
        status = ff_read_pieces(part->fd, part->path, batch->labels, bytes, batch->offset, record,
                                count, &batch->error);
    batch->error.status = status;
}

static ff_status list_batch(const ff_cifar *found, ff_source *source, const ff_cifar_batch *batch,
                            ff_listing *listing, ff_error *error) {
    const ff_cifar_kind *kind = found->kind;
    uint64_t record = FF_CIFAR_PIXEL_BYTES + kind->label_count;
    for (uint64_t i = 0; i < batch->bytes / record; i++) {
        const unsigned char *byte = batch->labels + i * kind->label_count;
        int32_t label[2];
        for (uint32_t k = 0; k < kind->label_count; k++) {
            size_t field = kind->label_count - 1 - k;
            uint32_t limit = source->labels.field[field].class_count;
            if (!limit) limit = kind->class_limit[k];
            if (byte[k] >= limit)
                return ff_fail(error, FF_BAD_DATA,
                               "%s: %s: label %u at byte %" PRIu64 ", wanted 0 to %u", found->place,
                               batch->name, byte[k], i * record + k, limit - 1);
            label[field] = byte[k];
        }
        char key[FF_RECORD_KEY_BYTES];
        ff_item item = {.part = batch->part,
                        .offset = batch->offset + i * record,
                        .bytes = record,
                        .key = key,
                        .key_bytes = ff_record_key(key, batch->name, i),
                        .labels = label};
        FF_TRY(ff_listing_add(listing, &item, error));
    }
    return FF_OK;
}

static ff_status list_found(ff_cifar *found, ff_source *source, ff_error *error) {
    FF_TRY(ff_cifar_find(found, source, error));
    FF_TRY(check_batches(found, error));
    source->kind = found->kind->recorded;
    source->raw = (ff_source_raw){.offset = found->kind->python ? 0 : found->kind->label_count,
                                  .channels = 3,
                                  .height = 32,
                                  .width = 32,
                                  .layout = FF_CHW};
    FF_TRY(add_fields(found, source, error));
    if (!found->kind->python) {
        label_reader job = {found, source};
        FF_TRY(ff_parallel_for(source->jobs, found->batch_count, read_labels, &job, error));
        for (size_t i = 0; i < found->batch_count; i++) {
            if (found->batch[i].error.status == FF_OK) continue;
            if (error) *error = found->batch[i].error;
            return found->batch[i].error.status;
        }
    }
    bool alone = found->batch[0].test == found->batch[found->batch_count - 1].test;
    ff_source_split *split = NULL;
    for (size_t i = 0; i < found->batch_count; i++) {
        const ff_cifar_batch *batch = &found->batch[i];
        if (i == 0 || (batch->test && !found->batch[i - 1].test))
            FF_TRY(ff_source_add_split(source,
                                       alone         ? ""
                                       : batch->test ? "test"
                                                     : "train",
                                       &split, error));
        FF_TRY(found->kind->python
                   ? ff_cifar_python_list(found, source, batch, split->listing, error)
                   : list_batch(found, source, batch, split->listing, error));
    }
    return FF_OK;
}

static ff_status cifar_list(ff_source *source, ff_error *error) {
    ff_cifar *found;
    FF_TRY(ff_alloc(&found, 1, sizeof *found, "CIFAR files", error));
    ff_status status = list_found(found, source, error);
    ff_cifar_free(found);
    free(found);
    return status;
}

extern const ff_source_format ff_source_cifar;
const ff_source_format ff_source_cifar = {
    .name = "cifar",
    .elsewhere = true,
    .wanted =
        "CIFAR-10 or CIFAR-100, binary or python version: a .bin file or a pickle, a folder or a "
        ".tar.gz with these",
    .endings = "bin gz /",
    .detect = ff_cifar_detect,
    .list = cifar_list,
    .labels = "in its batches",
    .uses = FF_USES_CLASSES,
};
