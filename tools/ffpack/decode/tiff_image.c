#include "tools/ffpack/decode/tiff_image.h"

#include "format/base/bytes.h"
#include "tools/ffpack/decode/exif.h"

#include <stddef.h>
#include <string.h>

enum {
    TAG_WIDTH = 256,
    TAG_HEIGHT = 257,
    TAG_BITS = 258,
    TAG_COMPRESSION = 259,
    TAG_PHOTOMETRIC = 262,
    TAG_FILL_ORDER = 266,
    TAG_STRIP_OFFSETS = 273,
    TAG_SAMPLES = 277,
    TAG_ROWS_PER_STRIP = 278,
    TAG_PLANAR = 284,
    TAG_COLOR_MAP = 320,
    TAG_TILE_WIDTH = 322,
    TAG_TILE_HEIGHT = 323,
    TAG_TILE_OFFSETS = 324,
    TAG_EXTRA_SAMPLES = 338,
    TAG_SAMPLE_FORMAT = 339,
    TAG_WINDOWS_PHOTO = 0xbc01
};

/* The tags used; count 0 for a missing one. */
typedef struct tags {
    ff_tiff_entry width, height, bits, compression, photometric, fill_order, strip_offsets, samples;
    ff_tiff_entry rows_per_strip, planar, color_map, tile_width, tile_height, tile_offsets;
    ff_tiff_entry extra_samples, sample_format, windows_photo;
} tags;

static void take_tag(tags *in, const ff_tiff_entry *entry) {
    static const struct {
        uint16_t tag, place;
    } places[] = {
        {TAG_WIDTH, offsetof(tags, width)},
        {TAG_HEIGHT, offsetof(tags, height)},
        {TAG_BITS, offsetof(tags, bits)},
        {TAG_COMPRESSION, offsetof(tags, compression)},
        {TAG_PHOTOMETRIC, offsetof(tags, photometric)},
        {TAG_FILL_ORDER, offsetof(tags, fill_order)},
        {TAG_STRIP_OFFSETS, offsetof(tags, strip_offsets)},
        {TAG_SAMPLES, offsetof(tags, samples)},
        {TAG_ROWS_PER_STRIP, offsetof(tags, rows_per_strip)},
        {TAG_PLANAR, offsetof(tags, planar)},
        {TAG_COLOR_MAP, offsetof(tags, color_map)},
        {TAG_TILE_WIDTH, offsetof(tags, tile_width)},
        {TAG_TILE_HEIGHT, offsetof(tags, tile_height)},
        {TAG_TILE_OFFSETS, offsetof(tags, tile_offsets)},
        {TAG_EXTRA_SAMPLES, offsetof(tags, extra_samples)},
        {TAG_SAMPLE_FORMAT, offsetof(tags, sample_format)},
        {TAG_WINDOWS_PHOTO, offsetof(tags, windows_photo)},
    };
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (places[i].tag != entry->tag) continue;
        ff_tiff_entry *place = (ff_tiff_entry *)(void *)((char *)in + places[i].place);
        if (place->count == 0) *place = *entry; /* the first counts; before Pillow 13.0, the last */
    }
}

