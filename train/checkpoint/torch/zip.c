#include "train/checkpoint/torch/zip.h"

#include "format/base/bytes.h"
#include "format/base/read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOCAL = 30, /* bytes of the records, without names and extra fields */
    CENTRAL = 46,
    END = 22,
    LOCATOR64 = 20,
    END64 = 56,
    COMMENT = 65535,
    NAME_BYTES = 512
};
#define LOCAL_MAGIC     0x04034b50u
#define CENTRAL_MAGIC   0x02014b50u
#define END_MAGIC       0x06054b50u
#define LOCATOR64_MAGIC 0x07064b50u
#define END64_MAGIC     0x06064b50u
#define DIRECTORY_LIMIT (UINT64_C(256) << 20)

struct ff_zip {
    const char *path;
    int fd;
    uint64_t size;
    char *names;           /* one after another, each with a zero byte */
    ff_zip_member *member; /* [count], by name */
    size_t count;
};

static ff_status wrong(const ff_zip *zip, const char *what, ff_error *error) {
    return ff_fail(error, FF_BAD_DATA, "%s: %s", zip->path, what);
}

/* ---- finding the directory ---- */

typedef struct directory {
    uint64_t offset, bytes, count;
} directory;

/* Finds the record at the end, which a comment of up to 64 KiB may follow; *at = its offset in the
 * file. */
static ff_status find_end(const ff_zip *zip, uint64_t *at, uint8_t end[END], ff_error *error) {
    const uint64_t most = END + COMMENT;
    const size_t bytes = (size_t)(zip->size < most ? zip->size : most);
    uint8_t *tail;
    bool found = false;
    FF_TRY(ff_alloc(&tail, bytes, 1, "a zip file's end", error));
    const ff_status status = ff_read_at(zip->fd, zip->path, tail, bytes, zip->size - bytes, error);
    for (size_t i = bytes; status == FF_OK && !found && i >= END; i--) {
        const uint8_t *record = tail + i - END;
        found = ff_load_u32(record) == END_MAGIC && ff_load_u16(record + 20) == bytes - i;
        if (!found) continue;
        memcpy(end, record, END);
        *at = zip->size - bytes + (i - END);
    }
    free(tail);
    if (status != FF_OK || found) return status;
    return wrong(zip, "is cut off: the directory at the end of the zip file is not there", error);
}

static ff_status find_directory(const ff_zip *zip, directory *out, ff_error *error) {
    uint8_t end[END] = {0}, locator[LOCATOR64], end64[END64];
    uint64_t at = 0, at64;
    FF_TRY(find_end(zip, &at, end, error));
    *out = (directory){ff_load_u32(end + 16), ff_load_u32(end + 12), ff_load_u16(end + 10)};
    bool wide = false;
    if (at >= LOCATOR64) {
        FF_TRY(ff_read_at(zip->fd, zip->path, locator, LOCATOR64, at - LOCATOR64, error));
        wide = ff_load_u32(locator) == LOCATOR64_MAGIC;
    }
    if (wide) {
        at64 = ff_load_u64(locator + 8);
        if (zip->size < END64 || at64 > zip->size - END64)
            return wrong(zip, "its zip64 directory would lie beyond its end", error);
        FF_TRY(ff_read_at(zip->fd, zip->path, end64, END64, at64, error));
        if (ff_load_u32(end64) != END64_MAGIC)
            return wrong(zip, "its zip64 directory is not where the file's end says", error);
        *out =
            (directory){ff_load_u64(end64 + 48), ff_load_u64(end64 + 40), ff_load_u64(end64 + 32)};
    }
    if (out->bytes > DIRECTORY_LIMIT || out->offset > zip->size ||
        out->bytes > zip->size - out->offset)
        return wrong(zip, "its zip directory would lie beyond its end", error);
    if (out->count > FF_ZIP_MEMBERS_LIMIT || out->count > out->bytes / CENTRAL)
        return wrong(zip, "its zip directory has fewer bytes than its members need", error);
    return FF_OK;
}

/* ---- members ---- */

/* Replaces a 32-bit field whose bits are all ones by its number in the zip64 extra field, which has
 * these numbers in this order. */
static bool widen(const uint8_t *extra, size_t bytes, uint64_t *numbers[], int count) {
    const uint8_t *from = NULL;
    size_t left = 0;
    for (size_t at = 0; bytes - at >= 4; at += 4 + ff_load_u16(extra + at + 2)) {
        const size_t length = ff_load_u16(extra + at + 2);
        if (length > bytes - at - 4) return false;
        if (ff_load_u16(extra + at) != 1) continue;
        from = extra + at + 4;
        left = length;
        break;
    }
    for (int i = 0; i < count; i++) {
        if (*numbers[i] != UINT32_MAX) continue;
        if (left < 8) return false;
        *numbers[i] = ff_load_u64(from);
        from += 8;
        left -= 8;
    }
    return true;
}

/* Reads the member of the entry at `record`, of which `bytes` are left; *used = the bytes of the
 * entry. */
