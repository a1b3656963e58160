/* Loaders that read ahead next to loaders of the mapped set, for their tests, which replace pread
 * to count reads and make them fail. */
#ifndef FF_TESTS_AHEAD_CASE_H
#define FF_TESTS_AHEAD_CASE_H

#include "loader/host/loader.h"
#include "loader/sequence/sequence.h"
#include "tests/unit/format_set.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>

static struct {
    atomic_uint_fast64_t bytes, calls;
    atomic_bool fails; /* reads that contain this byte of a shard fail with EIO */
    uint64_t at;
    char name[32];
} disk;

static inline bool is_shard(int file, const char *name) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return strstr(path, name);
}

ssize_t pread(int file, void *to, size_t length, off_t offset) {
    if (disk.fails && disk.at >= (uint64_t)offset && disk.at < (uint64_t)offset + length &&
        is_shard(file, disk.name)) {
        errno = EIO;
        return -1;
    }
    const ssize_t got = syscall(SYS_pread64, file, to, length, offset);
    if (got > 0 && length >= 4096) {
        disk.calls++;
        disk.bytes += (uint64_t)got;
    }
    return got;
}

static inline void check_slots(const ff_slot *a, const ff_slot *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->position, b->position);
    assert_int_equal(a->row_bytes, b->row_bytes);
    assert_int_equal(a->last, b->last);
    if (!a->rows) return;
    assert_memory_equal(a->data, b->data, a->rows * a->row_bytes);
    assert_memory_equal(a->weight, b->weight, a->rows * sizeof *a->weight);
    assert_memory_equal(a->source, b->source, a->rows * sizeof *a->source);
    for (size_t i = 0; i < a->label_count; i++)
        assert_memory_equal(a->label[i].values, b->label[i].values,
                            a->rows * ff_slot_label_bytes(&a->label[i]));
}

/* Compares up to `batches` batches of both. */
static inline void check_batches(ff_loader *a, ff_loader *b, int batches) {
    for (int i = 0; i < batches; i++) {
        ff_slot *left, *right;
        assert_ok(ff_loader_acquire(a, &left, error));
        assert_ok(ff_loader_acquire(b, &right, error));
        assert_int_equal(!left, !right);
        if (!left) return;
        check_slots(left, right);
        ff_loader_release(a, left, NULL);
        ff_loader_release(b, right, NULL);
    }
}

static inline ff_loader *open_loader(ff_dataset *dataset, const ff_loader_options *given,
                                     ff_loader_access access) {
    ff_loader *loader;
    ff_loader_options options = *given;
    options.access = access;
    assert_ok(ff_loader_create(&loader, dataset, &options, error));
    const ff_loader_info info = ff_loader_describe(loader);
    assert_int_equal(info.ahead_bytes != 0, access == FF_ACCESS_READ && info.rows);
    return loader;
}

static inline void compare(ff_dataset *dataset, const ff_loader_options *options) {
    ff_loader *mapped = open_loader(dataset, options, FF_ACCESS_MAPPED);
    ff_loader *ahead = open_loader(dataset, options, FF_ACCESS_READ);
    check_batches(mapped, ahead, 1000);
    ff_loader_destroy(&mapped);
    ff_loader_destroy(&ahead);
}

#endif
