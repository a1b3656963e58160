/* Colour jitter, mixup and cutmix in the loader: every row against one computed element by element,
 * and the same for any threads, slots, shares and batches. */
#include "loader/augment/jitter.h"
#include "loader/augment/resample.h"
#include "loader/host/loader.h"
#include "tests/unit/dice.h"
#include "tests/unit/format_set.h"

static dice luck;

/* ---- jitter --------------------------------------------------------------------------------- */

static void golden_jitter(void **state) {
    (void)state;
    static const double amount[4] = {0.4, 0.4, 0.4, 0.1};
    static const struct {
        uint32_t factor[4]; /* bits of the floats */
        uint8_t order[4];
    } wanted[] = {{{0x3f82f085, 0x3f25ed42, 0x3f6394e9, 0xbd164173}, {0, 2, 3, 1}},
                  {{0x3f2fee26, 0x3f507a12, 0x3f67ce1a, 0xbdc65e32}, {3, 0, 1, 2}},
                  {{0x3f974b2e, 0x3f33c6d5, 0x3f27c25b, 0x3d66c98e}, {2, 0, 1, 3}},
                  {{0x3f8595e3, 0x3f8431d2, 0x3f2c17b3, 0xbd79fa1f}, {1, 2, 3, 0}}};
    for (uint32_t i = 0; i < 4; i++) {
        ff_jitter jitter = ff_jitter_at(amount, i, i, i * 1000);
        for (int k = 0; k < 4; k++)
            assert_int_equal(ff_float_bits(jitter.factor[k]), wanted[i].factor[k]);
        assert_int_equal(jitter.count, 4);
        assert_memory_equal(jitter.order, wanted[i].order, 4);
    }
}

/* All orders are equally likely, and disabled changes are absent. */
static void orders(void **state) {
    (void)state;
    static const double all[4] = {0.1, 0.1, 0.1, 0.1}, two[4] = {0, 3, 0, 0.5};
    int count[256] = {0}, first = 0;
    for (uint64_t i = 0; i < 24000; i++) {
        ff_jitter jitter = ff_jitter_at(all, 7, 1, i);
        unsigned seen = 0, code = 0;
        for (int k = 0; k < 4; k++) {
            seen |= 1u << jitter.order[k];
            code = code << 2 | jitter.order[k];
        }
        assert_int_equal(seen, 15);
        count[code]++;
        jitter = ff_jitter_at(two, 7, 1, i);
        assert_int_equal(jitter.count, 2);
        assert_int_equal(jitter.order[0] + jitter.order[1], FF_JITTER_CONTRAST + FF_JITTER_HUE);
        first += jitter.order[0] == FF_JITTER_HUE;
        assert_true(jitter.factor[1] >= 0 && jitter.factor[1] <= 4);
        assert_true(jitter.factor[3] >= -0.5f && jitter.factor[3] <= 0.5f);
    }
    int kinds = 0;
    for (int i = 0; i < 256; i++) {
        if (count[i]) assert_in_range(count[i], 850, 1150);
        kinds += count[i] != 0;
    }
    assert_int_equal(kinds, 24);
    assert_in_range(first, 11500, 12500);
}

/* Pixel by pixel: the reference. */
static void plain_jitter(const ff_jitter *jitter, float *image, uint32_t channels, size_t pixels) {
    for (uint32_t k = 0; k < jitter->count; k++) {
        const uint32_t what = jitter->order[k];
        const float factor = jitter->factor[what];
        uint64_t sum = 0;
        for (size_t i = 0; i < pixels; i++)
            sum += (uint64_t)ff_jitter_fixed(
                channels == 1 ? image[i]
                              : ff_jitter_grey(image[i], image[pixels + i], image[2 * pixels + i]));
        const float mean = ff_jitter_mean(sum, pixels);
        for (size_t i = 0; i < pixels; i++) {
            float p[3] = {image[i], 0, 0};
            for (uint32_t c = 0; c < channels; c++) p[c] = image[c * pixels + i];
            if (what == FF_JITTER_HUE) {
                if (channels == 3) ff_jitter_hue(&p[0], &p[1], &p[2], factor);
            } else if (channels == 3 || what != FF_JITTER_SATURATION) {
                const float other = what == FF_JITTER_BRIGHTNESS ? 0
                                    : what == FF_JITTER_CONTRAST ? mean
                                                                 : ff_jitter_grey(p[0], p[1], p[2]);
                for (uint32_t c = 0; c < channels; c++) p[c] = ff_jitter_blend(p[c], other, factor);
            }
            for (uint32_t c = 0; c < channels; c++) image[c * pixels + i] = p[c];
        }
    }
}

