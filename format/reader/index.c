#include "format/reader/index.h"

#include "format/base/file.h"
#include "format/base/read.h"
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/disk/checksum.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    RUN_BLOCKS = 16, /* that one request fetches: 1 MiB */
    RUNS_AT_ONCE = 64,
    /* Blocks that were fetched alone, one after another, after which a reader is taken for one that
     * needs the whole index. */
    SINGLE_BLOCKS = 16
};

/* ---- blocks --------------------------------------------------------------------------------- */

static uint64_t block_at(uint64_t offset) {
    return (offset - FF_HEADER_BYTES) / FF_INDEX_BLOCK_BYTES;
}

static uint64_t block_begin(uint64_t block) {
    return FF_HEADER_BYTES + block * FF_INDEX_BLOCK_BYTES;
}

/* The blocks end where the table of their checksums begins. */
static uint64_t blocks_bytes(const ff_index_header *header, uint64_t first, uint64_t count) {
    const uint64_t end = header->section[FF_INDEX_CHECKSUMS].offset,
                   last = block_begin(first + count);
    return (last < end ? last : end) - block_begin(first);
}

static ff_status refuse(uint64_t block, uint64_t found, uint64_t wanted, const char *path,
                        ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "%s: offset %" PRIu64 ": block %" PRIu64 " has checksum %016" PRIx64
                   ", wanted %016" PRIx64,
                   path, block_begin(block), block, found, wanted);
}

ff_status ff_index_check_blocks(const ff_index_header *header, uint64_t first, uint64_t count,
                                const uint8_t *blocks, const uint8_t *table, const char *path,
                                ff_error *error) {
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *block = blocks + i * FF_INDEX_BLOCK_BYTES;
        const uint64_t found = ff_checksum(block, blocks_bytes(header, first + i, 1));
        const uint64_t wanted = ff_load_u64(table + 8 * i);
        if (found != wanted) return refuse(first + i, found, wanted, path, error);
    }
    return FF_OK;
}

ff_status ff_index_check_table(const ff_index_header *header, const uint8_t *table,
                               const char *path, ff_error *error) {
    const ff_section *section = &header->section[FF_INDEX_CHECKSUMS];
    const uint64_t found = ff_checksum(table, section->bytes);
    if (found != section->checksum)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: offset %" PRIu64 ": the table of checksums has checksum %016" PRIx64
                       ", wanted %016" PRIx64,
                       path, section->offset, found, section->checksum);
    for (uint64_t at = section->bytes; at < header->file_bytes - section->offset; at++)
        if (table[at])
            return ff_fail(error, FF_BAD_DATA,
                           "%s: offset %" PRIu64 ": the padding at the end is not zero", path,
                           section->offset + at);
    return FF_OK;
}

/* The checksum of bytes of a cached file, without its mapping: a fault on a hole takes space of a
 * tmpfs, and is a bus error if that is full. */
static ff_status checksum_of_cached(const ff_dataset *dataset, uint64_t begin, uint64_t bytes,
                                    uint64_t *found, ff_error *error) {
    uint8_t *copy;
    FF_TRY(ff_alloc(&copy, bytes, 1, "a block of an index", error));
    const ff_status status =
        ff_read_at(dataset->index_file, dataset->index_path, copy, bytes, begin, error);
    if (status == FF_OK) *found = ff_checksum(copy, bytes);
    free(copy);
    return status;
}

/* The checksum of a block in the file, and the table's. */
static ff_status look(const ff_dataset *dataset, uint64_t block, uint64_t *found, uint64_t *wanted,
                      ff_error *error) {
    const uint64_t table = dataset->header.section[FF_INDEX_CHECKSUMS].offset;
    const uint64_t begin = block_begin(block), bytes = blocks_bytes(&dataset->header, block, 1);
    uint8_t entry[8];
    ff_dataset_advise(dataset, begin, bytes); /* one request instead of 16 */
    FF_TRY(dataset->remote ? checksum_of_cached(dataset, begin, bytes, found, error)
                           : ff_mapped_checksum(&dataset->index, begin, bytes, found, error));
    FF_TRY(ff_mapped_copy(entry, &dataset->index, table + 8 * block, sizeof entry, error));
    *wanted = ff_load_u64(entry);
    return FF_OK;
}

