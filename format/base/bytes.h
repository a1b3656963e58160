/* Little-endian loads and stores that need no alignment. Every on-disk integer goes through these.
 */
#ifndef FF_BASE_BYTES_H
#define FF_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FF_DEFINE_LE(bits, swap)                                                                   \
    static inline uint##bits##_t ff_load_u##bits(const void *from) {                               \
        uint##bits##_t value;                                                                      \
        memcpy(&value, from, sizeof value);                                                        \
        return swap(value);                                                                        \
    }                                                                                              \
    static inline void ff_store_u##bits(void *to, uint##bits##_t value) {                          \
        value = swap(value);                                                                       \
        memcpy(to, &value, sizeof value);                                                          \
    }

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FF_LE_KEEP(value) (value)
FF_DEFINE_LE(16, FF_LE_KEEP)
FF_DEFINE_LE(32, FF_LE_KEEP)
FF_DEFINE_LE(64, FF_LE_KEEP)
#undef FF_LE_KEEP
#else
FF_DEFINE_LE(16, __builtin_bswap16)
FF_DEFINE_LE(32, __builtin_bswap32)
FF_DEFINE_LE(64, __builtin_bswap64)
#endif
#undef FF_DEFINE_LE

/* Big-endian, for IDX and PNG. */
static inline uint32_t ff_load_be32(const void *from) {
    const unsigned char *byte = (const unsigned char *)from;
    return (uint32_t)byte[0] << 24 | (uint32_t)byte[1] << 16 | (uint32_t)byte[2] << 8 | byte[3];
}
static inline void ff_store_be32(void *to, uint32_t value) {
    unsigned char *byte = (unsigned char *)to;
    byte[0] = (unsigned char)(value >> 24);
    byte[1] = (unsigned char)(value >> 16);
    byte[2] = (unsigned char)(value >> 8);
    byte[3] = (unsigned char)value;
}

/* `count` bytes as 2 * count lowercase hexadecimal digits and a final zero. */
static inline void ff_hex(char *text, const void *bytes, size_t count) {
    const unsigned char *byte = (const unsigned char *)bytes;
    for (size_t i = 0; i < 2 * count; i++)
        text[i] = "0123456789abcdef"[byte[i / 2] >> (i % 2 ? 0 : 4) & 15];
    text[2 * count] = 0;
}

/* A float's bits and back. */
static inline uint32_t ff_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline float ff_bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
