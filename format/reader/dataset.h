/* An open dataset, shared by dataset.c (index), dataset_shards.c and reader.c (samples). Private to
 * format/; the public header is format/reader/reader.h. */
#ifndef FF_FORMAT_DATASET_H
#define FF_FORMAT_DATASET_H

#include "format/reader/files.h"
#include "format/reader/reader.h"
#include "format/reader/remote.h"

#include <pthread.h>
#include <stdatomic.h>

/* A set among those that a dataset unites (united.c). */
typedef struct ff_united {
    ff_dataset *set;         /* NULL in the last, whose next two are the ends */
    uint64_t first_sample;   /* the number of its sample 0 */
    uint32_t first_shard;    /* the number of its shard 0 */
    int32_t **class_numbers; /* [fields]: the numbers of its classes; NULL = as they are */
} ff_united;

enum ff_shard_readiness { FF_SHARD_UNKNOWN, FF_SHARD_KNOWN, FF_SHARD_MAPPED };

struct ff_dataset {
    ff_united *united;   /* [united_count + 1]; NULL = a single set */
    size_t united_count; /* the next ones are then: */
    ff_remote *remote;   /* of a set behind a URL; NULL = a folder */
    char *path; /* the split folder, in the cache if it is remote; all folders, with + between */
    char *index_path; /* its index.ffx; all folders */
    ff_verify verify;
    int index_file;         /* of a set behind a URL: the mapped file; else -1 */
    ff_mapped index;        /* its marks: the last checksum of the table, and the header's; none */
    uint64_t bytes;         /* of the index; of all */
    ff_index_header header; /* counts and ids alone */
    ff_metadata metadata;
    uint8_t metadata_id[16];   /* of the metadata's text */
    uint64_t row_bytes;        /* bytes of a sample's label row in the index */
    ff_shard_row *row;         /* [shard_count] */
    ff_shard *shard;           /* [shard_count], filled on first use */
    atomic_uchar *shard_ready; /* [shard_count] of ff_shard_readiness */
    pthread_mutex_t mutex;     /* held while a shard is opened */
    ff_files *files;           /* files of the shards that are read, not mapped */
    atomic_uchar *block_ok;    /* [index blocks]: whether a block was checked */
    atomic_uint single_blocks; /* index blocks that were fetched alone */
    atomic_uchar *sample_ok;   /* [count / 8]: whether a sample was verified, one bit per sample */
    uint64_t removals; /* ff_dataset_removals when it was opened: what came later may be wrong */
};

/* The shard; on first use it is mapped and checked against the index. Thread-safe. */
FF_MUST_USE ff_status ff_dataset_open_shard(ff_dataset *dataset, uint32_t number,
                                            const ff_shard **shard, ff_error *error);
/* The same for a shard whose file is read: the shard is mapped only if another caller asked for
 * that, or if the set is compressed. */
FF_MUST_USE ff_status ff_dataset_know_shard(ff_dataset *dataset, uint32_t number,
                                            const ff_shard **shard, ff_error *error);
/* Fetches what opening a shard behind a URL needs, unless the cache has it, and at the same time
 * what the shards after it need. A caller that opens many shards would wait for one answer after
 * another. Opening a shard reports why nothing could be fetched. */
void ff_dataset_fetch_ends(ff_dataset *dataset, uint32_t number);
/* The same for the shards of these samples, all at the same time. */
void ff_dataset_bring_ends(ff_dataset *dataset, const uint64_t *number, size_t count);
/* Opens the shard for one caller, who closes it; mapped if `maps` is set. */
FF_MUST_USE ff_status ff_dataset_own_shard(const ff_dataset *dataset, uint32_t number, bool maps,
                                           ff_shard *shard, ff_error *error);

/* The same, mapped, for a caller that reads only what is not samples: of a shard behind a URL
 * nothing else is fetched. */
FF_MUST_USE ff_status ff_dataset_own_tables(const ff_dataset *dataset, uint32_t number,
                                            ff_shard *shard, ff_error *error);

/* Among united sets the one with sample *number, which becomes its number there; else the dataset
 * itself. The number is below the count. */
static inline size_t ff_united_at(const ff_dataset *dataset, uint64_t number) {
    size_t at = 0;
    while (at + 1 < dataset->united_count && number >= dataset->united[at + 1].first_sample) at++;
    return at;
}
static inline ff_dataset *ff_united_with(ff_dataset *dataset, uint64_t *number) {
    if (!dataset->united) return dataset;
    const ff_united *own = &dataset->united[ff_united_at(dataset, *number)];
    *number -= own->first_sample;
    return own->set;
}
/* Whether the sample lies behind a URL. The number is below the count. */
static inline bool ff_dataset_sample_is_remote(ff_dataset *dataset, uint64_t number) {
    return ff_united_with(dataset, &number)->remote != NULL;
}
/* The united set with a shard. */
static inline size_t ff_united_at_shard(const ff_dataset *dataset, uint32_t shard) {
    size_t at = 0;
    while (at + 1 < dataset->united_count && shard >= dataset->united[at + 1].first_shard) at++;
    return at;
}
/* The number that the dataset has for a class of united set `at`. */
static inline int64_t ff_united_class(const ff_dataset *dataset, size_t at, size_t field,
                                      int64_t class_number) {
    const int32_t *numbers = dataset->united[at].class_numbers[field];
    return numbers && class_number >= 0 ? numbers[class_number] : class_number;
}
/* Frees what was read of the index, and closes the shards: the mapping, the files and united sets
 * stay. */
void ff_dataset_forget(ff_dataset *dataset);
/* Unites the sets again, after one of them became an older one. No shard is open. */
FF_MUST_USE ff_status ff_united_again(ff_dataset *dataset, ff_error *error);
void ff_united_free(ff_dataset *dataset);

/* One set, with the options of ff_dataset_open_several. */
FF_MUST_USE ff_status ff_dataset_open_at(ff_dataset **dataset, const char *path, ff_verify verify,
                                         const ff_storage_options *storage, ff_error *error);

/* Starts reading these bytes of the index. */
void ff_dataset_advise(const ff_dataset *dataset, uint64_t offset, uint64_t bytes);

/* ff_dataset_storage_order for a set whose storage order is not the order of numbers; 4 or 8 bytes
 * per sample. */
FF_MUST_USE ff_status ff_storage_order_make(ff_dataset *dataset, bool wide, ff_storage_order *order,
                                            ff_error *error);

void ff_proof_free(ff_proof *proof); /* NULL is accepted */

/* Copies `bytes` at `offset` of the sample's label row. */
FF_MUST_USE ff_status ff_dataset_small_label(ff_dataset *dataset, uint64_t number, uint64_t offset,
                                             void *to, uint64_t bytes, ff_error *error);

#endif
