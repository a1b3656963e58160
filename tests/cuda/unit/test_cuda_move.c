/* The loader's kernels against their plain versions, bit for bit: the batch's place, parameters of
 * every augmentation and order, and moving samples of random odd shapes, dtypes, layouts and
 * channel paddings; outputs poisoned, between guard bands. */
#include "tests/cuda/unit/kernel_helpers.h"

#include "loader/augment/affine.h"
#include "loader/augment/host.h"
#include "loader/cuda/kernels.h"
#include "tests/cuda/sim/device.h"
#include "tests/cuda/sim/loader_plain.h"

#include <stddef.h>

/* The plain ones run on the host's images of the same arrays. */
static ff_device *plain_device;
static ff_stream *plain_stream;

static int open_both(void **state) {
    ff_error error = {0};
    if (bench_open(state) != 0) return 1;
    if (ff_device_sim_create(&plain_device, FF_HOST_STREAMS_CALLER, 0, 0, &error) != FF_OK)
        return 1;
    return plain_device->table->stream_create(plain_device, &plain_stream, &error) != FF_OK;
}
static int close_both(void **state) {
    plain_device->table->stream_destroy(plain_device, plain_stream);
    ff_device_destroy(&plain_device);
    return bench_close(state);
}

#define RUN_BOTH(launcher, device_job, host_job)                                                   \
    do {                                                                                           \
        ff_cuda_stream native_ = bench.device->table->native_stream(bench.device, bench.stream);   \
        assert_launched(ff_loader_cuda_kernels.launcher(device_job, native_));                     \
        bench_wait();                                                                              \
        assert_launched(ff_loader_plain_kernels.launcher(host_job, (ff_cuda_stream)plain_stream)); \
        assert_ok(plain_device->table->stream_synchronize(plain_device, plain_stream, error));     \
    } while (0)

/* Fetches what the kernel wrote and compares it with what the plain one wrote into the image. */
static void compare(array *a, const char *what, int trial) {
    const size_t used = a->count * ff_dtype_bytes(a->dtype);
    unsigned char *want = malloc(used + 1);
    assert_non_null(want);
    memcpy(want, a->host, used);
    fetch(a);
    const unsigned char *found = a->host;
    for (size_t i = 0; i < used; i++) {
        if (found[i] == want[i]) continue;
        print_error("trial %d: %s: byte %zu of %zu: %02x, wanted %02x\n", trial, what, i, used,
                    found[i], want[i]);
        fail();
    }
    free(want);
}

/* ---- one random run of batches -------------------------------------------------------------- */

enum { CHANNELS_MOST = 260 };

typedef struct run {
    ff_metadata metadata;
    float mean[CHANNELS_MOST], std[CHANNELS_MOST];
    ff_augment_spec spec;
    ff_augment_host host;
    uint32_t height, width, out_height, out_width, samples;
    array *place, *params, *weight, *mix, *size, *stored, *row_of, *sample_of_place, *sampling,
        *black, *table, *data;
    array *label_from, *label_to;
    ff_cuda_next next[2]; /* on the device, and on the host */
    ff_cuda_params parameters[2];
    ff_cuda_move move[2];
} run;

typedef struct shape {
    int side, channels, out_channels; /* at most */
    bool fixed;                       /* exactly these */
} shape;

static void draw_augmentation(run *r, dice *d, bool moves_only) {
    ff_augment_spec *spec = &r->spec;
    const uint32_t least = r->height < r->width ? r->height : r->width;
    const int side = (int)least;
    spec->flip = (ff_flip_mode)roll(d, 3);
    spec->vflip = roll(d, 3) ? 0 : 0.5;
    spec->crop = roll(d, 4) != 0;
    if (spec->crop) {
        spec->pad_mode = least > 1 && roll(d, 3) == 0 ? FF_PAD_REFLECT : FF_PAD_BLACK;
        spec->pad = roll(d, spec->pad_mode == FF_PAD_REFLECT ? least : 7);
    }
    if (roll(d, 2)) spec->cutout = (uint32_t)between(d, 1, side + 4);
    r->out_height = (uint32_t)between(d, 1, (int)(r->height + 2 * spec->pad));
    r->out_width = (uint32_t)between(d, 1, (int)(r->width + 2 * spec->pad));
    if (roll(d, 2)) r->out_height = r->height, r->out_width = r->width;
    if (moves_only) return;
    if (roll(d, 3) == 0) { /* only the parameters of these are the kernel's */
        spec->crop = spec->pad = 0, spec->pad_mode = FF_PAD_BLACK;
        spec->rrc = r->out_height = r->out_width = (uint32_t)between(d, 1, 40);
        spec->scale[0] = 0.08 + 0.5 * uniform(d), spec->scale[1] = 1;
        spec->ratio[0] = 0.75, spec->ratio[1] = 4.0 / 3;
    } else if (roll(d, 3) == 0) {
        spec->pad = 0, spec->pad_mode = FF_PAD_BLACK;
        spec->resize = (uint32_t)between(d, 1, 40);
        r->out_height = r->out_width = (uint32_t)between(d, 1, (int)spec->resize);
    }
    if (roll(d, 3) == 0) spec->mixup = 0.2 + uniform(d);
    if (roll(d, 3) == 0) spec->cutmix = 0.2 + uniform(d);
}

