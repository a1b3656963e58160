/* Chooses a run's placement, with a sentence that says why. Pure. Private to loader/; the names are
 * in loader/gpu/batches.h. */
#ifndef FF_LOADER_PLACEMENT_H
#define FF_LOADER_PLACEMENT_H

#include "loader/gpu/batches.h"

typedef struct ff_placement_facts {
    uint64_t set_bytes;     /* of the set and its upload on the device */
    uint64_t reserve_bytes; /* to stay free */
    uint64_t free_bytes;
    /* Why the kernels cannot read or augment these samples, as a clause: "samples are mixed"; NULL
     * = they can. */
    const char *unable;
} ff_placement_facts;

/* Part of free memory that auto leaves unused in addition to reserve_bytes, for fragmentation and
 * for what libraries allocate on first use. */
#define FF_PLACEMENT_SPARE 16u /* a 16th */

/* *chosen is never FF_PLACEMENT_AUTO. FF_USAGE where the placement asked for is impossible:
 * resident or stream where the kernels cannot augment, resident where set_bytes is more than
 * free_bytes. */
FF_MUST_USE ff_status ff_placement_choose(ff_placement asked, const ff_placement_facts *facts,
                                          ff_placement *chosen, char *reason, size_t reason_bytes,
                                          ff_error *error);

#endif
