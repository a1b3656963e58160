/* The loader: its batches for every kind of dataset, which do not depend on threads, slots, shares,
 * the device or where a run was resumed. */
#include "loader/augment/host.h"
#include "loader/host/loader.h"
#include "loader/host/settings.h"
#include "tests/cuda/sim/device.h"
#include "tests/unit/format_set.h"

static void unmake(set_spec *set, ff_dataset *dataset) {
    ff_dataset_close(&dataset);
    set_remove(set);
}

static ff_loader_options options_of(uint64_t batch, const char *augment) {
    ff_loader_options options = ff_loader_defaults();
    options.batch = batch;
    options.seed = 11;
    options.threads = 2;
    assert_ok(ff_augment_parse(&options.augment, augment, error));
    return options;
}

/* Everything in the batches of an epoch or more, as one hash per batch; padding included. */
typedef struct trace {
    uint64_t batches;
    uint64_t hash[200];
    ff_loader_position next[200];
} trace;

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_slot(const ff_slot *slot) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    hash = hash_bytes(hash, slot->data,
                      (size_t)slot->rows * slot->channels * slot->height * slot->width *
                          ff_dtype_bytes(slot->dtype));
    hash = hash_bytes(hash, slot->weight, slot->rows * sizeof(float));
    for (size_t i = 0; i < slot->label_count; i++)
        hash = hash_bytes(hash, slot->label[i].values, slot->rows * 4ul * slot->label[i].width);
    hash = hash_bytes(hash, slot->params, slot->rows * sizeof *slot->params);
    hash = hash_bytes(hash, &slot->count, sizeof slot->count);
    hash = hash_bytes(hash, &slot->position, sizeof slot->position);
    return hash_bytes(hash, &slot->epoch, sizeof slot->epoch);
}

static trace run(ff_dataset *dataset, const ff_loader_options *options, uint64_t limit) {
    trace found = {0};
    ff_loader *loader;
    ff_slot *slot;
    assert_ok(ff_loader_create(&loader, dataset, options, error));
    while (found.batches < limit) {
        assert_ok(ff_loader_acquire(loader, &slot, error));
        if (!slot) break;
        found.next[found.batches] = slot->next;
        found.hash[found.batches++] = hash_slot(slot);
        ff_loader_release(loader, slot, NULL);
    }
    ff_loader_destroy(&loader);
    assert_null(loader);
    return found;
}

static void same(const trace *a, const trace *b) {
    assert_int_equal(a->batches, b->batches);
    for (uint64_t i = 0; i < a->batches; i++) assert_int_equal(a->hash[i], b->hash[i]);
}

/* ---- contents ------------------------------------------------------------------------------- */