static void draw_order(run *r, dice *d) {
    ff_cuda_next *next = &r->next[1];
    const uint32_t parts = 1 + roll(d, 3), batch = (uint32_t)between(d, 1, 12);
    next->order = (ff_order_spec){.count = r->samples,
                                  .seed = roll(d, 1000),
                                  .block = (uint64_t)between(d, 1, 5),
                                  .group = (uint64_t)between(d, 1, 4),
                                  .batch = batch,
                                  .machines = 1 + roll(d, batch),
                                  .kind = (ff_order_kind)roll(d, FF_ORDER_KIND_COUNT)};
    ff_sequence *sequence = &next->sequence;
    *sequence =
        (ff_sequence){.count = r->samples, .batch = batch, .cuts = 1, .total_batches = UINT64_MAX};
    sequence->first_epoch = roll(d, 5);
    sequence->first_position = roll(d, r->samples);
    sequence->epoch_batches = (r->samples - 1) / batch + 1;
    sequence->first_batches = (r->samples - sequence->first_position - 1) / batch + 1;
    sequence->share_begin = batch * roll(d, parts) / parts;
    sequence->rows = (uint32_t)(batch - sequence->share_begin);
    next->slots = 1 + roll(d, 3);
}

static array *sent_bytes(const void *from, size_t count) {
    array *a = bytes(count);
    memcpy(a->host, from, count);
    send(a);
    return a;
}

/* All bit patterns except signalling NaNs of 16 bits, which may become quiet. */
static void draw_values(void *array_, ff_dtype dtype, size_t count, dice *d) {
    uint16_t *half = array_;
    for (size_t i = 0; i < count * ff_dtype_bytes(dtype); i++)
        ((uint8_t *)array_)[i] = (uint8_t)roll(d, 256);
    for (size_t i = 0; i < count; i++) {
        if (dtype == FF_F16 && (half[i] & 0x7fff) > 0x7c00) half[i] |= 0x0200;
        if (dtype == FF_BF16 && (half[i] & 0x7fff) > 0x7f80) half[i] |= 0x0040;
    }
}

static const ff_dtype stored_dtypes[] = {FF_U8, FF_U8, FF_F16, FF_BF16, FF_F32};

static void draw_run(run *r, dice *d, const shape *most, bool moves_only) {
    memset(r, 0, sizeof *r);
    r->height = (uint32_t)(most->fixed ? most->side : between(d, 1, most->side));
    r->width = (uint32_t)(most->fixed ? most->side : between(d, 1, most->side));
    r->samples = (uint32_t)between(d, 1, 30);
    ff_metadata *metadata = &r->metadata;
    metadata->dtype = stored_dtypes[roll(d, 5)];
    metadata->layout = (ff_layout)roll(d, 2);
    metadata->channels = (uint32_t)(most->fixed ? most->channels : between(d, 1, most->channels));
    for (int i = 0; i < CHANNELS_MOST; i++)
        r->mean[i] = 0.4f + 0.01f * (float)(i % 16), r->std[i] = 0.2f;
    if (roll(d, 4)) {
        metadata->statistics_count = metadata->channels;
        metadata->mean = r->mean, metadata->std = r->std;
    }
    draw_augmentation(r, d, moves_only);
    draw_order(r, d);
    ff_dtype to = stored_dtypes[2 + roll(d, 3)];
    if (metadata->dtype != FF_U8 && roll(d, 2)) to = metadata->dtype;
    assert_ok(ff_augment_host_init(&r->host, metadata, &r->spec, to, FF_HWC, r->out_height,
                                   r->out_width, error));
}

