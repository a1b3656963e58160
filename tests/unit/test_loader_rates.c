/* Rates of each stage: every stage that exists is measured, for every kind of set and placement,
 * and measuring does not change the batches. */
#include "loader/rates/rates.h"

#include "format/base/thread.h"

#include "tests/cuda/sim/loader_plain.h"
#include "tests/unit/placement_cases.h"

#include <time.h>

static void expect(const ff_rates *rates, const char *stages) {
    for (int stage = 0; stage < FF_STAGE_COUNT; stage++) {
        bool wanted = strstr(stages, ff_stage_name((ff_stage)stage)) != NULL;
        double rate = rates->rate[stage];
        if (wanted != (rate > 0) || !(rate < 1e12))
            fail_msg("%s: %g samples/s", ff_stage_name((ff_stage)stage), rate);
    }
}

static void of_loaders(void **state) {
    (void)state;
    /* From 4 on of sets that are read: raw in each order, and compressed. */
    for (int kind = 0; kind < 8; kind++) {
        set_spec set = plain_set(150);
        ff_rates rates;
        if (kind == 1 || kind == 7) set.zstd = true;
        if (kind == 2) set.variable = true;
        ff_dataset *dataset = open_new_set(&set);
        ff_loader_options options = ff_loader_defaults();
        if (kind >= 4) options.access = FF_ACCESS_READ;
        if (kind >= 4 && kind < 7) options.order = (ff_order_kind)(kind - 4);
        assert_ok(ff_augment_parse(&options.augment, kind == 2 ? "rrc=10,mixup=0.5" : "crop=2,flip",
                                   error));
        options.threads = kind == 3 ? 0 : 2;
        if (kind == 3) options.order = FF_ORDER_BLOCK;
        assert_ok(ff_rates_of_loader(dataset, &options, 2000000, &rates, error));
        expect(&rates, "storage gather augment");
        assert_int_equal(rates.threads, kind == 3 ? 1 : 2);
        ff_dataset_close(&dataset);
        set_remove(&set);
    }
}

/* Rates of the disk: of sets that are read ahead, for each order. */
static void of_orders(void **state) {
    (void)state;
    set_spec set = plain_set(150);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = ff_loader_defaults();
    ff_disk_rate rate[FF_ORDER_KIND_COUNT];
    options.threads = 2;
    /* It was written just now, so it is in memory. */
    assert_ok(ff_rates_of_disk(dataset, &options, 1000000, rate, error));
    for (int kind = 0; kind < FF_ORDER_KIND_COUNT; kind++) assert_true(rate[kind].samples == 0);
    options.access = FF_ACCESS_READ;
    for (int given = 0; given < FF_ORDER_KIND_COUNT; given++) {
        options.order = (ff_order_kind)given;
        options.block = options.group = ff_order_has_blocks((ff_order_kind)given) ? 3 : 0;
        const uint64_t began = ff_now_ns();
        assert_ok(ff_rates_of_disk(dataset, &options, UINT64_MAX, rate, error));
        const double seconds = (double)(ff_now_ns() - began) * 1e-9;
        /* Each ends with its epoch: 150 rows, and the padding of the batch. */
        for (int kind = 0; kind < FF_ORDER_KIND_COUNT; kind++)
            if (kind != FF_ORDER_NODE_BLOCK || kind == given) /* which reads as order block does */
                assert_true(rate[kind].samples * seconds >= 149);
        /* Of neighbours whole blocks are read, at random those of each sample. */
        assert_true(rate[FF_ORDER_SEQUENTIAL].read >= 1 && rate[FF_ORDER_SEQUENTIAL].read < 1.3);
        assert_true(rate[FF_ORDER_RANDOM].read >= 1);
    }
    ff_dataset_close(&dataset);
    set_remove(&set);
}

