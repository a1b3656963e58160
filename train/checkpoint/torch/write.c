/* Writes the form of torch.save since PyTorch 1.6 (torch.h): a zip without compression, whose
 * members begin at multiples of 64 bytes. */
#include "train/checkpoint/torch/write.h"

#include "format/base/bytes.h"
#include "format/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { LOCAL = 30, CENTRAL = 46, END = 22, ALIGNMENT = 64, VERSION = 20, DAY = 0x21, PAD = 0x4246 };

typedef struct zip {
    ff_file *file;
    ff_buffer directory;
    uint16_t count;
} zip;

/* ---- the zip ---- */

/* The fields that a member's record and its entry in the directory share, from the version on. */
static void describe(uint8_t *to, uint32_t crc, uint32_t bytes, size_t name) {
    ff_store_u16(to, VERSION);
    ff_store_u16(to + 8, DAY); /* 1980-01-01, 0:00 */
    ff_store_u32(to + 10, crc);
    ff_store_u32(to + 14, bytes);
    ff_store_u32(to + 18, bytes);
    ff_store_u16(to + 22, (uint16_t)name);
}

static ff_status add_member(zip *to, const char *name, const void *bytes, uint64_t length,
                            ff_error *error) {
    uint8_t local[LOCAL] = "PK\3\4", central[CENTRAL] = "PK\1\2", extra[4 + ALIGNMENT] = {0};
    const uint64_t at = ff_file_offset(to->file), name_bytes = strlen(name);
    const uint64_t begin = at + LOCAL + name_bytes + 4;
    const size_t extra_bytes = 4 + (size_t)(ff_align_u64(begin, ALIGNMENT) - begin);
    if (at + length > UINT32_MAX - 4096 || to->count == UINT16_MAX)
        return ff_fail(error, FF_USAGE,
                       "the weights are too large for torch.save's form here, 4 GiB at most; "
                       ".safetensors has no limit");
    const uint32_t crc = (uint32_t)crc32_z(crc32_z(0, NULL, 0), bytes, length);
    describe(local + 4, crc, (uint32_t)length, name_bytes);
    ff_store_u16(local + 28, (uint16_t)extra_bytes);
    ff_store_u16(extra, PAD);
    ff_store_u16(extra + 2, (uint16_t)(extra_bytes - 4));
    ff_store_u16(central + 4, VERSION);
    describe(central + 6, crc, (uint32_t)length, name_bytes);
    ff_store_u32(central + 42, (uint32_t)at);
    to->count++;
    FF_TRY(ff_file_write(to->file, local, LOCAL, error));
    FF_TRY(ff_file_write(to->file, name, name_bytes, error));
    FF_TRY(ff_file_write(to->file, extra, extra_bytes, error));
    FF_TRY(ff_file_write(to->file, bytes, length, error));
    FF_TRY(ff_buffer_add(&to->directory, central, CENTRAL, error));
    return ff_buffer_add(&to->directory, name, name_bytes, error);
}

static ff_status add_directory(zip *to, ff_error *error) {
    uint8_t end[END] = "PK\5\6";
    ff_store_u16(end + 8, to->count);
    ff_store_u16(end + 10, to->count);
    ff_store_u32(end + 12, (uint32_t)to->directory.length);
    ff_store_u32(end + 16, (uint32_t)ff_file_offset(to->file));
    FF_TRY(ff_file_write(to->file, to->directory.bytes, to->directory.length, error));
    return ff_file_write(to->file, end, END, error);
}

/* ---- the pickle, in protocol 2 ---- */

static ff_status add_text(ff_buffer *to, const char *text, ff_error *error) {
    uint8_t head[5] = "X";
    ff_store_u32(head + 1, (uint32_t)strlen(text));
    FF_TRY(ff_buffer_add(to, head, sizeof head, error));
    return ff_buffer_add(to, text, strlen(text), error);
}

/* Adds a signed integer of 8 bytes. */
static ff_status add_number(ff_buffer *to, uint64_t number, ff_error *error) {
    uint8_t long1[10] = "\x8a\x08";
    ff_store_u64(long1 + 2, number);
    return ff_buffer_add(to, long1, sizeof long1, error);
}

/* Adds name: _rebuild_tensor_v2(storage, 0, shape, stride, False, OrderedDict()). */
static ff_status add_tensor(ff_buffer *to, const ff_safetensors_entry *entry, size_t key,
                            ff_error *error) {
    uint64_t count = 1;
    char text[24];
    for (int i = 0; i < entry->rank; i++) count *= (uint64_t)entry->shape[i];
    FF_TRY(add_text(to, entry->name, error));
    FF_TRY(ff_buffer_printf(to, error, "ctorch._utils\n_rebuild_tensor_v2\n(("));
    FF_TRY(add_text(to, "storage", error));
    FF_TRY(ff_buffer_printf(to, error, "ctorch\n%sStorage\n",
                            entry->dtype == FF_I64 ? "Long" : "Float"));
    snprintf(text, sizeof text, "%zu", key);
    FF_TRY(add_text(to, text, error));
    FF_TRY(add_text(to, "cpu", error));
    FF_TRY(add_number(to, count, error));
    FF_TRY(ff_buffer_add(to, "tQK\0(", 5, error));
    for (int i = 0; i < entry->rank; i++) FF_TRY(add_number(to, (uint64_t)entry->shape[i], error));
    FF_TRY(ff_buffer_printf(to, error, "t("));
    for (int i = 0; i < entry->rank; i++) {
        uint64_t stride = 1;
        for (int k = i + 1; k < entry->rank; k++) stride *= (uint64_t)entry->shape[k];
        FF_TRY(add_number(to, stride, error));
    }
    return ff_buffer_printf(to, error,
                            "t\x89"
                            "ccollections\nOrderedDict\n)RtR");
}

static ff_status make_pickle(ff_buffer *to, const ff_safetensors_entry *entries, size_t count,
                             ff_error *error) {
    FF_TRY(ff_buffer_printf(to, error,
                            "\x80\x02"
                            "ccollections\nOrderedDict\n)R("));
    for (size_t i = 0; i < count; i++) FF_TRY(add_tensor(to, &entries[i], i, error));
    return ff_buffer_printf(to, error, "u.");
}

ff_status ff_torch_write(ff_file *file, const ff_safetensors_entry *entries, size_t count,
                         ff_error *error) {
    zip to = {.file = file};
    ff_buffer pickle = {0};
    ff_status status;
    FF_TRY_DONE(make_pickle(&pickle, entries, count, error));
    FF_TRY_DONE(add_member(&to, "archive/data.pkl", pickle.bytes, pickle.length, error));
    FF_TRY_DONE(add_member(&to, "archive/byteorder", "little", 6, error));
    for (size_t i = 0; i < count; i++) {
        const ff_safetensors_entry *entry = &entries[i];
        uint64_t bytes = ff_dtype_bytes(entry->dtype);
        char name[48];
        for (int k = 0; k < entry->rank; k++) bytes *= (uint64_t)entry->shape[k];
        snprintf(name, sizeof name, "archive/data/%zu", i);
        FF_TRY_DONE(add_member(&to, name, entry->values, bytes, error));
    }
    FF_TRY_DONE(add_member(&to, "archive/version", "3\n", 2, error));
    FF_TRY_DONE(add_directory(&to, error));
done:
    ff_buffer_free(&pickle);
    ff_buffer_free(&to.directory);
    return status;
}
