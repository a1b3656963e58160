#include "format/disk/part.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "format/disk/checksum.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAD_LIMIT = 128, CHECKSUM_LINE = 9 + 16 + 1, FAILURE_LIMIT = 4096 };

ff_status ff_part_parse(ff_part *part, const char *text, ff_error *error) {
    unsigned long long number = 0, count = 0;
    char *end = NULL;
    bool digits = *text >= '0' && *text <= '9';
    if (digits) number = strtoull(text, &end, 10);
    digits = digits && *end == '/' && end[1] >= '0' && end[1] <= '9';
    if (digits) count = strtoull(end + 1, &end, 10);
    if (!digits || *end || !number || number > count || count > FF_PARTS_LIMIT)
        return ff_fail(error, FF_USAGE,
                       "--part: '%s' is unknown, wanted I/N with 1 <= I <= N <= %u, or auto", text,
                       FF_PARTS_LIMIT);
    *part = (ff_part){.number = (uint32_t)number, .count = (uint32_t)count};
    return FF_OK;
}

void ff_part_range(const ff_part *part, uint32_t shard_count, uint32_t *first, uint32_t *end) {
    *first = (uint32_t)((uint64_t)shard_count * (part->number - 1) / part->count);
    *end = (uint32_t)((uint64_t)shard_count * part->number / part->count);
}

ff_status ff_part_path(char **path, const char *output, const ff_part *part, ff_error *error) {
    return ff_format(path, error, "%.*s.part-%u-of-%u", (int)ff_path_length(output), output,
                     part->number, part->count);
}

size_t ff_part_base_length(const char *path, const ff_part *part) {
    char suffix[48];
    const size_t length = ff_path_length(path);
    const size_t own =
        (size_t)snprintf(suffix, sizeof suffix, ".part-%u-of-%u", part->number, part->count);
    const bool named =
        length > own && path[length - own - 1] != '/' && !memcmp(path + length - own, suffix, own);
    return named ? length - own : 0;
}

bool ff_part_path_parse(ff_part *part, const char *name, const char *output) {
    const char *base = ff_path_base(output);
    const size_t length = ff_path_length(base);
    char again[48];
    *part = (ff_part){0};
    if (strncmp(name, base, length) != 0 ||
        sscanf(name + length, ".part-%9" SCNu32 "-of-%9" SCNu32, &part->number, &part->count) != 2)
        return false;
    snprintf(again, sizeof again, ".part-%u-of-%u", part->number, part->count);
    return !strcmp(name + length, again) && part->number >= 1 && part->number <= part->count &&
           part->count <= FF_PARTS_LIMIT;
}

/* ---- failures ------------------------------------------------------------------------------- */

/* PART`suffix`, allocated; NULL if out of memory. */
static char *beside(const char *path, const char *suffix) {
    char *name;
    return ff_format(&name, NULL, "%.*s%s", (int)ff_path_length(path), path, suffix) == FF_OK
               ? name
               : NULL;
}

