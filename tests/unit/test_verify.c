/* Every byte is covered: every single-bit flip and every truncation of every file of a tiny set is
 * found by ff_verify_split, and none makes the reader crash. */
#include "format/disk/checksum.h"
#include "tests/unit/address_space.h"
#include "tests/unit/format_set.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Small, with variable shapes, wide labels, padding and a skipped item. */
static set_spec tiny(bool zstd) {
    return (set_spec){.dtype = FF_F16,
                      .layout = FF_CHW,
                      .channels = 1,
                      .height = 3,
                      .width = 5,
                      .variable = true,
                      .alignment = 64,
                      .items = 5,
                      .per_block = 2,
                      .per_shard = 4,
                      .zstd = zstd,
                      .level = 3,
                      .filter = zstd ? FF_FILTER_TABLE : FF_FILTER_NONE,
                      .labels = LABELS_ALL,
                      .shuffled = true,
                      .seed = 3};
}

/* Reads whatever the reader still gives. */
static void read_all(const char *folder, ff_verify verify) {
    ff_dataset *dataset;
    ff_reader *reader;
    ff_error failure = {0};
    if (ff_dataset_open(&dataset, folder, verify, &failure) != FF_OK) {
        assert_true(failure.message[0]);
        return;
    }
    assert_ok(ff_reader_open(&reader, dataset, error));
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    for (uint64_t i = 0; i < ff_dataset_count(dataset); i++) {
        ff_view view;
        uint8_t key[FF_KEY_LIMIT_BYTES], label[256];
        size_t key_bytes;
        int64_t value;
        volatile unsigned sum = 0;
        if (ff_reader_sample(reader, i, &view, &failure) == FF_OK)
            for (uint64_t k = 0; k < view.tensor_bytes; k++)
                sum += ((const uint8_t *)view.tensor)[k];
        (void)!ff_dataset_key(dataset, i, key, &key_bytes, &failure);
        for (size_t f = 0; f < metadata->field_count; f++) {
            (void)!ff_reader_label(reader, i, f, label, &failure);
            (void)!ff_dataset_class(dataset, i, f, &value, &failure);
        }
    }
    ff_reader_close(&reader);
    ff_dataset_close(&dataset);
}

static void must_be_found(const char *folder, const char *what, size_t at, unsigned bit) {
    ff_error error = {0};
    ff_status status = ff_verify_split(folder, NULL, 1, NULL, NULL, &error);
    if ((status != FF_BAD_DATA && status != FF_IO) || !error.message[0] ||
        !strstr(error.message, folder))
        fail_msg("%s: byte %zu bit %u: status %d, '%s'", what, at, bit, status, error.message);
}

static void flip_everything(bool zstd) {
    set_spec spec = tiny(zstd);
    char *folder = new_folder();
    assert_ok(set_write(&spec, folder, NULL, error));
    set_check(&spec, folder, FF_VERIFY_FIRST);
    const char *const names[] = {"shard-000000.ffs", "shard-000001.ffs", "index.ffx"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        char *path = join(folder, names[n]);
        int descriptor = open(path, O_RDWR);
        assert_true(descriptor >= 0);
        size_t length = (size_t)lseek(descriptor, 0, SEEK_END);
        uint8_t *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        assert_true(map != MAP_FAILED);
        close(descriptor);
        for (size_t at = 0; at < length; at++)
            for (unsigned bit = 0; bit < 8; bit++) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
                if (bit != at * 5 % 8)
                    continue; /* one bit per byte: this run checks memory accesses */
#endif
                map[at] ^= (uint8_t)(1u << bit);
                must_be_found(folder, names[n], at, bit);
                if (bit == at * 5 % 8 && at % 7 == 0) read_all(folder, FF_VERIFY_OFF);
                if (bit == at * 5 % 8 && at % 7 == 1) read_all(folder, FF_VERIFY_ALWAYS);
                map[at] ^= (uint8_t)(1u << bit);
            }
        assert_int_equal(munmap(map, length), 0);
        free(path);
    }
    assert_ok(ff_verify_split(folder, NULL, 1, NULL, NULL, error)); /* everything is restored */
    remove_folder(folder);
}

static void flips_of_a_raw_set(void **state) {
    (void)state;
    flip_everything(false);
}

static void flips_of_a_zstd_set(void **state) {
    (void)state;
    flip_everything(true);
}

