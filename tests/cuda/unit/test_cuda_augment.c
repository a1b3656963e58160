/* The kernels that augment through rows of f32, on the simulator: whole batches against the host's
 * plain versions, bit for bit, on random odd shapes; of one size and of many, as stored in every
 * dtype and layout. */
#include "tests/cuda/unit/kernel_helpers.h"

#include "loader/augment/finish.h"
#include "loader/augment/jitter.h"
#include "loader/augment/resample.h"
#include "loader/cuda/kernels.h"

static dice luck;

/* The kernels read slot number 1 of a ring, so not its beginning. */
enum { SAMPLES = 5, ROWS_MOST = 6, SLOT = 1, SLOT_BYTES = 64 };

typedef struct one_case {
    ff_metadata metadata;
    float mean[4], std[4];
    ff_augment_spec spec;
    ff_augment_host host; /* of the batch: HWC, without padded channels */
    ff_finish finish;
    uint32_t size[SAMPLES][2];
    uint64_t offset[SAMPLES];
    size_t ring_bytes;
    uint8_t *ring, *data; /* data is in the slot */
    ff_augment_params params[ROWS_MOST];
    uint32_t rows, count, out_channels;
    bool same_size;
    uint64_t seed, position;
    uint32_t epoch, again;
} one_case;

static uint32_t draw_side(uint32_t most) {
    static const uint32_t sides[] = {1, 2, 3, 31, 32, 33};
    return roll(&luck, 3) ? 1 + roll(&luck, most) : sides[roll(&luck, 6)];
}

/* Finite values of any dtype. */
static void fill(uint8_t *data, ff_dtype dtype, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const float value = (float)roll(&luck, 4096) / 512 - 4;
        uint16_t word = (uint16_t)roll(&luck, 65536);
        switch (dtype) {
        case FF_U8: data[i] = (uint8_t)roll(&luck, 256); break;
        case FF_U16: memcpy(data + 2 * i, &word, 2); break;
        default: ff_convert(data + ff_dtype_bytes(dtype) * i, dtype, &value, FF_F32, 1);
        }
    }
}

static void make_samples(one_case *c, bool variable, uint32_t most) {
    uint64_t end = 0;
    c->same_size = !variable;
    const size_t bytes = ff_dtype_bytes(c->metadata.dtype);
    for (int i = 0; i < SAMPLES; i++) {
        c->size[i][0] = i && !variable ? c->size[0][0] : draw_side(most);
        c->size[i][1] = i && !variable ? c->size[0][1] : draw_side(most);
        c->offset[i] = end;
        end +=
            ((uint64_t)c->size[i][0] * c->size[i][1] * c->metadata.channels * bytes + 63) / 64 * 64;
    }
    /* Exactly to the last sample's end: AddressSanitizer detects reads after it. */
    const int last = SAMPLES - 1;
    end = c->offset[last] +
          (uint64_t)c->size[last][0] * c->size[last][1] * c->metadata.channels * bytes;
    c->ring_bytes = SLOT_BYTES + end;
    c->ring = calloc(1, c->ring_bytes);
    assert_non_null(c->ring);
    c->data = c->ring + SLOT_BYTES;
    for (int i = 0; i < SAMPLES; i++)
        fill(c->data + c->offset[i], c->metadata.dtype,
             (size_t)c->size[i][0] * c->size[i][1] * c->metadata.channels);
}

/* By which a row's augmentation is drawn. */
static uint64_t index_of(const one_case *c, uint32_t row) {
    return c->again ? (UINT64_C(1) << 63) + c->position + row : c->params[row].sample;
}

