/* What the programs share that run libffload on a simulated GPU: its batches in a consumer's
 * memory, and what ff_loader makes on the host. They print TAP. */
#ifndef FF_TESTS_LIBRARY_SIM_H
#define FF_TESTS_LIBRARY_SIM_H

#include "loader/cuda/module.h"
#include "loader/loader.h"

#include <ffload/ffload.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 6, UNMIXED = 4, CARD = 1 };

static int count, failed;
static ffload_error failure;

static inline void result(bool good, const char *name) {
    count++;
    failed += !good;
    printf("%sok %d - %s\n", good ? "" : "not ", count, name);
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

static ff_dataset *plain;
static ffload_dataset *set;
static ff_cuda_module *module;
static ff_device *device;
static ff_stream *stream;

static inline void open_all(const char *folder) {
    must((int)ff_dataset_open(&plain, folder, FF_VERIFY_FIRST, NULL), "dataset");
    must(ffload_dataset_open(&set, folder, NULL, &failure), "dataset");
    must((int)ff_cuda_module_open(&module, CARD, NULL), "module");
    must((int)ff_cuda_module_table(module)->device_create(&device, CARD, NULL), "device");
    must((int)device->table->stream_create(device, &stream, NULL), "stream");
}

/* Returns the exit code. */
static inline int close_all(void) {
    device->table->stream_destroy(device, stream);
    ff_device_destroy(&device);
    ff_cuda_module_close(&module);
    ffload_dataset_close(&set);
    ff_dataset_close(&plain);
    printf("1..%d\n", count);
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
    char text[512], *rest = NULL;
    snprintf(text, sizeof text, "%s", words);
    must(ffload_options_create(&options, &failure), "options");
    must(ffload_options_set(options, "device", "cuda:1", &failure), "device");
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

typedef struct memory {
    size_t tensors; /* TENSORS, or UNMIXED of them */
    DLTensor tensor[TENSORS];
    const DLTensor *pointer[TENSORS]; /* to them */
    int64_t shape[TENSORS][4], strides[TENSORS][4];
} memory;

static inline void describe_tensor(memory *to, int i, int64_t rows, uint8_t code, size_t bytes) {
    to->shape[i][0] = rows;
    to->strides[i][0] = 1;
    to->tensor[i] = (DLTensor){.device = {.device_type = kDLCUDA, .device_id = CARD},
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
    describe_tensor(to, 0, rows, slot->dtype == FF_BF16 ? kDLBfloat : kDLFloat,
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
        to->tensor[i].data = malloc((size_t)rows * bytes);
    }
}

static inline void free_memory(memory *to) {
    for (int i = 0; i < TENSORS; i++) free(to->tensor[i].data);
}

static inline int enqueue(ffload_loader *loader, memory *to, const ffload_batch_info **info) {
    return ffload_loader_enqueue_into(loader, names, to->pointer, to->tensors, native(stream), info,
                                      &failure);
}

/* ---- comparing ------------------------------------------------------------------------------ */

static inline int64_t whole_number(const DLTensor *tensor, uint32_t i) {
    return tensor->dtype.bits == 64 ? ((const int64_t *)tensor->data)[i]
                                    : ((const int32_t *)tensor->data)[i];
}

/* A batch with these six tensors, of which unmixed ones lack the last two. */
static inline bool same_tensors(const DLTensor *const *found, const ff_slot *slot) {
    const int32_t *label = slot->label[0].values;
    bool good = !memcmp(found[0]->data, slot->data, slot->rows * slot->row_bytes) &&
                !memcmp(found[2]->data, slot->weight, 4ul * slot->rows) &&
                (!slot->mix || !memcmp(found[4]->data, slot->mix, 4ul * slot->rows));
    for (uint32_t row = 0; row < slot->rows && good; row++) {
        const uint32_t other = row < slot->count && (row ^ 1) < slot->count ? row ^ 1 : row;
        const ff_slot_source *source = &slot->source[row];
        good = whole_number(found[1], row) == label[row] &&
               whole_number(found[3], row) == (source->padding ? -1 : (int64_t)source->sample[0]) &&
               (!slot->mix || whole_number(found[5], row) == label[other]);
    }
    return good;
}

static inline bool same(const memory *found, const ff_slot *slot) {
    return same_tensors(found->pointer, slot);
}

/* What ff_loader gives with `batch` samples and no augmentation from a position on. */
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
