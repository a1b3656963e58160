/* Augmentation on the host: the plain version against an image padded, cropped and flipped by hand,
 * and every fast version against the plain one, bit for bit, on random odd shapes. */
#include "loader/host/past_caches.h"
#include "tests/unit/augment_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static dice luck;

/* Signalling NaNs may or may not become quiet: excluded. */
static void make_quiet(void *array, ff_dtype dtype, size_t count) {
    uint16_t *half = array;
    uint32_t *single = array;
    for (size_t i = 0; i < count; i++) {
        if (dtype == FF_F16 && (half[i] & 0x7fff) > 0x7c00) half[i] |= 0x0200;
        if (dtype == FF_BF16 && (half[i] & 0x7fff) > 0x7f80) half[i] |= 0x0040;
        if (dtype == FF_F32 && (single[i] & 0x7fffffffu) > 0x7f800000u) single[i] |= 0x00400000u;
    }
}

static void make_case(augment_case *c, ff_dtype from, ff_dtype to, ff_layout from_layout,
                      ff_layout to_layout, uint32_t channels, uint32_t side_limit) {
    memset(c, 0, sizeof *c);
    c->height = 1 + roll(&luck, side_limit), c->width = 1 + roll(&luck, side_limit);
    if (roll(&luck, 5) < 2) c->width = 16 * (1 + roll(&luck, 4)); /* rows are whole vectors */
    c->spec.crop = roll(&luck, 4) != 0;
    c->spec.flip = (ff_flip_mode)roll(&luck, 3);
    c->spec.vflip = roll(&luck, 3) ? 0 : 0.5;
    uint32_t least = c->height < c->width ? c->height : c->width;
    if (c->spec.crop) {
        c->spec.pad_mode = least > 1 && roll(&luck, 3) == 0 ? FF_PAD_REFLECT : FF_PAD_BLACK;
        const bool reflects = c->spec.pad_mode == FF_PAD_REFLECT;
        c->spec.pad = roll(&luck, reflects ? least : least < 6 ? least + 1 : 7);
    }
    if (ff_dtype_is_float(to) && roll(&luck, 2)) c->spec.cutout = 1 + roll(&luck, side_limit);
    c->out_height = 1 + roll(&luck, c->height + 2 * c->spec.pad);
    c->out_width = 1 + roll(&luck, c->width + 2 * c->spec.pad);
    if (roll(&luck, 2) && c->spec.crop) c->out_height = c->height, c->out_width = c->width;
    /* All bit patterns, so infinities, quiet NaNs and subnormals among them. */
    augment_case_init(c, &luck, from, from_layout, channels, to, to_layout);
    c->host.streams = roll(&luck, 2);
    make_quiet(c->source, from, c->source_bytes / ff_dtype_bytes(from));
}

static uint8_t *run(const augment_case *c, ff_augment_apply apply, const uint8_t *source) {
    uint8_t *out = augment_case_output(c);
    apply(&c->host, &c->params, source, c->height, c->width, out + AUGMENT_GUARD);
    return out;
}

/* With the sample right after a page that cannot be read, and right before one: reading outside the
 * sample ends the test. */
static void compare(const augment_case *c, ff_augment_apply apply, const char *name) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t room = ff_align_u64(c->source_bytes, page);
    uint8_t *pages = mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(mprotect(pages + page, room, PROT_READ | PROT_WRITE), 0);
    uint8_t *places[] = {pages + page, pages + page + room - c->source_bytes};
    for (int i = 0; i < 2; i++) {
        memcpy(places[i], c->source, c->source_bytes);
        augment_case_compare(c, name, run(c, ff_augment_plain, c->source),
                             run(c, apply, places[i]));
    }
    munmap(pages, room + 2 * page);
}

static bool makes(ff_dtype from, ff_dtype to) {
    return ff_dtype_is_float(to) || from == to;
}

