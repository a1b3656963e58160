/* CRC-32C (Castagnoli; RFC 3720 section 12.1), as TensorFlow's records use it: TFRecords and
 * TensorBoard's event files. Thread-safe. */
#ifndef FF_BASE_CRC32C_H
#define FF_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of "123456789" is 0xe3069283. */
uint32_t ff_crc32c(const void *bytes, size_t length);

/* The checksum as a record stores it, so that the checksum of bytes that include a checksum stays
 * useful. */
static inline uint32_t ff_crc32c_masked(const void *bytes, size_t length) {
    const uint32_t crc = ff_crc32c(bytes, length);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

#endif