/* Every row of an epoch and a half against the plain version, applied to the sample in the set. */
static void check_rows(set_spec *set, const ff_loader_options *options) {
    ff_dataset *dataset = open_new_set(set);
    ff_loader *loader;
    ff_slot *slot;
    ff_augment_host host;
    assert_ok(ff_loader_create(&loader, dataset, options, error));
    ff_loader_info info = ff_loader_describe(loader);
    assert_ok(ff_augment_host_init(&host, ff_dataset_metadata(dataset), &options->augment,
                                   options->dtype, options->layout, info.height, info.width,
                                   error));
    ff_order_spec spec = {.count = set->items,
                          .seed = options->seed,
                          .block = info.block,
                          .group = info.group,
                          .kind = options->order};
    size_t elements = (size_t)info.channels * info.height * info.width;
    uint8_t *tensor = malloc((size_t)set->channels * set->height * set->width * 4);
    uint8_t *wanted = malloc(elements * 4);
    uint64_t position = 0, batches = info.batches_per_epoch * 3 / 2 + 1;
    for (uint64_t i = 0; i < batches; i++) {
        assert_ok(ff_loader_acquire(loader, &slot, error));
        assert_non_null(slot);
        assert_int_equal(slot->epoch, i / info.batches_per_epoch);
        assert_int_equal(slot->batch, i % info.batches_per_epoch);
        assert_int_equal(slot->last, (i + 1) % info.batches_per_epoch == 0);
        if (slot->batch == 0) position = 0;
        assert_int_equal(slot->position, position);
        assert_int_equal((uintptr_t)slot->data % 64, 0);
        ff_order order;
        ff_order_init(&order, &spec, slot->epoch);
        const int32_t *label = slot->label[0].values;
        for (uint32_t row = 0; row < slot->rows; row++, position++) {
            const uint8_t *found =
                (uint8_t *)slot->data + row * elements * ff_dtype_bytes(slot->dtype);
            if (row >= slot->count) {
                assert_true(slot->source[row].padding && slot->weight[row] == 0.0f);
                assert_int_equal(label[row], -1);
                for (uint32_t k = 0; slot->label_count == 3 && k < 5; k++)
                    assert_true(((const float *)slot->label[1].values)[row * 5 + k] == 0);
                for (uint32_t k = 0; slot->label_count == 3 && k < 3; k++)
                    assert_true(((const float *)slot->label[2].values)[row * 3 + k] == 0);
                memset(wanted, 0, elements * 4);
                assert_memory_equal(found, wanted, elements * ff_dtype_bytes(slot->dtype));
                continue;
            }
            uint64_t number = ff_order_at(&order, position);
            if (options->order == FF_ORDER_BLOCK && set->backwards)
                number = set->items - 1 - number;
            assert_int_equal(slot->source[row].sample[0], number);
            assert_true(slot->weight[row] == 1.0f && slot->source[row].weight[0] == 1.0f);
            assert_int_equal(label[row], set_class(set, number));
            set_tensor(set, number, tensor);
            uint32_t height = set_height(set, number), width = set_width(set, number);
            ff_augment_params params =
                ff_augment_at(&options->augment, options->seed, slot->epoch, number, height, width,
                              info.height, info.width);
            assert_memory_equal(&params, &slot->params[row], sizeof params);
            ff_augment_plain(&host, &params, tensor, height, width, wanted);
            assert_memory_equal(found, wanted, elements * ff_dtype_bytes(slot->dtype));
            if (set->labels == LABELS_ALL && slot->label_count == 3) {
                const float *vector = (const float *)slot->label[1].values + row * 5;
                const float *tags = (const float *)slot->label[2].values + row * 3;
                for (int k = 0; k < 5; k++) assert_true(vector[k] == (float)number + (float)k);
                for (int k = 0; k < 3; k++) assert_true(tags[k] == (float)(number >> k & 1));
            }
        }
        ff_loader_release(loader, slot, NULL);
    }
    free(tensor);
    free(wanted);
    ff_augment_host_free(&host);
    ff_loader_destroy(&loader);
    unmake(set, dataset);
}

static void plain_dataset(void **state) {
    (void)state;
    set_spec set = plain_set(500);
    set.shard_bytes = 1 << 20; /* several shards */
    ff_loader_options options = options_of(64, "crop=4,flip,cutout=8");
    check_rows(&set, &options);
    options.dtype = FF_F16, options.last_batch = FF_LAST_BATCH_KEEP;
    check_rows(&set, &options);
    options.dtype = FF_F32, options.layout = FF_HWC, options.height = 28, options.width = 25;
    options.order = FF_ORDER_SEQUENTIAL;
    check_rows(&set, &options);
    options.augment = (ff_augment_spec){0};
    check_rows(&set, &options);
}

static void other_datasets(void **state) {
    (void)state;
    static const char *const labels[] = {"label", "vector", "tags"};
    for (int compressed = 0; compressed < 2; compressed++) {
        for (int kind = 0; kind < 4; kind++) {
            set_spec set = plain_set(150);
            set.zstd = compressed;
            ff_loader_options options = options_of(32, "crop=2,flip=alternate");
            options.last_batch = FF_LAST_BATCH_KEEP;
            if (kind == 0) set.dtype = FF_U8, set.layout = FF_HWC;
            if (kind == 1) {
                set.dtype = FF_F32, set.variable = true, set.labels = LABELS_ALL;
                set.height = 21, set.width = 50;
                options.height = 11, options.width = 25; /* the smallest is 11 x 25 */
                options.label = labels, options.label_count = 3;
            }
            if (kind == 2) set.dtype = FF_U16, set.channels = 1, set.no_statistics = true;
            if (kind == 3) set.backwards = true, options.order = FF_ORDER_BLOCK;
            if (kind == 3) options.block = 7, options.group = 5;
            check_rows(&set, &options);
        }
    }
}

