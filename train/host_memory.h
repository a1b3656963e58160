/* How much memory a program may still allocate on this machine. Linux. */
#ifndef FF_TRAIN_HOST_MEMORY_H
#define FF_TRAIN_HOST_MEMORY_H

#include <stdint.h>

typedef struct ff_host_memory {
    uint64_t bytes;    /* UINT64_MAX = unknown */
    const char *limit; /* what sets it, for "has 3 GB ...": "available", "of its cgroup" */
} ff_host_memory;

/* The least of MemAvailable, of what the process's control groups (v1 or v2, and those above them)
 * have left, counting inactive page cache as free, and of its address space under RLIMIT_AS. root:
 * ""; in tests a folder with proc/ and sys/. Only reads. */
ff_host_memory ff_host_memory_left(const char *root);

#endif