static void make_case(one_case *c, bool variable, uint32_t most) {
    memset(c, 0, sizeof *c);
    static const ff_dtype from[] = {FF_U8, FF_F16, FF_BF16, FF_F32, FF_U16};
    static const ff_dtype to[] = {FF_F32, FF_F16, FF_BF16};
    static char scaled[] = "to_tensor scale=1/255";
    static char *transforms[] = {scaled};
    const bool jitters = roll(&luck, 2), changes = roll(&luck, 2), colours = jitters || changes;
    c->metadata.dtype = from[roll(&luck, changes ? 2 : jitters ? 4 : 5)];
    c->metadata.layout = (ff_layout)roll(&luck, 2);
    c->metadata.channels = colours ? (roll(&luck, 3) ? 3 : 1) : 1 + roll(&luck, 4);
    c->metadata.transform = transforms;
    c->metadata.transform_count = 1;
    for (int k = 0; changes && k < FF_CHANCES; k++) {
        if (roll(&luck, 3) == 0) c->spec.change.probability[k] = 0.8;
        c->spec.change.value[k] = k == FF_CHANCE_SHARPNESS ? 0.1 * roll(&luck, 20) : roll(&luck, 9);
    }
    for (int i = 0; i < 4; i++) {
        c->mean[i] = 0.4f + 0.01f * (float)i, c->std[i] = 0.2f + 0.03f * (float)i;
        if (jitters)
            c->spec.jitter[i] = roll(&luck, 3) ? 0.5 * (1 + roll(&luck, 8)) / (i == 3 ? 8 : 4) : 0;
    }
    if (changes && roll(&luck, 2)) {
        c->spec.change.policy = FF_POLICY_TRIVIAL + roll(&luck, FF_POLICY_SVHN);
        c->spec.change.ops = 1 + roll(&luck, FF_POLICY_OPS_MOST);
        c->spec.change.magnitude = roll(&luck, FF_POLICY_BINS);
        c->spec.change.policy_bilinear = roll(&luck, 2);
        c->spec.change.augmix =
            (ff_augmix_spec){.severity = 1 + roll(&luck, FF_AUGMIX_SEVERITY_MOST),
                             .chains = 1 + roll(&luck, FF_AUGMIX_CHAINS_MOST),
                             .depth = roll(&luck, 2) ? 0 : 1 + roll(&luck, FF_AUGMIX_DEPTH_MOST),
                             .basic = roll(&luck, 2),
                             .alpha = 0.5 + roll(&luck, 3)};
    }
    if (changes && roll(&luck, 3) == 0) {
        c->spec.change.affine = 1;
        c->spec.change.degrees = 180;
        c->spec.change.translate = 0.3;
        c->spec.change.scale[0] = 0.5, c->spec.change.scale[1] = 3;
        c->spec.change.shear = 40;
        c->spec.change.bilinear = roll(&luck, 2);
    }
    if (roll(&luck, 4) && c->metadata.dtype != FF_U16) {
        c->metadata.statistics_count = c->metadata.channels;
        c->metadata.mean = c->mean, c->metadata.std = c->std;
    }
    if (roll(&luck, 3) == 0) c->spec.mixup = 0.3;
    if (roll(&luck, 3) == 0) c->spec.cutmix = 1;
    if (roll(&luck, 3) == 0) c->spec.cutout = 1 + roll(&luck, 12);
    c->spec.flip = (ff_flip_mode)roll(&luck, 3);
    c->spec.vflip = roll(&luck, 2) ? 0.5 : 0;
    make_samples(c, variable, most);
    uint32_t least[2] = {UINT32_MAX, UINT32_MAX}, height, width;
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < 2; k++)
            if (c->size[i][k] < least[k]) least[k] = c->size[i][k];
    const uint32_t way = roll(&luck, 3);
    if (way == 0) {
        height = draw_side(70), width = draw_side(70);
        c->spec.rrc = 1;
        c->spec.scale[0] = 0.01, c->spec.scale[1] = 1, c->spec.ratio[0] = 0.3, c->spec.ratio[1] = 3;
    } else if (way == 1) {
        height = draw_side(40), width = draw_side(40);
        c->spec.resize = (height > width ? height : width) + roll(&luck, 20);
        c->spec.crop = roll(&luck, 2);
    } else {
        c->spec.crop = 1;
        const uint32_t side = least[0] < least[1] ? least[0] : least[1];
        c->spec.pad_mode = side > 1 && roll(&luck, 2) ? FF_PAD_REFLECT : FF_PAD_BLACK;
        c->spec.pad = roll(&luck, side < 6 && c->spec.pad_mode == FF_PAD_REFLECT ? side : 6);
        height = 1 + roll(&luck, least[0] + 2 * c->spec.pad);
        width = 1 + roll(&luck, least[1] + 2 * c->spec.pad);
    }
    const uint32_t half = height < width ? height : width;
    c->spec.change.value[FF_CHANCE_BLUR] = 1 + 2 * roll(&luck, half < 12 ? half : 12);
    c->spec.change.sigma[0] = 0.1, c->spec.change.sigma[1] = 4;
    const bool bytes = c->metadata.dtype == FF_U8 && !jitters && roll(&luck, 2);
    if (bytes) c->spec.mixup = c->spec.cutmix = c->spec.cutout = 0;
    assert_ok(ff_augment_host_init(&c->host, &c->metadata, &c->spec,
                                   bytes ? FF_U8 : to[roll(&luck, 3)], FF_HWC, height, width,
                                   error));
    assert_ok(ff_finish_init(&c->finish, &c->metadata, &c->spec, &c->host, error));
    c->rows = 1 + roll(&luck, ROWS_MOST);
    c->count = roll(&luck, 4) ? c->rows : roll(&luck, c->rows);
    c->out_channels = (uint32_t[]){c->metadata.channels, 4, 8}[roll(&luck, 3)];
    c->seed = roll(&luck, 1000), c->epoch = roll(&luck, 100);
    c->position = roll(&luck, 1000), c->again = !roll(&luck, 3);
    for (uint32_t row = 0; row < c->rows; row++) {
        ff_augment_params *params = &c->params[row];
        if (row >= c->count) continue;
        const uint64_t number = roll(&luck, SAMPLES);
        params->sample = number;
        *params = ff_augment_at(&c->spec, c->seed, c->epoch, index_of(c, row), c->size[number][0],
                                c->size[number][1], height, width);
        params->sample = number;
        if (ff_augment_mixes(&c->spec) && (row ^ 1) < c->count)
            ff_augment_mix(&c->spec, params, c->seed, c->epoch, (c->position + (row & ~1u)) / 2,
                           height, width);
    }
}

