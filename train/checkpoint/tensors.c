#include "train/checkpoint/tensors.h"

#include "format/base/bytes.h"
#include "format/base/read.h"
#include "train/checkpoint/torch/torch.h"

#include <stdlib.h>
#include <string.h>

struct ff_tensors {
    char *path;
    ff_safetensors *safe; /* or: */
    ff_torch *torch;
    size_t count;
    const ff_safetensor **sorted; /* [count], by name */
};

static int by_name(const void *a, const void *b) {
    const ff_safetensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static ff_status sort(ff_tensors *file, ff_error *error) {
    while (ff_tensors_at(file, file->count)) file->count++;
    FF_TRY(
        ff_alloc(&file->sorted, file->count, sizeof *file->sorted, "the list of tensors", error));
    for (size_t i = 0; i < file->count; i++) file->sorted[i] = ff_tensors_at(file, i);
    if (file->count) qsort(file->sorted, file->count, sizeof *file->sorted, by_name);
    for (size_t i = 1; i < file->count; i++)
        if (!strcmp(file->sorted[i - 1]->name, file->sorted[i]->name))
            return ff_fail(error, FF_BAD_DATA, "%s: has two tensors '%s'", file->path,
                           file->sorted[i]->name);
    return FF_OK;
}

/* Whether torch/torch.h reads the file. */
static ff_status look(const char *path, bool *torch, ff_error *error) {
    uint8_t head[FF_TORCH_HEAD_BYTES];
    uint64_t bytes;
    int fd;
    FF_TRY(ff_open_file(path, &fd, &bytes, error));
    if (bytes > sizeof head) bytes = sizeof head;
    const ff_status status = ff_read_at(fd, path, head, (size_t)bytes, 0, error);
    ff_close_file(&fd);
    /* The length in a safetensors header may look like any magic number, but JSON follows it. */
    const bool safe = bytes > 8 && head[8] == '{';
    *torch = status == FF_OK && !safe && ff_torch_begins(head, (size_t)bytes);
    if (status != FF_OK || *torch || safe || bytes <= 8) return status;
    return ff_fail(error, FF_BAD_DATA,
                   "%s: is neither a safetensors file nor one that torch.save writes", path);
}

ff_status ff_tensors_open(ff_tensors **out, const char *path, bool average, ff_error *error) {
    ff_tensors *file;
    bool torch;
    ff_status status;
    *out = NULL;
    FF_TRY(look(path, &torch, error));
    FF_TRY(ff_alloc(&file, 1, sizeof *file, "a file of weights", error));
    FF_TRY_DONE(ff_copy_string(&file->path, path, error));
    FF_TRY_DONE(torch ? ff_torch_open(&file->torch, path, average, error)
                      : ff_safetensors_open(&file->safe, path, error));
    FF_TRY_DONE(sort(file, error));
    *out = file;
    return FF_OK;
done:
    ff_tensors_close(&file);
    return status;
}

void ff_tensors_close(ff_tensors **pointer) {
    ff_tensors *file = *pointer;
    if (!file) return;
    ff_safetensors_close(&file->safe);
    ff_torch_close(&file->torch);
    free(file->sorted);
    free(file->path);
    free(file);
    *pointer = NULL;
}

const ff_safetensor *ff_tensors_at(const ff_tensors *file, size_t index) {
    return file->safe ? ff_safetensors_at(file->safe, index) : ff_torch_at(file->torch, index);
}

const ff_safetensor *ff_tensors_find(const ff_tensors *file, const char *name) {
    const ff_safetensor wanted = {.name = name}, *key = &wanted;
    const ff_safetensor *const *found =
        file->count ? bsearch(&key, file->sorted, file->count, sizeof key, by_name) : NULL;
    return found ? *found : NULL;
}

const char *ff_tensors_text(const ff_tensors *file, const char *key) {
    return file->safe ? ff_safetensors_text(file->safe, key) : NULL;
}

const char *ff_tensors_path(const ff_tensors *file) {
    return file->path;
}

bool ff_tensors_of_torch(const ff_tensors *file) {
    return file->torch != NULL;
}

const char *ff_tensors_part(const ff_tensors *file) {
    return file->torch ? ff_torch_part(file->torch) : "";
}

ff_status ff_tensors_read(ff_tensors *file, const ff_safetensor *tensor, void *to,
                          ff_error *error) {
    return file->safe ? ff_safetensors_read(file->safe, tensor, to, error)
                      : ff_torch_read(file->torch, tensor, to, error);
}

ff_status ff_tensors_read_f32(ff_tensors *file, const ff_safetensor *tensor, float *to,
                              ff_error *error) {
    const bool wide = !strcmp(tensor->type, "F64");
    void *raw;
    if (tensor->dtype == FF_F32) return ff_tensors_read(file, tensor, to, error);
    if (!wide && tensor->dtype != FF_F16 && tensor->dtype != FF_BF16)
        return ff_fail(error, FF_BAD_DATA, "%s: '%s' is %s, not F32, F16, BF16 or F64", file->path,
                       tensor->name, tensor->type);
    FF_TRY(ff_alloc(&raw, tensor->bytes, 1, "a tensor", error));
    const ff_status status = ff_tensors_read(file, tensor, raw, error);
    if (status == FF_OK && !wide) ff_convert(to, FF_F32, raw, tensor->dtype, tensor->count);
    for (uint64_t i = 0; status == FF_OK && wide && i < tensor->count; i++) {
        const uint64_t bits = ff_load_u64((const char *)raw + 8 * i);
        double value;
        memcpy(&value, &bits, sizeof value);
        to[i] = (float)value;
    }
    free(raw);
    return status;
}