/* The first value of a tag, or `missing`; at most UINT32_MAX. */
static uint32_t value_of(const ff_tiff_file *file, const ff_tiff_entry *entry, uint32_t missing) {
    if (entry->count == 0) return missing;
    uint64_t value = ff_tiff_integer(file, entry, 0);
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* The key of OPEN_INFO. */
typedef struct key {
    uint32_t photometric, format, fill_order, depth, samples;
    uint32_t extra[FF_TIFF_SAMPLES_MOST], extra_count;
    bool big_endian;
} key;

static ff_status fail_key(const key *of, ff_error *error) {
    if (of->photometric >= 8 && of->photometric <= 10) /* CIELAB, ICCLAB, ITULAB */
        return ff_fail(error, FF_BAD_DATA,
                       "a TIFF of CIELAB colours (photometric %u) is not read; convert it to RGB",
                       of->photometric);
    return ff_fail(error, FF_BAD_DATA,
                   "a TIFF of %u sample%s of %u bits (photometric %u, format %u, fill order %u, %u "
                   "extra) is not read",
                   of->samples, of->samples == 1 ? "" : "s", of->depth, of->photometric, of->format,
                   of->fill_order, of->extra_count);
}

static ff_status read_key(key *out, const ff_tiff_file *file, const tags *in, bool old_jpeg,
                          ff_error *error) {
    *out = (key){.photometric = old_jpeg ? 6 : value_of(file, &in->photometric, 0),
                 .format = value_of(file, &in->sample_format, 1),
                 .fill_order = value_of(file, &in->fill_order, 1),
                 .depth = value_of(file, &in->bits, 1),
                 .big_endian = file->big_endian};
    out->samples = value_of(file, &in->samples, old_jpeg ? 3 : 1);
    if (out->samples == 0 || out->samples > FF_TIFF_SAMPLES_MOST)
        return ff_fail(error, FF_BAD_DATA, "a TIFF of %u samples a pixel; 1 to %d are read",
                       out->samples, FF_TIFF_SAMPLES_MOST);
    /* A single bit count applies to all samples; extra counts are ignored. */
    if (in->bits.count > 1 && in->bits.count < out->samples)
        return ff_fail(error, FF_BAD_DATA, "broken TIFF: %u samples a pixel, but bits for %u",
                       out->samples, (unsigned)in->bits.count);
    for (uint32_t i = 1; i < out->samples && i < in->bits.count; i++)
        if (ff_tiff_integer(file, &in->bits, i) != out->depth)
            return ff_fail(error, FF_BAD_DATA, "a TIFF whose samples differ in size is not read");
    for (uint64_t i = 1; i < in->sample_format.count; i++)
        if (out->format != 1 || ff_tiff_integer(file, &in->sample_format, i) != 1)
            return ff_fail(error, FF_BAD_DATA, "a TIFF of numbers and not pixels is not read");
    if (in->extra_samples.count > FF_TIFF_SAMPLES_MOST) return fail_key(out, error);
    out->extra_count = (uint32_t)in->extra_samples.count;
    for (uint32_t i = 0; i < out->extra_count; i++) {
        uint64_t value = ff_tiff_integer(file, &in->extra_samples, i);
        out->extra[i] = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
    }
    return FF_OK;
}

/* Grey without alpha: OPEN_INFO's rows of photometric 0 and 1. */
static bool find_grey(const key *of, ff_tiff_layout *out) {
    bool natural = of->fill_order == 1, little = !of->big_endian, black_is_0 = of->photometric == 1;
    out->numbers = (ff_tiff_numbers)(of->format - 1);
    switch (of->depth) {
    case 1:
    case 2:
    case 4:
    case 8:
        out->inverted = !black_is_0;
        out->numbers = FF_TIFF_UNSIGNED; /* Pillow's mode L, whatever the sign */
        return of->format == 1 ||
               (of->format == 2 && of->depth == 8 && black_is_0 && of->fill_order == 1);
    case 12: return of->format == 1 && little && black_is_0 && natural;
    case 16:
        if (of->format == 1) return little ? black_is_0 || natural : black_is_0 && natural;
        return of->format == 2 && black_is_0 && natural;
    case 32:
        if (of->format == 1) {
            out->numbers = FF_TIFF_SIGNED; /* Pillow's mode I: 2^31 and above is negative */
            return little && black_is_0 && natural;
        }
        return natural && (of->format == 3 || black_is_0);
    default: return false;
    }
}

/* Whether the extra samples are `first` and then only unspecified ones. */
static bool has_extra(const key *of, uint32_t first) {
    for (uint32_t i = 0; i < of->extra_count; i++)
        if (of->extra[i] != (i ? 0 : first)) return false;
    return of->extra_count > 0;
}

/* OPEN_INFO. */
static bool find_layout(const key *of, ff_tiff_layout *out) {
    bool plain = of->format == 1 && of->fill_order == 1, none = of->extra_count == 0;
    bool bytes = of->depth == 8, words = of->depth == 16;
    uint32_t extra = of->extra_count, samples = of->samples;
    *out = (ff_tiff_layout){.depth = of->depth,
                            .samples = samples,
                            .reversed = of->fill_order == 2,
                            .big_endian = of->big_endian};
    if (of->fill_order != 1 && of->fill_order != 2) return false;
    if (of->format < 1 || of->format > 3) return false;
    switch (of->photometric) {
    case 0:
    case 1:
        out->color = FF_TIFF_GREY;
        if (samples == 1 && none) return find_grey(of, out);
        return plain && of->photometric == 1 && bytes && samples == 2 && extra == 1 &&
               (of->extra[0] == 0 || of->extra[0] == 2);
    case 2:
        out->color = FF_TIFF_RGB;
        out->premultiplied = has_extra(of, 1);
        if (samples == 3 && none) return of->format == 1 && (bytes || (words && plain));
        if (!plain || samples < 4 || !(bytes || words)) return false;
        if (samples == 4 && (none || (bytes && extra == 1 && of->extra[0] == 999))) return true;
        return samples == 3 + extra && (bytes || samples == 4) &&
               (has_extra(of, 0) || has_extra(of, 1) || has_extra(of, 2));
    case 3:
        out->color = FF_TIFF_PALETTE;
        if (samples == 1 && none)
            return of->format == 1 && (of->depth == 1 || of->depth == 2 || of->depth == 4 || bytes);
        return plain && bytes && samples == 2 && extra == 1 && of->extra[0] == 2;
    case 5:
        out->color = FF_TIFF_CMYK;
        if (!plain || samples < 4) return false;
        if (words) return samples == 4 && none;
        return bytes && samples == 4 + extra && (none || has_extra(of, 0));
    case 6: out->color = FF_TIFF_YCBCR; return plain && bytes && samples == 3 && none;
    default: return false;
    }
}

/* The colours of a palette, planes of red, green and blue; black if there are none. */
static ff_status read_palette(ff_tiff_layout *out, const ff_tiff_file *file,
                              const ff_tiff_entry *map, ff_error *error) {
    uint64_t colors = map->count / 3;
    if (map->count == 0) return ff_fail(error, FF_BAD_DATA, "broken TIFF: its palette is missing");
    if (colors > 256 || ff_tiff_integer(file, map, 0) == UINT64_MAX)
        return ff_fail(error, FF_BAD_DATA, "broken TIFF: a palette of %llu values of type %u",
                       (unsigned long long)map->count, map->type);
    for (unsigned i = 0; i < 256; i++)
        for (unsigned c = 0; c < 3; c++)
            out->palette[i][c] =
                (uint8_t)(i < colors ? ff_tiff_integer(file, map, c * colors + i) / 256 : 0);
    return FF_OK;
}

static ff_status find_blocks(ff_tiff_image *out, const tags *in, ff_error *error) {
    const ff_tiff_file *file = &out->file;
    out->tiled = in->strip_offsets.count == 0 && in->tile_offsets.count > 0;
    out->offsets = out->tiled ? in->tile_offsets : in->strip_offsets;
    out->block_width = out->tiled ? value_of(file, &in->tile_width, 0) : out->width;
    out->block_height = out->tiled ? value_of(file, &in->tile_height, 0)
                                   : value_of(file, &in->rows_per_strip, out->height);
    /* libtiff handles the blocks of compressed images. */
    if (out->compression != FF_TIFF_UNCOMPRESSED) return FF_OK;
    if (out->offsets.count == 0)
        return ff_fail(error, FF_BAD_DATA, "broken TIFF: neither strips nor tiles");
    if (ff_tiff_integer(file, &out->offsets, 0) == UINT64_MAX || out->block_width == 0 ||
        out->block_height == 0)
        return ff_fail(error, FF_BAD_DATA, "broken TIFF: %s of %u x %u pixels",
                       out->tiled ? "tiles" : "strips", out->block_width, out->block_height);
    return FF_OK;
}

static bool is_compression(uint32_t code) {
    static const uint16_t known[] = {1,     2,     3,     4,     5,     6,     7,     8,    32771,
                                     32773, 32809, 32946, 34676, 34677, 34925, 50000, 50001};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i] == code) return true;
    return false;
}

