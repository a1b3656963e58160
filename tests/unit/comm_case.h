/* Checks, as one rank, what every communicator must do: sums against a plain tree bit for bit,
 * broadcast, all_gather, recordings. */
#ifndef FF_TESTS_COMM_CASE_H
#define FF_TESTS_COMM_CASE_H

#include "format/base/memory.h"
#include "train/comm/collective/comm.h"

#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_THREAD__
enum { COMM_LENGTHS = 6, COMM_LONGEST = 50003 };
#else /* more than one piece of a staged call */
enum { COMM_LENGTHS = 6, COMM_LONGEST = 1100003 };
#endif
static const size_t comm_lengths[COMM_LENGTHS] = {0, 1, 7, 64, 5003, COMM_LONGEST};

/* Element `i` of rank `rank`: of very different sizes, so that another order of the sums results in
 * other bits. */
static inline float comm_value(int rank, size_t i, uint64_t seed) {
    uint64_t x = seed * 1000003u + i * 65u + (uint64_t)rank + 1;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    float fraction = (float)(int32_t)(x >> 40) * 0x1p-23f - 1.0f;
    return fraction * (float)(1u << (x & 7));
}

/* comm.h's tree by its definition. */
static inline float comm_tree(const float *values, int count) {
    if (count == 1) return values[0];
    int left = 1;
    while (left * 2 < count) left *= 2;
    return comm_tree(values, left) + comm_tree(values + left, count - left);
}

typedef struct comm_case {
    ff_comm *comm;
    ff_device *device;
    ff_stream *stream;
    char *pinned, *values; /* of the host, of the device: [size][COMM_LONGEST] f32 */
} comm_case;

/* values[n] as `dtype`, to the device. */
static inline ff_status comm_put(comm_case *c, size_t n, ff_dtype dtype, uint64_t seed,
                                 ff_error *error) {
    const size_t element = ff_dtype_bytes(dtype);
    for (size_t i = 0; i < n; i++) {
        float value = comm_value(c->comm->rank, i, seed);
        ff_convert(c->pinned + i * element, dtype, &value, FF_F32, 1);
    }
    return c->device->table->copy(c->device, c->stream, c->values, c->pinned, n * element, error);
}

static inline ff_status comm_get(comm_case *c, size_t bytes, ff_error *error) {
    FF_TRY(c->device->table->copy(c->device, c->stream, c->pinned, c->values, bytes, error));
    FF_TRY(c->device->table->stream_synchronize(c->device, c->stream, error));
    return c->comm->table->check(c->comm, error);
}

static inline ff_status comm_expect_sum(comm_case *c, size_t n, ff_dtype dtype, uint64_t seed,
                                        ff_error *error) {
    const size_t element = ff_dtype_bytes(dtype);
    FF_TRY(comm_get(c, n * element, error));
    for (size_t i = 0; i < n; i++) {
        float parts[64];
        char wanted[4];
        for (int r = 0; r < c->comm->size; r++) {
            float value = comm_value(r, i, seed);
            ff_convert(wanted, dtype, &value, FF_F32, 1);
            ff_convert(&parts[r], FF_F32, wanted, dtype, 1);
        }
        float sum = comm_tree(parts, c->comm->size);
        ff_convert(wanted, dtype, &sum, FF_F32, 1);
        if (memcmp(c->pinned + i * element, wanted, element) != 0)
            return ff_fail(error, FF_FAILED,
                           "rank %d of %d: element %zu of %zu (%s) is not the sum", c->comm->rank,
                           c->comm->size, i, n, ff_dtype_name(dtype));
    }
    return FF_OK;
}

static inline ff_status comm_check_sums(comm_case *c, ff_error *error) {
    static const ff_dtype dtypes[] = {FF_F32, FF_F16, FF_BF16};
    for (int d = 0; d < 3; d++)
        for (int l = 0; l < COMM_LENGTHS; l++) {
            size_t n = comm_lengths[l];
            if (d > 0 && n == COMM_LONGEST) n = 20011;
            FF_TRY(comm_put(c, n, dtypes[d], n + 1, error));
            FF_TRY(c->comm->table->all_reduce(c->comm, c->stream, c->values, n, dtypes[d], error));
            FF_TRY(comm_expect_sum(c, n, dtypes[d], n + 1, error));
        }
    return FF_OK;
}

static inline ff_status comm_expect(comm_case *c, size_t at, size_t n, int rank, const char *what,
                                    ff_error *error) {
    for (size_t i = 0; i < n; i++) {
        float wanted = comm_value(rank, i, n);
        if (memcmp(c->pinned + at + i * sizeof wanted, &wanted, sizeof wanted) != 0)
            return ff_fail(error, FF_FAILED, "rank %d of %d: %s of rank %d, element %zu of %zu",
                           c->comm->rank, c->comm->size, what, rank, i, n);
    }
    return FF_OK;
}

