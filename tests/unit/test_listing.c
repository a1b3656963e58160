/* The listing on disk and the byte stream under the sources. */
#include "format/base/path.h"
#include "format/base/text.h"
#include "tests/unit/check.h"
#include "tools/ffpack/source/input.h"
#include "tools/ffpack/source/listing.h"
#include "tools/ffpack/source/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

enum { ITEMS = 20000 };

static void expect_item(ff_listing_cursor *cursor, uint64_t number) {
    ff_item item;
    char key[64];
    int32_t label[3] = {(int32_t)number, -1, (int32_t)(number % 7)};
    int length = snprintf(key, sizeof key, "key/%llu", (unsigned long long)(number * number));
    assert_ok(ff_listing_item(cursor, number, &item, error));
    assert_int_equal(item.part, number % 5);
    assert_int_equal(item.offset, number * 11);
    assert_int_equal(item.bytes, number % 100);
    assert_int_equal(item.key_bytes, number % 9 ? (size_t)length : 0);
    if (number % 9) assert_memory_equal(item.key, key, (size_t)length);
    assert_memory_equal(item.labels, label, sizeof label);
}

static ff_listing *list(uint64_t changed) {
    ff_listing *listing;
    assert_ok(ff_listing_create(&listing, "/tmp", 12, error));
    for (uint64_t number = 0; number < ITEMS; number++) {
        char key[64];
        int32_t label[3] = {(int32_t)number, -1, (int32_t)(number % 7)};
        int length = snprintf(key, sizeof key, "key/%llu", (unsigned long long)(number * number));
        if (number == changed) label[1] = 0;
        ff_item item = {.part = (uint32_t)(number % 5),
                        .offset = number * 11,
                        .bytes = number % 100,
                        .key = key,
                        .key_bytes = number % 9 ? (size_t)length : 0,
                        .labels = label};
        assert_ok(ff_listing_add(listing, &item, error));
    }
    assert_ok(ff_listing_finish(listing, error));
    return listing;
}

static void listing_returns_what_was_added(void **state) {
    (void)state;
    ff_listing *listing = list(ITEMS);
    ff_listing_cursor *cursor;
    assert_int_equal(ff_listing_count(listing), ITEMS);
    assert_ok(ff_listing_cursor_create(&cursor, listing, error));
    for (uint64_t number = 0; number < ITEMS; number++) expect_item(cursor, number);
    for (uint64_t number = ITEMS; number-- > 0;) expect_item(cursor, number);
    uint64_t number = 1;
    for (int i = 0; i < 5000; i++) {
        number = (number * 7919 + 13) % ITEMS;
        expect_item(cursor, number);
    }
    for (number = 0; number < ITEMS; number += 300) /* runs, as workers ask for them */
        for (uint64_t k = number; k < number + 100 && k < ITEMS; k++) expect_item(cursor, k);
    ff_listing_cursor_destroy(&cursor);
    ff_listing_destroy(&listing);
}

static void listing_hash_tells_changes(void **state) {
    (void)state;
    ff_listing *first = list(ITEMS), *same = list(ITEMS), *other = list(4321);
    uint8_t hash[3][16];
    ff_listing_hash(first, hash[0]);
    ff_listing_hash(same, hash[1]);
    ff_listing_hash(other, hash[2]);
    assert_memory_equal(hash[0], hash[1], 16);
    assert_memory_not_equal(hash[0], hash[2], 16);
    ff_listing_destroy(&first);
    ff_listing_destroy(&same);
    ff_listing_destroy(&other);
}

static void listing_refuses_long_names(void **state) {
    (void)state;
    ff_error failure = {0};
    ff_listing *listing;
    static char name[5000];
    memset(name, 'x', sizeof name);
    assert_ok(ff_listing_create(&listing, "/tmp", 0, error));
    ff_item item = {.key = name, .key_bytes = sizeof name};
    assert_int_equal(ff_listing_add(listing, &item, &failure), FF_BAD_DATA);
    ff_listing_destroy(&listing);
    assert_int_equal(ff_listing_create(&listing, "/nowhere", 0, &failure), FF_IO);
    assert_null(listing);
}

/* ---- input ---------------------------------------------------------------------------------- */

static char path[] = "/tmp/ffpack-input-XXXXXX";

static void write_file(const void *bytes, size_t length) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static size_t compress_to(unsigned char *to, size_t room, const char *text) {
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)text,
                  .avail_in = (unsigned)strlen(text),
                  .next_out = to,
                  .avail_out = (unsigned)room};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t length = room - z.avail_out;
    deflateEnd(&z);
    return length;
}

/* Reads the file `step` bytes at a time. */
static ff_status read_all(char *to, size_t room, size_t step, size_t *length, ff_error *error) {
    ff_input *input;
    *length = 0;
    FF_TRY(ff_input_open(&input, path, error));
    ff_status status;
    size_t got;
    do {
        if (step > room - *length) step = room - *length;
        status = ff_input_read(input, to + *length, step, &got, error);
        *length += got;
    } while (status == FF_OK && got == step && step);
    ff_input_close(&input);
    return status;
}

