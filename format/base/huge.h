/* Huge pages. A core looks up the place of a huge page once, of 2 MiB of normal pages 512 times. To
 * a device a huge page is one piece of memory. Thread-safe. */
#ifndef FF_BASE_HUGE_H
#define FF_BASE_HUGE_H

#include <stdint.h>

#define FF_HUGE_PAGE (UINT64_C(2) << 20)

/* Has huge pages used for the whole ones in new memory, as far as the kernel has them, and writes 0
 * to the first byte of each. The calling thread does so, because if many threads touched huge pages
 * at once, a cgroup could exceed its limit for a moment, and the kernel would kill the process. */
void ff_use_huge_pages(void *memory, uint64_t bytes);

#endif
