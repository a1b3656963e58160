#include "tools/ffpack/merge.h"

#include "format/base/file.h"
#include "format/base/interrupt.h"
#include "format/base/path.h"
#include "format/checksum.h"
#include "format/generation.h"
#include "format/index.h"
#include "format/output.h"
#include "format/set.h"
#include "format/shard.h"
#include "tools/ffpack/skipped.h"
#include "tools/ffpack/source/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A split's folder of one PART. */
typedef struct piece {
    ff_part part;
    const char *root; /* the PART */
    char *folder;
    char *split; /* its name */
    ff_buffer text;
    uint32_t first, end; /* its shards */
    uint64_t left_out;   /* items of its shards that were skipped */
} piece;

typedef struct merge {
    const ff_merge_options *options;
    ff_merge_report *report;
    piece *piece; /* of all PARTs; sorted by split, then by first shard */
    size_t piece_count, piece_capacity;
    ff_output *output;
    ff_skipped *skipped;
    bool told_copying;
} merge;

/* ---- finding the parts ---------------------------------------------------------------------- */

static ff_status add_piece(merge *job, const char *root, const ff_split *split, ff_error *error) {
    FF_TRY(ff_reserve(&job->piece, &job->piece_capacity, job->piece_count + 1, sizeof *job->piece,
                      "parts", error));
    piece *at = &job->piece[job->piece_count++];
    at->root = root;
    FF_TRY(ff_copy_string(&at->folder, split->path, error));
    FF_TRY(ff_part_read(&at->part, at->folder, &at->text, error));
    ff_metadata metadata;
    ff_status status = ff_metadata_read(&metadata, at->text.bytes, at->text.length, error);
    if (status == FF_OK) {
        ff_part_range(&at->part, ff_metadata_shard_count(&metadata), &at->first, &at->end);
        if (strcmp(metadata.split, split->name) != 0)
            status = ff_fail(error, FF_USAGE,
                             "%s: is the split %s of a part; wanted the folder that contains it",
                             at->folder, metadata.split);
        else
            status = ff_copy_string(&at->split, metadata.split, error);
        ff_metadata_free(&metadata);
    }
    return status == FF_BAD_DATA ? ff_fail_within(error, status, "%s", at->folder) : status;
}

/* A PART is a split's folder, or the folder of all splits. */
static ff_status add_part(merge *job, const char *root, ff_error *error) {
    ff_set set;
    size_t before = job->piece_count;
    bool whole = false, single = false;
    ff_status status = ff_set_find(&set, root, error);
    for (size_t i = 0; i < set.count && status == FF_OK; i++) {
        whole |= set.split[i].kind == FF_FOLDER_SPLIT;
        single |= !*set.split[i].name;
        if (set.split[i].kind == FF_FOLDER_PART)
            status = add_piece(job, root, &set.split[i], error);
    }
    ff_set_free(&set);
    FF_TRY(status);
    size_t found = job->piece_count - before;
    if (!found)
        return ff_fail(error, FF_USAGE, "%s: is not a part of a set: %s", root,
                       whole ? "it is whole" : "it does not hold " FF_PART_NAME);
    for (size_t i = before; i < job->piece_count && !single; i++)
        if (job->piece[i].part.splits != found)
            return ff_fail(error, FF_BAD_DATA, "%s: holds %zu splits, wanted %u", root, found,
                           job->piece[i].part.splits);
    return FF_OK;
}

/* By split, then by shards; a part without shards comes before the next one. */
static int compare(const void *a, const void *b) {
    const piece *left = a, *right = b;
    if (left->part.split != right->part.split) return left->part.split < right->part.split ? -1 : 1;
    if (left->first != right->first) return left->first < right->first ? -1 : 1;
    return (left->end > right->end) - (left->end < right->end);
}

/* After the last piece of the split whose pieces begin at `begin`. */
static size_t split_end(const merge *job, size_t begin) {
    size_t end = begin;
    while (end < job->piece_count && job->piece[end].part.split == job->piece[begin].part.split)
        end++;
    return end;
}

