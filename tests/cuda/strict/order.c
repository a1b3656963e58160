/* What is ordered before what: vector clocks of lanes, and of each byte the last writer and the
 * readers since then, as FastTrack has them (Flanagan and Freund 2009). */
#include "tests/cuda/strict/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { OPERATIONS_BITS = 28 };

typedef struct operation {
    const place *where;
    uint32_t time;
    int lane;
} operation;

/* A set of readers: an operation and the rest. */
typedef struct readers {
    uint32_t operation, rest;
} readers;

instant host_instant;
static uint32_t times[LANES];
static bool lane_taken[LANES];
static operation *operations;
static readers *sets;
static uint32_t operation_count, set_count;
static uint32_t *writer, *reader; /* of each byte: an operation; a set. 0: none */

__attribute__((constructor)) static void prepare(void) {
    operations = reserve(sizeof *operations << OPERATIONS_BITS);
    sets = reserve(sizeof *sets << OPERATIONS_BITS);
    writer = reserve(sizeof *writer << ARENA_BITS);
    reader = reserve(sizeof *reader << ARENA_BITS);
}

/* ---- clocks ---- */

void join(instant *into, const instant *from) {
    for (int i = 0; i < LANES; i++)
        if (into->at[i] < from->at[i]) into->at[i] = from->at[i];
}

bool is_before(const instant *a, const instant *b) {
    int later = 0;
    for (int i = 0; i < LANES; i++) later |= a->at[i] > b->at[i];
    return !later;
}

int take_lane(void) {
    for (int i = 0; i < LANES; i++) {
        if (lane_taken[i]) continue;
        lane_taken[i] = true;
        return i;
    }
    fail(NULL, NULL, NULL, "more than %d streams and branches of graphs", LANES);
    abort();
}

/* Another one may have it; times go on. */
void give_lane(int lane) {
    lane_taken[lane] = false;
}

uint32_t new_operation(int lane, instant *when, const place *where) {
    if (++operation_count >> OPERATIONS_BITS) abort();
    when->at[lane] = ++times[lane];
    operations[operation_count] = (operation){where, times[lane], lane};
    return operation_count;
}

/* ---- accesses ---- */

static bool is_done(uint32_t number, const instant *when) {
    const operation *one = &operations[number];
    return !number || when->at[one->lane] >= one->time;
}

static void race(const actor *by, bool writes, uint32_t other, bool other_writes, size_t offset) {
    fail(by->where, operations[other].where, NULL,
         "a race at %p: one %s what another one %s, and neither waits for the other",
         arena + offset, writes ? "writes" : "reads", other_writes ? "writes" : "reads");
}

/* The set and this reader, without those that are before it. */
static uint32_t add_reader(uint32_t set, const actor *by) {
    uint32_t rest = 0;
    for (uint32_t at = set; at; at = sets[at].rest) {
        const uint32_t one = sets[at].operation;
        if (one == by->operation) return set;
        if (is_done(one, by->when)) continue;
        sets[++set_count] = (readers){one, rest};
        rest = set_count;
    }
    if (set_count >> OPERATIONS_BITS) abort();
    sets[++set_count] = (readers){by->operation, rest};
    return set_count;
}

/* A byte's writer and readers before this access: those of the next bytes are mostly the same. */
static void check_byte(const actor *by, size_t offset, bool writes) {
    const uint32_t wrote = writer[offset];
    if (!is_done(wrote, by->when)) race(by, writes, wrote, true, offset);
    for (uint32_t at = writes ? reader[offset] : 0; at; at = sets[at].rest)
        if (!is_done(sets[at].operation, by->when))
            race(by, true, sets[at].operation, false, offset);
}

void order_access(const actor *by, size_t offset, size_t bytes, bool writes) {
    const bool host = by->operation == 0;
    for (size_t end = offset + bytes, next; offset < end; offset = next) {
        const uint32_t wrote = writer[offset], read = reader[offset];
        check_byte(by, offset, writes);
        next = offset + 1;
        while (next < end && writer[next] == wrote && reader[next] == read) next++;
        /* Everything enqueued later is after the host's accesses so far, so these are not kept. */
        if (host && !(writes && (wrote || read))) continue;
        const uint32_t set = host || writes ? 0 : add_reader(read, by);
        for (size_t i = offset; i < next; i++) {
            reader[i] = set;
            if (writes) writer[i] = by->operation;
        }
    }
}

void order_forget(size_t offset, size_t bytes) {
    const size_t page = 4096 / sizeof *writer;
    const size_t first = (offset + page - 1) / page * page, end = (offset + bytes) / page * page;
    if (first >= end) {
        memset(writer + offset, 0, bytes * sizeof *writer);
        memset(reader + offset, 0, bytes * sizeof *reader);
        return;
    }
    order_forget(offset, first - offset);
    order_forget(end, offset + bytes - end);
    madvise(writer + first, (end - first) * sizeof *writer, MADV_DONTNEED);
    madvise(reader + first, (end - first) * sizeof *reader, MADV_DONTNEED);
}
