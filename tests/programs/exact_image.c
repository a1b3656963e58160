/* Images through ffpack's own functions, for the exactness tests: decode, resize, crop, ToTensor,
 * Normalize, dtype and layout, by the options. Standard input holds images, each as a line with its
 * length in decimal and its bytes; for each, standard output gets a line `ok WIDTH HEIGHT CHANNELS
 * BYTES` and the tensor's bytes, or a line `error SENTENCE`. Exit 0 unless the options or the
 * frames are wrong. */
#include "format/base/memory.h"
#include "format/cli/options.h"
#include "tools/ffpack/decode/decode.h"
#include "tools/ffpack/image/transform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS_MOST = 3 };

typedef struct settings {
    int mode, dtype, layout, interpolation;
    const char *resize, *crop, *mean, *std;
    bool exif, allow_truncated, fast_decode, pad_square, pillow_12;
    int64_t max_side;
    int64_t pixel_limit;
    ff_geometry geometry;
    float mean_values[CHANNELS_MOST], std_values[CHANNELS_MOST];
} settings;

typedef struct worker {
    ff_decoder *decoder;
    ff_image image;
    ff_geometry_scratch scratch;
    char *input;
    size_t input_capacity;
    void *output;
    size_t output_capacity;
} worker;

static void read_floats(const char *text, float *values) {
    char *end = (char *)(size_t)text;
    for (int c = 0; c < CHANNELS_MOST && end && *end; c++) {
        values[c] = strtof(end, &end);
        if (*end == ',') end++;
    }
}

static ff_status convert(const settings *set, worker *work, size_t length, ff_error *error) {
    static const ff_dtype dtypes[] = {FF_U8, FF_F16, FF_BF16, FF_F32};
    const ff_image *packed;
    const uint8_t *file = (const uint8_t *)work->input;
    ff_decode_options options = {.mode = (ff_image_mode)set->mode,
                                 .pixel_limit = (uint64_t)set->pixel_limit,
                                 .exif = set->exif,
                                 .allow_truncated = set->allow_truncated,
                                 .pillow_12 = set->pillow_12};
    ff_image_info info;
    ff_region needed;
    FF_TRY(ff_decode_probe(file, length, &options, &info, error));
    FF_TRY(ff_geometry_needed(&set->geometry, info.width, info.height, &work->scratch, &needed,
                              error));
    if (set->fast_decode)
        FF_TRY(ff_geometry_reduction(&set->geometry, info.width, info.height, &options.reduction,
                                     error));
    FF_TRY(ff_decode(work->decoder, file, length, &options, &needed, &work->image, error));
    FF_TRY(ff_geometry_apply(&set->geometry, &work->image, info.width, info.height, &work->scratch,
                             &packed, error));
    ff_transform_spec spec = {.source = FF_VALUES_U8,
                              .channels = packed->channels,
                              .mean = set->mean ? set->mean_values : NULL,
                              .std = set->mean ? set->std_values : NULL,
                              .dtype = dtypes[set->dtype],
                              .layout = (ff_layout)set->layout};
    ff_transform *transform;
    FF_TRY(ff_transform_create(&transform, &spec, error));
    size_t bytes = ff_transform_bytes(transform, packed->width, packed->height);
    ff_status status = ff_reserve(&work->output, &work->output_capacity, bytes, 1, "output", error);
    if (status == FF_OK) {
        ff_transform_interleaved(transform, packed->pixels, packed->width, packed->height,
                                 work->output);
        printf("ok %u %u %u %zu\n", packed->width, packed->height, packed->channels, bytes);
        fwrite(work->output, 1, bytes, stdout);
    }
    ff_transform_destroy(&transform);
    return status;
}

/* 1 if an image was read, 0 at the end; the bytes are in memory of exactly their length, so that a
 * sanitizer detects a read beyond them. */
static int read_frame(worker *work, size_t *length) {
    if (scanf("%zu", length) != 1 || getchar() != '\n') return 0;
    free(work->input);
    work->input = malloc(*length ? *length : 1);
    return work->input && fread(work->input, 1, *length, stdin) == *length;
}