/* ---- checking them -------------------------------------------------------------------------- */

/* Reports a missing shard, and which part would have it, given this one's number of parts. */
static ff_status missing(const piece *like, uint32_t number, uint32_t shard_count,
                         ff_error *error) {
    ff_part part = like->part;
    uint32_t first, end = 0;
    for (part.number = 0; end <= number;) {
        part.number++;
        ff_part_range(&part, shard_count, &first, &end);
    }
    char name[32];
    ff_shard_name(name, number);
    return ff_fail(error, FF_USAGE, "%s%s%s is in none of the parts: --part %u/%u would have it",
                   like->split, *like->split ? "/" : "", name, part.number, part.count);
}

/* Checks the `count` pieces of one split: the same metadata, every shard exactly once. */
static ff_status check_split(const piece *at, size_t count, ff_error *error) {
    ff_metadata metadata;
    FF_TRY(ff_metadata_read(&metadata, at->text.bytes, at->text.length, error));
    uint32_t shards = ff_metadata_shard_count(&metadata), next = 0;
    ff_metadata_free(&metadata);
    const piece *before = NULL;
    for (size_t i = 0; i < count; i++) {
        const piece *own = &at[i];
        if (strcmp(own->split, at->split) != 0)
            return ff_fail(error, FF_USAGE, "%s: its split %u is %s, but that of %s is %s",
                           own->root, own->part.split, own->split, at->root, at->split);
        ff_status status = ff_metadata_compare(own->folder, &own->text, &at->text, error);
        if (status != FF_OK)
            return ff_fail_within(error, status, "%s and %s are parts of different sets", own->root,
                                  at->root);
        if (own->first == own->end) continue;
        if (own->first < next)
            return ff_fail(error, FF_USAGE, "%s and %s both hold shard %u of %s", before->root,
                           own->root, own->first, *own->split ? own->split : "the set");
        if (own->first > next) return missing(at, next, shards, error);
        next = own->end;
        before = own;
    }
    return next < shards ? missing(at, next, shards, error) : FF_OK;
}

/* Checks that its shards exist and have this metadata. Their content is checked when the index is
 * built. */
static ff_status check_shards(piece *own, ff_error *error) {
    uint8_t id[16];
    ff_id_of(id, own->text.bytes, own->text.length);
    for (uint32_t number = own->first; number < own->end; number++) {
        ff_shard shard;
        char name[32];
        ff_shard_name(name, number);
        if (!ff_path_exists("%s/%s", own->folder, name))
            return ff_fail(error, FF_BAD_DATA, "%s/%s: is missing; pack --part %u/%u again",
                           own->folder, name, own->part.number, own->part.count);
        FF_TRY(ff_shard_open(&shard, own->folder, number, error));
        ff_status status = FF_OK;
        if (memcmp(id, shard.header.metadata_id, 16) != 0)
            status = ff_fail(error, FF_BAD_DATA, "%s: is of another set than %s/" FF_PART_NAME,
                             shard.path, own->folder);
        own->left_out += shard.header.position_count - shard.footer.sample_count;
        ff_shard_close(&shard);
        FF_TRY(status);
    }
    return FF_OK;
}

static ff_status check_parts(merge *job, ff_error *error) {
    qsort(job->piece, job->piece_count, sizeof *job->piece, compare);
    uint32_t splits = job->piece[0].part.splits;
    for (size_t i = 0; i < job->piece_count; i++)
        if (job->piece[i].part.splits != splits)
            return ff_fail(error, FF_USAGE, "%s is of a set of %u splits, but %s of %u",
                           job->piece[0].root, splits, job->piece[i].root,
                           job->piece[i].part.splits);
    for (size_t begin = 0, end; begin < job->piece_count; begin = end) {
        end = split_end(job, begin);
        FF_TRY(check_split(&job->piece[begin], end - begin, error));
    }
    for (size_t i = 0; i < job->piece_count; i++) FF_TRY(check_shards(&job->piece[i], error));
    return FF_OK;
}

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

