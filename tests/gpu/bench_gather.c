/* How fast samples of a resident set become batches: gather, crop with padding 4, flip, cutout 8
 * and conversion to f16, of 32x32x3 samples in random order, from u8 and f16, to 3, 4 and 8
 * channels; against what a copy on the device reaches in the same run. Bytes are those read and
 * written, pad channels too. Then batches of 512 and 2000, place and parameters included, in
 * microseconds: as three launches and as one recording. bench_gather [--gib 2.5] [--rows 131072]
 * [--rounds 21] [--small 2000] [--device 0] */
#include "loader/augment/affine.h"
#include "loader/cuda/kernels.h"
#include "loader/cuda/module.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 32, CHANNELS = 3, ROUNDS_MOST = 1000 };

typedef struct bench {
    ff_device *device;
    const ff_loader_kernels *kernels;
    ff_stream *stream;
    ff_event *begin, *end;
    double gib, copy_rate; /* bytes a second, read and written */
    uint32_t rows;
    int rounds, small; /* small: batches of this many rows, and of 512 */
} bench;

static ff_error failure;

/* A failure ends the program. */
static void ok(ff_status status) {
    if (status == FF_OK) return;
    printf("not ok - %s\n", failure.message);
    exit(1);
}
static void launched(int code) {
    if (code == 0) return;
    printf("not ok - a launch failed: CUDA error %d\n", code);
    exit(1);
}

static void *on_device(const bench *b, uint64_t bytes) {
    void *memory;
    ok(b->device->table->allocate(b->device, &memory, bytes, "a benchmark", &failure));
    return memory;
}
static void release(const bench *b, void *memory) {
    b->device->table->release(b->device, memory);
}
static void wait(const bench *b) {
    ok(b->device->table->stream_synchronize(b->device, b->stream, &failure));
}
static void send(const bench *b, void *to, const void *from, uint64_t bytes) {
    ok(b->device->table->copy(b->device, b->stream, to, from, bytes, &failure));
    wait(b);
}

/* Random bytes, never zeros: 64 MiB of them, again and again. */
static void fill_random(const bench *b, uint8_t *memory, uint64_t bytes) {
    const uint64_t block = UINT64_C(64) << 20;
    void *pinned;
    ok(b->device->table->allocate_pinned(b->device, &pinned, block, "random bytes", &failure));
    uint64_t state = 88172645463325252u, *word = pinned;
    for (uint64_t i = 0; i < block / 8; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        word[i] = state & UINT64_C(0xbfffbfffbfffbfff); /* as f16: no infinities, no NaNs */
    }
    for (uint64_t at = 0; at < bytes; at += block)
        send(b, memory + at, pinned, bytes - at < block ? bytes - at : block);
    b->device->table->release_pinned(b->device, pinned);
}

static int compare(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, c = *(const uint64_t *)right;
    return a < c ? -1 : a > c;
}

/* Median nanoseconds of work(context) after warming up; prints the smallest and largest too. */
static double timed(const bench *b, void (*work)(void *context), void *context, double *least,
                    double *most) {
    static uint64_t ns[ROUNDS_MOST];
    const ff_device_table *table = b->device->table;
    for (int i = -3; i < b->rounds; i++) {
        ok(table->event_record(b->device, b->begin, b->stream, &failure));
        work(context);
        ok(table->event_record(b->device, b->end, b->stream, &failure));
        ok(table->event_synchronize(b->device, b->end, &failure));
        if (i >= 0) ok(table->elapsed(b->device, b->begin, b->end, &ns[i], &failure));
    }
    qsort(ns, (size_t)b->rounds, sizeof *ns, compare);
    *least = (double)ns[0], *most = (double)ns[b->rounds - 1];
    return (double)ns[b->rounds / 2];
}

/* ---- copies --------------------------------------------------------------------------------- */

typedef struct copying {
    const bench *b;
    uint8_t *to, *from;
    uint64_t bytes;
} copying;

static void copy(void *context) {
    const copying *c = context;
    ok(c->b->device->table->copy(c->b->device, c->b->stream, c->to, c->from, c->bytes, &failure));
}

