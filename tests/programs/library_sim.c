/* libffload on a simulated GPU: batches that it enqueues into a consumer's memory are those of
 * ff_loader on the host. Prints TAP.
 *   library_sim SET */
#include "loader/cuda/module.h"
#include "loader/loader.h"

#include <ffload/ffload.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES_MOST = 64, TENSORS = 4 };

static int count, failed;
static ffload_error failure;

static void result(bool good, const char *name) {
    count++;
    failed += !good;
    printf("%sok %d - %s\n", good ? "" : "not ", count, name);
    if (!good) printf("# %s\n", failure.message);
    failure.message[0] = 0;
}

static void must(int status, const char *what) {
    if (status == FFLOAD_OK) return;
    printf("Bail out! %s: %s\n", what, failure.message);
    exit(1);
}

/* The same for both. */
typedef struct options_case {
    const char *words; /* "name value name value ..." */
    const char *augment;
    uint64_t batch;
    ff_dtype dtype;
    ff_last_batch last;
    uint32_t rank, world;
} options_case;

static ff_dataset *plain;
static ffload_dataset *set;
static ff_device *device;
static ff_stream *stream;

static ffload_options *options_from(const char *words) {
    ffload_options *options;
    char text[512], *rest = NULL;
    snprintf(text, sizeof text, "device cuda:1 layout channels_last %s", words);
    must(ffload_options_create(&options, &failure), "options");
    for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        must(ffload_options_set(options, name, strtok_r(NULL, " ", &rest), &failure), name);
    return options;
}

static ffload_loader *load(const char *words) {
    ffload_options *options = options_from(words);
    ffload_loader *loader;
    must(ffload_loader_create(&loader, set, options, &failure), words);
    ffload_options_destroy(&options);
    return loader;
}

static int refused(const char *words, const char *part) {
    ffload_options *options = options_from(words);
    ffload_loader *loader;
    const int status = ffload_loader_create(&loader, set, options, &failure);
    ffload_options_destroy(&options);
    return status == FFLOAD_USAGE && !loader && strstr(failure.message, part);
}

/* ---- a consumer's memory -------------------------------------------------------------------- */

typedef struct memory {
    DLTensor tensor[TENSORS];
    int64_t shape[TENSORS][4], strides[TENSORS][4];
} memory;

static const char *const names[TENSORS] = {"images", "labels", "weight", "mix"};

/* wide: labels are i64. */
static void take_memory(memory *to, const ff_slot *slot, bool wide) {
    const int64_t rows = slot->rows, channels = slot->channels, height = slot->height,
                  width = slot->width;
    for (int i = 0; i < TENSORS; i++) {
        const int64_t shape[4] = {rows, channels, height, width};
        const int64_t strides[4] = {channels * height * width, 1, width * channels, channels};
        const bool is_float = i != 1;
        const size_t bytes = wide && !is_float ? 8 : 4;
        memcpy(to->shape[i], shape, sizeof shape);
        memcpy(to->strides[i], strides, sizeof strides);
        if (i) to->strides[i][0] = 1;
        to->tensor[i] =
            (DLTensor){.data = malloc((size_t)rows * (i ? bytes : slot->row_bytes)),
                       .device = {.device_type = kDLCUDA, .device_id = 1},
                       .ndim = i ? 1 : 4,
                       .dtype = {.code = is_float ? kDLFloat : kDLInt,
                                 .bits = (uint8_t)(8 * (i ? bytes : ff_dtype_bytes(slot->dtype))),
                                 .lanes = 1},
                       .shape = to->shape[i],
                       .strides = to->strides[i]};
    }
}

static void free_memory(memory *to) {
    for (int i = 0; i < TENSORS; i++) free(to->tensor[i].data);
}

static int enqueue(ffload_loader *loader, memory *to, size_t tensors,
                   const ffload_batch_info **info) {
    const DLTensor *pointer[TENSORS];
    for (int i = 0; i < TENSORS; i++) pointer[i] = &to->tensor[i];
    return ffload_loader_enqueue_into(loader, names, pointer, tensors,
                                      device->table->native_stream(device, stream), info, &failure);
}

/* ---- batches -------------------------------------------------------------------------------- */

static bool same_classes(const DLTensor *found, const ff_slot *slot) {
    const int32_t *wanted = slot->label[0].values;
    bool good = true;
    for (uint32_t row = 0; row < slot->rows && good; row++)
        good = wanted[row] == (found->dtype.bits == 64 ? ((int64_t *)found->data)[row]
                                                       : ((int32_t *)found->data)[row]);
    return good;
}

