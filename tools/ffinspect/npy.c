#include "tools/ffinspect/npy.h"

#include "format/base/interrupt.h"
#include "format/base/progress.h"
#include "tools/ffinspect/access.h"
#include "tools/ffinspect/outfile.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *description(ff_dtype dtype) {
    switch (dtype) {
    case FF_U8: return "|u1";
    case FF_F16: return "<f2";
    case FF_F32: return "<f4";
    default: return "<u2"; /* u16, and the bits of bf16, which NumPy has no type for */
    }
}

ff_status ff_inspect_npy_header(ff_buffer *header, const ff_metadata *metadata, uint64_t count,
                                ff_error *error) {
    bool chw = metadata->layout == FF_CHW;
    ff_buffer text = {0};
    ff_status status = ff_buffer_printf(
        &text, error,
        "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRIu64 ", %u, %u, %u), }",
        description(metadata->dtype), count, chw ? metadata->channels : metadata->height,
        chw ? metadata->height : metadata->width, chw ? metadata->width : metadata->channels);
    /* Magic and length (10 bytes), the text, blanks and a newline: a multiple of 64 bytes. */
    size_t padded = (10 + text.length + 1 + 63) / 64 * 64 - 10;
    while (status == FF_OK && text.length + 1 < padded)
        status = ff_buffer_add(&text, " ", 1, error);
    if (status == FF_OK) status = ff_buffer_add(&text, "\n", 1, error);
    unsigned char start[10] = "\x93NUMPY\x01";
    ff_store_u16(start + 8, (uint16_t)padded);
    if (status == FF_OK) status = ff_buffer_add(header, start, sizeof start, error);
    if (status == FF_OK) status = ff_buffer_add(header, text.bytes, text.length, error);
    ff_buffer_free(&text);
    return status;
}

typedef struct npy_writing {
    ff_dataset *dataset;
    ff_outfile *file;
    uint64_t begin, end;
    uint64_t *order; /* of storage, NULL = numbers */
    uint64_t header_bytes, tensor_bytes;
    void *tensor;
} npy_writing;

/* A file is filled in the order of storage, so that no compressed frame is undone twice. */
static ff_status write_samples(npy_writing *writing, ff_reader *reader, ff_error *error) {
    ff_progress progress;
    uint64_t done = 0, total = writing->order ? ff_dataset_count(writing->dataset) : writing->end;
    ff_status status = FF_OK;
    ff_progress_begin(&progress, "writing", "samples", writing->end - writing->begin, false);
    for (uint64_t i = writing->order ? 0 : writing->begin; i < total && status == FF_OK; i++) {
        uint64_t number = writing->order ? writing->order[i] : i;
        ff_view view;
        if (number < writing->begin || number >= writing->end) continue;
        FF_TRY_DONE(ff_interrupt_check(error));
        FF_TRY_DONE(ff_reader_sample(reader, number, &view, error));
        FF_TRY_DONE(ff_inspect_copy(writing->dataset, &view, writing->tensor, error));
        if (writing->order)
            status = ff_outfile_write_at(writing->file,
                                         writing->header_bytes +
                                             (number - writing->begin) * writing->tensor_bytes,
                                         writing->tensor, writing->tensor_bytes, error);
        else
            status = ff_outfile_write(writing->file, writing->tensor, writing->tensor_bytes, error);
        ff_progress_update(&progress, ++done, NULL);
    }
done:
    ff_progress_end(&progress);
    return status;
}

ff_status ff_inspect_write_npy(ff_dataset *dataset, const char *path, uint64_t begin, uint64_t end,
                               ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    if (metadata->variable_size)
        return ff_fail(error, FF_USAGE,
                       "%s: its samples have different sizes, and an array has one shape: --npy "
                       "cannot write them",
                       ff_dataset_path(dataset));
    npy_writing writing = {
        .dataset = dataset,
        .begin = begin,
        .end = end,
        .tensor_bytes = ff_metadata_tensor_bytes(metadata, metadata->height, metadata->width)};
    ff_reader *reader = NULL;
    ff_buffer header = {0};
    ff_status status;
    FF_TRY_DONE(ff_inspect_npy_header(&header, metadata, end - begin, error));
    writing.header_bytes = header.length;
    FF_TRY_DONE(ff_alloc_aligned(&writing.tensor, writing.tensor_bytes, 1, 0, "a sample", error));
    FF_TRY_DONE(ff_reader_open(&reader, dataset, error));
    FF_TRY_DONE(ff_outfile_open(&writing.file, path, error));
    if (ff_outfile_seekable(writing.file))
        FF_TRY_DONE(ff_inspect_storage_order(dataset, &writing.order, error));
    FF_TRY_DONE(ff_outfile_write(writing.file, header.bytes, header.length, error));
    FF_TRY_DONE(write_samples(&writing, reader, error));
    FF_TRY_DONE(ff_outfile_commit(&writing.file, error));
done:
    ff_outfile_discard(&writing.file);
    ff_reader_close(&reader);
    free(writing.order);
    free(writing.tensor);
    ff_buffer_free(&header);
    return status;
}
