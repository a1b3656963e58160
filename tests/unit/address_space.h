/* A process that may map little more than it has mapped. */
#ifndef FF_TESTS_UNIT_ADDRESS_SPACE_H
#define FF_TESTS_UNIT_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Whether limits are the program's own: an emulator of another processor (make check CROSS=...)
 * maps memory of its own in the same process. */
static inline bool address_space_is_own(void) {
    const char *cross = getenv("CROSS");
    return !cross || !*cross;
}

/* Limits this process, for good, to `more` bytes beyond what it has mapped. */
static inline bool limit_address_space(uint64_t more) {
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu", &pages) != 1 || fclose(file)) return false;
    const uint64_t bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE) + more;
    return !setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes});
}

#endif