/* ---- sameness ------------------------------------------------------------------------------- */

static void any_threads_and_slots(void **state) {
    (void)state;
    set_spec set = plain_set(1000);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = options_of(96, "crop=4,flip");
    options.threads = 0;
    trace wanted = run(dataset, &options, 35);
    static const int threads[] = {0, 1, 2, 3, 7};
    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        for (uint32_t slots = 1; slots < 7; slots += 2) {
            options.threads = threads[i], options.slots = slots;
            trace found = run(dataset, &options, 35);
            same(&found, &wanted);
        }
    }
    options.seed++;
    trace other = run(dataset, &options, 35);
    assert_int_not_equal(other.hash[0], wanted.hash[0]);
    unmake(&set, dataset);
}

static void resumed(void **state) {
    (void)state;
    set_spec set = plain_set(700);
    ff_dataset *dataset = open_new_set(&set);
    for (int keep = 0; keep < 2; keep++) {
        ff_loader_options options = options_of(64, "crop=4,flip");
        options.epochs = 4;
        options.last_batch = keep ? FF_LAST_BATCH_KEEP : FF_LAST_BATCH_DROP;
        trace whole = run(dataset, &options, 200);
        assert_int_equal(whole.batches, keep ? 44 : 40);
        for (uint64_t after = 0; after < whole.batches; after += 3) {
            ff_loader_options rest = options;
            const ff_loader_position *next = &whole.next[after];
            rest.epoch = next->epoch, rest.position = next->position;
            rest.epochs = 4 - next->epoch;
            if (next->epoch == 4) continue;
            trace found = run(dataset, &rest, 200);
            assert_int_equal(found.batches, whole.batches - after - 1);
            for (uint64_t i = 0; i < found.batches; i++)
                assert_int_equal(found.hash[i], whole.hash[after + 1 + i]);
        }
        /* Saved after the last whole batch: continues with the next epoch. */
        options.position = keep ? 700 : 640, options.epochs = 2;
        trace found = run(dataset, &options, 200);
        assert_int_equal(found.batches, keep ? 11 : 10);
        assert_int_equal(found.hash[0], whole.hash[keep ? 11 : 10]);
        options.epochs = 1;
        assert_int_equal(run(dataset, &options, 200).batches, 0);
    }
    unmake(&set, dataset);
}

/* Shares of a world, put together, are the whole batch: also uneven and empty ones, and each
 * sample counts exactly once in evaluation. */
static void shares(void **state) {
    (void)state;
    set_spec set = plain_set(333);
    ff_dataset *dataset = open_new_set(&set);
    static const uint32_t cuts[][5] = {{0, 1, 2, 3, 3}, {0, 2, 5, 8, 8}, {0, 1, 50, 60, 60}};
    for (size_t w = 0; w < sizeof cuts / sizeof cuts[0]; w++) {
        uint8_t seen[333] = {0};
        ff_loader *whole, *part[3];
        ff_loader_options options = options_of(50, "flip");
        options.last_batch = FF_LAST_BATCH_KEEP, options.epochs = 1;
        assert_ok(ff_loader_create(&whole, dataset, &options, error));
        for (int r = 0; r < 3; r++) {
            options.share_begin = cuts[w][r], options.share_end = cuts[w][r + 1];
            options.share_total = cuts[w][3];
            assert_ok(ff_loader_create(&part[r], dataset, &options, error));
        }
        for (;;) {
            ff_slot *all, *mine;
            assert_ok(ff_loader_acquire(whole, &all, error));
            uint32_t row = 0, count = 0;
            for (int r = 0; r < 3; r++) {
                assert_ok(ff_loader_acquire(part[r], &mine, error));
                assert_true(!all == !mine);
                if (!mine) continue;
                size_t bytes = 3 * 32 * 32 * sizeof(float);
                assert_memory_equal((uint8_t *)all->data + row * bytes, mine->data,
                                    mine->rows * bytes);
                assert_memory_equal(all->weight + row, mine->weight, mine->rows * sizeof(float));
                assert_int_equal(mine->global_count, all->count);
                assert_int_equal(row, 50 * cuts[w][r] / cuts[w][3]);
                for (uint32_t i = 0; i < mine->count; i++) seen[mine->source[i].sample[0]]++;
                row += mine->rows, count += mine->count;
                ff_loader_release(part[r], mine, NULL);
            }
            if (!all) break;
            assert_int_equal(row, 50);
            assert_int_equal(count, all->count);
            ff_loader_release(whole, all, NULL);
        }
        for (int i = 0; i < 333; i++) assert_int_equal(seen[i], 1);
        ff_loader_destroy(&whole);
        for (int r = 0; r < 3; r++) ff_loader_destroy(&part[r]);
    }
    unmake(&set, dataset);
}

