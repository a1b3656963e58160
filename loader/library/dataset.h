/* An open dataset and its users. Private to loader/library/. */
#ifndef FF_LOADER_LIBRARY_DATASET_H
#define FF_LOADER_LIBRARY_DATASET_H

#include "format/reader/reader.h"

#include <ffload/ffload.h>
#include <pthread.h>
#include <stdatomic.h>

struct ffload_dataset {
    atomic_size_t users; /* the caller, loaders, views */
    int process;
    ff_dataset *inner;
    pthread_mutex_t mutex; /* the rest */
    ff_reader *reader;     /* unused ones; NULL = none */
    char *json;            /* NULL: not asked for yet */
};

/* Adds a user, who calls ff_library_dataset_release. */
void ff_library_dataset_retain(ffload_dataset *dataset);
void ff_library_dataset_release(ffload_dataset *dataset);

#endif