static void free_case(one_case *c) {
    ff_finish_free(&c->finish);
    ff_augment_host_free(&c->host);
    free(c->ring);
}

/* ---- the host's rows ------------------------------------------------------------------------ */

static void host_sample(const one_case *c, const ff_augment_host *host, const ff_metadata *metadata,
                        const ff_augment_params *params, const void *data, uint32_t height,
                        uint32_t width, void *out) {
    if (!ff_augment_resamples(&c->spec)) {
        ff_augment_plain(host, params, data, height, width, out);
        return;
    }
    ff_resampler *resampler;
    assert_ok(ff_resampler_create(&resampler, host, metadata, error));
    assert_ok(ff_resampler_reserve(resampler, params, height, width, error));
    ff_resample_plain(resampler, params, data, height, width, out);
    ff_resampler_destroy(&resampler);
}

/* [count][height][width][channels], or planes of f32 where they are finished. */
static void *host_rows(const one_case *c, size_t values) {
    const ff_finish *finish = &c->finish;
    const size_t to_bytes = c->host.to_bytes;
    const size_t row_bytes = finish->used ? finish->row_bytes : values * to_bytes;
    uint8_t *rows = calloc(ROWS_MOST, row_bytes), *out;
    uint8_t *images = calloc(finish->image_bytes + 1, 1);
    assert_non_null(rows);
    assert_non_null(images);
    for (uint32_t row = 0; row < c->count; row++) {
        const uint64_t number = c->params[row].sample;
        ff_augment_params params = c->params[row];
        if (ff_finish_alters(finish)) params = ff_finish_params(&params);
        host_sample(c, finish->used ? ff_finish_maker(finish) : &c->host,
                    finish->used ? &finish->metadata : &c->metadata, &params,
                    c->data + c->offset[number], c->size[number][0], c->size[number][1],
                    finish->direct ? images : rows + row * row_bytes);
        if (ff_finish_alters(finish))
            ff_finish_alter(finish, &c->params[row], c->seed, c->epoch, index_of(c, row),
                            rows + row * row_bytes, images);
    }
    free(images);
    if (!finish->used) return rows;
    for (uint32_t row = 0; finish->mixes && row + 1 < c->count; row += 2)
        ff_finish_mix(finish, &c->params[row], rows + row * row_bytes,
                      rows + (row + 1) * row_bytes);
    if (!finish->apart) return rows;
    out = calloc(ROWS_MOST, values * to_bytes);
    assert_non_null(out);
    for (uint32_t row = 0; row < c->count; row++)
        ff_finish_store(finish, rows + row * row_bytes, out + row * values * to_bytes);
    free(rows);
    return out;
}