/* A share in several batches is, put together, the share; of the last, smaller batch those without
 * samples do not come, except for the first. */
static void cuts(void **state) {
    (void)state;
    static const struct {
        uint64_t batch, position;
        uint32_t cuts, last[2]; /* batches of the last global one */
    } cases[] = {{40, 0, 5, {4, 1}}, {36, 36, 2, {1, 1}}, {60, 120, 3, {3, 1}}, {50, 0, 1, {1, 1}}};
    set_spec set = plain_set(333);
    ff_dataset *dataset = open_new_set(&set);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (uint32_t r = 0; r < 2; r++) {
            ff_loader *whole, *part;
            ff_slot *all, *mine = NULL;
            ff_loader_options options = options_of(cases[c].batch, "flip");
            options.last_batch = FF_LAST_BATCH_KEEP, options.epochs = 2;
            options.position = cases[c].position;
            options.share_begin = r, options.share_end = r + 1, options.share_total = 2;
            assert_ok(ff_loader_create(&whole, dataset, &options, error));
            options.cuts = cases[c].cuts;
            assert_ok(ff_loader_create(&part, dataset, &options, error));
            for (;;) {
                assert_ok(ff_loader_acquire(whole, &all, error));
                if (!all) break;
                const uint32_t come = all->last ? cases[c].last[r] : options.cuts;
                uint32_t row = 0, count = 0;
                for (uint32_t k = 0; k < come; k++) {
                    const size_t bytes = 3 * 32 * 32 * sizeof(float);
                    assert_ok(ff_loader_acquire(part, &mine, error));
                    assert_int_equal(mine->rows, all->rows / options.cuts);
                    assert_int_equal(mine->position, all->position + row);
                    assert_int_equal(mine->global_count, all->global_count);
                    assert_int_equal(mine->last, all->last && k + 1 == come);
                    assert_memory_equal((uint8_t *)all->data + row * bytes, mine->data,
                                        mine->rows * bytes);
                    row += mine->rows, count += mine->count;
                    ff_loader_release(part, mine, NULL);
                }
                assert_int_equal(count, all->count);
                ff_loader_release(whole, all, NULL);
            }
            assert_ok(ff_loader_acquire(part, &mine, error));
            assert_null(mine);
            ff_loader_destroy(&whole);
            ff_loader_destroy(&part);
        }
    ff_loader *none;
    ff_loader_options options = options_of(30, "none");
    options.cuts = 4;
    assert_fails(ff_loader_create(&none, dataset, &options, error), FF_USAGE,
                 "30 samples of a batch cannot be cut into 4 equal parts");
    options = options_of(30, "mixup");
    options.cuts = 10;
    assert_fails(ff_loader_create(&none, dataset, &options, error), FF_USAGE, "parts of pairs");
    unmake(&set, dataset);
}