static void jitter_equals_plain(void **state) {
    (void)state;
    enum { MOST = 700, GUARD = 16 };
    for (int i = 0; i < 2000; i++) {
        const uint32_t channels = roll(&luck, 4) ? 3 : 1;
        const size_t pixels = 1 + roll(&luck, roll(&luck, 2) ? 40 : MOST);
        const size_t values = channels * pixels;
        double amount[4];
        for (int k = 0; k < 4; k++)
            amount[k] = roll(&luck, 3) ? (k == 3 ? 0.5 : 1.5) * roll(&luck, 8) / 7 : 0;
        float fast[3 * MOST + GUARD], plain[3 * MOST + GUARD];
        for (size_t at = 0; at < values + GUARD; at++) {
            /* greys, black, white and edges among them */
            static const float some[] = {0, 1, 0.5f, 1e-30f};
            fast[at] = roll(&luck, 5) ? (float)roll(&luck, 256) / 255 : some[roll(&luck, 4)];
            if (at >= pixels && roll(&luck, 3) == 0) fast[at] = fast[at - pixels];
        }
        memcpy(plain, fast, sizeof fast);
        const ff_jitter jitter = ff_jitter_at(amount, 1, 2, (uint64_t)i);
        ff_jitter_apply(&jitter, fast, channels, pixels);
        plain_jitter(&jitter, plain, channels, pixels);
        assert_memory_equal(fast, plain, (values + GUARD) * sizeof *fast);
    }
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* A sample after everything except mixing: planes of f32. */
static void plain_sample(set_spec *set, const ff_metadata *metadata,
                         const ff_loader_options *options, const ff_augment_params *params,
                         uint32_t epoch, uint32_t out_height, uint32_t out_width, float *image) {
    const ff_augment_spec *spec = &options->augment;
    const bool jitters = ff_augment_jitters(spec);
    const size_t pixels = (size_t)out_height * out_width;
    ff_metadata mine = *metadata;
    ff_augment_host host;
    ff_augment_params uncut = *params;
    void *tensor = malloc((size_t)set->channels * set->height * set->width * 4);
    assert_non_null(tensor);
    set_tensor(set, params->sample, tensor);
    const uint32_t height = set_height(set, params->sample);
    const uint32_t width = set_width(set, params->sample);
    if (jitters) uncut.cut_height = uncut.cut_width = 0;
    if (jitters && set->dtype == FF_U8) mine.statistics_count = 0;
    assert_ok(
        ff_augment_host_init(&host, &mine, spec, FF_F32, FF_CHW, out_height, out_width, error));
    if (ff_augment_resamples(spec)) {
        ff_resampler *resampler;
        assert_ok(ff_resampler_create(&resampler, &host, &mine, error));
        assert_ok(ff_resampler_reserve(resampler, &uncut, height, width, error));
        ff_resample_plain(resampler, &uncut, tensor, height, width, image);
        ff_resampler_destroy(&resampler);
    } else {
        ff_augment_plain(&host, &uncut, tensor, height, width, image);
    }
    if (jitters) {
        const ff_jitter jitter = ff_jitter_at(spec->jitter, options->seed, epoch, params->sample);
        for (size_t i = 0; i < set->channels * pixels; i++) {
            if (mine.statistics_count)
                image[i] = image[i] * metadata->std[i / pixels] + metadata->mean[i / pixels];
            image[i] = image[i] > 0 ? image[i] < 1 ? image[i] : 1 : 0;
        }
        plain_jitter(&jitter, image, set->channels, pixels);
        for (size_t i = 0; i < set->channels * pixels; i++) {
            const uint32_t y = (uint32_t)(i % pixels / out_width), x = (uint32_t)(i % out_width);
            if (metadata->statistics_count)
                image[i] = (image[i] - metadata->mean[i / pixels]) / metadata->std[i / pixels];
            if ((int64_t)y >= params->cut_y && (int64_t)x >= params->cut_x &&
                (int64_t)y < params->cut_y + (int64_t)params->cut_height &&
                (int64_t)x < params->cut_x + (int64_t)params->cut_width)
                image[i] = 0;
        }
    }
    ff_augment_host_free(&host);
    free(tensor);
}

static int mixed_up, mixed_cut;

/* Every row of some batches. */
static void check_rows(set_spec *set, const ff_loader_options *options, uint64_t batches) {
    ff_dataset *dataset = open_new_set(set);
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    const ff_augment_spec *spec = &options->augment;
    ff_loader *loader;
    ff_slot *slot;
    assert_ok(ff_loader_create(&loader, dataset, options, error));
    const ff_loader_info info = ff_loader_describe(loader);
    const uint32_t height = info.height, width = info.width, channels = info.channels;
    const size_t pixels = (size_t)height * width, values = channels * pixels;
    const size_t bytes = ff_dtype_bytes(options->dtype);
    float *image[2] = {malloc(values * 4), malloc(values * 4)};
    uint8_t *wanted = malloc(values * 4);
    assert_true(image[0] && image[1] && wanted);
    const ff_order_spec order_spec = {
        .count = set->items, .seed = options->seed, .kind = options->order};
    for (uint64_t i = 0; i < batches; i++) {
        assert_ok(ff_loader_acquire(loader, &slot, error));
        assert_non_null(slot);
        assert_true(ff_augment_mixes(spec) == (slot->mix != NULL));
        ff_order order;
        ff_order_init(&order, &order_spec, slot->epoch);
        for (uint32_t row = 0; row < slot->rows; row++) {
            if (row >= slot->count) {
                assert_true(!slot->mix || slot->mix[row] == 1);
                assert_true(slot->weight[row] == 0);
                continue;
            }
            const bool alone = !slot->mix || (row ^ 1) >= slot->count;
            ff_augment_params params[2];
            for (uint32_t k = 0; k < (alone ? 1 : 2); k++) {
                const uint64_t number = ff_order_at(&order, slot->position + (row ^ k));
                params[k] =
                    ff_augment_at(spec, options->seed, slot->epoch, number, set_height(set, number),
                                  set_width(set, number), height, width);
                if (!alone)
                    ff_augment_mix(spec, &params[k], options->seed, slot->epoch,
                                   (slot->position + (row & ~1u)) / 2, height, width);
                plain_sample(set, metadata, options, &params[k], slot->epoch, height, width,
                             image[k]);
            }
            assert_memory_equal(&slot->params[row], &params[0], sizeof params[0]);
            const float own = params[0].weight, rest = 1 - own;
            if (slot->mix) assert_true(slot->mix[row] == own);
            assert_true(slot->weight[row] == 1);
            assert_true(slot->source[row].weight[0] == own && slot->source[row].weight[1] == rest);
            assert_int_equal(slot->source[row].sample[0], params[0].sample);
            assert_int_equal(slot->source[row].sample[1], params[own < 1 ? 1 : 0].sample);
            mixed_up += (params[0].flags & FF_AUGMENT_MIXUP) != 0;
            mixed_cut += (params[0].flags & FF_AUGMENT_CUTMIX) != 0;
            for (size_t at = 0; at < values; at++) {
                const size_t channel = at / pixels, pixel = at % pixels;
                const int32_t y = (int32_t)(pixel / width) - params[0].mix_y;
                const int32_t x = (int32_t)(pixel % width) - params[0].mix_x;
                float value = image[0][at];
                if (params[0].flags & FF_AUGMENT_MIXUP) value = value * own + image[1][at] * rest;
                if (params[0].flags & FF_AUGMENT_CUTMIX && y >= 0 && x >= 0 &&
                    y < params[0].mix_height && x < params[0].mix_width)
                    value = image[1][at];
                const size_t to = options->layout == FF_CHW ? at : pixel * channels + channel;
                ff_convert(wanted + to * bytes, options->dtype, &value, FF_F32, 1);
            }
            assert_memory_equal((uint8_t *)slot->data + row * values * bytes, wanted,
                                values * bytes);
        }
        ff_loader_release(loader, slot, NULL);
    }
    free(image[0]);
    free(image[1]);
    free(wanted);
    ff_loader_destroy(&loader);
    ff_dataset_close(&dataset);
    set_remove(set);
}

static void rows(void **state) {
    (void)state;
    static const char *const ways[] = {
        "mixup=0.4",
        "cutmix",
        "crop=3,flip,cutout=6,mixup,cutmix",
        "jitter=0.4:0.4:0.4:0.1,crop=2,flip,cutout=5",
        "jitter=0:0.7,mixup,erase=0.7",
        "rrc=17,jitter=0.8:0.8:0.8:0.5,cutmix,cutout=4",
        "rrc=16,mixup=0.2",
    };
    static const ff_dtype from[] = {FF_F16, FF_U8, FF_F32, FF_BF16};
    static const ff_dtype to[] = {FF_F32, FF_F16, FF_BF16};
    int number = 0;
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        for (int kind = 0; kind < 8; kind++, number++) {
            set_spec set = plain_set(61);
            set.dtype = from[number % 4], set.layout = (ff_layout)roll(&luck, 2);
            set.height = 10 + roll(&luck, 15), set.width = 10 + roll(&luck, 30);
            set.no_statistics = roll(&luck, 4) == 0;
            set.channels = roll(&luck, 4) ? 3 : 1;
            set.zstd = !roll(&luck, 4);
            ff_loader_options options = ff_loader_defaults();
            assert_ok(ff_augment_parse(&options.augment, ways[way], error));
            set.variable = options.augment.rrc != 0;
            options.dtype = to[number / 2 % 3], options.layout = (ff_layout)roll(&luck, 2);
            options.batch = (uint64_t[]){8, 9, 16, 64}[roll(&luck, 4)];
            options.last_batch = (ff_last_batch)roll(&luck, 2);
            options.seed = (uint64_t)number, options.threads = (int)roll(&luck, 3);
            check_rows(&set, &options, 9);
        }
    }
    assert_true(mixed_up > 500 && mixed_cut > 500);
}

