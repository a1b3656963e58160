/* Which rank of which job this process is, from the variables that a launcher sets: torchrun, Open
 * MPI, MPICH and Intel MPI, SLURM, or fftrain itself (--ranks). One complete family of variables is
 * used, never a mixture: fftrain's own, or else the first of these in this order. */
#ifndef FF_TRAIN_COMM_RANKS_H
#define FF_TRAIN_COMM_RANKS_H

#include "format/base/status.h"

#include <stdbool.h>

typedef struct ff_ranks {
    int rank, size;             /* of the job; 0 and 1 without a launcher */
    int local_rank, local_size; /* on this machine */
    const char *family; /* "torchrun", "Open MPI", "MPICH", "SLURM", "fftrain"; NULL = none */
    char *host;         /* of rank 0, for the control channel; owned, like job */
    int port;           /* at `host`; 0: a Unix socket with the name `host` (ff_channel_name) */
    char *job; /* the same at all ranks; different for other jobs if launchers distinguish them */
    int listener; /* rank 0 of --ranks: the socket that its launcher opened; else -1 */
} ff_ranks;

/* FF_USAGE names the variable that is missing, not a number or out of range, and two launchers
 * whose variables disagree. The caller frees with ff_ranks_free.
 *
 * Rank 0's address is torchrun's MASTER_ADDR and the port after MASTER_PORT, because torchrun's
 * agent may hold MASTER_PORT itself. Otherwise it is MASTER_ADDR and MASTER_PORT, if they are set;
 * or the first host of SLURM's node list, or this machine if all ranks are on it, with a port from
 * 15000 to 24999 derived from the job. Under fftrain itself it is a Unix socket named by the job.
 */
FF_MUST_USE ff_status ff_ranks_read(ff_ranks *ranks, ff_error *error);
void ff_ranks_free(ff_ranks *ranks);

/* Whether --ranks started this process. */
bool ff_ranks_are_own(const ff_ranks *ranks);

#endif