static ff_status copy_shard(merge *job, const piece *own, int from, const char *path,
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
static ff_status take_shard(merge *job, const piece *own, uint32_t number, const char *directory,
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

static ff_status take_list(merge *job, const piece *own, ff_error *error) {
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
        bool ours =
            ff_shard_name_parse(name, &number) ? number < shards : !strncmp(name, FF_INDEX_NAME, 9);
        for (size_t k = 0; nested && k < job->piece_count; k++)
            ours |= *name && !strcmp(name, job->piece[k].split);
        size_t length = strlen(name);
        ours |= length > 4 && !strcmp(name + length - 4, FF_TMP_SUFFIX);
        if (!ours)
            status = ff_fail(error, FF_USAGE, "%s/%s: left by another run; remove %s to start over",
                             directory, name, directory);
    }
    ff_names_free(&names);
    return status;
}

static ff_status merge_split(merge *job, size_t begin, size_t end, ff_error *error) {
    const piece *at = &job->piece[begin];
    const char *directory;
    FF_TRY(ff_output_split(job->output, at->split, &directory, error));
    FF_TRY(check_leftovers(job, directory, job->piece[end - 1].end, !*at->split, error));
    for (size_t i = begin; i < end; i++) {
        const piece *own = &job->piece[i];
        for (uint32_t number = own->first; number < own->end; number++) {
            FF_TRY(ff_interrupt_check(error));
            FF_TRY(take_shard(job, own, number, directory, error));
        }
        FF_TRY(take_list(job, own, error));
    }
    ff_merge_split *split = &job->report->split[job->report->split_count++];
    FF_TRY(ff_copy_string(&split->name, at->split, error));
    return ff_index_build(directory, &at->text, &split->result, NULL, error);
}

static ff_status run(merge *job, ff_error *error) {
    const ff_merge_options *options = job->options;
    const char *partial;
    FF_TRY(check_parts(job, error));
    FF_TRY(ff_output_open(&job->output, options->output, FF_OUTPUT_NEW_OR_CONTINUE, options->force,
                          error));
    FF_TRY(ff_output_split(job->output, "", &partial, error));
    if (*job->piece[0].split) FF_TRY(check_leftovers(job, partial, 0, true, error));
    FF_TRY(ff_skipped_open(&job->skipped, options->output, false, error));
    FF_TRY(ff_alloc(&job->report->split, job->piece[0].part.splits, sizeof *job->report->split,
                    "splits", error));
    for (size_t begin = 0, end; begin < job->piece_count; begin = end) {
        end = split_end(job, begin);
        FF_TRY(merge_split(job, begin, end, error));
    }
    FF_TRY(ff_output_commit(job->output, error));
    const char *path = ff_skipped_path(job->skipped);
    if (access(path, F_OK)) return FF_OK;
    return ff_copy_string(&job->report->skipped_path, path, error);
}

ff_status ff_merge_run(const ff_merge_options *options, const char *const *part, size_t part_count,
                       ff_merge_report *report, ff_error *error) {
    merge job = {.options = options, .report = report};
    ff_status status = FF_OK;
    for (size_t i = 0; i < part_count && status == FF_OK; i++)
        status = add_part(&job, part[i], error);
    if (status == FF_OK) status = run(&job, error);
    ff_skipped_close(&job.skipped);
    ff_output_close(&job.output);
    for (size_t i = 0; i < job.piece_count; i++) {
        free(job.piece[i].folder);
        free(job.piece[i].split);
        ff_buffer_free(&job.piece[i].text);
    }
    free(job.piece);
    return status;
}

void ff_merge_report_free(ff_merge_report *report) {
    for (size_t i = 0; i < report->split_count; i++) free(report->split[i].name);
    free(report->split);
    free(report->skipped_path);
    *report = (ff_merge_report){0};
}