static void fast_equals_plain(void **state) {
    (void)state;
    unsigned narrow = 0, shuffles = 0, wide = 0, bytes = 0;
    for (ff_dtype from = FF_U8; from <= FF_F32; from++) {
        for (ff_dtype to = FF_U8; to <= FF_F32; to++) {
            if (!makes(from, to)) continue;
            unsigned trials = from == FF_U8 || from == FF_F16 || from == FF_BF16 ? 400 : 120;
            for (unsigned trial = 0; trial < trials; trial++) {
                static const uint32_t sides[] = {3, 20, 40, 90};
                augment_case c;
                uint32_t channels = trial % 3 == 0 ? 3 : 1 + roll(&luck, 5);
                make_case(&c, from, to, (ff_layout)(trial & 1), (ff_layout)(trial >> 1 & 1),
                          channels, sides[trial % 4]);
                compare(&c, ff_augment_rows, "rows");
                ff_augment_apply fast = ff_augment_avx2(&c.host);
                if (fast) compare(&c, fast, "avx2"), narrow++;
                fast = ff_augment_shuffles_avx2(&c.host);
                if (fast) compare(&c, fast, "shuffles"), shuffles++;
                fast = ff_augment_avx512(&c.host);
                if (fast) compare(&c, fast, "avx512"), wide++;
                fast = ff_augment_bytes_avx512(&c.host);
                if (fast) compare(&c, fast, "vbmi"), bytes++;
                compare(&c, c.host.apply, "apply");
                augment_case_free(&c);
            }
        }
    }
    print_message("# %u cases by AVX2, %u by its shuffles, %u by AVX-512, %u by its VBMI\n", narrow,
                  shuffles, wide, bytes);
}

/* f16 CHW: pad, crop and flip done one after the other on whole images. */
static void plain_equals_steps(void **state) {
    (void)state;
    for (unsigned trial = 0; trial < 200; trial++) {
        augment_case c;
        make_case(&c, FF_F16, FF_F16, FF_CHW, FF_CHW, 1 + roll(&luck, 3), 24);
        uint32_t pad = c.spec.pad, height = c.height + 2 * pad, width = c.width + 2 * pad;
        uint16_t *padded = calloc((size_t)height * width, 2);
        assert_non_null(padded);
        uint8_t *out = run(&c, ff_augment_plain, c.source);
        const uint16_t *found = (const uint16_t *)(void *)(out + AUGMENT_GUARD);
        for (uint32_t channel = 0; channel < c.host.channels; channel++) {
            const uint16_t *plane =
                (const uint16_t *)(void *)c.source + (size_t)channel * c.height * c.width;
            float black =
                c.metadata.statistics_count ? (0.0f - c.mean[channel]) / c.std[channel] : 0.0f;
            for (uint32_t y = 0; y < height; y++) {
                for (uint32_t x = 0; x < width; x++) {
                    int32_t sy = (int32_t)(y - pad), sx = (int32_t)(x - pad);
                    uint16_t value = ff_f16_from_f32(black);
                    if (c.spec.pad_mode == FF_PAD_REFLECT) {
                        sy = abs(sy), sx = abs(sx);
                        if (sy >= (int32_t)c.height) sy = 2 * (int32_t)c.height - 2 - sy;
                        if (sx >= (int32_t)c.width) sx = 2 * (int32_t)c.width - 2 - sx;
                    }
                    if (sy >= 0 && sx >= 0 && sy < (int32_t)c.height && sx < (int32_t)c.width)
                        value = plane[(uint32_t)sy * c.width + (uint32_t)sx];
                    padded[y * width + x] = value;
                }
            }
            uint32_t top = (uint32_t)(c.params.y + (int32_t)pad);
            uint32_t left = (uint32_t)(c.params.x + (int32_t)pad);
            for (uint32_t y = 0; y < c.out_height; y++) {
                for (uint32_t x = 0; x < c.out_width; x++) {
                    const uint32_t flags = c.params.flags;
                    uint32_t across = flags & FF_AUGMENT_FLIP ? c.out_width - 1 - x : x;
                    uint32_t down = flags & FF_AUGMENT_VFLIP ? c.out_height - 1 - y : y;
                    uint16_t value = padded[(top + down) * width + left + across];
                    int64_t dy = (int64_t)y - c.params.cut_y, dx = (int64_t)x - c.params.cut_x;
                    if (dy >= 0 && dx >= 0 && dy < c.spec.cutout && dx < c.spec.cutout) value = 0;
                    assert_int_equal(found[((size_t)channel * c.out_height + y) * c.out_width + x],
                                     value);
                }
            }
        }
        free(padded);
        free(out);
        augment_case_free(&c);
    }
}

