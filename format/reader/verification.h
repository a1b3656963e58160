/* A verification with its problems and its progress: ffinspect --verify and ffpack verify. */
#ifndef FF_FORMAT_VERIFICATION_H
#define FF_FORMAT_VERIFICATION_H

#include "format/disk/set.h"

#include <stdio.h>

typedef struct ff_verification {
    char **problem; /* sentences, the first FF_PROBLEMS_LIMIT of them */
    size_t problem_count, problem_capacity;
    uint64_t problems_left_out;
    uint64_t bytes, files; /* checked */
} ff_verification;

#define FF_PROBLEMS_LIMIT 1000u

/* Checks every byte of the split `path` on `jobs` threads, and shows the progress. FF_OK if all is
 * well, else FF_BAD_DATA or FF_IO: then `problem` holds at least one sentence, and `error` the
 * first one. Other failures are returned unchanged. The caller always frees the verification. */
FF_MUST_USE ff_status ff_verification_run(ff_verification *verification, const char *path, int jobs,
                                          ff_error *error);
void ff_verification_free(ff_verification *verification);

/* Verifies each split of a set, also after a broken one, and prints the problems, or that there is
 * none. Fails with the first problem. */
FF_MUST_USE ff_status ff_verification_print(const ff_set *set, int jobs, FILE *out,
                                            ff_error *error);

#endif
