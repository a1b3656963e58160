/* Measures the loader against a plain reader of the same shards, for sets that memory cannot keep.
 *
 *   bench_ahead make DIR SAMPLES raw|zstd          writes a set of u8 3x64x64
 *   bench_ahead DIR random|block|sequential SECONDS ROUNDS
 *
 * Each round reads for SECONDS in each way of a plain reader, then alternately in the best of these
 * ways and through an epoch with the loader (batch 256, 2 threads, u8 as stored), with checksums
 * and without. Nothing of the set is in the page cache. The plain reader reads whole samples at
 * random places, or with the other orders parts of 1 MiB one after another, with O_DIRECT and
 * through the page cache, into huge pages. A thread of the plain reader overwrites what it read
 * before, which stays in the processor's caches. The plain reader that keeps what it reads, as
 * every user of the data must, fills KEPT_BYTES in turn. With ROUNDS 0 both plain readers read
 * alone, once. Prints a JSON object: the group of block order, and of each round the rates in bytes
 * of samples a second, and the bytes that the loader read for each it used (/proc/self/io). */
#include "tests/programs/bench_loader.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { THREADS_MOST = 64, PART_BYTES = 1 << 20, HUGE_PAGE = 2 << 20, BATCH = 256 };
enum { KEPT_BYTES = 64 << 20 };

typedef struct plain {
    ff_dataset *dataset;
    int *file; /* [shards] */
    bool random;
    uint8_t *memory; /* [threads][buffers][buffer_bytes] */
    uint64_t buffer_bytes, buffers;
    uint64_t until_ns;
    atomic_uint_fast64_t bytes, part; /* used; the next part of the set */
} plain;

/* The part of PART_BYTES number `part` of all shards; false after the last one. */
static bool find_part(const plain *job, uint64_t part, uint32_t *shard, uint64_t *offset,
                      uint64_t *bytes) {
    for (*shard = 0; *shard < ff_dataset_shard_count(job->dataset); ++*shard) {
        ff_shard_info info;
        MUST(ff_dataset_shard(job->dataset, *shard, &info, error));
        const uint64_t parts = (info.file_bytes + PART_BYTES - 1) / PART_BYTES;
        *offset = part * PART_BYTES;
        *bytes = info.file_bytes - *offset < PART_BYTES ? info.file_bytes - *offset : PART_BYTES;
        if (part < parts) return true;
        part -= parts;
    }
    return false;
}

static void plain_body(void *context, size_t thread) {
    plain *job = context;
    for (uint64_t i = 0; ff_now_ns() < job->until_ns; i++) {
        uint32_t shard;
        uint64_t offset, bytes;
        if (job->random) {
            ff_extent extent;
            const uint64_t count = ff_dataset_count(job->dataset);
            MUST(ff_dataset_extent(job->dataset, set_mix(i, thread) % count, &extent, error));
            shard = extent.shard, offset = extent.offset, bytes = extent.bytes;
        } else if (!find_part(job, atomic_fetch_add(&job->part, 1), &shard, &offset, &bytes)) {
            atomic_store(&job->part, 0);
            continue;
        }
        const uint64_t begin = offset & ~(FF_READ_BLOCK - 1);
        const size_t length = ff_align_u64(offset + bytes - begin, FF_READ_BLOCK);
        const uint64_t buffer = thread * job->buffers + i % job->buffers;
        uint8_t *memory = job->memory + buffer * job->buffer_bytes;
        const ssize_t got = pread(job->file[shard], memory, length, (off_t)begin);
        if (got < (ssize_t)(offset + bytes - begin)) fprintf(stderr, "bench_ahead: a short read\n");
        atomic_fetch_add(&job->bytes, bytes);
    }
}

/* Opens a shard's file, and removes it from the page cache. */
static int open_shard(ff_dataset *dataset, uint32_t shard, int flags) {
    char path[4096];
    ff_shard_info info;
    MUST(ff_dataset_shard(dataset, shard, &info, error));
    snprintf(path, sizeof path, "%s/%s", ff_dataset_path(dataset), info.name);
    const int file = open(path, O_RDONLY | flags);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    return file;
}