/* An epoch of `count` samples. */
static void shorten(ff_sequence *sequence, uint64_t count) {
    sequence->count = count;
    sequence->first_position %= count;
    sequence->epoch_batches = (count - 1) / sequence->batch + 1;
    sequence->first_batches = (count - sequence->first_position - 1) / sequence->batch + 1;
}

/* Two sets whose shares change with epoch 1; table: [samples + 20]. */
static void draw_shares(ff_sampling *sampling, uint64_t *table, uint32_t samples, dice *d) {
    const uint64_t first = samples / 2, unit = roll(d, 2) ? 1 : sampling->batch;
    sampling->count = 2;
    sampling->stages = 2;
    sampling->unit = unit;
    sampling->units = (1000 - 1) / unit + 1;
    table[0] = 0, table[1] = first, table[2] = samples;
    for (uint64_t stage = 0; stage < 2; stage++) {
        uint64_t *at = table + 3 + 7 * stage;
        const uint64_t share = roll(d, 101);
        const uint64_t upto[] = {0, first ? share : 0, 100};
        at[0] = stage;
        for (int k = 0; k < 3; k++) {
            at[1 + k] = unit * upto[k] / 100;
            at[4 + k] = sampling->units - sampling->units * (unit * upto[k] % 100) / 100;
        }
    }
}

/* Weights, some of them 0, or classes of 1 to 3 samples, or shares; repeats. */
static ff_sampling draw_sampling(run *r, dice *d) {
    ff_sampling sampling = {.seed = roll(d, 1000),
                            .batch = r->next[1].sequence.batch,
                            .repeats = roll(d, 4),
                            .per_class = 1 + roll(d, 4),
                            .kind = (ff_sampling_kind)roll(d, 5)};
    r->sampling = poisoned(FF_I64, r->samples + 20);
    uint64_t *table = r->sampling->host;
    if (sampling.kind == FF_SAMPLING_CLASSES) {
        for (table[0] = 0; table[sampling.count] < r->samples; sampling.count++) {
            const uint64_t left = r->samples - table[sampling.count];
            table[sampling.count + 1] = table[sampling.count] + 1 + roll(d, left < 3 ? left : 3);
        }
        if (sampling.count * sampling.per_class < sampling.batch) sampling.kind = FF_SAMPLING_ORDER;
    } else if (sampling.kind == FF_SAMPLING_SHARES) {
        draw_shares(&sampling, table, r->samples, d);
    } else {
        sampling.count = r->samples;
        for (uint32_t i = 0; i < r->samples; i++)
            table[i] = (i ? table[i - 1] : 1) + ((uint64_t)roll(d, 3) << roll(d, 55));
        if (sampling.kind == FF_SAMPLING_DISTINCT) {
            /* Shares of a unit, the last ones of which make the sum a multiple. */
            const uint64_t unit = UINT64_C(1) << 40;
            uint64_t sum = 0;
            sampling.distinct = 1 + roll(d, r->samples);
            shorten(&r->next[1].sequence, sampling.distinct);
            for (uint32_t i = 0; i < r->samples; i++) {
                const uint64_t after = (r->samples - i - 1) * unit;
                const uint64_t left = sampling.distinct * unit - sum;
                const uint64_t least = left > after ? left - after : 0;
                const uint64_t most = left < unit ? left : unit;
                sum += least + (roll(d, 2) ? most - least : (most - least) / 3);
                table[i] = sum;
            }
        }
    }
    send(r->sampling);
    return sampling;
}

