/* GIF, the first frame, as Pillow returns it (GifImagePlugin.py and GifDecode.c, version 11):
 *   - the image is as large as the screen, or larger if the frame reaches beyond it;
 *   - around the frame is the transparent colour, or colour 0 if no colour is transparent;
 *   - the frame's palette is used, else the screen's; a palette that is the plain ramp of greys
 *     does not count, and an image without a palette is grey;
 *   - bytes between blocks that do not begin a block are skipped.
 *
 * Own code: giflib refuses much of what Pillow reads, and does not return the pixels before an
 * error or truncation. */
#include "tools/ffpack/decode/kinds.h"

#include "format/base/bytes.h"
#include "format/base/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    SCREEN_BYTES = 13,
    CODE_BITS_MOST = 12,
    CODES = 1 << CODE_BITS_MOST,
    READ_BYTES = 65536, /* Pillow's read size: it matters after an early end code */
    NO_COLOR = -1
};

typedef struct palette {
    bool any; /* false: greys as they are */
    uint8_t color[256][3];
} palette;

typedef struct header {
    uint32_t width, height;
    uint32_t left, top, frame_width, frame_height;
    bool interlaced;
    int transparent;     /* a colour, or NO_COLOR */
    palette rgb;         /* for the colours */
    bool native_is_grey; /* Pillow's mode is L: its values are the indexes, whatever `rgb` */
    unsigned code_bits;
    size_t data; /* where the codes begin */
} header;

typedef struct reader {
    const uint8_t *bytes;
    size_t length, at;
} reader;

static bool matches(const uint8_t *bytes, size_t length) {
    return length >= 6 && (memcmp(bytes, "GIF87a", 6) == 0 || memcmp(bytes, "GIF89a", 6) == 0);
}

static ff_status cut_off(size_t length, const char *before, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "truncated GIF: its %zu bytes end before %s", length,
                   before);
}

/* A palette of 2 to the `bits` colours; missing colours are black; if all are missing, they are
 * greys. */
static void read_palette(reader *from, unsigned bits, palette *out) {
    size_t left = from->length - from->at, size = (size_t)3 << bits;
    if (size > left) size = left;
    out->any = false;
    unsigned count = (unsigned)(size / 3);
    for (unsigned i = 0; i < 256; i++) memset(out->color[i], (int)i, 3);
    for (unsigned i = 0; i < count; i++) {
        const uint8_t *color = from->bytes + from->at + 3 * i;
        if (color[0] != i || color[1] != i || color[2] != i) out->any = true;
        memcpy(out->color[i], color, 3);
    }
    for (unsigned i = count; out->any && i < 256; i++) memset(out->color[i], 0, 3);
    from->at += size;
}

/* An extension's next block; NULL after the last. */
static const uint8_t *next_block(reader *from, size_t *size) {
    *size = 0;
    if (from->at == from->length) return NULL;
    size_t said = from->bytes[from->at++], left = from->length - from->at;
    const uint8_t *block = from->bytes + from->at;
    *size = said < left ? said : left;
    from->at += *size;
    return said ? block : NULL;
}

/* An extension after its '!'. A graphic control names the transparent colour. */
static ff_status read_extension(reader *from, header *out, ff_error *error) {
    enum { GRAPHIC_CONTROL = 249 };
    size_t size;
    if (from->at == from->length) return cut_off(from->length, "the first frame", error);
    int kind = from->bytes[from->at++];
    const uint8_t *block = next_block(from, &size);
    if (kind == GRAPHIC_CONTROL && block) {
        if (size < 3 || ((block[0] & 1) && size < 4))
            return ff_fail(error, FF_BAD_DATA,
                           "broken GIF: a graphic control of %zu bytes, 4 wanted", size);
        if (block[0] & 1) out->transparent = block[3];
    }
    /* Pillow looks for further blocks also if the first was empty. */
    if (kind != 254 || block)
        while (next_block(from, &size)) continue;
    return FF_OK;
}

/* The frame after its ','. */
static ff_status read_frame(reader *from, header *out, palette *screen, ff_error *error) {
    enum { FRAME_BYTES = 9 };
    if (from->length - from->at < FRAME_BYTES)
        return cut_off(from->length, "the first frame's header is complete", error);
    const uint8_t *frame = from->bytes + from->at;
    from->at += FRAME_BYTES;
    out->left = ff_load_u16(frame);
    out->top = ff_load_u16(frame + 2);
    out->frame_width = ff_load_u16(frame + 4);
    out->frame_height = ff_load_u16(frame + 6);
    if (out->left + out->frame_width > out->width) out->width = out->left + out->frame_width;
    if (out->top + out->frame_height > out->height) out->height = out->top + out->frame_height;
    out->interlaced = frame[8] & 64;
    out->rgb = *screen;
    out->native_is_grey = !screen->any;
    if (frame[8] & 128) {
        palette own;
        read_palette(from, (frame[8] & 7) + 1, &own);
        /* If the frame's own palette is a ramp, the image is grey for Pillow; but if the screen's
         * palette has colours, Pillow uses these when it converts the image to RGB. */
        out->native_is_grey = !own.any;
        if (own.any) out->rgb = own;
    }
    if (from->at == from->length) return cut_off(from->length, "the first frame's pixels", error);
    out->code_bits = from->bytes[from->at++];
    out->data = from->at;
    return FF_OK;
}

