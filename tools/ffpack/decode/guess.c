/* Detects images by their first bytes, for files whose names do not show the kind. */
#include "format/base/bytes.h"
#include "tools/ffpack/decode/decode.h"
#include "tools/ffpack/decode/kinds.h"

#include <string.h>

typedef struct signature {
    const char *name, *start;
    size_t bytes;
} signature;

static const signature unread_kinds[] = {
    {"JPEG 2000", "\0\0\0\x0cjP  ", 8}, {"JPEG 2000", "\xff\x4f\xff\x51", 4},
    {"JPEG XL", "\xff\x0a", 2},         {"JPEG XL", "\0\0\0\x0cJXL ", 8},
    {"Photoshop", "8BPS\0\1", 6},
};

/* Brands of an ISO base media file (ISO/IEC 23008-12 and the AVIF specification); others are
 * videos. */
static const signature brands[] = {
    {"HEIC", "heic", 4}, {"HEIC", "heix", 4}, {"HEIC", "heim", 4}, {"HEIC", "heis", 4},
    {"HEIC", "hevc", 4}, {"HEIC", "hevx", 4}, {"HEIF", "mif1", 4}, {"HEIF", "msf1", 4},
    {"AVIF", "avif", 4}, {"AVIF", "avis", 4},
};

static const char *find(const signature *table, size_t count, const uint8_t *bytes, size_t length) {
    for (size_t i = 0; i < count; i++)
        if (length >= table[i].bytes && !memcmp(bytes, table[i].start, table[i].bytes))
            return table[i].name;
    return NULL;
}

static const char *find_unread(const uint8_t *bytes, size_t length) {
    if (length >= 12 && !memcmp(bytes + 4, "ftyp", 4))
        return find(brands, sizeof brands / sizeof brands[0], bytes + 8, length - 8);
    return find(unread_kinds, sizeof unread_kinds / sizeof unread_kinds[0], bytes, length);
}

static bool is_digit(uint8_t byte) {
    return byte >= '0' && byte <= '9';
}

/* "P6 12": a number, or a comment, follows at once. */
static bool is_ppm(const uint8_t *bytes, size_t length) {
    return length >= 4 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
           (bytes[2] == '\n' || bytes[2] == ' ') && (is_digit(bytes[3]) || bytes[3] == '#');
}

/* The reserved bytes are zero, and a known header follows. */
static bool is_bmp(const uint8_t *bytes, size_t length) {
    if (length < 18 || memcmp(bytes, "BM", 2) != 0 || ff_load_u32(bytes + 6)) return false;
    uint32_t header = ff_load_u32(bytes + 14);
    return header == 12 || (header >= 40 && header <= 124);
}

static bool is_tiff(const uint8_t *bytes, size_t length) {
    return length >= 8 && (!memcmp(bytes, "II*\0", 4) || !memcmp(bytes, "MM\0*", 4) ||
                           !memcmp(bytes, "II+\0", 4) || !memcmp(bytes, "MM\0+", 4));
}

ff_decode_guess ff_decode_guess_kind(const uint8_t *bytes, size_t length, const char **unread) {
    static const ff_decode_kind *const kinds[] = {&ff_decode_jpeg, &ff_decode_png, &ff_decode_webp,
                                                  &ff_decode_gif};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i]->matches(bytes, length)) return FF_DECODE_READ;
    if (is_tiff(bytes, length) || is_ppm(bytes, length) || is_bmp(bytes, length))
        return FF_DECODE_READ;
    *unread = find_unread(bytes, length);
    return *unread ? FF_DECODE_UNREAD : FF_DECODE_OTHER;
}
