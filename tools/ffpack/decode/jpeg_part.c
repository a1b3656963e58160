/* By libjpeg-turbo's own API, since TurboJPEG's cannot leave out rows and columns, and has no way
 * to name a scale. What a region leaves out is the inverse DCT, upsampling and colour conversion of
 * the blocks on all four sides, and the Huffman decoding of the rows below.
 *
 * Fancy upsampling of a block looks at its neighbours, so a block more on each side is decoded.
 * Regions of images of several scans are left to the whole decode: their coefficients must all be
 * read before the first row, and where they are incomplete libjpeg smooths over blocks farther
 * away. */
#include "tools/ffpack/decode/jpeg_part.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

enum { MARKER_RST0 = 0xd0, MARKER_RST7 = 0xd7, MARKER_EOI = 0xd9, ROWS = 8, SCANS_MOST = 500 };

typedef struct reading {
    struct jpeg_decompress_struct library;
    struct jpeg_error_mgr messages;
    struct jpeg_progress_mgr progress;
    jmp_buf give_up;
} reading;

static void fail(j_common_ptr library) {
    longjmp(((reading *)library->client_data)->give_up, 1);
}

/* Warnings (below 0) are failures too; the others are traces. */
static void hear(j_common_ptr library, int level) {
    if (level < 0) fail(library);
}

/* No legitimate image has so many scans; they would keep a small file running for hours. */
static void watch(j_common_ptr library) {
    const reading *job = library->client_data;
    if (job->library.input_scan_number > SCANS_MOST) fail(library);
}

/* Whether nothing but pixels, their restart markers and the end follow. */
static bool ends_well(const struct jpeg_decompress_struct *library) {
    int marker = library->unread_marker;
    const uint8_t *at = library->src->next_input_byte, *end = at + library->src->bytes_in_buffer;
    while (marker == 0 || (marker >= MARKER_RST0 && marker <= MARKER_RST7)) {
        at = memchr(at, 0xff, (size_t)(end - at));
        while (at && at < end && *at == 0xff) at++;
        if (!at || at == end) return false;
        marker = *at++;
    }
    return marker == MARKER_EOI;
}

/* `margin` and more before `start`, and behind its end; within 0..size. */
static void widen(uint32_t *start, uint32_t *length, uint32_t margin, uint32_t size) {
    uint32_t end = *start + *length;
    end = size - end < margin ? size : end + margin;
    *start = *start < margin ? 0 : *start - margin;
    *length = end - *start;
}

static bool read_rows(reading *job, const ff_jpeg_part *part, uint8_t *pixels) {
    struct jpeg_decompress_struct *library = &job->library;
    uint32_t width = library->output_width, height = library->output_height;
    ff_region read = {0, 0, width, height};
    if (part->needed) {
        uint32_t block_height = DCTSIZE * (uint32_t)library->max_v_samp_factor;
        read = *part->needed;
        widen(&read.left, &read.width, DCTSIZE * (uint32_t)library->max_h_samp_factor, width);
        widen(&read.top, &read.height, block_height, height);
        /* Whole blocks above are skipped; libjpeg itself cuts columns at whole blocks. */
        read.height += read.top % block_height;
        read.top -= read.top % block_height;
    }
    JDIMENSION left = read.left, columns = read.width;
    if (columns < width) jpeg_crop_scanline(library, &left, &columns);
    if (read.top > 0 && jpeg_skip_scanlines(library, read.top) != read.top) return false;
    size_t components = (size_t)library->output_components, stride = width * components;
    uint32_t end = read.top + read.height;
    while (library->output_scanline < end) {
        JSAMPROW row[ROWS];
        uint32_t first = library->output_scanline;
        uint32_t count = end - first < ROWS ? end - first : ROWS;
        for (uint32_t i = 0; i < count; i++)
            row[i] = pixels + (first + i) * stride + left * components;
        if (jpeg_read_scanlines(library, row, count) == 0) return false;
    }
    if (end < height) return ends_well(library);
    jpeg_finish_decompress(library);
    return true;
}

static bool read_part(reading *job, const uint8_t *bytes, size_t length, const ff_jpeg_part *part,
                      uint8_t *pixels) {
    static const J_COLOR_SPACE spaces[] = {[1] = JCS_GRAYSCALE, [3] = JCS_RGB, [4] = JCS_CMYK};
    struct jpeg_decompress_struct *library = &job->library;
    job->progress.progress_monitor = watch;
    library->progress = &job->progress;
    jpeg_mem_src(library, bytes, (unsigned long)length);
    jpeg_read_header(library, TRUE);
    if (library->image_width != part->width || library->image_height != part->height ||
        (uint32_t)library->num_components != part->components ||
        (part->needed && jpeg_has_multiple_scans(library)))
        return false;
    library->out_color_space = spaces[part->components];
    library->scale_num = 1;
    library->scale_denom = part->reduction;
    jpeg_start_decompress(library);
    return read_rows(job, part, pixels);
}

bool ff_jpeg_read_part(const uint8_t *bytes, size_t length, const ff_jpeg_part *part,
                       uint8_t *pixels) {
    reading job;
    memset(&job, 0, sizeof job);
    job.library.err = jpeg_std_error(&job.messages);
    job.library.client_data = &job;
    job.messages.error_exit = fail;
    job.messages.emit_message = hear;
    volatile bool done = false;
    if (setjmp(job.give_up) == 0) {
        jpeg_create_decompress(&job.library); /* keeps err and client_data */
        done = read_part(&job, bytes, length, part, pixels);
    }
    jpeg_destroy_decompress(&job.library);
    return done;
}