static void of_batches(void **state) {
    (void)state;
    static const char *const stages[] = {"augment", "storage gather copy augment",
                                         "storage copy augment"};
    set_spec set = plain_set(150);
    ff_device *device;
    ff_stream *stream;
    ff_dataset *dataset = open_new_set(&set);
    assert_ok(ff_device_sim_create(&device, FF_HOST_STREAMS_THREADS, 20000, 3, error));
    assert_ok(device->table->stream_create(device, &stream, error));
    for (int i = 0; i < 3; i++) {
        ff_batches *batches;
        ff_rates rates;
        const ff_batch_info *batch;
        ff_error failure;
        ff_batches_options options = {.loader = ff_loader_defaults(),
                                      .kernels = &ff_loader_plain_kernels,
                                      .placement = (ff_placement)(FF_PLACEMENT_RESIDENT + i),
                                      .quiet = true};
        options.loader.device = device, options.loader.batch = 32;
        assert_ok(ff_batches_create(&batches, dataset, &options, error));
        assert_ok(ff_batches_rates(batches, dataset, &options, 2000000, &rates, error));
        expect(&rates, stages[i]);
        assert_ok(ff_batches_prepare(batches, stream, &batch, error));
        assert_int_equal(batch->position, 0);
        assert_ok(ff_batches_enqueue(batches, stream, error));
        assert_ok(device->table->stream_synchronize(device, stream, error));
        ff_order order;
        ff_order_spec spec = {.count = set.items, .kind = FF_ORDER_RANDOM};
        ff_order_init(&order, &spec, 0);
        const int32_t *label = ff_batches_buffers(batches)->label[0].values;
        for (uint32_t row = 0; row < 32; row++)
            assert_int_equal(label[row], set_class(&set, ff_order_at(&order, row)));
        assert_ok(ff_batches_finish(batches, stream, error));
        assert_int_equal(ff_batches_rates(batches, dataset, &options, 1000, &rates, &failure),
                         FF_USAGE);
        ff_batches_destroy(&batches);
    }
    device->table->stream_destroy(device, stream);
    ff_device_destroy(&device);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

/* The device takes 2 ms for a step, and half a second for the first one. */
typedef struct slow_steps {
    ff_device *device;
    int calls;
} slow_steps;
static void take_2_ms(void *context) {
    (void)context;
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}
static void take_half_a_second(void *context) {
    (void)context;
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
}
static ff_status slow_step(void *context, ff_stream *stream, ff_error *error) {
    slow_steps *s = context;
    return s->device->table->call(s->device, stream, s->calls++ ? take_2_ms : take_half_a_second,
                                  NULL, error);
}

/* The rate is the device's, not that of enqueueing, and the first step does not count. */
static void of_steps(void **state) {
    (void)state;
    slow_steps steps = {0};
    ff_stream *stream;
    double rate;
    assert_ok(ff_device_host_create(&steps.device, FF_HOST_STREAMS_THREADS, error));
    assert_ok(steps.device->table->stream_create(steps.device, &stream, error));
    assert_ok(ff_rates_of_steps(steps.device, stream, 40000000, slow_step, &steps, &rate, error));
    if (!(rate > 4 && rate <= 500)) fail_msg("%g steps/s", rate);
    steps.device->table->stream_destroy(steps.device, stream);
    ff_device_destroy(&steps.device);
}

static void tuned(void **state) {
    (void)state;
    /* Threads keep up with the copies, with a quarter to spare; at least one, at most the CPUs. */
    assert_int_equal(ff_tune(1000, 4000, 256, 16).threads, 5);
    assert_int_equal(ff_tune(1000, 100, 256, 16).threads, 1);
    assert_int_equal(ff_tune(1000, 1e6, 256, 16).threads, 16);
    /* Copies that take 4 ms: 40,000 samples/s are 160 in that time. */
    assert_int_equal(ff_tune(1000, 40000, 256, 16).slots, 4);
    assert_int_equal(ff_tune(1000, 40000, 32, 16).slots, 8);
    assert_int_equal(ff_tune(1000, 40000, 1, 16).slots, 16);

    set_spec set = plain_set(150);
    ff_device *device;
    ff_dataset *dataset = open_new_set(&set);
    assert_ok(ff_device_sim_create(&device, FF_HOST_STREAMS_THREADS, 0, 3, error));
    for (int placement = FF_PLACEMENT_STREAM; placement <= FF_PLACEMENT_HOST; placement++) {
        ff_batches *batches;
        ff_batches_options options = {.loader = ff_loader_defaults(),
                                      .kernels = &ff_loader_plain_kernels,
                                      .placement = (ff_placement)placement};
        options.loader.device = device, options.loader.batch = 32;
        assert_ok(ff_batches_create(&batches, dataset, &options, error));
        ff_batches_info info = ff_batches_describe(batches);
        assert_true(info.loader.slots >= 4 && info.loader.slots <= 16);
        assert_true(info.loader.threads >= 1 && info.loader.threads <= ff_cpu_count());
        assert_non_null(strstr(info.reason, " samples/s, and "));
        ff_batches_destroy(&batches);
    }
    ff_device_destroy(&device);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_loaders), cmocka_unit_test(of_orders), cmocka_unit_test(of_batches),
        cmocka_unit_test(of_steps),   cmocka_unit_test(tuned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
