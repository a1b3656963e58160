/* Room format/reader, floor 3: packed splits, opened, read and verified.
 *
 * This header opens a split and finds a sample in its mapping. A compressed shard is read by frames
 * (frames.h); a set larger than memory is read in requests (direct.h, files.h). united.c makes
 * several sets one. verify.h reads everything once and compares every checksum. history.h reads
 * and extends the list of commands that made a split.
 *
 * May include format/base, format/cli, format/disk, format/storage.
 *
 * Opens and reads a packed split: mapped, never parsed.
 *
 * Opening costs O(shards): header, section table, metadata and sizes are checked; shards are mapped
 * on first use. Index blocks of 64 KiB are checked on first touch, samples once per process (policy
 * first). Every number that comes from a file is range-checked on use.
 *
 * If files shrink or fail while mapped, the functions here catch the fault and return FF_IO. A
 * caller reads a tensor in a mapping under ff_guard_run (format/base/guard.h), and asks
 * ff_dataset_is_whole after it. Thread rule: any
 * number of threads may use an ff_dataset; one thread uses an ff_reader. */
#ifndef FF_FORMAT_READER_H
#define FF_FORMAT_READER_H

#include "format/disk/layout.h"
#include "format/storage/storage.h"

typedef enum ff_verify { FF_VERIFY_OFF, FF_VERIFY_FIRST, FF_VERIFY_ALWAYS } ff_verify;

typedef struct ff_dataset ff_dataset;

typedef struct ff_shard_info {
    char name[32]; /* "shard-000000.ffs" */
    uint64_t file_bytes;
    uint64_t sample_count;
    uint64_t first_position, position_count;
    bool mapped; /* mapped at present */
} ff_shard_info;

/* Opens the split folder `path` (it holds index.ffx). If `path` holds split folders instead, the
 * error message names them. FF_BAD_DATA, FF_IO. */
FF_MUST_USE ff_status ff_dataset_open(ff_dataset **dataset, const char *path, ff_verify verify,
                                      ff_error *error);
/* Opens several folders as one set: the samples of the first, then those of the second, and so on.
 * Classes are united by name: those of the first set, then the further ones of the next. The
 * metadata is the first set's, except for classes and sizes. FF_USAGE if two sets differ in dtype,
 * layout, shape, normalization, label fields or compression, naming both. One folder: as above.
 * `storage`: of sets behind URLs, copied; NULL: the process's defaults, which ff_dataset_open has.
 */
FF_MUST_USE ff_status ff_dataset_open_several(ff_dataset **dataset, const char *const *paths,
                                              size_t count, ff_verify verify,
                                              const ff_storage_options *storage, ff_error *error);
enum { FF_SETS_LIMIT = 64 };
/* All readers of the dataset must be closed before. NULL is accepted. */
void ff_dataset_close(ff_dataset **dataset);

const char *ff_dataset_path(const ff_dataset *dataset);
/* The folder with the files of the set: its path or, behind a URL, its folder in the cache. */
const char *ff_dataset_folder(const ff_dataset *dataset);
const ff_metadata *ff_dataset_metadata(const ff_dataset *dataset);
const ff_dataset_ids *ff_dataset_id(const ff_dataset *dataset);
/* XXH3-128 of the metadata's text in the index, 16 bytes. */
const uint8_t *ff_dataset_metadata_id(const ff_dataset *dataset);
uint64_t ff_dataset_count(const ff_dataset *dataset);
/* Whether the set, or one of several, lies behind a URL: its samples are read, not mapped, unless a
 * caller maps a shard. */
bool ff_dataset_is_remote(const ff_dataset *dataset);
/* For a set behind a URL, or several: the folder of the cache and the most that it may have, the
 * bytes that the sets' shards take there, and those that are there. False if none is. */
bool ff_dataset_cache(const ff_dataset *dataset, const char **place, uint64_t *limit,
                      uint64_t *set_bytes, uint64_t *there);
/* The options with which one set behind a URL was opened; NULL for a folder. */
const ff_storage_options *ff_dataset_storage(const ff_dataset *dataset);
/* The sets that were opened as one, 1 for a single set; the first sample of set `set`, and with
 * their number the count of all; set `set`, owned by `dataset`; and the set of a sample. */
size_t ff_dataset_set_count(const ff_dataset *dataset);
uint64_t ff_dataset_set_begin(const ff_dataset *dataset, size_t set);
const ff_dataset *ff_dataset_set(const ff_dataset *dataset, size_t set);
size_t ff_dataset_set_of(const ff_dataset *dataset, uint64_t number);
uint32_t ff_dataset_shard_count(const ff_dataset *dataset);
uint64_t ff_dataset_index_bytes(const ff_dataset *dataset);
FF_MUST_USE ff_status ff_dataset_shard(ff_dataset *dataset, uint32_t shard, ff_shard_info *info,
                                       ff_error *error);

