/* tf.train.Example (tensorflow/core/example/{example,feature}.proto) in protobuf's wire format
 * (protobuf.dev/programming-guides/encoding):
 *
 *     Example { Features features = 1; }    Features { map<string, Feature> feature = 1; }
 *     Feature { oneof { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list =
 * 3; } }
 *
 * Each list is a field 1 that repeats; numbers may be packed. Unknown fields are skipped, and the
 * last of two entries with one key counts, as in protobuf. Thread rule: pure. */
#ifndef FF_FFPACK_TFRECORD_EXAMPLE_H
#define FF_FFPACK_TFRECORD_EXAMPLE_H

#include "format/base/memory.h"

typedef struct ff_feature {
    const char *key; /* in the record's bytes, not zero-terminated */
    size_t key_bytes;
    enum { FF_FEATURE_NONE, FF_FEATURE_BYTES, FF_FEATURE_FLOATS, FF_FEATURE_INTEGERS } kind;
    uint64_t count;             /* of values */
    const unsigned char *bytes; /* the last value of FF_FEATURE_BYTES, in the record's bytes */
    uint64_t length;
    int64_t number; /* the last value of FF_FEATURE_INTEGERS */
} ff_feature;

typedef ff_status ff_feature_visitor(void *context, const ff_feature *feature, ff_error *error);

/* Calls visit with each entry of the Example. FF_BAD_DATA, without a place, if the bytes are not
 * one; returns the first failure of `visit`. */
FF_MUST_USE ff_status ff_example_visit(const unsigned char *bytes, uint64_t length,
                                       ff_feature_visitor *visit, void *context, ff_error *error);

/* *feature = the entry of this key; of kind FF_FEATURE_NONE if there is none. */
FF_MUST_USE ff_status ff_example_find(const unsigned char *bytes, uint64_t length, const char *key,
                                      ff_feature *feature, ff_error *error);

#endif
