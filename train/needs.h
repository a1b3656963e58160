/* The memory that a run needs, and what the machine has: what --dry-run prints, and what a run that
 * cannot fit is refused with. */
#ifndef FF_TRAIN_NEEDS_H
#define FF_TRAIN_NEEDS_H

#include "format/base/status.h"
#include "train/host_memory.h"

#include <stdio.h>

struct ff_recipe;

typedef struct ff_needs {
    uint64_t host_bytes; /* of a run on the CPU all but the program and the sets; else pinned */
    ff_host_memory host; /* what there was when that was counted */
    uint64_t device_bytes, device_has; /* of a GPU; 0 and 0 on the CPU */
    uint64_t mapped_bytes; /* of the sets; page cache, which the system takes back at will */
} ff_needs;

/* Of a recipe whose parts are built. Counted by the calls that take the memory: on the CPU and on a
 * planned device by a device that is absent (loader/device_absent.h). */
FF_MUST_USE ff_status ff_needs_of(ff_needs *needs, const struct ff_recipe *recipe, ff_error *error);
/* Two or three lines of the summary. */
void ff_needs_print(FILE *out, const ff_needs *needs);
/* FF_NO_MEMORY where the machine has less: names what is needed, what there is, and of the CPU the
 * --batch that would fit. */
FF_MUST_USE ff_status ff_needs_check(const struct ff_recipe *recipe, ff_error *error);

#endif