static bool same(const memory *found, const ff_slot *slot) {
    return !memcmp(found->tensor[0].data, slot->data, slot->rows * slot->row_bytes) &&
           same_classes(&found->tensor[1], slot) &&
           !memcmp(found->tensor[2].data, slot->weight, 4ul * slot->rows) &&
           (!slot->mix || !memcmp(found->tensor[3].data, slot->mix, 4ul * slot->rows));
}

/* All batches are enqueued, each into memory of its own, before one is looked at. */
static bool same_batches(const options_case *one, const char *placement) {
    ff_loader_options options = ff_loader_defaults();
    ff_loader *wanted;
    ff_slot *slot;
    memory kept[BATCHES_MOST];
    const ffload_batch_info *info;
    char words[512];
    int given = 0;
    bool good = true;
    options.batch = one->batch, options.dtype = one->dtype, options.layout = FF_HWC;
    options.epochs = 2, options.last_batch = one->last;
    options.share_begin = one->rank, options.share_end = one->rank + 1;
    options.share_total = one->world;
    must((int)ff_augment_parse(&options.augment, one->augment, NULL), "augment");
    must((int)ff_loader_create(&wanted, plain, &options, NULL), "ff_loader");
    snprintf(words, sizeof words, "%s augment %s placement %s epochs 2", one->words, one->augment,
             placement);
    ffload_loader *loader = load(words);
    const ff_slot first = ff_loader_first_slot(wanted, 0);
    for (; given < BATCHES_MOST; given++) {
        take_memory(&kept[given], &first, strstr(one->words, "i64") != NULL);
        must(enqueue(loader, &kept[given], first.mix ? TENSORS : TENSORS - 1, &info), words);
        if (!info) break;
    }
    must((int)device->table->stream_synchronize(device, stream, NULL), "the stream");
    for (int i = 0; i <= given && good; i++) {
        must((int)ff_loader_acquire(wanted, &slot, NULL), "acquire");
        good = (i < given) == (slot != NULL) && (!slot || same(&kept[i], slot));
        if (slot) ff_loader_release(wanted, slot, NULL);
    }
    for (int i = 0; i <= given; i++) free_memory(&kept[i]);
    ffload_loader_destroy(&loader);
    ff_loader_destroy(&wanted);
    return good && given > 2;
}

static void all_batches(void) {
    static const options_case cases[] = {
        {"batch_size 16", "crop=2,flip", 16, FF_F32, FF_LAST_BATCH_DROP, 0, 1},
        {"batch_size 16 dtype f16 last_batch pad", "mixup,flip", 16, FF_F16, FF_LAST_BATCH_KEEP, 0,
         1},
        {"batch_size 16 label_dtype i64 last_batch pad", "flip", 16, FF_F32, FF_LAST_BATCH_KEEP, 0,
         1},
        {"batch_size 16 label_dtype i64 last_batch pad", "mixup", 16, FF_F32, FF_LAST_BATCH_KEEP, 0,
         1},
        {"batch_size 20 rank 1 world 3 last_batch keep", "rrc=6,flip", 20, FF_F32,
         FF_LAST_BATCH_KEEP, 1, 3}};
    static const char *const placements[] = {"auto", "resident", "stream", "host"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < 4; k++) {
            char name[256];
            snprintf(name, sizeof name, "%s, %s, placement %s", cases[i].words, cases[i].augment,
                     placements[k]);
            result(same_batches(&cases[i], placements[k]), name);
        }
}

/* ---- where it is, and what it refuses ------------------------------------------------------- */

static bool seeks(const char *placement) {
    ff_loader_options options = ff_loader_defaults();
    ff_loader *wanted;
    ff_slot *slot;
    memory found;
    const ffload_batch_info *info;
    char words[128];
    const char *state;
    options.batch = 16, options.layout = FF_HWC, options.epoch = 1, options.position = 32;
    must((int)ff_loader_create(&wanted, plain, &options, NULL), "ff_loader");
    must((int)ff_loader_acquire(wanted, &slot, NULL), "acquire");
    take_memory(&found, slot, false);
    snprintf(words, sizeof words, "batch_size 16 epochs 0 placement %s", placement);
    ffload_loader *loader = load(words);
    must(enqueue(loader, &found, 3, &info), "first");
    must(ffload_loader_seek(loader, 1, 32, &failure), "seek");
    must(enqueue(loader, &found, 3, &info), "second");
    bool good = info->epoch == 1 && info->position == 32 && info->index == 2;
    must((int)device->table->stream_synchronize(device, stream, NULL), "the stream");
    good = good && same(&found, slot);
    must(ffload_loader_state(loader, &state, &failure), "state");
    good = good && strstr(state, "\"position\": 48");
    good = good && ffload_loader_seek(loader, 0, 100000, &failure) == FFLOAD_USAGE;
    must(enqueue(loader, &found, 3, &info), "after a seek that was refused");
    good = good && info->position == 48;
    ffload_loader_interrupt(loader);
    good = good && enqueue(loader, &found, 3, &info) == FFLOAD_INTERRUPTED && !info;
    must(enqueue(loader, &found, 3, &info), "after an interruption");
    good = good && info->position == 64;
    ff_loader_release(wanted, slot, NULL);
    ff_loader_destroy(&wanted);
    ffload_loader_destroy(&loader);
    free_memory(&found);
    return good;
}

