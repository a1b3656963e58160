/* MD5 (RFC 1321): S3 compares what it received with the request's, and names objects' versions by
 * it. Not for secrets. Private to format/storage. Thread rule: pure. */
#ifndef FF_STORAGE_MD5_H
#define FF_STORAGE_MD5_H

#include <stddef.h>
#include <stdint.h>

typedef struct ff_md5 {
    uint32_t state[4];
    uint64_t length; /* bytes added so far */
    uint8_t block[64];
} ff_md5;

void ff_md5_begin(ff_md5 *md5);
void ff_md5_add(ff_md5 *md5, const void *bytes, size_t length);
void ff_md5_end(ff_md5 *md5, uint8_t digest[16]);

#endif
