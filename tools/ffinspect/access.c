#include "tools/ffinspect/access.h"

#include "format/base/guard.h"

#include <stdlib.h>
#include <string.h>

typedef struct copy_job {
    void *to;
    const void *from;
    size_t bytes;
} copy_job;

static void copy_body(void *context) {
    copy_job *job = context;
    memcpy(job->to, job->from, job->bytes);
}

ff_status ff_inspect_copy(const ff_dataset *dataset, const ff_view *view, void *to,
                          ff_error *error) {
    copy_job job = {.to = to, .from = view->tensor, .bytes = (size_t)view->tensor_bytes};
    const void *fault = NULL;
    if (view->mapped)
        fault = ff_guard_run(copy_body, &job);
    else
        copy_body(&job);
    return fault ? ff_dataset_fault(dataset, fault, error) : FF_OK;
}

typedef struct storage_place {
    uint64_t shard, offset, number;
} storage_place;

static int compare(const void *a, const void *b) {
    const storage_place *left = a, *right = b;
    if (left->shard != right->shard) return left->shard < right->shard ? -1 : 1;
    return (left->offset > right->offset) - (left->offset < right->offset);
}

ff_status ff_inspect_storage_order(ff_dataset *dataset, uint64_t **number, ff_error *error) {
    uint64_t count = ff_dataset_count(dataset);
    storage_place *places;
    *number = NULL;
    FF_TRY(ff_alloc(&places, count, sizeof *places, "the order of storage", error));
    ff_status status = FF_OK;
    bool sorted = true;
    for (uint64_t i = 0; i < count && status == FF_OK; i++) {
        ff_entry entry;
        status = ff_dataset_entry(dataset, i, &entry, error);
        places[i] = (storage_place){.shard = entry.shard, .offset = entry.offset, .number = i};
        if (i && compare(&places[i - 1], &places[i]) > 0) sorted = false;
    }
    if (status == FF_OK && !sorted) {
        qsort(places, count, sizeof *places, compare);
        status = ff_alloc(number, count, sizeof **number, "the order of storage", error);
        for (uint64_t i = 0; status == FF_OK && i < count; i++) (*number)[i] = places[i].number;
    }
    free(places);
    return status;
}

void ff_inspect_note_failure(ff_first_failure *first, uint64_t place, const ff_error *error) {
    if (first->error.status != FF_OK && first->place <= place) return;
    first->place = place;
    first->error = *error;
}
