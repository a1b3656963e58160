/* Filters: undone exactly, for every dtype, layout and odd shape; and against plain loops written
 * from the specification. */
#include "tests/unit/format_set.h"

typedef struct shape {
    uint32_t channels, height, width;
} shape;

static const shape shapes[] = {{1, 1, 1},   {1, 1, 17},  {1, 17, 1}, {2, 1, 1},  {3, 2, 3},
                               {3, 7, 5},   {5, 3, 9},   {4, 8, 8},  {7, 1, 31}, {1, 33, 129},
                               {3, 64, 63}, {2, 100, 1}, {64, 3, 2}};

static size_t at_of(const set_spec *spec, uint32_t c, uint32_t y, uint32_t x) {
    if (spec->layout == FF_CHW) return ((size_t)c * spec->height + y) * spec->width + x;
    return ((size_t)y * spec->width + x) * spec->channels + c;
}

/* The filtered bytes as FORMAT.md defines them, element by element. */
static void reference(const set_spec *spec, const ff_metadata *metadata, ff_filter filter,
                      const uint8_t *tensor, uint8_t *to) {
    size_t bytes = ff_dtype_bytes(spec->dtype);
    size_t count = (size_t)spec->channels * spec->height * spec->width;
    if (filter == FF_FILTER_NONE) memcpy(to, tensor, count * bytes);
    if (filter == FF_FILTER_SHUFFLE)
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < bytes; k++) to[k * count + i] = tensor[i * bytes + k];
    for (uint32_t c = 0; c < spec->channels; c++)
        for (uint32_t y = 0; y < spec->height; y++)
            for (uint32_t x = 0; x < spec->width; x++) {
                size_t at = at_of(spec, c, y, x);
                size_t above = y ? at_of(spec, c, y - 1, x) : 0;
                if (filter == FF_FILTER_DELTA)
                    for (size_t k = 0; k < bytes; k++)
                        to[at * bytes + k] =
                            (uint8_t)(tensor[at * bytes + k] - (y ? tensor[above * bytes + k] : 0));
                if (filter == FF_FILTER_TABLE) {
                    int index[2] = {0, 0};
                    for (int which = 0; which < (y ? 2 : 1); which++) {
                        const uint8_t *value = tensor + (which ? above : at) * bytes;
                        const uint8_t *table = metadata->table + (size_t)c * 256 * bytes;
                        while (memcmp(table + (size_t)index[which] * bytes, value, bytes))
                            assert_true(++index[which] < 256);
                    }
                    to[at] = (uint8_t)(index[0] - index[1]);
                }
            }
}

static void check(const set_spec *spec, ff_filter filter) {
    ff_metadata metadata;
    ff_table_lookup *lookup = NULL;
    assert_ok(set_metadata(spec, &metadata, error));
    if (filter == FF_FILTER_TABLE) assert_ok(ff_table_lookup_create(&lookup, &metadata, error));
    size_t bytes = (size_t)ff_metadata_tensor_bytes(&metadata, spec->height, spec->width);
    size_t filtered_bytes = (size_t)ff_filtered_bytes(&metadata, filter, bytes);
    uint8_t *tensor = malloc(bytes), *back = malloc(bytes);
    uint8_t *filtered = malloc(filtered_bytes), *wanted = malloc(filtered_bytes);
    for (uint64_t item = 0; item < 3; item++) {
        set_tensor(spec, item, tensor);
        assert_true(ff_filter_apply(&metadata, filter, lookup, spec->height, spec->width, tensor,
                                    filtered));
        reference(spec, &metadata, filter, tensor, wanted);
        assert_memory_equal(filtered, wanted, filtered_bytes);
        memset(back, 0x55, bytes);
        ff_filter_undo(&metadata, filter, spec->height, spec->width, filtered, back);
        assert_memory_equal(tensor, back, bytes);
    }
    free(tensor);
    free(back);
    free(filtered);
    free(wanted);
    ff_table_lookup_destroy(&lookup);
    ff_table_lookup_destroy(&lookup);
    ff_metadata_free(&metadata);
}

