/* Sets whose shards are removed, cut, replaced or fail while they are read, in each way of reading:
 * what comes is the old data, or one error that names a shard; never a mixture, never a signal. */
#include "loader/gpu/batches.h"
#include "tests/cuda/sim/device.h"
#include "tests/cuda/sim/loader_plain.h"
#include "tests/unit/ahead_case.h"

#include <dirent.h>
#include <sys/stat.h>

enum { SAMPLES = 3000, BATCH = 50 };

/* ---- ways and harms ------------------------------------------------------------------------- */

typedef struct way {
    const char *name;
    ff_loader_access access;
    ff_order_kind order;
    int threads;
} way;

static const way ways[] = {
    {"mapped, random", FF_ACCESS_MAPPED, FF_ORDER_RANDOM, 2},
    {"mapped, block", FF_ACCESS_MAPPED, FF_ORDER_BLOCK, 2},
    {"mapped, sequential", FF_ACCESS_MAPPED, FF_ORDER_SEQUENTIAL, 2},
    {"read ahead, random", FF_ACCESS_READ, FF_ORDER_RANDOM, 2},
    {"read ahead, block", FF_ACCESS_READ, FF_ORDER_BLOCK, 2},
    {"read ahead, sequential", FF_ACCESS_READ, FF_ORDER_SEQUENTIAL, 2},
    {"read one at a time", FF_ACCESS_READ, FF_ORDER_RANDOM, 0},
};
enum { WAYS = sizeof ways / sizeof *ways };

static set_spec spec_of(bool zstd, uint64_t seed) {
    set_spec set = plain_set(SAMPLES);
    set.height = set.width = 16;
    set.per_block = 10, set.per_shard = 40; /* 75 shards, more than are open at a time */
    set.zstd = zstd;
    set.seed = seed;
    return set;
}

/* Written once; a set that is harmed is a copy. */
static set_spec written[2][2]; /* [zstd][which] */

static set_spec copy_of(bool zstd, int which) {
    set_spec copy = written[zstd][which];
    assert_ok(packed_new_folder(&copy.folder, error));
    DIR *folder = opendir(written[zstd][which].folder);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        char *from = join(written[zstd][which].folder, entry->d_name);
        char *to = join(copy.folder, entry->d_name);
        size_t length;
        uint8_t *bytes = read_whole(from, &length);
        write_whole(to, bytes, length);
        free(bytes);
        free(from);
        free(to);
    }
    closedir(folder);
    return copy;
}

typedef void harm(const set_spec *set, ff_dataset *dataset);

static void for_shards(const set_spec *set, ff_dataset *dataset, uint32_t step,
                       void (*does)(const char *path, uint64_t bytes)) {
    for (uint32_t i = 0; i < ff_dataset_shard_count(dataset); i += step) {
        char path[4096];
        ff_shard_info shard;
        assert_ok(ff_dataset_shard(dataset, i, &shard, error));
        snprintf(path, sizeof path, "%s/%s", set->folder, shard.name);
        does(path, shard.file_bytes);
    }
}

static void unlink_one(const char *path, uint64_t bytes) {
    (void)bytes;
    assert_int_equal(unlink(path), 0);
}

static void cut_one(const char *path, uint64_t bytes) {
    assert_int_equal(truncate(path, (off_t)bytes / 4), 0);
}

static void remove_all(const set_spec *set, ff_dataset *dataset) {
    for_shards(set, dataset, 1, unlink_one);
}

static void cut_some(const set_spec *set, ff_dataset *dataset) {
    for_shards(set, dataset, 20, cut_one);
}

static void fail_one(const set_spec *set, ff_dataset *dataset) {
    ff_shard_info shard;
    (void)set;
    assert_ok(ff_dataset_shard(dataset, 30, &shard, error));
    memcpy(disk.name, shard.name, sizeof disk.name);
    disk.at = shard.file_bytes / 4;
    disk.fails = true;
}

/* Some of them, so that the last page of the samples stays: after the cut it has zeros, and no
 * fault. */
static void cut_within_pages(const set_spec *set, ff_dataset *dataset) {
    uint64_t last[100] = {0};
    for (uint64_t i = 0; i < SAMPLES; i++) {
        ff_entry entry;
        assert_ok(ff_dataset_entry(dataset, i, &entry, error));
        if (!set->zstd && entry.offset > last[entry.shard]) last[entry.shard] = entry.offset;
    }
    for (uint32_t i = 0; i < ff_dataset_shard_count(dataset); i += 4) {
        char path[4096];
        ff_shard_info shard;
        assert_ok(ff_dataset_shard(dataset, i, &shard, error));
        const uint64_t end = last[i] ? last[i] : shard.file_bytes / 2;
        snprintf(path, sizeof path, "%s/%s", set->folder, shard.name);
        assert_int_equal(truncate(path, (off_t)(end / 4096 * 4096 + 1)), 0);
    }
}

