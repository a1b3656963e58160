/* Files of weights of any bytes, as torch.save writes them: no crash, nothing read outside them,
 * and every tensor that is found can be read. */
#include "tests/fuzz/driver.h"

#include "train/checkpoint/tensors.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "fuzz_torch: line %d: %s\n", __LINE__, #condition);                    \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

enum { READ_BYTES = 1 << 22 }; /* of a tensor: a small file may describe a large one */

static void check_tensors(ff_tensors *file) {
    ff_error error = {0};
    for (size_t i = 0; ff_tensors_at(file, i); i++) {
        const ff_safetensor *tensor = ff_tensors_at(file, i);
        CHECK(tensor->rank >= 0 && tensor->rank <= FF_SAFETENSORS_RANK);
        CHECK(ff_tensors_find(file, tensor->name) == tensor);
        if (tensor->bytes > READ_BYTES) continue;
        /* Of exactly the size, so that a sanitizer sees a byte too many. */
        char *bytes = malloc(tensor->bytes ? tensor->bytes : 1);
        float *values = malloc(tensor->count ? tensor->count * sizeof *values : 1);
        CHECK(bytes && values);
        if (ff_tensors_read(file, tensor, bytes, &error) != FF_OK)
            CHECK(error.status == FF_BAD_DATA);
        if (ff_tensors_read_f32(file, tensor, values, &error) != FF_OK)
            CHECK(error.status == FF_BAD_DATA);
        free(values);
        free(bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char path[40];
    int fd = memfd_create("torch", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (int average = 0; average < 2; average++) {
        ff_error error = {0};
        ff_tensors *file;
        const ff_status status = ff_tensors_open(&file, path, average, &error);
        if (status == FF_OK) {
            check_tensors(file);
            CHECK(ff_tensors_part(file) != NULL);
        } else {
            CHECK((status == FF_BAD_DATA || status == FF_NO_MEMORY ||
                   (average && status == FF_USAGE)) &&
                  !file);
            CHECK(error.message[0] && !strchr(error.message, '\n'));
        }
        ff_tensors_close(&file);
    }
    close(fd);
    return 0;
}
FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
