/* An expression of any bytes: refused with a place, or it means each sample or not, and `not` of it
 * the others. */
#include "format/select/where.h"
#include "tests/fuzz/driver.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_where: line %d: %s\n", __LINE__, #condition);                    \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static char *classes[] = {(char[]){"cat"}, (char[]){"50% off"}, (char[]){"7"}};
static ff_field fields[] = {
    {.name = (char[]){"label"},
     .kind = FF_FIELD_CLASS,
     .dtype = FF_I32,
     .width = 1,
     .class_count = 3,
     .class_name = classes},
    {.name = (char[]){"age"}, .kind = FF_FIELD_VECTOR, .dtype = FF_F32, .width = 1},
    {.name = (char[]){"box"}, .kind = FF_FIELD_VECTOR, .dtype = FF_F32, .width = 4},
    {.name = (char[]){"split"}, .kind = FF_FIELD_CLASS, .dtype = FF_I64, .width = 1}};
static const ff_metadata metadata = {.field = fields, .field_count = 4};
static ff_where where, negated;

static ff_status take(ff_where *into, const char *text) {
    ff_error error = {0};
    ff_status status = ff_where_read(into, text, &error);
    if (status == FF_OK) status = ff_where_bind(into, &metadata, "set", &error);
    CHECK(status == FF_OK || (status == FF_USAGE && error.message[0]));
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char *text = malloc(length + 1), *other = malloc(length + 8);
    if (!text || !other) abort();
    memcpy(text, bytes, length);
    text[length] = 0;
    snprintf(other, length + 8, "not (%s)", text);
    if (take(&where, text) == FF_OK) {
        CHECK(where.step_count && where.value_count);
        CHECK(!ff_where_needs(&where, 2));
        const bool both = take(&negated, other) == FF_OK;
        for (int i = 0; i < 4; i++) {
            const double field[] = {i - 1, i * 0.5, 0, i};
            const ff_where_sample sample = {.key = "cat/\xc3\xa9.png",
                                            .key_bytes = 3 + (size_t)i * 2,
                                            .split = i % 2 ? "train" : "",
                                            .height = (uint32_t)i * 20,
                                            .width = 32,
                                            .field = field};
            const bool holds = ff_where_holds(&where, &sample);
            if (both) CHECK(ff_where_holds(&negated, &sample) != holds);
        }
    }
    free(text);
    free(other);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