typedef struct plain_way {
    int threads; /* each has one request at the disk */
    bool direct; /* O_DIRECT; else through the page cache */
    bool keeps;
} plain_way;

static const plain_way ways[] = {
    {4, true, false}, {16, true, false}, {THREADS_MOST, true, false}, {1, false, false},
    {4, true, true},  {16, true, true},  {THREADS_MOST, true, true}};
enum { WAYS = sizeof ways / sizeof *ways };

static double plain_rate(ff_dataset *dataset, bool random, const plain_way *way, double seconds) {
    plain job = {.dataset = dataset, .random = random, .buffers = 1};
    const uint64_t threads = (uint64_t)way->threads;
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    const uint64_t slot = ff_metadata_slot_bytes(metadata, metadata->height, metadata->width);
    job.buffer_bytes = ff_align_u64(random ? slot : PART_BYTES, FF_READ_BLOCK) + 2 * FF_READ_BLOCK;
    if (way->keeps) job.buffers = KEPT_BYTES / (threads * job.buffer_bytes) + 1;
    /* Unmapped at the end: a heap would keep the memory, which the loader needs. */
    const size_t mapped_bytes = threads * job.buffers * job.buffer_bytes + HUGE_PAGE;
    uint8_t *mapped =
        mmap(NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) abort();
    job.memory = mapped + (HUGE_PAGE - (uintptr_t)mapped % HUGE_PAGE);
    (void)madvise(job.memory, mapped_bytes - HUGE_PAGE, MADV_HUGEPAGE);
    const uint32_t shards = ff_dataset_shard_count(dataset);
    job.file = calloc(shards, sizeof *job.file);
    for (uint32_t i = 0; i < shards; i++)
        job.file[i] = open_shard(dataset, i, way->direct ? O_DIRECT : 0);
    const uint64_t began = ff_now_ns();
    job.until_ns = began + (uint64_t)(seconds * 1e9);
    MUST(ff_parallel_for(way->threads, (size_t)way->threads, plain_body, &job, error));
    const double took = (double)(ff_now_ns() - began) * 1e-9;
    for (uint32_t i = 0; i < shards; i++) close(job.file[i]);
    free(job.file);
    munmap(mapped, mapped_bytes);
    return (double)atomic_load(&job.bytes) / took;
}

static uint64_t bytes_read(void) {
    FILE *file = fopen("/proc/self/io", "r");
    char line[100];
    uint64_t bytes = 0;
    while (file && fgets(line, sizeof line, file)) sscanf(line, "read_bytes: %" SCNu64, &bytes);
    if (file) fclose(file);
    return bytes;
}

/* The bytes of samples a second in an epoch; *ratio: bytes read for each byte used. */
static double loader_rate(ff_dataset *dataset, const ff_loader_options *options, double *ratio) {
    ff_loader *loader;
    ff_slot *slot;
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    const uint64_t each = ff_metadata_tensor_bytes(metadata, metadata->height, metadata->width);
    uint64_t stored = 0, samples = 0;
    for (uint32_t i = 0; i < ff_dataset_shard_count(dataset); i++) {
        ff_shard_info info;
        MUST(ff_dataset_shard(dataset, i, &info, error));
        stored += info.file_bytes;
        close(open_shard(dataset, i, 0));
    }
    const uint64_t before = bytes_read(), began = ff_now_ns();
    MUST(ff_loader_create(&loader, dataset, options, error));
    for (;;) {
        MUST(ff_loader_acquire(loader, &slot, error));
        if (!slot) break;
        samples += slot->count;
        ff_loader_release(loader, slot, NULL);
    }
    const double took = (double)(ff_now_ns() - began) * 1e-9;
    *ratio = (double)(bytes_read() - before) / (double)stored;
    ff_loader_destroy(&loader);
    return (double)(samples * each) / took;
}

