/* The public loader: its batches are those of ff_loader with the same options, for all kinds of
 * them, and stay as they are for as long as they are kept. */
#include "tests/unit/library_case.h"

#include <pthread.h>

/* ---- the batches of ff_loader --------------------------------------------------------------- */

/* The same options for both; what is 0 here is as in ff_loader_defaults, but one epoch. */
typedef struct options_case {
    const char *words; /* the library's */
    const char *augment;
    uint64_t batch, seed, position, block, group;
    uint32_t epoch, epochs, height, width, rank, world, cuts;
    ff_dtype dtype; /* u8: f32 */
    ff_layout layout;
    ff_order_kind order;
    ff_last_batch last;
    const char *const *label; /* two */
} options_case;

static ff_loader_options options_of(const options_case *from) {
    ff_loader_options options = ff_loader_defaults();
    if (from->augment) assert_ok(ff_augment_parse(&options.augment, from->augment, error));
    if (from->batch) options.batch = from->batch;
    options.seed = from->seed, options.position = from->position, options.epoch = from->epoch;
    options.epochs = from->epochs ? from->epochs : 1;
    options.block = from->block, options.group = from->group, options.order = from->order;
    options.height = from->height, options.width = from->width, options.layout = from->layout;
    if (from->dtype) options.dtype = from->dtype;
    options.last_batch = from->last, options.cuts = from->cuts;
    if (from->world) options.share_total = from->world, options.share_end = from->rank + 1;
    options.share_begin = from->rank;
    options.label = from->label, options.label_count = from->label ? 2 : 0;
    options.threads = 2;
    return options;
}

static void check_part(const ffload_batch *batch, const char *name, const void *wanted,
                       uint32_t rows, size_t row_bytes) {
    const DLTensor *tensor = tensor_of(batch, name);
    assert_int_equal(tensor->shape[0], rows);
    assert_int_equal(bytes_of(tensor), rows * row_bytes);
    assert_memory_equal(tensor->data, wanted, rows * row_bytes);
}

static void check_images(const ffload_batch *batch, const ff_slot *slot, uint32_t rows) {
    const DLTensor *images = tensor_of(batch, "images");
    const int64_t shape[] = {rows, slot->channels, slot->height, slot->width};
    const int64_t area = shape[2] * shape[3], whole = area * shape[1];
    const int64_t chw[] = {whole, area, shape[3], 1};
    const int64_t hwc[] = {whole, 1, shape[3] * shape[1], shape[1]};
    assert_memory_equal(images->shape, shape, sizeof shape);
    assert_memory_equal(images->strides, slot->layout == FF_CHW ? chw : hwc, sizeof chw);
    assert_int_equal(images->dtype.code, slot->dtype == FF_BF16 ? kDLBfloat : kDLFloat);
    assert_int_equal((uintptr_t)images->data % 64, 0);
    check_part(batch, "images", slot->data, rows, slot->row_bytes);
}

/* Labels, and those of the neighbours where rows are mixed. wide: the batch has classes as i64. */
static void check_label(const ffload_batch *batch, const ff_slot *slot, size_t i,
                        const ff_metadata *metadata, uint32_t rows, bool wide) {
    const ff_slot_label *label = &slot->label[i];
    const bool is_class = label->dtype == FF_I32;
    const size_t bytes = is_class && wide ? 8 : 4 * (size_t)label->width;
    const void *values = label->values;
    const char *field = metadata->field[label->field].name;
    int64_t widened[256];
    char name[64];
    if (is_class && wide) values = widened;
    for (uint32_t row = 0; is_class && wide && row < rows; row++)
        widened[row] = ((const int32_t *)label->values)[row];
    snprintf(name, sizeof name, "labels/%s", field);
    check_part(batch, name, values, rows, bytes);
    assert_int_equal(tensor_of(batch, name)->dtype.code, is_class ? kDLInt : kDLFloat);
    if (i == 0) check_part(batch, "labels", values, rows, bytes);
    if (!slot->mix) return;
    snprintf(name, sizeof name, "labels_b/%s", field);
    const uint8_t *other = tensor_of(batch, i ? name : "labels_b")->data;
    for (uint32_t row = 0; row < rows; row++) {
        const uint32_t from = (row ^ 1) < slot->count && row < slot->count ? row ^ 1 : row;
        assert_memory_equal(other + row * bytes, (const uint8_t *)values + from * bytes, bytes);
    }
}

