/* Any bytes as a server's list of objects: a list or a message; no name outside the prefix, and the
 * same result twice. */
#include "format/storage/buckets.h"
#include "tests/fuzz/driver.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_bucket: line %d: %s\n", __LINE__, #condition);                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static ff_status take(void *context, const char *name, const ff_object *object, ff_error *error) {
    uint64_t *sum = context;
    (void)error;
    *sum = *sum * 31 + strlen(name) + object->bytes + strlen(object->version);
    CHECK(strlen(object->version) < sizeof object->version);
    return FF_OK;
}

static uint64_t read_list(ff_xml answer, const char *prefix) {
    uint64_t sum = 0;
    char *token;
    ff_error error = {0};
    const ff_status status = ff_list_take(answer, prefix, take, &sum, &token, &error);
    CHECK(status == FF_OK || (status == FF_BAD_DATA && error.message[0] && !token));
    if (token) sum += strlen(token);
    free(token);
    return sum + (uint64_t)status;
}

static void read_elements(ff_xml answer) {
    static const char *const names[] = {"Key", "Upload", "ETag", "Error", "UploadId"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ff_xml rest = answer, content;
        char *text;
        while (ff_xml_next(&rest, names[i], &content)) {
            CHECK(content.at >= answer.at && content.length <= answer.length);
            CHECK(content.at + content.length <= rest.at);
            CHECK(rest.at + rest.length == answer.at + answer.length);
        }
        if (ff_xml_text(&text, answer, names[i], NULL) == FF_OK && text)
            CHECK(strlen(text) <= answer.length);
        free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char *copy = malloc(length ? length : 1); /* without a byte after it */
    if (!copy) abort();
    memcpy(copy, bytes, length);
    const ff_xml answer = {copy, length};
    for (int i = 0; i < 2; i++)
        CHECK(read_list(answer, i ? "a/b" : "") == read_list(answer, i ? "a/b" : ""));
    read_elements(answer);
    free(copy);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
