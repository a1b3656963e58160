/* Room tools/ffinspect/checks, floor 10: what is computed over all samples.
 *
 * verify.c checks every byte, stats.c computes statistics, bench.c times reading; first_failure.c
 * keeps the first failure of several threads.
 *
 * May include format, loader/sequence.
 *
 * --verify: checks every byte of a split and collects the problems. */
#ifndef FF_FFINSPECT_VERIFY_H
#define FF_FFINSPECT_VERIFY_H

#include "format/base/memory.h"

typedef struct ff_verification {
    char **problem; /* sentences, the first FF_PROBLEMS_LIMIT of them */
    size_t problem_count, problem_capacity;
    uint64_t problems_left_out;
    uint64_t bytes, files; /* checked */
} ff_verification;

#define FF_PROBLEMS_LIMIT 1000u

/* FF_OK if all is well, else FF_BAD_DATA or FF_IO: then `problem` holds at least one sentence, and
 * `error` the first one. Other failures are returned unchanged. The caller always frees the
 * verification. */
FF_MUST_USE ff_status ff_inspect_verify(ff_verification *verification, const char *path, int jobs,
                                        ff_error *error);
void ff_inspect_free_verification(ff_verification *verification);

#endif