static void truncations(void **state) {
    (void)state;
    for (int zstd = 0; zstd < 2; zstd++) {
        set_spec spec = tiny(zstd);
        char *folder = new_folder();
        ff_writer_result result;
        assert_ok(set_write(&spec, folder, &result, error));
        const char *const names[] = {"shard-000000.ffs", "shard-000001.ffs", "index.ffx"};
        for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
            char *path = join(folder, names[n]);
            size_t length;
            uint8_t *bytes = read_whole(path, &length);
            for (size_t keep = length; keep-- > 0;) {
                assert_int_equal(truncate(path, (off_t)keep), 0);
                must_be_found(folder, names[n], keep, 99);
                if (keep % 16 == 0) read_all(folder, FF_VERIFY_OFF);
                if (n < 2 && keep % 16 == 1) {
                    ff_error failure;
                    assert_true(ff_index_build(folder, NULL, &result, NULL, &failure) != FF_OK);
                }
            }
            uint8_t *longer = calloc(length + 64, 1);
            memcpy(longer, bytes, length);
            for (size_t more = 1; more <= 64; more += 63) {
                write_whole(path, longer, length + more);
                must_be_found(folder, names[n], length + more, 99);
            }
            write_whole(path, bytes, length);
            free(longer);
            free(bytes);
            free(path);
        }
        assert_ok(ff_verify_split(folder, NULL, 1, NULL, NULL, error));
        remove_folder(folder);
    }
}

typedef struct reports {
    size_t problems;
    uint64_t done, total;
    uint64_t stops_at; /* it stops once this number of bytes are done; 0 = never */
} reports;

static bool on_report(void *context, const char *message, uint64_t done, uint64_t total) {
    reports *seen = context;
    seen->problems += message != NULL;
    assert_true(done >= seen->done && done <= total);
    seen->done = done;
    seen->total = total;
    return !seen->stops_at || done < seen->stops_at;
}

/* Every broken sample is named, and the progress reaches its total. */
static void reports_all(void **state) {
    (void)state;
    set_spec spec = tiny(false);
    spec.items = 40;
    char *folder = new_folder();
    ff_writer_result result;
    reports seen = {0};
    assert_ok(set_write(&spec, folder, &result, error));
    assert_ok(ff_verify_split(folder, NULL, 3, on_report, &seen, error));
    assert_int_equal(seen.problems, 0);
    assert_int_equal(seen.done, seen.total);
    assert_int_equal(seen.total, result.file_bytes);
    for (int n = 0; n < 10; n += 3) {
        char name[32];
        ff_shard_name(name, (uint32_t)n);
        char *path = join(folder, name);
        size_t length;
        uint8_t *bytes = read_whole(path, &length);
        bytes[FF_HEADER_BYTES] ^= 1;
        write_whole(path, bytes, length);
        free(bytes);
        free(path);
    }
    seen = (reports){0};
    assert_fails(ff_verify_split(folder, NULL, 3, on_report, &seen, error), FF_BAD_DATA,
                 "checksum");
    assert_int_equal(seen.problems, 4);
    assert_int_equal(seen.done, seen.total);
    /* Where it is stopped, that is all that is said, also of a broken set. */
    seen = (reports){.stops_at = 1};
    assert_fails(ff_verify_split(folder, NULL, 3, on_report, &seen, error), FF_INTERRUPTED,
                 "stopped");
    /* It fails with the first one's message. */
    assert_fails(ff_verify_split(folder, NULL, 1, NULL, NULL, error), FF_BAD_DATA,
                 "shard-000000.ffs");
    remove_folder(folder);
}

