#include "format/base/huge.h"

#include <sys/mman.h>

void ff_use_huge_pages(void *memory, uint64_t bytes) {
    const uint64_t skip = -(uint64_t)(uintptr_t)memory % FF_HUGE_PAGE;
    if (bytes < skip) return;
    uint8_t *first = (uint8_t *)memory + skip;
    const uint64_t whole = (bytes - skip) / FF_HUGE_PAGE * FF_HUGE_PAGE;
    (void)madvise(first, whole, MADV_HUGEPAGE);
    for (uint64_t at = 0; at < whole; at += FF_HUGE_PAGE) ((volatile uint8_t *)first)[at] = 0;
}
