#include "tools/ffinspect/sample.h"

#include "format/base/readable.h"
#include "format/cli/interrupt.h"
#include "tools/ffinspect/facts/label.h"
#include "tools/ffinspect/facts/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 6, COLUMNS = 8, CHANNELS = 3, LABEL_VALUES = 24, NAME_LIMIT = 300 };

static void print_value(const ff_metadata *metadata, const void *tensor, size_t index) {
    double value = ff_element(tensor, metadata->dtype, index);
    if (ff_dtype_is_float(metadata->dtype))
        printf(" %9.4g", value);
    else
        printf(" %5.0f", value);
}

/* Prints the upper left corner of the first channels. */
static void print_values(const ff_metadata *metadata, const ff_view *view, const void *tensor) {
    uint32_t channels = metadata->channels < CHANNELS ? metadata->channels : CHANNELS;
    uint32_t rows = view->height < ROWS ? view->height : ROWS;
    uint32_t columns = view->width < COLUMNS ? view->width : COLUMNS;
    for (uint32_t c = 0; c < channels; c++) {
        printf("  channel %u of %u\n", c, metadata->channels);
        for (uint32_t y = 0; y < rows; y++) {
            printf("   ");
            for (uint32_t x = 0; x < columns; x++) {
                size_t pixel = (size_t)y * view->width + x,
                       area = (size_t)view->height * view->width;
                print_value(metadata, tensor,
                            metadata->layout == FF_CHW ? c * area + pixel
                                                       : pixel * metadata->channels + c);
            }
            printf("%s\n", columns < view->width ? "  ..." : "");
        }
        if (rows < view->height) printf("    ...\n");
    }
    if (channels < metadata->channels)
        printf("  ... and %u more channels\n", metadata->channels - channels);
}

static ff_status print_texts(ff_dataset *dataset, ff_reader *reader, uint64_t number,
                             ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    unsigned char key[FF_KEY_LIMIT_BYTES];
    size_t key_bytes;
    ff_buffer text = {0};
    FF_TRY(ff_dataset_key(dataset, number, key, &key_bytes, error));
    ff_status status;
    FF_TRY_DONE(key_bytes ? ff_key_text(&text, key, key_bytes, true, error)
                          : ff_buffer_printf(&text, error, "(empty)"));
    printf("  key       %s\n", text.bytes);
    for (size_t i = 0; i < metadata->field_count; i++) {
        const char *name = metadata->field[i].name;
        text.length = 0;
        FF_TRY_DONE(ff_buffer_printf(&text, error, "  label     "));
        FF_TRY_DONE(ff_readable(&text, name, strlen(name), NAME_LIMIT, error));
        FF_TRY_DONE(ff_buffer_printf(&text, error, ": "));
        FF_TRY_DONE(ff_inspect_label(&text, reader, dataset, number, i, LABEL_VALUES, error));
        printf("%s\n", text.bytes);
    }
done:
    ff_buffer_free(&text);
    return status;
}

static ff_status print_one(ff_dataset *dataset, ff_reader *reader, uint64_t number, void **tensor,
                           size_t *capacity, ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    ff_view view;
    ff_shard_info shard;
    FF_TRY(ff_reader_sample(reader, number, &view, error));
    FF_TRY(ff_reserve(tensor, capacity, view.tensor_bytes, 1, "a sample", error));
    FF_TRY(ff_view_copy(dataset, &view, *tensor, error));
    FF_TRY(ff_dataset_shard(dataset, view.entry.shard, &shard, error));
    const ff_entry *entry = &view.entry;
    printf("sample %" PRIu64 "\n", number);
    bool chw = metadata->layout == FF_CHW;
    printf("  shape     %u x %u x %u %s (%s), %" PRIu64 " bytes\n",
           chw ? metadata->channels : view.height, chw ? view.height : view.width,
           chw ? view.width : metadata->channels, ff_dtype_name(metadata->dtype),
           ff_layout_name(metadata->layout), view.tensor_bytes);
    printf("  place     %s, %s %" PRIu64 ", %" PRIu64 " bytes\n", shard.name,
           metadata->compression == FF_COMPRESSION_NONE ? "offset"
                                                        : "offset in the decompressed payload",
           entry->offset, entry->bytes);
    printf("  checksum  %016" PRIx64 " (of the source %016" PRIx64 ", item %" PRIu64 ")\n",
           entry->checksum, entry->source_checksum, entry->item);
    FF_TRY(print_texts(dataset, reader, number, error));
    print_values(metadata, &view, *tensor);
    return FF_OK;
}

ff_status ff_inspect_print_samples(ff_dataset *dataset, uint64_t begin, uint64_t end,
                                   ff_error *error) {
    ff_reader *reader;
    void *tensor = NULL;
    size_t capacity = 0;
    FF_TRY(ff_reader_open(&reader, dataset, error));
    ff_status status = FF_OK;
    for (uint64_t number = begin; number < end && status == FF_OK && !ferror(stdout); number++) {
        status = ff_interrupt_check(error);
        if (status == FF_OK) status = print_one(dataset, reader, number, &tensor, &capacity, error);
    }
    free(tensor);
    ff_reader_close(&reader);
    return status;
}