static void bench_copy(bench *b) {
    copying c = {.b = b, .bytes = (uint64_t)(b->gib * 0x1p30) & ~UINT64_C(255)};
    c.from = on_device(b, c.bytes), c.to = on_device(b, c.bytes);
    fill_random(b, c.from, c.bytes);
    double least, most, ns = timed(b, copy, &c, &least, &most);
    b->copy_rate = 2 * (double)c.bytes / ns * 1e9;
    printf("copy on the device: %.1f GB/s read and written (%.2f GiB, %.3f to %.3f ms)\n",
           b->copy_rate * 1e-9, b->gib, least * 1e-6, most * 1e-6);
    release(b, c.from), release(b, c.to);
}

/* ---- batches -------------------------------------------------------------------------------- */

typedef struct batches {
    const bench *b;
    ff_augment_host host;
    ff_metadata metadata;
    uint8_t *samples;
    void *memory; /* table | black */
    int32_t *labels, *label;
    ff_cuda_next next;
    ff_cuda_params params;
    ff_cuda_move move;
    ff_recording *recording;
} batches;

static void move_only(void *context) {
    const batches *s = context;
    const bench *b = s->b;
    launched(b->kernels->move(&s->move, b->device->table->native_stream(b->device, b->stream)));
}
static void whole_batch(void *context) {
    const batches *s = context;
    const bench *b = s->b;
    ff_cuda_stream native = b->device->table->native_stream(b->device, b->stream);
    launched(b->kernels->next(&s->next, native));
    launched(b->kernels->params(&s->params, native));
    launched(b->kernels->move(&s->move, native));
}
static void recorded_batch(void *context) {
    const batches *s = context;
    const bench *b = s->b;
    ok(b->device->table->recording_launch(b->device, s->recording, b->stream, &failure));
}

static void open_batches(batches *s, const bench *b, ff_dtype from) {
    static float mean[] = {0.4914f, 0.4822f, 0.4465f}, std[] = {0.2470f, 0.2435f, 0.2616f};
    const uint64_t row_bytes = (uint64_t)SIDE * SIDE * CHANNELS * ff_dtype_bytes(from);
    const uint64_t count = (uint64_t)(b->gib * 0x1p30) / row_bytes;
    *s = (batches){.b = b};
    s->metadata = (ff_metadata){.dtype = from,
                                .layout = FF_HWC,
                                .channels = CHANNELS,
                                .statistics_count = CHANNELS,
                                .mean = mean,
                                .std = std};
    const ff_augment_spec spec = {.crop = 1, .pad = 4, .flip = FF_FLIP_RANDOM, .cutout = 8};
    ok(ff_augment_host_init(&s->host, &s->metadata, &spec, FF_F16, FF_HWC, SIDE, SIDE, &failure));
    s->samples = on_device(b, count * row_bytes);
    fill_random(b, s->samples, count * row_bytes);
    s->labels = on_device(b, count * 4);
    fill_random(b, (uint8_t *)s->labels, count * 4);
    uint8_t constants[CHANNELS * 512 + CHANNELS * 4];
    memset(constants, 0, sizeof constants);
    if (s->host.table) memcpy(constants, s->host.table, CHANNELS * 512);
    memcpy(constants + CHANNELS * 512, s->host.black, CHANNELS * 4);
    s->memory = on_device(b, sizeof constants);
    send(b, s->memory, constants, sizeof constants);
    s->next = (ff_cuda_next){
        .sequence = {.count = count, .total_batches = UINT64_MAX},
        .order = {.count = count, .seed = 1, .kind = FF_ORDER_RANDOM},
        .slots = 1,
    };
    s->params = (ff_cuda_params){.spec = spec,
                                 .seed = 1,
                                 .height = SIDE,
                                 .width = SIDE,
                                 .out_height = SIDE,
                                 .out_width = SIDE};
    s->move = (ff_cuda_move){
        .samples = s->samples,
        .row_bytes = row_bytes,
        .gather = 1,
        .from = from,
        .from_layout = FF_HWC,
        .channels = CHANNELS,
        .height = SIDE,
        .width = SIDE,
        .to = FF_F16,
        .out_height = SIDE,
        .out_width = SIDE,
        .black = (const uint32_t *)(void *)((uint8_t *)s->memory + CHANNELS * 512),
        .table = s->host.table ? s->memory : NULL,
        .columns = 1,
    };
    s->move.affine = ff_affine_find(&s->host, &s->metadata, s->move.scale, s->move.bias);
}

