/* Checked memory: every size product and sum is checked before it is allocated.
 * Ownership: what ff_alloc* returns is released with free(). Thread-safe. */
#ifndef FF_BASE_MEMORY_H
#define FF_BASE_MEMORY_H

#include "format/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *out = a * b or a + b; false if the result would overflow (then *out is not written). */
static inline bool ff_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool ff_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

/* Rounds up to a multiple of `alignment` (a power of two). The caller has checked the range. */
static inline uint64_t ff_align_u64(uint64_t value, uint64_t alignment) {
    return (value + alignment - 1) & ~(alignment - 1);
}

/* `*out` = count * size zeroed bytes (at least 1). On failure *out = NULL and the error names
 * `what` and the size. */
FF_MUST_USE ff_status ff_alloc(void *out, uint64_t count, uint64_t size, const char *what,
                               ff_error *error);

/* The same, but not zeroed, aligned to 64 bytes (`alignment` 0) or to a larger power of two. */
FF_MUST_USE ff_status ff_alloc_aligned(void *out, uint64_t count, uint64_t size, size_t alignment,
                                       const char *what, ff_error *error);

/* The same for `bytes` of which 2 MiB and more lie in huge pages, as far as the kernel has them
 * (huge.h). */
FF_MUST_USE ff_status ff_alloc_huge(void *out, uint64_t bytes, size_t alignment, const char *what,
                                    ff_error *error);

/* ff_alloc_huge for `bytes` that a disk writes into: at a multiple of 4096. A huge page is one
 * piece of memory to a device; 2 MiB of normal pages are 512 pieces, each of which costs the device
 * time. Some devices take at most 254 pieces per request. The calling thread touches each huge
 * page: if many threads did so at once, a cgroup could exceed its limit for a moment, and the
 * kernel would kill the process. */
FF_MUST_USE ff_status ff_alloc_for_disk(void *out, uint64_t bytes, const char *what,
                                        ff_error *error);

/* Writes 0 to each page of `bytes`, for the same reason: also those that are not huge. */
void ff_touch_pages(void *memory, uint64_t bytes);

/* Makes `*array` (elements of `size` bytes, `*capacity` of them allocated) hold at least `count`
 * elements; grows by doubling; new elements are zero. After a failure the array is unchanged. */
FF_MUST_USE ff_status ff_reserve(void *array, size_t *capacity, size_t count, size_t size,
                                 const char *what, ff_error *error);

/* For arrays that grow one element at a time: makes space for one more after the `count` in use.
 * The capacity is derived from the count, so only this function may allocate the array. */
FF_MUST_USE ff_status ff_grow(void *array, size_t count, size_t size, const char *what,
                              ff_error *error);

/* A copy of a string (or of `length` bytes plus a final zero byte). */
FF_MUST_USE ff_status ff_copy_string(char **out, const char *text, ff_error *error);
FF_MUST_USE ff_status ff_copy_bytes(char **out, const void *bytes, size_t length, ff_error *error);

/* A formatted string, allocated. */
FF_MUST_USE ff_status ff_format(char **out, ff_error *error, const char *format, ...)
    FF_PRINTF(3, 4);

/* A growing byte buffer, zero-initialised `{0}`; released with ff_buffer_free. */
typedef struct ff_buffer {
    char *bytes;
    size_t length;
    size_t capacity;
} ff_buffer;

FF_MUST_USE ff_status ff_buffer_add(ff_buffer *buffer, const void *bytes, size_t length,
                                    ff_error *error);
FF_MUST_USE ff_status ff_buffer_printf(ff_buffer *buffer, ff_error *error, const char *format, ...)
    FF_PRINTF(3, 4);
/* Appends bytes percent-escaped: '%' and all bytes outside 0x21..0x7e become %XX. */
FF_MUST_USE ff_status ff_escape(ff_buffer *buffer, const void *bytes, size_t length,
                                ff_error *error);
/* The byte that a %XX at `text` stands for; `length` bytes of text are left. -1 = there is no
 * %XX. */
int ff_unescaped_byte(const char *text, size_t length);
/* Decodes each %XX of `text` into `to`, which has room for `length` bytes; other characters are
 * copied. Returns the number of bytes. */
size_t ff_unescape(char *to, const char *text, size_t length);
/* The value of a hexadecimal digit, or -1. */
int ff_hex_digit(char c);
void ff_buffer_free(ff_buffer *buffer);

#endif
