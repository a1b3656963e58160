/* Chooses a run's placement, with a sentence that states why. Pure. Private to loader/; the names
 * are in loader/gpu/batches.h. */
#ifndef FF_LOADER_PLACEMENT_H
#define FF_LOADER_PLACEMENT_H

#include "loader/gpu/batches.h"

typedef struct ff_placement_facts {
    uint64_t set_bytes;     /* device memory for the set and its upload */
    uint64_t reserve_bytes; /* must stay free */
    uint64_t free_bytes;
    /* Why the kernels cannot read or augment these samples, as a clause: "samples are mixed"; NULL
     * = they can. */
    const char *unable;
} ff_placement_facts;

/* The part of free memory that auto leaves unused in addition to reserve_bytes, for fragmentation
 * and for what libraries allocate on first use. */
#define FF_PLACEMENT_SPARE 16u /* a 16th */

/* *chosen is never FF_PLACEMENT_AUTO. FF_USAGE if the requested placement is impossible: resident
 * or stream if the kernels cannot augment, resident if set_bytes is more than free_bytes. */
FF_MUST_USE ff_status ff_placement_choose(ff_placement asked, const ff_placement_facts *facts,
                                          ff_placement *chosen, char *reason, size_t reason_bytes,
                                          ff_error *error);

#endif
