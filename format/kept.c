#include "format/kept.h"

#include "format/base/bytes.h"
#include "format/checksum.h"
#include "format/base/file.h"
#include "format/metadata.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file: magic, the numbers, bytes of text and of note (u64 each), text, note, XXH3-64 of all
 * before. Little-endian. */
#define MAGIC            "FFKEPT1\n"
#define NOTE_LIMIT_BYTES (UINT64_C(1) << 24)
enum { HEAD_BYTES = 40, FIXED_BYTES = HEAD_BYTES + 8 };

void ff_kept_free(ff_kept *kept) {
    ff_buffer_free(&kept->text);
    ff_buffer_free(&kept->note);
    *kept = (ff_kept){0};
}

static ff_status encode(const ff_kept *kept, ff_buffer *all, ff_error *error) {
    uint8_t head[HEAD_BYTES] = MAGIC, checksum[8];
    ff_store_u64(head + 8, kept->number[0]);
    ff_store_u64(head + 16, kept->number[1]);
    ff_store_u64(head + 24, kept->text.length);
    ff_store_u64(head + 32, kept->note.length);
    FF_TRY(ff_buffer_add(all, head, sizeof head, error));
    FF_TRY(ff_buffer_add(all, kept->text.bytes, kept->text.length, error));
    FF_TRY(ff_buffer_add(all, kept->note.bytes, kept->note.length, error));
    ff_store_u64(checksum, ff_checksum(all->bytes, all->length));
    return ff_buffer_add(all, checksum, sizeof checksum, error);
}

ff_status ff_kept_write(const ff_kept *kept, const char *directory, const char *name,
                        ff_error *error) {
    ff_buffer all = {0};
    ff_file *file = NULL;
    ff_status status = encode(kept, &all, error);
    if (status == FF_OK) status = ff_file_create(&file, directory, name, error);
    if (status == FF_OK) status = ff_file_write(file, all.bytes, all.length, error);
    if (status == FF_OK) status = ff_file_commit(&file, error);
    ff_file_discard(&file);
    ff_buffer_free(&all);
    return status;
}

static ff_status read_file(ff_buffer *all, int file, const char *path, ff_error *error) {
    struct stat info;
    if (fstat(file, &info)) return ff_fail_errno(error, "%s: cannot stat", path);
    if (info.st_size < FIXED_BYTES ||
        (uint64_t)info.st_size > FIXED_BYTES + FF_METADATA_LIMIT_BYTES + NOTE_LIMIT_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s: %lld bytes long; no ffpack wrote this", path,
                       (long long)info.st_size);
    size_t length = (size_t)info.st_size;
    FF_TRY(ff_reserve(&all->bytes, &all->capacity, length, 1, "what was kept", error));
    all->length = length;
    return ff_read_exactly(file, path, 0, all->bytes, length, error);
}

static ff_status decode(ff_kept *kept, const ff_buffer *all, const char *path, ff_error *error) {
    const char *bytes = all->bytes;
    const uint8_t *head = (const uint8_t *)bytes;
    uint64_t text = ff_load_u64(head + 24), note = ff_load_u64(head + 32);
    size_t body = all->length - 8;
    if (memcmp(bytes, MAGIC, 8) != 0 || ff_load_u64(head + body) != ff_checksum(bytes, body) ||
        text > FF_METADATA_LIMIT_BYTES || note > NOTE_LIMIT_BYTES ||
        all->length != FIXED_BYTES + text + note)
        return ff_fail(error, FF_BAD_DATA, "%s: is broken: its checksum is not that of its bytes",
                       path);
    kept->number[0] = ff_load_u64(head + 8);
    kept->number[1] = ff_load_u64(head + 16);
    FF_TRY(ff_buffer_add(&kept->text, bytes + HEAD_BYTES, text, error));
    return ff_buffer_add(&kept->note, bytes + HEAD_BYTES + text, note, error);
}

ff_status ff_kept_read(ff_kept *kept, const char *path, ff_error *error) {
    ff_buffer all = {0};
    *kept = (ff_kept){0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return ff_fail_errno(error, "%s: cannot open", path);
    ff_status status = read_file(&all, file, path, error);
    if (status == FF_OK) status = decode(kept, &all, path, error);
    close(file);
    ff_buffer_free(&all);
    return status;
}
