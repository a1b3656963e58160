/* MAT-files: any bytes give a struct's values or a message. */
#include "tests/fuzz/driver.h"
#include "tools/ffpack/source/imagenet/matlab.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_matlab: line %d: %s\n", __LINE__, #condition);                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static ff_status take(void *context, const ff_matlab_value *value, ff_error *error) {
    (void)error;
    size_t *count = context;
    for (int i = 0; i < 3; i++) {
        CHECK(!(value[i].is_number && value[i].is_text));
        CHECK(memchr(value[i].text, 0, sizeof value[i].text));
    }
    ++*count;
    return FF_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    static const char *const fields[] = {"ILSVRC2012_ID", "WNID", "num_children"};
    ff_error error = {0};
    size_t count = 0;
    ff_status status =
        ff_matlab_struct(bytes, length, "fuzz", "synsets", fields, 3, take, &count, &error);
    CHECK(status == FF_OK || status == FF_BAD_DATA || status == FF_NO_MEMORY);
    if (status != FF_OK) CHECK(error.message[0] && !strchr(error.message, '\n'));
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
