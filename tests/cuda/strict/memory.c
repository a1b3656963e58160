/* Device and pinned memory: one range of addresses, which are never used again, and of each byte
 * what it is. */
#include "tests/cuda/strict/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 256, MOST_ALLOCATIONS = 1 << 20, PAGE = 4096, DEVICES = 8 };
enum { UNWRITTEN_VALUE = 0xff }; /* a NaN in each dtype */
/* For each byte; the device's number stands above. */
enum { LIVE = 1, WRITTEN = 2, READ_NOW = 4, WROTE_NOW = 8, ANYWHERE = 16, DEVICE_SHIFT = 5 };

typedef struct allocation {
    size_t offset, bytes;
    int device;
    bool live;
    const place *where;
} allocation;

char *arena;
static unsigned char *state;
static size_t used;
static allocation *allocations; /* by their offsets */
static size_t allocation_count;
static size_t used_of[DEVICES];

/* Pages that the running kernel has touched. */
static uint32_t *page_seen, pass;
static size_t *touched, touched_count;

void *reserve(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) abort();
    return at;
}

__attribute__((constructor)) static void prepare(void) {
    arena = reserve((size_t)1 << ARENA_BITS);
    state = reserve((size_t)1 << ARENA_BITS);
    page_seen = reserve(sizeof *page_seen << (ARENA_BITS - 12));
    touched = reserve(sizeof *touched << (ARENA_BITS - 12));
    allocations = reserve(sizeof *allocations * MOST_ALLOCATIONS);
}

/* The last one that begins at or before the offset; NULL: none. */
static allocation *allocation_at(size_t offset) {
    size_t from = 0, end = allocation_count;
    while (from < end) {
        const size_t middle = (from + end) / 2;
        if (allocations[middle].offset <= offset)
            from = middle + 1;
        else
            end = middle;
    }
    return from ? &allocations[from - 1] : NULL;
}

static size_t total_of(int device) {
    const char *list = getenv("FF_SIM_MEMORY");
    while (list && device-- && strchr(list, ',')) list = strchr(list, ',') + 1;
    return list ? strtoull(list, NULL, 10) << 10 : (size_t)8 << 30;
}

void memory_info(int device, size_t *unused, size_t *total) {
    *total = total_of(device);
    *unused = *total - used_of[device];
}

void *take_memory(int device, size_t bytes, const place *where) {
    if (device != PINNED && bytes > total_of(device) - used_of[device]) return NULL;
    if (bytes > ((size_t)1 << ARENA_BITS) - used - 2 * ALIGN) return NULL;
    if (allocation_count == MOST_ALLOCATIONS) abort();
    const size_t offset = used + ALIGN; /* between two is memory of neither */
    used = (offset + bytes + ALIGN - 1) / ALIGN * ALIGN;
    allocations[allocation_count++] = (allocation){offset, bytes, device, true, where};
    if (device != PINNED) used_of[device] += bytes;
    __real_memset(arena + offset, UNWRITTEN_VALUE, bytes);
    memset(state + offset,
           device == PINNED ? LIVE | WRITTEN | ANYWHERE : LIVE | device << DEVICE_SHIFT, bytes);
    counts.allocations++;
    return arena + offset;
}

void give_memory(const char *name, int device, void *memory) {
    const size_t offset = (size_t)((char *)memory - arena);
    allocation *one = offset >> ARENA_BITS ? NULL : allocation_at(offset);
    if (!one || one->offset != offset || !one->live ||
        (one->device == PINNED) != (device == PINNED)) {
        fail(find_place(name, NULL), NULL, NULL,
             "memory is released that is not, or no longer, allocated");
        return;
    }
    const actor host = {.when = &host_instant, .where = find_place(name, NULL)};
    order_access(&host, offset, one->bytes, true);
    order_forget(offset, one->bytes);
    memset(state + offset, 0, one->bytes);
    if (one->device != PINNED) used_of[one->device] -= one->bytes;
    one->live = false;
    const size_t first = (offset + PAGE - 1) / PAGE * PAGE,
                 end = (offset + one->bytes) / PAGE * PAGE;
    if (first < end) madvise(arena + first, end - first, MADV_DONTNEED);
}

size_t memory_held(void) {
    size_t held = 0;
    for (size_t i = 0; i < allocation_count; i++) held += allocations[i].live;
    return held;
}

size_t find_range(const char *name, const void *at, size_t bytes) {
    const size_t offset = (size_t)((const char *)at - arena);
    const allocation *one = offset >> ARENA_BITS ? NULL : allocation_at(offset);
    if (one && one->live && offset + bytes <= one->offset + one->bytes) return offset;
    fail(find_place(name, NULL), one ? one->where : NULL, NULL, "%zu bytes at %p, which %s", bytes,
         at,
         !one        ? "are neither pinned nor a device's"
         : one->live ? "reach past the end of their allocation"
                     : "are not, or no longer, allocated");
    return SIZE_MAX;
}

int device_of_range(size_t offset) {
    return allocation_at(offset)->device;
}

/* ---- accesses ---- */