/* ---- the kernels' --------------------------------------------------------------------------- */

enum { LABEL_WIDTH = 300 }; /* more than a block has threads */

/* A copy in the device's memory, until drop_arrays. */
static void *sent(const void *from, size_t bytes) {
    array *a = poisoned(FF_U8, bytes);
    memcpy(a->host, from, bytes);
    send(a);
    return a->device;
}

/* label: [rows][LABEL_WIDTH]. */
static void run_kernels(const one_case *c, bool gather, const array *out, const array *label) {
    const ff_finish *finish = &c->finish;
    const uint32_t channels = c->metadata.channels, height = c->host.out_height;
    const uint32_t width = c->host.out_width;
    const ff_metadata *metadata = finish->used ? &finish->metadata : &c->metadata;
    const size_t values = (size_t)channels * height * width;
    ff_augment_host planes;
    float multiply[4] = {0}, add[4] = {0}, mean[4] = {0}, std[4] = {0};
    /* Stored rows: all samples, in reverse order if gathered by row_of; or those of the batch. */
    uint64_t offset[ROWS_MOST] = {0};
    uint32_t row_of[SAMPLES] = {0};
    uint32_t from[SLOT_BYTES / 4 + ROWS_MOST * LABEL_WIDTH] = {0};
    const bool backwards = gather && roll(&luck, 2);
    assert_ok(
        ff_augment_host_init(&planes, metadata, &c->spec, FF_F32, FF_CHW, height, width, error));
    for (uint32_t i = 0; i < channels; i++) {
        const bool known = metadata->statistics_count != 0;
        multiply[i] = (float)(1 / (255 * (known ? (double)c->std[i] : 1)));
        add[i] = known ? (float)(-(double)c->mean[i] / (double)c->std[i]) : -0.0f;
        if (finish->direct && ff_augment_resamples(&c->spec)) multiply[i] = 1, add[i] = 0;
        mean[i] = c->metadata.statistics_count ? c->mean[i] : 0;
        std[i] = c->metadata.statistics_count ? c->std[i] : 1;
    }
    for (uint32_t i = 0; i < (gather ? SAMPLES : c->count); i++) {
        const uint64_t number = gather ? (backwards ? SAMPLES - 1 - i : i) : c->params[i].sample;
        offset[i] = c->offset[number];
        for (uint32_t k = 0; k < LABEL_WIDTH; k++)
            from[SLOT_BYTES / 4 + i * LABEL_WIDTH + k] = (uint32_t)number * 10 + k;
        if (gather) row_of[number] = i;
    }
    const bool same = c->same_size && gather && !backwards;
    const array *made = poisoned(FF_F32, c->rows * values);
    const ff_cuda_batch place = {
        .at = {.count = c->count, .epoch = c->epoch, .position = c->position}, .slot = SLOT};
    ff_cuda_augment job = {
        .move = {.batch = sent(&place, sizeof place),
                 .params = sent(c->params, sizeof c->params),
                 .samples = sent(c->ring, c->ring_bytes),
                 .row_bytes = c->offset[1],
                 .slot_bytes = SLOT_BYTES,
                 .gather = gather,
                 .row_of = backwards ? sent(row_of, sizeof row_of) : NULL,
                 .from = c->metadata.dtype,
                 .from_layout = c->metadata.layout,
                 .channels = channels,
                 .height = c->size[0][0],
                 .width = c->size[0][1],
                 .data = out->device,
                 .to = c->host.to,
                 .rows = c->rows,
                 .out_height = height,
                 .out_width = width,
                 .out_channels = c->out_channels,
                 .pad_mode = c->spec.pad_mode,
                 .black = sent(planes.black, channels * sizeof *planes.black),
                 .table = planes.table ? sent(planes.table, channels * 256 * sizeof(float)) : NULL,
                 .columns = 1,
                 .column = {{.from = sent(from, sizeof from),
                             .to = label->device,
                             .width = LABEL_WIDTH,
                             .padding = 77}}},
        .values = made->device,
        .offset = same ? NULL : sent(offset, sizeof offset),
        .size = same ? NULL : sent(c->size, sizeof c->size),
        .resampled = (uint32_t)ff_augment_resamples(&c->spec),
        .multiply = sent(multiply, sizeof multiply),
        .add = sent(add, sizeof add),
        .jittered = finish->jitters,
        .normalised = metadata->statistics_count != 0,
        .seed = c->seed,
        .again = c->again,
        .mean = sent(mean, sizeof mean),
        .std = sent(std, sizeof std),
        .changed = finish->changes,
        .level =
            c->host.to == FF_U8 || (finish->direct && ff_augment_resamples(&c->spec)) ? 1 : 255,
        .change = c->spec.change,
        .shown = finish->changes ? sent(finish->shown, channels * 256 * sizeof(float)) : NULL,
        .images = poisoned(FF_U8, ff_change_images(&c->spec.change) * c->rows * values)->device,
    };
    memcpy(job.jitter, c->spec.jitter, sizeof job.jitter);
    assert_launched(ff_loader_cuda_kernels.augment(
        &job, bench.device->table->native_stream(bench.device, bench.stream)));
    fetch(made);
    ff_augment_host_free(&planes);
}

