/* Batches made on a device equal the host loader's bit for bit: every placement, dtype, layout,
 * channel padding and augmentation, several epochs, shares, resumed, recorded or not, on streams in
 * the caller and on asynchronous ones. The kernels are replaced by plain ones. */
#include "loader/gpu/batches.h"

#include "loader/gpu/placement.h"
#include "loader/gpu/resident.h"
#include "tests/cuda/sim/device.h"
#include "tests/cuda/sim/loader_plain.h"
#include "tests/unit/placement_cases.h"

static void choices(void **state) {
    (void)state;
    const uint64_t gib = UINT64_C(1) << 30;
    ff_placement_facts facts = {
        .set_bytes = 10 * gib, .reserve_bytes = 4 * gib, .free_bytes = 16 * gib};
    ff_placement chosen;
    ff_error failure;
    char reason[384];
    assert_ok(
        ff_placement_choose(FF_PLACEMENT_AUTO, &facts, &chosen, reason, sizeof reason, error));
    assert_int_equal(chosen, FF_PLACEMENT_RESIDENT);
    assert_string_equal(reason, "Placement: resident, because the set's 10.00 GiB and 4.00 GiB for "
                                "the network fit into the device's free 16.00 GiB, of which a 16th "
                                "stays unused.");
    facts.set_bytes += gib; /* to the last byte */
    assert_ok(
        ff_placement_choose(FF_PLACEMENT_AUTO, &facts, &chosen, reason, sizeof reason, error));
    assert_int_equal(chosen, FF_PLACEMENT_RESIDENT);
    facts.set_bytes++;
    assert_ok(
        ff_placement_choose(FF_PLACEMENT_AUTO, &facts, &chosen, reason, sizeof reason, error));
    assert_int_equal(chosen, FF_PLACEMENT_STREAM);
    facts.set_bytes = facts.free_bytes; /* as requested, nothing has to stay free */
    assert_ok(
        ff_placement_choose(FF_PLACEMENT_RESIDENT, &facts, &chosen, reason, sizeof reason, error));
    facts.set_bytes++;
    assert_int_equal(ff_placement_choose(FF_PLACEMENT_RESIDENT, &facts, &chosen, reason,
                                         sizeof reason, &failure),
                     FF_USAGE);
    facts.set_bytes = 12 * gib;
    assert_ok(
        ff_placement_choose(FF_PLACEMENT_AUTO, &facts, &chosen, reason, sizeof reason, error));
    assert_int_equal(chosen, FF_PLACEMENT_STREAM);
    assert_non_null(strstr(reason, "do not fit"));
    facts.set_bytes = UINT64_MAX;
    assert_ok(
        ff_placement_choose(FF_PLACEMENT_AUTO, &facts, &chosen, reason, sizeof reason, error));
    assert_int_equal(chosen, FF_PLACEMENT_STREAM);
    assert_int_equal(ff_placement_choose(FF_PLACEMENT_RESIDENT, &facts, &chosen, reason,
                                         sizeof reason, &failure),
                     FF_USAGE);
    assert_non_null(strstr(failure.message, "use placement stream"));
    facts.unable = "samples are u16";
    assert_ok(
        ff_placement_choose(FF_PLACEMENT_AUTO, &facts, &chosen, reason, sizeof reason, error));
    assert_int_equal(chosen, FF_PLACEMENT_HOST);
    assert_non_null(strstr(reason, "samples are u16"));
    assert_int_equal(
        ff_placement_choose(FF_PLACEMENT_STREAM, &facts, &chosen, reason, sizeof reason, &failure),
        FF_USAGE);
    assert_non_null(strstr(failure.message, "use placement host"));
    for (int i = 0; i < FF_PLACEMENT_COUNT; i++) {
        ff_placement parsed = FF_PLACEMENT_COUNT;
        assert_true(ff_placement_parse(ff_placement_name((ff_placement)i), &parsed));
        assert_int_equal(parsed, i);
    }
    assert_false(ff_placement_parse("card", &chosen));
}

