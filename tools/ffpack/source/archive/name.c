#include "tools/ffpack/source/archive/name.h"

#include "format/base/bytes.h"
#include "format/base/read.h"

#include <stdlib.h>
#include <string.h>

/* APPNOTE.TXT, 4.3.7: the fixed part of a local header, then the name, then the extra fields. */
enum { FLAGS_AT = 6, NAME_BYTES_AT = 26, EXTRA_BYTES_AT = 28 };
#define HEADER_BYTES  ((size_t)30)
#define LONGEST_BYTES (HEADER_BYTES + 2 * (size_t)0xffff)
enum { FLAG_UTF8 = 1 << 11, UNICODE_PATH = 0x7075 };

/* The header that is the end of `bytes`, or NULL. */
static const unsigned char *find_header(const unsigned char *bytes, size_t size) {
    for (size_t length = HEADER_BYTES; length <= size; length++) {
        const unsigned char *at = bytes + size - length;
        if (!memcmp(at, "PK\3\4", 4) &&
            HEADER_BYTES + ff_load_u16(at + NAME_BYTES_AT) + ff_load_u16(at + EXTRA_BYTES_AT) ==
                length)
            return at;
    }
    return NULL;
}

/* Info-ZIP's Unicode path among the extra fields (APPNOTE.TXT, 4.6.9): a version, a checksum of the
 * other name, and the name in UTF-8. */
static const unsigned char *unicode_path(const unsigned char *extra, size_t size, size_t *bytes) {
    enum { BEFORE_BYTES = 5 };
    for (size_t at = 0; at + 4 <= size;) {
        size_t length = ff_load_u16(extra + at + 2);
        if (length > size - at - 4) return NULL;
        if (ff_load_u16(extra + at) == UNICODE_PATH && length > BEFORE_BYTES) {
            *bytes = length - BEFORE_BYTES;
            return extra + at + 4 + BEFORE_BYTES;
        }
        at += 4 + length;
    }
    return NULL;
}

static ff_status take_name(ff_buffer *name, const unsigned char *header, ff_error *error) {
    const unsigned char *text = header + HEADER_BYTES, *other = NULL;
    size_t bytes = ff_load_u16(header + NAME_BYTES_AT), other_bytes = 0;
    if (!(ff_load_u16(header + FLAGS_AT) & FLAG_UTF8))
        other = unicode_path(text + bytes, ff_load_u16(header + EXTRA_BYTES_AT), &other_bytes);
    return ff_buffer_add(name, other ? other : text, other ? other_bytes : bytes, error);
}

ff_status ff_archive_zip_name(ff_buffer *name, int fd, const char *path, uint64_t begin,
                              uint64_t end, ff_error *error) {
    enum { USUAL_BYTES = 1024 };
    const size_t tries[] = {USUAL_BYTES, LONGEST_BYTES};
    unsigned char *bytes;
    name->length = 0;
    FF_TRY(ff_alloc(&bytes, LONGEST_BYTES, 1, "a member's name", error));
    ff_status status = FF_OK;
    for (int i = 0; i < 2 && !name->length && begin < end; i++) {
        size_t size = end - begin < tries[i] ? (size_t)(end - begin) : tries[i];
        FF_TRY_DONE(ff_read_at(fd, path, bytes, size, end - size, error));
        const unsigned char *header = find_header(bytes, size);
        if (header) FF_TRY_DONE(take_name(name, header, error));
    }
    FF_TRY_DONE(ff_buffer_add(name, "", 1, error));
done:
    free(bytes);
    return status;
}
