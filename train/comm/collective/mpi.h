/* The communicator of processes that an MPI launcher has started. MPI sends and receives the
 * messages; the host makes the sums, in its own order. */
#ifndef FF_TRAIN_COMM_MPI_H
#define FF_TRAIN_COMM_MPI_H

#include "train/comm/collective/host.h"

/* Initializes MPI, once per process and from the main thread. The main thread also destroys the
 * communicator, which finalizes MPI, unless a rank has failed. After a failure MPI cannot end
 * cleanly: the process ends with an error, and the launcher ends the others.
 *
 * rank, size: from the launcher's variables. FF_FAILED if MPI reports other numbers (mpirun of
 * another MPI than the module's), if the module is missing, or if MPI allows no second thread. */
FF_MUST_USE ff_status ff_comm_mpi_create(ff_comm **comm, int rank, int size, ff_comm_memory memory,
                                         ff_error *error);

#endif
