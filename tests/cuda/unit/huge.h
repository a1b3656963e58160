/* Arrays of hundreds of gigabytes for the simulated kernels: the address space is reserved, and a
 * page gets memory and contents when a kernel touches it first. A launch runs only some of its
 * blocks (ff_cudasim_choose): the first, the last, fifteen between them, and those around the
 * places where an array passes 2^31 and 2^32 elements or bytes. An index that overflows either
 * leaves its array, which ends the process with a message, or finds or leaves a wrong value, since
 * the values depend on their place. */
#ifndef FF_TESTS_HUGE_H
#define FF_TESTS_HUGE_H

#include "format/disk/dtype.h"
#include "tests/cuda/sim/cudasim.h"
#ifdef FF_TESTS_STRICT
#include "tests/cuda/sim/device.h"
#endif
#include "tests/unit/check.h"

#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef enum huge_use { HUGE_INPUT, HUGE_OUTPUT, HUGE_BOTH } huge_use;

/* The value of element i of an array with this salt: -128 to 127, u8 0 to 255. */
typedef int (*huge_value)(uint64_t i, uint64_t salt);

typedef struct huge {
    const char *name;
    huge_use use;
    ff_dtype dtype;
    uint64_t count;
    huge_value value; /* of inputs */
    uint64_t salt;
    unsigned char *memory; /* of the elements; they end where a page ends */
    unsigned char *first;  /* page */
    uint64_t bytes, pages; /* of all pages */
    uint8_t *seen;         /* [pages] */
    uint64_t *touched;     /* their numbers */
    uint64_t touched_count;
} huge;

enum { HUGE_PAGE = 4096, HUGE_ARRAYS = 16 };
#define HUGE_APART (UINT64_C(1) << 36) /* address space around each array */

static struct {
    huge arrays[HUGE_ARRAYS];
    int count;
    uint64_t whole;                     /* of grids of at most this number of blocks, all run */
    bool ends;                          /* only the first blocks and the last run */
    uint64_t chosen[FF_CUDASIM_CHOSEN]; /* by the launch before */
    unsigned chosen_count;
    const char *running; /* kernel */
    struct {
        const char *file, *kernel;
    } launched[256]; /* different ones */
    int launched_count;
    uint32_t bits[FF_DTYPE_COUNT][256]; /* of value & 255 */
} huges;

/* ---- parts ---- */

/* Without `make test` and `make test-long`, which have a part each, both are true. */
static inline bool huge_short(void) {
    const char *length = getenv("TEST_LENGTH");
    return !length || strcmp(length, "long") != 0;
}
static inline bool huge_long(void) {
    const char *length = getenv("TEST_LENGTH");
    return !length || strcmp(length, "test") != 0;
}
/* Runs the tests; in the long part the first ones, which have cases of it. */
#define huge_run(tests, with_long, setup)                                                          \
    _cmocka_run_group_tests(                                                                       \
        "tests", tests, huge_short() ? sizeof(tests) / sizeof *(tests) : (with_long), setup, NULL)

/* ---- values ---- */

/* No two places that an overflow could confuse have equal values often. */
static inline int huge_hashed(uint64_t i, uint64_t salt) {
    return 1 + (int)((i + salt) * UINT64_C(0x9e3779b97f4a7c15) >> 59);
}
/* For sums: 2^32 elements, or bytes, further it is another one. */
static inline int huge_slow(uint64_t i, uint64_t salt) {
    return 1 + (int)((i >> 27) + salt) % 64;
}
static inline int huge_one(uint64_t i, uint64_t salt) {
    (void)i, (void)salt;
    return 1;
}

static inline uint32_t huge_read(const huge *a, uint64_t i) {
    uint32_t bits = 0;
    const size_t bytes = ff_dtype_bytes(a->dtype);
    memcpy(&bits, a->memory + i * bytes, bytes);
    return bits;
}

static inline void huge_fill(huge *a, unsigned char *page) {
    const size_t bytes = ff_dtype_bytes(a->dtype);
    memset(page, 0xFF, HUGE_PAGE);
    if (a->use == HUGE_OUTPUT) return;
    for (size_t at = 0; at < HUGE_PAGE; at += bytes) {
        if (page + at < a->memory) continue;
        const uint64_t i = (uint64_t)(page + at - a->memory) / bytes;
        memcpy(page + at, &huges.bits[a->dtype][a->value(i, a->salt) & 255], bytes);
    }
}

/* ---- memory ---- */

