/* Writes protobuf messages (protobuf.dev/programming-guides/encoding): each function appends a
 * field to the bytes of a message. Thread rule: pure. */
#ifndef FF_TRAIN_PROTOBUF_H
#define FF_TRAIN_PROTOBUF_H

#include "format/base/memory.h"

/* int32, int64, uint32, uint64, bool and enums. */
FF_MUST_USE ff_status ff_protobuf_number(ff_buffer *to, unsigned field, uint64_t value,
                                         ff_error *error);
FF_MUST_USE ff_status ff_protobuf_float(ff_buffer *to, unsigned field, float value,
                                        ff_error *error);
FF_MUST_USE ff_status ff_protobuf_double(ff_buffer *to, unsigned field, double value,
                                         ff_error *error);
/* Strings, bytes and messages. */
FF_MUST_USE ff_status ff_protobuf_bytes(ff_buffer *to, unsigned field, const void *bytes,
                                        size_t length, ff_error *error);
FF_MUST_USE ff_status ff_protobuf_text(ff_buffer *to, unsigned field, const char *text,
                                       ff_error *error);
/* Begins a field of `length` bytes, which the caller appends. */
FF_MUST_USE ff_status ff_protobuf_length(ff_buffer *to, unsigned field, uint64_t length,
                                         ff_error *error);

#endif
