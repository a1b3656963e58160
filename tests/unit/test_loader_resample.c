/* Resampling in the loader: every fast version against the plain one, bit for bit, on random odd
 * shapes, the weights of an axis, and loaders over samples of different sizes. */
#include "loader/augment/resample.h"
#include "loader/host/loader.h"
#include "tests/unit/augment_case.h"
#include "tests/unit/format_set.h"

static dice luck;

/* ---- versions ------------------------------------------------------------------------------- */

static uint32_t draw_side(void) {
    static const uint32_t sides[] = {1, 2, 3, 15, 16, 17, 33, 64, 100, 300};
    return roll(&luck, 2) ? sides[roll(&luck, sizeof sides / sizeof sides[0])]
                          : 1 + roll(&luck, 90);
}

static void make_case(augment_case *c, ff_dtype from, ff_dtype to) {
    memset(c, 0, sizeof *c);
    c->height = draw_side(), c->width = draw_side();
    c->out_height = draw_side(), c->out_width = draw_side();
    c->spec.flip = FF_FLIP_RANDOM;
    c->spec.vflip = 0.5;
    c->spec.cutout = roll(&luck, 3) || to == FF_U8 ? 0 : 1 + roll(&luck, 20);
    if (roll(&luck, 3)) {
        c->spec.rrc = 1;
        c->spec.scale[0] = 0.01, c->spec.scale[1] = 1, c->spec.ratio[0] = 0.3;
        c->spec.ratio[1] = 3;
    } else {
        uint32_t least = c->out_height > c->out_width ? c->out_height : c->out_width;
        c->spec.resize = least + roll(&luck, 3) * roll(&luck, 50);
        c->spec.crop = roll(&luck, 2);
    }
    ff_layout from_layout = (ff_layout)roll(&luck, 2), to_layout = (ff_layout)roll(&luck, 2);
    uint32_t channels = roll(&luck, 2) ? 3 : 1 + roll(&luck, 4);
    augment_case_init(c, &luck, from, from_layout, channels, to, to_layout);
    /* Finite values: without the highest bit of the exponent. */
    size_t bytes = ff_dtype_bytes(from);
    if (ff_dtype_is_float(from))
        for (size_t i = bytes - 1; i < c->source_bytes; i += bytes) c->source[i] &= 0xbf;
}

static uint8_t *run(const augment_case *c, ff_resampler *resampler,
                    const ff_resample_kernels *version) {
    uint8_t *out = augment_case_output(c);
    assert_ok(ff_resampler_reserve(resampler, &c->params, c->height, c->width, error));
    if (version) {
        ff_resampler_use(resampler, version);
        ff_resample(resampler, &c->params, c->source, c->height, c->width, out + AUGMENT_GUARD);
    } else {
        ff_resample_plain(resampler, &c->params, c->source, c->height, c->width,
                          out + AUGMENT_GUARD);
    }
    return out;
}

static void compare(const augment_case *c, ff_resampler *resampler,
                    const ff_resample_kernels *version) {
    uint8_t *plain = run(c, resampler, NULL), *fast = run(c, resampler, version);
    augment_case_compare(c, version->name, plain, fast);
}

static void compare_versions(augment_case *c) {
    const ff_resample_kernels *version[] = {&ff_resample_rows, ff_resample_avx2(),
                                            ff_resample_avx512()};
    ff_resampler *resampler;
    assert_ok(ff_resampler_create(&resampler, &c->host, &c->metadata, error));
    for (size_t v = 0; v < sizeof version / sizeof version[0]; v++)
        if (version[v]) compare(c, resampler, version[v]);
    ff_resampler_destroy(&resampler);
    augment_case_free(c);
}

static void fast_equals_plain(void **state) {
    (void)state;
    static const ff_dtype outputs[] = {FF_F32, FF_F16, FF_BF16, FF_U8};
    for (ff_dtype from = FF_U8; from <= FF_F32; from++) {
        for (int o = 0; o < (from == FF_U8 ? 4 : 3); o++) {
            for (unsigned trial = 0; trial < (o == 3 ? 120 : 24); trial++) {
                augment_case c;
                make_case(&c, from, outputs[o]);
                c.host.streams = roll(&luck, 2);
                compare_versions(&c);
            }
        }
    }
    print_message("# %s, %s\n", ff_resample_avx2() ? "with AVX2" : "without AVX2",
                  ff_resample_avx512() ? "with AVX-512" : "without AVX-512");
}

/* The bytes that a group of outputs reads lie farther apart the more a row is reduced: up to what a
 * register holds, and beyond. */