static ff_status read_header(const uint8_t *bytes, size_t length, header *out, ff_error *error) {
    *out = (header){.transparent = NO_COLOR};
    if (length < SCREEN_BYTES) return cut_off(length, "the header is complete", error);
    reader from = {bytes, length, SCREEN_BYTES};
    palette screen = {0};
    out->width = ff_load_u16(bytes + 6);
    out->height = ff_load_u16(bytes + 8);
    if (bytes[10] & 128) read_palette(&from, (bytes[10] & 7) + 1, &screen);
    for (;;) {
        if (from.at == length) return cut_off(length, "the first frame", error);
        int byte = bytes[from.at++];
        if (byte == ';')
            return ff_fail(error, FF_BAD_DATA, "broken GIF: it ends at byte %zu without a frame",
                           from.at - 1);
        if (byte == '!') FF_TRY(read_extension(&from, out, error));
        if (byte == ',') break;
    }
    FF_TRY(read_frame(&from, out, &screen, error));
    if (out->width == 0 || out->height == 0)
        return ff_fail(error, FF_BAD_DATA,
                       "broken GIF: the header declares %u x %u "
                       "pixels",
                       out->width, out->height);
    /* As Pillow's: a frame without a right edge is the whole image. */
    if (out->left == 0 && out->frame_width == 0) {
        out->top = 0;
        out->frame_width = out->width;
        out->frame_height = out->height;
    }
    if (out->frame_width == 0 || out->frame_height == 0)
        return ff_fail(error, FF_BAD_DATA, "broken GIF: the first frame has %u x %u pixels",
                       out->frame_width, out->frame_height);
    return FF_OK;
}

static bool is_grey(const header *of) {
    return of->native_is_grey && !of->rgb.any;
}

static ff_status probe(const uint8_t *bytes, size_t length, ff_image_info *info, ff_error *error) {
    header found;
    FF_TRY(read_header(bytes, length, &found, error));
    info->width = found.width;
    info->height = found.height;
    info->channels = is_grey(&found) ? 1 : 3;
    return FF_OK;
}

/* ---- codes to indexes ---------------------------------------------------------------------- */

typedef enum progress { MORE, DONE, BROKEN, ENDED } progress;

/* The state of ImagingGifDecode; a code's string is built from its end. */
typedef struct lzw {
    const uint8_t *at, *end; /* what has been read so far */
    uint32_t bits, bit_count, block_left;
    unsigned clear, next, code_bits;
    bool fresh; /* after a clear code */
    unsigned last_code;
    uint8_t first; /* the last string's */
    uint16_t link[CODES];
    uint8_t value[CODES], string[CODES + 1];
    /* The place of the next index. */
    uint8_t *indexes;
    uint32_t stride, width, height, x, y, step;
    unsigned pass; /* an interlaced frame's pass, 1 to 3, then 0 */
} lzw;

/* Moves to the next row; false after the last. */
static bool next_row(lzw *to) {
    to->x = 0;
    to->y += to->step;
    while (to->y >= to->height) {
        switch (to->pass) {
        case 1:
            to->y = 4;
            to->pass = 2;
            break;
        case 2:
            to->step = 4;
            to->y = 2;
            to->pass = 3;
            break;
        case 3:
            to->step = 2;
            to->y = 1;
            to->pass = 0;
            break;
        default: return false;
        }
    }
    return true;
}

static bool put(lzw *to, const uint8_t *values, unsigned count) {
    while (count > 0) {
        uint32_t part = to->width - to->x < count ? to->width - to->x : count;
        memcpy(to->indexes + (size_t)to->y * to->stride + to->x, values, part);
        to->x += part;
        values += part;
        count -= part;
        if (to->x == to->width && !next_row(to)) return false;
    }
    return true;
}

static void restart(lzw *to, unsigned code_bits) {
    to->next = to->clear + 2;
    to->code_bits = code_bits + 1;
    to->fresh = true;
}

/* The next code; false if the data ends before it, or inside its block. */
static bool next_code(lzw *from, unsigned *code) {
    while (from->bit_count < from->code_bits) {
        if (from->block_left > 0) {
            from->bits |= (uint32_t)*from->at++ << from->bit_count;
            from->bit_count += 8;
            from->block_left--;
        } else {
            if (from->at == from->end || from->end - from->at < *from->at + 1) return false;
            from->block_left = *from->at++;
        }
    }
    *code = from->bits & ((1u << from->code_bits) - 1);
    from->bits >>= from->code_bits;
    from->bit_count -= from->code_bits;
    return true;
}

