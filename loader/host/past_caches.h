/* A copy whose target is not read soon. Private to loader/. Thread rule: pure. */
#ifndef FF_LOADER_PAST_CACHES_H
#define FF_LOADER_PAST_CACHES_H

#include <stddef.h>

/* From this size on, stores that pass the caches by were never slower than memcpy's. Samples in
 * random order into 160 MB, GB/s of memcpy and past the caches: an AMD EPYC 12 KiB 7.3 and 7.7,
 * 48 KiB 9.2 and 12.4, 150 KiB 11.9 and 15.9; two Xeon cores 12 KiB 9.5 and 7.5, 64 KiB 15 and 15,
 * 300 KiB 18.1 and 20.7. */
#define FF_PAST_CACHES_BYTES (64u << 10)

/* memcpy by non-temporal stores of 32 bytes; memcpy itself on a CPU without AVX2. */
void ff_copy_past_caches(void *to, const void *from, size_t bytes);

#endif
