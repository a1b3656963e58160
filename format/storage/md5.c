#include "format/storage/md5.h"

#include "format/base/bytes.h"

#include <string.h>

/* floor(2^32 |sin(i + 1)|) */
static const uint32_t sines[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};
static const uint8_t turns[4][4] = {
    {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

static void add_block(uint32_t state[4], const uint8_t *block) {
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], word[16];
    for (int i = 0; i < 16; i++) word[i] = ff_load_u32(block + 4 * i);
    for (int i = 0; i < 64; i++) {
        const int round = i / 16;
        const uint32_t mixed = round == 0   ? (b & c) | (~b & d)
                               : round == 1 ? (d & b) | (~d & c)
                               : round == 2 ? b ^ c ^ d
                                            : c ^ (b | ~d);
        const int at = round == 0 ? i : round == 1 ? 5 * i + 1 : round == 2 ? 3 * i + 5 : 7 * i;
        const uint32_t sum = a + mixed + sines[i] + word[at % 16];
        const int turn = turns[round][i % 4];
        a = d, d = c, c = b;
        b += sum << turn | sum >> (32 - turn);
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
}

void ff_md5_begin(ff_md5 *md5) {
    *md5 = (ff_md5){.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}};
}

void ff_md5_add(ff_md5 *md5, const void *bytes, size_t length) {
    const uint8_t *from = bytes;
    while (length) {
        const size_t at = md5->length % 64, room = 64 - at, more = length < room ? length : room;
        if (more == 64) {
            add_block(md5->state, from);
        } else {
            memcpy(md5->block + at, from, more);
            if (more == room) add_block(md5->state, md5->block);
        }
        md5->length += more;
        from += more;
        length -= more;
    }
}

void ff_md5_end(ff_md5 *md5, uint8_t digest[16]) {
    static const uint8_t padding[64] = {0x80};
    uint8_t bits[8];
    ff_store_u64(bits, md5->length * 8);
    ff_md5_add(md5, padding, 1 + (119 - md5->length % 64) % 64);
    ff_md5_add(md5, bits, sizeof bits);
    for (int i = 0; i < 4; i++) ff_store_u32(digest + 4 * i, md5->state[i]);
}
