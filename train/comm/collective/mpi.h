/* The communicator of processes that an MPI launcher has started. Messages are sends and receives
 * of MPI; the sums are the host's, in its order. */
#ifndef FF_TRAIN_COMM_MPI_H
#define FF_TRAIN_COMM_MPI_H

#include "train/comm/collective/host.h"

/* Initializes MPI, once in a process and from its main thread, which destroys the communicator,
 * too: that finalizes MPI, unless a rank has failed. Then MPI cannot end well; the process ends
 * with an error, and the launcher ends the others.
 *
 * rank, size: as the launcher's variables say; FF_FAILED where MPI says otherwise (mpirun of
 * another MPI than the module's), the module is not there, or MPI allows no second thread. */
FF_MUST_USE ff_status ff_comm_mpi_create(ff_comm **comm, int rank, int size, ff_comm_memory memory,
                                         ff_error *error);

#endif
