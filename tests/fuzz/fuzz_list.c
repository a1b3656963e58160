/* A list file of any bytes, listed by the source list: accepted items use only its own fields. */
#include "tests/fuzz/driver.h"
#include "tools/ffpack/source/list/table.h"
#include "tools/ffpack/source/source.h"

#include <sys/mman.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s: line %d: %s\n", __FILE__, __LINE__, #condition);                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void check_class(const ff_field *field, const char *value) {
    int64_t label = 0;
    int32_t small;
    memcpy(&small, value, sizeof small);
    if (field->dtype == FF_I32)
        label = small;
    else
        memcpy(&label, value, sizeof label);
    CHECK(label >= -1 && (!field->class_count || label < field->class_count));
}

static void check_split(const ff_source *source, const ff_source_split *split) {
    ff_listing_cursor *cursor;
    CHECK(ff_listing_cursor_create(&cursor, split->listing, NULL) == FF_OK);
    for (uint64_t i = 0; i < ff_listing_count(split->listing); i++) {
        ff_item item;
        CHECK(ff_listing_item(cursor, i, &item, NULL) == FF_OK);
        CHECK(item.key_bytes > 0 && !memchr(item.key, 0, item.key_bytes));
        const char *value = item.labels;
        for (size_t k = 0; k < source->labels.field_count; k++) {
            const ff_field *field = &source->labels.field[k];
            uint64_t bytes = ff_field_bytes(field);
            if (field->kind == FF_FIELD_CLASS) check_class(field, value);
            for (uint64_t b = 0; b < bytes && field->kind == FF_FIELD_MULTI_HOT; b++)
                CHECK((unsigned char)value[b] <= 1);
            value += bytes;
        }
    }
    ff_listing_cursor_destroy(&cursor);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char path[64], cell[64];
    int fd = memfd_create("list", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (ff_table_first_cell((const char *)bytes, length, true, cell, sizeof cell))
        CHECK(*cell && strlen(cell) < sizeof cell);
    ff_source_options options = {.format = "list",
                                 .temporary = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
                                 .skip = true,
                                 .jobs = 1};
    ff_source *source = NULL;
    ff_error error = {0};
    if (ff_source_open(&source, path, &options, &error) == FF_OK &&
        ff_source_list(source, &error) == FF_OK)
        for (size_t i = 0; i < source->split_count; i++) check_split(source, &source->split[i]);
    ff_source_close(&source);
    close(fd);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