static ff_loader_options options_of(ff_dataset *dataset, const char *order) {
    ff_loader_options options = ff_loader_defaults();
    options.batch = BATCH, options.threads = 2, options.dtype = FF_U8, options.epochs = 1;
    while (strcmp(ff_order_name(options.order), order)) options.order++;
    if (options.order != FF_ORDER_BLOCK) return options;
    ff_loader *loader; /* blocks and groups that the memory can hold */
    MUST(ff_loader_create(&loader, dataset, &options, error));
    const ff_loader_info info = ff_loader_describe(loader);
    options.block = info.block, options.group = info.group;
    options.ahead_bytes = info.memory.bytes / 2; /* by later rounds, too */
    ff_loader_destroy(&loader);
    return options;
}

static int make(char **argument) {
    set_spec set = plain_set((uint64_t)atoll(argument[2]));
    set.dtype = FF_U8, set.height = set.width = 64, set.shard_bytes = 256 << 20;
    set.zstd = !strcmp(argument[3], "zstd");
    if (set.zstd) set.filter = FF_FILTER_TABLE; /* values that repeat */
    if (mkdir(argument[1], 0777)) return 1;
    MUST(set_write(&set, argument[1], NULL, error));
    return 0;
}

/* The fastest way of the plain reader that keeps what it reads, or of the other one. */
static const plain_way *best_way(ff_dataset *dataset, bool random, bool keeps, double seconds) {
    const plain_way *best = NULL;
    double best_rate = 0;
    for (const plain_way *way = ways; way < ways + WAYS; way++) {
        if (way->keeps != keeps || (random && !way->direct)) continue;
        const double rate = plain_rate(dataset, random, way, seconds);
        printf("\"%s%s %d\": %.0f, ", way->direct ? "plain" : "page cache", keeps ? " keeping" : "",
               way->threads, rate);
        if (rate > best_rate) best_rate = rate, best = way;
    }
    return best;
}

int main(int count, char **argument) {
    if (count == 5 && !strcmp(argument[1], "make")) return make(argument + 1);
    if (count != 5) return 2;
    const char *order = argument[2];
    const double seconds = atof(argument[3]);
    const bool random = !strcmp(order, "random");
    const int rounds = atoi(argument[4]);
    ff_dataset *dataset, *unchecked;
    MUST(ff_dataset_open(&dataset, argument[1], FF_VERIFY_FIRST, error));
    MUST(ff_dataset_open(&unchecked, argument[1], FF_VERIFY_OFF, error));
    ff_loader_options options = {0};
    if (rounds) options = options_of(dataset, order);
    printf("{\"block\": %" PRIu64 ", \"group\": %" PRIu64 ", \"rounds\": [", options.block,
           options.group);
    for (int round = 0; round < (rounds ? rounds : 1); round++) {
        static const char *const when[] = {"before", "between", "after"};
        double ratio = 0;
        printf("%s{", round ? ", " : "");
        const plain_way *way = best_way(dataset, random, false, seconds);
        const plain_way *keeping = best_way(dataset, random, true, seconds);
        /* A disk may be faster after a pause than in the long run, so the compared measurements
         * follow each other: the best ways of the plain readers, the loader, the plain readers. */
        options.seed = (uint64_t)round;
        for (int i = 0; i < 3; i++) {
            if (rounds && i)
                printf("\"%s\": %.0f, ", i == 1 ? "loader" : "unchecked",
                       loader_rate(i == 1 ? dataset : unchecked, &options, &ratio));
            printf("\"%s\": %.0f, ", when[i], plain_rate(dataset, random, way, seconds));
            printf("\"%s keeping\": %.0f, ", when[i],
                   plain_rate(dataset, random, keeping, seconds));
            if (!rounds) break;
        }
        printf("\"read\": %.3f}", ratio);
    }
    puts("]}");
    ff_dataset_close(&dataset);
    ff_dataset_close(&unchecked);
    return 0;
}