static void every_reduction(void **state) {
    (void)state;
    for (uint32_t width = 1; width <= 400; width++) {
        augment_case c = {.height = 3, .width = width, .out_height = 2, .out_width = 32};
        c.spec = (ff_augment_spec){.rrc = 1, .scale = {1, 1}, .ratio = {1, 1}};
        augment_case_init(&c, &luck, FF_U8, FF_CHW, 1, FF_U8, FF_CHW);
        c.params.y = c.params.x = 0, c.params.height = c.height, c.params.width = width;
        compare_versions(&c);
    }
}

/* Weights in fixed point. An axis of an odd length that becomes 2^14 long: the two of most outputs
 * end in a half, both are rounded up, and their sum is 2^14 + 1. 24 that become 328: an output
 * shows the middle of an input, and the one before it has a weight of 0. 8 that become 5: the first
 * two of four weights make up 2^14. */
static void sums_of_weights(void **state) {
    (void)state;
    static const uint32_t axis[][2] = {{37, 1u << 14}, {24, 328}, {8, 5}};
    for (uint32_t i = 0; i < 6; i++) {
        const bool down = i % 2;
        const uint32_t from = axis[i / 2][0], to = axis[i / 2][1];
        augment_case c = {.height = down ? from : 2, .width = down ? 2 : from};
        c.out_height = down ? to : 2, c.out_width = down ? 2 : to;
        c.spec = (ff_augment_spec){.rrc = 1, .scale = {1, 1}, .ratio = {1, 1}};
        augment_case_init(&c, &luck, FF_U8, FF_CHW, 1, FF_U8, FF_CHW);
        c.params.y = c.params.x = 0, c.params.height = c.height, c.params.width = c.width;
        compare_versions(&c);
    }
}

/* To u8 from which values are changed: the value in f32, rounded; and upside down the last row is
 * the first. */
static void rounded_and_flipped(void **state) {
    (void)state;
    for (unsigned trial = 0; trial < 40; trial++) {
        augment_case c;
        make_case(&c, FF_U8, FF_F32);
        const ff_augment_spec plain = {0};
        const uint32_t channels = c.metadata.channels, height = c.out_height, width = c.out_width;
        const size_t plane = (size_t)height * width;
        ff_augment_host bytes, floats;
        ff_resampler *to_u8, *to_f32;
        ff_augment_params upright = c.params;
        c.metadata.statistics_count = 0;
        c.params.cut_height = upright.cut_height = 0;
        c.params.flags |= FF_AUGMENT_VFLIP;
        upright.flags &= ~FF_AUGMENT_VFLIP;
        assert_ok(
            ff_augment_host_init(&bytes, &c.metadata, &plain, FF_U8, FF_CHW, height, width, error));
        bytes.rounds = true;
        assert_ok(ff_augment_host_init(&floats, &c.metadata, &plain, FF_F32, FF_CHW, height, width,
                                       error));
        assert_ok(ff_resampler_create(&to_u8, &bytes, &c.metadata, error));
        assert_ok(ff_resampler_create(&to_f32, &floats, &c.metadata, error));
        uint8_t *fast = malloc(channels * plane), *slow = malloc(channels * plane);
        float *value = malloc(channels * plane * sizeof *value);
        assert_true(fast && slow && value);
        assert_ok(ff_resampler_reserve(to_u8, &c.params, c.height, c.width, error));
        assert_ok(ff_resampler_reserve(to_f32, &upright, c.height, c.width, error));
        ff_resample(to_u8, &c.params, c.source, c.height, c.width, fast);
        ff_resample_plain(to_u8, &c.params, c.source, c.height, c.width, slow);
        ff_resample(to_f32, &upright, c.source, c.height, c.width, value);
        assert_memory_equal(fast, slow, channels * plane);
        for (size_t i = 0; i < channels * plane; i++) {
            const size_t line = i % plane / width;
            const size_t at = i - line * width + (height - 1 - line) * width;
            const float exact = 255 * value[at], off = exact - (float)fast[i];
            if (off > 0.5001f || off < -0.5001f)
                fail_msg("value %g became %u", (double)exact, fast[i]);
        }
        free(fast), free(slow), free(value);
        ff_resampler_destroy(&to_u8);
        ff_resampler_destroy(&to_f32);
        ff_augment_host_free(&bytes);
        ff_augment_host_free(&floats);
        augment_case_free(&c);
    }
}

/* One resampler for samples of all sizes, as a loader's thread uses it: one leaves nothing for the
 * next. */
