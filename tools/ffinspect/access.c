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

void ff_inspect_note_failure(ff_first_failure *first, uint64_t place, const ff_error *error) {
    if (first->error.status != FF_OK && first->place <= place) return;
    first->place = place;
    first->error = *error;
}