/* A file that is cut, and grows again to another one, under the same inode. */
static void overwrite(const set_spec *set, const char *name) {
    char *from = join(written[set->zstd][1].folder, name), *to = join(set->folder, name);
    size_t length;
    uint8_t *bytes = read_whole(from, &length);
    write_whole(to, bytes, length);
    free(bytes);
    free(from);
    free(to);
}

static void overwrite_all(const set_spec *set, ff_dataset *dataset) {
    for (uint32_t i = 0; i < ff_dataset_shard_count(dataset); i++) {
        ff_shard_info shard;
        assert_ok(ff_dataset_shard(dataset, i, &shard, error));
        overwrite(set, shard.name);
    }
}

/* Other samples before the footer that stays, as while another file is written over this one. */
static void write_one(const char *path, uint64_t bytes) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 4096, SEEK_SET), 0);
    for (uint64_t i = 4096; i < bytes / 2; i++) fputc((int)(i % 251), file);
    assert_int_equal(fclose(file), 0);
}

static void write_samples(const set_spec *set, ff_dataset *dataset) {
    for_shards(set, dataset, 1, write_one);
}

/* Removed, and made again: the new files may have the inodes of the old ones. */
static void make_again(const set_spec *set, ff_dataset *dataset) {
    remove_all(set, dataset);
    overwrite_all(set, dataset);
}

static void touch_one(const char *path, uint64_t bytes) {
    (void)bytes;
    assert_int_equal(utimensat(AT_FDCWD, path, NULL, 0), 0);
}

static void touch_all(const set_spec *set, ff_dataset *dataset) {
    for_shards(set, dataset, 1, touch_one);
}

static void overwrite_index(const set_spec *set, ff_dataset *dataset) {
    (void)dataset;
    overwrite(set, "index.ffx");
}

/* In its labels, the last pages of which then have zeros: class 0. */
static void cut_index(const set_spec *set, ff_dataset *dataset) {
    char *path = join(set->folder, "index.ffx");
    const uint64_t bytes = ff_dataset_index_bytes(dataset);
    assert_int_equal(truncate(path, (off_t)(bytes - SAMPLES * 4) / 4096 * 4096 + 1), 0);
    free(path);
}

/* As ffpack --force does: another set with the same names, of the same sizes where that is not
 * compressed, is exchanged for this one, which is removed. */
static void replace_by(const set_spec *set, int which) {
    set_spec other = copy_of(set->zstd, which);
    char *path;
    assert_ok(ff_format(&path, error, "%s.old", set->folder));
    assert_int_equal(rename(set->folder, path), 0);
    assert_int_equal(rename(other.folder, set->folder), 0);
    assert_int_equal(packed_remove_folder(path), 0);
    free(other.folder);
    free(path);
}

static void replace_all(const set_spec *set, ff_dataset *dataset) {
    (void)dataset;
    replace_by(set, 1);
}

static void renew_all(const set_spec *set, ff_dataset *dataset) {
    (void)dataset;
    replace_by(set, 0);
}

/* ---- loaders -------------------------------------------------------------------------------- */

static ff_loader *create(ff_dataset *dataset, const way *how, ff_loader_access access) {
    ff_loader *loader;
    ff_loader_options options = ff_loader_defaults();
    options.batch = BATCH, options.order = how->order, options.threads = how->threads;
    options.block = 40, options.group = 4, options.ahead_bytes = 1 << 20;
    options.access = access;
    assert_ok(ff_loader_create(&loader, dataset, &options, error));
    return loader;
}

/* A set that is harmed after `before` batches; 200 batches later the loader has failed, or has not.
 * fails: it must, or it must not; -1: it may. */
static void harmed(const way *how, bool zstd, harm *harms, int before, int fails) {
    set_spec set = copy_of(zstd, 0);
    ff_dataset *dataset = open_set(&set), *whole = open_set(&written[zstd][0]);
    ff_loader *loader = create(dataset, how, how->access);
    ff_loader *right = create(whole, how, FF_ACCESS_MAPPED);
    check_batches(right, loader, before);
    harms(&set, dataset);
    ff_slot *a, *b;
    ff_error failure = {0}, again = {0};
    ff_status status = FF_OK;
    for (int i = 0; i < 200; i++) {
        status = ff_loader_acquire(loader, &b, &failure);
        if (status != FF_OK) break;
        assert_ok(ff_loader_acquire(right, &a, error));
        check_slots(a, b);
        ff_loader_release(right, a, NULL);
        ff_loader_release(loader, b, NULL);
    }
    if (fails >= 0 && fails != (status != FF_OK))
        fail_msg("%s, %s, after %d: %s '%s'", how->name, zstd ? "zstd" : "raw", before,
                 fails ? "no failure" : "failed:", failure.message);
    if (status != FF_OK) {
        const bool index = harms == cut_index || harms == overwrite_index;
        const bool named = strstr(failure.message, set.folder) &&
                           strstr(failure.message, index ? "/index.ffx" : "/shard-");
        if ((status != FF_IO && status != FF_BAD_DATA) || !named)
            fail_msg("%s: status %d, '%s'", how->name, (int)status, failure.message);
        assert_int_equal(ff_loader_acquire(loader, &b, &again), status);
        assert_string_equal(failure.message, again.message);
    }
    disk.fails = false;
    ff_loader_destroy(&loader);
    ff_loader_destroy(&right);
    ff_dataset_close(&dataset);
    ff_dataset_close(&whole);
    set_remove(&set);
}