static void check_case(one_case *c) {
    const uint32_t channels = c->metadata.channels;
    const size_t pixels = (size_t)c->host.out_height * c->host.out_width;
    const size_t bytes = c->host.to_bytes, out_bytes = c->rows * pixels * c->out_channels * bytes;
    uint8_t *wanted = host_rows(c, channels * pixels);
    const array *out = poisoned(FF_U8, out_bytes);
    const array *label = poisoned(FF_I32, c->rows * LABEL_WIDTH);
    run_kernels(c, roll(&luck, 2), out, label);
    fetch(out);
    fetch(label);
    const uint8_t *found = out->host;
    for (uint32_t i = 0; i < c->rows * LABEL_WIDTH; i++) {
        const uint32_t row = i / LABEL_WIDTH;
        const uint64_t want = row < c->count ? c->params[row].sample * 10 + i % LABEL_WIDTH : 77;
        assert_int_equal(((const uint32_t *)label->host)[i], want);
    }
    for (size_t i = 0; i < c->rows * pixels * c->out_channels; i++) {
        const size_t pixel = i / c->out_channels, channel = i % c->out_channels;
        static const uint8_t zero[4];
        const uint8_t *want = channel < channels && pixel < c->count * pixels
                                  ? wanted + (pixel * channels + channel) * bytes
                                  : zero;
        if (memcmp(want, found + i * bytes, bytes) == 0) continue;
        print_error(
            "%s %s to %s, %u channels of %u, row %zu of %u, pixel %zu of %ux%u, channel %zu: "
            "%g, wanted %g; flags %u rrc %u resize %u jitter %g:%g:%g:%g mixup %g cutmix %g\n",
            ff_dtype_name(c->host.from), ff_layout_name(c->host.from_layout),
            ff_dtype_name(c->host.to), channels, c->out_channels, pixel / pixels, c->count,
            pixel % pixels, c->host.out_height, c->host.out_width, channel,
            ff_element(found, c->host.to, i), ff_element(want, c->host.to, 0),
            c->params[pixel / pixels].flags, c->spec.rrc, c->spec.resize, c->spec.jitter[0],
            c->spec.jitter[1], c->spec.jitter[2], c->spec.jitter[3], c->spec.mixup, c->spec.cutmix);
        fail();
    }
    drop_arrays();
    free(wanted);
    free_case(c);
}

