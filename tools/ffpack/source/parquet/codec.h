/* The codecs of parquet's pages: none, snappy, gzip, zstd. Thread rule: pure. */
#ifndef FF_FFPACK_PARQUET_CODEC_H
#define FF_FFPACK_PARQUET_CODEC_H

#include "format/base/memory.h"

/* As numbered in parquet.thrift. */
typedef enum ff_parquet_codec {
    FF_PARQUET_PLAIN = 0,
    FF_PARQUET_SNAPPY = 1,
    FF_PARQUET_GZIP = 2,
    FF_PARQUET_ZSTD = 6,
} ff_parquet_codec;

/* Unpacks exactly `size` bytes into `to`. FF_BAD_DATA, without a place, if the bytes are broken,
 * are more or fewer, or the codec is another. */
FF_MUST_USE ff_status ff_parquet_unpack(int64_t codec, const unsigned char *from, size_t length,
                                        unsigned char *to, size_t size, ff_error *error);

#endif
