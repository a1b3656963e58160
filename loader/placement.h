/* Where a run's data lies: the choice, and the sentence that says why. Pure.
 * Private to loader/; the names are in loader/batches.h. */
#ifndef FF_LOADER_PLACEMENT_H
#define FF_LOADER_PLACEMENT_H

#include "loader/batches.h"

typedef struct ff_placement_facts {
    uint64_t set_bytes;     /* that the set and what its upload needs take on the device */
    uint64_t reserve_bytes; /* to stay free */
    uint64_t free_bytes;
    /* Why the kernels cannot augment these samples so, or cannot read them; NULL = they can. A part
     * of a sentence: "they do not resample". */
    const char *unable;
} ff_placement_facts;

/* Part of free memory that auto leaves alone beside reserve_bytes: fragments, and what the
 * libraries take when they are first used. */
#define FF_PLACEMENT_SPARE 16u /* a 16th */

/* *chosen is never FF_PLACEMENT_AUTO. FF_USAGE where what was asked for cannot be had: resident or
 * stream for what the kernels cannot do, resident where set_bytes is more than free_bytes. */
FF_MUST_USE ff_status ff_placement_choose(ff_placement asked, const ff_placement_facts *facts,
                                          ff_placement *chosen, char *reason, size_t reason_bytes,
                                          ff_error *error);

#endif