ff_status ff_tiff_read_image(ff_tiff_image *image, const uint8_t *bytes, size_t length,
                             ff_error *error) {
    *image = (ff_tiff_image){0};
    ff_tiff_file *file = &image->file;
    if (!ff_tiff_open(file, bytes, length) || ff_tiff_first(file) == 0)
        return ff_fail(error, FF_BAD_DATA, "broken TIFF: it has no directory");
    tags found = {0};
    ff_tiff_cursor cursor;
    ff_tiff_entry entry;
    ff_tiff_begin(&cursor, file, ff_tiff_first(file));
    while (ff_tiff_next(&cursor, &entry)) take_tag(&found, &entry);
    if (found.windows_photo.count)
        return ff_fail(error, FF_BAD_DATA, "a Windows Media Photo is not read");
    image->width = value_of(file, &found.width, 0);
    image->height = value_of(file, &found.height, 0);
    image->compression = value_of(file, &found.compression, FF_TIFF_UNCOMPRESSED);
    image->orientation = ff_exif_directory_orientation(file, ff_tiff_first(file));
    if (image->width == 0 || image->height == 0 || image->width > INT32_MAX ||
        image->height > INT32_MAX)
        return ff_fail(error, FF_BAD_DATA,
                       "broken TIFF: its directory declares %u x %u pixels, or is cut off",
                       image->width, image->height);
    if (!is_compression(image->compression))
        return ff_fail(error, FF_BAD_DATA, "a TIFF of compression %u is not read",
                       image->compression);
    uint32_t planar = value_of(file, &found.planar, 1);
    key of;
    FF_TRY(read_key(&of, file, &found, image->compression == FF_TIFF_OLD_JPEG, error));
    if (!find_layout(&of, &image->layout)) return fail_key(&of, error);
    image->planes = planar == 2;
    image->extra_count = of.extra_count;
    image->first_extra = of.extra[0];
    if (image->layout.color == FF_TIFF_PALETTE)
        FF_TRY(read_palette(&image->layout, file, &found.color_map, error));
    return find_blocks(image, &found, error);
}

