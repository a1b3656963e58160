/* The external sorter against qsort, in memory and through runs on disk. */
#include "format/base/memory.h"
#include "tests/unit/check.h"
#include "tools/ffpack/source/sorter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252u;
static uint32_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

typedef struct wanted {
    unsigned char key[64];
    uint32_t key_bytes, number;
} wanted;

static int compare(const void *a, const void *b) {
    const wanted *first = a, *second = b;
    size_t common = first->key_bytes < second->key_bytes ? first->key_bytes : second->key_bytes;
    int order = memcmp(first->key, second->key, common);
    if (!order)
        order = (first->key_bytes > second->key_bytes) - (first->key_bytes < second->key_bytes);
    if (!order) order = (first->number > second->number) - (first->number < second->number);
    return order;
}

/* Payloads of up to `payload_limit` bytes decide whether memory or disk is used. */
static void sort_and_compare(uint32_t count, uint32_t payload_limit) {
    ff_sorter *sorter;
    wanted *all = calloc(count + 1, sizeof *all);
    unsigned char *payload = calloc(1, payload_limit + 4);
    assert_ok(ff_sorter_create(&sorter, "/tmp", error));
    for (uint32_t i = 0; i < count; i++) {
        all[i].number = i;
        all[i].key_bytes = next_random() % 5 ? next_random() % 64 : 2;
        for (uint32_t k = 0; k < all[i].key_bytes; k++)
            all[i].key[k] = (unsigned char)(next_random() % 3 * 127);
        memcpy(payload, &i, 4);
        ff_sorter_record record = {.key = all[i].key,
                                   .key_bytes = all[i].key_bytes,
                                   .payload = payload,
                                   .payload_bytes = 4 + i % (payload_limit + 1)};
        assert_ok(ff_sorter_add(sorter, &record, error));
    }
    qsort(all, count, sizeof *all, compare);
    ff_sorter_record record;
    bool more;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number;
        assert_ok(ff_sorter_next(sorter, &record, &more, error));
        assert_true(more);
        memcpy(&number, record.payload, 4);
        assert_int_equal(number, all[i].number);
        assert_int_equal(record.payload_bytes, 4 + number % (payload_limit + 1));
        assert_int_equal(record.key_bytes, all[i].key_bytes);
        assert_memory_equal(record.key, all[i].key, record.key_bytes);
    }
    assert_ok(ff_sorter_next(sorter, &record, &more, error));
    assert_false(more);
    ff_sorter_destroy(&sorter);
    free(all);
    free(payload);
}

static void in_memory(void **context) {
    (void)context;
    sort_and_compare(0, 0);
    sort_and_compare(1, 10);
    sort_and_compare(5000, 100);
}

static void through_runs(void **context) {
    (void)context;
    sort_and_compare(300, 60000); /* slightly more than one run */
    sort_and_compare(3000, 30000);
    sort_and_compare(700000, 20);
}

static void records_have_a_limit(void **context) {
    (void)context;
    ff_sorter *sorter;
    ff_error failure = {0};
    char *large = calloc(1, FF_SORTER_RECORD_LIMIT);
    assert_ok(ff_sorter_create(&sorter, "/tmp", error));
    ff_sorter_record record = {.key = large, .key_bytes = FF_SORTER_RECORD_LIMIT};
    assert_int_equal(ff_sorter_add(sorter, &record, &failure), FF_BAD_DATA);
    ff_sorter_destroy(&sorter);
    ff_sorter_destroy(&sorter);
    free(large);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_memory),
        cmocka_unit_test(through_runs),
        cmocka_unit_test(records_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
