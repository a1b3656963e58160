#include "tools/ffpack/source/chunks/ndarray.h"

#include "format/base/bytes.h"

#include <inttypes.h>
#include <string.h>

#define PREFIX "ndarray"
#define UINT8  8

typedef struct shape {
    uint64_t axis[4];
    unsigned count;
} shape;

typedef struct layout {
    uint64_t height, width;
    unsigned channels;
    bool planes; /* channels first */
} layout;

/* What an encoding states. */
typedef struct stated {
    bool dtype, shape;
    struct shape is;
} stated;

/* The shape "32,32,3" that ends the text; false if it is another text. */
static bool read_shape(const char *text, shape *is) {
    is->count = 0;
    for (;;) {
        uint64_t length = 0;
        if (*text < '1' || *text > '9' || is->count == 4) return false;
        for (; *text >= '0' && *text <= '9' && length < UINT32_MAX; text++)
            length = 10 * length + (uint64_t)(*text - '0');
        is->axis[is->count++] = length;
        if (!*text) return true;
        if (*text++ != ',') return false;
    }
}

/* False for an encoding that is none of an array of uint8. */
static bool read_encoding(const char *encoding, stated *of) {
    *of = (stated){0};
    if (strncmp(encoding, PREFIX, strlen(PREFIX)) != 0) return false;
    encoding += strlen(PREFIX);
    if (!*encoding) return true;
    if (strncmp(encoding, ":uint8", 6) != 0) return false;
    encoding += 6;
    of->dtype = true;
    if (!*encoding) return true;
    of->shape = true;
    return *encoding == ':' && read_shape(encoding + 1, &of->is);
}

/* False if the shape is not an image's, whose sides fit into 32 bits. */
static bool image_of(const shape *is, layout *of) {
    const uint64_t *axis = is->axis;
    const bool deep = is->count == 3;
    const uint64_t last = deep ? axis[2] : 0;
    if (is->count == 2)
        *of = (layout){axis[0], axis[1], 1, false};
    else if (deep && (last == 1 || last == 3))
        *of = (layout){axis[0], axis[1], (unsigned)last, false};
    else if (deep && (axis[0] == 1 || axis[0] == 3))
        *of = (layout){axis[1], axis[2], (unsigned)axis[0], true};
    else
        return false;
    return of->height && of->width && of->height < UINT32_MAX && of->width < UINT32_MAX;
}

ff_chunk_form ff_ndarray_form(const char *encoding) {
    stated of;
    layout image;
    if (!read_encoding(encoding, &of)) return FF_CHUNK_OTHER;
    if (!of.shape) return FF_CHUNK_ARRAY;
    return image_of(&of.is, &image) ? FF_CHUNK_IMAGE : FF_CHUNK_OTHER;
}

/* Reads what the encoding left to the value; *at: where the array's values begin. */
static ff_status read_head(const ff_image_file *file, stated *of, uint64_t *at, ff_error *error) {
    const unsigned char *bytes = file->bytes;
    *at = 0;
    if (!of->dtype) {
        if (file->length < 1 || bytes[0] != UINT8)
            return ff_fail(error, FF_BAD_DATA, "its array is not of dtype uint8");
        *at = 1;
    }
    if (of->shape) return FF_OK;
    const unsigned byte = *at < file->length ? bytes[*at] : 0;
    const unsigned count = byte >> 2, each = 1u << (byte & 3);
    if (count != 2 && count != 3)
        return ff_fail(error, FF_BAD_DATA, "its array has %u axes, wanted the 2 or 3 of an image",
                       count);
    if (file->length - ++*at < count * each)
        return ff_fail(error, FF_BAD_DATA, "has %" PRIu64 " bytes, fewer than an array's shape",
                       file->length);
    for (of->is.count = 0; of->is.count < count; *at += each) {
        unsigned char wide[8] = {0};
        memcpy(wide, bytes + *at, each);
        of->is.axis[of->is.count++] = ff_load_u64(wide);
    }
    return FF_OK;
}

ff_status ff_ndarray_unwrap(const ff_source_part *part, int fd, ff_buffer *made,
                            ff_image_file *file, ff_error *error) {
    (void)fd;
    stated of;
    layout image;
    uint64_t at;
    if (!read_encoding(part->column, &of))
        return ff_fail(error, FF_BAD_DATA, "%s is not an array of uint8", part->column);
    FF_TRY(read_head(file, &of, &at, error));
    const uint64_t *axis = of.is.axis, bytes = file->length - at;
    if (!image_of(&of.is, &image))
        return ff_fail(error, FF_BAD_DATA,
                       "its array has the shape %" PRIu64 ",%" PRIu64 ",%" PRIu64
                       ", wanted an image's: H,W; H,W,1; H,W,3; 1,H,W or 3,H,W",
                       axis[0], axis[1], axis[2]);
    const uint64_t area = image.height * image.width; /* u32 times u32 */
    if (bytes % image.channels || bytes / image.channels != area)
        return ff_fail(error, FF_BAD_DATA,
                       "has %" PRIu64 " bytes of pixels, wanted those of %" PRIu64 " x %" PRIu64
                       " pixels of %u channels",
                       bytes, image.width, image.height, image.channels);
    const unsigned char *pixels = file->bytes + at;
    FF_TRY(ff_records_pixels(made, (uint32_t)image.width, (uint32_t)image.height, image.channels,
                             error));
    if (image.planes && image.channels > 1) {
        FF_TRY(
            ff_reserve(&made->bytes, &made->capacity, made->length + bytes, 1, "an image", error));
        for (uint64_t i = 0; i < area; i++)
            for (unsigned c = 0; c < image.channels; c++)
                made->bytes[made->length++] = (char)pixels[c * area + i];
    } else {
        FF_TRY(ff_buffer_add(made, pixels, bytes, error));
    }
    *file = (ff_image_file){(const unsigned char *)made->bytes, made->length};
    return FF_OK;
}
