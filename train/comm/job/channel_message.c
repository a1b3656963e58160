#include "train/comm/job/channel_message.h"

#include "format/base/bytes.h"

ff_status ff_message_add(ff_buffer *out, ff_message_kind kind, const void *body, size_t length,
                         ff_error *error) {
    char header[FF_MESSAGE_HEADER];
    const size_t before = out->length;
    ff_store_u32(header, FF_MESSAGE_MAGIC);
    ff_store_u32(header + 4, kind);
    ff_store_u64(header + 8, length);
    FF_TRY(ff_buffer_add(out, header, sizeof header, error));
    const ff_status status = ff_buffer_add(out, body, length, error);
    if (status != FF_OK) out->length = before;
    return status;
}

static uint64_t most_bytes(uint32_t kind, int size) {
    switch (kind) {
    case FF_MESSAGE_PART: return FF_MESSAGE_PART_BYTES;
    case FF_MESSAGE_PARTS: return (uint64_t)size * (FF_MESSAGE_PART_BYTES + 8);
    case FF_MESSAGE_BEAT:
    case FF_MESSAGE_BYE: return 0;
    default: return FF_MESSAGE_TEXT;
    }
}

ff_status ff_message_parse(const char *bytes, size_t length, int size, ff_message *message,
                           size_t *used, ff_error *error) {
    *used = 0;
    if (length < FF_MESSAGE_HEADER) return FF_OK;
    const uint32_t magic = ff_load_u32(bytes), kind = ff_load_u32(bytes + 4);
    const uint64_t body = ff_load_u64(bytes + 8);
    if (magic != FF_MESSAGE_MAGIC || kind < FF_MESSAGE_HELLO || kind >= FF_MESSAGE_KINDS)
        return ff_fail(error, FF_BAD_DATA, "it sent what is not a message of this protocol");
    if (body > most_bytes(kind, size))
        return ff_fail(error, FF_BAD_DATA, "it sent a message of kind %u with %llu bytes", kind,
                       (unsigned long long)body);
    if (length - FF_MESSAGE_HEADER < body) return FF_OK;
    *message = (ff_message){(ff_message_kind)kind, bytes + FF_MESSAGE_HEADER, (size_t)body};
    *used = FF_MESSAGE_HEADER + (size_t)body;
    return FF_OK;
}

ff_status ff_hello_add(ff_buffer *body, const ff_hello *hello, ff_error *error) {
    const char *const texts[] = {hello->host, hello->version, hello->job};
    const int numbers[] = {hello->rank, hello->size, hello->process};
    for (int i = 0; i < 3; i++) {
        char number[4];
        ff_store_u32(number, (uint32_t)numbers[i]);
        FF_TRY(ff_buffer_add(body, number, sizeof number, error));
    }
    for (int i = 0; i < 3; i++) FF_TRY(ff_buffer_add(body, texts[i], strlen(texts[i]) + 1, error));
    return FF_OK;
}

ff_status ff_hello_parse(const ff_message *message, ff_hello *hello, ff_error *error) {
    char *const texts[] = {hello->host, hello->version, hello->job};
    static const size_t sizes[] = {sizeof hello->host, sizeof hello->version, sizeof hello->job};
    int *const numbers[] = {&hello->rank, &hello->size, &hello->process};
    const char *at = message->body, *const end = at + message->length;
    for (int i = 0; i < 3; i++, at += 4) {
        if (end - at < 4) return ff_fail(error, FF_BAD_DATA, "its greeting is too short");
        const uint32_t number = ff_load_u32(at);
        if (number > INT32_MAX) return ff_fail(error, FF_BAD_DATA, "its greeting has bad numbers");
        *numbers[i] = (int)number;
    }
    for (int i = 0; i < 3; i++) {
        const char *zero = memchr(at, 0, (size_t)(end - at));
        if (!zero || (size_t)(zero - at) >= sizes[i])
            return ff_fail(error, FF_BAD_DATA, "its greeting has no name within the limit");
        memcpy(texts[i], at, (size_t)(zero - at) + 1);
        at = zero + 1;
    }
    return at == end ? FF_OK : ff_fail(error, FF_BAD_DATA, "its greeting is too long");
}

ff_status ff_parts_add(ff_buffer *body, const ff_buffer *parts, int size, ff_error *error) {
    for (int i = 0; i < size; i++) {
        char length[8];
        ff_store_u64(length, parts[i].length);
        FF_TRY(ff_buffer_add(body, length, sizeof length, error));
    }
    for (int i = 0; i < size; i++)
        FF_TRY(ff_buffer_add(body, parts[i].bytes, parts[i].length, error));
    return FF_OK;
}

ff_status ff_parts_split(const ff_buffer *body, ff_buffer *parts, int size, ff_error *error) {
    size_t at = (size_t)size * 8;
    for (int i = 0; i < size; i++) {
        const uint64_t left = body->length < at ? 0 : body->length - at;
        const uint64_t length = left || body->length == at ? ff_load_u64(body->bytes + 8 * i) : 1;
        if (length > left)
            return ff_fail(error, FF_BAD_DATA, "rank 0 sent parts of another number of ranks");
        FF_TRY(ff_buffer_add(&parts[i], body->bytes + at, (size_t)length, error));
        at += (size_t)length;
    }
    if (at == body->length) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "rank 0 sent parts of another number of ranks");
}