/* ---- samples to pixels ---------------------------------------------------------------------- */

uint32_t ff_tiff_channels(const ff_tiff_layout *layout) {
    return layout->deep ? 2 : layout->color == FF_TIFF_GREY ? 1 : 3;
}

/* Sample `index` of a row whose samples have at most 8 bits. */
static unsigned load_small(const ff_tiff_layout *layout, const uint8_t *row, size_t index) {
    size_t bit = index * layout->depth;
    unsigned byte = row[bit / 8], place = (unsigned)(bit % 8);
    if (layout->depth == 8 && !layout->reversed) return byte;
    if (layout->reversed) { /* Pillow reverses the bits of every byte */
        byte = (byte & 0x0f) << 4 | byte >> 4;
        byte = (byte & 0x33) << 2 | (byte >> 2 & 0x33);
        byte = (byte & 0x55) << 1 | (byte >> 1 & 0x55);
    }
    return byte >> (8 - layout->depth - place) & ((1u << layout->depth) - 1);
}

static uint8_t clip(int64_t value) {
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

/* A grey of 12 or 16 bits. */
static int load_word(const ff_tiff_layout *layout, const uint8_t *row, size_t index) {
    if (layout->depth == 12) {
        const uint8_t *at = row + index / 2 * 3;
        return index % 2 ? (at[1] & 15) << 8 | at[2] : at[0] << 4 | at[1] >> 4;
    }
    const uint8_t *at = row + index * 2;
    uint8_t turned[2] = {at[0], at[1]};
    if (layout->reversed) {
        const ff_tiff_layout byte = {.depth = 8, .reversed = true};
        for (unsigned i = 0; i < 2; i++) turned[i] = (uint8_t)load_small(&byte, at, i);
    }
    unsigned value = layout->big_endian ? (unsigned)turned[0] << 8 | turned[1]
                                        : (unsigned)turned[1] << 8 | turned[0];
    return layout->numbers == FF_TIFF_SIGNED ? (int16_t)value : (int)value;
}

/* A grey of more than 8 bits, clipped. */
static uint8_t load_large(const ff_tiff_layout *layout, const uint8_t *row, size_t index) {
    if (layout->depth <= 16) return clip(load_word(layout, row, index));
    const uint8_t *at = row + index * 4;
    uint32_t bits = layout->big_endian ? ff_load_be32(at) : ff_load_u32(at);
    if (layout->numbers != FF_TIFF_REAL) return clip((int32_t)bits);
    float real = ff_bits_float(bits);
    return real >= 255 ? 255 : real > 0 ? (uint8_t)real : 0;
}

static void unpack_grey(const ff_tiff_layout *layout, const uint8_t *row, uint32_t count,
                        uint8_t *pixels) {
    if (layout->deep) {
        for (uint32_t i = 0; i < count; i++, pixels += 2) {
            const uint16_t value = (uint16_t)load_word(layout, row, i);
            memcpy(pixels, &value, 2);
        }
        return;
    }
    if (layout->depth > 8) {
        for (uint32_t i = 0; i < count; i++) pixels[i] = load_large(layout, row, i);
        return;
    }
    unsigned scale = 255 / ((1u << layout->depth) - 1);
    uint8_t flip = layout->inverted ? 255 : 0;
    for (uint32_t i = 0; i < count; i++) {
        unsigned value = load_small(layout, row, (size_t)i * layout->samples);
        pixels[i] = (uint8_t)(value * scale) ^ flip;
    }
}

/* Red, green, blue and alpha or the four inks of a pixel, of 16 bits the high byte. */
static void load_colors(const ff_tiff_layout *layout, const uint8_t *row, size_t pixel,
                        unsigned count, uint8_t colors[4]) {
    size_t first = pixel * layout->samples;
    for (unsigned c = 0; c < count; c++) {
        if (layout->depth == 16)
            colors[c] = row[2 * (first + c) + !layout->big_endian];
        else
            colors[c] = (uint8_t)load_small(layout, row, first + c);
    }
}

void ff_tiff_unpack(const ff_tiff_layout *layout, const uint8_t *samples, uint32_t count,
                    uint8_t *pixels) {
    uint8_t colors[4];
    switch (layout->color) {
    case FF_TIFF_GREY: unpack_grey(layout, samples, count, pixels); break;
    case FF_TIFF_PALETTE:
        for (uint32_t i = 0; i < count; i++)
            memcpy(pixels + 3 * (size_t)i,
                   layout->palette[load_small(layout, samples, (size_t)i * layout->samples)], 3);
        break;
    case FF_TIFF_RGB:
    case FF_TIFF_YCBCR:
        for (uint32_t i = 0; i < count; i++, pixels += 3) {
            load_colors(layout, samples, i, layout->premultiplied ? 4 : 3, colors);
            if (layout->premultiplied && colors[3] != 255)
                for (unsigned c = 0; c < 3; c++)
                    colors[c] = colors[3] ? clip(colors[c] * 255 / colors[3]) : 0;
            memcpy(pixels, colors, 3);
        }
        break;
    case FF_TIFF_CMYK:
        for (uint32_t i = 0; i < count; i++, pixels += 3) {
            load_colors(layout, samples, i, 4, colors);
            int light = 255 - colors[3];
            for (unsigned c = 0; c < 3; c++) {
                int product = colors[c] * light + 128;
                pixels[c] = clip(light - (((product >> 8) + product) >> 8));
            }
        }
        break;
    }
}

void ff_tiff_interleave(const ff_tiff_layout *layout, const uint8_t *const *planes, uint32_t count,
                        uint8_t *row) {
    unsigned size = layout->depth / 8, step = layout->samples * size;
    for (unsigned plane = 0; plane < layout->samples; plane++)
        for (uint32_t x = 0; x < count; x++)
            memcpy(row + (size_t)x * step + plane * size, planes[plane] + (size_t)x * size, size);
}
