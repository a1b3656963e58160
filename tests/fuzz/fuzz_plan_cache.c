/* Files of the plan cache on any bytes: no crash, and what is accepted is what was written. The
 * checksum, which almost no mutation survives, is corrected first, so that the text after it is
 * reached. */
#include "tests/fuzz/driver.h"

#include "format/disk/checksum.h"
#include "train/compute/cuda/plan_cache.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_plan_cache: line %d: %s\n", __LINE__, #condition);               \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void parse(const uint8_t *bytes, size_t length) {
    ff_error error = {0};
    ff_plan_entry entry, again;
    ff_status status = ff_plan_entry_parse(bytes, length, "a key", &entry, &error);
    if (status != FF_OK) {
        CHECK(status == FF_BAD_DATA && !entry.json);
        CHECK(error.message[0] != '\0' && !strchr(error.message, '\n'));
        return;
    }
    CHECK(entry.json && entry.engine.cached && entry.engine.found >= 0);
    CHECK(strlen(entry.engine.name) > 0 && strlen(entry.json) < length);
    ff_buffer file = {0};
    CHECK(ff_plan_entry_write(&file, "a key", &entry, &error) == FF_OK);
    CHECK(ff_plan_entry_parse(file.bytes, file.length, "a key", &again, &error) == FF_OK);
    CHECK(!strcmp(entry.json, again.json) && !strcmp(entry.engine.name, again.engine.name));
    ff_buffer_free(&file);
    ff_plan_entry_release(&again);
    ff_plan_entry_release(&entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    static const size_t digits = sizeof "ffpack plan 2\nchecksum " - 1, body = digits + 17;
    parse(bytes, length);
    if (length <= body) return 0;
    uint8_t *right = malloc(length);
    if (!right) return 0;
    char text[17];
    memcpy(right, bytes, length);
    snprintf(text, sizeof text, "%016llx",
             (unsigned long long)ff_checksum(bytes + body, length - body));
    memcpy(right + digits, text, 16);
    parse(right, length);
    free(right);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
