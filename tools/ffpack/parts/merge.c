#include "tools/ffpack/parts/merge.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/cli/interrupt.h"
#include "format/disk/checksum.h"
#include "format/disk/shard.h"
#include "format/writer/index.h"
#include "format/writer/output.h"
#include "tools/ffpack/parts/part_counts.h"
#include "tools/ffpack/parts/part_skips.h"
#include "tools/ffpack/source/source.h"
#include "tools/ffpack/split/skipped.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct merge {
    const ff_merge_options *options;
    ff_merge_report *report;
    ff_merge_parts parts;
    ff_output *output;
    ff_skipped *skipped;
    bool told_copying;
} merge;

/* ---- linking -------------------------------------------------------------------------------- */

/* Checks whether a file left by an interrupted merge is the same shard. */
static ff_status is_same(const char *folder, const char *other, uint32_t number, ff_error *error) {
    ff_shard a = {0}, b = {0};
    ff_status status;
    FF_TRY_DONE(ff_shard_open(&a, folder, number, error));
    FF_TRY_DONE(ff_shard_open(&b, other, number, error));
done:
    if (status == FF_OK && (a.bytes != b.bytes || a.footer.checksum != b.footer.checksum))
        status =
            ff_fail(error, FF_USAGE, "%s: left by another run; remove it to start over", b.path);
    ff_shard_close(&a);
    ff_shard_close(&b);
    return status;
}

static ff_status copy_shard(merge *job, const ff_piece *own, int from, const char *path,
                            const char *directory, const char *name, ff_error *error) {
    ff_file *file;
    struct stat info;
    if (!job->told_copying)
        ff_notice(&job->options->notices, "%s: cannot be linked to %s (%s), so shards are copied",
                  own->folder, directory, strerror(errno));
    job->told_copying = true;
    if (fstat(from, &info)) return ff_fail_errno(error, "%s: cannot stat", path);
    FF_TRY(ff_file_create(&file, directory, name, error));
    ff_status status;
    FF_TRY_DONE(ff_file_copy(file, from, path, (uint64_t)info.st_size, error));
    FF_TRY_DONE(ff_file_commit(&file, error));
done:
    ff_file_discard(&file);
    job->report->copied++;
    return status;
}

/* The part's file may have been copied just now: sync it before it gets its name. */
static ff_status take_shard(merge *job, const ff_piece *own, uint32_t number, const char *directory,
                            ff_error *error) {
    char name[32], *from = NULL, *to = NULL;
    int file = -1;
    ff_status status;
    ff_shard_name(name, number);
    FF_TRY_DONE(ff_path_join(&from, own->folder, name, error));
    FF_TRY_DONE(ff_path_join(&to, directory, name, error));
    file = open(from, O_RDONLY | O_CLOEXEC);
    if (file < 0) FF_TRY_DONE(ff_fail_errno(error, "%s: cannot open", from));
    if (fsync(file)) FF_TRY_DONE(ff_fail_errno(error, "%s: cannot sync", from));
    if (link(from, to) == 0)
        job->report->linked++;
    else if (errno == EEXIST)
        status = is_same(own->folder, directory, number, error);
    else if (errno == EXDEV || errno == EPERM || errno == EMLINK || errno == EOPNOTSUPP ||
             errno == ENOSYS)
        status = copy_shard(job, own, file, from, directory, name, error);
    else
        status = ff_fail_errno(error, "%s: cannot link to %s", from, to);
done:
    if (file >= 0) close(file);
    free(from);
    free(to);
    return status;
}

static ff_status take_list(merge *job, const ff_piece *own, ff_error *error) {
    char *path;
    uint64_t lines;
    FF_TRY(ff_skipped_name(&path, own->root, error));
    ff_status status = ff_skipped_take(job->skipped, path, own->split, &lines, error);
    if (status == FF_OK && lines < own->left_out)
        ff_notice(&job->options->notices,
                  "%s: names %" PRIu64 " of the %" PRIu64 " items left out of %s", path, lines,
                  own->left_out, own->folder);
    free(path);
    return status;
}

