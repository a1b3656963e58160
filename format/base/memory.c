#include "format/base/memory.h"

#include "format/base/huge.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_CAPACITY = 16, PAGE = 4096 };

static ff_status no_memory(ff_error *error, uint64_t count, uint64_t size, const char *what) {
    return ff_fail(error, FF_NO_MEMORY,
                   "not enough memory for %s (%" PRIu64 " x %" PRIu64 " bytes)", what, count, size);
}

ff_status ff_alloc(void *out, uint64_t count, uint64_t size, const char *what, ff_error *error) {
    void *memory = NULL;
    uint64_t bytes;
    if (ff_mul_u64(count, size, &bytes) && bytes <= PTRDIFF_MAX)
        memory = calloc(bytes ? bytes : 1, 1);
    memcpy(out, &memory, sizeof memory);
    return memory ? FF_OK : no_memory(error, count, size, what);
}

ff_status ff_alloc_aligned(void *out, uint64_t count, uint64_t size, size_t alignment,
                           const char *what, ff_error *error) {
    void *memory = NULL;
    uint64_t bytes;
    if (alignment < 64) alignment = 64;
    if (ff_mul_u64(count, size, &bytes) && bytes <= PTRDIFF_MAX - alignment)
        memory = aligned_alloc(alignment, ff_align_u64(bytes ? bytes : 1, alignment));
    memcpy(out, &memory, sizeof memory);
    return memory ? FF_OK : no_memory(error, count, size, what);
}

ff_status ff_alloc_huge(void *out, uint64_t bytes, size_t alignment, const char *what,
                        ff_error *error) {
    void *memory;
    if (bytes >= FF_HUGE_PAGE) alignment = FF_HUGE_PAGE;
    FF_TRY(ff_alloc_aligned(out, bytes, 1, alignment, what, error));
    memcpy(&memory, out, sizeof memory);
    ff_use_huge_pages(memory, bytes);
    return FF_OK;
}

ff_status ff_alloc_for_disk(void *out, uint64_t bytes, const char *what, ff_error *error) {
    return ff_alloc_huge(out, bytes, PAGE, what, error);
}

void ff_touch_pages(void *memory, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += PAGE) ((volatile uint8_t *)memory)[at] = 0;
}

ff_status ff_reserve(void *array, size_t *capacity, size_t count, size_t size, const char *what,
                     ff_error *error) {
    if (count <= *capacity) return FF_OK;
    size_t wanted = *capacity ? *capacity : LEAST_CAPACITY;
    while (wanted < count && wanted <= SIZE_MAX / 2) wanted *= 2;
    uint64_t bytes;
    if (wanted < count || !ff_mul_u64(wanted, size, &bytes) || bytes > PTRDIFF_MAX)
        return no_memory(error, count, size, what);
    void *memory;
    memcpy(&memory, array, sizeof memory);
    memory = realloc(memory, bytes);
    if (!memory) return no_memory(error, count, size, what);
    memset((char *)memory + *capacity * size, 0, (wanted - *capacity) * size);
    memcpy(array, &memory, sizeof memory);
    *capacity = wanted;
    return FF_OK;
}

ff_status ff_grow(void *array, size_t count, size_t size, const char *what, ff_error *error) {
    size_t capacity = count; /* 16, 32, 64 ...: full when count equals it */
    if (count % LEAST_CAPACITY || count & (count - 1)) return FF_OK;
    return ff_reserve(array, &capacity, count + 1, size, what, error);
}

ff_status ff_copy_bytes(char **out, const void *bytes, size_t length, ff_error *error) {
    FF_TRY(ff_alloc(out, length + 1, 1, "a string", error));
    if (length) memcpy(*out, bytes, length);
    return FF_OK;
}

ff_status ff_copy_string(char **out, const char *text, ff_error *error) {
    return ff_copy_bytes(out, text, strlen(text), error);
}

ff_status ff_format(char **out, ff_error *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(out, format, arguments);
    va_end(arguments);
    if (length >= 0) return FF_OK;
    *out = NULL;
    return ff_fail(error, FF_NO_MEMORY, "not enough memory for a string");
}

ff_status ff_buffer_add(ff_buffer *buffer, const void *bytes, size_t length, ff_error *error) {
    FF_TRY(ff_reserve(&buffer->bytes, &buffer->capacity, buffer->length + length + 1, 1, "a buffer",
                      error));
    if (length) memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
    buffer->bytes[buffer->length] = 0;
    return FF_OK;
}

ff_status ff_buffer_printf(ff_buffer *buffer, ff_error *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) return ff_fail(error, FF_FAILED, "a text could not be formatted");
    FF_TRY(ff_reserve(&buffer->bytes, &buffer->capacity, buffer->length + (size_t)length + 1, 1,
                      "a buffer", error));
    va_start(arguments, format);
    vsnprintf(buffer->bytes + buffer->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buffer->length += (size_t)length;
    return FF_OK;
}

ff_status ff_escape(ff_buffer *buffer, const void *bytes, size_t length, ff_error *error) {
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < length; i++) {
        if (byte[i] > 0x20 && byte[i] < 0x7f && byte[i] != '%')
            FF_TRY(ff_buffer_add(buffer, &byte[i], 1, error));
        else
            FF_TRY(ff_buffer_printf(buffer, error, "%%%02X", byte[i]));
    }
    return FF_OK;
}

int ff_hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int ff_unescaped_byte(const char *text, size_t length) {
    if (length < 3 || *text != '%') return -1;
    const int high = ff_hex_digit(text[1]), low = ff_hex_digit(text[2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

size_t ff_unescape(char *to, const char *text, size_t length) {
    size_t bytes = 0;
    for (size_t i = 0; i < length; i++) {
        const int byte = ff_unescaped_byte(text + i, length - i);
        to[bytes++] = byte < 0 ? text[i] : (char)byte;
        if (byte >= 0) i += 2;
    }
    return bytes;
}

void ff_buffer_free(ff_buffer *buffer) {
    free(buffer->bytes);
    *buffer = (ff_buffer){0};
}
