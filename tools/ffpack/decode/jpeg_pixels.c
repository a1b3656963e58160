/* libjpeg gets the data as in Pillow's JpegDecode.c and ImageFile.py: in blocks of 64 KiB, at the
 * end of which it suspends, and the rows decoded so far are the result. So the library decides
 * whether the data is complete, and handles damage between restart markers or after the last row;
 * whether it needs data beyond the last row depends on where the blocks end. With `fill`, one end
 * marker is added after the data. Arithmetic decoding cannot suspend: it fails at the end of a
 * block.
 *
 * Outside a region, the inverse DCT, upsampling and colour conversion of blocks are skipped, and
 * the Huffman decoding of the rows below. Fancy upsampling of a block reads its neighbours, so one
 * more block on each side is decoded. Images of several scans are always read completely: all their
 * coefficients must be read before the first row, and if some are missing, libjpeg smooths across
 * blocks farther away. */
#include "tools/ffpack/decode/jpeg_pixels.h"

#include "tools/ffpack/decode/kinds.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

enum { MARKER_RST0 = 0xd0, MARKER_RST7 = 0xd7, MARKER_EOI = 0xd9, ROWS = 8, SCANS_MOST = 500 };

/* ImageFile.py: MAXBLOCK. */
enum { BLOCK_BYTES = 65536 };

typedef struct reading {
    struct jpeg_decompress_struct library;
    struct jpeg_error_mgr messages;
    struct jpeg_progress_mgr progress;
    struct jpeg_source_mgr source;
    jmp_buf give_up;
    const uint8_t *bytes;
    size_t length;
    const ff_jpeg_frame *frame;
    const ff_region *needed; /* NULL: all; else warnings are failures too */
    uint32_t reduction;
    bool fill;
    bool several;   /* scans */
    size_t shown;   /* bytes that the library has got */
    size_t skip;    /* bytes that it skips once it gets them */
    uint8_t *tail;  /* the bytes that libjpeg had left at the end, and an end marker; owned */
    bool ended;     /* the library asked for more data than there is */
    char place[64]; /* its position at that time */
    char message[JMSG_LENGTH_MAX]; /* the fatal error's, else the first warning's */
    uint8_t *pixels;
} reading;

typedef enum ending { READ, CUT_OFF, BROKEN, NO_MEMORY } ending;

static void fail(j_common_ptr library) {
    reading *job = library->client_data;
    library->err->format_message(library, job->message);
    longjmp(job->give_up, 1);
}

/* Warnings are below 0, the others are traces. */
static void hear(j_common_ptr library, int level) {
    reading *job = library->client_data;
    if (level >= 0) return;
    if (job->needed) fail(library);
    if (library->err->num_warnings++ == 0) library->err->format_message(library, job->message);
}

/* No legitimate image has this number of scans; a small file could run for hours. */
static void watch(j_common_ptr library) {
    reading *job = library->client_data;
    if (job->library.input_scan_number <= SCANS_MOST) return;
    snprintf(job->message, sizeof job->message, "more than %d scans", SCANS_MOST);
    longjmp(job->give_up, 1);
}

/* ---- the data, and its end ------------------------------------------------------------------ */

static void begin_source(j_decompress_ptr library) {
    (void)library;
}

static boolean suspend(j_decompress_ptr library) {
    (void)library;
    return FALSE;
}

static void skip_source(j_decompress_ptr library, long count) {
    reading *job = library->client_data;
    struct jpeg_source_mgr *source = library->src;
    size_t all = count > 0 ? (size_t)count : 0;
    size_t here = all < source->bytes_in_buffer ? all : source->bytes_in_buffer;
    source->next_input_byte += here;
    source->bytes_in_buffer -= here;
    job->skip = all - here;
}

static void note_end(reading *job) {
    const struct jpeg_decompress_struct *library = &job->library;
    if (job->ended) return;
    job->ended = true;
    if (job->several)
        snprintf(job->place, sizeof job->place, "in scan %d", library->input_scan_number);
    else
        snprintf(job->place, sizeof job->place, "after %u of %u rows", library->output_scanline,
                 library->output_height);
}