static void any_sequence(void **state) {
    (void)state;
    augment_case c;
    make_case(&c, FF_F16, FF_F32);
    ff_resampler *resampler;
    assert_ok(ff_resampler_create(&resampler, &c.host, &c.metadata, error));
    const ff_resample_kernels *version =
        ff_resample_avx512() ? ff_resample_avx512() : &ff_resample_rows;
    uint16_t *source = malloc((size_t)c.metadata.channels * 300 * 300 * 2);
    assert_non_null(source);
    for (size_t i = 0; i < (size_t)c.metadata.channels * 300 * 300; i++)
        source[i] = (uint16_t)(roll(&luck, 65536) & 0xbfff);
    c.spec = (ff_augment_spec){.rrc = 1, .scale = {0.1, 1}, .ratio = {0.5, 2}};
    free(c.source);
    c.source = (uint8_t *)source;
    for (uint64_t trial = 0; trial < 60; trial++) {
        c.height = 1 + roll(&luck, 300), c.width = 1 + roll(&luck, 300);
        c.params =
            ff_augment_at(&c.spec, 3, 1, trial, c.height, c.width, c.out_height, c.out_width);
        compare(&c, resampler, version);
    }
    ff_resampler_destroy(&resampler);
    ff_resampler_destroy(&resampler);
    augment_case_free(&c);
}

/* ---- weights -------------------------------------------------------------------------------- */

static void weights(void **state) {
    (void)state;
    for (unsigned trial = 0; trial < 3000; trial++) {
        uint32_t in =
            roll(&luck, 2) ? draw_side() : 1 + roll(&luck, roll(&luck, 2) ? 5000 : 1u << 20);
        uint32_t out = roll(&luck, 4) ? draw_side() : 1 + roll(&luck, 1u << 30);
        uint32_t most = ff_resample_taps(in, out), before = 0;
        uint32_t at = out > 40 ? roll(&luck, out - 20) : 0;
        float *weight = malloc(most * sizeof *weight); /* read and written beyond: ASan */
        assert_non_null(weight);
        for (uint32_t i = 0; i < 20 && at + i < out; i++) {
            uint32_t first, taps = ff_resample_weights(in, out, at + i, weight, &first);
            assert_in_range(taps, 1, most);
            assert_in_range(first, before, in - 1);
            assert_true(taps <= in - first);
            before = first;
            double sum = 0;
            for (uint32_t k = 0; k < taps; k++) {
                assert_true(weight[k] >= 0);
                sum += (double)weight[k];
            }
            assert_true(sum > 0.999 && sum < 1.001);
        }
        free(weight);
    }
    for (uint32_t size = 1; size < 600; size += 7) {
        for (uint32_t i = 0; i < size; i++) {
            float weight[8];
            uint32_t first;
            assert_int_equal(ff_resample_weights(size, size, i, weight, &first), 1);
            assert_int_equal(first, i);
            assert_true(weight[0] == 1.0f);
        }
    }
}

/* ---- in the loader -------------------------------------------------------------------------- */

static set_spec variable(ff_dtype dtype, ff_layout layout, bool compressed) {
    set_spec set = plain_set(90);
    set.height = 37, set.width = 60;
    set.dtype = dtype, set.layout = layout, set.variable = true;
    set.zstd = compressed;
    return set;
}

/* Every row of two epochs against the plain version on the sample in the set. The hash of every
 * sample's row in every epoch comes back in `hash`, [2][count]. */
static void check_rows(const set_spec *set, ff_dataset *dataset, const ff_loader_options *options,
                       uint64_t *hash) {
    ff_loader *loader;
    ff_slot *slot;
    ff_augment_host host;
    ff_resampler *resampler;
    assert_ok(ff_loader_create(&loader, dataset, options, error));
    ff_loader_info info = ff_loader_describe(loader);
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    assert_ok(ff_augment_host_init(&host, metadata, &options->augment, options->dtype,
                                   options->layout, info.height, info.width, error));
    assert_ok(ff_resampler_create(&resampler, &host, metadata, error));
    size_t bytes =
        (size_t)info.channels * info.height * info.width * ff_dtype_bytes(options->dtype);
    uint8_t *tensor = malloc((size_t)set->channels * set->height * set->width * 4);
    uint8_t *wanted = malloc(bytes);
    assert_true(tensor && wanted);
    for (;;) {
        assert_ok(ff_loader_acquire(loader, &slot, error));
        if (!slot) break;
        for (uint32_t row = 0; row < slot->count; row++) {
            uint64_t number = slot->source[row].sample[0];
            const uint8_t *found = (const uint8_t *)slot->data + row * bytes;
            uint32_t height = set_height(set, number), width = set_width(set, number);
            ff_augment_params params =
                ff_augment_at(&options->augment, options->seed, slot->epoch, number, height, width,
                              info.height, info.width);
            assert_memory_equal(&slot->params[row], &params, sizeof params);
            set_tensor(set, number, tensor);
            assert_ok(ff_resampler_reserve(resampler, &params, height, width, error));
            ff_resample_plain(resampler, &params, tensor, height, width, wanted);
            assert_memory_equal(found, wanted, bytes);
            uint64_t *sum = &hash[slot->epoch * set->items + number];
            assert_int_equal(*sum, 0);
            *sum = 1;
            for (size_t i = 0; i < bytes; i++) *sum = (*sum ^ found[i]) * UINT64_C(0x100000001b3);
        }
        ff_loader_release(loader, slot, NULL);
    }
    free(tensor);
    free(wanted);
    ff_resampler_destroy(&resampler);
    ff_augment_host_free(&host);
    ff_loader_destroy(&loader);
}