static void make_arrays(run *r, dice *d, const shape *most, bool moves_only) {
    const uint32_t channels = r->metadata.channels, rows = r->next[1].sequence.rows;
    const uint32_t out_channels =
        (uint32_t)(most->fixed ? most->out_channels
                               : between(d, (int)channels, most->out_channels));
    const bool gather = roll(d, 2);
    const uint64_t elements = (uint64_t)channels * r->height * r->width;
    uint64_t row_bytes = (elements * r->host.from_bytes + 15) / 16 * 16 + 16 * roll(d, 2);
    if (roll(d, 8) == 0) row_bytes += r->host.from_bytes; /* for the plain kernel */
    const uint64_t slot_bytes = gather ? 0 : (row_bytes * rows + 255) / 256 * 256;
    const uint32_t slots = r->next[1].slots;
    const uint32_t width = roll(d, 8) ? 1 + roll(d, 3) : 300; /* more than a block has threads */
    const uint64_t stored = gather ? row_bytes * r->samples : slot_bytes * slots;
    const uint64_t labels = gather ? r->samples * width : slot_bytes / 4 * slots;

    r->place = bytes(sizeof(ff_cuda_batch));
    memset(r->place->host, 0, sizeof(ff_cuda_batch));
    send(r->place);
    r->params = bytes(rows * sizeof(ff_augment_params));
    r->weight = poisoned(FF_F32, rows);
    r->mix = poisoned(FF_F32, rows);
    r->size = poisoned(FF_I32, 2 * (size_t)r->samples); /* fits in all of them */
    for (uint32_t i = 0; i < r->samples; i++) {
        ((uint32_t *)r->size->host)[2 * i] = r->height + i % 3;
        ((uint32_t *)r->size->host)[2 * i + 1] = r->width + i % 5;
    }
    send(r->size);
    r->stored = bytes(stored);
    draw_values(r->stored->host, r->metadata.dtype, stored / r->host.from_bytes, d);
    send(r->stored);
    r->label_from = poisoned(FF_I32, labels + width * rows);
    draw_values(r->label_from->host, FF_I32, r->label_from->count, d);
    send(r->label_from);
    r->label_to = poisoned(FF_I32, rows * width);
    r->black = sent_bytes(r->host.black, channels * sizeof(uint32_t));
    if (r->host.table) r->table = sent_bytes(r->host.table, channels * 256 * r->host.to_bytes);
    r->data = poisoned(r->host.to, (size_t)rows * r->out_height * r->out_width * out_channels);
    r->row_of = poisoned(FF_I32, r->samples);
    r->sample_of_place = poisoned(FF_I64, r->samples);
    for (uint32_t i = 0; i < r->samples; i++) { /* backwards, and turned */
        ((uint32_t *)r->row_of->host)[i] = r->samples - 1 - i;
        ((uint64_t *)r->sample_of_place->host)[i] = (i + 1) % r->samples;
    }
    send(r->row_of);
    send(r->sample_of_place);
    const bool mapped = roll(d, 2), placed = roll(d, 2), affine = roll(d, 2);
    const bool sized = !moves_only && roll(d, 2), mixes = ff_augment_mixes(&r->spec);
    const uint64_t seed = roll(d, 1000);
    ff_sampling sampling = draw_sampling(r, d);
    for (int side = 0; side < 2; side++) {
#define AT(a) (side ? (a)->host : (a)->device)
        r->next[side] = r->next[1];
        r->next[side].batch = AT(r->place);
        sampling.table = AT(r->sampling);
        r->parameters[side] = (ff_cuda_params){
            .batch = AT(r->place),
            .spec = r->spec,
            .seed = seed,
            .height = r->height,
            .width = r->width,
            .out_height = r->out_height,
            .out_width = r->out_width,
            .rows = rows,
            .size = sized ? AT(r->size) : NULL,
            .sampling = sampling,
            .sample_of_place = placed ? AT(r->sample_of_place) : NULL,
            .params = AT(r->params),
            .weight = AT(r->weight),
            .mix = mixes ? AT(r->mix) : NULL,
        };
        r->move[side] = (ff_cuda_move){
            .batch = AT(r->place),
            .params = AT(r->params),
            .samples = AT(r->stored),
            .row_bytes = row_bytes,
            .slot_bytes = slot_bytes,
            .gather = gather,
            .row_of = mapped ? AT(r->row_of) : NULL,
            .from = r->host.from,
            .from_layout = r->host.from_layout,
            .channels = channels,
            .height = r->height,
            .width = r->width,
            .data = AT(r->data),
            .to = r->host.to,
            .rows = rows,
            .out_height = r->out_height,
            .out_width = r->out_width,
            .out_channels = out_channels,
            .pad_mode = r->host.pad_mode,
            .black = AT(r->black),
            .table = r->table ? AT(r->table) : NULL,
            .columns = 1,
            .column = {{AT(r->label_from), AT(r->label_to), width, 0xffffffffu}},
        };
#undef AT
        ff_cuda_move *move = &r->move[side];
        if (affine && channels <= FF_CUDA_AFFINE)
            move->affine = ff_affine_find(&r->host, &r->metadata, move->scale, move->bias);
    }
}

static void drop_run(run *r) {
    ff_augment_host_free(&r->host);
    drop_arrays();
}