static void last_batch(void **state) {
    (void)state;
    set_spec set = plain_set(100);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = options_of(30, "none");
    options.epochs = 1;
    assert_int_equal(run(dataset, &options, 200).batches, 3);
    options.last_batch = FF_LAST_BATCH_KEEP;
    assert_int_equal(run(dataset, &options, 200).batches, 4);
    options.last_batch = FF_LAST_BATCH_DROP, options.batch = 128; /* smaller than a batch: kept */
    assert_int_equal(run(dataset, &options, 200).batches, 1);
    options.batch = 25; /* no zero-size batch */
    options.last_batch = FF_LAST_BATCH_KEEP;
    assert_int_equal(run(dataset, &options, 200).batches, 4);
    /* As many as a batch: the rest of a resumed epoch is not a whole batch. */
    options.batch = 100, options.position = 40;
    assert_int_equal(run(dataset, &options, 200).batches, 1);
    options.last_batch = FF_LAST_BATCH_DROP;
    assert_int_equal(run(dataset, &options, 200).batches, 0);
    unmake(&set, dataset);
}

/* ---- plans ---------------------------------------------------------------------------------- */

/* Resolves options without a loader: nothing is allocated, so they may be large. */
static ff_status plan(ff_dataset *dataset, const ff_loader_options *options) {
    ff_loader_settings settings;
    ff_error error = {0};
    ff_status status = ff_loader_settings_init(&settings, dataset, options, &error);
    if (status == FF_OK) ff_loader_settings_free(&settings);
    return status;
}

static void limits(void **state) {
    (void)state;
    set_spec set = plain_set(100);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = options_of(1 << 30, "none");
    assert_int_equal(plan(dataset, &options), FF_OK);
    options.batch++;
    assert_int_equal(plan(dataset, &options), FF_USAGE);
    options.batch = 0;
    assert_int_equal(plan(dataset, &options), FF_USAGE);

    options = options_of(32, "none"), options.position = 100;
    assert_int_equal(plan(dataset, &options), FF_OK);
    options.position++;
    assert_int_equal(plan(dataset, &options), FF_USAGE);

    options = options_of(32, "rrc=8");
    options.height = 1, options.width = FF_SIDE_LIMIT;
    assert_int_equal(plan(dataset, &options), FF_OK);
    options.width++;
    assert_int_equal(plan(dataset, &options), FF_USAGE);
    options.height = FF_SIDE_LIMIT, options.width = 1;
    assert_int_equal(plan(dataset, &options), FF_OK);
    options.height++;
    assert_int_equal(plan(dataset, &options), FF_USAGE);

    options = options_of(32, "none");
    options.slots = 4096, options.threads = 1024;
    assert_int_equal(plan(dataset, &options), FF_OK);
    options.slots++;
    assert_int_equal(plan(dataset, &options), FF_USAGE);
    options.slots = 1, options.threads = 1025;
    assert_int_equal(plan(dataset, &options), FF_USAGE);

    static const struct {
        uint32_t begin, end, total;
        ff_status wanted;
    } parts[] = {{0, 1, 1, FF_OK}, {1, 3, 3, FF_OK},    {2, 2, 3, FF_OK},
                 {3, 3, 3, FF_OK}, {2, 1, 3, FF_USAGE}, {2, 4, 3, FF_USAGE}};
    options = options_of(32, "none");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        options.share_begin = parts[i].begin, options.share_end = parts[i].end;
        options.share_total = parts[i].total;
        assert_int_equal(plan(dataset, &options), parts[i].wanted);
    }
    unmake(&set, dataset);
}

