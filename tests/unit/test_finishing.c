/* The end of a split on a thread of its own: the same files as without, and failures arrive. */
#include "tools/ffpack/pack/finishing.h"

#include "tests/unit/check.h"
#include "tests/unit/packed_set.h"

#include <sys/stat.h>

enum { ITEMS = 300 };

/* A set whose blocks are all appended: *writer is at its end. The caller frees folder and
 * metadata. */
static set_spec append_all(bool pending, ff_metadata *metadata, ff_writer **writer) {
    set_spec spec = plain_set(ITEMS);
    spec.dtype = FF_U8;
    spec.per_block = 20;
    spec.per_shard = 140;
    assert_ok(packed_new_folder(&spec.folder, error));
    assert_ok(set_metadata(&spec, metadata, error));
    assert_ok((pending ? ff_writer_open_pending : ff_writer_open)(writer, spec.folder, metadata,
                                                                  NULL, error));
    assert_ok(packed_append(*writer, metadata, UINT64_MAX, set_add, &spec, error));
    return spec;
}

static void expect_result(const ff_writer_result *found, const ff_writer_result *wanted) {
    assert_int_equal(found->sample_count, ITEMS);
    assert_memory_equal(found, wanted, sizeof *wanted);
}

/* The result of packing it at once, with a certain mean. */
static ff_writer_result pack_at_once(const ff_metadata *metadata, const set_spec *like) {
    ff_writer_result result;
    set_spec spec = *like;
    assert_ok(packed_new_folder(&spec.folder, error));
    assert_ok(packed_write(spec.folder, metadata, NULL, set_add, &spec, &result, error));
    packed_remove_folder(spec.folder);
    free(spec.folder);
    return result;
}

static void finishes_a_split(void **state) {
    (void)state;
    ff_metadata metadata;
    ff_writer_result result = {0};
    ff_finishing finishing = {.metadata = &metadata, .result = &result};
    set_spec spec = append_all(false, &metadata, &finishing.writer);
    char *last;
    struct stat info;
    assert_ok(ff_format(&last, error, "%s/shard-000002.ffs", spec.folder));
    assert_int_not_equal(stat(last, &info), 0); /* left to the thread */
    finishing.directory = spec.folder;
    assert_ok(ff_finishing_start(&finishing, error));
    assert_ok(ff_finishing_wait(&finishing, error));
    assert_null(finishing.writer);
    assert_int_equal(stat(last, &info), 0);
    const ff_writer_result wanted = pack_at_once(&metadata, &spec);
    expect_result(&result, &wanted);
    free(last);
    packed_remove_folder(spec.folder);
    free(spec.folder);
    ff_metadata_free(&metadata);
}

static void completes_pending_shards(void **state) {
    (void)state;
    ff_metadata stand_in, metadata;
    ff_writer_result result = {0};
    ff_finishing finishing = {.metadata = &metadata, .result = &result};
    set_spec spec = append_all(true, &stand_in, &finishing.writer);
    const float mean[] = {0.5f, 0.25f, 0.125f}, std[] = {0.5f, 0.75f, 0.375f};
    assert_ok(set_metadata(&spec, &metadata, error));
    assert_ok(ff_metadata_set_statistics(&metadata, mean, std, 3, error));
    assert_ok(ff_metadata_write(&stand_in, &finishing.stand_in, error));
    finishing.directory = spec.folder;
    assert_ok(ff_finishing_start(&finishing, error));
    assert_ok(ff_finishing_wait(&finishing, error));
    const ff_writer_result wanted = pack_at_once(&metadata, &spec);
    expect_result(&result, &wanted);
    packed_remove_folder(spec.folder);
    free(spec.folder);
    ff_metadata_free(&metadata);
    ff_metadata_free(&stand_in);
}

/* The folder is gone: the last shard cannot get its name. */
static void reports_a_failure(void **state) {
    (void)state;
    for (int pending = 0; pending < 2; pending++) {
        ff_metadata metadata;
        ff_writer_result result = {0};
        ff_finishing finishing = {.metadata = &metadata, .result = &result};
        set_spec spec = append_all(pending, &metadata, &finishing.writer);
        if (pending) assert_ok(ff_metadata_write(&metadata, &finishing.stand_in, error));
        packed_remove_folder(spec.folder);
        finishing.directory = spec.folder;
        assert_ok(ff_finishing_start(&finishing, error));
        assert_fails(ff_finishing_wait(&finishing, error), FF_IO, "shard-000002.ffs");
        free(spec.folder);
        ff_metadata_free(&metadata);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finishes_a_split),
        cmocka_unit_test(completes_pending_shards),
        cmocka_unit_test(reports_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