int main(int argc, char **argv) {
    settings set = {.dtype = 3, .pixel_limit = FF_PIXEL_LIMIT};
    const ff_option options[] = {
        {"mode", 0, FF_OPTION_CHOICE, NULL, &set.mode, "rgb|gray|native", 0, 0, "channels"},
        {"resize", 0, FF_OPTION_STRING, "N|HxW", &set.resize, NULL, 0, 0, "short side or exact"},
        {"crop", 0, FF_OPTION_STRING, "N|HxW", &set.crop, NULL, 0, 0, "centre crop"},
        {"interpolation", 0, FF_OPTION_CHOICE, NULL, &set.interpolation, "bilinear|bicubic", 0, 0,
         "of the resize"},
        {"mean", 0, FF_OPTION_STRING, "a,b,c", &set.mean, NULL, 0, 0, "of Normalize"},
        {"std", 0, FF_OPTION_STRING, "a,b,c", &set.std, NULL, 0, 0, "of Normalize"},
        {"dtype", 0, FF_OPTION_CHOICE, NULL, &set.dtype, "u8|f16|bf16|f32", 0, 0, "of the output"},
        {"layout", 0, FF_OPTION_CHOICE, NULL, &set.layout, "chw|hwc", 0, 0, "of the output"},
        {"max-side", 0, FF_OPTION_INTEGER, "N", &set.max_side, NULL, 1, 1e6, "bound of sides"},
        {"pad-square", 0, FF_OPTION_FLAG, NULL, &set.pad_square, NULL, 0, 0, "first"},
        {"fast-decode", 0, FF_OPTION_FLAG, NULL, &set.fast_decode, NULL, 0, 0, "reduced"},
        {"exif", 0, FF_OPTION_FLAG, NULL, &set.exif, NULL, 0, 0, "turn upright"},
        {"allow-truncated", 0, FF_OPTION_FLAG, NULL, &set.allow_truncated, NULL, 0, 0, "fill"},
        {"pillow-12", 0, FF_OPTION_FLAG, NULL, &set.pillow_12, NULL, 0, 0, "values of 12.1"},
        {"pixel-limit", 0, FF_OPTION_INTEGER, "N", &set.pixel_limit, NULL, 1, 1e15, "most pixels"},
        {.name = NULL},
    };
    const ff_command command = {"exact_image", "exact_image [options] <images", "", options, NULL,
                                NULL};
    ff_error error = {0};
    ff_positionals words;
    ff_status status = ff_options_parse(&command, argc, argv, &words, &error);
    const bool done = words.done;
    ff_positionals_free(&words);
    if (status == FF_OK && done) return 0;
    if (status == FF_OK && set.resize)
        status = ff_geometry_parse_resize(&set.geometry, "--resize", set.resize, &error);
    if (status == FF_OK && set.crop)
        status = ff_geometry_parse_crop(&set.geometry, "--crop", set.crop, &error);
    set.geometry.interpolation = (ff_interpolation)set.interpolation;
    set.geometry.order = set.pillow_12 ? FF_HORIZONTAL_FIRST : FF_CHEAPER_FIRST;
    set.geometry.pad_square = set.pad_square;
    set.geometry.max_side = (uint32_t)set.max_side;
    read_floats(set.mean, set.mean_values);
    read_floats(set.std, set.std_values);
    worker work = {0};
    if (status == FF_OK) status = ff_decoder_create(&work.decoder, &error);
    size_t length;
    while (status == FF_OK && read_frame(&work, &length))
        if (convert(&set, &work, length, &error) != FF_OK) printf("error %s\n", error.message);
    ff_decoder_destroy(&work.decoder);
    ff_image_free(&work.image);
    ff_geometry_scratch_free(&work.scratch);
    free(work.input);
    free(work.output);
    if (status != FF_OK) fprintf(stderr, "exact_image: %s\n", error.message);
    return status == FF_OK && feof(stdin) ? 0 : 1;
}