static void close_batches(batches *s) {
    ff_augment_host_free(&s->host);
    release(s->b, s->samples), release(s->b, s->labels), release(s->b, s->memory);
}

/* The jobs for `rows` rows of `channels`; its memory. */
static void set_rows(batches *s, uint32_t rows, uint32_t channels) {
    const bench *b = s->b;
    ff_cuda_batch *place = on_device(b, sizeof *place);
    ok(b->device->table->fill(b->device, b->stream, place, 0, sizeof *place, &failure));
    ff_sequence *sequence = &s->next.sequence;
    sequence->batch = sequence->rows = rows;
    sequence->cuts = 1;
    sequence->first_batches = sequence->epoch_batches = sequence->count / rows; /* full ones */
    s->next.batch = place;
    s->params.batch = s->move.batch = place;
    s->params.rows = s->move.rows = rows;
    s->params.params = on_device(b, rows * sizeof *s->params.params);
    s->params.weight = on_device(b, rows * sizeof(float));
    s->move.params = s->params.params;
    s->move.out_channels = channels;
    s->move.data = on_device(b, (uint64_t)rows * SIDE * SIDE * channels * 2);
    s->label = on_device(b, rows * 4);
    s->move.column[0] =
        (ff_cuda_column){(const uint32_t *)s->labels, (uint32_t *)s->label, 1, UINT32_MAX};
    /* Poisoned: what the benchmark times has written all of it, see check. */
    ok(b->device->table->fill(b->device, b->stream, s->move.data, 0xff,
                              (uint64_t)rows * SIDE * SIDE * channels * 2, &failure));
}
static void drop_rows(batches *s) {
    release(s->b, s->next.batch), release(s->b, s->params.params), release(s->b, s->params.weight);
    release(s->b, s->move.data), release(s->b, s->label);
}

/* The first and last samples of the batch against the plain ones. */
static void check(batches *s) {
    const bench *b = s->b;
    const uint32_t rows = s->move.rows, channels = s->move.out_channels;
    const uint64_t bytes = (uint64_t)SIDE * SIDE * channels * 2;
    uint16_t *out, plain[SIDE * SIDE * CHANNELS];
    uint8_t *sample;
    ff_augment_params *params;
    ok(b->device->table->allocate_pinned(b->device, (void **)&out, bytes, "a check", &failure));
    ok(b->device->table->allocate_pinned(b->device, (void **)&sample, s->move.row_bytes, "a check",
                                         &failure));
    ok(b->device->table->allocate_pinned(b->device, (void **)&params, sizeof *params, "a check",
                                         &failure));
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t row = i < 8 ? i : rows - 1 - (i - 8);
        send(b, params, &s->params.params[row], sizeof *params);
        send(b, sample, s->samples + params->sample * s->move.row_bytes, s->move.row_bytes);
        send(b, out, (uint8_t *)s->move.data + row * bytes, bytes);
        ff_augment_plain(&s->host, params, sample, SIDE, SIDE, plain);
        for (uint32_t pixel = 0; pixel < SIDE * SIDE; pixel++)
            for (uint32_t c = 0; c < channels; c++)
                if (out[pixel * channels + c] != (c < CHANNELS ? plain[pixel * CHANNELS + c] : 0)) {
                    printf("not ok - row %u, pixel %u, channel %u differs\n", row, pixel, c);
                    exit(1);
                }
    }
    b->device->table->release_pinned(b->device, out);
    b->device->table->release_pinned(b->device, sample);
    b->device->table->release_pinned(b->device, params);
}

