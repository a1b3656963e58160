/* An open dataset, shared by dataset.c (index) and reader.c (samples). Private to format/; the
 * public header is format/reader.h. */
#ifndef FF_FORMAT_DATASET_H
#define FF_FORMAT_DATASET_H

#include "format/files.h"
#include "format/reader.h"

#include <pthread.h>
#include <stdatomic.h>

enum ff_shard_readiness { FF_SHARD_UNKNOWN, FF_SHARD_KNOWN, FF_SHARD_MAPPED };

struct ff_dataset {
    char *path;       /* the split folder */
    char *index_path; /* its index.ffx */
    ff_verify verify;
    const uint8_t *map; /* the index */
    uint64_t bytes;
    ff_index_header header;
    ff_metadata metadata;
    uint8_t metadata_id[16];   /* of its text */
    uint64_t row_bytes;        /* of a sample's labels in the index */
    ff_shard_row *row;         /* [shard_count] */
    ff_shard *shard;           /* [shard_count], filled on first use */
    atomic_uchar *shard_ready; /* [shard_count] of ff_shard_readiness */
    pthread_mutex_t mutex;     /* opening shards */
    ff_files *files;           /* of shards that are read, not mapped */
    atomic_uchar *block_ok;    /* [index blocks]: checked */
    atomic_uchar *sample_ok;   /* [count / 8]: verified, a bit a sample */
};

/* The shard, mapped and checked against the index on first use. Thread-safe. */
FF_MUST_USE ff_status ff_dataset_open_shard(ff_dataset *dataset, uint32_t number,
                                            const ff_shard **shard, ff_error *error);
/* The same for one whose file is read: it is mapped only where that was asked for as well, or where
 * the set is compressed. */
FF_MUST_USE ff_status ff_dataset_know_shard(ff_dataset *dataset, uint32_t number,
                                            const ff_shard **shard, ff_error *error);
/* The same for one caller, who closes it; with `maps` mapped. */
FF_MUST_USE ff_status ff_dataset_own_shard(const ff_dataset *dataset, uint32_t number, bool maps,
                                           ff_shard *shard, ff_error *error);

/* Starts reading these bytes of the index. */
void ff_dataset_advise(const ff_dataset *dataset, uint64_t offset, uint64_t bytes);

/* ff_dataset_storage_order where it is not the order of numbers, in 4 or 8 bytes a sample. */
FF_MUST_USE ff_status ff_storage_order_make(ff_dataset *dataset, bool wide, ff_storage_order *order,
                                            ff_error *error);

/* Copies `bytes` at `offset` of the sample's label row. */
FF_MUST_USE ff_status ff_dataset_small_label(ff_dataset *dataset, uint64_t number, uint64_t offset,
                                             void *to, uint64_t bytes, ff_error *error);

#endif
