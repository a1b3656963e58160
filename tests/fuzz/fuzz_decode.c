/* Image decoders and geometry on any bytes: no crash, no read or write out of bounds; probe and
 * decode agree; the same bytes decode to the same pixels whatever came before. */
#include "format/base/bytes.h"
#include "tests/fuzz/driver.h"
#include "tools/ffpack/decode/decode.h"
#include "tools/ffpack/image/geometry.h"

#include <zlib.h>

enum { PIXEL_LIMIT = 1 << 18 };

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_decode: line %d: %s\n", __LINE__, #condition);                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Reused for all inputs, as a worker does. */
static ff_decoder *kept;
static ff_image kept_image;
static ff_geometry_scratch scratch;

static void check_message(const ff_error *error) {
    CHECK(error->message[0] != '\0' && !strchr(error->message, '\n'));
    CHECK(error->status == FF_BAD_DATA || error->status == FF_NO_MEMORY);
}

/* FNV-1a: what is done with an input depends on all its bytes. */
static unsigned hash(const uint8_t *bytes, size_t length) {
    uint32_t value = 2166136261u;
    for (size_t i = 0; i < length; i++) value = (value ^ bytes[i]) * 16777619u;
    return value >> 8;
}

/* Makes the checksums of a PNG's chunks right, so that mutated chunks are read at all. */
static void repair_png(uint8_t *bytes, size_t length) {
    if (length < 8 || memcmp(bytes, "\x89PNG", 4) != 0) return;
    for (size_t at = 8; length - at >= 12;) {
        size_t size = ff_load_be32(bytes + at);
        if (size > length - at - 12) break;
        ff_store_be32(bytes + at + 8 + size, (uint32_t)crc32(0, bytes + at + 4, (uInt)size + 4));
        at += size + 12;
    }
}

/* A sample of the image comes out the same from the region that is needed for it alone, and a
 * reduced image gives one of the same size. */
static void make_samples(const ff_geometry *geometry, const uint8_t *bytes, size_t length,
                         ff_decode_options options, const ff_image *image) {
    ff_error error = {0};
    const ff_image *packed;
    uint32_t width, height, native_width = image->width, native_height = image->height;
    if (ff_geometry_apply(geometry, image, native_width, native_height, &scratch, &packed,
                          &error) != FF_OK) {
        check_message(&error);
        return;
    }
    CHECK(ff_geometry_output_size(geometry, native_width, native_height, &width, &height, NULL) ==
          FF_OK);
    CHECK(packed->width == width && packed->height == height);
    size_t values = (size_t)width * height * packed->channels;
    uint8_t *whole = malloc(values);
    if (!whole) return;
    memcpy(whole, packed->pixels, values);
    ff_region needed;
    CHECK(ff_geometry_needed(geometry, native_width, native_height, &scratch, &needed, NULL) ==
          FF_OK);
    CHECK(needed.width >= 1 && needed.left + needed.width <= native_width);
    CHECK(needed.height >= 1 && needed.top + needed.height <= native_height);
    memset(kept_image.pixels, 0x5a, kept_image.capacity_bytes);
    CHECK(ff_decode(kept, bytes, length, &options, &needed, &kept_image, NULL) == FF_OK);
    CHECK(kept_image.width == native_width && kept_image.height == native_height);
    CHECK(ff_geometry_apply(geometry, &kept_image, native_width, native_height, &scratch, &packed,
                            NULL) == FF_OK);
    CHECK(memcmp(packed->pixels, whole, values) == 0);
    free(whole);
    CHECK(ff_geometry_reduction(geometry, native_width, native_height, &options.reduction, NULL) ==
          FF_OK);
    CHECK(ff_decode(kept, bytes, length, &options, &needed, &kept_image, NULL) == FF_OK);
    CHECK(ff_geometry_apply(geometry, &kept_image, native_width, native_height, &scratch, &packed,
                            NULL) == FF_OK);
    CHECK(packed->width == width && packed->height == height);
}

static void decode(const uint8_t *bytes, size_t length, unsigned choice) {
    static const ff_geometry geometries[] = {
        {.resize = FF_RESIZE_NONE},
        {.resize = FF_RESIZE_SHORT, .size = 33, .crop_height = 29, .crop_width = 31},
        {.resize = FF_RESIZE_EXACT,
         .resize_height = 7,
         .resize_width = 40,
         .interpolation = FF_BICUBIC},
        {.crop_height = 64, .crop_width = 5},
        {.crop_height = 5, .crop_width = 9},
        {.resize = FF_RESIZE_SHORT, .size = 20, .max_side = 31},
        {.pad_square = true, .max_side = 40},
        {.resize = FF_RESIZE_EXACT,
         .resize_height = 5,
         .resize_width = 4,
         .crop_height = 2,
         .crop_width = 2},
    };
    ff_error error = {0};
    if (!kept && ff_decoder_create(&kept, &error) != FF_OK) return;
    ff_image_mode mode = (ff_image_mode)(choice % FF_MODE_COUNT);
    const ff_decode_options options = {.mode = mode,
                                       .pixel_limit = PIXEL_LIMIT,
                                       .exif = choice >> 4 & 1,
                                       .allow_truncated = choice >> 5 & 1,
                                       .pillow_12 = choice >> 12 & 1};
    ff_geometry geometry = geometries[choice / FF_MODE_COUNT % 8];
    geometry.order = options.pillow_12 ? FF_HORIZONTAL_FIRST : FF_CHEAPER_FIRST;
    ff_image_info info;
    ff_status probed = ff_decode_probe(bytes, length, &options, &info, &error);
    if (probed != FF_OK) check_message(&error);
    ff_status status = ff_decode(kept, bytes, length, &options, NULL, &kept_image, &error);
    if (status != FF_OK) check_message(&error);

    ff_decoder *fresh;
    ff_image image = {0};
    if (ff_decoder_create(&fresh, NULL) != FF_OK) return;
    ff_status again = ff_decode(fresh, bytes, length, &options, NULL, &image, NULL);
    CHECK(again == status);
    if (status == FF_OK) {
        size_t count = (size_t)image.width * image.height * image.channels;
        CHECK(probed == FF_OK && info.width == image.width && info.height == image.height);
        CHECK(image.channels == ff_image_mode_channels(mode, info.channels));
        CHECK(kept_image.width == image.width && kept_image.height == image.height);
        CHECK(kept_image.channels == image.channels);
        CHECK(memcmp(kept_image.pixels, image.pixels, count) == 0);
        make_samples(&geometry, bytes, length, options, &image);
    }
    ff_image_free(&image);
    ff_decoder_destroy(&fresh);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    unsigned choice = hash(bytes, length);
    decode(bytes, length, choice);
    uint8_t *repaired = malloc(length ? length : 1);
    if (!repaired) return 0;
    memcpy(repaired, bytes, length);
    repair_png(repaired, length);
    if (memcmp(repaired, bytes, length) != 0) decode(repaired, length, choice);
    free(repaired);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