/* The parts of a slot's memory follow one another, each at a multiple of 64, in every slot. */
static void memory_of_a_slot(void **state) {
    (void)state;
    static const char *const labels[] = {"tags", "vector", "label"};
    set_spec set = plain_set(30);
    set.labels = LABELS_ALL;
    set.dtype = FF_U8, set.height = 5, set.width = 7, set.channels = 1;
    ff_dataset *dataset = open_new_set(&set);
    for (uint64_t batch = 1; batch < 30; batch++) {
        for (int mixes = 0; mixes < 2; mixes++) {
            ff_loader_options options = options_of(batch, mixes ? "mixup" : "none");
            options.label = labels, options.label_count = 3;
            ff_loader_settings found;
            assert_ok(ff_loader_settings_init(&found, dataset, &options, error));
            assert_int_equal(found.row_bytes, 5 * 7 * 4);
            const uint64_t sizes[] = {3 * 4 * batch, 5 * 4 * batch, 4 * batch};
            uint64_t end = batch * found.row_bytes;
            for (int i = 0; i < 3; i++) {
                assert_int_equal(found.label_offset[i], ff_align_u64(end, 64));
                end = found.label_offset[i] + sizes[i];
            }
            assert_int_equal(found.weight_offset, ff_align_u64(end, 64));
            end = found.weight_offset + 4 * batch;
            assert_int_equal(found.mix_offset, mixes ? ff_align_u64(end, 64) : 0);
            if (mixes) end = found.mix_offset + 4 * batch;
            assert_int_equal(found.slot_bytes, ff_align_u64(end, 256));
            assert_int_equal(found.label_values_limit, 5 * 4);
            ff_loader_settings_free(&found);
        }
    }
    unmake(&set, dataset);
}

/* By default: four slots, so that threads always have one to fill; two without threads. */
static void default_slots(void **state) {
    (void)state;
    set_spec set = plain_set(30);
    ff_dataset *dataset = open_new_set(&set);
    for (int threads = 0; threads < 3; threads++) {
        ff_loader_options options = options_of(8, "none");
        ff_loader_settings found;
        options.threads = threads;
        assert_ok(ff_loader_settings_init(&found, dataset, &options, error));
        assert_int_equal(found.threads, threads);
        assert_int_equal(found.slots, threads ? 4 : 2);
        ff_loader_settings_free(&found);
    }
    unmake(&set, dataset);
}

/* ---- an asynchronous device ----------------------------------------------------------------- */

typedef struct consumer {
    const ff_slot *slot;
    uint64_t *hash;
} consumer;

static void consume(void *context) {
    consumer *job = context;
    *job->hash = hash_slot(job->slot);
}

/* A consumer that never waits on the host: its work runs in its own stream, after `ready`, and the
 * slot is released with an event. Delays are random; ThreadSanitizer detects a missing wait. */
static void separate_memory(void **state) {
    (void)state;
    set_spec set = plain_set(400);
    ff_dataset *dataset = open_new_set(&set);
    ff_loader_options options = options_of(64, "crop=4,flip");
    options.epochs = 5;
    trace wanted = run(dataset, &options, 200);
    for (int threads = 0; threads < 4; threads++) {
        enum { SLOTS = 3 };
        ff_device *device;
        ff_stream *stream;
        ff_event *consumed[SLOTS];
        ff_loader *loader;
        ff_slot *slot;
        static uint64_t hash[200];
        static consumer jobs[200];
        /* The slot's description is the consumer's only until its release, so copy it. */
        static ff_slot copy[200];
        uint64_t batches = 0;
        assert_ok(ff_device_sim_create(&device, FF_HOST_STREAMS_THREADS, 300000, 5, error));
        assert_ok(device->table->stream_create(device, &stream, error));
        for (int i = 0; i < SLOTS; i++)
            assert_ok(device->table->event_create(device, &consumed[i], false, error));
        options.device = device, options.threads = threads, options.slots = SLOTS;
        assert_ok(ff_loader_create(&loader, dataset, &options, error));
        for (;; batches++) {
            assert_ok(ff_loader_acquire(loader, &slot, error));
            if (!slot) break;
            copy[batches] = *slot;
            static ff_augment_params params[200][64];
            memcpy(params[batches], slot->params, sizeof params[batches]);
            copy[batches].params = params[batches];
            jobs[batches] = (consumer){&copy[batches], &hash[batches]};
            assert_ok(device->table->stream_wait(device, stream, slot->ready, error));
            assert_ok(device->table->call(device, stream, consume, &jobs[batches], error));
            assert_ok(device->table->event_record(device, consumed[slot->index], stream, error));
            ff_loader_release(loader, slot, consumed[slot->index]);
        }
        assert_ok(device->table->stream_synchronize(device, stream, error));
        assert_int_equal(batches, wanted.batches);
        for (uint64_t i = 0; i < batches; i++) assert_int_equal(hash[i], wanted.hash[i]);
        ff_loader_destroy(&loader);
        for (int i = 0; i < SLOTS; i++) device->table->event_destroy(device, consumed[i]);
        device->table->stream_destroy(device, stream);
        ff_device_destroy(&device);
    }
    unmake(&set, dataset);
}