/* Field by field: there is padding between some of them. */
static void compare_place(array *a) {
    ff_cuda_batch want = *(const ff_cuda_batch *)a->host;
    fetch(a);
    ff_cuda_batch *found = a->host;
    assert_int_equal(found->number, want.number);
    assert_int_equal(found->slot, want.slot);
    assert_memory_equal(&found->at, &want.at,
                        offsetof(ff_sequence_batch, last) + sizeof(uint32_t)); /* then padding */
    assert_memory_equal(&found->order.outer, &want.order.outer, sizeof want.order.outer);
    assert_memory_equal(&found->order.inner, &want.order.inner, sizeof want.order.inner);
    assert_int_equal(found->order.spec.kind, want.order.spec.kind);
    assert_int_equal(found->order.spec.group, want.order.spec.group);
    assert_int_equal(found->order.short_end, want.order.short_end);
}

/* The same place and parameters everywhere. */
static void run_params(run *r, int trial) {
    RUN_BOTH(next, &r->next[0], &r->next[1]);
    compare_place(r->place);
    RUN_BOTH(params, &r->parameters[0], &r->parameters[1]);
    compare(r->params, "params", trial);
    compare(r->weight, "weight", trial);
    if (ff_augment_mixes(&r->spec)) compare(r->mix, "mix", trial);
}

/* ---- the tests ------------------------------------------------------------------------------ */

static void test_params(void **state) {
    (void)state;
    dice d = {.seed = 1};
    const shape most = {.side = 40, .channels = 3, .out_channels = 8};
    for (int trial = 0; trial < 60; trial++) {
        run r;
        draw_run(&r, &d, &most, false);
        make_arrays(&r, &d, &most, false);
        for (int batch = 0; batch < 4; batch++) run_params(&r, trial);
        drop_run(&r);
    }
}

static void move_trials(uint64_t seed, const shape *most, int trials, int batches) {
    dice d = {.seed = seed};
#ifdef __SANITIZE_THREAD__
    trials = (trials + 7) / 8; /* threads are real, and slow */
#endif
    for (int trial = 0; trial < trials; trial++) {
        run r;
        draw_run(&r, &d, most, true);
        make_arrays(&r, &d, most, true);
        for (int batch = 0; batch < batches; batch++) {
            run_params(&r, trial);
            RUN_BOTH(move, &r.move[0], &r.move[1]);
            compare(r.data, "data", trial);
            compare(r.label_to, "labels", trial);
        }
        drop_run(&r);
    }
}

static void test_move(void **state) {
    (void)state;
    move_trials(2, &(shape){.side = 24, .channels = 4, .out_channels = 8}, 120, 2);
    move_trials(3, &(shape){.side = 6, .channels = 11, .out_channels = 16}, 60, 2);
    const int most = CHANNELS_MOST;
    move_trials(7, &(shape){.side = 3, .channels = most, .out_channels = most, .fixed = true}, 20,
                1);
}
static void test_move_cifar(void **state) {
    (void)state;
    for (int channels = 3; channels <= 8; channels += channels == 3 ? 1 : 4)
        move_trials(4, &(shape){.side = 32, .channels = 3, .out_channels = channels, .fixed = true},
                    5, 2);
    move_trials(5, &(shape){.side = 28, .channels = 1, .out_channels = 1, .fixed = true}, 5, 2);
}
static void test_move_large(void **state) {
    (void)state;
    move_trials(6, &(shape){.side = 160, .channels = 3, .out_channels = 8}, 30, 1);
}

