/* The table of the MPI module, libff_mpi.so: the only part that is linked with an MPI library.
 * ff_comm_mpi_create opens it when it is needed. MPI belongs to the process, and so does the
 * module's state.
 *
 * Thread rule: start and finish from the main thread; calls of MPI are made one at a time
 * (MPI_THREAD_SERIALIZED), which a mutex of the module ensures. */
#ifndef FF_TRAIN_COMM_MPI_TABLE_H
#define FF_TRAIN_COMM_MPI_TABLE_H

#include "train/comm/collective/host.h"

typedef struct ff_mpi_table {
    unsigned headers; /* the checksum of the program's headers, as in the CUDA module */
    /* Returns this process's rank, and a number for the exchanges of one communicator. FF_FAILED:
     * the library allows calls only from the main thread, or failed. */
    ff_status (*start)(int *rank, int *size, int *number, ff_error *error);
    /* The exchange (host.h) of messages whose bytes all have an address. Ends with the barrier's
     * failure, or with the failure of another rank. */
    ff_status (*exchange)(const ff_message *messages, int number, ff_barrier *barrier,
                          ff_error *error);
    /* Sends the barrier's failure to the other ranks. From any thread. */
    void (*abort)(ff_barrier *barrier);
    /* Ends a communicator that has not failed; the last one ends MPI. */
    void (*finish)(void);
} ff_mpi_table;

#define FF_MPI_EXPORT "ff_mpi_module"
typedef const ff_mpi_table *ff_mpi_export(void);

#endif
