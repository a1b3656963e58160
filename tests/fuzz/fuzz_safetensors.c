/* safetensors files of any bytes: no crash, nothing read outside them, and what is accepted covers
 * the file once. */
#include "tests/fuzz/driver.h"

#include "format/weights/safetensors.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_safetensors: line %d: %s\n", __LINE__, #condition);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void check_tensors(const ff_safetensors *file, uint64_t length) {
    ff_error error = {0};
    uint64_t begin = 0, end = 0;
    for (size_t i = 0; ff_safetensors_at(file, i); i++) {
        const ff_safetensor *tensor = ff_safetensors_at(file, i);
        CHECK(tensor->rank >= 0 && tensor->rank <= FF_SAFETENSORS_RANK);
        CHECK(tensor->offset >= 8 && tensor->offset + tensor->bytes <= length);
        if (i) CHECK(tensor->offset == end);
        if (!i) begin = tensor->offset;
        end = tensor->offset + tensor->bytes;
        CHECK(ff_safetensors_find(file, tensor->name) != NULL);
        char *bytes = malloc(tensor->bytes + 1);
        CHECK(bytes && ff_safetensors_read(file, tensor, bytes, &error) == FF_OK);
        free(bytes);
    }
    CHECK(!ff_safetensors_at(file, 0) || (begin >= 10 && end == length));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    ff_error error = {0};
    ff_safetensors *file;
    char path[40];
    int fd = memfd_create("safetensors", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const ff_status status = ff_safetensors_open(&file, path, &error);
    if (status == FF_OK) {
        check_tensors(file, length);
        (void)ff_safetensors_text(file, "format");
    } else {
        CHECK(status == FF_BAD_DATA && !file);
        CHECK(error.message[0] && !strchr(error.message, '\n'));
    }
    ff_safetensors_close(&file);
    close(fd);
    return 0;
}
FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
