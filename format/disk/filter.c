#include "format/disk/filter.h"

#include "format/base/compiler.h"

#include <stdlib.h>
#include <string.h>

/* A direct lookup finds the index of a 2-byte element, a binary search that of a 4-byte element. */
struct ff_table_lookup {
    size_t element_bytes;
    uint32_t channels;
    uint32_t (*sorted)[256]; /* [channels] values, ascending, each with its index */
    uint8_t (*index)[256];
    int16_t *direct; /* [channels][65536], -1 = absent */
};

static uint32_t load_element(const uint8_t *at, size_t bytes) {
    return bytes == 1 ? *at : bytes == 2 ? ff_load_u16(at) : ff_load_u32(at);
}

ff_status ff_table_lookup_create(ff_table_lookup **out, const ff_metadata *metadata,
                                 ff_error *error) {
    ff_table_lookup *lookup;
    *out = NULL;
    FF_TRY(ff_alloc(&lookup, 1, sizeof *lookup, "a table", error));
    *out = lookup;
    lookup->element_bytes = ff_dtype_bytes(metadata->dtype);
    lookup->channels = metadata->channels;
    size_t bytes = lookup->element_bytes;
    if (bytes <= 2) {
        FF_TRY(ff_alloc(&lookup->direct, metadata->channels, 65536 * sizeof *lookup->direct,
                        "a table", error));
        memset(lookup->direct, 0xff, (size_t)metadata->channels * 65536 * sizeof *lookup->direct);
    } else {
        FF_TRY(ff_alloc(&lookup->sorted, metadata->channels, sizeof *lookup->sorted, "a table",
                        error));
        FF_TRY(
            ff_alloc(&lookup->index, metadata->channels, sizeof *lookup->index, "a table", error));
    }
    for (uint32_t channel = 0; channel < metadata->channels; channel++) {
        const uint8_t *row = metadata->table + channel * 256 * bytes;
        for (int i = 255; i >= 0; i--) { /* among equal values the lowest index is used */
            uint32_t value = load_element(row + (size_t)i * bytes, bytes);
            if (lookup->direct) {
                lookup->direct[(size_t)channel * 65536 + value] = (int16_t)i;
                continue;
            }
            /* Insertion into the sorted tail that holds 255 - i values. */
            int at = i;
            uint32_t *sorted = lookup->sorted[channel];
            uint8_t *index = lookup->index[channel];
            while (at < 255 && sorted[at + 1] < value) {
                sorted[at] = sorted[at + 1];
                index[at] = index[at + 1];
                at++;
            }
            sorted[at] = value;
            index[at] = (uint8_t)i;
        }
    }
    return FF_OK;
}

void ff_table_lookup_destroy(ff_table_lookup **lookup) {
    if (!*lookup) return;
    free((*lookup)->sorted);
    free((*lookup)->index);
    free((*lookup)->direct);
    free(*lookup);
    *lookup = NULL;
}

