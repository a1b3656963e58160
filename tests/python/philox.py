"""Philox4x32-10, written from the paper."""


def philox(counter, key):
    """Four words (Salmon et al. 2011)."""
    c, k, mask = list(counter), list(key), 2 ** 32 - 1
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & mask, a >> 32 ^ c[3] ^ k[1], a & mask]
        k = [k[0] + 0x9E3779B9 & mask, k[1] + 0xBB67AE85 & mask]
    return c
