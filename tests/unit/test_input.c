/* Byte streams with gzip decompressed: what is read, and what is refused. */
#include "format/base/read.h"
#include "tests/unit/check.h"
#include "tools/ffpack/source/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

static char path[] = "/tmp/test-input-XXXXXX";

/* `repeats` gzip members of `bytes` bytes of `value` each. */
static void write_members(size_t bytes, int value, int repeats) {
    unsigned char *plain = malloc(bytes), *packed = malloc(bytes / 100 + 1024);
    assert_non_null(plain);
    assert_non_null(packed);
    memset(plain, value, bytes);
    z_stream zlib = {.next_in = plain,
                     .avail_in = (uInt)bytes,
                     .next_out = packed,
                     .avail_out = (uInt)(bytes / 100 + 1024)};
    assert_int_equal(deflateInit2(&zlib, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&zlib, Z_FINISH), Z_STREAM_END);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < repeats; i++) fwrite(packed, 1, zlib.total_out, file);
    assert_int_equal(fclose(file), 0);
    deflateEnd(&zlib);
    free(plain);
    free(packed);
}

/* Reads all of it; *total = the number of bytes. */
static ff_status read_all(uint64_t *total, ff_error *error) {
    enum { CHUNK = 1 << 20 };
    char *chunk = malloc(CHUNK);
    ff_input *input;
    *total = 0;
    ff_status status = ff_input_open(&input, path, error);
    for (size_t got = CHUNK; got == CHUNK && status == FF_OK; *total += got)
        status = ff_input_read(input, chunk, CHUNK, &got, error);
    ff_input_close(&input);
    free(chunk);
    return status;
}

static void test_members(void **state) {
    (void)state;
    uint64_t total, bytes;
    bool unpacked;
    int fd;
    write_members(100000, 'x', 7);
    assert_ok(read_all(&total, error));
    assert_int_equal(total, 700000);
    assert_ok(ff_input_unpack(path, "/tmp", &fd, &bytes, &unpacked, error));
    assert_true(unpacked);
    assert_int_equal(bytes, 700000);
    char byte;
    assert_int_equal(pread(fd, &byte, 1, 699999), 1);
    assert_int_equal(byte, 'x');
    ff_close_file(&fd);
}

/* Zeros compress to a thousandth of their size: accepted up to a limit, then refused as a bomb. */
static void test_bomb(void **state) {
    (void)state;
    ff_error failure = {0};
    uint64_t total;
    write_members(16 << 20, 0, 3);
    assert_ok(read_all(&total, error));
    assert_int_equal(total, UINT64_C(48) << 20);
    write_members(16 << 20, 0, 66);
    assert_int_equal(read_all(&total, &failure), FF_BAD_DATA);
    assert_non_null(strstr(failure.message, "a compression bomb"));
    assert_non_null(strstr(failure.message, path));
}

int main(void) {
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_members), cmocka_unit_test(test_bomb)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