static int find(const ff_table_lookup *lookup, uint32_t channel, uint32_t value) {
    if (lookup->direct) return lookup->direct[(size_t)channel * 65536 + value];
    const uint32_t *sorted = lookup->sorted[channel];
    int low = 0, high = 255;
    while (low < high) {
        int middle = (low + high) / 2;
        if (sorted[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return sorted[low] == value ? lookup->index[channel][low] : -1;
}

uint64_t ff_filtered_bytes(const ff_metadata *metadata, ff_filter filter, uint64_t tensor_bytes) {
    return filter == FF_FILTER_TABLE ? tensor_bytes / ff_dtype_bytes(metadata->dtype)
                                     : tensor_bytes;
}

/* The rows of a row delta. In CHW each channel is a plane of `height` rows of `width` elements; in
 * HWC one plane holds the whole interleaved rows. Sizes in elements (of one byte when filtered). */
typedef struct rows {
    size_t planes, height, width;
} rows;

static rows rows_of(const ff_metadata *metadata, uint32_t height, uint32_t width) {
    if (metadata->layout == FF_CHW) return (rows){metadata->channels, height, width};
    return (rows){1, height, (size_t)width * metadata->channels};
}

/* From the last row up, so that the row above is still unchanged. */
static void delta_apply(rows shape, uint8_t *bytes) {
    for (size_t plane = 0; plane < shape.planes; plane++, bytes += shape.height * shape.width)
        for (size_t y = shape.height; y-- > 1;)
            for (size_t x = 0; x < shape.width; x++)
                bytes[y * shape.width + x] =
                    (uint8_t)(bytes[y * shape.width + x] - bytes[(y - 1) * shape.width + x]);
}

FF_CLONES static void add_row(uint8_t *restrict row, const uint8_t *restrict above, size_t width) {
    for (size_t x = 0; x < width; x++) row[x] = (uint8_t)(row[x] + above[x]);
}

static void delta_undo(rows shape, uint8_t *bytes) {
    for (size_t plane = 0; plane < shape.planes; plane++, bytes += shape.height * shape.width)
        for (size_t y = 1; y < shape.height; y++)
            add_row(bytes + y * shape.width, bytes + (y - 1) * shape.width, shape.width);
}

static bool table_apply(const ff_metadata *metadata, const ff_table_lookup *lookup, size_t pixels,
                        const uint8_t *tensor, uint8_t *indexes) {
    size_t bytes = lookup->element_bytes, channels = metadata->channels;
    size_t count = pixels * channels;
    for (size_t i = 0; i < count; i++) {
        uint32_t channel = (uint32_t)(metadata->layout == FF_CHW ? i / pixels : i % channels);
        int index = find(lookup, channel, load_element(tensor + i * bytes, bytes));
        if (index < 0) return false;
        indexes[i] = (uint8_t)index;
    }
    return true;
}

static void table_undo16(uint16_t *restrict to, const uint8_t *restrict index, size_t count,
                         const uint8_t *table) {
    uint16_t values[256];
    memcpy(values, table, sizeof values);
    for (size_t i = 0; i < count; i++) to[i] = values[index[i]];
}

static void table_undo(const ff_metadata *metadata, size_t pixels, const uint8_t *index,
                       uint8_t *tensor) {
    size_t bytes = ff_dtype_bytes(metadata->dtype), channels = metadata->channels;
    bool planar = metadata->layout == FF_CHW || channels == 1;
    for (size_t channel = 0; channel < channels; channel++) {
        const uint8_t *table = metadata->table + channel * 256 * bytes;
        size_t first = planar ? channel * pixels : channel, step = planar ? 1 : channels;
        if (planar && bytes == 2 && (uintptr_t)tensor % 2 == 0) {
            table_undo16((uint16_t *)(void *)tensor + first, index + first, pixels, table);
            continue;
        }
        for (size_t i = 0; i < pixels; i++) {
            size_t at = first + i * step;
            memcpy(tensor + at * bytes, table + index[at] * bytes, bytes);
        }
    }
}

static void shuffle(size_t bytes, size_t count, const uint8_t *from, uint8_t *to, bool undo) {
    for (size_t k = 0; k < bytes; k++)
        for (size_t i = 0; i < count; i++) {
            if (undo)
                to[i * bytes + k] = from[k * count + i];
            else
                to[k * count + i] = from[i * bytes + k];
        }
}

FF_CLONES static void unshuffle2(uint8_t *restrict to, const uint8_t *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) {
        to[2 * i] = from[i];
        to[2 * i + 1] = from[count + i];
    }
}

bool ff_filter_apply(const ff_metadata *metadata, ff_filter filter, const ff_table_lookup *lookup,
                     uint32_t height, uint32_t width, const uint8_t *tensor, uint8_t *filtered) {
    size_t bytes = ff_dtype_bytes(metadata->dtype), pixels = (size_t)height * width;
    rows shape = rows_of(metadata, height, width);
    switch (filter) {
    case FF_FILTER_SHUFFLE:
        shuffle(bytes, pixels * metadata->channels, tensor, filtered, false);
        break;
    case FF_FILTER_TABLE:
        if (!table_apply(metadata, lookup, pixels, tensor, filtered)) return false;
        delta_apply(shape, filtered);
        break;
    case FF_FILTER_DELTA:
        shape.width *= bytes;
        memcpy(filtered, tensor, pixels * metadata->channels * bytes);
        delta_apply(shape, filtered);
        break;
    default: memcpy(filtered, tensor, pixels * metadata->channels * bytes);
    }
    return true;
}

void ff_filter_undo(const ff_metadata *metadata, ff_filter filter, uint32_t height, uint32_t width,
                    uint8_t *filtered, uint8_t *tensor) {
    size_t bytes = ff_dtype_bytes(metadata->dtype), pixels = (size_t)height * width;
    size_t count = pixels * metadata->channels;
    rows shape = rows_of(metadata, height, width);
    switch (filter) {
    case FF_FILTER_SHUFFLE:
        if (bytes == 2)
            unshuffle2(tensor, filtered, count);
        else
            shuffle(bytes, count, filtered, tensor, true);
        break;
    case FF_FILTER_TABLE:
        delta_undo(shape, filtered);
        table_undo(metadata, pixels, filtered, tensor);
        break;
    case FF_FILTER_DELTA:
        shape.width *= bytes;
        delta_undo(shape, filtered);
        memcpy(tensor, filtered, count * bytes);
        break;
    default: memcpy(tensor, filtered, count * bytes);
    }
}
