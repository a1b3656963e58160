/* The metadata's text on any bytes: refused with a message, or read and written again as it was. */
#include "format/disk/metadata.h"
#include "tests/fuzz/driver.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_metadata: line %d: %s\n", __LINE__, #condition);                 \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* The text without its extension lines, which a reader drops. */
static size_t without_extensions(const uint8_t *bytes, size_t length, char *out) {
    size_t written = 0;
    for (size_t at = 0; at < length;) {
        const uint8_t *newline = memchr(bytes + at, '\n', length - at);
        size_t line = newline ? (size_t)(newline - (bytes + at)) + 1 : length - at;
        if (line < 2 || memcmp(bytes + at, "x-", 2) != 0) {
            memcpy(out + written, bytes + at, line);
            written += line;
        }
        at += line;
    }
    return written;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    ff_metadata metadata, copy;
    ff_error error = {0};
    ff_buffer text = {0};
    ff_status status = ff_metadata_read(&metadata, (const char *)bytes, length, &error);
    if (status != FF_OK) {
        CHECK(status == FF_BAD_DATA || status == FF_NO_MEMORY);
        CHECK(error.message[0] && !strchr(error.message, '\n'));
        return 0;
    }
    char *wanted = malloc(length + 1);
    if (!wanted) return 0;
    size_t wanted_length = without_extensions(bytes, length, wanted);
    uint8_t id[16];
    CHECK(ff_metadata_check(&metadata, NULL) == FF_OK);
    CHECK(ff_metadata_write(&metadata, &text, NULL) == FF_OK);
    CHECK(text.length == wanted_length && memcmp(text.bytes, wanted, wanted_length) == 0);
    CHECK(ff_metadata_copy(&copy, &metadata, NULL) == FF_OK);
    CHECK(ff_metadata_transform_id(&copy, id, NULL) == FF_OK);
    for (size_t i = 0; i < metadata.field_count; i++) {
        bool wide;
        uint64_t at =
            ff_metadata_field_offset(&metadata, i, metadata.height, metadata.width, &wide);
        uint64_t end = wide ? ff_metadata_payload_bytes(&metadata, metadata.height, metadata.width)
                            : ff_metadata_label_row_bytes(&metadata);
        CHECK(at + ff_field_bytes(&metadata.field[i]) <= end);
    }
    ff_metadata_free(&copy);
    ff_metadata_free(&metadata);
    ff_buffer_free(&text);
    free(wanted);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
