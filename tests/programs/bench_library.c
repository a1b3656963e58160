/* Batches of libffload for a comparison of loaders. Usage: bench_library SET AHEAD NAME VALUE...,
 * options of ffload.h, epochs without end.
 *
 * For every line of standard input, a number of seconds: takes AHEAD batches, which may have been
 * made before, then batches for this time, and prints samples a second. */
#include <ffload/ffload.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static ffload_error error;

static void must(int status) {
    if (status == FFLOAD_OK) return;
    fprintf(stderr, "bench_library: %s\n", error.message);
    exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Samples of the next batch. */
static int64_t take(ffload_loader *loader) {
    ffload_batch *batch;
    const DLTensor *images;
    must(ffload_loader_next(loader, &batch, &error));
    must(ffload_batch_tensor(batch, "images", &images, &error));
    const int64_t samples = images->shape[0];
    ffload_batch_release(&batch);
    return samples;
}

int main(int count, char **argument) {
    ffload_dataset *dataset;
    ffload_options *options;
    ffload_loader *loader;
    char line[64];
    if (count < 3 || count % 2 == 0) {
        fprintf(stderr, "usage: bench_library SET AHEAD NAME VALUE...\n");
        return 2;
    }
    must(ffload_dataset_open(&dataset, argument[1], NULL, &error));
    must(ffload_options_create(&options, &error));
    must(ffload_options_set(options, "epochs", "0", &error));
    for (int i = 3; i < count; i += 2)
        must(ffload_options_set(options, argument[i], argument[i + 1], &error));
    must(ffload_loader_create(&loader, dataset, options, &error));
    while (fgets(line, sizeof line, stdin)) {
        for (int i = 0; i < atoi(argument[2]); i++) take(loader);
        const double began = now(), seconds = atof(line);
        double ended = began;
        int64_t samples = 0;
        while (ended - began < seconds) {
            samples += take(loader);
            ended = now();
        }
        printf("%.1f\n", (double)samples / (ended - began));
        fflush(stdout);
    }
    ffload_loader_destroy(&loader);
    ffload_options_destroy(&options);
    ffload_dataset_close(&dataset);
    return 0;
}
