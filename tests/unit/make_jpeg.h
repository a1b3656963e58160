/* Makes small JPEGs for tests: every sampling, grey, in one scan or several, with restart
 * intervals. */
#ifndef FF_TESTS_MAKE_JPEG_H
#define FF_TESTS_MAKE_JPEG_H

#include "tests/unit/dice.h"
#include "tools/ffpack/decode/decode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

static dice luck = {.seed = 2}; /* some of the JPEGs decode without their last two bytes */

typedef struct way {
    int across, down; /* of the first component's sampling */
    int components;
    bool progressive, arithmetic, restarts;
    bool apart; /* one scan per component */
} way;

typedef struct file {
    uint8_t *bytes;
    size_t length;
} file;

/* Noise over waves: neighbouring blocks differ, so that a wrong neighbour is noticed. */
static inline file make_jpeg(uint32_t width, uint32_t height, const way *how) {
    struct jpeg_compress_struct library;
    struct jpeg_error_mgr messages;
    unsigned char *made = NULL;
    unsigned long length = 0;
    library.err = jpeg_std_error(&messages);
    jpeg_create_compress(&library);
    jpeg_mem_dest(&library, &made, &length);
    library.image_width = width;
    library.image_height = height;
    library.input_components = how->components;
    library.in_color_space = how->components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&library);
    jpeg_set_quality(&library, 60 + (int)roll(&luck, 40), TRUE);
    library.comp_info[0].h_samp_factor = how->across;
    library.comp_info[0].v_samp_factor = how->down;
    jpeg_scan_info apart[3];
    for (int i = 0; i < 3; i++) apart[i] = (jpeg_scan_info){1, {i}, 0, 63, 0, 0};
    if (how->progressive) jpeg_simple_progression(&library);
    if (how->apart) {
        library.scan_info = apart;
        library.num_scans = how->components;
    }
    library.arith_code = how->arithmetic;
    library.restart_interval = how->restarts ? 1 + roll(&luck, 9) : 0;
    jpeg_start_compress(&library, TRUE);
    size_t values = (size_t)width * (size_t)how->components;
    uint8_t *row = malloc(values);
    if (!row) abort();
    while (library.next_scanline < height) {
        for (size_t i = 0; i < values; i++)
            row[i] = (uint8_t)(i * 7 + library.next_scanline * 11 + roll(&luck, 60));
        jpeg_write_scanlines(&library, &row, 1);
    }
    free(row);
    jpeg_finish_compress(&library);
    jpeg_destroy_compress(&library);
    return (file){made, length};
}

#endif
