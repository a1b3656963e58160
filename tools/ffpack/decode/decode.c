#include "tools/ffpack/decode/decode.h"

#include "format/base/memory.h"
#include "tools/ffpack/decode/exif.h"
#include "tools/ffpack/decode/kinds.h"
#include "tools/ffpack/decode/upright.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ff_decode_kind *const kinds[] = {
    &ff_decode_jpeg, &ff_decode_png, &ff_decode_webp, &ff_decode_gif,
    &ff_decode_tiff, &ff_decode_ppm, &ff_decode_bmp,
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

struct ff_decoder {
    ff_image stored; /* an image before it is turned upright */
    char warning[FF_DECODE_WARNING_BYTES];
};

/* Kinds that are recognised only to be refused by name. */
static const struct {
    const char *name, *start;
    size_t start_length;
} refused[] = {
    {"a gzip file", "\x1f\x8b", 2},    {"a zip file", "PK\3\4", 4},
    {"a PDF file", "%PDF", 4},         {"a zstd file", "\x28\xb5\x2f\xfd", 4},
    {"a NumPy array", "\x93NUMPY", 6}, {"an HTML page", "<!DOCTYPE html", 14},
};

/* Writes "starts with 47 49 46 38" and, if the kind is known, " (a GIF image)". */
static void describe_start(const uint8_t *bytes, size_t length, char *text, size_t room) {
    size_t used = (size_t)snprintf(text, room, "starts with");
    for (size_t i = 0; i < length && i < 8; i++)
        used += (size_t)snprintf(text + used, room - used, " %02x", bytes[i]);
    char image[48];
    const char *unread = NULL, *name = NULL;
    if (ff_decode_guess_kind(bytes, length, &unread) == FF_DECODE_UNREAD) {
        snprintf(image, sizeof image, "a %s image", unread);
        name = image;
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0] && !name; i++)
        if (length >= refused[i].start_length &&
            memcmp(bytes, refused[i].start, refused[i].start_length) == 0)
            name = refused[i].name;
    if (name) snprintf(text + used, room - used, " (%s)", name);
}

static ff_status find_kind(const uint8_t *bytes, size_t length, size_t *kind, ff_error *error) {
    if (length == 0) return ff_fail(error, FF_BAD_DATA, "the file is empty, not an image");
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (kinds[i]->matches(bytes, length)) {
            *kind = i;
            return FF_OK;
        }
    }
    char start[96];
    describe_start(bytes, length, start, sizeof start);
    return ff_fail(error, FF_BAD_DATA, "not an image this version reads: %s; %s are read", start,
                   FF_DECODE_KINDS);
}

/* `info` as stored. */
static ff_status probe(const uint8_t *bytes, size_t length, const ff_decode_options *options,
                       size_t *kind, ff_image_info *info, ff_error *error) {
    FF_TRY(find_kind(bytes, length, kind, error));
    *info = (ff_image_info){.kind = kinds[*kind]->name};
    FF_TRY(kinds[*kind]->probe(bytes, length, info, error));
    if ((uint64_t)info->width * info->height > options->pixel_limit)
        return ff_fail(error, FF_BAD_DATA,
                       "the %s header declares %u x %u pixels, more than the limit of %" PRIu64,
                       info->kind, info->width, info->height, options->pixel_limit);
    if (options->deep && !info->deep)
        return ff_fail(
            error, FF_USAGE,
            "the %s has no greys of 16 bits, which --range and --dtype u16 want of image "
            "files: PNG, TIFF or PGM",
            info->kind);
    return FF_OK;
}

static unsigned find_orientation(const ff_decode_kind *kind, const uint8_t *bytes, size_t length,
                                 const ff_decode_options *options) {
    bool turned = kind->orientation && (options->exif || kind->always_upright);
    unsigned found = turned ? kind->orientation(bytes, length) : FF_EXIF_NONE;
    return found == FF_EXIF_NONE ? FF_EXIF_UPRIGHT : found;
}

bool ff_decode_is_turned(const uint8_t *bytes, size_t length) {
    size_t kind;
    return find_kind(bytes, length, &kind, NULL) == FF_OK && kinds[kind]->orientation &&
           !kinds[kind]->always_upright &&
           kinds[kind]->orientation(bytes, length) > FF_EXIF_UPRIGHT;
}

ff_status ff_decode_probe(const uint8_t *bytes, size_t length, const ff_decode_options *options,
                          ff_image_info *info, ff_error *error) {
    size_t kind;
    FF_TRY(probe(bytes, length, options, &kind, info, error));
    if (ff_upright_swaps(find_orientation(kinds[kind], bytes, length, options))) {
        uint32_t width = info->width;
        info->width = info->height;
        info->height = width;
    }
    return FF_OK;
}

ff_status ff_decoder_create(ff_decoder **decoder, ff_error *error) {
    return ff_alloc(decoder, 1, sizeof **decoder, "a decoder", error);
}

void ff_decoder_destroy(ff_decoder **decoder) {
    if (!decoder || !*decoder) return;
    ff_image_free(&(*decoder)->stored);
    free(*decoder);
    *decoder = NULL;
}

ff_status ff_decode(ff_decoder *decoder, const uint8_t *bytes, size_t length,
                    const ff_decode_options *options, const ff_region *needed, ff_image *image,
                    ff_error *error) {
    size_t kind;
    ff_image_info info;
    decoder->warning[0] = '\0';
    FF_TRY(probe(bytes, length, options, &kind, &info, error));
    unsigned orientation = find_orientation(kinds[kind], bytes, length, options);
    ff_region stored_region;
    if (needed && orientation != FF_EXIF_UPRIGHT) {
        stored_region = ff_upright_stored_region(orientation, needed, info.width, info.height);
        needed = &stored_region;
    }
    ff_image *stored = orientation == FF_EXIF_UPRIGHT ? image : &decoder->stored;
    stored->clips = false;
    const ff_decode_job job = {bytes, length, &info, options, needed, decoder->warning};
    FF_TRY(kinds[kind]->decode(&job, stored, error));
    image->clips = stored->clips;
    return stored == image ? FF_OK : ff_upright_turn(stored, orientation, image, error);
}

void ff_decode_warn_filled(char *warning, const char *kind) {
    snprintf(warning, FF_DECODE_WARNING_BYTES, "truncated or broken %s, filled as Pillow fills it",
             kind);
}

const char *ff_decoder_warning(const ff_decoder *decoder) {
    return decoder->warning[0] ? decoder->warning : NULL;
}