/* An index with matching checksums that differs from the shards. */
static void index_that_disagrees(void **state) {
    (void)state;
    for (int zstd = 0; zstd < 2; zstd++)
        for (int what = 0; what < 8; what++) {
            set_spec spec = tiny(zstd);
            spec.variable = false;
            char *folder = new_folder(), *path = join(folder, FF_INDEX_NAME);
            assert_ok(set_write(&spec, folder, NULL, error));
            size_t length;
            uint8_t *bytes = read_whole(path, &length);
            ff_index_header header;
            assert_ok(ff_index_header_decode(&header, bytes, length, path, error));
            uint8_t *entry = bytes + header.section[FF_INDEX_ENTRIES].offset;
            if (what == 0) { /* two samples' tensors exchanged */
                uint8_t kept[16];
                memcpy(kept, entry + 8, 8);
                memcpy(kept + 8, entry + 24, 8);
                memcpy(entry + 8, entry + 64 + 8, 8);
                memcpy(entry + 24, entry + 64 + 24, 8);
                memcpy(entry + 64 + 8, kept, 8);
                memcpy(entry + 64 + 24, kept + 8, 8);
            } else if (what == 1) {
                entry[32] ^= 1; /* source checksum */
            } else if (what == 2) {
                bytes[header.section[FF_INDEX_LABELS].offset] ^= 1;
            } else if (what == 3) {
                bytes[header.section[FF_INDEX_KEYS].offset] ^= 1;
            } else if (what == 5) { /* two samples' offsets exchanged, and nothing else */
                uint8_t kept[8];
                memcpy(kept, entry + 8, 8);
                memcpy(entry + 8, entry + 64 + 8, 8);
                memcpy(entry + 64 + 8, kept, 8);
            } else if (what == 6) { /* a key one byte longer than allowed, with space for it */
                assert_true(header.section[FF_INDEX_KEYS].bytes > FF_KEY_LIMIT_BYTES);
                ff_store_u64(entry + 40, 0);
                ff_store_u16(entry + 60, FF_KEY_LIMIT_BYTES + 1);
            } else if (what == 7) { /* a class one above the last */
                ff_store_u32(bytes + header.section[FF_INDEX_LABELS].offset, 5);
            } else {
                entry[0] = 17; /* item: out of order or beyond */
            }
            uint64_t end = header.section[FF_INDEX_CHECKSUMS].offset;
            ff_store_u64(bytes + end, XXH3_64bits(bytes + FF_HEADER_BYTES, end - FF_HEADER_BYTES));
            header.section[FF_INDEX_CHECKSUMS].checksum = XXH3_64bits(bytes + end, 8);
            ff_index_header_encode(&header, bytes);
            write_whole(path, bytes, length);
            assert_fails(ff_verify_split(folder, NULL, 1, NULL, NULL, error), FF_BAD_DATA, folder);
            if (what >= 6)
                assert_fails(ff_verify_split(folder, NULL, 1, NULL, NULL, error), FF_BAD_DATA,
                             what == 6 ? "is out of range" : "has class 5 in field");
            free(bytes);
            free(path);
            remove_folder(folder);
        }
}

/* A shard that is truncated while it is mapped: a message, not a signal. */
static void shard_shrinks_while_open(void **state) {
    (void)state;
    for (int zstd = 0; zstd < 2; zstd++) {
        set_spec spec = tiny(zstd);
        spec.height = spec.width = 60;
        char *folder = new_folder(), *path = join(folder, "shard-000000.ffs");
        ff_dataset *dataset;
        ff_reader *reader;
        ff_view view;
        ff_entry entry;
        assert_ok(set_write(&spec, folder, NULL, error));
        assert_ok(ff_dataset_open(&dataset, folder, FF_VERIFY_ALWAYS, error));
        assert_ok(ff_reader_open(&reader, dataset, error));
        uint64_t number = 0;
        do {
            assert_ok(ff_dataset_entry(dataset, number++, &entry, error));
        } while (entry.shard);
        number--;
        assert_ok(ff_reader_sample(reader, number, &view, error));
        ff_reader_close(&reader);
        assert_ok(ff_reader_open(&reader, dataset, error));
        assert_int_equal(truncate(path, 4096), 0);
        assert_fails(ff_reader_sample(reader, number, &view, error), FF_IO, "shard-000000.ffs");
        assert_fails(ff_dataset_fault(dataset, dataset, error), FF_IO, folder);
        ff_reader_close(&reader);
        ff_dataset_close(&dataset);
        free(path);
        remove_folder(folder);
    }
}

/* In a process that may map a few shards, not all of them: the index is built, and every byte is
 * checked, in any order of storage. */
static int build_and_verify(const set_spec *set) {
    ff_writer_result result;
    ff_error failure = {0}, *error = &failure;
    if (!limit_address_space(16u << 20)) return 2;
    if (ff_index_build(set->folder, NULL, &result, NULL, error) == FF_OK) {
        if (result.shard_count != 40 || result.file_bytes < (48u << 20)) return 3;
        if (ff_verify_split(set->folder, NULL, 1, NULL, NULL, error) == FF_OK) return 0;
    }
    print_message("%s\n", failure.message);
    return 4;
}

static void more_shards_than_can_be_mapped(void **state) {
    (void)state;
    for (int shuffled = 0; shuffled < 2; shuffled++) {
        set_spec set = small_set;
        set.height = set.width = 256;
        set.items = 160;
        set.per_shard = 4;
        set.shuffled = shuffled;
        assert_ok(set_make(&set, error));
        int result;
        const pid_t child = fork();
        if (!child) _exit(build_and_verify(&set));
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_int_equal(result, 0);
        set_remove(&set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* first: cmocka installs its own handlers before each test, the guard its handler once */
        cmocka_unit_test(shard_shrinks_while_open),
        cmocka_unit_test(flips_of_a_raw_set),
        cmocka_unit_test(flips_of_a_zstd_set),
        cmocka_unit_test(truncations),
        cmocka_unit_test(reports_all),
        cmocka_unit_test(index_that_disagrees),
        cmocka_unit_test(more_shards_than_can_be_mapped),
    };
    return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