/* A size by epoch: in each the batches of a loader made for that size, also where it begins in the
 * middle. */
static void sizes_by_epoch(void **state) {
    (void)state;
    enum { SIZES = 3, EPOCHS = 6 };
    static const char *const augments[][SIZES] = {
        {"rrc=9,flip", "rrc=9,flip", "rrc=9,flip"},
        {"crop=2,flip,cutout=3", "resize=9,crop=0,flip,cutout=2", "crop=2,flip,cutout=3"},
        {"resize=10,mixup", "resize=12,mixup", "mixup"}};
    static const uint32_t sides[SIZES] = {9, 7, 12};
    static const uint32_t from[SIZES] = {0, 2, 3};
    set_spec set = plain_set(50);
    set.dtype = FF_U8, set.height = set.width = 12;
    ff_dataset *dataset = open_new_set(&set);
    for (int trial = 0; trial < 12; trial++) {
        const char *const *augment = augments[trial % 3];
        ff_loader_options one[SIZES], options;
        ff_loader_size later[SIZES - 1];
        trace wanted = {0};
        const uint32_t epoch = (uint32_t)trial % 4;
        const uint64_t position = trial % 2 ? 16 : 0;
        for (uint32_t i = 0; i < SIZES; i++) {
            const uint32_t end = i + 1 < SIZES ? from[i + 1] : EPOCHS;
            one[i] = options_of(8, augment[i]);
            one[i].last_batch = FF_LAST_BATCH_KEEP;
            one[i].height = sides[i], one[i].width = sides[i] - 1;
            if (i) later[i - 1] = (ff_loader_size){from[i], sides[i], sides[i] - 1, one[i].augment};
            if (end <= epoch) continue;
            one[i].epoch = from[i] > epoch ? from[i] : epoch;
            one[i].epochs = end - one[i].epoch;
            one[i].position = one[i].epoch == epoch ? position : 0;
            const trace part = run(dataset, &one[i], 200);
            for (uint64_t k = 0; k < part.batches; k++)
                wanted.hash[wanted.batches++] = part.hash[k];
        }
        options = one[0];
        options.epoch = epoch, options.epochs = EPOCHS - epoch, options.position = position;
        options.sizes = later, options.size_count = SIZES - 1;
        for (options.threads = 0; options.threads < 4; options.threads++) {
            const trace found = run(dataset, &options, 200);
            same(&wanted, &found);
        }
    }
    ff_loader_size wrong = {0, 9, 9, {.rrc = 9}};
    ff_loader_options options = options_of(8, "rrc=9");
    options.sizes = &wrong, options.size_count = 1;
    assert_int_equal(plan(dataset, &options), FF_USAGE);
    wrong.epoch = 1;
    assert_int_equal(plan(dataset, &options), FF_OK);
    wrong.augment.mixup = 1;
    assert_int_equal(plan(dataset, &options), FF_USAGE);
    wrong = (ff_loader_size){1, 13, 13, {0}};
    assert_int_equal(plan(dataset, &options), FF_USAGE);
    unmake(&set, dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_dataset),
        cmocka_unit_test(other_datasets),
        cmocka_unit_test(any_threads_and_slots),
        cmocka_unit_test(resumed),
        cmocka_unit_test(shares),
        cmocka_unit_test(cuts),
        cmocka_unit_test(last_batch),
        cmocka_unit_test(separate_memory),
        cmocka_unit_test(limits),
        cmocka_unit_test(memory_of_a_slot),
        cmocka_unit_test(default_slots),
        cmocka_unit_test(sizes_by_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