/* Samples larger than the cache and the 64-row chunk. */
static void large_rows(void **state) {
    (void)state;
    set_spec set = plain_set(7);
    set.height = 300, set.width = 340, set.dtype = FF_F32;
    ff_loader_options options = ff_loader_defaults();
    assert_ok(ff_augment_parse(&options.augment, "mixup,cutmix,jitter=0.2", error));
    options.batch = 7, options.last_batch = FF_LAST_BATCH_KEEP, options.dtype = FF_F16;
    options.layout = FF_HWC;
    check_rows(&set, &options, 2);
}

/* ---- sameness ------------------------------------------------------------------------------- */

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* By position: sample, weight and the row's pixels. */
static void hash_epoch(ff_dataset *dataset, const ff_loader_options *options, uint64_t *hash) {
    ff_loader *loader;
    ff_slot *slot;
    assert_ok(ff_loader_create(&loader, dataset, options, error));
    for (;;) {
        assert_ok(ff_loader_acquire(loader, &slot, error));
        if (!slot) break;
        const size_t bytes = (size_t)slot->channels * slot->height * slot->width * 2;
        for (uint32_t row = 0; row < slot->count; row++) {
            uint64_t *sum = &hash[slot->position + row];
            *sum = hash_bytes(*sum, (uint8_t *)slot->data + row * bytes, bytes);
            *sum = hash_bytes(*sum, &slot->mix[row], sizeof slot->mix[row]);
            *sum = hash_bytes(*sum, &slot->params[row], sizeof slot->params[row]);
        }
        ff_loader_release(loader, slot, NULL);
    }
    ff_loader_destroy(&loader);
}