/* The entry of sample `number` < count, checked. */
FF_MUST_USE ff_status ff_dataset_entry(ff_dataset *dataset, uint64_t number, ff_entry *entry,
                                       ff_error *error);

/* Copies the sample's key (up to FF_KEY_LIMIT_BYTES) to `key`; *key_bytes = its length; no final
 * zero. */
FF_MUST_USE ff_status ff_dataset_key(ff_dataset *dataset, uint64_t number, void *key,
                                     size_t *key_bytes, ff_error *error);

/* A class field's value (-1 = unlabeled), checked against the class count if the field has one. */
FF_MUST_USE ff_status ff_dataset_class(ff_dataset *dataset, uint64_t number, size_t field,
                                       int64_t *value, ff_error *error);

/* The index of the field of this name, or of the first field if name is NULL; FF_USAGE listing the
 * fields if there is no such field. */
FF_MUST_USE ff_status ff_dataset_field(const ff_dataset *dataset, const char *name, size_t *field,
                                       ff_error *error);

/* The parts of the index that a scan reads. */
enum { FF_SCAN_ENTRIES = 1, FF_SCAN_LABELS = 2 };
/* Samples between two calls of ff_dataset_read_ahead: 2 MiB of entries. */
enum { FF_SCAN_WINDOW = 1 << 15 };

/* Starts reading the parts `what` of the index for the FF_SCAN_WINDOW samples after those from
 * `number` on, which the previous call requested; the call for number 0 requests both windows. */
void ff_dataset_read_ahead(const ff_dataset *dataset, uint64_t number, int what);

/* Call it before each sample of a scan in the order of numbers: it reads the index ahead, in
 * requests of some MiB instead of one page per fault. */
static inline void ff_dataset_scan(const ff_dataset *dataset, uint64_t number, int what) {
    if (number % FF_SCAN_WINDOW == 0) ff_dataset_read_ahead(dataset, number, what);
}

/* A large index of a set behind a URL is fetched by parts, each when something of it is needed. To
 * fetch many parts at the same time: those with the entries and labels of these samples, with the
 * ends of their shards, or all.
 * Both do nothing if they are there, and report no failure: whoever needs a part that could not be
 * fetched does. A scan that begins with sample 0 does the same for the parts it reads. */
void ff_dataset_bring_samples(ff_dataset *dataset, const uint64_t *number, size_t count);
void ff_dataset_bring_index(ff_dataset *dataset);
/* Whether no part of it is missing. */
bool ff_dataset_has_index(const ff_dataset *dataset);

/* The numbers of all samples in storage order. */
typedef struct ff_storage_order {
    uint32_t *narrow; /* [count]; NULL = `wide` is used */
    uint64_t *wide;   /* [count], for a set beyond 2^32 samples; both NULL = the order of numbers */
    uint64_t bytes;   /* size of the array */
    struct ff_proof *proof; /* NULL, or of ff_dataset_storage_order_later */
} ff_storage_order;

/* Takes one pass, and no memory if storage order is the order of numbers; otherwise 4 bytes per
 * sample, and 8 while they are sorted (beyond 2^32 samples twice as much). FF_NO_MEMORY, with the
 * sizes, if the process has less left. The caller frees with ff_storage_order_free; zeroed on
 * failure. */
FF_MUST_USE ff_status ff_dataset_storage_order(ff_dataset *dataset, ff_storage_order *order,
                                               ff_error *error);
void ff_storage_order_free(ff_storage_order *order);

/* The same, but of a set behind a URL it reads no entries if it can do without: until the order is
 * settled, ff_storage_order_at takes each place for the number of its sample. That holds where
 * ff_storage_order_prove succeeds, before it or after it. `bytes` stays 0. The dataset must outlive
 * the order. */
FF_MUST_USE ff_status ff_dataset_storage_order_later(ff_dataset *dataset, ff_storage_order *order,
                                                     ff_error *error);
/* Reads the entry of the sample that is taken to lie at `place` < count; if another one does, or if
 * that is not known, the order is settled. Nothing to do for other orders. Thread rule: any
 * thread. */
FF_MUST_USE ff_status ff_storage_order_prove(const ff_storage_order *order, uint64_t place,
                                             ff_error *error);
/* Reads all entries: from then on ff_storage_order_at is right for every place. Errors as of
 * ff_dataset_storage_order. Nothing to do for other orders. Thread rule: any thread. */