static void batches(void **state) {
    (void)state;
    for (int i = 0; i < trials(250); i++) {
        one_case c;
        make_case(&c, i % 2, 40);
        check_case(&c);
    }
}

/* Reductions by more than the kernel can store weights for: each is computed when needed. */
static void far_reductions(void **state) {
    (void)state;
    for (int i = 0; i < 6;) {
        one_case c;
        make_case(&c, true, i < 3 ? 600 : 90);
        if (c.spec.rrc && c.host.out_height < 12 && c.host.out_width < 12)
            check_case(&c), i++;
        else
            free_case(&c);
    }
}

static void refusals(void **state) {
    (void)state;
    const ff_cuda_batch place = {.number = 0};
    static const uint32_t black[2];
    const ff_cuda_augment good = {.move = {.batch = &place,
                                           .from = FF_F16,
                                           .to = FF_F16,
                                           .rows = 1,
                                           .channels = 2,
                                           .black = black,
                                           .out_height = 4,
                                           .out_width = 4,
                                           .out_channels = 2}};
    ff_cuda_augment bad = good;
    bad.move.from = FF_U8; /* without a table */
    assert_int_equal(ff_loader_cuda_kernels.augment(&bad, NULL), FF_CUDA_INVALID_VALUE);
    bad.resampled = 1;
    assert_int_equal(ff_loader_cuda_kernels.augment(&bad, NULL), FF_CUDA_INVALID_VALUE);
    bad = good, bad.move.from = FF_I32;
    assert_int_equal(ff_loader_cuda_kernels.augment(&bad, NULL), FF_CUDA_INVALID_VALUE);
    bad = good, bad.move.out_channels = 1;
    assert_int_equal(ff_loader_cuda_kernels.augment(&bad, NULL), FF_CUDA_INVALID_VALUE);
    bad = good, bad.move.out_width = 0;
    assert_int_equal(ff_loader_cuda_kernels.augment(&bad, NULL), FF_CUDA_INVALID_VALUE);
    bad = good, bad.move.out_height = 8 * 65536; /* more tiles than a grid can have, either way */
    assert_int_equal(ff_loader_cuda_kernels.augment(&bad, NULL), FF_CUDA_INVALID_VALUE);
    bad = good, bad.move.out_width = 32 * 65536;
    assert_int_equal(ff_loader_cuda_kernels.augment(&bad, NULL), FF_CUDA_INVALID_VALUE);
    bad = good, bad.move.rows = 0; /* an empty share */
    assert_int_equal(ff_loader_cuda_kernels.augment(&bad, NULL), 0);
    bad = good, bad.resampled = 1, bad.move.from = FF_I32;
    assert_int_equal(ff_loader_cuda_kernels.augment(&bad, NULL), FF_CUDA_INVALID_VALUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches),
        cmocka_unit_test(far_reductions),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, bench_open, bench_close);
}
