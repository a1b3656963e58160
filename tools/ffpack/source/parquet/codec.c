#include "tools/ffpack/source/parquet/codec.h"

#include <inttypes.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* Snappy's block format (github.com/google/snappy/blob/main/format_description.txt): the unpacked
 * size as a varint; then elements, whose first byte's low bits are 0 for a literal and 1, 2 or 3
 * for a copy of what was unpacked, with an offset of 11, 16 or 32 bits. */
static bool unpack_snappy(const unsigned char *from, size_t length, unsigned char *to,
                          size_t size) {
    const unsigned char *end = from + length;
    uint64_t stated = 0;
    size_t made = 0;
    for (int shift = 0;; shift += 7) {
        if (from == end || shift > 28) return false;
        stated |= (uint64_t)(*from & 0x7f) << shift;
        if (*from++ < 0x80) break;
    }
    if (stated != size) return false;
    while (from < end) {
        const unsigned tag = *from++, kind = tag & 3;
        size_t count = (tag >> 2) + 1, offset = 0;
        /* The bytes of a long literal's length, or of a copy's offset. */
        const unsigned more = kind ? (kind == 3 ? 4 : kind) : count > 60 ? (unsigned)count - 60 : 0;
        uint64_t number = 0;
        if ((size_t)(end - from) < more) return false;
        for (unsigned i = 0; i < more; i++) number |= (uint64_t)*from++ << (8 * i);
        if (!kind) {
            if (more) count = (size_t)number + 1;
            if (count > (size_t)(end - from) || count > size - made) return false;
            memcpy(to + made, from, count);
            from += count;
            made += count;
            continue;
        }
        if (kind == 1) {
            count = (tag >> 2 & 7) + 4;
            number |= (uint64_t)(tag >> 5) << 8;
        }
        offset = (size_t)number;
        if (!offset || offset > made || count > size - made) return false;
        /* The two may overlap: byte by byte. */
        for (size_t i = 0; i < count; i++, made++) to[made] = to[made - offset];
    }
    return made == size;
}

static bool unpack_gzip(const unsigned char *from, size_t length, unsigned char *to, size_t size) {
    z_stream zlib = {
        .next_in = (unsigned char *)(uintptr_t)from, .avail_in = (uInt)length, .next_out = to};
    zlib.avail_out = (uInt)size;
    if (inflateInit2(&zlib, 15 + 32) != Z_OK) return false;
    const bool whole = inflate(&zlib, Z_FINISH) == Z_STREAM_END && !zlib.avail_out;
    inflateEnd(&zlib);
    return whole;
}

static bool unpack_plain(const unsigned char *from, size_t length, unsigned char *to, size_t size) {
    if (length != size) return false;
    memcpy(to, from, size);
    return true;
}

ff_status ff_parquet_unpack(int64_t codec, const unsigned char *from, size_t length,
                            unsigned char *to, size_t size, ff_error *error) {
    static const char *const names[] = {"none",   "snappy", "gzip", "lzo",
                                        "brotli", "lz4",    "zstd", "lz4_raw"};
    const char *name = codec >= 0 && codec < 8 ? names[codec] : "unknown";
    bool whole;
    switch (codec) {
    case FF_PARQUET_PLAIN: whole = unpack_plain(from, length, to, size); break;
    case FF_PARQUET_SNAPPY: whole = unpack_snappy(from, length, to, size); break;
    case FF_PARQUET_GZIP: whole = unpack_gzip(from, length, to, size); break;
    case FF_PARQUET_ZSTD: whole = ZSTD_decompress(to, size, from, length) == size; break;
    default:
        return ff_fail(error, FF_BAD_DATA,
                       "is compressed with %s (codec %" PRId64
                       "), wanted snappy, zstd, gzip or none",
                       name, codec);
    }
    if (whole) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "its %zu bytes of codec %s do not unpack to the %zu stated",
                   length, name, size);
}
