/* A file of the AWS tools of any bytes: a value of it is part of one of its lines. */
#include "format/storage/profile.h"
#include "tests/fuzz/driver.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_profile: line %d: %s\n", __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void look(const char *text, const ff_profile *section, const char *within,
                 const char *name) {
    char *value;
    bool there = false;
    CHECK(ff_profile_value(&value, text, section, within, name, &there, NULL) == FF_OK);
    CHECK(!value || (there && strstr(text, value) && !strchr(value, '\n')));
    free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    static const ff_profile profiles[] = {{"profile", "default", true}, {"profile", "a b", false}};
    static const ff_profile services = {"services", "mine", false};
    char *text = malloc(length + 1); /* as a file that was read: with a zero byte behind it */
    CHECK(text);
    memcpy(text, bytes, length);
    text[length] = 0;
    for (int i = 0; i < 2; i++) {
        look(text, &profiles[i], NULL, "aws_access_key_id");
        look(text, &profiles[i], "s3", "endpoint_url");
    }
    look(text, &services, "s3", "endpoint_url");
    free(text);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