static void check_batch(const ffload_batch *batch, const ff_slot *slot, const ff_metadata *metadata,
                        bool pads, bool wide) {
    const ffload_batch_info *info = ffload_batch_info_of(batch);
    const uint32_t rows = pads ? slot->rows : slot->count;
    const DLTensor *none;
    assert_true(info->rows == slot->rows && info->count == slot->count);
    assert_true(info->epoch == slot->epoch && info->last == slot->last);
    assert_true(info->index == slot->batch && info->position == slot->position);
    assert_int_equal(info->global_count, slot->global_count);
    check_images(batch, slot, rows);
    check_part(batch, "weight", slot->weight, rows, sizeof(float));
    for (size_t i = 0; i < slot->label_count; i++)
        check_label(batch, slot, i, metadata, rows, wide);
    if (slot->mix) check_part(batch, "mix", slot->mix, rows, sizeof(float));
    const int64_t *samples = tensor_of(batch, "samples")->data;
    for (uint32_t row = 0; row < rows; row++)
        assert_int_equal(samples[row],
                         row < slot->count ? (int64_t)slot->source[row].sample[0] : -1);
    if (!slot->mix)
        assert_refused(ffload_batch_tensor(batch, "mix", &none, error), FFLOAD_USAGE,
                       "a batch has no tensor 'mix'; it has images, ");
}

static void check_case(ff_dataset *plain, ffload_dataset *dataset, const options_case *one) {
    const ff_loader_options options = options_of(one);
    ff_loader *wanted;
    ff_slot *slot;
    assert_ok(ff_loader_create(&wanted, plain, &options, error));
    ffload_loader *loader = load(dataset, one->words);
    assert_int_equal(ffload_loader_length(loader), ff_loader_describe(wanted).batches_per_epoch);
    for (;;) {
        ffload_batch *batch = next(loader);
        assert_ok(ff_loader_acquire(wanted, &slot, error));
        assert_int_equal(batch != NULL, slot != NULL);
        if (!batch) break;
        check_batch(batch, slot, ff_dataset_metadata(plain), strstr(one->words, "pad") != NULL,
                    strstr(one->words, "i64") != NULL);
        ff_loader_release(wanted, slot, NULL);
        ffload_batch_release(&batch);
    }
    assert_null(next(loader)); /* and nothing comes after the end */
    ffload_loader_destroy(&loader);
    ff_loader_destroy(&wanted);
}

