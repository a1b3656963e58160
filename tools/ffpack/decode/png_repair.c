#include "tools/ffpack/decode/png_repair.h"

#include "format/base/bytes.h"
#include "format/base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { SIGNATURE_BYTES = 8, CHUNK_EXTRA = 12, PASSES = 7, FILTERS = 5 };

/* Adam7 (PNG specification, section 8); an image without interlacing is one pass of all pixels. */
static const struct {
    uint8_t left, top, right, down;
} passes[PASSES] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                    {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};

/* Rows and their bytes, filter byte included; 0 rows if the pass is empty. */
typedef struct pass {
    uint64_t rows, row_bytes;
} pass;

static uint64_t plan_passes(uint32_t width, uint32_t height, unsigned pixel_bits, bool interlaced,
                            pass plan[PASSES]) {
    uint64_t all = 0;
    for (int p = 0; p < PASSES; p++) {
        uint64_t pixels = p ? 0 : width, rows = p ? 0 : height;
        if (interlaced) {
            pixels = ((uint64_t)width + passes[p].right - 1 - passes[p].left) / passes[p].right;
            rows = ((uint64_t)height + passes[p].down - 1 - passes[p].top) / passes[p].down;
        }
        plan[p] = (pass){pixels ? rows : 0, (pixels * pixel_bits + 7) / 8 + 1};
        all += plan[p].rows * plan[p].row_bytes;
    }
    return all;
}

/* The compressed pixels: the consecutive IDAT chunks, as far as they exist. */
typedef struct packed {
    const uint8_t *bytes;
    size_t length, at; /* of the current chunk */
    uint64_t taken;    /* of its data */
    z_stream stream;
} packed;

/* Passes zlib the bytes that Pillow would pass; false at the end. */
static bool take_more(packed *from) {
    enum { READ_BYTES = 65536 };
    while (from->length - from->at >= 8 && memcmp(from->bytes + from->at + 4, "IDAT", 4) == 0) {
        uint64_t size = ff_load_be32(from->bytes + from->at), there = from->length - from->at - 8;
        uint64_t left = (size < there ? size : there) - from->taken;
        if (left > 0) {
            from->stream.next_in = (Bytef *)(size_t)(from->bytes + from->at + 8 + from->taken);
            from->stream.avail_in = left < READ_BYTES ? (uInt)left : READ_BYTES;
            from->taken += from->stream.avail_in;
            return true;
        }
        if (there < size + 4) return false;
        from->at += (size_t)size + CHUNK_EXTRA;
        from->taken = 0;
    }
    return false;
}

/* Unpacks a row as Pillow does: a zlib error loses the row, even after its last byte. False for the
 * last row; *whole = whether it is used. */
static bool unpack_row(packed *from, uint8_t *row, uint64_t row_bytes, bool *whole) {
    uint64_t got = 0;
    int code = Z_OK;
    *whole = false;
    while (got < row_bytes) {
        if (from->stream.avail_in == 0 && !take_more(from)) return false;
        from->stream.next_out = row + got;
        from->stream.avail_out = (uInt)(row_bytes - got);
        code = inflate(&from->stream, Z_NO_FLUSH);
        got = row_bytes - from->stream.avail_out;
        if (code < 0 || (code != Z_OK && got < row_bytes)) return false;
    }
    *whole = row[0] < FILTERS;
    return *whole && code != Z_STREAM_END;
}

/* Fills rows, which are 0, as far as the chunks from `at` on go. */
static ff_status unpack(const uint8_t *bytes, size_t length, size_t at, const pass plan[PASSES],
                        uint8_t *rows, ff_error *error) {
    packed from = {.bytes = bytes, .length = length, .at = at};
    if (inflateInit(&from.stream) != Z_OK)
        return ff_fail(error, FF_NO_MEMORY, "no memory to decode a PNG");
    bool more = true;
    for (int p = 0; p < PASSES && more; p++) {
        for (uint64_t y = 0; y < plan[p].rows && more; y++, rows += plan[p].row_bytes) {
            bool whole;
            more = unpack_row(&from, rows, plan[p].row_bytes, &whole);
            if (!whole) memset(rows, 0, (size_t)plan[p].row_bytes);
        }
    }
    inflateEnd(&from.stream);
    return FF_OK;
}