/* The string of a code, at the end of to->string; NULL for an unknown code. */
static const uint8_t *string_of(lzw *to, unsigned code, unsigned *count) {
    uint8_t *at = to->string + CODES + 1;
    unsigned now = code;
    if (code > to->next) return NULL;
    if (code == to->next) {
        *--at = to->first;
        now = to->last_code;
    }
    while (now >= to->clear) {
        if (at - to->string <= 1 || now >= CODES) return NULL;
        *--at = to->value[now];
        now = to->link[now];
    }
    *--at = (uint8_t)now;
    to->first = (uint8_t)now;
    if (to->next < CODES) {
        to->value[to->next] = (uint8_t)now;
        to->link[to->next] = (uint16_t)to->last_code;
        if (to->next == (1u << to->code_bits) - 1 && to->code_bits < CODE_BITS_MOST)
            to->code_bits++;
        to->next++;
    }
    to->last_code = code;
    *count = (unsigned)(to->string + CODES + 1 - at);
    return at;
}

/* Decodes codes from the data read so far. */
static progress run(lzw *to, unsigned code_bits) {
    unsigned code, count = 1;
    while (next_code(to, &code)) {
        const uint8_t *values = &to->first;
        if (code == to->clear) {
            restart(to, code_bits);
            continue;
        }
        if (code == to->clear + 1) return ENDED;
        if (to->fresh) {
            if (code > to->clear) return BROKEN;
            to->first = (uint8_t)code;
            to->last_code = code;
            to->fresh = false;
            count = 1;
        } else {
            values = string_of(to, code, &count);
            if (!values) return BROKEN;
        }
        if (!put(to, values, count)) return DONE;
    }
    return MORE;
}

static progress decode_indexes(lzw *to, const uint8_t *bytes, size_t length, const header *of) {
    if (of->code_bits > CODE_BITS_MOST) return BROKEN;
    to->clear = 1u << of->code_bits;
    to->step = of->interlaced ? 8 : 1;
    to->pass = of->interlaced;
    restart(to, of->code_bits);
    to->at = bytes + of->data;
    to->end = to->at;
    progress got = MORE;
    /* After an early end code, Pillow continues as soon as it has read more. */
    while ((got == MORE || got == ENDED) && to->end < bytes + length) {
        size_t left = (size_t)(bytes + length - to->end);
        to->end += left < READ_BYTES ? left : READ_BYTES;
        got = run(to, of->code_bits);
    }
    return got;
}

/* Converts every index to its colour, from the last on; in place if the image has 3 channels. */
static void look_up(const header *of, ff_image *image, size_t count) {
    for (size_t i = count; i-- > 0;)
        memcpy(image->pixels + 3 * i, of->rgb.color[image->pixels[i]], 3);
}

static ff_status decode(const ff_decode_job *job, ff_image *image, ff_error *error) {
    const uint8_t *bytes = job->bytes;
    const size_t length = job->length;
    header found;
    lzw *to;
    FF_TRY(read_header(bytes, length, &found, error));
    /* A byte of codes makes less than 3300 pixels: a string has at most 4096, its code 10 bits. */
    uint64_t pixels = (uint64_t)found.frame_width * found.frame_height;
    if (pixels / (CODES - 1) > length - found.data && !job->options->allow_truncated)
        return cut_off(length, "the image is complete", error);
    size_t count = (size_t)found.width * found.height;
    FF_TRY(ff_image_reserve(image, (uint64_t)count * 3, error));
    FF_TRY(ff_image_reshape(image, found.width, found.height, is_grey(&found) ? 1 : 3, error));
    memset(image->pixels, found.transparent == NO_COLOR ? 0 : found.transparent, count);
    FF_TRY(ff_alloc(&to, 1, sizeof *to, "a GIF's codes", error));
    to->indexes = image->pixels + (size_t)found.top * found.width + found.left;
    to->stride = found.width;
    to->width = found.frame_width;
    to->height = found.frame_height;
    progress got = decode_indexes(to, bytes, length, &found);
    free(to);
    if (got != DONE && !job->options->allow_truncated) {
        if (got == BROKEN) return ff_fail(error, FF_BAD_DATA, "broken GIF: an undefined code");
        return cut_off(length, "the image is complete", error);
    }
    if (got != DONE) ff_decode_warn_filled(job->warning, "GIF");
    if (found.native_is_grey && job->options->mode == FF_MODE_GRAY) {
        image->channels = 1;
        return FF_OK;
    }
    if (!is_grey(&found)) look_up(&found, image, count);
    return ff_image_to_mode(image, job->options->mode, error);
}

const ff_decode_kind ff_decode_gif = {
    .name = "GIF",
    .matches = matches,
    .probe = probe,
    .decode = decode,
};
