#include "format/writer/pending.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/disk/checksum.h"
#include "format/disk/generation.h"
#include "format/disk/kept.h"
#include "format/disk/part.h"
#include "format/disk/shard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void ff_pending_free(ff_pending *pending) {
    free(pending->path);
    ff_buffer_free(&pending->text);
    ff_buffer_free(&pending->note);
    *pending = (ff_pending){0};
}

static void pending_name(char name[64], uint32_t number) {
    char shard[32];
    ff_shard_name(shard, number);
    snprintf(name, 64, "%s" FF_PENDING_SUFFIX, shard);
}

bool ff_pending_name_parse(const char *name, uint32_t *number) {
    char shard[32];
    return ff_path_stem(shard, sizeof shard, name, FF_PENDING_SUFFIX) &&
           ff_shard_name_parse(shard, number);
}

/* The footer, then the note. */
ff_status ff_pending_write(const ff_pending *pending, const char *directory, uint32_t number,
                           ff_error *error) {
    char name[64];
    ff_kept kept = {.number = {pending->file_bytes, pending->footer_offset}, .text = pending->text};
    pending_name(name, number);
    ff_status status;
    FF_TRY_DONE(ff_buffer_add(&kept.note, pending->footer, sizeof pending->footer, error));
    FF_TRY_DONE(ff_buffer_add(&kept.note, pending->note.bytes, pending->note.length, error));
    FF_TRY_DONE(ff_kept_write(&kept, directory, name, error));
done:
    ff_buffer_free(&kept.note);
    return status;
}

/* After a crash the earlier of two renames may be lost: a .pending file without its shard means
 * nothing. */
bool ff_pending_is(const char *directory, uint32_t number) {
    char name[32];
    ff_shard_name(name, number);
    return ff_path_exists("%s/%s" FF_PENDING_SUFFIX, directory, name) &&
           (ff_path_exists("%s/%s" FF_TMP_SUFFIX, directory, name) ||
            ff_path_exists("%s/%s", directory, name));
}

static bool is_left_over(const char *directory, const char *name) {
    char stem[64];
    uint32_t number;
    if (ff_pending_name_parse(name, &number)) return !ff_pending_is(directory, number);
    if (!ff_path_stem(stem, sizeof stem, name, FF_TMP_SUFFIX)) return false;
    if (ff_shard_name_parse(stem, &number)) return !ff_pending_is(directory, number);
    return ff_pending_name_parse(stem, &number) || !strcmp(stem, FF_INDEX_NAME) ||
           !strcmp(stem, FF_PART_NAME) || !strcmp(stem, FF_SUMS_NAME);
}

ff_status ff_pending_tidy(const char *directory, ff_error *error) {
    DIR *folder = opendir(directory);
    if (!folder) return ff_fail_errno(error, "%s: cannot open the folder", directory);
    ff_status status = FF_OK;
    for (struct dirent *item; status == FF_OK && (item = readdir(folder));)
        if (is_left_over(directory, item->d_name) && unlinkat(dirfd(folder), item->d_name, 0))
            status = ff_fail_errno(error, "%s/%s: cannot remove", directory, item->d_name);
    closedir(folder);
    return status;
}

static ff_status take_kept(ff_pending *pending, const ff_kept *kept, ff_error *error) {
    if (kept->note.length < FF_FOOTER_BYTES)
        return ff_fail(error, FF_BAD_DATA, "%s: has no footer", pending->path);
    pending->file_bytes = kept->number[0];
    pending->footer_offset = kept->number[1];
    memcpy(pending->footer, kept->note.bytes, FF_FOOTER_BYTES);
    FF_TRY(ff_buffer_add(&pending->text, kept->text.bytes, kept->text.length, error));
    return ff_buffer_add(&pending->note, kept->note.bytes + FF_FOOTER_BYTES,
                         kept->note.length - FF_FOOTER_BYTES, error);
}

/* Checks the size of the shard under its .tmp name. */
static ff_status check_shard(const ff_pending *pending, const char *directory, uint32_t number,
                             ff_error *error) {
    char name[32], *path;
    struct stat info;
    ff_shard_name(name, number);
    FF_TRY(ff_format(&path, error, "%s/%s" FF_TMP_SUFFIX, directory, name));
    ff_status status = FF_OK;
    if (stat(path, &info))
        status = ff_fail_errno(error, "%s: cannot stat", path);
    else if ((uint64_t)info.st_size != pending->file_bytes)
        status = ff_fail(error, FF_BAD_DATA, "%s: %lld bytes long, wanted %" PRIu64, path,
                         (long long)info.st_size, pending->file_bytes);
    free(path);
    return status;
}

ff_status ff_pending_read(ff_pending *pending, const char *directory, uint32_t number,
                          ff_error *error) {
    char name[64];
    ff_kept kept = {0};
    *pending = (ff_pending){0};
    pending_name(name, number);
    FF_TRY(ff_format(&pending->path, error, "%s/%s", directory, name));
    ff_status status;
    FF_TRY_DONE(ff_kept_read(&kept, pending->path, error));
    FF_TRY_DONE(take_kept(pending, &kept, error));
    FF_TRY_DONE(check_shard(pending, directory, number, error));
done:
    ff_kept_free(&kept);
    return status;
}

/* ---- completing ----------------------------------------------------------------------------- */