static bool is_known(const ff_dataset *dataset, uint64_t block) {
    return atomic_load_explicit(&dataset->block_ok[block], memory_order_relaxed);
}

static bool is_right(const ff_dataset *dataset, uint64_t block) {
    uint64_t found, wanted;
    if (is_known(dataset, block)) return true;
    if (look(dataset, block, &found, &wanted, NULL) != FF_OK || found != wanted) return false;
    atomic_store_explicit(&dataset->block_ok[block], 1, memory_order_relaxed);
    return true;
}

/* ---- fetching ------------------------------------------------------------------------------- */

/* While one process fetches blocks, others wait for them. Where the file system has no locks, each
 * fetches them. */
static ff_status lock(const ff_dataset *dataset, short type, uint64_t first, uint64_t count,
                      ff_error *error) {
    struct flock wanted = {.l_type = type,
                           .l_whence = SEEK_SET,
                           .l_start = (off_t)block_begin(first),
                           .l_len = (off_t)blocks_bytes(&dataset->header, first, count)};
    while (fcntl(dataset->index_file, F_OFD_SETLK, &wanted) &&
           (errno == EAGAIN || errno == EACCES)) {
        const struct timespec slice = {.tv_nsec = 1000 * 1000};
        FF_TRY(ff_interrupt_check(error));
        nanosleep(&slice, NULL);
    }
    return FF_OK;
}

/* Once more if it was changed on its way. */
static ff_status fetch_checked(const ff_dataset *dataset, uint64_t first, uint64_t count,
                               uint8_t *to, ff_error *error) {
    const ff_index_header *header = &dataset->header;
    const uint64_t table = header->section[FF_INDEX_CHECKSUMS].offset;
    uint8_t wanted[RUN_BLOCKS * 8];
    char *url;
    FF_TRY(ff_mapped_copy(wanted, &dataset->index, table + 8 * first, 8 * count, error));
    FF_TRY(ff_format(&url, error, "%s/" FF_INDEX_NAME, ff_remote_url(dataset->remote)));
    ff_status status = FF_BAD_DATA;
    for (int turn = 0; turn < 2 && status == FF_BAD_DATA; turn++) {
        status = ff_remote_read_index(dataset->remote, block_begin(first),
                                      blocks_bytes(header, first, count), to, error);
        if (status == FF_OK)
            status = ff_index_check_blocks(header, first, count, to, wanted, url, error);
    }
    free(url);
    return status;
}

/* Fetches at most RUN_BLOCKS blocks; those at both ends that are right are left out. */
static ff_status fetch(const ff_dataset *dataset, uint64_t first, uint64_t count, ff_error *error) {
    uint8_t *bytes = NULL;
    const uint64_t locked = first, all = count;
    FF_TRY(lock(dataset, F_WRLCK, locked, all, error));
    while (count && is_right(dataset, first)) first++, count--;
    while (count && is_right(dataset, first + count - 1)) count--;
    ff_status status = FF_OK;
    if (!count) goto done;
    FF_TRY_DONE(
        ff_alloc(&bytes, blocks_bytes(&dataset->header, first, count), 1, "an index", error));
    FF_TRY_DONE(fetch_checked(dataset, first, count, bytes, error));
    FF_TRY_DONE(ff_write_at(dataset->index_file, dataset->index_path, bytes,
                            blocks_bytes(&dataset->header, first, count), block_begin(first),
                            error));
    for (uint64_t i = 0; i < count; i++)
        atomic_store_explicit(&dataset->block_ok[first + i], 1, memory_order_release);
done:
    (void)!lock(dataset, F_UNLCK, locked, all, NULL);
    free(bytes);
    return status;
}

typedef struct bringing {
    const ff_dataset *dataset;
    struct run {
        uint64_t first, count;
    } * run;
    atomic_bool failed;
} bringing;

static void bring_run(void *context, size_t i) {
    bringing *job = context;
    const struct run *run = &job->run[i];
    if (!atomic_load(&job->failed) && fetch(job->dataset, run->first, run->count, NULL) != FF_OK)
        atomic_store(&job->failed, true);
}