static inline void huge_fault(int number, siginfo_t *information, void *context) {
    (void)number, (void)context;
    unsigned char *at = information->si_addr;
    const huge *nearest = NULL;
    for (int k = 0; k < huges.count; k++) {
        huge *a = &huges.arrays[k];
        if (at + HUGE_APART / 2 > a->first && at < a->first + a->bytes + HUGE_APART / 2)
            nearest = a;
        if (at < a->first || at >= a->first + a->bytes) continue;
        const uint64_t page = (uint64_t)(at - a->first) / HUGE_PAGE;
        unsigned char *begin = a->first + page * HUGE_PAGE;
        if (a->seen[page]) break;
        if (mprotect(begin, HUGE_PAGE, PROT_READ | PROT_WRITE) != 0) break;
        huge_fill(a, begin);
        if (a->use == HUGE_INPUT) mprotect(begin, HUGE_PAGE, PROT_READ);
        a->seen[page] = 1;
        a->touched[a->touched_count++] = page;
        return;
    }
    char text[256];
    const int length = snprintf(
        text, sizeof text, "%s: a kernel is at byte %lld of %llu of %s\n", huges.running,
        nearest ? (long long)(at - nearest->memory) : (long long)(intptr_t)at,
        nearest ? (unsigned long long)nearest->bytes : 0, nearest ? nearest->name : "no array");
    if (write(2, text, (size_t)length) < 0) _exit(98);
    _exit(99);
}

