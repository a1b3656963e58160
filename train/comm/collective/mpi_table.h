/* The MPI module, libff_mpi.so: the one part that is linked with an MPI library, opened by
 * ff_comm_mpi_create where it is needed. MPI belongs to the process, and so does what is here.
 *
 * Thread rule: start and finish from the main thread; calls of MPI are one at a time
 * (MPI_THREAD_SERIALIZED), for which the module has a mutex. */
#ifndef FF_TRAIN_COMM_MPI_TABLE_H
#define FF_TRAIN_COMM_MPI_TABLE_H

#include "train/comm/collective/host.h"

typedef struct ff_mpi_table {
    unsigned headers; /* the checksum of the program's headers, as the CUDA module's */
    /* This process's rank, and a number for the exchanges of one communicator. FF_FAILED: the
     * library allows calls from the main thread alone, or failed. */
    ff_status (*start)(int *rank, int *size, int *number, ff_error *error);
    /* The exchange (host.h) of bytes that all have a place. Ends with a failure in the barrier, or
     * with that of another rank. */
    ff_status (*exchange)(const ff_message *messages, int number, ff_barrier *barrier,
                          ff_error *error);
    /* Tells the other ranks the failure in the barrier. From any thread. */
    void (*abort)(ff_barrier *barrier);
    /* Of a communicator that has not failed; the last one's ends MPI. */
    void (*finish)(void);
} ff_mpi_table;

#define FF_MPI_EXPORT "ff_mpi_module"
typedef const ff_mpi_table *ff_mpi_export(void);

#endif
