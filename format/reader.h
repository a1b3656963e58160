/* Room format, floor 1: the files of a packed dataset, written, read and verified.
 *
 * FORMAT.md is the specification. metadata.h holds what a set records of itself; layout.h and
 * dtype.h say how a sample lies in memory. writer.h makes shards and the index, block by block
 * (block.h), each renamed into place when it is whole (output.h). This header opens a split and
 * finds a sample in its mapping; a compressed shard is read by frames. verify.h reads everything
 * once and compares every checksum.
 *
 * May include format/base.
 *
 * Opens and reads a packed split: mapped, never parsed.
 *
 * Opening costs O(shards): header, section table, metadata and sizes are checked; shards are
 * mapped on first use. Index blocks of 64 KiB are checked on first touch, samples once per process
 * (policy first). Every number that comes from a file is range-checked on use.
 *
 * Files that shrink or fail while mapped: the functions here catch it and return FF_IO. A caller
 * reads a tensor in a mapping under ff_guard_run (format/base/guard.h). Thread rule: an ff_dataset
 * may be used by any number of threads; an ff_reader by one. */
#ifndef FF_FORMAT_READER_H
#define FF_FORMAT_READER_H

#include "format/layout.h"

typedef enum ff_verify { FF_VERIFY_OFF, FF_VERIFY_FIRST, FF_VERIFY_ALWAYS } ff_verify;

typedef struct ff_dataset ff_dataset;

typedef struct ff_shard_info {
    char name[32]; /* "shard-000000.ffs" */
    uint64_t file_bytes;
    uint64_t sample_count;
    uint64_t first_position, position_count;
    bool mapped; /* now */
} ff_shard_info;

/* Opens the split folder `path` (it holds index.ffx). Where `path` holds split folders instead, the
 * error message names them. FF_BAD_DATA, FF_IO. */
FF_MUST_USE ff_status ff_dataset_open(ff_dataset **dataset, const char *path, ff_verify verify,
                                      ff_error *error);
/* All readers of it must be closed before. NULL is accepted. */
void ff_dataset_close(ff_dataset **dataset);

const char *ff_dataset_path(const ff_dataset *dataset);
const ff_metadata *ff_dataset_metadata(const ff_dataset *dataset);
const ff_dataset_ids *ff_dataset_id(const ff_dataset *dataset);
/* XXH3-128 of the metadata's text as the index has it, 16 bytes. */
const uint8_t *ff_dataset_metadata_id(const ff_dataset *dataset);
uint64_t ff_dataset_count(const ff_dataset *dataset);
uint32_t ff_dataset_shard_count(const ff_dataset *dataset);
uint64_t ff_dataset_index_bytes(const ff_dataset *dataset);
FF_MUST_USE ff_status ff_dataset_shard(ff_dataset *dataset, uint32_t shard, ff_shard_info *info,
                                       ff_error *error);

/* Sample `number` < count: its entry, checked. */
FF_MUST_USE ff_status ff_dataset_entry(ff_dataset *dataset, uint64_t number, ff_entry *entry,
                                       ff_error *error);

/* Copies its key (up to FF_KEY_LIMIT_BYTES) into `key`, *key_bytes of them; no final zero. */
FF_MUST_USE ff_status ff_dataset_key(ff_dataset *dataset, uint64_t number, void *key,
                                     size_t *key_bytes, ff_error *error);

/* A class field's value (-1 = unlabeled), checked against the class count where there is one. */
FF_MUST_USE ff_status ff_dataset_class(ff_dataset *dataset, uint64_t number, size_t field,
                                       int64_t *value, ff_error *error);

/* The index of the field of this name, or of the first field where name is NULL; FF_USAGE listing
 * the fields where there is none. */
FF_MUST_USE ff_status ff_dataset_field(const ff_dataset *dataset, const char *name, size_t *field,
                                       ff_error *error);

/* What a scan reads of the index. */
enum { FF_SCAN_ENTRIES = 1, FF_SCAN_LABELS = 2 };
/* Samples between two calls of ff_dataset_read_ahead: 2 MiB of entries. */
enum { FF_SCAN_WINDOW = 1 << 15 };

/* Starts reading the parts `what` of the index for FF_SCAN_WINDOW samples from `number` on, and for
 * as many after them. */
void ff_dataset_read_ahead(const ff_dataset *dataset, uint64_t number, int what);

/* Before each sample of a scan in the order of numbers: the index is read ahead, in requests of
 * some MiB in place of a page for each fault. */
static inline void ff_dataset_scan(const ff_dataset *dataset, uint64_t number, int what) {
    if (number % FF_SCAN_WINDOW == 0) ff_dataset_read_ahead(dataset, number, what);
}

/* The numbers of all samples in storage order. */
typedef struct ff_storage_order {
    uint32_t *narrow; /* [count]; NULL: `wide` */
    uint64_t *wide;   /* [count] of a set beyond 2^32 samples; NULL, too: the order of numbers */
    uint64_t bytes;   /* of either */
} ff_storage_order;

/* One pass, and no memory where storage order is the order of numbers; else 4 bytes a sample, and 8
 * while they are sorted (beyond 2^32 samples twice as much). FF_NO_MEMORY, with the sizes, where
 * the process has less left. The caller frees with ff_storage_order_free; zeroed on failure. */
