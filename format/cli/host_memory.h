/* How much memory a process may still use on this machine. Linux. */
#ifndef FF_BASE_HOST_MEMORY_H
#define FF_BASE_HOST_MEMORY_H

#include "format/base/status.h"

#include <stdint.h>

typedef struct ff_host_memory {
    uint64_t bytes; /* UINT64_MAX = unknown */
    const char
        *limit; /* what limits it, for "has 3 GB ...": "available", "left of its cgroup's limit" */
} ff_host_memory;

/* What can be allocated: the least of MemAvailable, of what the process's control groups (v1 or v2,
 * including the groups above) have left with inactive page cache counted as free, and of the
 * address space left under RLIMIT_AS. root: ""; in tests a folder with proc/ and sys/. Only
 * reads. */
ff_host_memory ff_host_memory_left(const char *root);

/* What this process can still map: bytes of address space (RLIMIT_AS), and mappings
 * (vm.max_map_count, less the existing ones and a reserve for other uses). UINT64_MAX = unknown. */
typedef struct ff_host_maps {
    uint64_t bytes, mappings;
} ff_host_maps;
ff_host_maps ff_host_maps_left(const char *root);

/* The bytes of files that can stay in memory in addition to what is allocated now and `reserved`
 * bytes that will be allocated. Counted as above, except that all page cache of the groups counts
 * as free, since it holds such files. The result is at most `most`, the option memory; if `most` is
 * 0, the limit is the environment variable FFLOAD_MEMORY (4096, 64K, 128M, 1G). FF_USAGE if
 * FFLOAD_MEMORY is not such a size. */
FF_MUST_USE ff_status ff_host_memory_for_files(const char *root, uint64_t most, uint64_t reserved,
                                               ff_host_memory *memory, ff_error *error);

#endif
