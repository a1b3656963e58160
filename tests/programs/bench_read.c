/* How fast one core reads a packed split: opens DIR ROUNDS times, each time verifying every sample
 * as readers do by default, in the order of numbers. Prints a JSON object: samples, their bytes as
 * unpacked tensors, and the best round's GB/s of these, by the thread's processor time, because
 * other programs may use the machine too. */
#include "format/reader/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double thread_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static ff_status read_all(const char *path, uint64_t *samples, uint64_t *bytes, double *seconds,
                          ff_error *error) {
    ff_dataset *dataset;
    ff_reader *reader = NULL;
    FF_TRY(ff_dataset_open(&dataset, path, FF_VERIFY_FIRST, error));
    ff_status status = ff_reader_open(&reader, dataset, error);
    double began = thread_seconds();
    *bytes = 0;
    *samples = ff_dataset_count(dataset);
    for (uint64_t i = 0; i < *samples && status == FF_OK; i++) {
        ff_view view;
        status = ff_reader_sample(reader, i, &view, error);
        if (status == FF_OK) *bytes += view.tensor_bytes;
    }
    *seconds = thread_seconds() - began;
    ff_reader_close(&reader);
    ff_dataset_close(&dataset);
    return status;
}

int main(int argc, char **argv) {
    ff_error error = {0};
    uint64_t samples = 0, bytes = 0;
    double best = 0;
    int rounds = argc > 2 ? atoi(argv[2]) : 5;
    if (argc < 2) return 2;
    for (int round = 0; round < rounds; round++) {
        double seconds = 0;
        if (read_all(argv[1], &samples, &bytes, &seconds, &error) != FF_OK) {
            fprintf(stderr, "bench_read: %s\n", error.message);
            return ff_exit_code(&error);
        }
        double speed = seconds > 0 ? (double)bytes / seconds * 1e-9 : 0;
        if (speed > best) best = speed;
    }
    printf("{\"samples\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"gb_per_second\": %.3f}\n", samples,
           bytes, best);
    return 0;
}