/* After an epoch and a part, so that every shard was used; and before the first batch, so that some
 * are found as they are now. */
static void in_each_way(harm *harms, int mapped_fails, int read_fails) {
    for (int i = 0; i < WAYS * 2; i++) {
        const way *how = &ways[i / 2];
        const bool mapped = how->access == FF_ACCESS_MAPPED;
        harmed(how, i % 2, harms, 70, mapped ? mapped_fails : read_fails);
        harmed(how, i % 2, harms, 0, mapped && !mapped_fails ? -1 : read_fails);
    }
}

/* After an epoch and a part alone, without block order; compressed sets in one order alone. */
static void in_most_ways(harm *harms, int mapped_fails, int read_fails) {
    for (int i = 0; i < WAYS; i++) {
        const way *how = &ways[i];
        if (how->order == FF_ORDER_BLOCK) continue;
        const int fails = how->access == FF_ACCESS_MAPPED ? mapped_fails : read_fails;
        harmed(how, false, harms, 70, fails);
        if (how->order == FF_ORDER_RANDOM) harmed(how, true, harms, 70, fails);
    }
}

static void shards_are_cut(void **state) {
    (void)state;
    in_each_way(cut_some, 1, 1);
    in_most_ways(cut_within_pages, 1, 1);
}

/* What is mapped stays; of what is read, 64 files stay open. */
static void shards_are_removed(void **state) {
    (void)state;
    in_each_way(remove_all, 0, 1);
}
static void the_set_is_replaced(void **state) {
    (void)state;
    in_each_way(replace_all, 0, 1);
}

static void shards_are_overwritten(void **state) {
    (void)state;
    in_most_ways(overwrite_all, 1, 1);
}
static void shards_are_made_again(void **state) {
    (void)state;
    in_most_ways(make_again, 0, 1);
}

/* What has the same content is the same set. */
static void the_set_is_renewed(void **state) {
    (void)state;
    in_most_ways(touch_all, 0, 0);
    in_most_ways(renew_all, 0, 0);
}

/* A mapping does not show when its file was written. */
static void samples_are_overwritten(void **state) {
    (void)state;
    for (int i = 0; i < WAYS; i++)
        if (ways[i].access == FF_ACCESS_READ) harmed(&ways[i], false, write_samples, 70, 1);
}

/* The footer is read once after each write, and not with each sample. */
static void a_touched_set_is_read_as_fast(void **state) {
    (void)state;
    set_spec set = copy_of(false, 0);
    ff_dataset *dataset = open_set(&set), *whole = open_set(&written[0][0]);
    const way how = {"", FF_ACCESS_READ, FF_ORDER_SEQUENTIAL, 0};
    ff_loader *loader = create(dataset, &how, how.access);
    ff_loader *right = create(whole, &how, FF_ACCESS_MAPPED);
    check_batches(right, loader, SAMPLES / BATCH);
    touch_all(&set, dataset);
    const uint64_t before = disk.calls;
    check_batches(right, loader, SAMPLES / BATCH);
    assert_in_range(disk.calls - before, SAMPLES, SAMPLES + 2 * ff_dataset_shard_count(dataset));
    ff_loader_destroy(&loader);
    ff_loader_destroy(&right);
    ff_dataset_close(&dataset);
    ff_dataset_close(&whole);
    set_remove(&set);
}

static void the_index_is_cut(void **state) {
    (void)state;
    in_most_ways(cut_index, 1, 1);
    in_most_ways(overwrite_index, 1, 1);
}