/* Fetches those of the wanted blocks that the cache lacks, neighbours by one request. */
static void bring(const ff_dataset *dataset, const bool *wanted) {
    const uint64_t blocks = dataset->header.section[FF_INDEX_CHECKSUMS].bytes / 8;
    bringing job = {.dataset = dataset};
    size_t count = 0;
    if (ff_alloc(&job.run, blocks, sizeof *job.run, "an index", NULL) != FF_OK) return;
    for (uint64_t i = 0; i < blocks; i++) {
        struct run *last = count ? &job.run[count - 1] : NULL;
        if (!wanted[i] || is_right(dataset, i)) continue;
        if (last && last->first + last->count == i && last->count < RUN_BLOCKS)
            last->count++;
        else
            job.run[count++] = (struct run){i, 1};
    }
    const int threads = count < RUNS_AT_ONCE ? (int)count : RUNS_AT_ONCE;
    if (count) (void)!ff_parallel_for(threads, count, bring_run, &job, NULL);
    free(job.run);
}

/* A file that was written whole has no holes: nothing of it is read to find that out. */
static bool has_holes(const ff_dataset *dataset, uint64_t begin, uint64_t end) {
    if (!dataset->remote || begin >= end) return false;
    const off_t hole = lseek(dataset->index_file, (off_t)begin, SEEK_HOLE);
    return hole >= 0 && (uint64_t)hole < end;
}

static bool *wanted_blocks(const ff_dataset *dataset) {
    bool *wanted;
    const uint64_t blocks = dataset->header.section[FF_INDEX_CHECKSUMS].bytes / 8;
    return ff_alloc(&wanted, blocks, sizeof *wanted, "an index", NULL) == FF_OK ? wanted : NULL;
}

static void want(bool *wanted, uint64_t offset, uint64_t bytes) {
    for (uint64_t i = block_at(offset); bytes && i <= block_at(offset + bytes - 1); i++)
        wanted[i] = true;
}

void ff_index_bring(const ff_dataset *dataset, uint64_t offset, uint64_t bytes) {
    if (!has_holes(dataset, offset, offset + bytes)) return;
    bool *wanted = wanted_blocks(dataset);
    if (!wanted) return;
    want(wanted, offset, bytes);
    bring(dataset, wanted);
    free(wanted);
}

static uint64_t blocks_end(const ff_dataset *dataset) {
    return dataset->header.section[FF_INDEX_CHECKSUMS].offset;
}

bool ff_dataset_has_index(const ff_dataset *dataset) {
    for (size_t i = 0; i < dataset->united_count; i++)
        if (!ff_dataset_has_index(dataset->united[i].set)) return false;
    return !has_holes(dataset, FF_HEADER_BYTES, blocks_end(dataset));
}

void ff_dataset_bring_index(ff_dataset *dataset) {
    for (size_t i = 0; i < dataset->united_count; i++)
        ff_dataset_bring_index(dataset->united[i].set);
    if (dataset->remote)
        ff_index_bring(dataset, FF_HEADER_BYTES, blocks_end(dataset) - FF_HEADER_BYTES);
}

static void bring_samples(const ff_dataset *dataset, uint64_t begin, const uint64_t *number,
                          size_t count) {
    const ff_section *section = dataset->header.section;
    if (ff_dataset_has_index(dataset)) return;
    bool *wanted = wanted_blocks(dataset);
    if (!wanted) return;
    for (size_t i = 0; i < count; i++) {
        if (number[i] < begin || number[i] - begin >= dataset->header.sample_count) continue;
        const uint64_t own = number[i] - begin;
        want(wanted, section[FF_INDEX_ENTRIES].offset + own * FF_ENTRY_BYTES, FF_ENTRY_BYTES);
        want(wanted, section[FF_INDEX_LABELS].offset + own * dataset->row_bytes,
             dataset->row_bytes);
    }
    bring(dataset, wanted);
    free(wanted);
}

void ff_dataset_bring_samples(ff_dataset *dataset, const uint64_t *number, size_t count) {
    for (size_t i = 0; i < ff_dataset_set_count(dataset); i++)
        bring_samples(ff_dataset_set(dataset, i), ff_dataset_set_begin(dataset, i), number, count);
    ff_dataset_bring_ends(dataset, number, count);
}

/* ---- reading -------------------------------------------------------------------------------- */

