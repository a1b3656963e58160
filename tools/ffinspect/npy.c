#include "tools/ffinspect/npy.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "format/cli/say.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AXES = 3, CHUNK_BYTES = 1 << 20 };

ff_status ff_inspect_npy_header(ff_buffer *header, ff_dtype dtype, const uint64_t *shape,
                                size_t axes, ff_error *error) {
    ff_buffer text = {0};
    unsigned char start[10] = "\x93NUMPY\x01";
    ff_status status;
    FF_TRY_DONE(ff_buffer_printf(&text, error, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                                 ff_dtype_numpy(dtype)));
    for (size_t i = 0; i < axes; i++)
        FF_TRY_DONE(ff_buffer_printf(&text, error, "%s%" PRIu64, i ? ", " : "", shape[i]));
    FF_TRY_DONE(ff_buffer_printf(&text, error, axes == 1 ? ",), }" : "), }"));
    /* Magic and length (10 bytes), the text, blanks and a newline: together a multiple of 64
     * bytes. */
    const size_t padded = (10 + text.length + 1 + 63) / 64 * 64 - 10;
    while (text.length + 1 < padded) FF_TRY_DONE(ff_buffer_add(&text, " ", 1, error));
    FF_TRY_DONE(ff_buffer_add(&text, "\n", 1, error));
    ff_store_u16(start + 8, (uint16_t)padded);
    FF_TRY_DONE(ff_buffer_add(header, start, sizeof start, error));
    FF_TRY_DONE(ff_buffer_add(header, text.bytes, text.length, error));
done:
    ff_buffer_free(&text);
    return status;
}

/* [C,H,W] or [H,W,C] */
static void sample_shape(const ff_metadata *metadata, uint32_t height, uint32_t width,
                         uint64_t shape[AXES]) {
    bool chw = metadata->layout == FF_CHW;
    shape[0] = chw ? metadata->channels : height;
    shape[1] = chw ? height : width;
    shape[2] = chw ? width : metadata->channels;
}

typedef struct npy_writing {
    ff_dataset *dataset;
    const ff_metadata *metadata;
    ff_reader *reader;
    const char *path;
    uint64_t begin, end;
    void *tensor;       /* of the largest sample */
    ff_buffer labelled; /* names of the label files */
} npy_writing;

/* ---- one array of samples -------------------------------------------------------------------- */

/* A file is filled in storage order, so that no compressed frame is decompressed twice. */
static ff_status write_samples(const npy_writing *writing, ff_file *file, uint64_t header_bytes,
                               const ff_storage_order *order, ff_error *error) {
    ff_progress progress;
    const bool jumps = ff_storage_order_differs(order);
    uint64_t done = 0, total = jumps ? ff_dataset_count(writing->dataset) : writing->end;
    ff_status status = FF_OK;
    ff_progress_begin(&progress, "writing", "samples", writing->end - writing->begin, false);
    for (uint64_t i = jumps ? 0 : writing->begin; i < total && status == FF_OK; i++) {
        uint64_t number = ff_storage_order_at(order, i);
        ff_view view;
        if (number < writing->begin || number >= writing->end) continue;
        FF_TRY_DONE(ff_interrupt_check(error));
        FF_TRY_DONE(ff_reader_sample(writing->reader, number, &view, error));
        FF_TRY_DONE(ff_view_copy(writing->dataset, &view, writing->tensor, error));
        if (jumps)
            status =
                ff_file_rewrite(file, header_bytes + (number - writing->begin) * view.tensor_bytes,
                                writing->tensor, view.tensor_bytes, error);
        else
            status = ff_file_write(file, writing->tensor, view.tensor_bytes, error);
        ff_progress_update(&progress, ++done, NULL);
    }
done:
    ff_progress_end(&progress);
    return status;
}