void ff_part_note_failure(const char *path, const char *why) {
    char *name = beside(path, ".failed"), *partial = beside(path, ".partial");
    int folder = partial ? open(partial, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    bool unlocked;
    const bool others = folder >= 0 && ff_lock_folder(folder, path, &unlocked, NULL) != FF_OK;
    ff_file *file;
    if (name && !others && !ff_path_exists("%s", path) &&
        ff_file_replace(&file, name, NULL) == FF_OK) {
        if (ff_file_write(file, why, strlen(why), NULL) == FF_OK)
            (void)!ff_file_commit(&file, NULL);
        ff_file_discard(&file);
    }
    if (folder >= 0) close(folder);
    free(name);
    free(partial);
}

void ff_part_forget_failure(const char *path) {
    char *name = beside(path, ".failed");
    if (name) unlink(name);
    free(name);
}

ff_status ff_part_check_failure(const char *path, ff_error *error) {
    char *name;
    ff_buffer why = {0};
    FF_TRY(ff_format(&name, error, "%.*s.failed", (int)ff_path_length(path), path));
    ff_status status = FF_OK;
    if (ff_path_exists("%s", name)) status = ff_read_whole(&why, name, FAILURE_LIMIT, error);
    if (status == FF_OK && why.bytes)
        status = ff_fail(error, FF_FAILED, "%s: packing it failed: %s", path, why.bytes);
    ff_buffer_free(&why);
    free(name);
    return status;
}

/* ---- part.ffp ------------------------------------------------------------------------------- */

static ff_status write_head(ff_buffer *text, const ff_part *part, ff_error *error) {
    return ff_buffer_printf(text, error, "ffpack-part 1\npart number=%u of=%u split=%u splits=%u\n",
                            part->number, part->count, part->split, part->splits);
}

ff_status ff_part_write(const ff_part *part, const char *directory, const ff_buffer *text,
                        ff_error *error) {
    ff_buffer all = {0};
    ff_status status;
    FF_TRY_DONE(write_head(&all, part, error));
    FF_TRY_DONE(ff_buffer_add(&all, text->bytes, text->length, error));
    FF_TRY_DONE(ff_buffer_printf(&all, error, "checksum %016" PRIx64 "\n",
                                 ff_checksum(all.bytes, all.length)));
    FF_TRY_DONE(ff_file_save(directory, FF_PART_NAME, &all, error));
done:
    ff_buffer_free(&all);
    return status;
}

/* Reads the four numbers of the head. Written again, the head must have the same bytes. */
static ff_status read_head(ff_part *part, const ff_buffer *all, const char *path, ff_buffer *head,
                           ff_error *error) {
    *part = (ff_part){0};
    char first[HEAD_LIMIT + 1] = {0};
    memcpy(first, all->bytes, all->length < HEAD_LIMIT ? all->length : HEAD_LIMIT);
    int found = sscanf(first,
                       "ffpack-part 1\npart number=%" SCNu32 " of=%" SCNu32 " split=%" SCNu32
                       " splits=%" SCNu32 "\n",
                       &part->number, &part->count, &part->split, &part->splits);
    FF_TRY(write_head(head, part, error));
    if (found != 4 || head->length > all->length ||
        memcmp(head->bytes, all->bytes, head->length) != 0 || part->number < 1 ||
        part->number > part->count || part->count > FF_PARTS_LIMIT || part->split >= part->splits)
        return ff_fail(error, FF_BAD_DATA,
                       "%s: is not a part file of a version that this program knows (1)", path);
    return FF_OK;
}

static ff_status check_end(const ff_buffer *all, const char *path, ff_error *error) {
    char wanted[CHECKSUM_LINE + 1];
    if (all->length < CHECKSUM_LINE)
        return ff_fail(error, FF_BAD_DATA, "%s: %zu bytes long; ffpack did not write this", path,
                       all->length);
    size_t body = all->length - CHECKSUM_LINE;
    snprintf(wanted, sizeof wanted, "checksum %016" PRIx64 "\n", ff_checksum(all->bytes, body));
    if (!memcmp(all->bytes + body, wanted, CHECKSUM_LINE)) return FF_OK;
    return ff_fail(error, FF_BAD_DATA, "%s: is broken: its last line is not '%.*s'", path,
                   CHECKSUM_LINE - 1, wanted);
}

ff_status ff_part_read(ff_part *part, const char *directory, ff_buffer *text, ff_error *error) {
    ff_buffer all = {0}, head = {0};
    char *path;
    FF_TRY(ff_format(&path, error, "%s/%s", directory, FF_PART_NAME));
    ff_status status;
    FF_TRY_DONE(
        ff_read_whole(&all, path, FF_METADATA_LIMIT_BYTES + HEAD_LIMIT + CHECKSUM_LINE, error));
    FF_TRY_DONE(check_end(&all, path, error));
    FF_TRY_DONE(read_head(part, &all, path, &head, error));
    if (head.length > all.length - CHECKSUM_LINE)
        FF_TRY_DONE(ff_fail(error, FF_BAD_DATA, "%s: holds no metadata", path));
    FF_TRY_DONE(ff_buffer_add(text, all.bytes + head.length,
                              all.length - CHECKSUM_LINE - head.length, error));
done:
    ff_buffer_free(&head);
    ff_buffer_free(&all);
    free(path);
    return status;
}