FF_MUST_USE ff_status ff_storage_order_settle(const ff_storage_order *order, ff_error *error);

typedef struct ff_proof ff_proof;
uint64_t ff_proof_at(const ff_proof *proof, uint64_t place);
bool ff_proof_differs(const ff_proof *proof);

/* Whether the order, settled, is another one than that of numbers. */
static inline bool ff_storage_order_differs(const ff_storage_order *order) {
    return order->narrow || order->wide || (order->proof && ff_proof_differs(order->proof));
}

/* The number of the sample at a place in storage. */
static inline uint64_t ff_storage_order_at(const ff_storage_order *order, uint64_t place) {
    if (order->narrow) return order->narrow[place];
    if (order->wide) return order->wide[place];
    return order->proof ? ff_proof_at(order->proof, place) : place;
}

/* Prefetches the cache lines of sample `number` in the index, for readers in random order. Checks
 * nothing; any number is accepted. */
void ff_dataset_prefetch(const ff_dataset *dataset, uint64_t number);

/* Per-thread state: the decompressor and the last frame of compressed shards. */
typedef struct ff_reader ff_reader;
FF_MUST_USE ff_status ff_reader_open(ff_reader **reader, ff_dataset *dataset, ff_error *error);
/* The same for a set larger than memory: samples, or the frames of compressed shards, are read into
 * the reader's buffer in one request each, bypassing the page cache if the file system supports it.
 * The views are not mapped. */
FF_MUST_USE ff_status ff_reader_open_direct(ff_reader **reader, ff_dataset *dataset,
                                            ff_error *error);
/* The same as ff_reader_open; also for a set behind a URL, if all of it is in the cache. Its pieces
 * may be removed at any time, so whoever has read views asks ff_reader_recheck: *lost = true if
 * they may be wrong, also where a call failed, and have to be read again. From then on the reader
 * reads as that of ff_reader_open_direct; it does so from the begin if pieces are missing. */
FF_MUST_USE ff_status ff_reader_open_mapped(ff_reader **reader, ff_dataset *dataset,
                                            ff_error *error);
FF_MUST_USE ff_status ff_reader_recheck(ff_reader *reader, bool *lost, ff_error *error);
bool ff_reader_maps(const ff_reader *reader);
void ff_reader_close(ff_reader **reader);

/* Whether all samples of a dataset lie on this machine: a folder's do; those of a set behind a URL,
 * if the cache has them. */
bool ff_dataset_is_here(ff_dataset *dataset);
/* How often something was removed from the cache of a set behind a URL. */
uint64_t ff_dataset_removals(const ff_dataset *dataset);

/* For callers that read shards themselves, ahead of a reader (loader/host/ahead/): the bytes of a
 * shard that hold a sample. */
typedef struct ff_extent {
    uint64_t offset, bytes;      /* in the file: its slot, or its frame in a compressed shard */
    uint64_t slots, slots_bytes; /* in the payload: the frame's slots; raw: as in the file */
    uint32_t shard;
} ff_extent;

/* The extent of sample `number`; opens its shard, and maps it if the set is compressed. */
FF_MUST_USE ff_status ff_dataset_extent(ff_dataset *dataset, uint64_t number, ff_extent *extent,
                                        ff_error *error);

/* The same without opening a shard, which may fetch its ends: offset and bytes of a compressed
 * sample whose shard is not open are guessed. */
FF_MUST_USE ff_status ff_dataset_extent_guess(ff_dataset *dataset, uint64_t number,
                                              ff_extent *extent, ff_error *error);

/* Offsets, lengths and memory of a read that bypasses the page cache are multiples of the device's
 * block; 4 KiB fits all devices in use. */
#define FF_READ_BLOCK UINT64_C(4096)

/* Reads `bytes` at `offset` of a shard into `to`, bypassing the page cache if the file system
 * supports it. offset and `to` are multiples of FF_READ_BLOCK, and `to` has room for whole blocks.
 * FF_IO with path and offset. */
FF_MUST_USE ff_status ff_dataset_read(ff_dataset *dataset, uint32_t shard, uint64_t offset,
                                      uint64_t bytes, uint8_t *to, ff_error *error);

/* The same for a shard behind a URL, past the cache: if the cache lacks any of these bytes, they
 * are fetched into `to` alone. For bytes whose neighbours are not needed soon. */
FF_MUST_USE ff_status ff_dataset_read_alone(ff_dataset *dataset, uint32_t shard, uint64_t offset,
                                            uint64_t bytes, uint8_t *to, ff_error *error);

/* Fetches what the cache lacks of a range of a shard behind a URL. FF_IO with the URL. */
FF_MUST_USE ff_status ff_dataset_bring(ff_dataset *dataset, uint32_t shard, uint64_t offset,
                                       uint64_t bytes, ff_error *error);