static void bench_large(batches *s, uint32_t channels) {
    const bench *b = s->b;
    double least, most;
    set_rows(s, b->rows, channels);
    whole_batch(s); /* rows after an epoch's end do not count: one batch, moved again and again */
    wait(b);
    check(s);
    const double ns = timed(b, move_only, s, &least, &most);
    const double bytes =
        (double)b->rows * ((double)s->move.row_bytes + (double)SIDE * SIDE * channels * 2);
    printf("%s to f16, C = %u: %.1f M samples/s, %.1f GB/s, %.3f of the copy (%.3f to %.3f ms)\n",
           ff_dtype_name(s->move.from), channels, b->rows / ns * 1e3, bytes / ns,
           bytes / ns * 1e9 / b->copy_rate, least * 1e-6, most * 1e-6);
    drop_rows(s);
}

static void bench_small(batches *s, uint32_t rows, uint32_t channels) {
    const bench *b = s->b;
    const ff_device_table *table = b->device->table;
    double least, most;
    set_rows(s, rows, channels);
    const double launches = timed(b, whole_batch, s, &least, &most);
    check(s);
    ok(table->capture_begin(b->device, b->stream, &failure));
    whole_batch(s);
    ok(table->capture_end(b->device, b->stream, &s->recording, &failure));
    const double recorded = timed(b, recorded_batch, s, &least, &most);
    check(s);
    table->recording_destroy(b->device, s->recording);
    printf("%s to f16, C = %u, batch %u: %.1f us as launches, %.1f us recorded\n",
           ff_dtype_name(s->move.from), channels, rows, launches * 1e-3, recorded * 1e-3);
    drop_rows(s);
}

static void run(bench *b) {
    static const uint32_t channels[] = {3, 4, 8};
    const ff_device_table *table = b->device->table;
    setvbuf(stdout, NULL, _IOLBF, 0);
    ok(table->stream_create(b->device, &b->stream, &failure));
    ok(table->event_create(b->device, &b->begin, true, &failure));
    ok(table->event_create(b->device, &b->end, true, &failure));
    bench_copy(b);
    for (int from = 0; from < 2; from++) {
        batches s;
        open_batches(&s, b, from ? FF_F16 : FF_U8);
        for (int i = 0; i < 3; i++) bench_large(&s, channels[i]);
        for (int i = 0; i < 3; i++) {
            bench_small(&s, 512, channels[i]);
            bench_small(&s, (uint32_t)b->small, channels[i]);
        }
        close_batches(&s);
    }
    bench_copy(b); /* again: in case something changed meanwhile */
    table->event_destroy(b->device, b->begin);
    table->event_destroy(b->device, b->end);
    table->stream_destroy(b->device, b->stream);
}

int main(int argc, char **argv) {
    bench b = {.gib = 2.5, .rows = 131072, .rounds = 21, .small = 2000};
    int ordinal = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--gib") == 0) b.gib = atof(argv[i + 1]);
        if (strcmp(argv[i], "--rows") == 0) b.rows = (uint32_t)atoi(argv[i + 1]);
        if (strcmp(argv[i], "--rounds") == 0) b.rounds = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--small") == 0) b.small = atoi(argv[i + 1]);
        if (strcmp(argv[i], "--device") == 0) ordinal = atoi(argv[i + 1]);
    }
    /* The set must hold the largest batch. */
    const double held = b.gib * (1 << 30) / (SIDE * SIDE * CHANNELS * 2);
    if (b.rounds < 1 || b.rounds > ROUNDS_MOST || b.small < 16 || held < b.rows || held < b.small ||
        held < 512) {
        fprintf(stderr,
                "bench_gather: 1 to %d rounds, and batches no larger than the set of %.0f "
                "samples\n",
                ROUNDS_MOST, held);
        return 2;
    }
    ff_cuda_module *module;
    ok(ff_cuda_module_open(&module, ordinal, &failure));
    const ff_cuda_table *table = ff_cuda_module_table(module);
    ok(table->device_create(&b.device, ordinal, &failure));
    b.kernels = table->loader;
    run(&b);
    ff_device_destroy(&b.device);
    return 0;
}