/* The rest of the data with an end marker after it. */
static void add_end_marker(reading *job) {
    struct jpeg_source_mgr *source = &job->source;
    size_t left = source->bytes_in_buffer;
    job->tail = malloc(left + 2);
    if (!job->tail) ERREXIT1(&job->library, JERR_OUT_OF_MEMORY, 0);
    if (left > 0) memcpy(job->tail, source->next_input_byte, left);
    job->tail[left] = 0xff;
    job->tail[left + 1] = MARKER_EOI;
    source->next_input_byte = job->tail;
    source->bytes_in_buffer = left + 2;
}

/* After the library suspended: shows it more data; false at the end. */
static bool show_more(reading *job) {
    do {
        size_t more = job->length - job->shown;
        if (more > BLOCK_BYTES) more = BLOCK_BYTES;
        if (more == 0) note_end(job);
        if (more == 0 && (job->needed || !job->fill || job->tail)) return false;
        if (more == 0) add_end_marker(job);
        job->shown += more;
        job->source.bytes_in_buffer += more;
        skip_source(&job->library, (long)job->skip);
    } while (job->skip > 0);
    return true;
}

static void open_source(reading *job) {
    job->source = (struct jpeg_source_mgr){.next_input_byte = job->bytes,
                                           .init_source = begin_source,
                                           .fill_input_buffer = suspend,
                                           .skip_input_data = skip_source,
                                           .resync_to_restart = jpeg_resync_to_restart,
                                           .term_source = begin_source};
    job->library.src = &job->source;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Reads from the library's next row up to `end`, from column `left` of the whole image on; false if
 * the data ends first. */
static bool read_rows(reading *job, uint32_t left, uint32_t end) {
    struct jpeg_decompress_struct *library = &job->library;
    size_t components = (size_t)library->output_components;
    size_t stride = (job->frame->width + job->reduction - 1) / job->reduction * components;
    while (library->output_scanline < end) {
        JSAMPROW row[ROWS];
        uint32_t first = library->output_scanline;
        uint32_t count = end - first < ROWS ? end - first : ROWS;
        for (uint32_t i = 0; i < count; i++)
            row[i] = job->pixels + (first + i) * stride + left * components;
        if (jpeg_read_scanlines(library, row, count) == 0 && !show_more(job)) return false;
    }
    return true;
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

/* `margin` and more before `start`, and after its end; within 0..size. */
static void widen(uint32_t *start, uint32_t *length, uint32_t margin, uint32_t size) {
    uint32_t end = *start + *length;
    end = size - end < margin ? size : end + margin;
    *start = *start < margin ? 0 : *start - margin;
    *length = end - *start;
}

static ending read_region(reading *job) {
    struct jpeg_decompress_struct *library = &job->library;
    uint32_t width = library->output_width, height = library->output_height;
    uint32_t block_height = DCTSIZE * (uint32_t)library->max_v_samp_factor;
    ff_region read = *job->needed;
    widen(&read.left, &read.width, DCTSIZE * (uint32_t)library->max_h_samp_factor, width);
    widen(&read.top, &read.height, block_height, height);
    /* Whole blocks above are skipped; libjpeg itself cuts columns at whole blocks. */
    read.height += read.top % block_height;
    read.top -= read.top % block_height;
    JDIMENSION left = read.left, columns = read.width;
    if (columns < width) jpeg_crop_scanline(library, &left, &columns);
    if (read.top > 0 && jpeg_skip_scanlines(library, read.top) != read.top) return CUT_OFF;
    if (!read_rows(job, left, read.top + read.height)) return CUT_OFF;
    if (library->output_scanline < height) return ends_well(library) ? READ : CUT_OFF;
    return jpeg_finish_decompress(library) ? READ : CUT_OFF;
}

static ending read_image(reading *job) {
    static const J_COLOR_SPACE spaces[] = {[1] = JCS_GRAYSCALE, [3] = JCS_RGB, [4] = JCS_CMYK};
    struct jpeg_decompress_struct *library = &job->library;
    const ff_jpeg_frame *frame = job->frame;
    job->progress.progress_monitor = watch;
    library->progress = &job->progress;
    while (jpeg_read_header(library, TRUE) == JPEG_SUSPENDED)
        if (!show_more(job)) return CUT_OFF;
    job->several = jpeg_has_multiple_scans(library);
    if (library->image_width != frame->width || library->image_height != frame->height ||
        (uint32_t)library->num_components != frame->components ||
        (job->needed && (job->several || (library->arith_code && job->length > BLOCK_BYTES)))) {
        snprintf(job->message, sizeof job->message, "the header is ambiguous");
        return BROKEN;
    }
    library->out_color_space = spaces[frame->components];
    library->scale_num = 1;
    library->scale_denom = job->reduction;
    while (!jpeg_start_decompress(library))
        if (!show_more(job)) return CUT_OFF;
    if (job->needed) return read_region(job);
    if (!read_rows(job, 0, library->output_height)) return CUT_OFF;
    /* Data that ends here loses nothing; Pillow accepts it, too. */
    while (!jpeg_finish_decompress(library) && show_more(job)) continue;
    return READ;
}

/* The caller frees what the library allocated. */
static ending run(reading *job) {
    job->library.err = jpeg_std_error(&job->messages);
    job->library.client_data = job;
    job->messages.error_exit = fail;
    job->messages.emit_message = hear;
    if (setjmp(job->give_up) != 0) {
        int code = job->messages.msg_code;
        return code == JERR_OUT_OF_MEMORY  ? NO_MEMORY
               : code == JERR_CANT_SUSPEND ? CUT_OFF
                                           : BROKEN;
    }
    jpeg_create_decompress(&job->library); /* keeps err and client_data */
    if (job->needed) {
        jpeg_mem_src(&job->library, job->bytes, (unsigned long)job->length);
        job->shown = job->length;
    } else {
        open_source(job);
    }
    return read_image(job);
}

/* ---- messages ---------------------------------------------------------------------------- */

static ff_status refuse(const reading *job, ending how, ff_error *error) {
    if (how == NO_MEMORY)
        return ff_fail(error, FF_NO_MEMORY, "no memory to decode a JPEG of %u x %u pixels",
                       job->frame->width, job->frame->height);
    if (how == BROKEN) return ff_fail(error, FF_BAD_DATA, "broken JPEG: %s", job->message);
    return ff_fail(error, FF_BAD_DATA, "truncated JPEG: its %zu bytes end %s", job->length,
                   job->place);
}

static void warn(const reading *job, ending how, char *warning) {
    static const char filled[] = "filled as Pillow fills it", odd[] = "decoded as Pillow does";
    bool warned = job->messages.num_warnings > 0;
    if (how == BROKEN)
        snprintf(warning, FF_DECODE_WARNING_BYTES, "broken JPEG, %s: %s", filled, job->message);
    else if (how == CUT_OFF || (job->ended && warned))
        snprintf(warning, FF_DECODE_WARNING_BYTES, "truncated JPEG, %s: its %zu bytes end %s",
                 filled, job->length, job->place);
    else if (warned)
        snprintf(warning, FF_DECODE_WARNING_BYTES, "odd JPEG, %s: %s", odd, job->message);
    else if (job->ended)
        snprintf(warning, FF_DECODE_WARNING_BYTES,
                 "odd JPEG, %s: its %zu bytes lack the end marker", odd, job->length);
}

ff_status ff_jpeg_read(const uint8_t *bytes, size_t length, const ff_jpeg_frame *frame,
                       uint32_t reduction, bool fill, uint8_t *pixels, char *warning,
                       ff_error *error) {
    reading job;
    memset(&job, 0, sizeof job);
    job.bytes = bytes;
    job.length = length;
    job.frame = frame;
    job.reduction = reduction;
    job.fill = fill;
    job.pixels = pixels;
    ending how = run(&job);
    jpeg_destroy_decompress(&job.library);
    free(job.tail);
    if (how == NO_MEMORY || (how != READ && !fill)) return refuse(&job, how, error);
    warn(&job, how, warning);
    return FF_OK;
}

bool ff_jpeg_read_part(const uint8_t *bytes, size_t length, const ff_jpeg_frame *frame,
                       const ff_region *needed, uint8_t *pixels) {
    reading job;
    memset(&job, 0, sizeof job);
    job.bytes = bytes;
    job.length = length;
    job.frame = frame;
    job.needed = needed;
    job.reduction = 1;
    job.pixels = pixels;
    ending how = run(&job);
    jpeg_destroy_decompress(&job.library);
    return how == READ;
}
