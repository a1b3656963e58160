/* The table of the library's options. Private to loader/library/. */
#ifndef FF_LOADER_LIBRARY_OPTIONS_TABLE_H
#define FF_LOADER_LIBRARY_OPTIONS_TABLE_H

#include "format/cli/options.h"
#include "format/storage/storage.h"

#include <ffload/ffload.h>

/* Values as set by the caller; texts are owned, NULL = the default. */
struct ffload_options {
    int64_t batch_size, block, group, seed, epoch, position, epochs, rank, world, cuts;
    int64_t workers, prefetch, reserve, local_world;
    uint64_t memory;
    int dtype, layout, label_dtype, last_batch, order, verify, placement, shares_of;
    const char *augment, *size, *views, *label, *device;
    const char *indices, *where, *split, *fold, *weights, *shares;
    int64_t samples_per_epoch, repeats, per_class;
    ff_storage_options storage;
    int replacement; /* 0 = with it */
    int64_t *index;  /* owned, [index_count]; NULL = none were given */
    size_t index_count;
    double *weight; /* likewise */
    size_t weight_count;
    ffload_check *check;
    void *context;
    char *json; /* as described last; NULL = not yet */
};

extern const ffload_options ff_library_default_options;

/* The options, whose targets are in `to`, in the order of the public header. */
enum { FF_LIBRARY_OPTIONS_MOST = 48 };
void ff_library_list_options(ffload_options *to, ff_option table[FF_LIBRARY_OPTIONS_MOST]);

#endif