void copy_range(const actor *by, size_t to, size_t from, size_t bytes) {
    order_access(by, from, bytes, false);
    order_access(by, to, bytes, true);
    __real_memmove(arena + to, arena + from, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (!(state[to + i] & ANYWHERE))
            state[to + i] =
                (unsigned char)((state[to + i] & ~WRITTEN) | (state[from + i] & WRITTEN));
}

void fill_range(const actor *by, size_t to, int value, size_t bytes) {
    order_access(by, to, bytes, true);
    __real_memset(arena + to, value, bytes);
    for (size_t i = 0; i < bytes; i++) state[to + i] |= WRITTEN;
}

void begin_kernel(void) {
    pass++;
    touched_count = 0;
}

/* The accesses of a kernel to one page, as runs of bytes. */
static void end_page(const actor *by, size_t from) {
    enum { NOW = READ_NOW | WROTE_NOW };
    for (size_t i = from, end = from + PAGE, next; i < end; i = next) {
        const int how = state[i] & NOW;
        next = i + 1;
        while (next < end && (state[next] & NOW) == how) next++;
        if (!how) continue;
        order_access(by, i, next - i, how & WROTE_NOW);
        for (size_t k = i; k < next; k++) state[k] &= (unsigned char)~NOW;
    }
}

void end_kernel(const actor *by) {
    for (size_t i = 0; i < touched_count; i++) end_page(by, touched[i] * PAGE);
}

static void touch_page(size_t page) {
    if (page_seen[page] == pass) return;
    page_seen[page] = pass;
    touched[touched_count++] = page;
}

/* What is wrong with a kernel's access to this byte. */
static void fail_byte(const actor *by, size_t offset, bool writes, const void *at) {
    const allocation *one = allocation_at(offset);
    const long place_in = one ? (long)(offset - one->offset) : 0;
    fail(by->where, one ? one->where : NULL, at, "byte %ld of %zu allocated bytes is %s, %s",
         place_in, one ? one->bytes : 0, writes ? "written" : "read",
         !(state[offset] & LIVE)                 ? "and is not, or no longer, allocated"
         : !(state[offset] & WRITTEN) && !writes ? "and nobody wrote it"
                                                 : "and is another device's");
}

/* Whether memory of this kind is the actor's to use. */
static bool reaches(const actor *by, int is) {
    return (is & ANYWHERE) || (!by->host && is >> DEVICE_SHIFT == by->device);
}

/* The usual case, of up to 8 bytes at once: written memory of the actor's device. */
static bool touch_word(const actor *by, size_t offset, size_t bytes, bool writes) {
    const uint64_t each = UINT64_C(0x0101010101010101) >> (64 - 8 * bytes);
    const unsigned same = (0xffu << DEVICE_SHIFT & 0xff) | LIVE | ANYWHERE | (writes ? 0 : WRITTEN);
    const unsigned wanted = (unsigned)by->device << DEVICE_SHIFT | LIVE | (writes ? 0 : WRITTEN);
    uint64_t is = 0;
    __builtin_memcpy(&is, state + offset, bytes);
    if ((is & same * each) != wanted * each) return false;
    is |= (writes ? WROTE_NOW | WRITTEN : READ_NOW) * each;
    __builtin_memcpy(state + offset, &is, bytes);
    return true;
}

static void touch_kernel(const actor *by, size_t offset, size_t bytes, bool writes,
                         const void *at) {
    const int now = writes ? WROTE_NOW | WRITTEN : READ_NOW, need = writes ? LIVE : LIVE | WRITTEN;
    touch_page(offset / PAGE);
    if (bytes == 4 && touch_word(by, offset, 4, writes)) return;
    if (bytes == 2 && touch_word(by, offset, 2, writes)) return;
    if (bytes == 8 && touch_word(by, offset, 8, writes)) return;
    if (bytes == 16 && touch_word(by, offset, 8, writes) && touch_word(by, offset + 8, 8, writes))
        return;
    for (size_t page = offset / PAGE + 1; page * PAGE < offset + bytes; page++) touch_page(page);
    for (size_t i = offset; i < offset + bytes; i++) {
        const int is = state[i];
        if ((is & need) != need || !reaches(by, is)) fail_byte(by, i, writes, at);
        state[i] = (unsigned char)(is | now);
    }
}

void touch(const void *memory, size_t bytes, bool writes, const void *at) {
    const size_t offset = (size_t)((const char *)memory - arena);
    if (offset >> ARENA_BITS || !bytes) return;
    const actor *by = running;
    if (by && by->kernel) {
        touch_kernel(by, offset, bytes, writes, at);
        return;
    }
    lock_all();
    place here = {.what = "the host's own access", .depth = 1, .frames = {(void *)(size_t)at}};
    const actor host = {.when = &host_instant, .where = &here, .host = true};
    if (!by) by = &host;
    const int first = state[offset], last = state[offset + bytes - 1];
    if (!(first & last & LIVE) || !reaches(by, first))
        fail_byte(by, first & LIVE ? offset + bytes - 1 : offset, writes, at);
    order_access(by, offset, bytes, writes);
    unlock_all();
}
