/* Event files: checksums, the bytes of a record, one write a flush, and a disk that is full. Python
 * reads them, too: report/test_events.py. */
#include "train/report/events/events.h"

#include "format/base/bytes.h"
#include "format/base/crc32c.h"
#include "format/base/read.h"
#include "tests/unit/format_set.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    int calls;
    bool interrupted; /* the next call */
    size_t most;      /* bytes of a call; then the disk is full */
} disk = {.most = SIZE_MAX};

ssize_t write(int file, const void *from, size_t length) {
    if (disk.interrupted || disk.most == 0) {
        errno = disk.interrupted ? EINTR : ENOSPC;
        disk.interrupted = false;
        return -1;
    }
    disk.calls++;
    return syscall(SYS_write, file, from, length < disk.most ? length : disk.most);
}

/* RFC 3720 B.4, and the usual check value. */
static void checksums_are_castagnoli(void **state) {
    (void)state;
    uint8_t bytes[32] = {0};
    assert_int_equal(ff_crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(ff_crc32c("", 0), 0);
    assert_int_equal(ff_crc32c(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, 32);
    assert_int_equal(ff_crc32c(bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)i;
    assert_int_equal(ff_crc32c(bytes, 32), 0x46dd794e);
    assert_int_equal(ff_crc32c_masked("123456789", 9), 0xc78ab0e5);
}

/* The only file in the folder. */
static void read_file(const char *folder, ff_buffer *all) {
    char path[600] = "";
    DIR *list = opendir(folder);
    assert_non_null(list);
    for (struct dirent *at; (at = readdir(list));) {
        if (at->d_name[0] == '.') continue;
        assert_string_equal(path, "");
        assert_memory_equal(at->d_name, "events.out.tfevents.", 20);
        snprintf(path, sizeof path, "%s/%s", folder, at->d_name);
    }
    closedir(list);
    assert_ok(ff_read_whole(all, path, 1 << 20, error));
}

/* Checks every record's frame and returns their number; *last = the last message. */
static int records_of(const ff_buffer *all, const uint8_t **last, uint64_t *length) {
    int count = 0;
    for (size_t at = 0; at < all->length; count++) {
        const uint8_t *frame = (const uint8_t *)all->bytes + at;
        assert_true(at + 12 <= all->length);
        *length = ff_load_u64(frame);
        *last = frame + 12;
        assert_int_equal(ff_load_u32(frame + 8), ff_crc32c_masked(frame, 8));
        assert_true(at + 16 + *length <= all->length);
        assert_int_equal(ff_load_u32(*last + *length), ff_crc32c_masked(*last, *length));
        at += 16 + *length;
    }
    return count;
}

static int records_in(const char *folder, const uint8_t *wanted, size_t bytes) {
    ff_buffer all = {0};
    const uint8_t *last = NULL;
    uint64_t length = 0;
    read_file(folder, &all);
    const int count = records_of(&all, &last, &length);
    /* Not the wall time: key and 8 bytes. */
    if (wanted) assert_int_equal(length, 9 + bytes);
    if (wanted) assert_memory_equal(last + 9, wanted, bytes);
    ff_buffer_free(&all);
    return count;
}

static void records_have_their_bytes(void **state) {
    (void)state;
    char *folder = new_folder(), inside[300];
    ff_events *events;
    snprintf(inside, sizeof inside, "%s/not/there", folder);
    assert_ok(ff_events_create(&events, inside, error));
    assert_int_equal(records_in(inside,
                                (const uint8_t *)"\x10\0\x1a\x0d"
                                                 "brain.Event:2",
                                17),
                     1);

    disk.calls = 0;
    ff_events_scalar(events, "a/b", 300, -1.5);
    assert_int_equal(disk.calls, 0);
    disk.interrupted = true;
    assert_ok(ff_events_flush(events, error));
    assert_int_equal(disk.calls, 1);
    assert_int_equal(records_in(inside,
                                (const uint8_t *)"\x10\xac\x02\x2a\x0c\x0a\x0a\x0a\x03"
                                                 "a/b"
                                                 "\x15\0\0\xc0\xbf",
                                17),
                     2);

    ff_buffer png = {0};
    assert_ok(ff_buffer_add(&png, "PNG", 3, error));
    ff_events_image(events, "x", 0, &png, 7, 5);
    assert_ok(ff_events_flush(events, error));
    assert_int_equal(records_in(inside,
                                (const uint8_t *)"\x10\0\x2a\x12\x0a\x10\x0a\x01x\x22\x0b"
                                                 "\x08\x05\x10\x07\x18\x03\x22\x03PNG",
                                22),
                     3);
    ff_buffer_free(&png);

    disk.calls = 0;
    for (int i = 0; i < 10; i++) ff_events_scalar(events, "a/b", (uint64_t)i, i % 3 ? NAN : 1e300);
    assert_ok(ff_events_flush(events, error));
    assert_ok(ff_events_flush(events, error));
    assert_int_equal(disk.calls, 1);
    assert_int_equal(records_in(inside, NULL, 0), 13);

    /* Another run at the same second: a file of its own. */
    ff_events *other;
    assert_ok(ff_events_create(&other, inside, error));
    ff_events_close(&other);
    ff_events_close(&events);
    ff_events_close(&events);
    remove_folder(folder);
}

static void a_full_disk_leaves_whole_records(void **state) {
    (void)state;
    char *folder = new_folder();
    ff_events *events;
    assert_ok(ff_events_create(&events, folder, error));
    ff_events_scalar(events, "kept", 1, 1);
    assert_ok(ff_events_flush(events, error));
    static const size_t most[] = {0, 1, 30};
    for (int i = 0; i < 3; i++) {
        ff_events_scalar(events, "lost", 2, 2);
        disk.most = most[i];
        assert_fails(ff_events_flush(events, error), FF_IO, "cannot write: No space left");
        disk.most = SIZE_MAX;
        assert_int_equal(records_in(folder, NULL, 0), 2);
    }
    ff_events_scalar(events, "kept", 3, 3);
    assert_ok(ff_events_flush(events, error));
    assert_int_equal(records_in(folder, NULL, 0), 3);
    ff_events_close(&events);
    remove_folder(folder);
}

static void a_folder_that_cannot_be_made_is_named(void **state) {
    (void)state;
    ff_events *events;
    assert_fails(ff_events_create(&events, "/dev/null/events", error), FF_IO, "/dev/null");
    assert_fails(ff_events_create(&events, "", error), FF_IO, "cannot create");
    assert_null(events);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_castagnoli),
        cmocka_unit_test(records_have_their_bytes),
        cmocka_unit_test(a_full_disk_leaves_whole_records),
        cmocka_unit_test(a_folder_that_cannot_be_made_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
