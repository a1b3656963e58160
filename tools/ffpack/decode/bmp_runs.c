#include "tools/ffpack/decode/bmp_runs.h"

#include <string.h>

/* Pixels written in the order of the rows. */
typedef struct runs {
    const uint8_t *at, *start, *end;
    uint8_t *out, *out_start, *out_end;
    bool pillow_12;
} runs;

static void put(runs *to, uint8_t value) {
    if (to->out < to->out_end) *to->out++ = value;
}

static void put_zeros(runs *to, uint64_t count) {
    uint64_t room = (uint64_t)(to->out_end - to->out);
    to->out += count < room ? count : room;
}

/* Literal values; false at the end of the data. */
static bool put_literals(runs *to, unsigned count, bool four, uint32_t *x) {
    /* Before Pillow 13.0 the last of an odd number was not read. */
    unsigned pixels = four && to->pillow_12 ? count / 2 * 2 : count;
    for (unsigned i = 0; i < pixels; i++) {
        bool second = four && i % 2 == 1;
        if (!second && to->at == to->end) return false;
        uint8_t byte = second ? to->at[-1] & 15 : *to->at++;
        put(to, four && !second ? byte >> 4 : byte);
    }
    *x += count;
    /* Align to 16 bits, relative to the start of the file. */
    if (((to->at - to->start) & 1) && to->at < to->end) to->at++;
    return true;
}

/* BmpRleDecoder of BmpImagePlugin.py: pixels that the data skips, also at its end, are 0. False if
 * the data ends before the last pixel. */
static bool read_runs(runs *to, uint32_t width, bool four) {
    uint32_t x = 0;
    while (to->out < to->out_end) {
        if (to->end - to->at < 2) return false;
        unsigned count = to->at[0], byte = to->at[1];
        to->at += 2;
        if (count > 0) {
            if (x + count > width) count = x < width ? width - x : 0;
            for (unsigned i = 0; i < count; i++)
                put(to, (uint8_t)(four ? (i % 2 == 0 ? byte >> 4 : byte & 15) : byte));
            x += count;
        } else if (byte == 0) {
            uint64_t place = (uint64_t)(to->out - to->out_start) % width;
            if (place) put_zeros(to, width - place);
            x = 0;
        } else if (byte == 1) {
            return false;
        } else if (byte == 2) {
            /* Before Pillow 12.2, two bytes were dropped, and the two after them were read. */
            if (to->pillow_12) to->at += to->end - to->at < 2 ? 0 : 2;
            if (to->end - to->at < 2) return false;
            put_zeros(to, to->at[0] + (uint64_t)to->at[1] * width);
            to->at += 2;
            x = (uint32_t)((uint64_t)(to->out - to->out_start) % width);
        } else if (!put_literals(to, byte, four, &x)) {
            return false;
        }
    }
    return true;
}

bool ff_bmp_runs(const uint8_t *bytes, size_t length, size_t data, uint32_t width, bool four,
                 bool pillow_12, uint8_t *indexes, size_t count) {
    runs to = {.at = bytes + data,
               .start = bytes,
               .end = bytes + length,
               .out = indexes,
               .out_start = indexes,
               .out_end = indexes + count,
               .pillow_12 = pillow_12};
    return read_runs(&to, width, four) || to.out == to.out_end;
}
