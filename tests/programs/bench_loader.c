/* Measures the loader against a plain random memcpy gather of the same samples. Usage: bench_loader
 * [THREADS [SAMPLES [ROUNDS]]]. Prints one line per measurement, and the ratios of the medians over
 * alternating rounds: "gather", then each way of loading, as samples a second. */
#include "tests/programs/bench_loader.h"

#define BATCH       256u
#define ROUNDS_MOST 101

/* ---- the plain gather ----------------------------------------------------------------------- */

typedef struct gather {
    const void **sample; /* [count] in random order */
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
            memcpy(to + row * job->bytes, job->sample[batch * BATCH + row], job->bytes);
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

static ff_loader_options crop_flip(int threads, ff_dtype dtype, ff_layout layout) {
    ff_loader_options options = ff_loader_defaults();
    options.batch = BATCH;
    options.threads = threads;
    options.dtype = dtype;
    options.layout = layout;
    MUST(ff_augment_parse(&options.augment, "crop=4,flip", error));
    return options;
}

int main(int count, char **argument) {
    int threads = count > 1 ? atoi(argument[1]) : 1;
    set_spec set = plain_set(count > 2 ? (uint64_t)atoll(argument[2]) : 50000);
    int rounds = count > 3 ? atoi(argument[3]) : 9;
    if (rounds > ROUNDS_MOST) rounds = ROUNDS_MOST;
    int gather_threads = threads < 1 ? 1 : threads;
    MUST(set_make(&set, error));
    ff_dataset *dataset;
    ff_reader *reader;
    MUST(ff_dataset_open(&dataset, set.folder, FF_VERIFY_FIRST, error));
    MUST(ff_reader_open(&reader, dataset, error));

    static const struct {
        const char *name;
        ff_dtype dtype;
        ff_layout layout;
    } way[] = {{"f16 to f16 chw", FF_F16, FF_CHW},
               {"f16 to f32 nhwc", FF_F32, FF_HWC},
               {"f16 to f32 chw", FF_F32, FF_CHW}};
    enum { WAYS = sizeof way / sizeof way[0] };
    static double rate[1 + WAYS][ROUNDS_MOST];
    uint64_t batches = set.items / BATCH;

    /* The first epoch maps, verifies and touches everything. */
    ff_loader_options options = crop_flip(threads, FF_F16, FF_CHW);
    ff_loader *loader[WAYS];
    MUST(ff_loader_create(&loader[0], dataset, &options, error));
    double first = epoch(loader[0], batches);

    gather_with_threads job = {.threads = gather_threads};
    job.job.count = set.items;
    job.job.bytes = 3 * 32 * 32 * 2;
    job.job.sample = malloc(set.items * sizeof *job.job.sample);
    ff_order order;
    ff_order_spec spec = {.count = set.items, .seed = 5, .kind = FF_ORDER_RANDOM};
    ff_order_init(&order, &spec, 0);
    for (uint64_t i = 0; i < set.items; i++) {
        ff_view view;
        MUST(ff_reader_sample(reader, ff_order_at(&order, i), &view, error));
        job.job.sample[i] = view.tensor;
    }
    MUST(ff_alloc_aligned(&job.job.out, (uint64_t)gather_threads * 4 * BATCH, job.job.bytes, 64,
                          "batches", error));
    memset(job.job.out, 1, (size_t)gather_threads * 4 * BATCH * job.job.bytes);
    ff_loader_destroy(&loader[0]);
    for (int round = 0; round < rounds; round++) {
        rate[0][round] = plain(&job);
        for (int w = 0; w < WAYS; w++) {
            /* Created again, so that no thread of another variant fills slots meanwhile; filling
             * the first slots is part of the time. */
            options = crop_flip(threads, way[w].dtype, way[w].layout);
            options.epoch = (uint32_t)round;
            MUST(ff_loader_create(&loader[w], dataset, &options, error));
            epoch(loader[w], 8); /* memory of the slots touched */
            rate[1 + w][round] = epoch(loader[w], batches);
            ff_loader_destroy(&loader[w]);
        }
    }
    double base = median(rate[0], rounds);
    printf(
        "loader: %llu samples of 3x32x32 f16, random order, crop=4,flip, batch %u, %d thread%s\n",
        (unsigned long long)set.items, BATCH, threads, threads == 1 ? "" : "s");
    printf("  %-34s %10.0f samples/s\n", "plain random memcpy gather", base);
    printf("  %-34s %10.0f samples/s  ratio %.2f\n", "first epoch, verifying, f16 chw", first,
           first / base);
    for (int w = 0; w < WAYS; w++) {
        double middle = median(rate[1 + w], rounds);
        printf("  %-34s %10.0f samples/s  ratio %.2f\n", way[w].name, middle, middle / base);
    }
    free(job.job.sample);
    free(job.job.out);
    ff_reader_close(&reader);
    ff_dataset_close(&dataset);
    set_remove(&set);
    return 0;
}
