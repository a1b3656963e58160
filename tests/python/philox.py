"""Philox4x32-10, written from the paper, and the permutation of loader/sequence/order.h, written from its page."""
M32 = 2 ** 32 - 1


def philox(counter, key):
    """Four words (Salmon et al. 2011)."""
    c, k, mask = list(counter), list(key), 2 ** 32 - 1
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & mask, a >> 32 ^ c[3] ^ k[1], a & mask]
        k = [k[0] + 0x9E3779B9 & mask, k[1] + 0xBB67AE85 & mask]
    return c


def order_keys(seed, epoch, which):
    """The keys of permutation `which` of an epoch's order."""
    return [word for block in (0, 1) for word in philox((which & M32, which >> 32, epoch, 1 << 16 | block), (seed & M32, seed >> 32))][:6]


def mix(x):
    x = (x ^ x >> 16) * 0x7feb352d & M32
    x = (x ^ x >> 15) * 0x846ca68b & M32
    return x ^ x >> 16


def permuted(keys, count, index, tweak):
    bits = (count - 1).bit_length()
    low_bits = bits // 2
    while True:
        low, high = index & (1 << low_bits) - 1, index >> low_bits
        for turn in range(4 if bits <= 8 else 1):
            for r in range(0, 6, 2):
                change = tweak ^ turn * 0x9e3779b9 & M32
                high ^= mix(low ^ keys[r] ^ change) & (1 << bits - low_bits) - 1
                low ^= mix(high ^ keys[r + 1] ^ change) & (1 << low_bits) - 1
        index = high << low_bits | low
        if index < count:
            return index