static void records_have_keys(void **state) {
    (void)state;
    static const uint64_t numbers[] = {0, 9, 10, 4095, 1000000, UINT64_MAX};
    char key[FF_RECORD_KEY_BYTES], long_name[600], wanted[600];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const char *const names[] = {"", "data_batch_1.bin", long_name};
    for (size_t n = 0; n < 3; n++)
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            const int length = snprintf(wanted, sizeof wanted, "%.480s:%llu", names[n],
                                        (unsigned long long)numbers[i]);
            assert_int_equal(ff_record_key(key, names[n], numbers[i]), (size_t)length);
            assert_memory_equal(key, wanted, (size_t)length);
        }
}

static void input_reads_plain_and_gzip(void **state) {
    (void)state;
    unsigned char packed[512] = {0};
    char text[256];
    size_t length, first = compress_to(packed, 256, "hello, ");
    size_t both = first + compress_to(packed + first, 200, "world");
    for (size_t step = 1; step < 20; step += 3) {
        write_file("hello, world", 12);
        assert_ok(read_all(text, sizeof text, step, &length, error));
        assert_int_equal(length, 12);
        /* Two members, then padding. */
        write_file(packed, both + 5);
        assert_ok(read_all(text, sizeof text, step, &length, error));
        assert_int_equal(length, 12);
        assert_memory_equal(text, "hello, world", 12);
    }
    write_file("", 0);
    assert_ok(read_all(text, sizeof text, 8, &length, error));
    assert_int_equal(length, 0);
}

static void input_refuses_broken_gzip(void **state) {
    (void)state;
    unsigned char packed[512];
    char text[256];
    size_t length, whole = compress_to(packed, sizeof packed, "hello, world, hello, world");
    for (size_t cut = 2; cut < whole; cut++) {
        ff_error error = {0};
        write_file(packed, cut);
        assert_int_equal(read_all(text, sizeof text, 64, &length, &error), FF_BAD_DATA);
        assert_non_null(strstr(error.message, path));
    }
    /* A flipped bit in data, length or checksum; the bits that pad the data to a byte do not
     * matter. */
    for (size_t place = 10; place < whole; place++) {
        ff_error error = {0};
        packed[place] ^= 16;
        write_file(packed, whole);
        packed[place] ^= 16;
        ff_status status = read_all(text, sizeof text, 64, &length, &error);
        if (status == FF_OK) assert_memory_equal(text, "hello, world, hello, world", length);
        if (place != whole - 9) assert_int_equal(status, FF_BAD_DATA);
    }
    ff_error error = {0};
    packed[whole] = 'x';
    write_file(packed, whole + 1);
    assert_int_equal(read_all(text, sizeof text, 64, &length, &error), FF_BAD_DATA);
}

static void lines_and_paths(void **state) {
    (void)state;
    char text[] = "one\r\n\ntwo\nthree";
    char *cursor = text;
    assert_string_equal(ff_text_line(&cursor), "one");
    assert_string_equal(ff_text_line(&cursor), "");
    assert_string_equal(ff_text_line(&cursor), "two");
    assert_string_equal(ff_text_line(&cursor), "three");
    assert_null(ff_text_line(&cursor));
    assert_string_equal(ff_path_base("a/b.c"), "b.c");
    assert_string_equal(ff_path_base("b"), "b");
    assert_string_equal(ff_path_base("a/b//"), "b//");
    assert_string_equal(ff_path_base("/"), "/");
}

static int make_path(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

/* A part of a source must still be as long as it was when it was listed; longer is changed, too. */
static void parts_keep_their_sizes(void **state) {
    (void)state;
    char name[] = "/tmp/ffpack-part-XXXXXX";
    const int fd = mkstemp(name);
    assert_true(fd >= 0 && write(fd, "0123456789", 10) == 10);
    for (uint64_t listed = 9; listed <= 11; listed++) {
        ff_error failure = {0};
        ff_source *source = calloc(1, sizeof *source);
        assert_non_null(source);
        ff_source_reader *reader;
        ff_item item = {.offset = 3, .bytes = 4, .key = "key", .key_bytes = 3};
        ff_image_file file;
        assert_ok(ff_source_add_file(source, name, listed, &item.part, error));
        assert_ok(ff_source_reader_create(&reader, source, NULL, error));
        const ff_source_split split = {0};
        const ff_status status = ff_source_read(reader, &split, &item, &file, &failure);
        assert_int_equal(status, listed == 10 ? FF_OK : FF_BAD_DATA);
        if (listed == 10)
            assert_memory_equal(file.bytes, "3456", 4);
        else
            assert_non_null(strstr(failure.message, "changed since it was listed: has 10 bytes"));
        ff_source_reader_destroy(&reader);
        ff_source_close(&source);
    }
    close(fd);
    unlink(name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listing_returns_what_was_added),
        cmocka_unit_test(listing_hash_tells_changes),
        cmocka_unit_test(listing_refuses_long_names),
        cmocka_unit_test(records_have_keys),
        cmocka_unit_test(input_reads_plain_and_gzip),
        cmocka_unit_test(input_refuses_broken_gzip),
        cmocka_unit_test(lines_and_paths),
        cmocka_unit_test(parts_keep_their_sizes),
    };
    return cmocka_run_group_tests_name("listing", tests, make_path, remove_path);
}
