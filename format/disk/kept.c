#include "format/disk/kept.h"

#include "format/base/bytes.h"
#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/disk/checksum.h"
#include "format/disk/metadata.h"

#include <stdlib.h>
#include <string.h>

/* The file: magic, the numbers, the sizes of text and note in bytes (u64 each), text, note, XXH3-64
 * of all bytes before. Little-endian. */
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
    ff_status status;
    FF_TRY_DONE(encode(kept, &all, error));
    FF_TRY_DONE(ff_file_save(directory, name, &all, error));
done:
    ff_buffer_free(&all);
    return status;
}

ff_status ff_kept_replace(const ff_kept *kept, const char *directory, const char *name,
                          ff_error *error) {
    ff_buffer all = {0};
    ff_file *file = NULL;
    char *path = NULL;
    ff_status status;
    FF_TRY_DONE(ff_path_join(&path, directory, name, error));
    FF_TRY_DONE(encode(kept, &all, error));
    FF_TRY_DONE(ff_file_replace(&file, path, error));
    FF_TRY_DONE(ff_file_write(file, all.bytes, all.length, error));
    FF_TRY_DONE(ff_file_commit(&file, error));
done:
    ff_file_discard(&file);
    ff_buffer_free(&all);
    free(path);
    return status;
}

static ff_status decode(ff_kept *kept, const ff_buffer *all, const char *path, ff_error *error) {
    const char *bytes = all->bytes;
    const uint8_t *head = (const uint8_t *)bytes;
    size_t body = all->length - 8;
    uint64_t text = 0, note = 0;
    bool whole = all->length >= FIXED_BYTES && !memcmp(bytes, MAGIC, 8) &&
                 ff_load_u64(head + body) == ff_checksum(bytes, body);
    if (whole) {
        text = ff_load_u64(head + 24);
        note = ff_load_u64(head + 32);
        whole = text <= FF_METADATA_LIMIT_BYTES && note <= NOTE_LIMIT_BYTES &&
                all->length == FIXED_BYTES + text + note;
    }
    if (!whole)
        return ff_fail(error, FF_BAD_DATA, "%s: is broken: its checksum does not fit its bytes",
                       path);
    kept->number[0] = ff_load_u64(head + 8);
    kept->number[1] = ff_load_u64(head + 16);
    FF_TRY(ff_buffer_add(&kept->text, bytes + HEAD_BYTES, text, error));
    return ff_buffer_add(&kept->note, bytes + HEAD_BYTES + text, note, error);
}

ff_status ff_kept_read(ff_kept *kept, const char *path, ff_error *error) {
    ff_buffer all = {0};
    *kept = (ff_kept){0};
    ff_status status =
        ff_read_whole(&all, path, FIXED_BYTES + FF_METADATA_LIMIT_BYTES + NOTE_LIMIT_BYTES, error);
    if (status == FF_OK) status = decode(kept, &all, path, error);
    ff_buffer_free(&all);
    return status;
}