static void put_chunk(uint8_t **to, const char *name, const uint8_t *data, size_t size) {
    ff_store_be32(*to, (uint32_t)size);
    memcpy(*to + 4, name, 4);
    if (size && data != *to + 8) memcpy(*to + 8, data, size);
    ff_store_be32(*to + 8 + size, (uint32_t)crc32(0, *to + 4, (uInt)size + 4));
    *to += size + CHUNK_EXTRA;
}

/* Writes the signature and the needed chunks before the pixels, then the rows, then the end. */
static ff_status write_png(const uint8_t *bytes, size_t pixels_at, const uint8_t *rows,
                           uint64_t size, uint8_t **repaired, size_t *repaired_length,
                           ff_error *error) {
    uLongf packed_size = compressBound((uLong)size);
    FF_TRY(
        ff_alloc(repaired, pixels_at + packed_size + 2 * CHUNK_EXTRA, 1, "a repaired PNG", error));
    uint8_t *to = *repaired;
    memcpy(to, bytes, SIGNATURE_BYTES);
    to += SIGNATURE_BYTES;
    for (size_t at = SIGNATURE_BYTES; at < pixels_at;) {
        size_t chunk = ff_load_be32(bytes + at) + CHUNK_EXTRA;
        if (memcmp(bytes + at + 4, "IHDR", 4) == 0 || memcmp(bytes + at + 4, "PLTE", 4) == 0) {
            memcpy(to, bytes + at, chunk);
            to += chunk;
        }
        at += chunk;
    }
    if (compress2(to + 8, &packed_size, rows, (uLong)size, 1) != Z_OK) {
        free(*repaired);
        *repaired = NULL;
        return ff_fail(error, FF_NO_MEMORY, "no memory to repair a PNG");
    }
    put_chunk(&to, "IDAT", to + 8, packed_size);
    put_chunk(&to, "IEND", NULL, 0);
    *repaired_length = (size_t)(to - *repaired);
    return FF_OK;
}

ff_status ff_png_repair(const uint8_t *bytes, size_t length, uint32_t width, uint32_t height,
                        unsigned pixel_bits, bool interlaced, uint8_t **repaired,
                        size_t *repaired_length, ff_error *error) {
    *repaired = NULL;
    size_t at = SIGNATURE_BYTES;
    /* Everything before the pixels must be complete. */
    while (length - at >= 8 && memcmp(bytes + at + 4, "IDAT", 4) != 0) {
        uint64_t chunk = (uint64_t)ff_load_be32(bytes + at) + CHUNK_EXTRA;
        if (chunk > length - at || memcmp(bytes + at + 4, "IEND", 4) == 0) break;
        at += (size_t)chunk;
    }
    if (length - at < 8 || memcmp(bytes + at + 4, "IDAT", 4) != 0)
        return ff_fail(error, FF_BAD_DATA, "truncated PNG: its %zu bytes end before the pixels",
                       length);
    pass plan[PASSES];
    uint64_t size = plan_passes(width, height, pixel_bits, interlaced, plan);
    if (size > INT32_MAX / 2) /* zlib counts in 32 bits */
        return ff_fail(error, FF_BAD_DATA, "a truncated PNG of %llu bytes is too large to repair",
                       (unsigned long long)size);
    uint8_t *rows;
    FF_TRY(ff_alloc(&rows, size, 1, "a PNG's rows", error));
    ff_status status = unpack(bytes, length, at, plan, rows, error);
    if (status == FF_OK)
        status = write_png(bytes, at, rows, size, repaired, repaired_length, error);
    free(rows);
    return status;
}
