#include "loader/selection/parts.h"

#include "format/base/bytes.h"
#include "format/base/real.h"
#include "loader/selection/selection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading -------------------------------------------------------------------------------- */

static ff_status wrong(const char *text, const char *wanted, ff_error *error) {
    return ff_fail(error, FF_USAGE, "'%s' is not a part of a set; wanted %s", text, wanted);
}

/* The words after the shares, such as " seed=3 stratified"; false where there are others. */
static bool take_words(const char *at, uint64_t *seed, bool *stratified, const char **group_by) {
    static const char seeds[] = " seed=", groups[] = " group-by=", strata[] = " stratified";
    *seed = 0, *stratified = false, *group_by = NULL;
    while (*at) {
        if (!strncmp(at, seeds, strlen(seeds)) && at[strlen(seeds)] >= '0' &&
            at[strlen(seeds)] <= '9') {
            char *end;
            *seed = strtoull(at + strlen(seeds), &end, 10);
            at = end;
        } else if (!strncmp(at, strata, strlen(strata))) {
            *stratified = true;
            at += strlen(strata);
        } else if (!strncmp(at, groups, strlen(groups))) {
            *group_by = at + strlen(groups);
            return **group_by != 0;
        } else {
            return false;
        }
    }
    return true;
}

static ff_status read_rule(ff_part *part, const char *shares, const char *words, const char *text,
                           const char *wanted, ff_error *error) {
    uint64_t seed;
    bool stratified;
    const char *group_by;
    if (!take_words(words, &seed, &stratified, &group_by)) return wrong(text, wanted, error);
    return ff_split_rule_parse(&part->rule, shares, seed, stratified, group_by, error);
}

/* "NAME of SHARES" */
static ff_status read_named(ff_part *part, const char *split, size_t name, const char *wanted,
                            ff_error *error) {
    const char *shares = split + name + strlen(" of ");
    const size_t bytes = strcspn(shares, " ");
    char *copy;
    FF_TRY(ff_copy_bytes(&copy, shares, bytes, error));
    const ff_status status = read_rule(part, copy, shares + bytes, split, wanted, error);
    free(copy);
    FF_TRY(status);
    for (part->part = 0; part->part < part->rule.count; part->part++) {
        const char *known = part->rule.share[part->part].name;
        if (strlen(known) == name && !strncmp(known, split, name)) return FF_OK;
    }
    return wrong(split, "a name that has a share in it", error);
}

static ff_status read_split(ff_part *part, const char *split, ff_error *error) {
    static const char wanted[] = "NAME:SHARE like train:0.9 or val:0.1, or NAME of NAME=SHARE,... "
                                 "like val of train=0.8,val=0.1,test=0.1; then seed=N, stratified "
                                 "or group-by=REGEX with a space before each";
    const size_t name = strcspn(split, ": ");
    char shares[2 * FF_SPLIT_NAME_LIMIT_BYTES + 64], first[FF_REAL_BYTES], last[FF_REAL_BYTES],
        *end;
    if (!strncmp(split + name, " of ", strlen(" of ")))
        return read_named(part, split, name, wanted, error);
    const char *number = split[name] ? split + name + 1 : split + name;
    const double share = ff_real_read(number, &end);
    if (split[name] != ':' || end == number || !(share > 0 && share < 1) ||
        name > FF_SPLIT_NAME_LIMIT_BYTES || !ff_is_split_name(split, name))
        return wrong(split, wanted, error);
    part->part = !(name == strlen("train") && !strncmp(split, "train", name));
    ff_real_write(part->part ? 1 - share : share, 17, first);
    ff_real_write(part->part ? share : 1 - share, 17, last);
    snprintf(shares, sizeof shares, "first=%s,last=%s", first, last);
    return read_rule(part, shares, end, split, wanted, error);
}

