#include "tools/ffpack/decode/exif.h"

#include "format/base/bytes.h"

enum { TAG_ORIENTATION = 0x0112, MOST_ORIENTATION = 8 };

/* A rational's value if it is a whole number, else 0. */
static uint64_t whole(const ff_tiff_file *from, const ff_tiff_entry *entry) {
    uint32_t numerator = (uint32_t)ff_tiff_load(from, entry->values, 4);
    uint32_t denominator = (uint32_t)ff_tiff_load(from, entry->values + 4, 4);
    if (entry->type == FF_TIFF_SIGNED_RATIONAL && denominator >> 31) {
        numerator = -numerator;
        denominator = -denominator;
    }
    return denominator && numerator % denominator == 0 ? numerator / denominator : 0;
}

/* 1 to 8 if the first value equals one of these, whatever its type of number. */
static unsigned orientation_of(const ff_tiff_file *from, const ff_tiff_entry *entry) {
    uint64_t value = 0, bits;
    double real = -1;
    switch (entry->type) {
    case FF_TIFF_FLOAT:
        real = (double)ff_bits_float((uint32_t)ff_tiff_load(from, entry->values, 4));
        break;
    case FF_TIFF_DOUBLE:
        bits = ff_tiff_load(from, entry->values, 8);
        memcpy(&real, &bits, sizeof real);
        break;
    case FF_TIFF_RATIONAL:
    case FF_TIFF_SIGNED_RATIONAL: value = whole(from, entry); break;
    default: value = ff_tiff_integer(from, entry, 0); break;
    }
    for (unsigned k = FF_EXIF_UPRIGHT; k <= MOST_ORIENTATION; k++)
        if (value == k || real == k) return k;
    return FF_EXIF_UPRIGHT;
}

unsigned ff_exif_directory_orientation(const ff_tiff_file *file, uint64_t offset) {
    ff_tiff_cursor cursor;
    ff_tiff_entry entry;
    ff_tiff_begin(&cursor, file, offset);
    while (ff_tiff_next(&cursor, &entry))
        if (entry.tag == TAG_ORIENTATION) return orientation_of(file, &entry);
    return FF_EXIF_NONE;
}

unsigned ff_exif_orientation(const uint8_t *bytes, size_t length) {
    ff_tiff_file file;
    if (length >= 6 && memcmp(bytes, "Exif\0", 6) == 0) {
        bytes += 6;
        length -= 6;
    }
    /* Pillow reads only 8 bytes of a header, too few for a BigTIFF's. */
    if (!ff_tiff_open(&file, bytes, length) || file.wide) return FF_EXIF_NONE;
    return ff_exif_directory_orientation(&file, ff_tiff_first(&file));
}
