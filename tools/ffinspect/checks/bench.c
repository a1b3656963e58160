#include "tools/ffinspect/checks/bench.h"

#include "format/base/guard.h"
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/cli/say.h"
#include "loader/sequence/order.h"
#include "tools/ffinspect/checks/first_failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Size of the ring into which a thread copies, as a loader copies into its batches. A ring larger
 * than the cache would measure writes to main memory, a single slot writes to the L1 cache. */
#define RING_BYTES         (UINT64_C(4) << 20)
#define SAMPLED_BYTES      (UINT64_C(1) << 30)
#define DECOMPRESSED_BYTES (UINT64_C(256) << 20)
#define MEASURED_NS        UINT64_C(400000000)
/* First passes are repeated until they have taken this long, at most MOST_FIRST_PASSES times. */
#define FIRST_NS          UINT64_C(100000000)
#define MOST_FIRST_PASSES UINT64_C(500)

enum { CHUNK_SAMPLES = 64 };

typedef struct bench_run bench_run;

/* Reads positions [from, to) of the order. */
typedef ff_status (*chunk_reader)(bench_run *run, ff_reader *reader, char *ring, uint64_t from,
                                  uint64_t to, ff_error *error);

struct bench_run {
    ff_dataset *dataset;
    uint64_t samples;
    const uint64_t *order;     /* [samples] numbers */
    const void *const *tensor; /* [samples] by number: the tensors in memory */
    const uint32_t *length;    /* [samples] bytes */
    uint64_t slot_bytes, ring_slots;
    chunk_reader read;
    uint64_t passes;
    pthread_mutex_t mutex;
    uint64_t next;       /* next chunk, counted over all passes */
    uint64_t begin, end; /* when the first thread began to read and the last one ended; ns */
    ff_first_failure failure;
};

static ff_status read_samples(bench_run *run, ff_reader *reader, char *ring, uint64_t from,
                              uint64_t to, ff_error *error) {
    for (uint64_t i = from; i < to; i++) {
        ff_view view;
        FF_TRY(ff_reader_sample(reader, run->order[i], &view, error));
        FF_TRY(
            ff_view_copy(run->dataset, &view, ring + i % run->ring_slots * run->slot_bytes, error));
    }
    return FF_OK;
}

typedef struct plain_job {
    const bench_run *run;
    char *ring;
    uint64_t from, to;
} plain_job;

static void plain_body(void *context) {
    const plain_job *job = context;
    const bench_run *run = job->run;
    for (uint64_t i = job->from; i < job->to; i++) {
        uint64_t number = run->order[i];
        memcpy(job->ring + i % run->ring_slots * run->slot_bytes, run->tensor[number],
               run->length[number]);
    }
}

/* One guard per chunk: it costs almost nothing, and a shard that shrinks does not end the
 * process. */
static ff_status copy_plainly(bench_run *run, ff_reader *reader, char *ring, uint64_t from,
                              uint64_t to, ff_error *error) {
    (void)reader;
    plain_job job = {.run = run, .ring = ring, .from = from, .to = to};
    const void *fault = ff_guard_run(plain_body, &job);
    return fault ? ff_dataset_fault(run->dataset, fault, error) : FF_OK;
}

static ff_status work(bench_run *run, ff_error *error) {
    uint64_t chunks = (run->samples + CHUNK_SAMPLES - 1) / CHUNK_SAMPLES;
    ff_reader *reader = NULL;
    char *ring = NULL;
    ff_status status;
    FF_TRY_DONE(ff_reader_open(&reader, run->dataset, error));
    FF_TRY_DONE(
        ff_alloc_aligned(&ring, run->ring_slots, run->slot_bytes, 0, "a ring of slots", error));
    memset(ring, 0,
           run->ring_slots * run->slot_bytes); /* its pages are there before the clock starts */
    pthread_mutex_lock(&run->mutex);
    if (!run->begin) run->begin = ff_now_ns();
    pthread_mutex_unlock(&run->mutex);
    for (;;) {
        pthread_mutex_lock(&run->mutex);
        uint64_t chunk = run->next;
        bool stop = chunk >= chunks * run->passes || run->failure.error.status != FF_OK;
        run->next++;
        pthread_mutex_unlock(&run->mutex);
        if (stop) break;
        uint64_t from = chunk % chunks * CHUNK_SAMPLES, to = from + CHUNK_SAMPLES;
        if (to > run->samples) to = run->samples;
        FF_TRY_DONE(ff_interrupt_check(error));
        FF_TRY_DONE(run->read(run, reader, ring, from, to, error));
    }
    pthread_mutex_lock(&run->mutex);
    run->end = ff_now_ns();
    pthread_mutex_unlock(&run->mutex);
done:
    free(ring);
    ff_reader_close(&reader);
    return status;
}

static void work_body(void *context, size_t index) {
    bench_run *run = context;
    ff_error error = {0};
    if (work(run, &error) == FF_OK) return;
    pthread_mutex_lock(&run->mutex);
    ff_inspect_note_failure(&run->failure, index, &error);
    pthread_mutex_unlock(&run->mutex);
}