static ff_status read_fold(ff_part *part, const char *fold, ff_error *error) {
    static const char wanted[] =
        "K/N like 2/5, N from 2 to 16, or not K/N; then seed=N, stratified "
        "or group-by=REGEX with a space before each";
    char shares[FF_SPLIT_SHARES_LIMIT * 32], share[FF_REAL_BYTES], *end;
    part->others = !strncmp(fold, "not ", strlen("not "));
    const char *number = fold + (part->others ? strlen("not ") : 0);
    const unsigned long at = strtoul(number, &end, 10);
    const char *of = *end == '/' ? end + 1 : end;
    const unsigned long count = strtoul(of, &end, 10);
    if (*number < '0' || *number > '9' || *of < '0' || *of > '9' || at < 1 || at > count ||
        count < 2 || count > FF_SPLIT_SHARES_LIMIT)
        return wrong(fold, wanted, error);
    ff_real_write(1 / (double)count, 17, share);
    for (unsigned long i = 0, used = 0; i < count; i++)
        used += (unsigned long)snprintf(shares + used, sizeof shares - used, "%s%lu=%s",
                                        i ? "," : "", i + 1, share);
    part->part = at - 1;
    return read_rule(part, shares, end, fold, wanted, error);
}

/* ---- classes that are divided --------------------------------------------------------------- */

typedef struct member {
    ff_split_member own;
    int64_t class;
} member;

static int compare(const void *a, const void *b) {
    const member *left = a, *right = b;
    if (left->class != right->class) return left->class < right->class ? -1 : 1;
    if (left->own.hash != right->own.hash) return left->own.hash < right->own.hash ? -1 : 1;
    return (left->own.number > right->own.number) - (left->own.number < right->own.number);
}

static ff_status list_members(const ff_part *part, ff_dataset *dataset, size_t field, member *all,
                              ff_error *error) {
    for (uint64_t i = 0; i < ff_dataset_count(dataset); i++) {
        char key[FF_KEY_LIMIT_BYTES];
        size_t bytes;
        all[i].own.number = i;
        ff_dataset_scan(dataset, i, FF_SCAN_ENTRIES | FF_SCAN_LABELS);
        FF_TRY(ff_dataset_key(dataset, i, key, &bytes, error));
        FF_TRY(ff_split_rule_hash(&part->rule, key, bytes, &all[i].own.hash, error));
        FF_TRY(ff_dataset_class(dataset, i, field, &all[i].class, error));
    }
    return FF_OK;
}

static ff_status divide(ff_part *part, ff_dataset *dataset, const char *label, ff_error *error) {
    const uint64_t count = ff_dataset_count(dataset);
    ff_split_member *one = NULL;
    member *all = NULL;
    size_t field;
    ff_status status;
    status = ff_selection_field(dataset, label, &field, error);
    if (status != FF_OK) return ff_fail_within(error, status, "stratified");
    FF_TRY_DONE(ff_alloc(&all, count, sizeof *all, "samples", error));
    FF_TRY_DONE(ff_alloc(&one, count, sizeof *one, "samples", error));
    FF_TRY_DONE(ff_alloc(&part->divided, count, 1, "parts of samples", error));
    FF_TRY_DONE(list_members(part, dataset, field, all, error));
    if (count) qsort(all, count, sizeof *all, compare);
    for (uint64_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && all[end].class == all[begin].class; end++)
            one[end - begin] = all[end].own;
        ff_split_rule_cut(&part->rule, one, end - begin, part->divided);
    }
done:
    free(one);
    free(all);
    return status;
}

/* ---- the part ------------------------------------------------------------------------------- */

ff_status ff_part_make(ff_part *part, const char *split, const char *fold, const char *label,
                       ff_dataset *dataset, ff_error *error) {
    ff_status status = FF_OK;
    *part = (ff_part){0};
    if (split) status = read_split(part, split, error);
    if (fold) status = read_fold(part, fold, error);
    if (status == FF_OK && part->rule.stratify) status = divide(part, dataset, label, error);
    if (status != FF_OK) ff_part_free(part);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, split ? "split" : "fold");
}

void ff_part_free(ff_part *part) {
    ff_split_rule_free(&part->rule);
    free(part->divided);
    *part = (ff_part){0};
}

ff_status ff_part_look(const ff_part *part, uint64_t number, const char *key, size_t key_bytes,
                       bool *has, ff_error *error) {
    uint64_t hash;
    *has = true;
    if (!part->rule.count) return FF_OK;
    if (part->divided) {
        *has = (part->divided[number] == part->part) != part->others;
        return FF_OK;
    }
    FF_TRY(ff_split_rule_hash(&part->rule, key, key_bytes, &hash, error));
    *has = (ff_split_rule_at(&part->rule, hash) == part->part) != part->others;
    return FF_OK;
}
