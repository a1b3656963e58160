/* The pickle reader on any bytes: no crash, no read or write out of bounds, and results are where
 * it says. */
#include "tests/fuzz/driver.h"
#include "tools/ffpack/source/cifar/numpy.h"

#include <sys/mman.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_pickle: line %d: %s\n", __LINE__, #condition);                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void look_at(ff_pickle *pickle, ff_pickle_value value, size_t length, ff_error *error) {
    char *text;
    size_t bytes;
    bool decoded;
    switch (ff_pickle_kind_of(pickle, value)) {
    case FF_PICKLE_TEXT:
    case FF_PICKLE_BYTES:
        if (ff_pickle_text(pickle, value, 1 << 16, &text, &bytes, error) != FF_OK) break;
        CHECK(bytes <= 1 << 16 && !text[bytes]);
        free(text);
        break;
    case FF_PICKLE_ARRAY: {
        ff_array array = ff_numpy_array(pickle, value, &decoded);
        uint64_t size;
        if (!array.dimensions) break;
        CHECK(ff_array_bytes(&array, &size));
        CHECK(array.dimensions <= FF_ARRAY_DIMENSIONS && !array.part);
        if (!decoded) CHECK(array.offset <= length && size <= length - array.offset);
        break;
    }
    default: break;
    }
}

static void look_around(ff_pickle *pickle, size_t length, ff_error *error) {
    ff_pickle_value root = ff_pickle_root(pickle), value;
    bool found;
    CHECK(ff_pickle_kind_name(pickle, ff_pickle_kind_of(pickle, root)) != NULL);
    look_at(pickle, root, length, error);
    static const char *const keys[] = {"data", "labels", "label_names", "fine_labels"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        CHECK(ff_pickle_find(pickle, root, keys[i], &found, &value, error) == FF_OK);
        if (found) look_at(pickle, value, length, error);
    }
    if (ff_pickle_kind_of(pickle, root) != FF_PICKLE_LIST) return;
    for (uint32_t i = 0; i < ff_pickle_count(pickle, root); i++)
        look_at(pickle, ff_pickle_item(pickle, root, i), length, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    static int fd = -1;
    if (fd < 0) fd = memfd_create("pickle", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, bytes, length, 0) != (ssize_t)length) return 0;
    const ff_pickle_file at = {fd, "input", 0, length, "/tmp"};
    ff_error error = {0};
    ff_pickle *pickle;
    ff_status status = ff_numpy_read(&pickle, &at, &error);
    if (status == FF_OK) {
        look_around(pickle, length, &error);
    } else {
        CHECK(pickle == NULL && (status == FF_BAD_DATA || status == FF_NO_MEMORY));
        CHECK(error.message[0] != '\0' && !strchr(error.message, '\n'));
    }
    ff_pickle_destroy(&pickle);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