static inline ff_status comm_check_copies(comm_case *c, ff_error *error) {
    const int size = c->comm->size;
    for (int l = 0; l < COMM_LENGTHS; l++) {
        const size_t n = comm_lengths[l], bytes = n * sizeof(float);
        for (int root = 0; root < size; root += n == COMM_LONGEST ? size : 1) {
            FF_TRY(comm_put(c, n, FF_F32, n, error));
            FF_TRY(c->comm->table->broadcast(c->comm, c->stream, c->values, bytes, root, error));
            FF_TRY(comm_get(c, bytes, error));
            FF_TRY(comm_expect(c, 0, n, root, "broadcast", error));
        }
        /* From memory of its own, and in place. */
        for (int place = 0; place < 2; place++) {
            char *from = c->values + (place ? (size_t)c->comm->rank * bytes : (size_t)size * bytes);
            char *values = c->values;
            c->values = from;
            ff_status status = comm_put(c, n, FF_F32, n, error);
            c->values = values;
            FF_TRY(status);
            FF_TRY(c->comm->table->all_gather(c->comm, c->stream, from, values, bytes, error));
            FF_TRY(comm_get(c, bytes * (size_t)size, error));
            for (int r = 0; r < size; r++)
                FF_TRY(comm_expect(c, bytes * (size_t)r, n, r, "all_gather", error));
        }
    }
    return FF_OK;
}

/* Two sums in one recording, launched again and again. */
static inline ff_status comm_check_recording(comm_case *c, ff_error *error) {
    const ff_device_table *table = c->device->table;
    const size_t n = 5003;
    char *second = c->values + n * sizeof(float);
    ff_recording *recording;
    FF_TRY(table->capture_begin(c->device, c->stream, error));
    ff_status status = c->comm->table->all_reduce(c->comm, c->stream, c->values, n, FF_F32, error);
    if (status == FF_OK)
        status = c->comm->table->broadcast(c->comm, c->stream, second, 28, 0, error);
    ff_error end_error;
    ff_status end = table->capture_end(c->device, c->stream, &recording, &end_error);
    FF_TRY(status);
    if (end != FF_OK) return ff_fail(error, end, "%s", end_error.message);
    for (uint64_t launch = 0; launch < 5 && status == FF_OK; launch++) {
        FF_TRY_DONE(comm_put(c, n + 7, FF_F32, launch, error));
        FF_TRY_DONE(table->recording_launch(c->device, recording, c->stream, error));
        FF_TRY_DONE(comm_expect_sum(c, n, FF_F32, launch, error));
        FF_TRY_DONE(table->copy(c->device, c->stream, c->pinned, second, 28, error));
        FF_TRY_DONE(table->stream_synchronize(c->device, c->stream, error));
        for (size_t i = 0; i < 7; i++) {
            float wanted = comm_value(0, n + i, launch);
            if (memcmp(c->pinned + 4 * i, &wanted, 4) != 0)
                status = ff_fail(error, FF_FAILED, "launch %d: broadcast", (int)launch);
        }
    }
done:
    table->recording_destroy(c->device, recording);
    return status;
}

/* Runs all checks above; makes the stream and the buffers. A rank that fails ends the others. */
static inline ff_status comm_check_all(ff_comm *comm, ff_device *device, bool recordings,
                                       ff_error *error) {
    const ff_device_table *table = device->table;
    comm_case c = {.comm = comm, .device = device};
    const uint64_t bytes = ((uint64_t)comm->size + 1) * COMM_LONGEST * sizeof(float);
    void *pinned = NULL, *values = NULL;
    ff_status status = FF_OK;
    FF_TRY_DONE(table->stream_create(device, &c.stream, error));
    FF_TRY_DONE(table->allocate_pinned(device, &pinned, bytes, "values", error));
    FF_TRY_DONE(table->allocate(device, &values, bytes, "values", error));
    c.pinned = pinned;
    c.values = values;
    FF_TRY_DONE(comm_check_sums(&c, error));
    FF_TRY_DONE(comm_check_copies(&c, error));
    if (recordings) status = comm_check_recording(&c, error);
done:
    if (status != FF_OK) comm->table->abort(comm, "another rank's check failed");
    table->stream_destroy(device, c.stream);
    if (pinned) table->release_pinned(device, pinned);
    table->release(device, values);
    return status;
}

#endif