static ff_status read_member(ff_zip *zip, const uint8_t *record, size_t bytes, char *name,
                             size_t *used, ff_error *error) {
    ff_zip_member *member = &zip->member[zip->count];
    if (bytes < CENTRAL || ff_load_u32(record) != CENTRAL_MAGIC)
        return wrong(zip, "its zip directory is broken", error);
    const unsigned flags = ff_load_u16(record + 8), method = ff_load_u16(record + 10);
    const size_t name_bytes = ff_load_u16(record + 28), extra = ff_load_u16(record + 30);
    uint64_t packed = ff_load_u32(record + 20), header = ff_load_u32(record + 42);
    uint64_t *numbers[] = {&member->bytes, &packed, &header};
    *used = CENTRAL + name_bytes + extra + ff_load_u16(record + 32);
    if (*used > bytes) return wrong(zip, "its zip directory is broken", error);
    member->crc = ff_load_u32(record + 16);
    member->bytes = ff_load_u32(record + 24);
    if (!widen(record + CENTRAL + name_bytes, extra, numbers, 3))
        return wrong(zip, "its zip directory is broken: a zip64 number is missing", error);
    memcpy(name, record + CENTRAL, name_bytes);
    name[name_bytes] = 0;
    member->name = name;
    if (name_bytes >= NAME_BYTES || strlen(name) != name_bytes)
        return wrong(zip, "a name in its zip directory is not as torch.save writes it", error);
    for (char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?'; /* for messages */
    if (flags & 1)
        return ff_fail(error, FF_BAD_DATA, "%s: '%s' in it is encrypted", zip->path, name);
    if (method || packed != member->bytes)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: '%s' in it is compressed; torch.save stores what it writes as it is",
                       zip->path, name);
    /* The header in front of the member's bytes determines where they begin. */
    uint8_t local[LOCAL];
    if (zip->size < LOCAL || header > zip->size - LOCAL)
        return ff_fail(error, FF_BAD_DATA, "%s: '%s' begins beyond the end of the file", zip->path,
                       name);
    FF_TRY(ff_read_at(zip->fd, zip->path, local, LOCAL, header, error));
    if (ff_load_u32(local) != LOCAL_MAGIC)
        return ff_fail(error, FF_BAD_DATA, "%s: '%s' is not where the zip directory says",
                       zip->path, name);
    member->offset = header + LOCAL + ff_load_u16(local + 26) + ff_load_u16(local + 28);
    if (member->offset > zip->size || member->bytes > zip->size - member->offset)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: '%s' ends after the file's %" PRIu64 " bytes; is it cut off?",
                       zip->path, name, zip->size);
    zip->count++;
    return FF_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const ff_zip_member *)a)->name, ((const ff_zip_member *)b)->name);
}

static ff_status read_members(ff_zip *zip, const directory *where, ff_error *error) {
    uint8_t *records;
    ff_status status;
    FF_TRY(ff_alloc(&records, where->bytes, 1, "a zip directory", error));
    FF_TRY_DONE(ff_read_at(zip->fd, zip->path, records, where->bytes, where->offset, error));
    /* Each record is longer than its name with a zero byte. */
    FF_TRY_DONE(ff_alloc(&zip->names, where->bytes + 1, 1, "a zip directory", error));
    FF_TRY_DONE(
        ff_alloc(&zip->member, where->count, sizeof *zip->member, "a zip directory", error));
    char *name = zip->names;
    for (size_t at = 0, used = 0; zip->count < where->count; at += used) {
        FF_TRY_DONE(read_member(zip, records + at, where->bytes - at, name, &used, error));
        name += strlen(name) + 1;
    }
    if (zip->count) qsort(zip->member, zip->count, sizeof *zip->member, by_name);
    for (size_t i = 1; i < zip->count; i++)
        if (!strcmp(zip->member[i - 1].name, zip->member[i].name))
            FF_TRY_DONE(ff_fail(error, FF_BAD_DATA, "%s: has two members '%s'", zip->path,
                                zip->member[i].name));
done:
    free(records);
    return status;
}

ff_status ff_zip_open(ff_zip **out, int fd, const char *path, uint64_t size, ff_error *error) {
    ff_zip *zip;
    directory where;
    ff_status status;
    *out = NULL;
    FF_TRY(ff_alloc(&zip, 1, sizeof *zip, "a zip file", error));
    *zip = (ff_zip){.path = path, .fd = fd, .size = size};
    FF_TRY_DONE(find_directory(zip, &where, error));
    FF_TRY_DONE(read_members(zip, &where, error));
    *out = zip;
    return FF_OK;
done:
    ff_zip_close(&zip);
    return status;
}

void ff_zip_close(ff_zip **pointer) {
    ff_zip *zip = *pointer;
    if (!zip) return;
    free(zip->names);
    free(zip->member);
    free(zip);
    *pointer = NULL;
}

const ff_zip_member *ff_zip_at(const ff_zip *zip, size_t index) {
    return index < zip->count ? &zip->member[index] : NULL;
}

const ff_zip_member *ff_zip_find(const ff_zip *zip, const char *name) {
    const ff_zip_member wanted = {.name = name};
    return zip->count ? bsearch(&wanted, zip->member, zip->count, sizeof wanted, by_name) : NULL;
}