/* Samples of different sizes come out the same from raw and compressed shards, for any threads and
 * in any batch. */
static void loaders(void **state) {
    (void)state;
    static const struct {
        ff_dtype from, to;
        ff_layout layout;
    } kinds[] = {{FF_F16, FF_F32, FF_CHW}, {FF_U8, FF_F32, FF_HWC}, {FF_U8, FF_U8, FF_HWC}};
    static const struct {
        const char *augment;
        uint32_t height, width;
    } ways[] = {{"rrc=24,flip,cutout=5", 0, 0},
                {"rrc=24,flip", 40, 11},
                {"resize=30", 24, 24},
                {"resize=24,crop,flip=alternate", 24, 24}};
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        for (int kind = way ? 2 : 1; kind >= 0; kind--) { /* no cutout of u8 */
            static uint64_t first[2 * 90], other[2 * 90];
            for (int run_number = 0; run_number < 4; run_number++) {
                set_spec set = variable(kinds[kind].from, kinds[kind].layout, run_number % 2 == 1);
                ff_dataset *dataset = open_new_set(&set);
                ff_loader_options options = ff_loader_defaults();
                options.last_batch = FF_LAST_BATCH_KEEP;
                options.epochs = 2, options.seed = 5;
                options.dtype = kinds[kind].to;
                options.layout = kinds[kind].to == FF_U8 ? FF_HWC : FF_CHW;
                options.height = ways[way].height, options.width = ways[way].width;
                options.batch = (uint64_t[]){16, 16, 90, 7}[run_number];
                options.threads = (int[]){1, 2, 0, 3}[run_number];
                options.order = run_number == 3 ? FF_ORDER_SEQUENTIAL : FF_ORDER_RANDOM;
                assert_ok(ff_augment_parse(&options.augment, ways[way].augment, error));
                uint64_t *hash = run_number ? other : first;
                memset(hash, 0, sizeof first);
                check_rows(&set, dataset, &options, hash);
                for (int i = 0; i < 2 * 90; i++) {
                    assert_int_not_equal(hash[i], 0);
                    assert_int_equal(hash[i], first[i]);
                }
                ff_dataset_close(&dataset);
                set_remove(&set);
            }
        }
    }
}

static void refuses(ff_dataset *dataset, const char *augment, uint32_t side, ff_dtype dtype,
                    const char *part) {
    ff_loader *loader;
    ff_error failure = {0};
    ff_loader_options options = ff_loader_defaults();
    options.height = options.width = side;
    options.dtype = dtype;
    assert_ok(ff_augment_parse(&options.augment, augment, error));
    assert_int_equal(ff_loader_create(&loader, dataset, &options, &failure), FF_USAGE);
    if (!strstr(failure.message, part)) fail_msg("'%s' has no '%s'", failure.message, part);
}

static void refusals(void **state) {
    (void)state;
    set_spec set = variable(FF_U8, FF_CHW, false);
    ff_dataset *dataset = open_new_set(&set);
    refuses(dataset, "none", 0, FF_F32, "different sizes, up to 37x60");
    refuses(dataset, "crop,flip", 0, FF_F32, "random resized crop (rrc=SIZE)");
    refuses(dataset, "resize=24", 0, FF_F32, "different sizes");
    refuses(dataset, "resize=23,crop", 24, FF_F32, "resized to 23x23");
    refuses(dataset, "rrc=24", UINT32_MAX, FF_F32, "too large");
    refuses(dataset, "rrc=24,cutout=4", 0, FF_U8, "f32, f16 or bf16");
    ff_dataset_close(&dataset);
    set_remove(&set);
    set = variable(FF_U16, FF_CHW, false);
    dataset = open_new_set(&set);
    refuses(dataset, "rrc=24", 0, FF_U16, "bf16 or u8, not u16 as stored");
    ff_dataset_close(&dataset);
    set_remove(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights),         cmocka_unit_test(fast_equals_plain),
        cmocka_unit_test(any_sequence),    cmocka_unit_test(loaders),
        cmocka_unit_test(refusals),        cmocka_unit_test(rounded_and_flipped),
        cmocka_unit_test(every_reduction), cmocka_unit_test(sums_of_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
