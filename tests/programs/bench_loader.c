/* Measures the loader against a plain random memcpy gather of the same samples. Usage: bench_loader
 * [THREADS [SAMPLES [ROUNDS]]]. Prints one line per measurement, and the ratios of the medians over
 * alternating rounds: "gather", then each way of loading, as samples a second. The first epoch is
 * also compared with a gather that touches its mapping and its memory for the first time, too, and
 * u8 to f32 with a memset of the rows that are written. */
#include "tests/programs/bench_loader.h"

#define BATCH       256u
#define ROUNDS_MOST 101

/* ---- the plain gather ----------------------------------------------------------------------- */

typedef struct gather {
    const void **sample; /* [count] in random order; NULL = memset */
    uint64_t count;
    size_t bytes;
    uint8_t *out; /* [threads][4 batches] as many bytes as a loader's slots */
} gather;

static void gather_body(void *context, size_t thread) {
    const gather *job = context;
    uint8_t *out = job->out + thread * 4 * BATCH * job->bytes;
    uint64_t batches = job->count / BATCH;
    int threads = *(const int *)(job + 1);
    for (uint64_t batch = thread; batch < batches; batch += (uint64_t)threads) {
        uint8_t *to = out + batch / (uint64_t)threads % 4 * BATCH * job->bytes;
        for (uint32_t row = 0; row < BATCH; row++)
            if (job->sample)
                memcpy(to + row * job->bytes, job->sample[batch * BATCH + row], job->bytes);
            else
                memset(to + row * job->bytes, (int)row, job->bytes);
    }
}

typedef struct gather_with_threads {
    gather job;
    int threads;
} gather_with_threads;

static double plain(gather_with_threads *job) {
    uint64_t began = ff_now_ns();
    MUST(ff_parallel_for(job->threads, (size_t)job->threads, gather_body, job, error));
    uint64_t took = ff_now_ns() - began;
    return (double)(job->job.count / BATCH * BATCH) * 1e9 / (double)took;
}

/* ---- the loader ----------------------------------------------------------------------------- */

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

typedef struct way {
    const char *name;
    ff_dtype dtype;
    ff_layout layout;
} way;

#define WAYS_MOST 5

static ff_loader_options crop_flip(int threads, const way *w) {
    ff_loader_options options = ff_loader_defaults();
    options.batch = BATCH;
    options.threads = threads;
    options.dtype = w->dtype;
    options.layout = w->layout;
    MUST(ff_augment_parse(&options.augment, "crop=4,flip", error));
    return options;
}

/* One epoch of a new loader, so that no thread of another variant fills slots meanwhile; filling
 * the first slots is part of the time. */
static double loader_epoch(ff_dataset *dataset, uint64_t batches, int threads, const way *w,
                           int round) {
    ff_loader_options options = crop_flip(threads, w);
    ff_loader *loader;
    options.epoch = (uint32_t)round;
    MUST(ff_loader_create(&loader, dataset, &options, error));
    epoch(loader, 8); /* memory of the slots touched */
    const double rate = epoch(loader, batches);
    ff_loader_destroy(&loader);
    return rate;
}

static size_t row_bytes(ff_dtype dtype) {
    return 3 * 32 * 32 * ff_dtype_bytes(dtype);
}

/* The samples in the order of a random gather. */
static void gather_samples(gather *job, ff_dataset *dataset) {
    ff_reader *reader;
    ff_order order;
    const ff_order_spec spec = {.count = job->count, .seed = 5, .kind = FF_ORDER_RANDOM};
    MUST(ff_reader_open(&reader, dataset, error));
    job->sample = malloc(job->count * sizeof *job->sample);
    ff_order_init(&order, &spec, 0);
    for (uint64_t i = 0; i < job->count; i++) {
        ff_view view;
        MUST(ff_reader_sample(reader, ff_order_at(&order, i), &view, error));
        job->sample[i] = view.tensor;
    }
    ff_reader_close(&reader);
}

/* Memory for the rows of a job, not touched yet. */
static void job_memory(gather_with_threads *job) {
    MUST(ff_alloc_aligned(&job->job.out, (uint64_t)job->threads * 4 * BATCH, job->job.bytes, 64,
                          "batches", error));
}

/* A gather from a mapping, and into memory, that it touches for the first time. */
static double first_gather(const set_spec *set, int threads) {
    gather_with_threads job = {.threads = threads,
                               .job = {.count = set->items, .bytes = row_bytes(set->dtype)}};
    ff_dataset *dataset;
    MUST(ff_dataset_open(&dataset, set->folder, FF_VERIFY_OFF, error));
    gather_samples(&job.job, dataset);
    job_memory(&job);
    const double rate = plain(&job);
    free(job.job.sample);
    free(job.job.out);
    ff_dataset_close(&dataset);
    return rate;
}

