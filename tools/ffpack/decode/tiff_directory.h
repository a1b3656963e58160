/* The tags of a TIFF file (TIFF 6.0, section 2; BigTIFF too) or of an EXIF record, which has the
 * same form. Read as Pillow reads them (TiffImagePlugin.py, ImageFileDirectory_v2.load): tags of
 * unknown types and without values are skipped; a truncated directory, or truncated values, end it;
 * of repeated tags the last is used (by the caller).
 *
 * Nothing is copied or allocated: views are valid as long as the bytes. Thread-safe. */
#ifndef FF_FFPACK_TIFF_DIRECTORY_H
#define FF_FFPACK_TIFF_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ff_tiff_file {
    const uint8_t *bytes;
    size_t length;
    bool big_endian;
    bool wide; /* BigTIFF: offsets and counts of 64 bits */
} ff_tiff_file;

/* Types of values that are not integers. */
enum {
    FF_TIFF_BYTE = 1,
    FF_TIFF_ASCII = 2,
    FF_TIFF_SHORT = 3,
    FF_TIFF_RATIONAL = 5,
    FF_TIFF_UNDEFINED = 7,
    FF_TIFF_SIGNED_RATIONAL = 10,
    FF_TIFF_FLOAT = 11,
    FF_TIFF_DOUBLE = 12
};

typedef struct ff_tiff_entry {
    unsigned tag, type;
    uint64_t count;        /* number of values, at least 1 */
    const uint8_t *values; /* all values, within the file */
} ff_tiff_entry;

typedef struct ff_tiff_cursor {
    const ff_tiff_file *file;
    const uint8_t *at;
    uint64_t left; /* entries */
} ff_tiff_cursor;

/* Whether the bytes begin with a header that Pillow knows; fills *file then. */
bool ff_tiff_open(ff_tiff_file *file, const uint8_t *bytes, size_t length);

/* The offset of the first directory from the header; 0 = none. */
uint64_t ff_tiff_first(const ff_tiff_file *file);

/* Starts iterating the directory at `offset`, which may be anywhere. */
void ff_tiff_begin(ff_tiff_cursor *cursor, const ff_tiff_file *file, uint64_t offset);
bool ff_tiff_next(ff_tiff_cursor *cursor, ff_tiff_entry *entry);

/* An unsigned number of 1, 2, 4 or 8 bytes in the file's byte order. */
uint64_t ff_tiff_load(const ff_tiff_file *file, const uint8_t *at, unsigned size);

/* The value `index` (below entry->count) of an entry of integers; UINT64_MAX of other types. A
 * negative one is large. */
uint64_t ff_tiff_integer(const ff_tiff_file *file, const ff_tiff_entry *entry, uint64_t index);

#endif
