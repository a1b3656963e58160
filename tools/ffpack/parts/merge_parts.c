#include "tools/ffpack/parts/merge_parts.h"

#include "format/base/path.h"
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/cli/progress.h"
#include "format/disk/checksum.h"
#include "format/disk/generation.h"
#include "format/disk/set.h"
#include "format/disk/shard.h"
#include "format/writer/pending.h"
#include "tools/ffpack/parts/merge_sums.h"
#include "tools/ffpack/source/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LISTED = 16, LONGEST_PAUSE_MS = 1000, SHORTEST_PAUSE_MS = 50 };

/* ---- reading a part ------------------------------------------------------------------------- */

/* Two pieces must be of one set. */
static ff_status check_alike(const ff_piece *own, const ff_piece *first, ff_error *error) {
    if (own->part.splits != first->part.splits)
        return ff_fail(error, FF_USAGE, "%s is of a set of %u splits, but %s of %u", first->root,
                       first->part.splits, own->root, own->part.splits);
    if (own->part.split != first->part.split) return FF_OK;
    if (strcmp(own->split, first->split) != 0)
        return ff_fail(error, FF_USAGE, "%s: its split %u is %s, but in %s it is %s", own->root,
                       own->part.split, own->split, first->root, first->split);
    ff_status status = ff_metadata_compare(own->folder, &own->text, &first->text, error);
    if (status == FF_OK) return FF_OK;
    return ff_fail_within(error, status, "%s and %s are parts of different sets", own->root,
                          first->root);
}

/* *incomplete: a shard is missing. */
static ff_status check_present(const ff_piece *own, bool *incomplete, ff_error *error) {
    for (uint32_t number = own->first; number < own->end; number++) {
        char name[32];
        ff_shard_name(name, number);
        *incomplete =
            !ff_path_exists("%s/%s", own->folder, name) && !ff_pending_is(own->folder, number);
        if (*incomplete)
            return ff_fail(error, FF_BAD_DATA, "%s/%s: is missing; pack --part %u/%u again",
                           own->folder, name, own->part.number, own->part.count);
    }
    *incomplete = own->first < own->end && ff_pending_is(own->folder, own->end - 1) &&
                  !ff_path_exists("%s/" FF_SUMS_NAME, own->folder);
    if (*incomplete)
        return ff_fail(error, FF_BAD_DATA,
                       "%s/" FF_SUMS_NAME ": is missing; pack --part %u/%u again", own->folder,
                       own->part.number, own->part.count);
    return FF_OK;
}

static ff_status add_piece(ff_merge_parts *parts, const char *root, const ff_split *split,
                           bool *incomplete, ff_error *error) {
    FF_TRY(ff_reserve(&parts->piece, &parts->capacity, parts->count + 1, sizeof *parts->piece,
                      "parts", error));
    ff_piece *at = &parts->piece[parts->count++];
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
    if (status == FF_BAD_DATA) return ff_fail_within(error, status, "%s", at->folder);
    for (const ff_piece *first = parts->piece; first < at && status == FF_OK; first++)
        if (first == parts->piece || first->part.split == at->part.split)
            status = check_alike(at, first, error);
    return status == FF_OK ? check_present(at, incomplete, error) : status;
}

static void free_pieces(ff_merge_parts *parts, size_t from) {
    while (parts->count > from) {
        ff_piece *last = &parts->piece[--parts->count];
        free(last->folder);
        free(last->split);
        ff_buffer_free(&last->text);
        *last = (ff_piece){0};
    }
}

/* A PART is a split's folder, or the folder of all splits. *incomplete: some of its files are
 * missing, as while it is copied here. */
static ff_status add_part(ff_merge_parts *parts, const char *root, bool *incomplete,
                          ff_error *error) {
    ff_set set;
    size_t before = parts->count;
    bool whole = false, single = false;
    ff_status status = ff_set_find(&set, root, error);
    for (size_t i = 0; i < set.count && status == FF_OK; i++) {
        whole |= set.split[i].kind == FF_FOLDER_SPLIT;
        single |= !*set.split[i].name;
        if (set.split[i].kind == FF_FOLDER_PART)
            status = add_piece(parts, root, &set.split[i], incomplete, error);
    }
    ff_set_free(&set);
    FF_TRY(status);
    size_t found = parts->count - before;
    *incomplete = !found && !whole;
    if (!found)
        return ff_fail(error, FF_USAGE, "%s: is not a part of a set: %s", root,
                       whole ? "it is whole" : "it does not hold " FF_PART_NAME);
    for (size_t i = before; i < parts->count && !single; i++)
        if (parts->piece[i].part.splits != found) {
            *incomplete = true;
            return ff_fail(error, FF_BAD_DATA, "%s: holds %zu splits, wanted %u", root, found,
                           parts->piece[i].part.splits);
        }
    return FF_OK;
}

/* By split, then by shards; a part without shards comes before the next one. */
static int compare(const void *a, const void *b) {
    const ff_piece *left = a, *right = b;
    if (left->part.split != right->part.split) return left->part.split < right->part.split ? -1 : 1;
    if (left->first != right->first) return left->first < right->first ? -1 : 1;
    return (left->end > right->end) - (left->end < right->end);
}