typedef struct completion {
    const char *directory;
    const ff_buffer *stand_in;
    const ff_metadata *metadata;
    ff_buffer text; /* the metadata's */
    uint8_t id[16];
    bool renamed; /* the shard `last` is renamed, and its .pending file still exists */
    uint32_t last;
} completion;

/* Writes header, text and footer with the real metadata into the file under its .tmp name. */
static ff_status rewrite(const completion *job, const ff_pending *pending, uint32_t number,
                         const char *path, ff_error *error) {
    uint8_t header[FF_HEADER_BYTES], bytes[FF_FOOTER_BYTES];
    ff_shard_footer footer;
    FF_TRY(ff_shard_footer_decode(&footer, pending->footer, pending->footer_offset, path, error));
    ff_shard_header_make(job->metadata, job->id, number, header);
    footer.header_checksum = ff_load_u64(header + FF_HEADER_BYTES - 8);
    ff_section *section = &footer.section[FF_SHARD_METADATA];
    if (section->bytes != job->text.length)
        return ff_fail(error, FF_FAILED, "%s: has room for %" PRIu64 " bytes of metadata, not %zu",
                       path, section->bytes, job->text.length);
    section->checksum = ff_checksum(job->text.bytes, job->text.length);
    ff_shard_footer_encode(&footer, bytes);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return ff_fail_errno(error, "%s: cannot open", path);
    ff_status status;
    FF_TRY_DONE(ff_write_at(file, path, header, sizeof header, 0, error));
    FF_TRY_DONE(ff_write_at(file, path, job->text.bytes, job->text.length, section->offset, error));
    FF_TRY_DONE(ff_write_at(file, path, bytes, sizeof bytes, pending->footer_offset, error));
    if (fsync(file)) status = ff_fail_errno(error, "%s: cannot sync", path);
done:
    close(file);
    return status;
}

/* Removes DIRECTORY/NAME; a missing file is not a failure. */
static ff_status remove_file(const char *directory, const char *name, ff_error *error) {
    char *path;
    FF_TRY(ff_format(&path, error, "%s/%s", directory, name));
    ff_status status = FF_OK;
    if (unlink(path) && errno != ENOENT) status = ff_fail_errno(error, "%s: cannot remove", path);
    free(path);
    return status;
}

static ff_status remove_pending(const char *directory, uint32_t number, ff_error *error) {
    char name[64];
    pending_name(name, number);
    return remove_file(directory, name, error);
}

/* Each rename is durable before the next shard is renamed. So after a crash at any time, the lowest
 * shard holds the metadata that completes the others. */
static ff_status settle(completion *job, ff_error *error) {
    if (!job->renamed) return FF_OK;
    job->renamed = false;
    FF_TRY(ff_sync_directory(job->directory, error));
    return remove_pending(job->directory, job->last, error);
}

static ff_status complete_one(completion *job, uint32_t number, ff_error *error) {
    char name[32], *path = NULL, *temporary = NULL;
    ff_pending pending = {0};
    ff_shard_name(name, number);
    ff_status status;
    FF_TRY_DONE(ff_format(&path, error, "%s/%s", job->directory, name));
    FF_TRY_DONE(ff_format(&temporary, error, "%s" FF_TMP_SUFFIX, path));
    /* Otherwise the shard was renamed before a kill, and only the .pending file is left. */
    const bool rewrites = access(path, F_OK) != 0;
    if (rewrites) {
        FF_TRY_DONE(ff_pending_read(&pending, job->directory, number, error));
        FF_TRY_DONE(ff_metadata_compare(pending.path, &pending.text, job->stand_in, error));
        FF_TRY_DONE(rewrite(job, &pending, number, temporary, error));
    }
    FF_TRY_DONE(settle(job, error));
    if (rewrites && rename(temporary, path))
        status = ff_fail_errno(error, "%s: cannot rename to %s", temporary, path);
done:
    job->renamed = status == FF_OK;
    job->last = number;
    ff_pending_free(&pending);
    free(path);
    free(temporary);
    return status;
}

ff_status ff_pending_complete(const char *directory, const ff_buffer *stand_in,
                              const ff_metadata *metadata, bool sync, ff_error *error) {
    completion job = {.directory = directory, .stand_in = stand_in, .metadata = metadata};
    ff_status status = ff_metadata_write(metadata, &job.text, error);
    if (status == FF_OK) ff_id_of(job.id, job.text.bytes, job.text.length);
    for (uint32_t i = 0; status == FF_OK && i < ff_metadata_shard_count(metadata); i++)
        if (ff_pending_is(directory, i)) status = complete_one(&job, i, error);
    if (status == FF_OK && sync) status = settle(&job, error);
    if (status == FF_OK && job.renamed) status = remove_pending(directory, job.last, error);
    ff_buffer_free(&job.text);
    return status;
}

/* From the highest down, so that after a kill the run can still be continued. */
ff_status ff_pending_remove(const char *directory, ff_error *error) {
    char name[32 + sizeof FF_TMP_SUFFIX];
    uint32_t count = 0;
    while (ff_pending_is(directory, count)) count++;
    while (count-- > 0) {
        FF_TRY(remove_pending(directory, count, error));
        ff_shard_name(name, count);
        strcat(name, FF_TMP_SUFFIX);
        FF_TRY(remove_file(directory, name, error));
    }
    return FF_OK;
}
