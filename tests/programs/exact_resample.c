/* Random resized crops for comparison with torchvision, from lines on standard input to bytes on
 * standard output.
 *
 *   exact_resample boxes SPEC: a line "SEED EPOCH SAMPLE HEIGHT WIDTH" each gives
 *     "Y X HEIGHT WIDTH" and the 40 words of its ten tries, as text.
 *   exact_resample erase SPEC: the same for erased boxes, in outputs of HEIGHT x WIDTH.
 *   exact_resample samples: a line
 *     "FROM LAYOUT TO LAYOUT CHANNELS HEIGHT WIDTH OUT_HEIGHT OUT_WIDTH FLIP CUTOUT STATISTICS
 *      FLAGS Y X HEIGHT WIDTH"
 *   and the sample's bytes after it each produce the resampled bytes. STATISTICS 1: mean 0.5,
 *   0.4, 0.3, 0.2, std 0.25, 0.3, 0.2, 0.1; the cutout lies at (3, 2); FLAGS 2: the box of
 *   HEIGHT x WIDTH at (Y, X); 4: all resized to HEIGHT x WIDTH and the window at (Y, X). */
#include "loader/augment/resample.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ff_error error;

static int fail(void) {
    fprintf(stderr, "exact_resample: %s\n", error.message[0] ? error.message : "bad input");
    return 1;
}

static int boxes(const char *text, bool erase) {
    ff_augment_spec spec;
    uint64_t seed, sample;
    uint32_t epoch, height, width;
    if (ff_augment_parse(&spec, text, &error) != FF_OK) return fail();
    while (scanf("%" SCNu64 " %" SCNu32 " %" SCNu64 " %" SCNu32 " %" SCNu32, &seed, &epoch, &sample,
                 &height, &width) == 5) {
        ff_augment_params params =
            ff_augment_at(&spec, seed, epoch, sample, height, width, erase ? height : spec.rrc,
                          erase ? width : spec.rrc);
        if (erase)
            printf("%d %d %u %u", params.cut_y, params.cut_x, params.cut_height, params.cut_width);
        else
            printf("%d %d %u %u", params.y, params.x, params.height, params.width);
        for (uint32_t t = 0; t < 10; t++) {
            ff_random d =
                ff_philox_draw(seed, FF_DOMAIN_AUGMENT, epoch, sample, (erase ? 15 : 2) + t);
            for (int i = 0; i < 4; i++) printf(" %u", d.word[i]);
        }
        putchar('\n');
    }
    return feof(stdin) ? 0 : fail();
}

static bool parse_dtype(const char *name, ff_dtype *dtype) {
    for (int i = 0; i < FF_DTYPE_COUNT; i++) {
        *dtype = (ff_dtype)i;
        if (!strcmp(name, ff_dtype_name(*dtype))) return true;
    }
    return false;
}

static bool parse_layout(const char *name, ff_layout *layout) {
    *layout = strcmp(name, "chw") ? FF_HWC : FF_CHW;
    return !strcmp(name, ff_layout_name(*layout));
}

static int samples(void) {
    static float mean[] = {0.5f, 0.4f, 0.3f, 0.2f}, std[] = {0.25f, 0.3f, 0.2f, 0.1f};
    char name[4][8];
    ff_metadata metadata = {.mean = mean, .std = std};
    uint32_t height, width, out_height, out_width, flip;
    ff_augment_spec spec = {.rrc = 1};
    ff_augment_params params = {.cut_y = 3, .cut_x = 2};
    while (scanf("%7s %7s %7s %7s %u %u %u %u %u %u %u %u %u %d %d %u %u", name[0], name[1],
                 name[2], name[3], &metadata.channels, &height, &width, &out_height, &out_width,
                 &flip, &spec.cutout, &metadata.statistics_count, &params.flags, &params.y,
                 &params.x, &params.height, &params.width) == 17) {
        ff_dtype to;
        ff_layout to_layout;
        ff_augment_host host;
        ff_resampler *resampler;
        if (getchar() != '\n' || !parse_dtype(name[0], &metadata.dtype) ||
            !parse_layout(name[1], &metadata.layout) || !parse_dtype(name[2], &to) ||
            !parse_layout(name[3], &to_layout))
            return fail();
        params.flags |= flip ? FF_AUGMENT_FLIP : 0;
        params.cut_height = params.cut_width = spec.cutout;
        size_t values = (size_t)metadata.channels * height * width;
        size_t bytes = values * ff_dtype_bytes(metadata.dtype);
        size_t out_bytes = (size_t)metadata.channels * out_height * out_width * ff_dtype_bytes(to);
        /* Of exactly their lengths, so that a sanitizer detects accesses beyond. */
        uint8_t *source = malloc(bytes), *out = malloc(out_bytes);
        if (!source || !out || fread(source, 1, bytes, stdin) != bytes) return fail();
        if (ff_augment_host_init(&host, &metadata, &spec, to, to_layout, out_height, out_width,
                                 &error) != FF_OK ||
            ff_resampler_create(&resampler, &host, &metadata, &error) != FF_OK ||
            ff_resampler_reserve(resampler, &params, height, width, &error) != FF_OK)
            return fail();
        ff_resample(resampler, &params, source, height, width, out);
        fwrite(out, 1, out_bytes, stdout);
        ff_resampler_destroy(&resampler);
        ff_augment_host_free(&host);
        free(source);
        free(out);
    }
    return feof(stdin) ? 0 : fail();
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "boxes") == 0) return boxes(argv[2], false);
    if (argc == 3 && strcmp(argv[1], "erase") == 0) return boxes(argv[2], true);
    if (argc == 2 && strcmp(argv[1], "samples") == 0) return samples();
    fprintf(stderr, "usage: exact_resample boxes SPEC | erase SPEC | samples\n");
    return 2;
}