/* The last block of a long index has keys alone, which are the same in both. */
static void a_long_index_is_overwritten(void **state) {
    (void)state;
    set_spec set[2];
    ff_dataset *dataset;
    ff_entry entry;
    for (int i = 0; i < 2; i++) {
        set[i] = plain_set(30000);
        set[i].channels = 1, set[i].height = set[i].width = 4;
        set[i].seed = (uint64_t)i;
        assert_ok(set_make(&set[i], error));
    }
    char *from = join(set[1].folder, "index.ffx"), *to = join(set[0].folder, "index.ffx");
    size_t length;
    uint8_t *bytes = read_whole(from, &length);
    dataset = open_set(&set[0]);
    for (uint64_t i = 0; i < set->items; i++)
        assert_ok(ff_dataset_entry(dataset, i, &entry, error));
    assert_int_equal(ff_dataset_index_bytes(dataset), length);
    write_whole(to, bytes, length);
    ff_error failure = {0};
    for (uint64_t i = 0; i < set->items; i += 1000)
        assert_int_equal(ff_dataset_entry(dataset, i, &entry, &failure), FF_IO);
    assert_non_null(strstr(failure.message, "/index.ffx: offset "));
    ff_dataset_close(&dataset);
    free(bytes);
    free(from);
    free(to);
    for (int i = 0; i < 2; i++) set_remove(&set[i]);
}

static void the_disk_fails(void **state) {
    (void)state;
    for (int i = 0; i < WAYS * 2; i++)
        if (ways[i / 2].access == FF_ACCESS_READ) {
            harmed(&ways[i / 2], i % 2, fail_one, 70, 1);
            harmed(&ways[i / 2], i % 2, fail_one, 0, 1);
        }
}

/* ---- uploads -------------------------------------------------------------------------------- */

/* Of a set whose shards have all been used. Every sample is verified again. */
static void upload(ff_loader_access access, bool zstd, int threads, harm *harms, bool fails) {
    set_spec set = copy_of(zstd, 0);
    ff_dataset *dataset;
    ff_device *device;
    ff_batches *batches;
    ff_error failure = {0};
    assert_ok(ff_dataset_open(&dataset, set.folder, FF_VERIFY_ALWAYS, error));
    const way first = {"", access, FF_ORDER_SEQUENTIAL, threads};
    ff_loader *loader = create(dataset, &first, access);
    for (int i = 0; i < SAMPLES / BATCH; i++) {
        ff_slot *slot;
        assert_ok(ff_loader_acquire(loader, &slot, error));
        ff_loader_release(loader, slot, NULL);
    }
    ff_loader_destroy(&loader);
    harms(&set, dataset);
    assert_ok(ff_device_sim_create(&device, FF_HOST_STREAMS_THREADS, 0, 1, error));
    ff_batches_options options = {.loader = ff_loader_defaults(),
                                  .kernels = &ff_loader_plain_kernels,
                                  .placement = FF_PLACEMENT_RESIDENT,
                                  .quiet = true};
    options.loader.batch = BATCH, options.loader.threads = threads;
    options.loader.access = access, options.loader.device = device;
    const ff_status status = ff_batches_create(&batches, dataset, &options, &failure);
    assert_int_equal(status != FF_OK, fails);
    assert_int_equal(batches != NULL, !fails);
    if (fails && (!strstr(failure.message, set.folder) || !strstr(failure.message, "/shard-")))
        fail_msg("'%s'", failure.message);
    disk.fails = false;
    ff_batches_destroy(&batches);
    ff_device_destroy(&device);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

static void uploads_of_cut_shards(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++)
        upload(i & 1 ? FF_ACCESS_READ : FF_ACCESS_MAPPED, i & 2, i & 4 ? 2 : 0,
               i % 3 ? cut_some : cut_within_pages, true);
}

static void uploads(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        const bool read = i & 1;
        const ff_loader_access access = read ? FF_ACCESS_READ : FF_ACCESS_MAPPED;
        upload(access, i & 2, i & 4 ? 2 : 0, remove_all, read);
        upload(access, i & 2, i & 4 ? 2 : 0, replace_all, read);
        if (read) upload(access, i & 2, i & 4 ? 2 : 0, fail_one, true);
    }
}

/* First, and as one test, which writes the sets, too: cmocka installs its own SIGBUS handler at
 * every test, and the guard installs its own only once. */
static void cut(void **state) {
    for (int i = 0; i < 4; i++) {
        written[i / 2][i % 2] = spec_of(i / 2, 5 + (uint64_t)(i % 2));
        assert_ok(set_make(&written[i / 2][i % 2], error));
    }
    shards_are_cut(state);
    shards_are_overwritten(state);
    the_index_is_cut(state);
    uploads_of_cut_shards(state);
}

static int remove_sets(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) set_remove(&written[i / 2][i % 2]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut),
        cmocka_unit_test(shards_are_removed),
        cmocka_unit_test(the_set_is_replaced),
        cmocka_unit_test(shards_are_made_again),
        cmocka_unit_test(the_set_is_renewed),
        cmocka_unit_test(samples_are_overwritten),
        cmocka_unit_test(a_touched_set_is_read_as_fast),
        cmocka_unit_test(a_long_index_is_overwritten),
        cmocka_unit_test(the_disk_fails),
        cmocka_unit_test(uploads),
    };
    return cmocka_run_group_tests_name("loader_harm", tests, NULL, remove_sets);
}
