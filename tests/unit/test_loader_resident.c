/* A set uploaded to a device: every sample and label as stored, whatever the order of storage, the
 * compression, the sizes and the number of threads; and slots of samples as stored, reused in
 * turn. */
#include "loader/gpu/resident.h"

#include "tests/cuda/sim/device.h"
#include "tests/unit/format_set.h"

static ff_loader_options options_of(ff_device *device, int threads) {
    ff_loader_options options = ff_loader_defaults();
    options.device = device;
    options.threads = threads;
    return options;
}

static const char *const labels[] = {"label", "vector", "tags"};

static void check_rows(const set_spec *set, const ff_resident *resident) {
    uint8_t *tensor = malloc((size_t)set->channels * set->height * set->width * 4);
    assert_int_equal(resident->count, set->items);
    assert_int_equal(resident->row_bytes % FF_RESIDENT_ALIGN, 0);
    assert_int_equal(!resident->offset, !set->variable);
    assert_int_equal(resident->label_count, 3);
    if (set->backwards) assert_non_null(resident->row_of);
    if (!set->backwards) assert_null(resident->row_of);
    for (uint64_t number = 0; number < set->items; number++) {
        uint64_t row = resident->row_of ? resident->row_of[number] : number;
        if (set->backwards) assert_int_equal(row, set->items - 1 - number);
        size_t bytes = set_tensor(set, number, tensor);
        uint64_t offset = resident->offset ? resident->offset[row] : row * resident->row_bytes;
        assert_int_equal(offset % FF_RESIDENT_ALIGN, 0);
        assert_memory_equal(resident->samples + offset, tensor, bytes);
        assert_int_equal(((int32_t *)resident->label[0])[row], set_class(set, number));
        const float *vector = (float *)resident->label[1] + row * 5;
        const float *tags = (float *)resident->label[2] + row * 3;
        for (int i = 0; i < 5; i++) assert_true(vector[i] == (float)number + (float)i);
        for (int i = 0; i < 3; i++) assert_true(tags[i] == (float)(number >> i & 1));
    }
    free(tensor);
}

static void uploaded(void **state) {
    (void)state;
    for (int kind = 0; kind < 16; kind++) {
        set_spec set = plain_set(701);
        set.labels = LABELS_ALL;
        set.backwards = kind & 1;
        set.zstd = kind & 2;
        set.shard_bytes = 1 << 20;
        set.variable = kind & 8;
        if (kind & 4)
            set.dtype = FF_U8, set.height = 13, set.width = 7; /* 273 bytes */
        else
            set.height = set.width = 100; /* several chunks */
        if (!(kind & 4)) set.items = 301;
        assert_ok(set_make(&set, error));
        for (int threads = 0; threads < 4; threads += 3) {
            ff_device *device;
            ff_resident resident;
            ff_dataset *dataset = open_set(&set);
            assert_ok(ff_device_sim_create(
                &device, threads ? FF_HOST_STREAMS_THREADS : FF_HOST_STREAMS_CALLER, 300000,
                (uint64_t)kind, error));
            ff_loader_options options = options_of(device, threads);
            options.label = labels, options.label_count = 3;
            assert_ok(ff_resident_upload(&resident, dataset, &options, true, error));
            check_rows(&set, &resident);
            ff_resident_release(&resident);
            ff_resident_release(&resident);
            ff_device_destroy(&device);
            ff_dataset_close(&dataset);
        }
        set_remove(&set);
    }
}

/* Slots in turn hold rows as stored, each at its offset in one block of memory. */
static void raw_slots(void **state) {
    (void)state;
    set_spec set = plain_set(100);
    set.dtype = FF_U8, set.layout = FF_HWC, set.height = 5, set.width = 9; /* 135 bytes */
    ff_dataset *dataset = open_new_set(&set);
    uint8_t tensor[135];
    for (int threads = 0; threads < 4; threads++) {
        ff_loader *loader;
        ff_slot *slot, *first = NULL;
        ff_loader_options options = options_of(NULL, threads);
        assert_ok(ff_augment_parse(&options.augment, "crop=1,flip", error));
        options.batch = 16, options.slots = 3, options.last_batch = FF_LAST_BATCH_KEEP;
        options.height = options.width = 4;
        options.feed = (ff_loader_feed){.raw = true, .cyclic = true, .row_align = 64};
        assert_ok(ff_loader_create(&loader, dataset, &options, error));
        ff_loader_info info = ff_loader_describe(loader);
        assert_int_equal(info.row_bytes, 192);
        assert_int_equal(info.height * 100 + info.width, 509);
        for (uint32_t batch = 0; batch < 20; batch++) {
            assert_ok(ff_loader_acquire(loader, &slot, error));
            if (!first) first = slot;
            assert_int_equal(slot->index, batch % 3);
            assert_ptr_equal(slot->data, (uint8_t *)first->data + slot->index * info.slot_bytes);
            assert_int_equal(slot->dtype, FF_U8);
            assert_null(slot->params);
            for (uint32_t row = 0; row < slot->count; row++) {
                uint64_t number = slot->source[row].sample[0];
                assert_int_equal(set_tensor(&set, number, tensor), 135);
                assert_memory_equal((uint8_t *)slot->data + row * slot->row_bytes, tensor, 135);
                assert_int_equal(((int32_t *)slot->label[0].values)[row], set_class(&set, number));
            }
            for (uint32_t row = 0; row < slot->rows; row++)
                assert_true(slot->weight[row] == (row < slot->count ? 1.0f : 0.0f));
            ff_loader_release(loader, slot, NULL);
        }
        ff_loader_destroy(&loader);
    }
    ff_dataset_close(&dataset);
    set_remove(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uploaded),
        cmocka_unit_test(raw_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