/* Times passes over all samples, without the time to start the threads; *took: ns. */
static ff_status time_passes(bench_run *run, int threads, uint64_t passes, uint64_t *took,
                             ff_error *error) {
    run->passes = passes;
    run->next = run->begin = run->end = 0;
    run->failure = (ff_first_failure){0};
    pthread_mutex_init(&run->mutex, NULL);
    ff_status status = ff_parallel_for(threads, (size_t)threads, work_body, run, error);
    *took = run->end > run->begin ? run->end - run->begin : 1;
    pthread_mutex_destroy(&run->mutex);
    if (status == FF_OK && run->failure.error.status != FF_OK) {
        status = run->failure.error.status;
        if (error) *error = run->failure.error;
    }
    return status;
}

static double rate_of(const bench_run *run, uint64_t passes, uint64_t took) {
    return (double)run->samples * (double)passes * 1e9 / (double)took;
}

/* Starts with one pass and tries more passes until they take half of the measured time; *rate:
 * samples per second of the last try. */
static ff_status time_enough(bench_run *run, int threads, double *rate, ff_error *error) {
    for (uint64_t passes = 1, took;;) {
        FF_TRY(time_passes(run, threads, passes, &took, error));
        *rate = rate_of(run, passes, took);
        if (took >= MEASURED_NS / 2) return FF_OK;
        /* A try that is too short to measure multiplies the passes by at most 100. */
        const double factor = (double)MEASURED_NS / (double)took;
        passes = (uint64_t)((double)passes * (factor < 100 ? factor : 100) + 0.5);
    }
}

/* ---- what is read ---------------------------------------------------------------------------- */

typedef struct bench_set {
    const void **tensor;
    uint32_t *length;
    char *decompressed;
    uint64_t *sequential, *random;
} bench_set;

static void free_set(bench_set *set) {
    free(set->tensor);
    free(set->length);
    free(set->decompressed);
    free(set->sequential);
    free(set->random);
}

/* Chooses the number of samples, and finds the largest one. */
static ff_status choose(ff_dataset *dataset, ff_bench *bench, uint64_t *largest, ff_error *error) {
    const ff_metadata *metadata = ff_dataset_metadata(dataset);
    bool compressed = metadata->compression != FF_COMPRESSION_NONE;
    uint64_t limit = compressed ? DECOMPRESSED_BYTES : SAMPLED_BYTES;
    *largest = 0;
    for (uint64_t i = 0; i < ff_dataset_count(dataset); i++) {
        ff_entry entry;
        ff_dataset_scan(dataset, i, FF_SCAN_ENTRIES);
        FF_TRY(ff_dataset_entry(dataset, i, &entry, error));
        uint64_t bytes = ff_metadata_tensor_bytes(metadata, entry.height, entry.width);
        if (bytes > UINT32_MAX)
            return ff_fail(error, FF_FAILED,
                           "--bench reads samples up to 4 GiB; sample %" PRIu64 " has %" PRIu64
                           " bytes",
                           i, bytes);
        if (i && bench->bytes + bytes > limit) break;
        bench->bytes += bytes;
        bench->samples++;
        if (bytes > *largest) *largest = bytes;
    }
    return FF_OK;
}

/* Makes both orders. Storage order is the order of all samples, without the samples that are not
 * read. */
static ff_status make_orders(bench_set *set, ff_dataset *dataset, uint64_t samples, uint64_t seed,
                             ff_error *error) {
    ff_storage_order stored;
    uint64_t filled = 0;
    FF_TRY(ff_alloc(&set->sequential, samples, sizeof(uint64_t), "an order", error));
    FF_TRY(ff_alloc(&set->random, samples, sizeof(uint64_t), "an order", error));
    FF_TRY(ff_dataset_storage_order(dataset, &stored, error));
    for (uint64_t i = 0; i < ff_dataset_count(dataset); i++) {
        uint64_t number = ff_storage_order_at(&stored, i);
        if (number < samples) set->sequential[filled++] = number;
    }
    ff_storage_order_free(&stored);
    ff_permutation permutation;
    ff_permutation_init(&permutation, samples, seed, 0, 0);
    for (uint64_t i = 0; i < samples; i++) set->random[i] = ff_permutation_at(&permutation, i, 0);
    return FF_OK;
}

