#include "train/report/events/crc32c.h"

/* Uses the reflected polynomial 0x1edc6f41, four bits at a time: event files are a few MB, and a
 * table of 16 entries is quick to check. */
uint32_t ff_crc32c(const void *bytes, size_t length) {
    static const uint32_t table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    const uint8_t *byte = bytes;
    uint32_t crc = ~0u;
    for (size_t i = 0; i < length; i++) {
        crc = table[(crc ^ byte[i]) & 15] ^ (crc >> 4);
        crc = table[(crc ^ (byte[i] >> 4)) & 15] ^ (crc >> 4);
    }
    return ~crc;
}
