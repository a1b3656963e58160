#include "format/select/split_rule.h"

#include "format/base/real.h"
#include "format/disk/checksum.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool ff_is_split_name(const char *name, size_t bytes) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return bytes && strspn(name, plain) >= bytes;
}

/* ---- parsing ------------------------------------------------------------------------------- */

static ff_status wrong(const char *word, size_t bytes, const char *why, ff_error *error) {
    return ff_fail(error, FF_USAGE, "--split: '%.*s' %s, like train=0.9,val=0.1", (int)bytes, word,
                   why);
}

static ff_status check_name(const ff_split_rule *rule, const char *word, size_t bytes,
                            ff_error *error) {
    if (bytes > FF_SPLIT_NAME_LIMIT_BYTES || !ff_is_split_name(word, bytes))
        return wrong(word, bytes, "is not the name of a split, wanted letters, digits, _ and -",
                     error);
    for (size_t i = 0; i < rule->count; i++)
        if (strlen(rule->share[i].name) == bytes && !memcmp(rule->share[i].name, word, bytes))
            return wrong(word, bytes, "is there twice, wanted each split once", error);
    return FF_OK;
}

/* A word "NAME=SHARE"; adds the share to *sum. */
static ff_status take_share(ff_split_rule *rule, const char *word, size_t bytes, double *sum,
                            ff_error *error) {
    const char *equals = memchr(word, '=', bytes);
    char *end = NULL;
    const double share = equals ? ff_real_read(equals + 1, &end) : 0;
    if (!equals || end == equals + 1 || end != word + bytes || !(share > 0) || !isfinite(share) ||
        !strchr("0123456789.", equals[1]))
        return wrong(word, bytes,
                     "is not a split with its share, a number above 0; wanted NAME=SHARE", error);
    if (rule->count == FF_SPLIT_SHARES_LIMIT)
        return ff_fail(error, FF_USAGE, "--split: more than %d splits", FF_SPLIT_SHARES_LIMIT);
    const size_t name_bytes = (size_t)(equals - word);
    FF_TRY(check_name(rule, word, name_bytes, error));
    ff_split_share *added = &rule->share[rule->count++];
    memcpy(added->name, word, name_bytes);
    added->up_to = *sum += share;
    return FF_OK;
}

static ff_status take_shares(ff_split_rule *rule, const char *shares, ff_error *error) {
    double sum = 0;
    for (const char *at = shares; at;) {
        const size_t bytes = strcspn(at, ",");
        FF_TRY(take_share(rule, at, bytes, &sum, error));
        at = at[bytes] ? at + bytes + 1 : NULL;
    }
    if (fabs(sum - 1) > 1e-9)
        return ff_fail(error, FF_USAGE, "--split: the shares of '%s' add up to %.12g, wanted 1",
                       shares, sum);
    rule->share[rule->count - 1].up_to = 1;
    return FF_OK;
}

static ff_status take_expression(ff_split_rule *rule, const char *group_by, ff_error *error) {
    char why[128];
    const int code = regcomp(&rule->expression, group_by, REG_EXTENDED);
    if (!code) return FF_OK;
    regerror(code, &rule->expression, why, sizeof why);
    rule->group_by = NULL;
    return ff_fail(error, FF_USAGE, "--group-by: '%s' is not a POSIX extended expression: %s",
                   group_by, why);
}

ff_status ff_split_rule_parse(ff_split_rule *rule, const char *shares, uint64_t seed, bool stratify,
                              const char *group_by, ff_error *error) {
    *rule = (ff_split_rule){.seed = seed, .stratify = stratify};
    if (stratify && group_by)
        return ff_fail(error, FF_USAGE,
                       "--stratify cuts classes and --group-by keeps groups whole; wanted only "
                       "one");
    FF_TRY(take_shares(rule, shares, error));
    FF_TRY(ff_format(&rule->text, error, "%s seed=%" PRIu64 "%s%s%s", shares, seed,
                     stratify ? " stratify" : "", group_by ? " group-by=" : "",
                     group_by ? group_by : ""));
    if (!group_by) return FF_OK;
    rule->group_by = rule->text + strlen(rule->text) - strlen(group_by);
    return take_expression(rule, rule->group_by, error);
}

ff_status ff_split_rule_read(ff_split_rule *rule, const char *text, ff_error *error) {
    static const char seeds[] = " seed=", groups[] = " group-by=", strata[] = " stratify";
    char *end = NULL, *shares;
    const size_t bytes = strcspn(text, " ");
    const char *at = text + bytes, *group_by = NULL;
    uint64_t seed = 0;
    if (!strncmp(at, seeds, strlen(seeds))) seed = strtoull(at + strlen(seeds), &end, 10);
    const bool stratify = end && !strcmp(end, strata);
    if (end && !strncmp(end, groups, strlen(groups))) group_by = end + strlen(groups);
    *rule = (ff_split_rule){0};
    if (!end || (*end && !stratify && !group_by))
        return ff_fail(error, FF_BAD_DATA,
                       "records the rule of its splits as '%s', which this "
                       "ffpack cannot read",
                       text);
    FF_TRY(ff_copy_bytes(&shares, text, bytes, error));
    const ff_status status = ff_split_rule_parse(rule, shares, seed, stratify, group_by, error);
    free(shares);
    rule->recorded = true;
    return status;
}

void ff_split_rule_free(ff_split_rule *rule) {
    if (rule->group_by) regfree(&rule->expression);
    free(rule->text);
    *rule = (ff_split_rule){0};
}

/* ---- items --------------------------------------------------------------------------------- */

ff_status ff_split_rule_hash(const ff_split_rule *rule, const void *key, size_t key_bytes,
                             uint64_t *hash, ff_error *error) {
    /* REG_STARTEND: the key has no final zero. */
    regmatch_t match[2] = {{.rm_so = 0, .rm_eo = (regoff_t)key_bytes}};
    const regmatch_t *hashed = &match[0];
    if (rule->group_by) {
        const int code = regexec(&rule->expression, key, 2, match, REG_STARTEND);
        if (!code && rule->expression.re_nsub && match[1].rm_so >= 0) hashed = &match[1];
        if (code || hashed->rm_so == hashed->rm_eo)
            return ff_fail(
                error, FF_USAGE,
                "--group-by: '%s' matches nothing in the name %.*s; wanted an expression "
                "that finds a group in every name",
                rule->group_by, (int)(key_bytes < 1000 ? key_bytes : 1000), (const char *)key);
    }
    *hash = ff_checksum_seeded((const char *)key + hashed->rm_so,
                               (size_t)(hashed->rm_eo - hashed->rm_so), rule->seed);
    return FF_OK;
}

void ff_split_rule_cut(const ff_split_rule *rule, const ff_split_member *member, size_t count,
                       unsigned char *split_of) {
    size_t at = 0;
    for (size_t split = 0; split < rule->count; split++) {
        const double end = rule->share[split].up_to * (double)count + 0.5;
        for (; at < count && at < (size_t)end; at++) {
            const bool same = at && member[at].hash == member[at - 1].hash;
            split_of[member[at].number] =
                same ? split_of[member[at - 1].number] : (unsigned char)split;
        }
    }
}

size_t ff_split_rule_at(const ff_split_rule *rule, uint64_t hash) {
    const double u = (double)(hash >> 11) * 0x1p-53;
    size_t at = 0;
    while (at + 1 < rule->count && !(rule->share[at].up_to > u)) at++;
    return at;
}