static void every_shape(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int dtype = FF_U8; dtype <= FF_F32; dtype++)
            for (int layout = FF_CHW; layout <= FF_HWC; layout++)
                for (int filter = FF_FILTER_NONE; filter < FF_FILTER_COUNT; filter++) {
                    set_spec spec = {.dtype = (ff_dtype)dtype,
                                     .layout = (ff_layout)layout,
                                     .channels = shapes[i].channels,
                                     .height = shapes[i].height,
                                     .width = shapes[i].width,
                                     .alignment = 64,
                                     .items = 3,
                                     .zstd = true,
                                     .filter = (ff_filter)filter,
                                     .seed = i};
                    check(&spec, (ff_filter)filter);
                }
}

static void outside_of_the_table(void **state) {
    (void)state;
    for (int dtype = FF_U16; dtype <= FF_F32; dtype++) {
        set_spec spec = {.dtype = (ff_dtype)dtype,
                         .channels = 2,
                         .height = 3,
                         .width = 3,
                         .alignment = 64,
                         .items = 3,
                         .zstd = true,
                         .filter = FF_FILTER_TABLE};
        ff_metadata metadata;
        ff_table_lookup *lookup;
        assert_ok(set_metadata(&spec, &metadata, error));
        assert_ok(ff_table_lookup_create(&lookup, &metadata, error));
        size_t bytes = ff_dtype_bytes(spec.dtype);
        uint8_t tensor[18 * 4], filtered[18];
        for (size_t at = 0; at < 18; at++) {
            set_tensor(&spec, 0, tensor);
            set_misfit(tensor + at * bytes, bytes);
            assert_false(
                ff_filter_apply(&metadata, FF_FILTER_TABLE, lookup, 3, 3, tensor, filtered));
        }
        /* A value of another channel's table does not count. */
        set_tensor(&spec, 0, tensor);
        for (unsigned i = 0; i < 256; i++) {
            int k = 0;
            set_table_element(&spec, 1, i, tensor);
            while (k < 256 && memcmp(metadata.table + (size_t)k * bytes, tensor, bytes)) k++;
            if (k == 256) break;
        }
        assert_false(ff_filter_apply(&metadata, FF_FILTER_TABLE, lookup, 3, 3, tensor, filtered));
        ff_table_lookup_destroy(&lookup);
        ff_metadata_free(&metadata);
    }
}

/* Fewer than 256 different values: the lowest index of equal ones is taken, so that the filtered
 * bytes do not depend on the search. */
static void equal_table_values(void **state) {
    (void)state;
    for (int dtype = FF_U8; dtype <= FF_F32; dtype++) {
        set_spec spec = {.dtype = (ff_dtype)dtype,
                         .channels = 1,
                         .height = 1,
                         .width = 16,
                         .alignment = 64,
                         .items = 1,
                         .zstd = true,
                         .filter = FF_FILTER_TABLE};
        ff_metadata metadata;
        ff_table_lookup *lookup;
        assert_ok(set_metadata(&spec, &metadata, error));
        size_t bytes = ff_dtype_bytes(spec.dtype);
        for (size_t i = 0; i < 256; i++) /* 16 values, each 16 times, falling */
            memset(metadata.table + i * bytes, (int)(255 - i % 16), bytes);
        assert_ok(ff_table_lookup_create(&lookup, &metadata, error));
        uint8_t tensor[16 * 4], filtered[16], back[16 * 4];
        for (size_t i = 0; i < 16; i++) memset(tensor + i * bytes, (int)(255 - i), bytes);
        assert_true(ff_filter_apply(&metadata, FF_FILTER_TABLE, lookup, 1, 16, tensor, filtered));
        for (size_t i = 0; i < 16; i++) assert_int_equal(filtered[i], i);
        ff_filter_undo(&metadata, FF_FILTER_TABLE, 1, 16, filtered, back);
        assert_memory_equal(tensor, back, 16 * bytes);
        ff_table_lookup_destroy(&lookup);
        ff_metadata_free(&metadata);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape),
        cmocka_unit_test(outside_of_the_table),
        cmocka_unit_test(equal_table_values),
    };
    return cmocka_run_group_tests_name("filter", tests, NULL, NULL);
}
