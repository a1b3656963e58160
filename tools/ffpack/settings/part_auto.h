/* `--part auto`: which part of how many this process packs, from the variables that SLURM, MPI or
 * Kubernetes set. One whole family of variables counts, never a mixture. Kubernetes does not set
 * the number of parts: its job sets FFPACK_PARTS. Thread rule: as getenv(3). */
#ifndef FF_FFPACK_PART_AUTO_H
#define FF_FFPACK_PART_AUTO_H

#include "format/disk/part.h"

/* *origin = the variables that were read, as "SLURM_PROCID=1, SLURM_NTASKS=4"; the caller frees it.
 * FF_USAGE if no family is set (the error lists the families), a variable is missing or not a
 * number in its range, an array has tasks, or two launchers disagree. */
FF_MUST_USE ff_status ff_part_auto(ff_part *part, char **origin, ff_error *error);

#endif