static int asked;

static int end_it(void *context) {
    (void)context;
    return ++asked > 0;
}

/* A check ends the upload of a resident set; where nothing is uploaded there is none. */
static bool stopped(const char *placement) {
    char words[128];
    ffload_loader *loader;
    snprintf(words, sizeof words, "batch_size 16 placement %s", placement);
    ffload_options *options = options_from(words);
    asked = 0;
    must(ffload_options_set_check(options, end_it, NULL, &failure), "check");
    const int status = ffload_loader_create(&loader, set, options, &failure);
    ffload_options_destroy(&options);
    ffload_loader_destroy(&loader);
    return status == FFLOAD_INTERRUPTED && asked == 1;
}

static bool tells(const char *part) {
    return strstr(failure.message, part) != NULL;
}

static void refusals(void) {
    ff_loader_options options = ff_loader_defaults();
    ff_loader *wanted;
    memory to;
    const ffload_batch_info *info;
    ffload_batch *batch;
    const char *text;
    options.batch = 16, options.layout = FF_HWC;
    must((int)ff_loader_create(&wanted, plain, &options, NULL), "ff_loader");
    const ff_slot first = ff_loader_first_slot(wanted, 0);
    take_memory(&to, &first, false);
    ffload_loader *loader = load("batch_size 16 placement resident");
    result(ffload_loader_next(loader, &batch, &failure) == FFLOAD_USAGE && tells("enqueue_into"),
           "it gives no batches on the host");
    result(enqueue(loader, &to, 4, &info) == FFLOAD_USAGE && tells("no tensor 'mix'") && !info,
           "a tensor that there is not");
    to.tensor[0].device.device_id = 0;
    result(enqueue(loader, &to, 3, &info) == FFLOAD_USAGE && tells("not in the memory of cuda:1"),
           "another device");
    to.tensor[0].device.device_id = 1;
    to.strides[0][1] = 2;
    result(enqueue(loader, &to, 3, &info) == FFLOAD_USAGE && tells("shape and strides"), "strides");
    to.tensor[0].strides = NULL;
    result(enqueue(loader, &to, 3, &info) == FFLOAD_USAGE && tells("shape and strides"),
           "no strides, which are those of another layout");
    to.tensor[0].strides = to.strides[0];
    to.strides[0][1] = 1;
    to.shape[1][0] = 15;
    result(enqueue(loader, &to, 3, &info) == FFLOAD_USAGE && tells("labels"), "too few rows");
    to.shape[1][0] = 16;
    to.tensor[2].dtype.code = kDLInt;
    result(enqueue(loader, &to, 3, &info) == FFLOAD_USAGE && tells("weight is not f32"), "dtype");
    to.tensor[2].dtype.code = kDLFloat;
    must(enqueue(loader, &to, 3, &info), "enqueue");
    result(info->index == 0, "and what was refused has cost no batch");
    must(ffload_loader_describe(loader, &text, &failure), "describe");
    result(strstr(text, "\"cuda:1\"") && strstr(text, "Placement: resident, as requested."),
           "it says where it is");
    ffload_loader_destroy(&loader);
    ff_loader_destroy(&wanted);
    free_memory(&to);
    result(refused("layout contiguous", "channels_last"), "another layout is refused");
    result(refused("dtype u8", "u8"), "values as stored are, too");
}

int main(int argc, char **argv) {
    ff_cuda_module *module;
    if (argc < 2) return 2;
    must((int)ff_dataset_open(&plain, argv[1], FF_VERIFY_FIRST, NULL), "dataset");
    must(ffload_dataset_open(&set, argv[1], NULL, &failure), "dataset");
    must((int)ff_cuda_module_open(&module, 1, NULL), "module");
    must((int)ff_cuda_module_table(module)->device_create(&device, 1, NULL), "device");
    must((int)device->table->stream_create(device, &stream, NULL), "stream");
    all_batches();
    result(seeks("resident"), "seeks, resident");
    result(seeks("stream"), "seeks, streamed");
    result(stopped("resident") && !stopped("stream"), "an upload is stopped by a check");
    refusals();
    device->table->stream_destroy(device, stream);
    ff_device_destroy(&device);
    ff_cuda_module_close(&module);
    ffload_dataset_close(&set);
    ff_dataset_close(&plain);
    printf("1..%d\n", count);
    return failed != 0;
}