/* Files already in the folder must be of this set. */
static ff_status check_leftovers(const merge *job, const char *directory, uint32_t shards,
                                 bool nested, ff_error *error) {
    ff_names names;
    FF_TRY(ff_names_read(&names, directory, NULL, error));
    ff_status status = FF_OK;
    for (size_t i = 0; i < names.count && status == FF_OK; i++) {
        const char *name = ff_names_at(&names, i);
        uint32_t number;
        bool ours = ff_shard_name_parse(name, &number)
                        ? number < shards
                        : !strcmp(name, FF_HISTORY_NAME) || !strncmp(name, FF_INDEX_NAME, 9);
        for (size_t k = 0; nested && k < job->parts.count; k++)
            ours |= *name && !strcmp(name, job->parts.piece[k].split);
        size_t length = strlen(name);
        ours |= length > 4 && !strcmp(name + length - 4, FF_TMP_SUFFIX);
        if (!ours)
            status = ff_fail(error, FF_USAGE, "%s/%s: left by another run; remove %s to start over",
                             directory, name, directory);
    }
    ff_names_free(&names);
    return status;
}

/* The histories of the parts, in the order of their shards, then the merge. */
static ff_status take_histories(const merge *job, size_t begin, size_t end, const char *directory,
                                ff_error *error) {
    const char **folder;
    FF_TRY(ff_alloc(&folder, end - begin, sizeof *folder, "parts", error));
    for (size_t i = begin; i < end; i++) folder[i - begin] = job->parts.piece[i].folder;
    const ff_status status =
        ff_history_begin(directory, &job->options->history, NULL, folder, end - begin, error);
    free(folder);
    return status;
}

static ff_status merge_split(merge *job, size_t begin, size_t end, ff_part_skips *skips,
                             ff_error *error) {
    const ff_piece *at = &job->parts.piece[begin];
    const char *directory;
    FF_TRY(ff_output_split(job->output, at->split, &directory, error));
    FF_TRY(check_leftovers(job, directory, job->parts.piece[end - 1].end, !*at->split, error));
    FF_TRY(ff_part_skips_check(skips, at, end - begin, job->options, error));
    for (size_t i = begin; i < end; i++) {
        const ff_piece *own = &job->parts.piece[i];
        for (uint32_t number = own->first; number < own->end; number++) {
            FF_TRY(ff_interrupt_check(error));
            FF_TRY(take_shard(job, own, number, directory, error));
        }
        FF_TRY(take_list(job, own, error));
    }
    ff_merge_split *split = &job->report->split[job->report->split_count++];
    FF_TRY(ff_copy_string(&split->name, at->split, error));
    FF_TRY(ff_index_build(directory, &at->text, &split->result, NULL, error));
    FF_TRY(take_histories(job, begin, end, directory, error));
    return ff_part_skips_check_classes(skips, directory, &job->options->notices, error);
}

static ff_status run(merge *job, const char *const *part, size_t part_count, ff_error *error) {
    const ff_merge_options *options = job->options;
    const char *partial;
    FF_TRY(ff_output_open(&job->output, options->output, FF_OUTPUT_NEW_OR_CONTINUE, options->force,
                          error));
    FF_TRY(ff_merge_parts_take(&job->parts, part, part_count, error));
    FF_TRY(ff_output_split(job->output, "", &partial, error));
    if (*job->parts.piece[0].split) FF_TRY(check_leftovers(job, partial, 0, true, error));
    FF_TRY(ff_skipped_open(&job->skipped, options->output, false, error));
    FF_TRY(ff_alloc(&job->report->split, job->parts.piece[0].part.splits,
                    sizeof *job->report->split, "splits", error));
    for (size_t begin = 0, end; begin < job->parts.count; begin = end) {
        end = ff_merge_parts_split_end(&job->parts, begin);
        ff_part_skips skips = {0};
        const ff_status status = merge_split(job, begin, end, &skips, error);
        ff_part_skips_release(&skips);
        FF_TRY(status);
    }
    FF_TRY(ff_output_commit(job->output, error));
    ff_part_counts_remove(options->output);
    const char *path = ff_skipped_path(job->skipped);
    if (access(path, F_OK)) return FF_OK;
    return ff_copy_string(&job->report->skipped_path, path, error);
}

ff_status ff_merge_run(const ff_merge_options *options, const char *const *part, size_t part_count,
                       ff_merge_report *report, ff_error *error) {
    merge job = {.options = options, .report = report, .parts.options = options};
    ff_status status = run(&job, part, part_count, error);
    ff_skipped_close(&job.skipped);
    ff_output_close(&job.output);
    ff_merge_parts_free(&job.parts);
    return status;
}

void ff_merge_report_free(ff_merge_report *report) {
    for (size_t i = 0; i < report->split_count; i++) free(report->split[i].name);
    free(report->split);
    free(report->skipped_path);
    *report = (ff_merge_report){0};
}
