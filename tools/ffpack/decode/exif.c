#include "tools/ffpack/decode/exif.h"

#include "format/base/bytes.h"

#include <stdbool.h>

enum { TAG_ORIENTATION = 0x0112, HEADER_BYTES = 8, MOST_ORIENTATION = 8 };

typedef struct record {
    const uint8_t *bytes;
    size_t length;
    bool big_endian;
    bool wide; /* BigTIFF: offsets and counts of 64 bits */
} record;

/* An unsigned number of 1, 2, 4 or 8 bytes. */
static uint64_t load(const record *from, const uint8_t *at, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++)
        value |= (uint64_t)at[from->big_endian ? size - 1 - i : i] << 8 * i;
    return value;
}

static bool open_record(record *out, const uint8_t *bytes, size_t length) {
    static const uint8_t headers[][4] = {/* TiffImagePlugin.py, PREFIXES */
                                         {'M', 'M', 0, 42}, {'I', 'I', 42, 0}, {'M', 'M', 42, 0},
                                         {'I', 'I', 0, 42}, {'M', 'M', 0, 43}, {'I', 'I', 43, 0}};
    if (length < HEADER_BYTES) return false;
    *out = (record){bytes, length, bytes[0] == 'M', bytes[2] == 43};
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        if (memcmp(bytes, headers[i], 4) == 0) return true;
    return false;
}

/* Bytes of a value of a type; 0 where Pillow does not know the type. */
static unsigned type_size(unsigned type) {
    static const uint8_t sizes[] = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};
    return type < sizeof sizes ? sizes[type] : 0;
}

/* 1 to 8 where the number equals one of them. */
static unsigned orientation_of(const record *from, unsigned type, const uint8_t *at) {
    enum { BYTE = 1, ASCII = 2, RATIONAL = 5, UNDEFINED = 7, SIGNED_RATIONAL = 10 };
    enum { FLOAT = 11, DOUBLE = 12 };
    uint64_t value = 0;
    double real = -1;
    if (type == BYTE || type == ASCII || type == UNDEFINED) return FF_EXIF_UPRIGHT; /* text */
    if (type == FLOAT) {
        real = (double)ff_bits_float((uint32_t)load(from, at, 4));
    } else if (type == DOUBLE) {
        uint64_t bits = load(from, at, 8);
        memcpy(&real, &bits, sizeof real);
    } else if (type == RATIONAL || type == SIGNED_RATIONAL) {
        uint32_t numerator = (uint32_t)load(from, at, 4);
        uint32_t denominator = (uint32_t)load(from, at + 4, 4);
        if (type == SIGNED_RATIONAL && denominator >> 31) {
            numerator = -numerator;
            denominator = -denominator;
        }
        if (denominator && numerator % denominator == 0) value = numerator / denominator;
    } else {
        value = load(from, at, type_size(type));
    }
    for (unsigned k = FF_EXIF_UPRIGHT; k <= MOST_ORIENTATION; k++)
        if (value == k || real == k) return k;
    return FF_EXIF_UPRIGHT;
}

static unsigned read_directory(const record *from, uint64_t offset) {
    unsigned orientation = FF_EXIF_UPRIGHT;
    unsigned count_bytes = from->wide ? 8 : 2, word = from->wide ? 8 : 4;
    unsigned entry_bytes = 4 + 2 * word;
    if (offset > from->length || from->length - offset < count_bytes) return orientation;
    const uint8_t *at = from->bytes + offset;
    uint64_t left = from->length - offset - count_bytes;
    uint64_t count = load(from, at, count_bytes);
    if (count > left / entry_bytes) count = left / entry_bytes;
    at += count_bytes;
    for (; count > 0; count--, at += entry_bytes) {
        unsigned type = (unsigned)load(from, at + 2, 2), size = type_size(type);
        uint64_t values = load(from, at + 4, word), bytes;
        if (size == 0 || values == 0) continue;
        const uint8_t *value = at + 4 + word;
        if (__builtin_mul_overflow(values, (uint64_t)size, &bytes)) break;
        if (bytes > word) {
            uint64_t place = load(from, value, word);
            /* Pillow stops at values that are cut off, and keeps what it has. */
            if (place > from->length || bytes > from->length - place) break;
            value = from->bytes + place;
        }
        if (load(from, at, 2) == TAG_ORIENTATION) orientation = orientation_of(from, type, value);
    }
    return orientation;
}

unsigned ff_exif_orientation(const uint8_t *bytes, size_t length) {
    record found;
    if (length >= 6 && memcmp(bytes, "Exif\0", 6) == 0) {
        bytes += 6;
        length -= 6;
    }
    /* Pillow reads only 8 bytes of a header, too few for a BigTIFF's. */
    if (!open_record(&found, bytes, length) || found.wide) return FF_EXIF_UPRIGHT;
    return read_directory(&found, load(&found, bytes + 4, 4));
}

unsigned ff_exif_directory_orientation(const uint8_t *bytes, size_t length, uint64_t offset) {
    record found;
    if (!open_record(&found, bytes, length)) return FF_EXIF_UPRIGHT;
    return read_directory(&found, offset);
}