/* Rows of f16 come out as they are stored, as `to`. */
static void check_copies(uint32_t rows, uint32_t height, uint32_t width, uint32_t channels,
                         ff_dtype to) {
    const ff_cuda_batch place = {.at = {.count = rows}};
    const uint32_t elements = height * width * channels, stride = (elements + 7) / 8 * 8;
    ff_augment_params *params = calloc(rows, sizeof *params);
    uint32_t *black = calloc(channels, sizeof *black);
    uint16_t *stored = calloc((size_t)rows * stride, sizeof *stored);
    assert_true(params && black && stored);
    for (uint32_t i = 0; i < rows * stride; i++) stored[i] = (uint16_t)(i & 0x3fff);
    array *data = poisoned(to, (size_t)rows * elements);
    const ff_cuda_move job = {
        .batch = sent_bytes(&place, sizeof place)->device,
        .params = sent_bytes(params, rows * sizeof *params)->device,
        .samples = sent_bytes(stored, (size_t)rows * stride * sizeof *stored)->device,
        .row_bytes = stride * sizeof *stored,
        .from = FF_F16,
        .from_layout = FF_HWC,
        .to = to,
        .channels = channels,
        .height = height,
        .width = width,
        .data = data->device,
        .rows = rows,
        .out_height = height,
        .out_width = width,
        .out_channels = channels,
        .black = sent_bytes(black, channels * sizeof *black)->device,
    };
    assert_launched(ff_loader_cuda_kernels.move(
        &job, bench.device->table->native_stream(bench.device, bench.stream)));
    bench_wait();
    fetch(data);
    for (uint32_t i = 0; i < rows * elements; i++) {
        const uint16_t *from = &stored[i / elements * stride + i % elements];
        uint32_t wanted = 0, found = 0;
        ff_convert(&wanted, to, from, FF_F16, 1);
        memcpy(&found, (const uint8_t *)data->host + i * ff_dtype_bytes(to), ff_dtype_bytes(to));
        assert_int_equal(found, wanted);
    }
    free(params);
    free(black);
    free(stored);
    drop_arrays();
}

/* More rows than a grid's y dimension: each block of the plain kernel handles several. */
static void test_many_rows(void **state) {
    (void)state;
    check_copies(65535 + 40, 1, 1, 1, FF_F32);
}

/* Bands of four lines, of an odd number of elements: the sample's bytes are a multiple of 16, a
 * band's only of 8. */
static void test_odd_bands(void **state) {
    (void)state;
    check_copies(3, 24, 31, 45, FF_F16);
}

/* With the statistics that sets have, the table is a multiply-add. */
static void test_affine(void **state) {
    (void)state;
    static const float means[][3] = {{0.485f, 0.456f, 0.406f}, {0.4914f, 0.4822f, 0.4465f}};
    static const float deviations[][3] = {{0.229f, 0.224f, 0.225f}, {0.2470f, 0.2435f, 0.2616f}};
    for (int i = 0; i < 4; i++) {
        ff_metadata metadata = {.dtype = FF_U8, .channels = 3};
        ff_augment_spec spec = {0};
        ff_augment_host host;
        float scale[3], bias[3];
        if (i / 2 == 0) {
            metadata.statistics_count = 3;
            metadata.mean = (float *)(uintptr_t)means[i % 2];
            metadata.std = (float *)(uintptr_t)deviations[i % 2];
        }
        for (int to = 0; to < 2; to++) {
            assert_ok(ff_augment_host_init(&host, &metadata, &spec, to ? FF_BF16 : FF_F16, FF_HWC,
                                           4, 4, error));
            assert_true(ff_affine_find(&host, &metadata, scale, bias));
            ((uint16_t *)host.table)[3 * 256 - 1] ^= 1;
            assert_false(ff_affine_find(&host, &metadata, scale, bias));
            ff_augment_host_free(&host);
        }
        assert_ok(ff_augment_host_init(&host, &metadata, &spec, FF_F32, FF_HWC, 4, 4, error));
        assert_false(ff_affine_find(&host, &metadata, scale, bias));
        ff_augment_host_free(&host);
    }
}

static void test_refusals(void **state) {
    (void)state;
    ff_cuda_move job = {.from = FF_U8, .to = FF_F16, .channels = 3, .out_channels = 3, .rows = 1};
    assert_int_equal(ff_loader_cuda_kernels.move(&job, NULL), FF_CUDA_INVALID_VALUE); /* no table */
    job.from = FF_U16;
    assert_int_equal(ff_loader_cuda_kernels.move(&job, NULL), FF_CUDA_INVALID_VALUE);
    job.from = FF_F16, job.out_channels = 2;
    assert_int_equal(ff_loader_cuda_kernels.move(&job, NULL), FF_CUDA_INVALID_VALUE);
    job.out_channels = 3, job.rows = 0;
    assert_int_equal(ff_loader_cuda_kernels.move(&job, NULL), FF_CUDA_OK);
    ff_cuda_next next = {.slots = 0};
    assert_int_equal(ff_loader_cuda_kernels.next(&next, NULL), FF_CUDA_INVALID_VALUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params),     cmocka_unit_test(test_move),
        cmocka_unit_test(test_move_cifar), cmocka_unit_test(test_move_large),
        cmocka_unit_test(test_many_rows),  cmocka_unit_test(test_odd_bands),
        cmocka_unit_test(test_affine),     cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
