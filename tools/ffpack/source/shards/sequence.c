#include "tools/ffpack/source/shards/sequence.h"

#include "format/base/memory.h"
#include "format/base/path.h"
#include "format/cli/say.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* With more sequences the summary lists none. */
enum { NOTES_MOST = 8 };

/* A shard's path around the number in its name: the last one that is neither the M of N-of-M nor
 * the 2 of .bz2. */
typedef struct numbered {
    const char *name;
    size_t before, digits; /* bytes */
    uint64_t number;
} numbered;

static numbered number_of(const char *name) {
    static const char decimal[] = "0123456789";
    numbered at = {.name = name};
    for (size_t i = (size_t)(ff_path_base(name) - name); name[i];) {
        size_t digits = strspn(name + i, decimal);
        bool total = at.digits && i >= 4 && !strncasecmp(name + i - 4, "-of-", 4);
        bool ending = i >= 2 && !strcasecmp(name + i - 2, "bz2");
        if (digits && digits < 19 && !total && !ending)
            at = (numbered){name, i, digits, strtoull(name + i, NULL, 10)};
        i += digits ? digits : strcspn(name + i, decimal);
    }
    return at;
}

static int compare_text(const numbered *a, const numbered *b) {
    if (a->before != b->before) return a->before < b->before ? -1 : 1;
    int before = memcmp(a->name, b->name, a->before);
    return before ? before
                  : strcmp(a->name + a->before + a->digits, b->name + b->before + b->digits);
}

static int compare_numbered(const void *a, const void *b) {
    const numbered *first = a, *second = b;
    int text = compare_text(first, second);
    return text ? text : (first->number > second->number) - (first->number < second->number);
}

/* The M of N-of-M; 0: the name has none. */
static uint64_t total_of(const numbered *at) {
    const char *after = at->name + at->before + at->digits;
    if (!at->digits || strncasecmp(after, "-of-", 4) != 0) return 0;
    return strtoull(after + 4, NULL, 10);
}

/* A sequence: the shards at `count` places, in the order of their numbers. */
typedef struct sequence {
    const numbered *at;
    size_t count;
    const ff_shard_kind *kind;
    uint64_t present, missing; /* different numbers, and those lacking between first and last */
    const numbered *gap;       /* the one before the first that is lacking */
} sequence;

static sequence sequence_at(const numbered *at, size_t count, const ff_shard_kind *kind) {
    sequence found = {.at = at, .count = 1, .kind = kind, .present = 1};
    for (; found.count < count; found.count++) {
        const numbered *last = &at[found.count - 1], *next = last + 1;
        if (compare_text(last, next) != 0) break;
        found.present += next->number != last->number;
        if (next->number - last->number < 2) continue;
        found.missing += next->number - last->number - 1;
        if (!found.gap) found.gap = last;
    }
    return found;
}

/* "1 tar is", "3 tars are" */
static ff_said say_shards(const sequence *of, uint64_t count) {
    char one[64], many[64];
    snprintf(one, sizeof one, "%s is", of->kind->one);
    snprintf(many, sizeof many, "%s are", of->kind->many);
    return ff_say_count(count, one, many);
}

/* N-of-M counts from 0 or from 1. */
static ff_status check_total(const sequence *of, const char *source, ff_error *error) {
    const uint64_t total = total_of(of->at);
    if (!total || of->present >= total) return FF_OK;
    const numbered *last = &of->at[of->count - 1];
    return ff_fail(error, FF_BAD_DATA,
                   "%s: %s there of the %" PRIu64
                   " that their names count, %s to %s; wanted all, or a "
                   "brace pattern that names those that are meant",
                   source, say_shards(of, of->present).text, total, ff_path_base(of->at->name),
                   ff_path_base(last->name));
}

static ff_status note(const sequence *of, ff_names *notes, ff_error *error) {
    const char *first = ff_path_base(of->at->name),
               *last = ff_path_base(of->at[of->count - 1].name);
    if (!of->at->digits) return FF_OK;
    FF_TRY(of->count == 1
               ? ff_names_add_text(notes, error, "%s: 1 of a sequence of numbers, %s",
                                   of->kind->many, first)
               : ff_names_add_text(notes, error, "%s: %zu of a sequence of numbers, %s to %s",
                                   of->kind->many, of->count, first, last));
    if (!of->missing) return FF_OK;
    return ff_names_add_text(notes, error, "%s missing in the sequence of numbers, first after %s",
                             say_shards(of, of->missing).text, ff_path_base(of->gap->name));
}

ff_status ff_sequences_check(const ff_names *paths, const ff_shard_kind *kind, const char *source,
                             ff_names *notes, ff_error *error) {
    const size_t count = paths->count;
    size_t sequences = 0;
    numbered *all;
    ff_status status;
    FF_TRY(ff_alloc(&all, count, sizeof *all, "shards", error));
    for (size_t i = 0; i < count; i++) all[i] = number_of(ff_names_at(paths, i));
    qsort(all, count, sizeof *all, compare_numbered);
    for (size_t i = 0; i < count; sequences++) {
        const sequence of = sequence_at(&all[i], count - i, kind);
        FF_TRY_DONE(check_total(&of, source, error));
        i += of.count;
    }
    for (size_t i = 0; i < count;) {
        const sequence of = sequence_at(&all[i], count - i, kind);
        if (sequences <= NOTES_MOST || of.missing) FF_TRY_DONE(note(&of, notes, error));
        i += of.count;
    }
    status = FF_OK;
done:
    free(all);
    return status;
}