size_t ff_merge_parts_split_end(const ff_merge_parts *parts, size_t begin) {
    size_t end = begin;
    while (end < parts->count && parts->piece[end].part.split == parts->piece[begin].part.split)
        end++;
    return end;
}

/* ---- checking them -------------------------------------------------------------------------- */

/* Reports a missing shard, and which part would have it, by this part's number of parts. */
static ff_status missing(const ff_piece *like, uint32_t number, uint32_t shard_count,
                         ff_error *error) {
    ff_part part = like->part;
    uint32_t first, end = 0;
    for (part.number = 0; end <= number;) {
        part.number++;
        ff_part_range(&part, shard_count, &first, &end);
    }
    char name[32];
    ff_shard_name(name, number);
    return ff_fail(error, FF_USAGE, "%s%s%s is not in any of the parts: --part %u/%u would have it",
                   like->split, *like->split ? "/" : "", name, part.number, part.count);
}

/* Checks that every shard is in exactly one of the `count` pieces of a split. */
static ff_status check_split(const ff_piece *at, size_t count, ff_error *error) {
    ff_metadata metadata;
    FF_TRY(ff_metadata_read(&metadata, at->text.bytes, at->text.length, error));
    uint32_t shards = ff_metadata_shard_count(&metadata), next = 0;
    ff_metadata_free(&metadata);
    const ff_piece *before = NULL;
    for (size_t i = 0; i < count; i++) {
        const ff_piece *own = &at[i];
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

/* Checks that its shards have this metadata. Their content is checked when the index is
 * built. */
static ff_status check_shards(ff_piece *own, ff_error *error) {
    uint8_t id[16];
    ff_id_of(id, own->text.bytes, own->text.length);
    for (uint32_t number = own->first; number < own->end; number++) {
        ff_shard shard;
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

static ff_status check_parts(ff_merge_parts *parts, ff_error *error) {
    qsort(parts->piece, parts->count, sizeof *parts->piece, compare);
    for (size_t begin = 0, end; begin < parts->count; begin = end) {
        end = ff_merge_parts_split_end(parts, begin);
        FF_TRY(check_split(&parts->piece[begin], end - begin, error));
    }
    FF_TRY(ff_merge_sums(parts, error));
    for (size_t i = 0; i < parts->count; i++) FF_TRY(check_shards(&parts->piece[i], error));
    return FF_OK;
}

/* ---- waiting -------------------------------------------------------------------------------- */

static ff_status want(ff_merge_parts *parts, size_t count, ff_error *error) {
    FF_TRY(ff_alloc(&parts->wanted, count, sizeof *parts->wanted, "the list of parts", error));
    parts->wanted_count = count;
    return FF_OK;
}

/* The first OUT.part-I-of-N next to OUT, whole, being packed or failed, defines N; another N
 * belongs to another run. */
static ff_status find_by_name(ff_merge_parts *parts, const ff_names *names, const char *parent,
                              ff_error *error) {
    const char *output = parts->options->output;
    for (size_t i = 0; i < names->count; i++) {
        const char *name = ff_names_at(names, i);
        char stem[256];
        ff_part part;
        if (ff_path_stem(stem, sizeof stem, name, ".partial") ||
            ff_path_stem(stem, sizeof stem, name, ".failed"))
            name = stem;
        if (!ff_part_path_parse(&part, name, output) || part.count == parts->of) continue;
        if (parts->of)
            return ff_fail(
                error, FF_USAGE,
                "%s/%s: is one of %u parts, but there is also one of %u; remove the parts of the "
                "other run",
                parent, ff_names_at(names, i), part.count, parts->of);
        parts->of = part.count;
        FF_TRY(want(parts, part.count, error));
        for (part.number = 1; part.number <= part.count; part.number++)
            FF_TRY(ff_part_path(&parts->wanted[part.number - 1].path, output, &part, error));
    }
    return FF_OK;
}

static ff_status find_beside(ff_merge_parts *parts, ff_error *error) {
    const char *output = parts->options->output;
    const int length = (int)(ff_path_base(output) - output);
    char *parent;
    ff_names names = {0};
    FF_TRY(ff_format(&parent, error, "%.*s", length ? length : 1, length ? output : "."));
    ff_status status = ff_names_read(&names, parent, NULL, error);
    if (status == FF_OK) status = find_by_name(parts, &names, parent, error);
    ff_names_free(&names);
    free(parent);
    return status;
}

/* Reads a part if it is whole. A part that can still become whole is not a failure, except a named
 * part if the merge does not wait. */
static ff_status look(ff_merge_parts *parts, ff_wanted *wanted, ff_error *error) {
    const bool waits = parts->of || parts->options->wait_seconds != FF_MERGE_NO_WAIT;
    const size_t before = parts->count;
    if (waits && !ff_path_exists("%s", wanted->path)) {
        const int length = (int)ff_path_length(wanted->path);
        wanted->why =
            ff_path_exists("%.*s.partial", length, wanted->path) ? "unfinished" : "absent";
        return ff_part_check_failure(wanted->path, error);
    }
    bool incomplete = false;
    ff_status status = add_part(parts, wanted->path, &incomplete, error);
    wanted->whole = status == FF_OK;
    if (!waits || !incomplete) return status;
    wanted->why = "incomplete";
    free_pieces(parts, before);
    return FF_OK;
}

/* "p1 (absent), p3 (unfinished)"; base names or, for the end, paths. */
static ff_status list_missing(const ff_merge_parts *parts, bool paths, ff_buffer *text,
                              ff_error *error) {
    size_t listed = 0, missing = 0;
    text->length = 0;
    for (size_t i = 0; i < parts->wanted_count; i++) {
        const ff_wanted *own = &parts->wanted[i];
        if (own->whole || ++missing > LISTED) continue;
        FF_TRY(ff_buffer_printf(text, error, "%s%s (%s)", listed++ ? ", " : "",
                                paths ? own->path : ff_path_base(own->path), own->why));
    }
    if (missing <= listed) return FF_OK;
    return ff_buffer_printf(text, error, " and %zu more", missing - listed);
}

static ff_status refuse_missing(const ff_merge_parts *parts, size_t missing, ff_error *error) {
    const char *output = parts->options->output;
    const bool waited = parts->options->wait_seconds != FF_MERGE_NO_WAIT;
    const ff_status kind = waited ? FF_FAILED : FF_USAGE;
    char after[32] = "";
    ff_buffer text = {0};
    ff_status status = list_missing(parts, true, &text, error);
    if (waited) snprintf(after, sizeof after, "after %" PRId64 " s ", parts->options->wait_seconds);
    if (status == FF_OK && !parts->wanted_count)
        status = ff_fail(error, kind, "%s: %sno part %.*s.part-I-of-N is there%s", output, after,
                         (int)ff_path_length(output), output,
                         waited ? "" : "; wanted ffpack merge OUT PART..., or --wait");
    else if (status == FF_OK)
        status =
            ff_fail(error, kind, "%s: %s%zu of %zu parts are missing: %s%s", output, after, missing,
                    parts->wanted_count, text.bytes, waited ? "" : "; --wait waits for them");
    ff_buffer_free(&text);
    return status;
}

/* Polls: file systems of several machines do not announce changes. */
static ff_status wait_for_all(ff_merge_parts *parts, bool given, ff_error *error) {
    const uint64_t began_ns = ff_now_ns();
    const int64_t limit = parts->options->wait_seconds;
    ff_progress progress = {0};
    ff_buffer text = {0};
    ff_status status = FF_OK;
    for (;;) {
        size_t missing = 0;
        if (!given) FF_TRY_DONE(find_beside(parts, error));
        for (size_t i = 0; i < parts->wanted_count; i++) {
            if (!parts->wanted[i].whole) FF_TRY_DONE(look(parts, &parts->wanted[i], error));
            missing += !parts->wanted[i].whole;
        }
        if (parts->wanted_count && !missing) break;
        const uint64_t waited_ms = (ff_now_ns() - began_ns) / 1000000;
        if (limit == FF_MERGE_NO_WAIT || (limit >= 0 && waited_ms >= (uint64_t)limit * 1000))
            FF_TRY_DONE(refuse_missing(parts, missing, error));
        if (progress.total != parts->wanted_count || !progress.unit)
            ff_progress_begin(&progress, "waiting for parts", "parts", parts->wanted_count, false);
        FF_TRY_DONE(list_missing(parts, false, &text, error));
        ff_progress_update(&progress, parts->wanted_count - missing,
                           parts->wanted_count ? text.bytes : "none is there");
        uint64_t pause_ms = SHORTEST_PAUSE_MS + waited_ms / 10;
        if (pause_ms > LONGEST_PAUSE_MS) pause_ms = LONGEST_PAUSE_MS;
        nanosleep(&(struct timespec){.tv_sec = (time_t)(pause_ms / 1000),
                                     .tv_nsec = (long)(pause_ms % 1000) * 1000000},
                  NULL);
        FF_TRY_DONE(ff_interrupt_check(error));
    }
done:
    ff_progress_end(&progress);
    ff_buffer_free(&text);
    return status;
}

ff_status ff_merge_parts_take(ff_merge_parts *parts, const char *const *given, size_t given_count,
                              ff_error *error) {
    if (given_count) FF_TRY(want(parts, given_count, error));
    for (size_t i = 0; i < given_count; i++)
        FF_TRY(ff_copy_string(&parts->wanted[i].path, given[i], error));
    FF_TRY(wait_for_all(parts, given_count > 0, error));
    return check_parts(parts, error);
}

void ff_merge_parts_free(ff_merge_parts *parts) {
    free_pieces(parts, 0);
    free(parts->piece);
    for (size_t i = 0; i < parts->wanted_count; i++) free(parts->wanted[i].path);
    free(parts->wanted);
}
