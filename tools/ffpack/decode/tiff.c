/* TIFF, the first image, as Pillow reads it (TiffImagePlugin.py and TiffDecode.c, version 11);
 * tiff_image.h lists what is read. Pillow always turns a TIFF upright by its orientation; so does
 * this code. (Pillow's exif_transpose then turns the image again; this code does not.)
 *
 * Uncompressed images are read here, straight from the file, as by Pillow's decoder of raw data;
 * compressed ones by libtiff (tiff_packed.h). */
#include "tools/ffpack/decode/kinds.h"

#include "format/base/memory.h"
#include "tools/ffpack/decode/exif.h"
#include "tools/ffpack/decode/tiff_packed.h"

#include <stdlib.h>
#include <string.h>

static bool matches(const uint8_t *bytes, size_t length) {
    ff_tiff_file file;
    return ff_tiff_open(&file, bytes, length);
}

static ff_status probe(const uint8_t *bytes, size_t length, ff_image_info *info, ff_error *error) {
    ff_tiff_image found;
    FF_TRY(ff_tiff_read_image(&found, bytes, length, error));
    info->width = found.width;
    info->height = found.height;
    info->channels = ff_tiff_channels(&found.layout);
    info->deep = found.layout.color == FF_TIFF_GREY && found.layout.numbers == FF_TIFF_UNSIGNED &&
                 (found.layout.depth == 12 || found.layout.depth == 16);
    return FF_OK;
}

static unsigned orientation(const uint8_t *bytes, size_t length) {
    ff_tiff_file file;
    if (!ff_tiff_open(&file, bytes, length)) return FF_EXIF_NONE;
    return ff_exif_directory_orientation(&file, ff_tiff_first(&file));
}

static uint8_t *pixel_of(ff_image *image, uint32_t x, uint32_t y) {
    return image->pixels + ((size_t)y * image->width + x) * image->channels;
}

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* ---- uncompressed --------------------------------------------------------------------------- */

/* The layout of the blocks. Pillow reads a block's rows without padding, except at the right edge,
 * where a tile is wider than its visible part. */
typedef struct grid {
    uint64_t across, down, planes;
    unsigned plane_samples;
} grid;

/* Which uncompressed images Pillow's raw decoder reads correctly. (It takes the letters of the
 * mode's name for the planes' layouts.) */
static bool reads_planes(const ff_tiff_image *of) {
    const ff_tiff_layout *layout = &of->layout;
    if (layout->depth != 8 || layout->reversed || layout->premultiplied) return false;
    if (layout->color == FF_TIFF_CMYK) return layout->samples == 4;
    if (layout->color != FF_TIFF_RGB) return false;
    if (layout->samples == 4 && of->extra_count == 0) return !of->tiled;
    return layout->samples <= 4 || of->first_extra == 0;
}
static bool reads_plane(const ff_tiff_layout *layout) {
    return !layout->inverted && !layout->reversed &&
           (layout->depth == 8 || (layout->depth == 1 && layout->color == FF_TIFF_GREY));
}
static bool reads_reversed(const ff_tiff_layout *layout) {
    if (layout->color == FF_TIFF_PALETTE) return layout->depth == 8;
    return !(layout->color == FF_TIFF_GREY && layout->depth == 8 && layout->inverted);
}

static ff_status plan_grid(const ff_tiff_image *of, grid *out, ff_error *error) {
    const ff_tiff_layout *layout = &of->layout;
    bool planes = of->planes && layout->samples > 1;
    out->across = ((uint64_t)of->width + of->block_width - 1) / of->block_width;
    out->down = ((uint64_t)of->height + of->block_height - 1) / of->block_height;
    out->planes = planes ? layout->samples : 1;
    out->plane_samples = planes ? 1 : layout->samples;
    if ((planes && !reads_planes(of)) || (of->planes && !planes && !reads_plane(layout)) ||
        (layout->reversed && !reads_reversed(layout)) || layout->color == FF_TIFF_YCBCR)
        return ff_fail(error, FF_BAD_DATA,
                       "an uncompressed TIFF of %u samples of %u bits%s%s is not read",
                       layout->samples, layout->depth, of->planes ? " in planes" : "",
                       layout->reversed ? " in reversed order" : "");
    uint64_t wanted = out->across * out->down * out->planes;
    if (of->offsets.count > wanted)
        return ff_fail(error, FF_BAD_DATA, "broken TIFF: it has %llu %s, its size makes %llu",
                       (unsigned long long)of->offsets.count, of->tiled ? "tiles" : "strips",
                       (unsigned long long)wanted);
    return FF_OK;
}

static ff_status cut_off(size_t length, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "truncated TIFF: its %zu bytes end before the image is complete", length);
}

/* A block in the file: its visible rows, and the number of rows that exist. */
typedef struct block {
    uint32_t x, y, width, height;
    const uint8_t *rows;
    uint64_t stride, there;
} block;