/* One first epoch: it maps, verifies and touches everything. */
static double first_epoch(const set_spec *set, int threads, const way *w) {
    const ff_loader_options options = crop_flip(threads, w);
    ff_dataset *dataset;
    ff_loader *loader;
    MUST(ff_dataset_open(&dataset, set->folder, FF_VERIFY_FIRST, error));
    MUST(ff_loader_create(&loader, dataset, &options, error));
    const double rate = epoch(loader, set->items / BATCH);
    ff_loader_destroy(&loader);
    ff_dataset_close(&dataset);
    return rate;
}

static void print_rate(const char *name, double rate, double base) {
    printf("  %-34s %10.0f samples/s  ratio %.2f\n", name, rate, rate / base);
}

enum { GATHER, FIRST_GATHER, FIRST, WRITE, LOADS, KINDS = LOADS + WAYS_MOST };

/* The plain gather and these ways of loading a set by turns. Prints a line for each. */
static void measure(set_spec set, int threads, int rounds, const way *ways, size_t count) {
    static double rate[KINDS][ROUNDS_MOST];
    const int workers = threads < 1 ? 1 : threads;
    const bool u8 = set.dtype == FF_U8;
    gather_with_threads job = {.threads = workers}, write = {.threads = workers};
    ff_dataset *dataset;
    MUST(set_make(&set, error));
    MUST(ff_dataset_open(&dataset, set.folder, FF_VERIFY_OFF, error));
    job.job.count = write.job.count = set.items;
    job.job.bytes = row_bytes(set.dtype), write.job.bytes = row_bytes(FF_F32);
    gather_samples(&job.job, dataset);
    job_memory(&job), job_memory(&write);
    (void)plain(&job), (void)plain(&write); /* touches both */
    for (int round = 0; round < rounds; round++) {
        rate[GATHER][round] = plain(&job);
        rate[WRITE][round] = plain(&write);
        rate[FIRST_GATHER][round] = first_gather(&set, workers);
        rate[FIRST][round] = first_epoch(&set, threads, &ways[0]);
        for (size_t w = 0; w < count; w++)
            rate[LOADS + w][round] =
                loader_epoch(dataset, set.items / BATCH, threads, &ways[w], round);
    }
    const double base = median(rate[GATHER], rounds), written = median(rate[WRITE], rounds);
    printf("loader: %llu samples of 3x32x32 %s, random order, crop=4,flip, batch %u, %d thread%s\n",
           (unsigned long long)set.items, ff_dtype_name(set.dtype), BATCH, threads,
           threads == 1 ? "" : "s");
    printf("  %-34s %10.0f samples/s\n",
           u8 ? "plain random memcpy gather, u8" : "plain random memcpy gather", base);
    print_rate(u8 ? "gather, first touch, u8" : "gather, first touch",
               median(rate[FIRST_GATHER], rounds), base);
    print_rate(u8 ? "first epoch, verifying, u8 to f32" : "first epoch, verifying, f16 chw",
               median(rate[FIRST], rounds), base);
    if (u8) print_rate("memset of f32 rows", written, base);
    for (size_t w = 0; w < count; w++)
        print_rate(ways[w].name, median(rate[LOADS + w], rounds),
                   u8 && ways[w].dtype == FF_F32 ? written : base);
    free(job.job.sample);
    free(job.job.out);
    free(write.job.out);
    ff_dataset_close(&dataset);
    set_remove(&set);
}

int main(int count, char **argument) {
    const int threads = count > 1 ? atoi(argument[1]) : 1;
    int rounds = count > 3 ? atoi(argument[3]) : 9;
    if (rounds > ROUNDS_MOST) rounds = ROUNDS_MOST;
    set_spec set = plain_set(count > 2 ? (uint64_t)atoll(argument[2]) : 50000);
    static const way f16[] = {{"f16 to f16 chw", FF_F16, FF_CHW},
                              {"f16 to f32 nhwc", FF_F32, FF_HWC},
                              {"f16 to f32 chw", FF_F32, FF_CHW}};
    static const way u8[] = {{"u8 to f32 chw", FF_F32, FF_CHW},
                             {"u8 to f32 nhwc", FF_F32, FF_HWC},
                             {"u8 to f16 chw", FF_F16, FF_CHW},
                             {"u8 to u8 chw", FF_U8, FF_CHW},
                             {"u8 to u8 nhwc", FF_U8, FF_HWC}};
    measure(set, threads, rounds, f16, sizeof f16 / sizeof *f16);
    set.dtype = FF_U8;
    measure(set, threads, rounds, u8, sizeof u8 / sizeof *u8);
    return 0;
}
