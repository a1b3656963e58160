#include "tools/ffpack/decode/tiff_directory.h"

#include <string.h>

enum { HEADER_BYTES = 8, WIDE_HEADER_BYTES = 16 };

bool ff_tiff_open(ff_tiff_file *file, const uint8_t *bytes, size_t length) {
    static const uint8_t headers[][4] = {/* TiffImagePlugin.py, PREFIXES */
                                         {'M', 'M', 0, 42}, {'I', 'I', 42, 0}, {'M', 'M', 42, 0},
                                         {'I', 'I', 0, 42}, {'M', 'M', 0, 43}, {'I', 'I', 43, 0}};
    if (length < HEADER_BYTES) return false;
    *file = (ff_tiff_file){bytes, length, bytes[0] == 'M', bytes[2] == 43};
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        if (memcmp(bytes, headers[i], 4) == 0) return true;
    return false;
}

uint64_t ff_tiff_load(const ff_tiff_file *file, const uint8_t *at, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++)
        value |= (uint64_t)at[file->big_endian ? size - 1 - i : i] << 8 * i;
    return value;
}

uint64_t ff_tiff_first(const ff_tiff_file *file) {
    if (!file->wide) return ff_tiff_load(file, file->bytes + 4, 4);
    return file->length < WIDE_HEADER_BYTES ? 0 : ff_tiff_load(file, file->bytes + 8, 8);
}

/* Bytes of a value of a type; 0 if Pillow does not know the type. */
static unsigned type_bytes(unsigned type) {
    static const uint8_t sizes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};
    return type < sizeof sizes ? sizes[type] : 0;
}

void ff_tiff_begin(ff_tiff_cursor *cursor, const ff_tiff_file *file, uint64_t offset) {
    unsigned count_bytes = file->wide ? 8 : 2, entry_bytes = file->wide ? 20 : 12;
    *cursor = (ff_tiff_cursor){.file = file};
    if (offset > file->length || file->length - offset < count_bytes) return;
    uint64_t most = (file->length - offset - count_bytes) / entry_bytes;
    cursor->at = file->bytes + offset + count_bytes;
    cursor->left = ff_tiff_load(file, file->bytes + offset, count_bytes);
    if (cursor->left > most) cursor->left = most;
}

bool ff_tiff_next(ff_tiff_cursor *cursor, ff_tiff_entry *entry) {
    const ff_tiff_file *file = cursor->file;
    unsigned word = file->wide ? 8 : 4;
    while (cursor->left > 0) {
        const uint8_t *at = cursor->at;
        cursor->left--;
        cursor->at += 4 + 2 * word;
        *entry = (ff_tiff_entry){.tag = (unsigned)ff_tiff_load(file, at, 2),
                                 .type = (unsigned)ff_tiff_load(file, at + 2, 2),
                                 .count = ff_tiff_load(file, at + 4, word),
                                 .values = at + 4 + word};
        unsigned size = type_bytes(entry->type);
        uint64_t bytes;
        if (size == 0 || entry->count == 0) continue;
        if (__builtin_mul_overflow(entry->count, (uint64_t)size, &bytes)) break;
        if (bytes > word) {
            uint64_t place = ff_tiff_load(file, entry->values, word);
            if (place > file->length || bytes > file->length - place) break;
            entry->values = file->bytes + place;
        }
        return true;
    }
    cursor->left = 0;
    return false;
}

uint64_t ff_tiff_integer(const ff_tiff_file *file, const ff_tiff_entry *entry, uint64_t index) {
    switch (entry->type) {
    case FF_TIFF_BYTE:
    case FF_TIFF_ASCII:
    case FF_TIFF_UNDEFINED:
    case FF_TIFF_RATIONAL:
    case FF_TIFF_SIGNED_RATIONAL:
    case FF_TIFF_FLOAT:
    case FF_TIFF_DOUBLE: return UINT64_MAX;
    default: break;
    }
    unsigned size = type_bytes(entry->type);
    return ff_tiff_load(file, entry->values + index * size, size);
}
