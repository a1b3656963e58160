/* How long opening a packed split takes, and how much memory it keeps: opens DIR, reads the entry
 * and the label of one sample in its middle, ROUNDS times. Prints a JSON object: the best time in
 * milliseconds, and by how many KiB resident memory grew with the set open. */
#include "format/base/thread.h"
#include "format/reader/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Resident memory in KiB, mapped files among it. */
static long resident(void) {
    char line[256];
    long kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "VmRSS:", 6)) kib = strtol(line + 6, NULL, 10);
    if (file) fclose(file);
    return kib;
}

static ff_status open_once(const char *path, uint64_t round, double *milliseconds, long *kib,
                           ff_error *error) {
    ff_dataset *dataset;
    ff_entry entry;
    int64_t label = 0;
    long before = resident();
    uint64_t began = ff_now_ns();
    FF_TRY(ff_dataset_open(&dataset, path, FF_VERIFY_FIRST, error));
    uint64_t number = ff_dataset_count(dataset) / 2 + round * 7919 % 1000;
    ff_status status = ff_dataset_entry(dataset, number % ff_dataset_count(dataset), &entry, error);
    if (status == FF_OK)
        status = ff_dataset_class(dataset, number % ff_dataset_count(dataset), 0, &label, error);
    *milliseconds = (double)(ff_now_ns() - began) * 1e-6;
    *kib = resident() - before;
    ff_dataset_close(&dataset);
    return status;
}

int main(int argc, char **argv) {
    ff_error error = {0};
    double best = 0;
    long most = 0;
    int rounds = argc > 2 ? atoi(argv[2]) : 1;
    if (argc < 2) return 2;
    for (int round = 0; round < rounds; round++) {
        double milliseconds = 0;
        long kib = 0;
        if (open_once(argv[1], (uint64_t)round, &milliseconds, &kib, &error) != FF_OK) {
            fprintf(stderr, "bench_open: %s\n", error.message);
            return ff_exit_code(&error);
        }
        if (!round || milliseconds < best) best = milliseconds;
        if (kib > most) most = kib;
    }
    printf("{\"milliseconds\": %.3f, \"resident_kib\": %ld}\n", best, most);
    return 0;
}
