#include "format/base/crc32c.h"

#include "format/base/bytes.h"

#include <pthread.h>

/* Eight bytes at a time ("slicing by 8", Kounavis and Berry 2008): table[k][b] is the checksum of
 * byte b followed by k zero bytes, by the reflected polynomial 0x1edc6f41. */
static uint32_t table[8][256];

static void fill_table(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
        table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            table[k][b] = table[0][table[k - 1][b] & 255] ^ (table[k - 1][b] >> 8);
}

uint32_t ff_crc32c(const void *bytes, size_t length) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, fill_table);
    const uint8_t *byte = bytes;
    uint32_t crc = ~0u;
    for (; length >= 8; length -= 8, byte += 8) {
        const uint64_t word = ff_load_u64(byte) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++) crc ^= table[7 - k][word >> (8 * k) & 255];
    }
    for (; length; length--) crc = table[0][(crc ^ *byte++) & 255] ^ (crc >> 8);
    return ~crc;
}