/* False if Pillow cannot read such a block. */
static bool find_block(const ff_tiff_image *of, const grid *in, uint64_t index, block *out) {
    uint64_t place = index % (in->across * in->down);
    uint64_t bits = (uint64_t)of->layout.depth * in->plane_samples;
    out->x = (uint32_t)(place % in->across) * of->block_width;
    out->y = (uint32_t)(place / in->across) * of->block_height;
    out->width = least(of->block_width, of->width - out->x);
    out->height = least(of->block_height, of->height - out->y);
    uint64_t row_bytes = (out->width * bits + 7) / 8;
    bool wider = of->block_width > out->width;
    out->stride = wider ? of->block_width * bits / 8 : row_bytes;
    out->rows = of->file.bytes;
    out->there = 0;
    if (index >= of->offsets.count) return true;
    uint64_t offset = ff_tiff_integer(&of->file, &of->offsets, index);
    uint64_t left = offset < of->file.length ? of->file.length - offset : 0;
    if (left >= row_bytes) {
        out->rows += offset;
        out->there = out->stride ? (left - row_bytes) / out->stride + 1 : out->height;
        if (out->there > out->height) out->there = out->height;
    }
    return out->stride >= row_bytes;
}

/* All blocks of one place, one of each plane. */
static ff_status place_blocks(const ff_tiff_image *of, const grid *in, uint64_t place, bool fill,
                              uint8_t *row, ff_image *image, char *warning, ff_error *error) {
    block found[FF_TIFF_SAMPLES_MOST];
    uint64_t there = UINT64_MAX;
    for (unsigned plane = 0; plane < in->planes; plane++) {
        uint64_t index = plane * in->across * in->down + place;
        if (!find_block(of, in, index, &found[plane]))
            return ff_fail(error, FF_BAD_DATA,
                           "a TIFF of %u bits in tiles of %u pixels is not read", of->layout.depth,
                           of->block_width);
        /* Pillow ignores blocks that are not listed, but not with planes. */
        bool missing = index >= of->offsets.count;
        bool cut = found[plane].there < found[plane].height && (!missing || in->planes > 1);
        if (cut && !fill) return cut_off(of->file.length, error);
        if (cut) ff_decode_warn_filled(warning, "TIFF");
        if (found[plane].there < there) there = found[plane].there;
    }
    for (uint32_t y = 0; y < there; y++) {
        const uint8_t *planes[FF_TIFF_SAMPLES_MOST];
        for (unsigned plane = 0; plane < in->planes; plane++)
            planes[plane] = found[plane].rows + y * found[plane].stride;
        if (in->planes > 1) ff_tiff_interleave(&of->layout, planes, found[0].width, row);
        ff_tiff_unpack(&of->layout, in->planes > 1 ? row : planes[0], found[0].width,
                       pixel_of(image, found[0].x, found[0].y + y));
    }
    return FF_OK;
}

/* Initialises pixels from samples of 0, as Pillow does; these are not always black. */
static void clear(const ff_tiff_image *of, ff_image *image) {
    static const uint8_t zeros[FF_TIFF_SAMPLES_MOST * 4];
    ff_tiff_layout layout = of->layout;
    layout.inverted = false; /* Pillow sets the pixel to 0, not the sample */
    uint8_t pixel[3];
    ff_tiff_unpack(&layout, zeros, 1, pixel);
    size_t count = (size_t)image->width * image->height, channels = image->channels;
    for (size_t i = 0; i < count; i++) memcpy(image->pixels + i * channels, pixel, channels);
}

static ff_status read_uncompressed(const ff_tiff_image *of, bool fill, ff_image *image,
                                   char *warning, ff_error *error) {
    grid in;
    FF_TRY(plan_grid(of, &in, error));
    uint64_t wanted = in.across * in.down * in.planes;
    /* Refused before the pixels are allocated; blocks may be missing, but not incomplete. */
    uint64_t bits = (uint64_t)of->width * of->height * of->layout.samples * of->layout.depth;
    if (!fill && of->offsets.count == wanted && bits / 8 > of->file.length)
        return cut_off(of->file.length, error);
    FF_TRY(ff_image_reshape(image, of->width, of->height, ff_tiff_channels(&of->layout), error));
    if (fill || of->offsets.count < wanted) clear(of, image);
    uint8_t *row = NULL;
    if (in.planes > 1)
        FF_TRY(ff_alloc(&row, of->width, FF_TIFF_SAMPLES_MOST * 2, "a TIFF's row", error));
    ff_status status = FF_OK;
    for (uint64_t place = 0; place < in.across * in.down && status == FF_OK; place++)
        status = place_blocks(of, &in, place, fill, row, image, warning, error);
    free(row);
    return status;
}

static ff_status decode(const ff_decode_job *job, ff_image *image, ff_error *error) {
    const uint8_t *bytes = job->bytes;
    const size_t length = job->length;
    ff_tiff_image found;
    FF_TRY(ff_tiff_read_image(&found, bytes, length, error));
    found.layout.deep = job->options->deep;
    image->clips =
        !job->options->deep && found.layout.color == FF_TIFF_GREY && found.layout.depth > 8;
    if (found.compression == FF_TIFF_UNCOMPRESSED)
        FF_TRY(
            read_uncompressed(&found, job->options->allow_truncated, image, job->warning, error));
    else
        FF_TRY(ff_tiff_read_packed(&found, job->options->pixel_limit, image, error));
    return job->options->deep ? FF_OK : ff_image_to_mode(image, job->options->mode, error);
}

const ff_decode_kind ff_decode_tiff = {
    .name = "TIFF",
    .matches = matches,
    .probe = probe,
    .orientation = orientation,
    .always_upright = true,
    .decode = decode,
};
