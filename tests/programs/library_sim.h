/* Shared by the programs that run libffload on a GPU: its batches in a consumer's memory there, and
 * ff_loader's batches on the host. The programs make their own set and print TAP. Each is linked
 * twice: with the simulated GPU instead of the module, and to run on a card (tests/gpu/README.md).
 */
#ifndef FF_TESTS_LIBRARY_SIM_H
#define FF_TESTS_LIBRARY_SIM_H

#include "loader/cuda/module.h"
#include "loader/host/loader.h"
#include "tests/unit/packed_set.h"

#include <ffload/ffload.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 6, UNMIXED = 4, SAMPLES = 150 };

static int results, failed;
static ffload_error failure;

static inline void result(bool good, const char *name) {
    results++;
    failed += !good;
    printf("%sok %d - %s\n", good ? "" : "not ", results, name);
    if (!good) printf("# %s\n", failure.message);
    failure.message[0] = 0;
}

static inline void must(int status, const char *what) {
    if (status == FFLOAD_OK) return;
    printf("Bail out! %s: %s\n", what, failure.message);
    exit(1);
}

static inline bool tells(const char *part) {
    return strstr(failure.message, part) != NULL;
}

/* ---- the set, opened by both, and the device ------------------------------------------------ */

static set_spec spec;
static ff_dataset *plain;
static ffload_dataset *set;
static ff_cuda_module *module;
static ff_device *device;
static ff_stream *stream, *copies;
static int card; /* the second GPU if there are two */

/* False without a GPU, which is reported. */
static inline bool open_all(void) {
    ff_error error;
    int cards = 0;
    if (ff_cuda_module_open(&module, 0, &error) != FF_OK) {
        printf("1..0 # SKIP %s\n", error.message);
        return false;
    }
    must((int)ff_cuda_module_table(module)->device_count(&cards, NULL), "devices");
    card = cards > 1;
    spec = plain_set(SAMPLES);
    spec.dtype = FF_U8;
    spec.height = spec.width = 8;
    must((int)set_make(&spec, NULL), "a set");
    must((int)ff_dataset_open(&plain, spec.folder, FF_VERIFY_FIRST, NULL), "dataset");
    must(ffload_dataset_open(&set, spec.folder, NULL, &failure), "dataset");
    must((int)ff_cuda_module_table(module)->device_create(&device, card, NULL), "device");
    must((int)device->table->stream_create(device, &stream, NULL), "stream");
    must((int)device->table->stream_create(device, &copies, NULL), "stream");
    return true;
}

/* Returns the exit code. */
static inline int close_all(void) {
    device->table->stream_destroy(device, stream);
    device->table->stream_destroy(device, copies);
    ff_device_destroy(&device);
    ff_cuda_module_close(&module);
    ffload_dataset_close(&set);
    ff_dataset_close(&plain);
    packed_remove_folder(spec.folder);
    free(spec.folder);
    printf("1..%d\n", results);
    return failed != 0;
}

static inline void *native(ff_stream *of) {
    return device->table->native_stream(device, of);
}

static inline void wait_for(ff_stream *of) {
    must((int)device->table->stream_synchronize(device, of, NULL), "the stream");
}

/* "name value name value ..." */
static inline ffload_options *options_from(const char *words) {
    ffload_options *options;
    char text[512], name_of_it[16], *rest = NULL;
    snprintf(name_of_it, sizeof name_of_it, "cuda:%d", card);
    snprintf(text, sizeof text, "%s", words);
    must(ffload_options_create(&options, &failure), "options");
    must(ffload_options_set(options, "device", name_of_it, &failure), "device");
    for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        must(ffload_options_set(options, name, strtok_r(NULL, " ", &rest), &failure), name);
    return options;
}

static inline ffload_loader *load(const char *words) {
    ffload_options *options = options_from(words);
    ffload_loader *loader;
    must(ffload_loader_create(&loader, set, options, &failure), words);
    ffload_options_destroy(&options);
    return loader;
}

/* ---- a consumer's memory -------------------------------------------------------------------- */

static const char *const names[TENSORS] = {"images",  "labels", "weight",
                                           "samples", "mix",    "labels_b"};

static inline void *allocate(uint64_t bytes) {
    void *memory;
    must((int)device->table->allocate(device, &memory, bytes, "a test", NULL), "memory");
    return memory;
}

/* A copy on the host; waits for nothing but itself. */
static inline void *fetch(const void *from, uint64_t bytes) {
    void *pinned, *copy = malloc(bytes + 1);
    must((int)device->table->allocate_pinned(device, &pinned, bytes, "a test", NULL), "memory");
    must((int)device->table->copy(device, copies, pinned, from, bytes, NULL), "copy");
    wait_for(copies);
    memcpy(copy, pinned, bytes);
    device->table->release_pinned(device, pinned);
    return copy;
}

typedef struct memory {
    size_t tensors; /* TENSORS, or UNMIXED of them */
    DLTensor tensor[TENSORS];
    const DLTensor *pointer[TENSORS]; /* to them */
    int64_t shape[TENSORS][4], strides[TENSORS][4];
} memory;

