#include "tools/ffinspect/checks/first_failure.h"

void ff_inspect_note_failure(ff_first_failure *first, uint64_t place, const ff_error *error) {
    if (first->error.status != FF_OK && first->place <= place) return;
    first->place = place;
    first->error = *error;
}
