/* The memory that a run needs, and what the machine has: what --dry-run prints, and what a run that
 * cannot fit is refused with. */
#ifndef FF_TRAIN_NEEDS_H
#define FF_TRAIN_NEEDS_H

#include "format/base/status.h"
#include "train/host_memory.h"

#include <stdio.h>

struct ff_trainer;

typedef struct ff_needs {
    /* All but the program and the sets of a run on the CPU; else what is pinned, and the rates. */
    uint64_t host_bytes;
    ff_host_memory host; /* what there was when that was counted */
    /* Of a GPU; 0 and 0 on the CPU. With the workspaces of engines that are chosen without timing,
     * where a run may time others, and without what CUDA's libraries take for themselves. */
    uint64_t device_bytes, device_has;
    const char *device_limit; /* after device_has: " free"; "" of a planned one's whole memory */
    uint64_t mapped_bytes;    /* of the sets; page cache, which the system takes back at will */
} ff_needs;

/* Of a trainer whose parts are built on a device that is absent (loader/device/absent.h): counted
 * by the calls that take the memory. */
FF_MUST_USE ff_status ff_needs_of(ff_needs *needs, const struct ff_trainer *trainer,
                                  ff_error *error);
/* Two or three lines of the summary. */
void ff_needs_print(FILE *out, const ff_needs *needs);
/* FF_NO_MEMORY where the machine or the device has less: names what is needed, what there is, and
 * the --batch that would fit, if one does. */
FF_MUST_USE ff_status ff_needs_check(const struct ff_trainer *trainer, ff_error *error);

#endif