/* For a set behind a URL, whose cache removes the pieces that are used the latest: `next` returns
 * when piece `piece` of a shard is used next, as ff_cache_next (format/storage/cache.h). NULL:
 * nothing is known. */
typedef uint64_t ff_dataset_next(void *context, uint32_t shard, uint32_t piece);
void ff_dataset_foresee(ff_dataset *dataset, ff_dataset_next *next, void *context);

/* The next three functions map the shard first. They report no failure: the shard's readers meet
 * the same failure and report it.
 *
 * Whether memory has the page at `offset`. Linux reveals this only to the file's owner; for all
 * other users the result is true. */
bool ff_dataset_has_page(ff_dataset *dataset, uint32_t shard, uint64_t offset);
/* Starts reading `bytes` from `offset` on into the page cache. */
void ff_dataset_fetch(ff_dataset *dataset, uint32_t shard, uint64_t offset, uint64_t bytes);
/* Waits until memory has the page at `offset`. */
void ff_dataset_await_page(ff_dataset *dataset, uint32_t shard, uint64_t offset);

/* Decompresses the frame that an extent names, from its `bytes` into `slots` (slots_bytes). */
FF_MUST_USE ff_status ff_reader_unpack(ff_reader *reader, const ff_extent *extent,
                                       const uint8_t *bytes, uint8_t *slots, ff_error *error);

/* Where a reader looks first: *slot = the slot of this entry, valid until the reader's next call.
 * If the slot is not there, *slot stays NULL as before the call, and the reader reads the sample
 * itself. */
typedef ff_status ff_reader_find(void *context, ff_reader *reader, const ff_entry *entry,
                                 const uint8_t **slot, ff_error *error);
void ff_reader_look_first(ff_reader *reader, ff_reader_find *find, void *context);

/* A sample in place. */
typedef struct ff_view {
    const void *tensor; /* raw shard: in the mapping, aligned to metadata->alignment, valid until
                           the dataset is closed, read under ff_guard_run; zstd shard or direct
                           reader: in the reader, valid until its next call */
    bool mapped;        /* whether the tensor must be read under the guard */
    uint64_t tensor_bytes;
    uint32_t height, width;
    ff_entry entry;
} ff_view;

/* Finds, verifies (by the dataset's policy) and returns sample `number`. A failed checksum is
 * FF_BAD_DATA with path, sample, offset, found and wanted. */
FF_MUST_USE ff_status ff_reader_sample(ff_reader *reader, uint64_t number, ff_view *view,
                                       ff_error *error);

/* The same, but a mapped sample is not verified yet. Whoever reads it under a guard can so verify
 * and use it while it is in the cache: if ff_reader_verifies, the checksum of its entry.bytes from
 * view->tensor on is compared with entry.checksum, in the guard; then ff_dataset_is_whole; then
 * either ff_reader_verified or ff_reader_differs, which returns FF_BAD_DATA as above. */
FF_MUST_USE ff_status ff_reader_locate(ff_reader *reader, uint64_t number, ff_view *view,
                                       ff_error *error);
bool ff_reader_verifies(const ff_reader *reader, uint64_t number);
void ff_reader_verified(ff_reader *reader, uint64_t number);
ff_status ff_reader_differs(const ff_reader *reader, uint64_t number, const ff_view *view,
                            uint64_t checksum, ff_error *error);
/* The sample is wrong: of a set behind a URL it is removed from the cache, if it can be. */
FF_MUST_USE ff_status ff_reader_refuse(ff_reader *reader, uint64_t number, ff_error *error);

/* Copies the tensor of a view to `to` (view->tensor_bytes). FF_IO with path and offset if the shard
 * shrank. */
FF_MUST_USE ff_status ff_view_copy(const ff_dataset *dataset, const ff_view *view, void *to,
                                   ff_error *error);

/* Copies a sample's values of a label field (ff_field_bytes) to `values`. */
FF_MUST_USE ff_status ff_reader_label(ff_reader *reader, uint64_t number, size_t field,
                                      void *values, ff_error *error);

/* Whether a mapped shard ends as it did when it was opened. Call it in the guard, after a view's
 * tensor was read: if not, the file was cut or overwritten, and the tensor may be other bytes. */
bool ff_dataset_is_whole(const ff_dataset *dataset, uint32_t shard);

/* FF_IO with path and offset, for a fault that a guard reported while a view was read, or for the
 * tensor of a shard that is not whole. */
ff_status ff_dataset_fault(const ff_dataset *dataset, const void *address, ff_error *error);

#endif
