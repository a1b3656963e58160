#include "tools/ffpack/source/tfrecord/example.h"

#include <inttypes.h>
#include <string.h>

/* A message, or what is left of it. */
typedef struct message {
    const unsigned char *at, *end;
} message;

/* Wire types. */
enum { VARINT = 0, I64 = 1, LENGTH = 2, I32 = 5 };

typedef struct field {
    uint64_t number, type;
    uint64_t value; /* of VARINT */
    message bytes;  /* of LENGTH */
} field;

static bool read_varint(message *from, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (from->at == from->end) return false;
        const unsigned char byte = *from->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool skip(message *from, uint64_t bytes) {
    if (bytes > (uint64_t)(from->end - from->at)) return false;
    from->at += bytes;
    return true;
}

static bool read_field(message *from, field *to) {
    uint64_t tag;
    if (!read_varint(from, &tag)) return false;
    to->number = tag >> 3;
    to->type = tag & 7;
    if (to->type == VARINT) return read_varint(from, &to->value);
    if (to->type == I64) return skip(from, 8);
    if (to->type == I32) return skip(from, 4);
    if (to->type != LENGTH || !read_varint(from, &to->value)) return false;
    to->bytes.at = from->at;
    if (!skip(from, to->value)) return false;
    to->bytes.end = from->at;
    return true;
}

/* A BytesList or an Int64List; numbers one by one or packed. A FloatList's values only count. */
static bool read_list(message list, ff_feature *feature) {
    while (list.at < list.end) {
        field value;
        if (!read_field(&list, &value)) return false;
        if (value.number != 1) continue;
        if (feature->kind == FF_FEATURE_BYTES) {
            if (value.type != LENGTH) return false;
            feature->bytes = value.bytes.at;
            feature->length = value.value;
            feature->count++;
        } else if (feature->kind == FF_FEATURE_FLOATS) {
            if (value.type != I32 && (value.type != LENGTH || value.value % 4)) return false;
            feature->count += value.type == I32 ? 1 : value.value / 4;
        } else if (value.type == VARINT) {
            feature->number = (int64_t)value.value;
            feature->count++;
        } else {
            uint64_t number;
            if (value.type != LENGTH) return false;
            for (; value.bytes.at < value.bytes.end; feature->count++) {
                if (!read_varint(&value.bytes, &number)) return false;
                feature->number = (int64_t)number;
            }
        }
    }
    return true;
}

/* A Feature: the lists of a kind are one; the last kind counts. */
static bool read_feature(message from, ff_feature *feature) {
    while (from.at < from.end) {
        field list;
        if (!read_field(&from, &list)) return false;
        if (list.number < 1 || list.number > 3) continue;
        if (list.type != LENGTH) return false;
        if ((uint64_t)feature->kind != list.number) {
            feature->count = 0;
            feature->kind = list.number == 1   ? FF_FEATURE_BYTES
                            : list.number == 2 ? FF_FEATURE_FLOATS
                                               : FF_FEATURE_INTEGERS;
        }
        if (!read_list(list.bytes, feature)) return false;
    }
    return true;
}

/* An entry of the map: key = 1, value = 2. */
static bool read_entry(message from, ff_feature *feature) {
    *feature = (ff_feature){.key = ""};
    while (from.at < from.end) {
        field part;
        if (!read_field(&from, &part)) return false;
        if (part.number != 1 && part.number != 2) continue;
        if (part.type != LENGTH) return false;
        if (part.number == 1) {
            feature->key = (const char *)part.bytes.at;
            feature->key_bytes = part.value;
        } else if (!read_feature(part.bytes, feature)) {
            return false;
        }
    }
    return true;
}

static ff_status broken(const unsigned char *bytes, const message *from, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA,
                   "is not a tf.train.Example (its protobuf message is broken before byte %" PRIu64
                   ")",
                   (uint64_t)(from->at - bytes));
}

ff_status ff_example_visit(const unsigned char *bytes, uint64_t length, ff_feature_visitor *visit,
                           void *context, ff_error *error) {
    message example = {bytes, bytes + length};
    while (example.at < example.end) {
        field features, entry;
        if (!read_field(&example, &features)) return broken(bytes, &example, error);
        if (features.number != 1) continue;
        if (features.type != LENGTH) return broken(bytes, &example, error);
        while (features.bytes.at < features.bytes.end) {
            ff_feature feature;
            if (!read_field(&features.bytes, &entry)) return broken(bytes, &features.bytes, error);
            if (entry.number != 1) continue;
            if (entry.type != LENGTH || !read_entry(entry.bytes, &feature))
                return broken(bytes, &features.bytes, error);
            FF_TRY(visit(context, &feature, error));
        }
    }
    return FF_OK;
}

typedef struct search {
    const char *key;
    size_t key_bytes;
    ff_feature *found;
} search;

static ff_status take_if_wanted(void *context, const ff_feature *feature, ff_error *error) {
    (void)error;
    const search *of = context;
    if (feature->key_bytes == of->key_bytes && !memcmp(feature->key, of->key, of->key_bytes))
        *of->found = *feature;
    return FF_OK;
}

ff_status ff_example_find(const unsigned char *bytes, uint64_t length, const char *key,
                          ff_feature *feature, ff_error *error) {
    search of = {.key = key, .key_bytes = strlen(key), .found = feature};
    *feature = (ff_feature){.key = key};
    return ff_example_visit(bytes, length, take_if_wanted, &of, error);
}
