/* The header of NPY files on any bytes: no crash, and an accepted array is inside the file. */
#include "tests/fuzz/driver.h"
#include "tools/ffpack/source/array/npy_header.h"

#include <sys/mman.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_npy: line %d: %s\n", __LINE__, #condition);                      \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    static int fd = -1;
    if (fd < 0) fd = memfd_create("npy", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, bytes, length, 0) != (ssize_t)length) return 0;
    ff_error error = {0};
    ff_array array;
    /* Also as a member that begins somewhere in a file. */
    uint64_t offset = length && bytes[0] != 0x93 ? 1 : 0, size;
    ff_status status = ff_npy_read(fd, "input", offset, length - offset, &array, &error);
    if (status != FF_OK) {
        CHECK(status == FF_BAD_DATA);
        CHECK(error.message[0] != '\0' && !strchr(error.message, '\n'));
        return 0;
    }
    CHECK(array.element < FF_ELEMENT_COUNT && array.dimensions <= FF_ARRAY_DIMENSIONS);
    CHECK(ff_array_bytes(&array, &size) && array.offset <= length);
    CHECK(size == length - array.offset);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
