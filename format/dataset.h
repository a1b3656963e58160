/* An open dataset, shared by dataset.c (index) and reader.c (samples). Private to format/; the
 * public header is format/reader.h. */
#ifndef FF_FORMAT_DATASET_H
#define FF_FORMAT_DATASET_H

#include "format/files.h"
#include "format/reader.h"

#include <pthread.h>
#include <stdatomic.h>

struct ff_dataset {
    char *path;       /* the split folder */
    char *index_path; /* its index.ffx */
    ff_verify verify;
    const uint8_t *map; /* the index */
    uint64_t bytes;
    ff_index_header header;
    ff_metadata metadata;
    uint8_t metadata_id[16];  /* of its text */
    uint64_t row_bytes;       /* of a sample's labels in the index */
    ff_shard_row *row;        /* [shard_count] */
    ff_shard *shard;          /* [shard_count], filled on first use */
    atomic_bool *shard_ready; /* [shard_count] */
    pthread_mutex_t mutex;    /* opening shards */
    ff_files *files;          /* of shards that are read, not mapped */
    atomic_uchar *block_ok;   /* [index blocks]: checked */
    atomic_uchar *sample_ok;  /* [count / 8]: verified, a bit a sample */
    atomic_bool scattered;    /* samples are read here and there, so nothing around them */
};

/* The shard, mapped and checked against the index on first use. Thread-safe. */
FF_MUST_USE ff_status ff_dataset_open_shard(ff_dataset *dataset, uint32_t number,
                                            const ff_shard **shard, ff_error *error);

/* Copies `bytes` at `offset` of the sample's label row. */
FF_MUST_USE ff_status ff_dataset_small_label(ff_dataset *dataset, uint64_t number, uint64_t offset,
                                             void *to, uint64_t bytes, ff_error *error);

#endif