static void refused(void **state) {
    (void)state;
    placement_case c = placement_defaults(60);
    c.set.variable = true;
    ff_dataset *dataset = open_new_set(&c.set);
    ff_device *device;
    ff_batches *batches = (ff_batches *)&c;
    ff_error failure = {0};
    assert_ok(ff_device_sim_create(&device, FF_HOST_STREAMS_CALLER, 0, 0, error));
    ff_batches_options options = {.loader = c.options, .kernels = &ff_loader_plain_kernels};
    options.loader.height = options.loader.width = 12;
    assert_int_equal(ff_batches_create(&batches, dataset, &options, &failure), FF_USAGE);
    assert_null(batches);
    options.loader.device = device;
    options.placement = FF_PLACEMENT_RESIDENT;
    assert_int_equal(ff_batches_create(&batches, dataset, &options, &failure), FF_USAGE);
    assert_non_null(strstr(failure.message, "different sizes"));
    options.placement = FF_PLACEMENT_AUTO, options.channels = 2;
    assert_int_equal(ff_batches_create(&batches, dataset, &options, &failure), FF_USAGE);
    assert_non_null(strstr(failure.message, "more than the 2"));
    options.channels = 8, options.loader.dtype = FF_U8;
    assert_int_equal(ff_batches_create(&batches, dataset, &options, &failure), FF_USAGE);
    options.loader.dtype = FF_F16;
    const char *labels[FF_CUDA_COLUMNS + 1];
    for (int i = 0; i < FF_CUDA_COLUMNS + 1; i++) labels[i] = "label";
    options.loader.label = labels, options.loader.label_count = FF_CUDA_COLUMNS + 1;
    assert_int_equal(ff_batches_create(&batches, dataset, &options, &failure), FF_USAGE);
    assert_non_null(strstr(failure.message, "label fields"));
    options.loader.label_count = 0;
    assert_ok(ff_batches_create(&batches, dataset, &options, error));
    assert_int_equal(ff_batches_describe(batches).placement, FF_PLACEMENT_HOST);
    ff_batches_destroy(&batches);
    ff_batches_destroy(&batches);
    ff_device_destroy(&device);
    ff_dataset_close(&dataset);
    set_remove(&c.set);
}

static uint64_t free_bytes;
static ff_status little_memory(ff_device *device, uint64_t *of, uint64_t *total, ff_error *error) {
    (void)device, (void)error;
    *of = *total = free_bytes;
    return FF_OK;
}
static int no_kernel(const ff_cuda_augment *job, ff_cuda_stream stream) {
    (void)job, (void)stream;
    return FF_CUDA_INVALID_VALUE;
}

/* Resident sets of samples of different sizes also take an offset and a size per sample. */
static void bytes_of_sizes(void **state) {
    (void)state;
    set_spec set = plain_set(5000);
    set.variable = true, set.height = set.width = 8;
    ff_dataset *dataset = open_new_set(&set);
    ff_device *device;
    ff_batches *batches;
    ff_error failure = {0};
    assert_ok(ff_device_sim_create(&device, FF_HOST_STREAMS_CALLER, 0, 0, error));
    ff_device_table table = *device->table;
    table.memory = little_memory;
    device->table = &table;
    ff_loader_kernels kernels = ff_loader_plain_kernels;
    kernels.augment = no_kernel;
    ff_batches_options options = {
        .loader = ff_loader_defaults(), .kernels = &kernels, .placement = FF_PLACEMENT_RESIDENT};
    options.loader.device = device;
    assert_ok(ff_augment_parse(&options.loader.augment, "rrc=8", error));
    uint64_t samples;
    assert_ok(ff_resident_bytes(dataset, NULL, &samples, error));
    /* Per sample: its row, offset, height, width and label. */
    free_bytes = samples + set.items * (4 + 8 + 4 + 4 + 4) + FF_RESIDENT_EXTRA;
    assert_ok(ff_batches_create(&batches, dataset, &options, error));
    ff_batches_destroy(&batches);
    free_bytes--;
    assert_int_equal(ff_batches_create(&batches, dataset, &options, &failure), FF_USAGE);
    assert_non_null(strstr(failure.message, "use placement stream"));
    ff_device_destroy(&device);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

static void placements(void **state) {
    (void)state;
    placement_cases(&ff_loader_plain_kernels, 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices),
        cmocka_unit_test(refused),
        cmocka_unit_test(bytes_of_sizes),
        cmocka_unit_test(placements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