static ff_status fill_array(const npy_writing *writing, ff_file *file, ff_error *error) {
    const ff_metadata *metadata = writing->metadata;
    uint64_t shape[1 + AXES] = {writing->end - writing->begin};
    ff_storage_order order = {0};
    sample_shape(metadata, metadata->height, metadata->width, shape + 1);
    ff_buffer header = {0};
    ff_status status;
    FF_TRY_DONE(ff_inspect_npy_header(&header, metadata->dtype, shape, 1 + AXES, error));
    if (ff_file_seekable(file))
        FF_TRY_DONE(ff_dataset_storage_order(writing->dataset, &order, error));
    FF_TRY_DONE(ff_file_write(file, header.bytes, header.length, error));
    FF_TRY_DONE(write_samples(writing, file, header.length, &order, error));
done:
    ff_storage_order_free(&order);
    ff_buffer_free(&header);
    return status;
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* STEM_FIELD.npy; bytes of the field's name that are not allowed in a file name, or are not
 * printable ASCII, become %XX. */
static ff_status label_path(const npy_writing *writing, const ff_field *field, ff_buffer *path,
                            ff_error *error) {
    size_t stem = ff_path_length(writing->path);
    if (stem > 4 && !memcmp(writing->path + stem - 4, ".npy", 4)) stem -= 4;
    FF_TRY(ff_buffer_printf(path, error, "%.*s_", (int)stem, writing->path));
    for (const char *at = field->name; *at; at++)
        FF_TRY(ff_buffer_printf(path, error, *at > ' ' && *at < 127 && *at != '/' ? "%c" : "%%%02X",
                                (unsigned char)*at));
    return ff_buffer_printf(path, error, ".npy");
}

static ff_status fill_labels(const npy_writing *writing, size_t index, ff_file *file,
                             ff_error *error) {
    const ff_field *field = &writing->metadata->field[index];
    const uint64_t shape[2] = {writing->end - writing->begin, field->width};
    const size_t bytes = ff_field_bytes(field);
    char *values = NULL;
    ff_buffer text = {0};
    ff_status status;
    FF_TRY_DONE(ff_inspect_npy_header(&text, field->dtype, shape,
                                      field->kind == FF_FIELD_CLASS ? 1 : 2, error));
    FF_TRY_DONE(ff_alloc(&values, bytes, 1, "a label", error));
    for (uint64_t i = writing->begin; i < writing->end; i++) {
        FF_TRY_DONE(ff_interrupt_check(error));
        FF_TRY_DONE(ff_reader_label(writing->reader, i, index, values, error));
        FF_TRY_DONE(ff_buffer_add(&text, values, bytes, error));
        if (text.length < CHUNK_BYTES) continue;
        FF_TRY_DONE(ff_file_write(file, text.bytes, text.length, error));
        text.length = 0;
    }
    FF_TRY_DONE(ff_file_write(file, text.bytes, text.length, error));
done:
    free(values);
    ff_buffer_free(&text);
    return status;
}

/* Writes a label field's array to a separate file next to the samples' file. */
static ff_status write_label(npy_writing *writing, size_t index, ff_error *error) {
    ff_buffer path = {0};
    ff_file *file = NULL;
    ff_status status;
    FF_TRY_DONE(label_path(writing, &writing->metadata->field[index], &path, error));
    FF_TRY_DONE(ff_file_replace(&file, path.bytes, error));
    FF_TRY_DONE(fill_labels(writing, index, file, error));
    FF_TRY_DONE(ff_file_commit(&file, error));
    FF_TRY_DONE(ff_buffer_printf(&writing->labelled, error, "%s%s",
                                 writing->labelled.length ? ", " : "", path.bytes));
done:
    ff_file_discard(&file);
    ff_buffer_free(&path);
    return status;
}

static ff_status write_labels(npy_writing *writing, ff_error *error) {
    for (size_t i = 0; i < writing->metadata->field_count; i++)
        if (writing->metadata->field[i].width) FF_TRY(write_label(writing, i, error));
    return FF_OK;
}

/* If label files exist but the samples' file does not, no earlier call wrote the label files. */
static ff_status check_labels(const npy_writing *writing, ff_error *error) {
    struct stat info;
    ff_status status = FF_OK;
    if (!lstat(writing->path, &info)) return FF_OK;
    for (size_t i = 0; i < writing->metadata->field_count && status == FF_OK; i++) {
        ff_buffer path = {0};
        if (!writing->metadata->field[i].width) continue;
        status = label_path(writing, &writing->metadata->field[i], &path, error);
        if (status == FF_OK && !lstat(path.bytes, &info))
            status = ff_fail(error, FF_USAGE,
                             "--npy: %s would have its labels in %s, which is there already and "
                             "may hold something else; move it away, or choose another name",
                             writing->path, path.bytes);
        ff_buffer_free(&path);
    }
    return status;
}

/* ---- a folder of arrays ---------------------------------------------------------------------- */

/* A sample's file in the folder; its number is padded to the last number's digits, so that names
 * sort. */
static ff_status sample_path(const npy_writing *writing, const char *folder, uint64_t number,
                             char **path, ff_error *error) {
    int digits = snprintf(NULL, 0, "%" PRIu64, writing->end - 1);
    return ff_format(path, error, "%s/%0*" PRIu64 ".npy", folder, digits, number);
}

static ff_status write_one(const npy_writing *writing, const char *folder, uint64_t number,
                           ff_error *error) {
    ff_view view;
    uint64_t shape[AXES];
    char *path = NULL;
    ff_file *file = NULL;
    ff_buffer header = {0};
    FF_TRY(ff_interrupt_check(error));
    FF_TRY(ff_reader_sample(writing->reader, number, &view, error));
    FF_TRY(ff_view_copy(writing->dataset, &view, writing->tensor, error));
    sample_shape(writing->metadata, view.height, view.width, shape);
    ff_status status;
    FF_TRY_DONE(ff_inspect_npy_header(&header, writing->metadata->dtype, shape, AXES, error));
    FF_TRY_DONE(sample_path(writing, folder, number, &path, error));
    FF_TRY_DONE(ff_file_replace(&file, path, error));
    FF_TRY_DONE(ff_file_write(file, header.bytes, header.length, error));
    FF_TRY_DONE(ff_file_write(file, writing->tensor, view.tensor_bytes, error));
    FF_TRY_DONE(ff_file_commit(&file, error));
done:
    ff_file_discard(&file);
    free(path);
    ff_buffer_free(&header);
    return status;
}

static void remove_folder(const npy_writing *writing, const char *folder, uint64_t end) {
    for (uint64_t i = writing->begin; i < end; i++) {
        char *path;
        if (sample_path(writing, folder, i, &path, NULL) != FF_OK) continue;
        unlink(path);
        free(path);
    }
    rmdir(folder);
}

static ff_status fill_folder(npy_writing *writing, char *folder, ff_error *error) {
    ff_progress progress;
    uint64_t next = writing->begin;
    ff_status status = FF_OK;
    mode_t mask = umask(0);
    umask(mask);
    if (!mkdtemp(folder)) return ff_fail_errno(error, "%s: cannot create the folder", folder);
    if (chmod(folder, 0777 & ~mask))
        status = ff_fail_errno(error, "%s: cannot set the mode", folder);
    ff_progress_begin(&progress, "writing", "samples", writing->end - writing->begin, false);
    while (status == FF_OK && next < writing->end) {
        status = write_one(writing, folder, next++, error);
        ff_progress_update(&progress, next - writing->begin, NULL);
    }
    ff_progress_end(&progress);
    if (status == FF_OK) status = write_labels(writing, error);
    if (status == FF_OK && rename(folder, writing->path))
        status = ff_fail_errno(error, "%s: cannot rename the finished folder to it", writing->path);
    if (status != FF_OK) remove_folder(writing, folder, next);
    return status;
}

static ff_status write_folder(npy_writing *writing, ff_error *error) {
    struct stat info;
    char *folder;
    if (!strcmp(writing->path, "-") || !lstat(writing->path, &info))
        return ff_fail(
            error, FF_USAGE,
            "%s: its samples have different sizes, so --npy writes an array each: name a "
            "new folder for them, not '%s'",
            ff_dataset_path(writing->dataset), writing->path);
    FF_TRY(check_labels(writing, error));
    FF_TRY(ff_format(&folder, error, "%.*s.XXXXXX", (int)ff_path_length(writing->path),
                     writing->path));
    ff_status status = fill_folder(writing, folder, error);
    free(folder);
    return status;
}

/* ---- either ---------------------------------------------------------------------------------- */

static bool ends_in(const char *path, const char *ending) {
    const size_t length = strlen(path), last = strlen(ending);
    return length > last && !strcmp(path + length - last, ending);
}

static ff_status write_array(npy_writing *writing, ff_error *error) {
    const bool labels = ends_in(writing->path, ".npy");
    ff_file *file = NULL;
    ff_status status;
    if (labels) FF_TRY(check_labels(writing, error));
    FF_TRY_DONE(ff_file_replace(&file, writing->path, error));
    FF_TRY_DONE(fill_array(writing, file, error));
    if (labels) FF_TRY_DONE(write_labels(writing, error));
    FF_TRY_DONE(ff_file_commit(&file, error));
done:
    ff_file_discard(&file);
    return status;
}

static bool has_labels(const ff_metadata *metadata) {
    for (size_t i = 0; i < metadata->field_count; i++)
        if (metadata->field[i].width) return true;
    return false;
}

ff_status ff_inspect_write_npy(ff_dataset *dataset, const char *path, uint64_t begin, uint64_t end,
                               char **sentence, ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    npy_writing writing = {
        .dataset = dataset, .metadata = metadata, .path = path, .begin = begin, .end = end};
    ff_status status;
    *sentence = NULL;
    if (ends_in(path, ".npz"))
        return ff_fail(error, FF_USAGE, "--npy: %s: archives (.npz) are not written; name %s", path,
                       metadata->variable_size ? "a new folder for an array a sample"
                                               : "a file for one array (.npy)");
    FF_TRY_DONE(ff_alloc_aligned(
        &writing.tensor, ff_metadata_tensor_bytes(metadata, metadata->height, metadata->width), 1,
        0, "a sample", error));
    FF_TRY_DONE(ff_reader_open(&writing.reader, dataset, error));
    FF_TRY_DONE(metadata->variable_size ? write_folder(&writing, error)
                                        : write_array(&writing, error));
    FF_TRY_DONE(ff_format(sentence, error, "%s: %s as stored%s; %s%s", path,
                          ff_say_count(end - begin, "sample", "samples").text,
                          metadata->variable_size ? ", an array each in this folder" : "",
                          writing.labelled.length ? "labels in "
                          : has_labels(metadata)
                              ? "no labels: they are written only next to a name that ends in .npy"
                              : "there are no labels",
                          writing.labelled.length ? writing.labelled.bytes : ""));
done:
    ff_reader_close(&writing.reader);
    free(writing.tensor);
    ff_buffer_free(&writing.labelled);
    return status;
}
