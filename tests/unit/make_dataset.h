/* Makes small packed datasets for tests, through the format's own writer. Samples are a pure
 * function of their number, so a test knows what it must read. */
#ifndef FF_TESTS_MAKE_DATASET_H
#define FF_TESTS_MAKE_DATASET_H

#include "format/writer.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct made_dataset {
    /* What to make. */
    ff_dtype dtype;
    ff_layout layout;
    uint32_t channels, height, width; /* the largest ones where variable_size */
    bool variable_size;
    uint64_t count, shard_bytes;
    ff_compression compression;
    bool stored_backwards; /* storage order = numbers falling, instead of rising */
    bool statistics;
    uint32_t classes;
    int64_t first_class; /* added to all classes, which are i64 then; 0: none, i32 */
    bool vector_label;   /* a second field "vector", f32 [5], and a third "tags", multi-hot [3] */
    /* Where it is. */
    char folder[64];
} made_dataset;

/* CIFAR-like samples of f16, class sorted. */
static inline made_dataset made_defaults(uint64_t count) {
    return (made_dataset){.dtype = FF_F16,
                          .layout = FF_CHW,
                          .channels = 3,
                          .height = 32,
                          .width = 32,
                          .count = count,
                          .shard_bytes = UINT64_C(1) << 30,
                          .statistics = true,
                          .classes = 10};
}

static inline uint32_t made_hash(uint64_t x) {
    x = (x ^ x >> 31) * UINT64_C(0x7fb5d329728ea185);
    x = (x ^ x >> 27) * UINT64_C(0x81dadef4bc2dd44d);
    return (uint32_t)(x >> 33);
}

static inline uint32_t made_side(const made_dataset *made, uint32_t side, uint64_t number,
                                 uint64_t which) {
    if (!made->variable_size) return side;
    return side - made_hash(number * 2 + which) % (side / 2 + 1);
}
static inline uint32_t made_height(const made_dataset *made, uint64_t number) {
    return made_side(made, made->height, number, 0);
}
static inline uint32_t made_width(const made_dataset *made, uint64_t number) {
    return made_side(made, made->width, number, 1);
}
static inline int64_t made_class(const made_dataset *made, uint64_t number) {
    if (number % 97 == 96) return -1;
    return (int64_t)(number * made->classes / made->count);
}

/* Fills a sample's tensor with finite values; returns its bytes. */
static inline size_t made_tensor(const made_dataset *made, uint64_t number, void *tensor) {
    size_t elements = (size_t)made->channels * made_height(made, number) * made_width(made, number);
    for (size_t i = 0; i < elements; i++) {
        uint32_t bits = made_hash(number << 24 ^ i);
        switch (made->dtype) {
        case FF_U8: ((uint8_t *)tensor)[i] = (uint8_t)bits; break;
        case FF_U16: ((uint16_t *)tensor)[i] = (uint16_t)bits; break;
        case FF_F16: ((uint16_t *)tensor)[i] = (uint16_t)(bits & 0xbfff); break;
        case FF_BF16: ((uint16_t *)tensor)[i] = (uint16_t)(bits & 0xbfff); break;
        default: ((uint32_t *)tensor)[i] = bits & 0xbfffffffu; break;
        }
    }
    return elements * ff_dtype_bytes(made->dtype);
}

static inline ff_status made_fill(const made_dataset *made, const ff_metadata *metadata,
                                  ff_writer *writer, ff_block *block, ff_error *error) {
    uint64_t per_block = metadata->items_per_block;
    for (uint64_t first = 0; first < made->count; first += per_block) {
        ff_block_reset(block, first / per_block);
        for (uint64_t p = first; p < first + per_block && p < made->count; p++) {
            uint64_t number = made->stored_backwards ? made->count - 1 - p : p;
            char key[32];
            int64_t class = made_class(made, number), large = made->first_class + class;
            int32_t label = (int32_t) class;
            float vector[5];
            uint8_t tags[3];
            for (int i = 0; i < 5; i++) vector[i] = (float)number + (float)i;
            for (int i = 0; i < 3; i++) tags[i] = (uint8_t)(number >> i & 1);
            ff_block_sample sample = {
                .item = number,
                .height = made_height(made, number),
                .width = made_width(made, number),
                .key = key,
                .key_bytes = (size_t)snprintf(key, sizeof key, "%llu", (unsigned long long)number),
                .label = (const void *const[]){made->first_class ? (void *)&large : &label, vector,
                                               tags},
            };
            void *tensor;
            FF_TRY(ff_block_add(block, &sample, &tensor, error));
            made_tensor(made, number, tensor);
        }
        FF_TRY(ff_block_seal(block, error));
        FF_TRY(ff_writer_append(writer, block, error));
    }
    ff_writer_result result;
    return ff_writer_commit(writer, &result, error);
}

/* Writes it into a new folder below $TMPDIR or /tmp; remove it with made_remove. */
static inline ff_status made_write(made_dataset *made, ff_error *error) {
    const char *root = getenv("TMPDIR");
    snprintf(made->folder, sizeof made->folder, "%.40s/ff-test-XXXXXX", root ? root : "/tmp");
    if (!mkdtemp(made->folder)) return ff_fail_errno(error, "%s: cannot create", made->folder);
    ff_metadata metadata = {.dtype = made->dtype,
                            .layout = made->layout,
                            .channels = made->channels,
                            .height = made->height,
                            .width = made->width,
                            .variable_size = made->variable_size,
                            .items = made->count,
                            .compression = made->compression,
                            .level = 1};
    ff_writer *writer = NULL;
    ff_block *block = NULL;
    ff_status status = FF_OK;
    static const float mean[] = {0.5f, 0.4f, 0.3f, 0.2f}, std[] = {0.25f, 0.3f, 0.2f, 0.1f};
    if (made->statistics)
        FF_TRY_DONE(ff_metadata_set_statistics(&metadata, mean, std, made->channels, error));
    FF_TRY_DONE(ff_metadata_add_field(&metadata, "label", FF_FIELD_CLASS,
                                      made->first_class ? FF_I64 : FF_I32, 1, error));
    if (made->vector_label) {
        FF_TRY_DONE(ff_metadata_add_field(&metadata, "vector", FF_FIELD_VECTOR, FF_F32, 5, error));
        FF_TRY_DONE(ff_metadata_add_field(&metadata, "tags", FF_FIELD_MULTI_HOT, FF_U8, 3, error));
    }
    FF_TRY_DONE(ff_metadata_plan(&metadata, made->shard_bytes, error));
    FF_TRY_DONE(ff_writer_open(&writer, made->folder, &metadata, NULL, error));
    FF_TRY_DONE(ff_block_create(&block, &metadata, error));
    status = made_fill(made, &metadata, writer, block, error);
done:
    ff_block_destroy(&block);
    ff_writer_close(&writer);
    ff_metadata_free(&metadata);
    return status;
}

static inline int made_remove_one(const char *path, const struct stat *info, int flag,
                                  struct FTW *place) {
    (void)info, (void)flag, (void)place;
    return remove(path);
}

static inline void made_remove(made_dataset *made) {
    if (made->folder[0]) nftw(made->folder, made_remove_one, 8, FTW_DEPTH | FTW_PHYS);
    made->folder[0] = 0;
}

#endif
