#include "tools/ffpack/decode/png_exif.h"

#include "format/base/bytes.h"
#include "tools/ffpack/decode/exif.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { SIGNATURE_BYTES = 8, CHUNK_EXTRA = 12, TEXT_MOST = 1 << 20 };

/* The bytes of a text chunk after its key; NULL for another key. */
static const uint8_t *behind_key(const uint8_t *data, size_t *size, const char *key) {
    size_t key_bytes = strlen(key) + 1;
    if (*size < key_bytes || memcmp(data, key, key_bytes) != 0) return NULL;
    *size -= key_bytes;
    return data + key_bytes;
}

/* A text of at most TEXT_MOST bytes, ended by a zero byte; NULL if it is not such a text. */
static char *copy_text(const uint8_t *data, size_t size, bool packed) {
    if (!packed && size > TEXT_MOST) return NULL;
    char *text = calloc(TEXT_MOST + 1, 1);
    uLongf length = TEXT_MOST;
    if (text && !packed) memcpy(text, data, size);
    if (text && packed && uncompress((Bytef *)text, &length, data, (uLong)size) != Z_OK) {
        free(text);
        return NULL;
    }
    return text;
}

/* "\nexif\n LENGTH\nHEXADECIMAL...", as ImageMagick writes it: the part after the third line. */
static unsigned raw_profile_orientation(char *text) {
    char *at = text;
    for (int line = 0; line < 3 && at; line++) {
        at = strchr(at, '\n');
        if (at) at++;
    }
    if (!at) return FF_EXIF_NONE;
    size_t length = 0;
    uint8_t *bytes = (uint8_t *)text; /* in place: shorter than the digits */
    for (unsigned digits = 0, value = 0; *at; at++) {
        if (isspace((unsigned char)*at)) continue;
        if (!isxdigit((unsigned char)*at)) return FF_EXIF_NONE;
        int letter = tolower((unsigned char)*at);
        value = value << 4 | (unsigned)(letter <= '9' ? letter - '0' : letter - 'a' + 10);
        if (++digits % 2 == 0) bytes[length++] = (uint8_t)value;
    }
    return ff_exif_orientation(bytes, length);
}

/* tiff:Orientation="N" or <tiff:Orientation>N. */
static unsigned xmp_orientation(const char *text) {
    for (const char *at = text; (at = strstr(at, "tiff:Orientation")) != NULL;) {
        at += strlen("tiff:Orientation");
        unsigned digit = at[0] == '>'                   ? (unsigned)(at[1] - '0')
                         : at[0] == '=' && at[1] == '"' ? (unsigned)(at[2] - '0')
                                                        : 10;
        if (digit <= 9) return digit >= 1 && digit <= 8 ? digit : FF_EXIF_UPRIGHT;
    }
    return FF_EXIF_NONE;
}

/* The text of an iTXt chunk after its key: flag, method, language, translated key, text. */
static char *international_text(const uint8_t *data, size_t size) {
    if (size < 2) return NULL;
    bool packed = data[0] != 0;
    if (packed && data[1] != 0) return NULL;
    const uint8_t *at = data + 2, *end = data + size;
    for (int i = 0; i < 2; i++) {
        at = memchr(at, 0, (size_t)(end - at));
        if (!at) return NULL;
        at++;
    }
    return copy_text(at, (size_t)(end - at), packed);
}

static void keep(char **place, char *text) {
    if (!text) return;
    free(*place);
    *place = text;
}

unsigned ff_png_orientation(const uint8_t *bytes, size_t length) {
    static const char raw_key[] = "Raw profile type exif", xmp_key[] = "XML:com.adobe.xmp";
    const uint8_t *exif = NULL;
    size_t exif_bytes = 0;
    char *raw = NULL, *xmp = NULL;
    for (size_t at = SIGNATURE_BYTES; length - at >= CHUNK_EXTRA;) {
        size_t size = ff_load_be32(bytes + at);
        if (size > length - at - CHUNK_EXTRA) break;
        const uint8_t *name = bytes + at + 4, *data = bytes + at + 8, *text;
        size_t left = size;
        if (memcmp(name, "eXIf", 4) == 0) {
            exif = data;
            exif_bytes = size;
        } else if (memcmp(name, "tEXt", 4) == 0) {
            if ((text = behind_key(data, &left, raw_key))) keep(&raw, copy_text(text, left, false));
        } else if (memcmp(name, "zTXt", 4) == 0) {
            text = behind_key(data, &left, raw_key);
            if (text && left > 1 && text[0] == 0) keep(&raw, copy_text(text + 1, left - 1, true));
        } else if (memcmp(name, "iTXt", 4) == 0) {
            if ((text = behind_key(data, &left, xmp_key)))
                keep(&xmp, international_text(text, left));
        } else if (memcmp(name, "IEND", 4) == 0) {
            break;
        }
        at += size + CHUNK_EXTRA;
    }
    unsigned orientation = exif  ? ff_exif_orientation(exif, exif_bytes)
                           : raw ? raw_profile_orientation(raw)
                                 : FF_EXIF_NONE;
    if (xmp && orientation == FF_EXIF_NONE) orientation = xmp_orientation(xmp);
    free(raw);
    free(xmp);
    return orientation;
}
