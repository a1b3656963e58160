/* A plan's buffers and their offsets: first fit by decreasing size, over their lifetimes. */
#include "train/net/plan.h"

#include "format/base/memory.h"

#include <stdlib.h>

ff_status ff_plan_buffer(ff_plan *plan, ff_arena arena, size_t bytes, int time, ff_buffer_id *id,
                         ff_error *error) {
    FF_TRY(ff_reserve(&plan->buffers, &plan->buffer_capacity, (size_t)plan->buffer_count + 1,
                      sizeof *plan->buffers, "a plan", error));
    plan->buffers[plan->buffer_count] = (ff_planned_buffer){
        .arena = arena, .bytes = ff_align_u64(bytes, 64), .first = time, .last = time};
    *id = plan->buffer_count++;
    return FF_OK;
}

void ff_plan_use(ff_plan *plan, ff_buffer_id id, int time) {
    if (id < 0) return;
    ff_planned_buffer *buffer = &plan->buffers[id];
    if (time < buffer->first) buffer->first = time;
    if (time > buffer->last) buffer->last = time;
}

static bool meet(const ff_planned_buffer *a, const ff_planned_buffer *b) {
    return a->arena == b->arena && a->first <= b->last && b->first <= a->last;
}

/* Larger buffers first, and the earlier of two equal ones, so that the layout is the same in every
 * run. */
static int by_size(const void *a, const void *b) {
    const ff_planned_buffer *x = *(ff_planned_buffer *const *)a;
    const ff_planned_buffer *y = *(ff_planned_buffer *const *)b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* The lowest offset where `order[index]` overlaps no buffer placed before with an overlapping
 * lifetime. */
static size_t place(ff_planned_buffer *const *order, int index) {
    const ff_planned_buffer *buffer = order[index];
    size_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < index; i++) {
            const ff_planned_buffer *other = order[i];
            if (!meet(buffer, other) || offset >= other->offset + other->bytes ||
                other->offset >= offset + buffer->bytes)
                continue;
            offset = other->offset + other->bytes;
            moved = true;
        }
    }
    return offset;
}

/* Grows the arenas to the size that the plan needs. Nothing in the arenas outlives a step. */
static ff_status grow(const ff_plan *plan, ff_error *error) {
    static const char *const what[] = {"the activations", "the activations' gradients"};
    ff_arenas *arenas = plan->arenas;
    FF_TRY(ff_compute_wait(plan->compute, error));
    for (int a = 0; a < FF_ARENA_COUNT; a++) {
        if (arenas->memory[a] && plan->arena_bytes[a] <= arenas->bytes[a]) continue;
        ff_compute_release(plan->compute, arenas->memory[a]);
        arenas->memory[a] = NULL;
        arenas->bytes[a] = 0;
        /* Zeroing also makes every page exist before the first step. */
        FF_TRY(ff_compute_allocate(plan->compute, &arenas->memory[a], plan->arena_bytes[a], what[a],
                                   error));
        arenas->bytes[a] = plan->arena_bytes[a];
    }
    return FF_OK;
}

ff_status ff_plan_allocate(ff_plan *plan, ff_error *error) {
    ff_planned_buffer **order;
    FF_TRY(ff_alloc(&order, (uint64_t)plan->buffer_count, sizeof *order, "a plan", error));
    for (int i = 0; i < plan->buffer_count; i++) order[i] = &plan->buffers[i];
    qsort(order, (size_t)plan->buffer_count, sizeof *order, by_size);
    for (int i = 0; i < plan->buffer_count; i++) {
        order[i]->offset = place(order, i);
        size_t end = order[i]->offset + order[i]->bytes;
        if (end > plan->arena_bytes[order[i]->arena]) plan->arena_bytes[order[i]->arena] = end;
    }
    free(order);
    return grow(plan, error);
}