static ff_status touch(ff_dataset *dataset, uint64_t block, ff_error *error) {
    uint64_t found, wanted;
    FF_TRY(look(dataset, block, &found, &wanted, error));
    if (found != wanted && !dataset->remote)
        return refuse(block, found, wanted, dataset->index_path, error);
    if (found != wanted) {
        FF_TRY(fetch(dataset, block, 1, error));
        if (atomic_fetch_add(&dataset->single_blocks, 1) == SINGLE_BLOCKS)
            ff_dataset_bring_index(dataset);
    }
    atomic_store_explicit(&dataset->block_ok[block], 1, memory_order_relaxed);
    return FF_OK;
}

ff_status ff_index_read(ff_dataset *dataset, uint64_t offset, void *to, uint64_t bytes,
                        ff_error *error) {
    for (uint64_t i = block_at(offset); bytes && i <= block_at(offset + bytes - 1); i++)
        if (!is_known(dataset, i)) FF_TRY(touch(dataset, i, error));
    return ff_mapped_copy(to, &dataset->index, offset, bytes, error);
}

/* ---- opening -------------------------------------------------------------------------------- */

static ff_status map_index(ff_dataset *dataset, ff_error *error) {
    uint8_t header[FF_HEADER_BYTES], end[8];
    const char *path = dataset->index_path;
    const off_t bytes = lseek(dataset->index_file, 0, SEEK_END);
    if (bytes < 0) return ff_fail_errno(error, "%s: cannot find its size", path);
    dataset->bytes = (uint64_t)bytes;
    FF_TRY(ff_read_at(dataset->index_file, path, header, sizeof header, 0, error));
    FF_TRY(ff_index_header_decode(&dataset->header, header, dataset->bytes, path, error));
    const ff_section *table = &dataset->header.section[FF_INDEX_CHECKSUMS];
    const uint64_t at = table->offset + table->bytes - sizeof end, own = sizeof header - 8;
    FF_TRY(ff_read_at(dataset->index_file, path, end, sizeof end, at, error));
    void *map = mmap(NULL, dataset->bytes, PROT_READ, MAP_SHARED, dataset->index_file, 0);
    if (map == MAP_FAILED) return ff_fail_errno(error, "%s: cannot map", path);
    dataset->index =
        (ff_mapped){path, map, {{at, ff_load_u64(end)}, {own, ff_load_u64(header + own)}}};
    madvise(map, dataset->bytes, MADV_RANDOM);
    return FF_OK;
}

static ff_status check_table(ff_dataset *dataset, ff_error *error) {
    const ff_section *section = &dataset->header.section[FF_INDEX_CHECKSUMS];
    const uint64_t bytes = dataset->bytes - section->offset;
    uint8_t *table;
    FF_TRY(ff_alloc(&table, bytes, 1, "a table of checksums", error));
    ff_status status = ff_mapped_copy(table, &dataset->index, section->offset, bytes, error);
    if (status == FF_OK)
        status = ff_index_check_table(&dataset->header, table, dataset->index_path, error);
    free(table);
    FF_TRY(status);
    return ff_alloc(&dataset->block_ok, section->bytes / 8, 1, "index blocks", error);
}

ff_status ff_index_open(ff_dataset *dataset, bool *none, ff_error *error) {
    const int flags = dataset->remote ? O_RDWR : O_RDONLY;
    dataset->index_file = open(dataset->index_path, flags | O_CLOEXEC);
    *none = dataset->index_file < 0 && (errno == ENOENT || errno == ENOTDIR);
    if (dataset->index_file < 0)
        return ff_fail_errno(error, "%s: cannot open%s", dataset->index_path,
                             dataset->remote ? "; a cache must be writable" : "");
    ff_status status = map_index(dataset, error);
    /* Blocks that the cache lacks are written into the file that is mapped, also when another
     * process has replaced it. */
    if (!dataset->remote || status != FF_OK) ff_close_file(&dataset->index_file);
    FF_TRY(status);
    FF_TRY(check_table(dataset, error));
    const ff_section *rows = &dataset->header.section[FF_INDEX_SHARDS];
    ff_index_bring(dataset, FF_HEADER_BYTES, rows->offset + rows->bytes - FF_HEADER_BYTES);
    return FF_OK;
}

void ff_index_close(ff_dataset *dataset) {
    if (!dataset->index.map) return;
    munmap((void *)(uintptr_t)dataset->index.map, dataset->bytes);
    ff_close_file(&dataset->index_file);
}