FF_MUST_USE ff_status ff_dataset_storage_order(ff_dataset *dataset, ff_storage_order *order,
                                               ff_error *error);
void ff_storage_order_free(ff_storage_order *order);

static inline bool ff_storage_order_differs(const ff_storage_order *order) {
    return order->narrow || order->wide;
}

/* The number of the sample at a place in storage. */
static inline uint64_t ff_storage_order_at(const ff_storage_order *order, uint64_t place) {
    if (order->narrow) return order->narrow[place];
    return order->wide ? order->wide[place] : place;
}

/* Prefetches the cache lines of sample `number` in the index, for readers in random order. Reads
 * and checks nothing; any number is accepted. */
void ff_dataset_prefetch(const ff_dataset *dataset, uint64_t number);

/* Per-thread state: the decompressor and the last frame of compressed shards. */
typedef struct ff_reader ff_reader;
FF_MUST_USE ff_status ff_reader_open(ff_reader **reader, ff_dataset *dataset, ff_error *error);
/* The same for a set larger than memory: samples, or the frames of compressed shards, are read into
 * the reader's buffer in one request each, bypassing the page cache where the file system can. No
 * view is mapped. */
FF_MUST_USE ff_status ff_reader_open_direct(ff_reader **reader, ff_dataset *dataset,
                                            ff_error *error);
void ff_reader_close(ff_reader **reader);

/* For callers that read shards themselves, ahead of a reader (loader/host/ahead/): the bytes of a
 * shard that hold a sample. */
typedef struct ff_extent {
    uint64_t offset, bytes;      /* in the file: its slot, or its frame in a compressed shard */
    uint64_t slots, slots_bytes; /* in the payload: the frame's slots; else as in the file */
    uint32_t shard;
} ff_extent;

/* Those of sample `number`; maps its shard. */
FF_MUST_USE ff_status ff_dataset_extent(ff_dataset *dataset, uint64_t number, ff_extent *extent,
                                        ff_error *error);

/* Offsets, lengths and memory of a read that bypasses the page cache are multiples of the device's
 * block; 4 KiB fits all that are in use. */
#define FF_READ_BLOCK UINT64_C(4096)

/* Reads `bytes` at `offset` of a shard into `to`, bypassing the page cache where the file system
 * can. offset and `to` are multiples of FF_READ_BLOCK, and `to` has room for whole blocks. FF_IO
 * with path and offset. */
FF_MUST_USE ff_status ff_dataset_read(ff_dataset *dataset, uint32_t shard, uint64_t offset,
                                      uint64_t bytes, uint8_t *to, ff_error *error);

/* The next three functions map the shard first. They report no failure: the shard's readers meet
 * the same one and report it.
 *
 * Whether memory has the page at `offset`. Linux tells this to the file's owner alone; true for
 * everybody else. */
bool ff_dataset_has_page(ff_dataset *dataset, uint32_t shard, uint64_t offset);
/* Begins to read `bytes` from `offset` on into the page cache. */
void ff_dataset_fetch(ff_dataset *dataset, uint32_t shard, uint64_t offset, uint64_t bytes);
/* Waits until memory has the page at `offset`. */
void ff_dataset_await_page(ff_dataset *dataset, uint32_t shard, uint64_t offset);

/* Decompresses the frame that an extent names, from its `bytes` into `slots` (slots_bytes). */
FF_MUST_USE ff_status ff_reader_unpack(ff_reader *reader, const ff_extent *extent,
                                       const uint8_t *bytes, uint8_t *slots, ff_error *error);

/* Where a reader looks first: *slot = the slot of this entry, valid until the reader's next call;
 * NULL (as before the call) where it is not there, and the reader reads it. */
typedef ff_status ff_reader_find(void *context, ff_reader *reader, const ff_entry *entry,
                                 const uint8_t **slot, ff_error *error);
void ff_reader_look_first(ff_reader *reader, ff_reader_find *find, void *context);

/* A sample in place. */
typedef struct ff_view {
    const void *tensor; /* raw shard: in the mapping, aligned to metadata->alignment, valid until
                           the dataset is closed, read under ff_guard_run; zstd shard or direct
                           reader: in the reader, valid until its next call */
    bool mapped;        /* whether the guard is needed */
    uint64_t tensor_bytes;
    uint32_t height, width;
    ff_entry entry;
} ff_view;

/* Finds, verifies (by the dataset's policy) and returns sample `number`. A failed checksum is
 * FF_BAD_DATA with path, sample, offset, found and wanted. */
FF_MUST_USE ff_status ff_reader_sample(ff_reader *reader, uint64_t number, ff_view *view,
                                       ff_error *error);

/* Copies the tensor of a view to `to` (view->tensor_bytes). A shard that shrank is FF_IO with path
 * and offset. */
FF_MUST_USE ff_status ff_view_copy(const ff_dataset *dataset, const ff_view *view, void *to,
                                   ff_error *error);

/* Copies a label field's values of a sample (ff_field_bytes) to `values`. */
FF_MUST_USE ff_status ff_reader_label(ff_reader *reader, uint64_t number, size_t field,
                                      void *values, ff_error *error);

/* Turns a fault that a guard reported while a view was read into FF_IO with path and offset. */
ff_status ff_dataset_fault(const ff_dataset *dataset, const void *address, ff_error *error);

#endif