/* Finds each tensor in memory: in the mapping, or decompressed here. */
static ff_status locate(bench_set *set, ff_dataset *dataset, const ff_bench *bench,
                        ff_error *error) {
    bool compressed = ff_dataset_metadata(dataset)->compression != FF_COMPRESSION_NONE;
    ff_reader *reader = NULL;
    uint64_t filled = 0;
    FF_TRY(ff_alloc(&set->tensor, bench->samples, sizeof *set->tensor, "samples", error));
    FF_TRY(ff_alloc(&set->length, bench->samples, sizeof *set->length, "samples", error));
    if (compressed)
        FF_TRY(ff_alloc_aligned(&set->decompressed, bench->bytes + 64 * bench->samples, 1, 0,
                                "decompressed samples", error));
    ff_status status = ff_reader_open(&reader, dataset, error);
    for (uint64_t i = 0; i < bench->samples && status == FF_OK; i++) {
        uint64_t number = set->sequential[i];
        ff_view view;
        status = ff_reader_sample(reader, number, &view, error);
        if (status != FF_OK) break;
        set->tensor[number] = view.tensor;
        set->length[number] = (uint32_t)view.tensor_bytes;
        if (!compressed) continue;
        set->tensor[number] = set->decompressed + filled;
        status = ff_view_copy(dataset, &view, set->decompressed + filled, error);
        filled += ff_align_u64(view.tensor_bytes, 64);
    }
    ff_reader_close(&reader);
    return status;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* First passes, each after opening the set again, so that it verifies; the set stays open. */
static ff_status time_first(bench_run *run, ff_bench_row *row, const char *path, ff_error *error) {
    uint64_t took, sum = 0;
    do {
        ff_dataset_close(&run->dataset);
        FF_TRY(ff_dataset_open(&run->dataset, path, FF_VERIFY_FIRST, error));
        FF_TRY(time_passes(run, row->threads, 1, &took, error));
        sum += took;
        row->first_passes++;
    } while (sum < FIRST_NS && row->first_passes < MOST_FIRST_PASSES);
    row->first_rate = rate_of(run, row->first_passes, sum);
    return FF_OK;
}

static ff_status measure_row(ff_bench_row *row, const char *path, const ff_bench *bench,
                             uint64_t slot_bytes, uint64_t seed, ff_error *error) {
    bench_set set = {0};
    bench_run run = {.samples = bench->samples, .slot_bytes = slot_bytes};
    FF_TRY(ff_dataset_open(&run.dataset, path, FF_VERIFY_OFF, error));
    run.ring_slots = slot_bytes < RING_BYTES ? RING_BYTES / slot_bytes : 1;
    ff_status status;
    FF_TRY_DONE(make_orders(&set, run.dataset, bench->samples, seed, error));
    run.order = row->random ? set.random : set.sequential;
    run.read = read_samples;
    FF_TRY_DONE(time_first(&run, row, path, error));
    FF_TRY_DONE(time_enough(&run, row->threads, &row->rate, error));
    FF_TRY_DONE(locate(&set, run.dataset, bench, error));
    run.tensor = set.tensor;
    run.length = set.length;
    run.read = copy_plainly;
    FF_TRY_DONE(time_enough(&run, row->threads, &row->copy_rate, error));
done:
    free_set(&set);
    ff_dataset_close(&run.dataset);
    return status;
}

ff_status ff_inspect_bench(ff_bench *bench, const char *path, int jobs, uint64_t seed,
                           ff_error *error) {
    *bench = (ff_bench){0};
    ff_dataset *dataset;
    uint64_t largest;
    FF_TRY(ff_dataset_open(&dataset, path, FF_VERIFY_OFF, error));
    ff_status status = choose(dataset, bench, &largest, error);
    ff_dataset_close(&dataset);
    for (int i = 0; i < 4 && status == FF_OK; i++) {
        if (i % 2 && jobs == 1) continue;
        ff_bench_row *row = &bench->row[bench->row_count++];
        *row = (ff_bench_row){.random = i >= 2, .threads = i % 2 ? jobs : 1};
        status = measure_row(row, path, bench, ff_align_u64(largest, 64), seed, error);
    }
    return status;
}

void ff_inspect_print_bench(const char *name, const ff_bench *bench) {
    double gib = (double)bench->bytes / (double)bench->samples / 0x1p30;
    printf("%s: %s, %s, read from the page cache into batches\n", name,
           ff_say_count(bench->samples, "sample", "samples").text, ff_say_bytes(bench->bytes).text);
    printf("                          first pass, verifying          passes after it"
           "             plain memcpy   of memcpy\n");
    printf("  order       threads    samples/s       GiB/s    samples/s       GiB/s"
           "    samples/s       GiB/s\n");
    for (size_t i = 0; i < bench->row_count; i++) {
        const ff_bench_row *row = &bench->row[i];
        printf("  %-10s %8d %12.0f %11.2f %12.0f %11.2f %12.0f %11.2f %10.1f%%\n",
               row->random ? "random" : "sequential", row->threads, row->first_rate,
               row->first_rate * gib, row->rate, row->rate * gib, row->copy_rate,
               row->copy_rate * gib, 100 * row->rate / row->copy_rate);
    }
    const ff_bench_row *last = &bench->row[bench->row_count - 1];
    if (last->first_passes > 1)
        printf(
            "  The set is small: a first pass is the mean of several, each after opening the set "
            "again (%" PRIu64 " of the last line).\n",
            last->first_passes);
    if (bench->samples < (uint64_t)last->threads * CHUNK_SAMPLES)
        printf("  A thread takes %d samples at a time: of so few samples, not every one of the %d "
               "threads reads in a pass.\n",
               CHUNK_SAMPLES, last->threads);
}
