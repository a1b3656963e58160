/* Which rank of which job this process is, from the variables that a launcher sets: torchrun, Open
 * MPI, MPICH and Intel MPI, SLURM, or fftrain itself (--ranks). One whole family is taken, never a
 * mixture: the first of fftrain's own and of these, in this order. */
#ifndef FF_TRAIN_COMM_RANKS_H
#define FF_TRAIN_COMM_RANKS_H

#include "format/base/status.h"

#include <stdbool.h>

typedef struct ff_ranks {
    int rank, size;             /* of the job; 0 and 1 without a launcher */
    int local_rank, local_size; /* on this machine */
    const char *family; /* "torchrun", "Open MPI", "MPICH", "SLURM", "fftrain"; NULL = none */
    char *host;         /* of rank 0, for the control channel; owned, like job */
    int port;
    char *job;    /* the same at all ranks, another for other jobs as far as launchers tell */
    int listener; /* rank 0 of --ranks: the socket that its launcher opened at `port`; else -1 */
} ff_ranks;

/* FF_USAGE names the variable that is missing, no number or out of range, and two launchers whose
 * variables disagree. The caller frees it with ff_ranks_free.
 *
 * Rank 0's address: torchrun's MASTER_ADDR, and the port after MASTER_PORT, which its agent may
 * hold; else MASTER_ADDR and MASTER_PORT where they are given, the first host of SLURM's node list,
 * or this machine where all ranks are on it; and a port from 15000 to 24999 by the job. */
FF_MUST_USE ff_status ff_ranks_read(ff_ranks *ranks, ff_error *error);
void ff_ranks_free(ff_ranks *ranks);

/* Whether this process was started by --ranks. */
bool ff_ranks_are_own(const ff_ranks *ranks);

#endif
