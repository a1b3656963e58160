#include "train/checkpoint/protobuf.h"

#include "format/base/bytes.h"

#include <string.h>

/* Wire types. */
enum { VARINT, FIXED64, BYTES, FIXED32 = 5 };

static ff_status put_varint(ff_buffer *to, uint64_t value, ff_error *error) {
    uint8_t bytes[10];
    size_t count = 0;
    do {
        bytes[count++] = (uint8_t)(value & 127) | (value > 127 ? 128 : 0);
        value >>= 7;
    } while (value);
    return ff_buffer_add(to, bytes, count, error);
}

static ff_status put_key(ff_buffer *to, unsigned field, unsigned type, ff_error *error) {
    return put_varint(to, field << 3 | type, error);
}

ff_status ff_protobuf_number(ff_buffer *to, unsigned field, uint64_t value, ff_error *error) {
    FF_TRY(put_key(to, field, VARINT, error));
    return put_varint(to, value, error);
}

ff_status ff_protobuf_float(ff_buffer *to, unsigned field, float value, ff_error *error) {
    uint8_t bytes[4];
    ff_store_u32(bytes, ff_float_bits(value));
    FF_TRY(put_key(to, field, FIXED32, error));
    return ff_buffer_add(to, bytes, sizeof bytes, error);
}

ff_status ff_protobuf_double(ff_buffer *to, unsigned field, double value, ff_error *error) {
    uint64_t bits;
    uint8_t bytes[8];
    memcpy(&bits, &value, sizeof bits);
    ff_store_u64(bytes, bits);
    FF_TRY(put_key(to, field, FIXED64, error));
    return ff_buffer_add(to, bytes, sizeof bytes, error);
}

ff_status ff_protobuf_length(ff_buffer *to, unsigned field, uint64_t length, ff_error *error) {
    FF_TRY(put_key(to, field, BYTES, error));
    return put_varint(to, length, error);
}

ff_status ff_protobuf_bytes(ff_buffer *to, unsigned field, const void *bytes, size_t length,
                            ff_error *error) {
    FF_TRY(ff_protobuf_length(to, field, length, error));
    return ff_buffer_add(to, bytes, length, error);
}

ff_status ff_protobuf_text(ff_buffer *to, unsigned field, const char *text, ff_error *error) {
    return ff_protobuf_bytes(to, field, text, strlen(text), error);
}