static void same_batches(void **state) {
    (void)state;
    static const char *const two_labels[] = {"vector", "label"};
    const options_case cases[] = {
        {"batch_size 32", .batch = 32},
        {.words = ""},
        {"batch_size 30 augment crop=4,flip,cutout=8 seed 7 epochs 2 workers 0",
         "crop=4,flip,cutout=8", .batch = 30, .seed = 7, .epochs = 2},
        {"batch_size 64 augment crop,flip", "crop=4,flip", .batch = 64},
        {"batch_size 64 augment crop,flip size 24x24", "crop,flip", .batch = 64, .height = 24,
         .width = 24},
        {"batch_size 32 dtype bf16 layout channels_last augment rrc=24,flip epoch 3 position 64",
         "rrc=24,flip", .batch = 32, .dtype = FF_BF16, .layout = FF_HWC, .epoch = 3,
         .position = 64},
        {"batch_size 33 dtype f16 order sequential last_batch keep size 16x20", .batch = 33,
         .dtype = FF_F16, .order = FF_ORDER_SEQUENTIAL, .height = 16, .width = 20,
         .last = FF_LAST_BATCH_KEEP},
        {"batch_size 33 last_batch pad augment mixup,cutmix label vector,label", "mixup,cutmix",
         .batch = 33, .last = FF_LAST_BATCH_KEEP, .label = two_labels},
        {"batch_size 33 last_batch pad augment mixup label vector,label label_dtype i64", "mixup",
         .batch = 33, .last = FF_LAST_BATCH_KEEP, .label = two_labels},
        {"batch_size 36 last_batch keep augment mixup=0.4 rank 1 world 3", "mixup=0.4", .batch = 36,
         .last = FF_LAST_BATCH_KEEP, .rank = 1, .world = 3},
        {"batch_size 32 order block block 16 group 3 workers 3 prefetch 5", .batch = 32,
         .order = FF_ORDER_BLOCK, .block = 16, .group = 3},
        {"batch_size 60 cuts 3 world 2 last_batch keep", .batch = 60, .cuts = 3, .world = 2,
         .last = FF_LAST_BATCH_KEEP},
    };
    set_spec set = plain_set(250);
    set.labels = LABELS_ALL;
    set.shuffled = true;
    ff_dataset *plain = open_new_set(&set);
    ffload_dataset *dataset = open_library(set.folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(plain, dataset, &cases[i]);
    ffload_dataset_close(&dataset);
    ff_dataset_close(&plain);
    set_remove(&set);
}

/* Values as stored, of a set without labels: the only tensors are then those of every batch. */
static void same_raw_batches(void **state) {
    (void)state;
    set_spec set = plain_set(96);
    const DLTensor *none;
    set.dtype = FF_U8;
    set.labels = LABELS_NONE;
    assert_ok(set_make(&set, error));
    ffload_dataset *dataset = open_library(set.folder);
    ffload_loader *loader = load(dataset, "batch_size 32 dtype u8 order sequential");
    for (uint64_t number = 0; number < 96;) {
        ffload_batch *batch = next(loader);
        const DLTensor *images = tensor_of(batch, "images");
        assert_int_equal(images->dtype.code, kDLUInt);
        for (size_t row = 0; row < 32; row++, number++) {
            static uint8_t wanted[3 * 32 * 32];
            set_tensor(&set, number, wanted);
            assert_memory_equal((uint8_t *)images->data + row * sizeof wanted, wanted,
                                sizeof wanted);
        }
        assert_refused(ffload_batch_tensor(batch, "labels", &none, error), FFLOAD_USAGE,
                       "it has images, weight, samples");
        ffload_batch_release(&batch);
    }
    ffload_loader_destroy(&loader);
    ffload_dataset_close(&dataset);
    set_remove(&set);
}

/* ---- views ---------------------------------------------------------------------------------- */

static ffload_loader *load_views(ffload_dataset *dataset, const char *words, const char *views) {
    ffload_options *options = options_from(words);
    ffload_loader *loader;
    assert_did(ffload_options_set(options, "views", views, error));
    assert_did(ffload_loader_create(&loader, dataset, options, error));
    ffload_options_destroy(&options);
    return loader;
}

static void check_view(const ffload_batch *batch, const char *name, int64_t rows, int64_t height,
                       int64_t width) {
    const DLTensor *tensor = tensor_of(batch, name);
    const int64_t shape[] = {rows, 3, height, width};
    assert_memory_equal(tensor->shape, shape, sizeof shape);
    assert_int_equal((uintptr_t)tensor->data % 64, 0);
}

static bool same_images(const ffload_batch *batch, const char *name, const ffload_batch *other,
                        const char *others) {
    const DLTensor *a = tensor_of(batch, name), *b = tensor_of(other, others);
    return bytes_of(a) == bytes_of(b) && memcmp(a->data, b->data, bytes_of(a)) == 0;
}

/* Each view has a tensor, whose images are those of loaders with other options. */
static void views(void **state) {
    (void)state;
    const char *const words = "batch_size 16 seed 3 workers 2 last_batch keep";
    set_spec set = plain_set(70);
    const DLTensor *none;
    assert_ok(set_make(&set, error));
    ffload_dataset *dataset = open_library(set.folder);
    ffload_loader *one = load(dataset, "batch_size 16 seed 3 augment rrc=24,flip last_batch keep");
    ffload_loader *groups =
        load_views(dataset, words, "big 2 rrc=24,flip; small 2 crop 20x18 ;plain 1 none");
    ffload_options *options = options_from("batch_size 16 seed 3 augment crop size 20x18");
    ffload_loader *four;
    assert_did(ffload_options_set(options, "views", "4", error));
    assert_did(ffload_options_set(options, "last_batch", "keep", error));
    assert_did(ffload_loader_create(&four, dataset, options, error));
    for (uint32_t left = 70; left; left -= left < 16 ? left : 16) {
        ffload_batch *batch = next(groups), *plain = next(one), *number = next(four);
        const uint32_t rows = left < 16 ? left : 16;
        check_view(batch, "images/big/0", rows, 24, 24);
        check_view(batch, "images/small/1", rows, 20, 18);
        check_view(batch, "images/plain/0", rows, 32, 32);
        assert_true(same_images(batch, "images", batch, "images/big/0"));
        assert_true(same_images(batch, "images", plain, "images"));
        assert_false(same_images(batch, "images/big/0", batch, "images/big/1"));
        assert_true(same_images(batch, "images/small/0", number, "images/2"));
        assert_true(same_images(batch, "images/small/1", number, "images/3"));
        assert_false(same_images(number, "images/2", number, "images/3"));
        assert_refused(ffload_batch_tensor(number, "images/4", &none, error), FFLOAD_USAGE,
                       "it has images, images/0, images/1, images/2, images/3, labels, ");
        ffload_batch_release(&batch);
        ffload_batch_release(&plain);
        ffload_batch_release(&number);
    }
    assert_null(next(groups));
    assert_refused(ffload_options_set(options, "views", "a 2", error), FFLOAD_USAGE, "not a group");
    assert_refused(ffload_options_set(options, "views", "a 1 none;a 1 none", error), FFLOAD_USAGE,
                   "two groups 'a'");
    assert_refused(ffload_options_set(options, "views", "a 1 none;", error), FFLOAD_USAGE,
                   "not a group");
    assert_refused(ffload_options_set(options, "views", "a 1 none 8", error), FFLOAD_USAGE,
                   "HEIGHTxWIDTH");
    assert_refused(ffload_options_set(options, "views", "a/b 1 none", error), FFLOAD_USAGE,
                   "not a group");
    ffload_options_destroy(&options);
    ffload_loader_destroy(&one);
    ffload_loader_destroy(&groups);
    ffload_loader_destroy(&four);
    ffload_dataset_close(&dataset);
    set_remove(&set);
}

/* ---- keeping -------------------------------------------------------------------------------- */

static void *release_later(void *context) {
    DLManagedTensorVersioned *tensor = context;
    tensor->deleter(tensor);
    return NULL;
}

/* Batches and tensors outlive everything, and end in any order, by any thread. */
static void all_kept(void **state) {
    (void)state;
    set_spec set;
    uint64_t hash[EPOCH];
    ffload_batch *batch[EPOCH];
    DLManagedTensorVersioned *images[EPOCH];
    DLManagedTensor *labels;
    pthread_t thread;
    ffload_dataset *dataset = known_set(&set, hash);
    ffload_loader *loader = load(dataset, "batch_size 16 workers 2");
    ffload_dataset_close(&dataset); /* the loader keeps it open */
    for (int i = 0; i < EPOCH; i++) {
        batch[i] = next(loader);
        assert_did(ffload_batch_export(batch[i], "images", &images[i], error));
        assert_int_equal(images[i]->flags, 0);
    }
    assert_null(next(loader));
    ffload_loader_destroy(&loader);
    assert_null(loader);
    for (int i = 0; i < EPOCH; i++) assert_int_equal(hash_of(batch[i]), hash[i]);
    DLManagedTensorVersioned *tensor;
    assert_did(ffload_batch_export(batch[0], "labels", &tensor, error));
    assert_did(ffload_unversioned(&tensor, &labels, error));
    for (int i = 0; i < EPOCH; i++) {
        if (i % 2) ffload_batch_release(&batch[i]);
        memset(images[i]->dl_tensor.data, i, bytes_of(&images[i]->dl_tensor));
        assert_int_equal(pthread_create(&thread, NULL, release_later, images[i]), 0);
        pthread_join(thread, NULL);
        ffload_batch_release(&batch[i]);
        assert_null(batch[i]);
    }
    assert_int_equal(labels->dl_tensor.shape[0], 16);
    labels->deleter(labels);
    set_remove(&set);
}

/* A loop that keeps none, or always the last three, allocates nothing after its start. */
static void none_kept(void **state) {
    (void)state;
    set_spec set;
    uint64_t hash[EPOCH];
    ffload_dataset *dataset = known_set(&set, hash);
    for (int kept = 0; kept < 4; kept += 3) {
        ffload_loader *loader = load(dataset, "batch_size 16 workers 2 prefetch 3 epochs 0");
        ffload_batch *last[4] = {NULL};
        for (int i = 0; i < 40 * EPOCH; i++) {
            last[i % (kept + 1)] = next(loader);
            if (i < EPOCH) assert_int_equal(hash_of(last[i % (kept + 1)]), hash[i]);
            ffload_batch_release(&last[(i + 1) % (kept + 1)]);
        }
        assert_int_equal(stats_of(loader).blocks, 3 + 1 + kept);
        assert_int_equal(stats_of(loader).batches, 40 * EPOCH);
        assert_int_equal(stats_of(loader).samples, 40 * EPOCH * 16);
        assert_true(stats_of(loader).fill_ns > 0);
        for (int i = 0; i <= kept; i++) ffload_batch_release(&last[i]);
        ffload_loader_destroy(&loader);
    }
    ffload_dataset_close(&dataset);
    set_remove(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_batches), cmocka_unit_test(same_raw_batches), cmocka_unit_test(views),
        cmocka_unit_test(all_kept),     cmocka_unit_test(none_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