static void copies_past_caches(void **state) {
    (void)state;
    enum { MOST = 700, GUARD = 64 };
    uint8_t from[MOST + GUARD], to[MOST + 2 * GUARD], wanted[MOST + 2 * GUARD];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)roll(&luck, 256);
    for (unsigned trial = 0; trial < 4000; trial++) {
        const size_t at = roll(&luck, GUARD), source = roll(&luck, GUARD);
        const size_t bytes = roll(&luck, trial & 1 ? MOST : 70);
        memset(to, 0xa5, sizeof to);
        memset(wanted, 0xa5, sizeof wanted);
        memcpy(wanted + at, from + source, bytes);
        ff_copy_past_caches(to + at, from + source, bytes);
        assert_memory_equal(to, wanted, sizeof to);
    }
}

/* Vectors normalize u8 without the table if every value has the table's bits; else with it. */
static void scales(void **state) {
    (void)state;
    static const struct {
        float mean, std;
        bool scaled;
    } wanted[] = {{0.485f, 0.229f, true},
                  {0.5f, 0.5f, true},
                  {0, 1 / 255.0f, true},
                  {0.25f, 0x1.fffffep-3f, true},
                  {0, 1e-41f, false}}; /* 1 / std overflows */
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        for (int to = FF_F16; to <= FF_F32; to++) {
            augment_case c;
            make_case(&c, FF_U8, (ff_dtype)to, FF_CHW, (ff_layout)(i & 1), 3, 40);
            ff_augment_host_free(&c.host);
            for (int k = 0; k < 3; k++) c.mean[k] = wanted[i].mean, c.std[k] = wanted[i].std;
            c.metadata.statistics_count = 3;
            c.metadata.mean = c.mean, c.metadata.std = c.std;
            assert_ok(ff_augment_host_init(&c.host, &c.metadata, &c.spec, (ff_dtype)to,
                                           (ff_layout)(i & 1), c.out_height, c.out_width, error));
            assert_int_equal(c.host.scale != NULL, wanted[i].scaled);
            compare(&c, c.host.apply, "apply");
            augment_case_free(&c);
        }
    }
}

/* u8 through the table = ToTensor and Normalize in f32, rounded once. */
static void table_values(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        ff_dtype to = (ff_dtype[]){FF_F32, FF_F16, FF_BF16}[i];
        augment_case c;
        make_case(&c, FF_U8, to, FF_CHW, FF_CHW, 3, 8);
        for (uint32_t channel = 0; channel < 3; channel++) {
            for (unsigned v = 0; v < 256; v++) {
                volatile float x = (float)v / 255.0f;
                if (c.metadata.statistics_count) {
                    x = x - c.mean[channel];
                    x = x / c.std[channel];
                }
                float value = x;
                uint32_t wanted = 0, found = 0;
                ff_convert(&wanted, to, &value, FF_F32, 1);
                memcpy(&found, (uint8_t *)c.host.table + (channel * 256 + v) * c.host.to_bytes,
                       c.host.to_bytes);
                assert_int_equal(found, wanted);
                if (v == 0) assert_int_equal(c.host.black[channel], wanted);
            }
        }
        augment_case_free(&c);
    }
}

static void refusals(void **state) {
    (void)state;
    ff_metadata metadata = {.dtype = FF_F16, .channels = 1};
    ff_augment_spec spec = {0};
    ff_augment_host host;
    assert_int_equal(ff_augment_host_init(&host, &metadata, &spec, FF_U8, FF_CHW, 1, 1, NULL),
                     FF_USAGE);
    metadata.dtype = FF_U8, spec.cutout = 1;
    assert_int_equal(ff_augment_host_init(&host, &metadata, &spec, FF_U8, FF_CHW, 1, 1, NULL),
                     FF_USAGE);
    spec = (ff_augment_spec){.erase = 0.5};
    assert_int_equal(ff_augment_host_init(&host, &metadata, &spec, FF_U8, FF_CHW, 1, 1, NULL),
                     FF_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_equals_steps),
        cmocka_unit_test(fast_equals_plain),
        cmocka_unit_test(scales),
        cmocka_unit_test(copies_past_caches),
        cmocka_unit_test(table_values),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