/* Pages that are zero until they are written. */
static inline void *huge_zeros(uint64_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static inline huge *huge_reserve(const char *name, huge_use use, ff_dtype dtype, uint64_t count,
                                 huge_value value) {
    assert_true(huges.count < HUGE_ARRAYS);
    huge *a = &huges.arrays[huges.count];
    *a = (huge){name, use, dtype, count, value, .salt = 7777 * (uint64_t)huges.count++};
    const uint64_t bytes = (count * ff_dtype_bytes(dtype) + 15) / 16 * 16;
    a->bytes = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    a->pages = a->bytes / HUGE_PAGE;
    unsigned char *all = mmap(NULL, a->bytes + 2 * HUGE_APART, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(all != MAP_FAILED);
    a->first = all + HUGE_APART;
    madvise(a->first, a->bytes, MADV_NOHUGEPAGE);
    a->memory = a->first + (a->bytes - bytes);
    a->seen = huge_zeros(a->pages);
    a->touched = huge_zeros(a->pages * sizeof *a->touched);
    /* here, since cmocka sets a handler of its own for each test */
    struct sigaction action = {.sa_sigaction = huge_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
    return a;
}

static inline void *huge_in(const char *name, ff_dtype dtype, uint64_t count) {
    return huge_reserve(name, HUGE_INPUT, dtype, count, huge_hashed)->memory;
}
static inline huge *huge_out(const char *name, ff_dtype dtype, uint64_t count) {
    return huge_reserve(name, HUGE_OUTPUT, dtype, count, NULL);
}

/* Ends a case. */
static inline int huge_release(void **state) {
    (void)state;
    for (int k = 0; k < huges.count; k++) {
        huge *a = &huges.arrays[k];
        munmap(a->first - HUGE_APART, a->bytes + 2 * HUGE_APART);
        munmap(a->seen, a->pages);
        munmap(a->touched, a->pages * sizeof *a->touched);
    }
    huges.count = 0;
    huges.whole = 16;
    huges.ends = false;
    return 0;
}

/* ---- launches ---- */

static inline unsigned huge_add(uint64_t *blocks, unsigned taken, uint64_t count, uint64_t block) {
    if (block >= count) return taken;
    for (unsigned i = 0; i < taken; i++)
        if (blocks[i] == block) return taken;
    blocks[taken] = block;
    return taken + 1;
}

static inline void huge_note(const char *file, const char *kernel) {
    int known = 0;
    huges.running = kernel;
    while (known < huges.launched_count && (huges.launched[known].kernel != kernel ||
                                            strcmp(huges.launched[known].file, file) != 0))
        known++;
    huges.launched[known].file = file;
    huges.launched[known].kernel = kernel;
    if (known == huges.launched_count) huges.launched_count++;
}

/* The blocks around the place of a boundary: some kernels go through an array from its end, and
 * some have rows in x. */
static inline unsigned huge_around(uint64_t *blocks, unsigned taken, const unsigned grid[3],
                                   double share) {
    const uint64_t rest = (uint64_t)grid[1] * grid[2], count = grid[0] * rest;
    const uint64_t at = (uint64_t)(share * (double)count);
    const uint64_t row = (uint64_t)(share * (double)grid[0]);
    if (share >= 1) return taken;
    for (int side = -1; side <= 1 && taken + 4 <= FF_CUDASIM_CHOSEN / 8; side++) {
        const uint64_t to = (uint64_t)side;
        taken = huge_add(blocks, taken, count, at + to);
        taken = huge_add(blocks, taken, count, count - 1 - at + to);
        if (rest == 1) continue;
        taken = huge_add(blocks, taken, count, row + to);
        taken = huge_add(blocks, taken, count, (rest - 1) * grid[0] + row + to);
    }
    return taken;
}

static inline unsigned huge_choose(const char *file, const char *kernel, const unsigned grid[3],
                                   uint64_t *blocks) {
    const uint64_t count = (uint64_t)grid[0] * grid[1] * grid[2];
    const uint64_t ends[] = {0, 1, grid[0] - 1, count - grid[0], count - 2, count - 1};
    unsigned taken = 0;
    huge_note(file, kernel);
    for (uint64_t block = 0; count <= huges.whole && block < count; block++)
        taken = huge_add(blocks, taken, count, block);
    for (int i = 0; i < 6; i++) taken = huge_add(blocks, taken, count, ends[i]);
    for (uint64_t k = 1; k < 16 && count > huges.whole && !huges.ends; k++)
        taken = huge_add(blocks, taken, count, count / 16 * k);
    for (int k = 0; k < huges.count && count > huges.whole && !huges.ends; k++) {
        const double all = (double)huges.arrays[k].count;
        const double bytes = all * (double)ff_dtype_bytes(huges.arrays[k].dtype);
        for (int power = 31; power <= 32; power++) {
            const double boundary = (double)(UINT64_C(1) << power);
            taken = huge_around(blocks, taken, grid, boundary / all);
            taken = huge_around(blocks, taken, grid, boundary / bytes);
        }
    }
    memcpy(huges.chosen, blocks, taken * sizeof *blocks);
    huges.chosen_count = taken;
    return taken;
}

/* The stream of all launches. Over the strict stand-in for CUDA's runtime a device's stream: each
 * launch is checked against the limits of GPUs. Else none: kernels run at once. */
static void *huge_stream;

static inline void huge_open_stream(void) {
#ifdef FF_TESTS_STRICT
    ff_device *device;
    ff_stream *stream;
    assert_ok(ff_device_sim_create(&device, FF_HOST_STREAMS_CALLER, 0, 0, error));
    assert_ok(device->table->stream_create(device, &stream, error));
    huge_stream = device->table->native_stream(device, stream);
#endif
}

static inline int huge_open(void **state) {
    (void)state;
    huge_open_stream();
    static unsigned char stack[64 << 10];
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    ff_cudasim_choose = huge_choose;
    huges.whole = 16;
    for (int dtype = 0; dtype < FF_DTYPE_COUNT; dtype++)
        for (int value = 0; value < 256; value++) {
            const float real = (float)(int8_t)value;
            if (dtype == FF_U8)
                huges.bits[dtype][value] = (uint32_t)value;
            else if (dtype == FF_I32)
                huges.bits[dtype][value] = (uint32_t)(int8_t)value;
            else if (dtype == FF_F32 || dtype == FF_F16 || dtype == FF_BF16)
                ff_convert(&huges.bits[dtype][value], (ff_dtype)dtype, &real, FF_F32, 1);
        }
    return sigaltstack(&own, NULL);
}

/* Checks all that was written; of large arrays that includes their last eighth; wanted(i): the
 * value of element i. */
static inline void huge_check(const huge *a, int (*wanted)(uint64_t i)) {
    const uint64_t each = HUGE_PAGE / ff_dtype_bytes(a->dtype);
    const uint32_t poison = ff_dtype_bytes(a->dtype) == 4   ? UINT32_MAX
                            : ff_dtype_bytes(a->dtype) == 2 ? UINT16_MAX
                                                            : UINT8_MAX;
    const uint64_t skipped = (uint64_t)(a->memory - a->first) / ff_dtype_bytes(a->dtype);
    uint64_t written = 0, last = 0;
    for (uint64_t k = 0; k < a->touched_count; k++)
        for (uint64_t at = a->touched[k] * each; at < (a->touched[k] + 1) * each; at++) {
            if (at < skipped || at - skipped >= a->count) continue;
            const uint64_t i = at - skipped;
            const uint32_t found = huge_read(a, i);
            if (found == poison && a->use == HUGE_OUTPUT) continue;
            const uint32_t want = huges.bits[a->dtype][wanted(i) & 255];
            const bool same =
                a->use == HUGE_BOTH && found == huges.bits[a->dtype][a->value(i, a->salt) & 255];
            if (same && found != want) continue;
            if (found != want)
                fail_msg("%s: element %llu of %llu is %x, wanted %x", a->name,
                         (unsigned long long)i, (unsigned long long)a->count, found, want);
            written++;
            if (i > last) last = i;
        }
    if (written == 0 || (a->bytes >> 31 && last < a->count - a->count / 8))
        fail_msg("%s: %llu elements of %llu are written, the last is %llu", a->name,
                 (unsigned long long)written, (unsigned long long)a->count,
                 (unsigned long long)last);
}

/* Calls each(i, value) for the elements of all pages that kernels touched of a 16-bit array or one
 * of f32. */
static inline void huge_each(const huge *a, void (*each)(uint64_t i, float value)) {
    const size_t bytes = ff_dtype_bytes(a->dtype);
    for (uint64_t k = 0; k < a->touched_count; k++)
        for (size_t at = 0; at < HUGE_PAGE; at += bytes) {
            unsigned char *from = a->first + a->touched[k] * HUGE_PAGE + at;
            float value;
            ff_convert(&value, FF_F32, from, a->dtype, 1);
            if (from >= a->memory) each((uint64_t)(from - a->memory) / bytes, value);
        }
}

#endif