static void any_threads_shares_and_batches(void **state) {
    (void)state;
    enum { COUNT = 333 };
    set_spec set = plain_set(COUNT);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = ff_loader_defaults();
    assert_ok(ff_augment_parse(&options.augment,
                               "crop=4,flip,jitter=0.4:0.4:0.4:0.1,mixup,cutmix=0.5", error));
    options.batch = 64, options.seed = 4, options.epochs = 1, options.threads = 0;
    options.last_batch = FF_LAST_BATCH_KEEP, options.dtype = FF_F16;
    uint64_t wanted[COUNT] = {0}, found[COUNT] = {0};
    hash_epoch(dataset, &options, wanted);
    for (int i = 0; i < 6; i++) {
        memset(found, 0, sizeof found);
        options.threads = i, options.slots = (uint32_t)(1 + i % 3);
        options.batch = (uint64_t[]){64, 10, 2, 334, 100, 48}[i];
        hash_epoch(dataset, &options, found);
        assert_memory_equal(found, wanted, sizeof wanted);
    }
    static const uint32_t cuts[][4] = {{0, 1, 2, 3}, {0, 2, 5, 8}, {0, 1, 50, 60}};
    for (int w = 0; w < 3; w++) {
        memset(found, 0, sizeof found);
        options.batch = 50, options.threads = 2, options.slots = 0;
        for (int r = 0; r < 3; r++) {
            options.share_begin = cuts[w][r], options.share_end = cuts[w][r + 1];
            options.share_total = cuts[w][3];
            hash_epoch(dataset, &options, found);
        }
        assert_memory_equal(found, wanted, sizeof wanted);
    }
    options.share_total = 0, options.seed++;
    hash_epoch(dataset, &options, found);
    assert_int_not_equal(found[0], wanted[0]);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

static void refuses(const char *augment, ff_dtype from, ff_dtype to, uint32_t channels,
                    const char *part) {
    ff_loader *loader;
    ff_error failure = {0};
    set_spec set = plain_set(20);
    set.dtype = from, set.channels = channels;
    if (from == FF_U16) set.no_statistics = true;
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = ff_loader_defaults();
    options.dtype = to;
    assert_ok(ff_augment_parse(&options.augment, augment, error));
    assert_int_equal(ff_loader_create(&loader, dataset, &options, &failure), FF_USAGE);
    if (!strstr(failure.message, part)) fail_msg("'%s' has no '%s'", failure.message, part);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

static void refusals(void **state) {
    (void)state;
    refuses("mixup", FF_U8, FF_U8, 3, "f32, f16 or bf16, not u8 as stored");
    refuses("cutmix", FF_U16, FF_U16, 3, "f32, f16 or bf16, not u16 as stored");
    refuses("jitter=0.4", FF_F16, FF_F32, 4, "1 or 3 channels, not 4");
    refuses("jitter=0.4", FF_U16, FF_F32, 3, "not u16");
    refuses("jitter=0.4,rrc=46341", FF_U8, FF_F32, 3, "too large for colour jitter");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_jitter),
        cmocka_unit_test(orders),
        cmocka_unit_test(jitter_equals_plain),
        cmocka_unit_test(rows),
        cmocka_unit_test(large_rows),
        cmocka_unit_test(any_threads_shares_and_batches),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
