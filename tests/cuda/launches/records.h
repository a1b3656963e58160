/* What was set in cuDNN's descriptors. Thread rule: any threads, each descriptor by one at a time.
 */
#ifndef FF_TESTS_LAUNCHES_RECORDS_H
#define FF_TESTS_LAUNCHES_RECORDS_H

#include "tests/cuda/launches/graph.h"

#include <stddef.h>

typedef struct ff_record_value {
    struct ff_record_value *next;
    int attribute;
    int64_t count;
    size_t bytes;
    char data[];
} ff_record_value;

typedef struct ff_record {
    struct ff_record *next;
    cudnnBackendDescriptor_t descriptor;
    cudnnBackendDescriptorType_t type;
    ff_record_value *values;
    ff_graph_shape
        *graph; /* of a graph; of heuristics, configurations and plans that belong to it */
    bool owns_graph, finished, executed;
} ff_record;

ff_record *ff_record_add(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type);
ff_record *ff_record_find(cudnnBackendDescriptor_t descriptor); /* NULL: there is none */
void ff_record_remove(cudnnBackendDescriptor_t descriptor);

void ff_record_set(ff_record *record, int attribute, cudnnBackendAttributeType_t type,
                   int64_t count, const void *data);
/* NULL if it was not set. */
const ff_record_value *ff_record_get(const ff_record *record, int attribute);
/* Copies one value of `bytes`; false, and zeros, if it was not set or is of another size. */
bool ff_record_read(const ff_record *record, int attribute, void *to, size_t bytes);
ff_record *ff_record_read_descriptor(const ff_record *record, int attribute);

/* The operations of a finished operation graph; NULL if there are more than there is room for. */
ff_graph_shape *ff_record_shape(const ff_record *graph);

#endif