static inline void describe_tensor(memory *to, int i, int64_t rows, uint8_t code, size_t bytes) {
    to->shape[i][0] = rows;
    to->strides[i][0] = 1;
    to->tensor[i] = (DLTensor){.device = {.device_type = kDLCUDA, .device_id = card},
                               .ndim = 1,
                               .dtype = {.code = code, .bits = (uint8_t)(8 * bytes), .lanes = 1},
                               .shape = to->shape[i],
                               .strides = to->strides[i]};
    to->pointer[i] = &to->tensor[i];
}

/* For batches that on the host are as `slot`. wide: labels are i64. */
static inline void take_memory(memory *to, const ff_slot *slot, bool wide) {
    const int64_t rows = slot->rows, channels = slot->channels, height = slot->height,
                  width = slot->width, whole = channels * height * width;
    const int64_t shape[4] = {rows, channels, height, width};
    const int64_t chw[4] = {whole, height * width, width, 1};
    const int64_t hwc[4] = {whole, 1, width * channels, channels};
    const size_t label = wide ? 8 : 4;
    const uint8_t code = slot->dtype == FF_BF16 ? kDLBfloat : kDLFloat;
    describe_tensor(to, 0, rows, slot->dtype == FF_U8 ? kDLUInt : code,
                    ff_dtype_bytes(slot->dtype));
    to->tensor[0].ndim = 4;
    memcpy(to->shape[0], shape, sizeof shape);
    memcpy(to->strides[0], slot->layout == FF_CHW ? chw : hwc, sizeof chw);
    describe_tensor(to, 1, rows, kDLInt, label);
    describe_tensor(to, 2, rows, kDLFloat, 4);
    describe_tensor(to, 3, rows, kDLInt, 8);
    describe_tensor(to, 4, rows, kDLFloat, 4);
    describe_tensor(to, 5, rows, kDLInt, label);
    to->tensors = slot->mix ? TENSORS : UNMIXED;
    for (int i = 0; i < TENSORS; i++) {
        const size_t bytes = i ? to->tensor[i].dtype.bits / 8 : slot->row_bytes;
        to->tensor[i].data = allocate((uint64_t)rows * bytes);
    }
}

static inline void free_memory(memory *to) {
    for (int i = 0; i < TENSORS; i++) device->table->release(device, to->tensor[i].data);
}

static inline int enqueue(ffload_loader *loader, memory *to, const ffload_batch_info **info) {
    return ffload_loader_enqueue_into(loader, names, to->pointer, to->tensors, native(stream), info,
                                      &failure);
}

/* ---- comparing ------------------------------------------------------------------------------ */

static inline bool is_there(const DLTensor *found, const void *wanted, uint64_t bytes) {
    void *copy = fetch(found->data, bytes);
    const bool good = !memcmp(copy, wanted, bytes);
    free(copy);
    return good;
}

/* Whole numbers of 32 or 64 bits. */
static inline bool are_there(const DLTensor *found, const int64_t *wanted, uint32_t rows) {
    const bool wide = found->dtype.bits == 64;
    void *copy = fetch(found->data, (wide ? 8ul : 4ul) * rows);
    bool good = true;
    for (uint32_t row = 0; row < rows && good; row++)
        good = (wide ? ((int64_t *)copy)[row] : ((int32_t *)copy)[row]) == wanted[row];
    free(copy);
    return good;
}

/* A batch with these six tensors; unmixed batches lack the last two. */
static inline bool same_tensors(const DLTensor *const *found, const ff_slot *slot) {
    const int32_t *label = slot->label[0].values;
    int64_t own[SAMPLES], sample[SAMPLES], other[SAMPLES];
    for (uint32_t row = 0; row < slot->rows; row++) {
        const ff_slot_source *source = &slot->source[row];
        own[row] = label[row];
        sample[row] = source->padding ? -1 : (int64_t)source->sample[0];
        other[row] = label[row < slot->count && (row ^ 1) < slot->count ? row ^ 1 : row];
    }
    return is_there(found[0], slot->data, slot->rows * slot->row_bytes) &&
           are_there(found[1], own, slot->rows) &&
           is_there(found[2], slot->weight, 4ul * slot->rows) &&
           are_there(found[3], sample, slot->rows) &&
           (!slot->mix || (is_there(found[4], slot->mix, 4ul * slot->rows) &&
                           are_there(found[5], other, slot->rows)));
}

static inline bool same(const memory *found, const ff_slot *slot) {
    return same_tensors(found->pointer, slot);
}

/* ff_loader's batches with `batch` samples and no augmentation from a position on. */
static inline ff_loader *host_loader(uint64_t batch, ff_layout layout, uint32_t epoch,
                                     uint64_t position, uint32_t epochs) {
    ff_loader_options options = ff_loader_defaults();
    ff_loader *wanted;
    options.batch = batch, options.layout = layout, options.epoch = epoch;
    options.position = position, options.epochs = epochs;
    must((int)ff_loader_create(&wanted, plain, &options, NULL), "ff_loader");
    return wanted;
}

#endif
