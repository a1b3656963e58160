#include "tools/ffpack/source/parquet/thrift.h"

enum { DEPTH_MOST = 16 };

static void fail(ff_thrift *from) {
    from->broken = true;
    from->at = from->end;
}

static unsigned read_byte(ff_thrift *from) {
    if (from->at == from->end) {
        fail(from);
        return 0;
    }
    return *from->at++;
}

static uint64_t read_varint(ff_thrift *from) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        const unsigned byte = read_byte(from);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    fail(from);
    return 0;
}

static int64_t read_zigzag(ff_thrift *from) {
    const uint64_t value = read_varint(from);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

static void skip_bytes(ff_thrift *from, uint64_t bytes) {
    if (bytes > (uint64_t)(from->end - from->at))
        fail(from);
    else
        from->at += bytes;
}

bool ff_thrift_next(ff_thrift *from, ff_thrift_field *field) {
    const unsigned byte = read_byte(from), step = byte >> 4;
    if (from->broken || !(byte & 15)) return false;
    field->type = (ff_thrift_type)(byte & 15);
    field->number = step ? (int16_t)(field->number + (int)step) : (int16_t)read_zigzag(from);
    if (field->type > FF_THRIFT_STRUCT) fail(from);
    return !from->broken;
}

int64_t ff_thrift_integer(ff_thrift *from, const ff_thrift_field *field) {
    if (field->type >= FF_THRIFT_I16 && field->type <= FF_THRIFT_I64) return read_zigzag(from);
    if (field->type == FF_THRIFT_I8) return (int8_t)read_byte(from);
    ff_thrift_skip(from, field);
    return 0;
}

bool ff_thrift_bool(ff_thrift *from, const ff_thrift_field *field) {
    if (field->type != FF_THRIFT_TRUE) ff_thrift_skip(from, field);
    return field->type == FF_THRIFT_TRUE;
}

ff_thrift_text ff_thrift_binary(ff_thrift *from, const ff_thrift_field *field) {
    if (field->type != FF_THRIFT_BINARY) {
        ff_thrift_skip(from, field);
        return (ff_thrift_text){"", 0};
    }
    const uint64_t length = read_varint(from);
    const char *bytes = (const char *)from->at;
    skip_bytes(from, length);
    return from->broken ? (ff_thrift_text){"", 0} : (ff_thrift_text){bytes, length};
}

uint32_t ff_thrift_list(ff_thrift *from, const ff_thrift_field *field, ff_thrift_field *element) {
    if (field->type != FF_THRIFT_LIST && field->type != FF_THRIFT_SET) {
        ff_thrift_skip(from, field);
        return 0;
    }
    const unsigned byte = read_byte(from);
    const uint64_t count = byte >> 4 == 15 ? read_varint(from) : byte >> 4;
    *element = (ff_thrift_field){.type = (ff_thrift_type)(byte & 15)};
    /* An element has a byte at least. */
    if (element->type > FF_THRIFT_STRUCT || count > (uint64_t)(from->end - from->at)) fail(from);
    return from->broken ? 0 : (uint32_t)count;
}

bool ff_thrift_struct(ff_thrift *from, const ff_thrift_field *field) {
    if (field->type == FF_THRIFT_STRUCT) return !from->broken;
    ff_thrift_skip(from, field);
    return false;
}

static void skip_map(ff_thrift *from) {
    const uint64_t count = read_varint(from);
    if (!count) return;
    const unsigned types = read_byte(from);
    const ff_thrift_field key = {.type = (ff_thrift_type)(types >> 4)};
    const ff_thrift_field value = {.type = (ff_thrift_type)(types & 15)};
    if (count > (uint64_t)(from->end - from->at)) fail(from);
    for (uint64_t i = 0; i < count && !from->broken; i++) {
        ff_thrift_skip(from, &key);
        ff_thrift_skip(from, &value);
    }
}

/* A bool takes a byte in a list, and no byte in a struct. */
static void skip_list(ff_thrift *from, const ff_thrift_field *field) {
    ff_thrift_field element;
    const uint32_t count = ff_thrift_list(from, field, &element);
    for (uint32_t i = 0; i < count && !from->broken; i++) {
        if (element.type == FF_THRIFT_TRUE || element.type == FF_THRIFT_FALSE)
            skip_bytes(from, 1);
        else
            ff_thrift_skip(from, &element);
    }
}

void ff_thrift_skip(ff_thrift *from, const ff_thrift_field *field) {
    ff_thrift_field inner = {0};
    if (++from->depth > DEPTH_MOST) fail(from);
    if (from->broken) return;
    switch (field->type) {
    case FF_THRIFT_I8: skip_bytes(from, 1); break;
    case FF_THRIFT_I16:
    case FF_THRIFT_I32:
    case FF_THRIFT_I64: (void)read_varint(from); break;
    case FF_THRIFT_DOUBLE: skip_bytes(from, 8); break;
    case FF_THRIFT_BINARY: (void)ff_thrift_binary(from, field); break;
    case FF_THRIFT_LIST:
    case FF_THRIFT_SET: skip_list(from, field); break;
    case FF_THRIFT_MAP: skip_map(from); break;
    case FF_THRIFT_STRUCT:
        while (ff_thrift_next(from, &inner)) ff_thrift_skip(from, &inner);
        break;
    case FF_THRIFT_STOP: fail(from); break;
    case FF_THRIFT_TRUE:
    case FF_THRIFT_FALSE: break;
    }
    from->depth--;
}
