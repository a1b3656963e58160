/* --split: which split an item of a source without splits belongs to.
 *
 * The rule looks only at the item's key, so other items never move the item. h is XXH3 (64 bits) of
 * the key with the seed, and u = floor(h / 2^11) / 2^53, from 0 to below 1. The item belongs to the
 * first split whose share, added to the shares before it in double precision, is above u; otherwise
 * to the last split. With --group-by the text that the first group of the expression matches in the
 * key is hashed instead of the key; or the whole match, if the expression has no group or the group
 * takes no part in the match.
 *
 * With --stratify (ff_split_rule_cut) the rule needs all items: the n items of each class are
 * ordered by h, equal ones by their numbers, and the first floor(n s + 1/2) of them belong to the
 * splits whose shares add up to s. So further items can move others across a cut.
 *
 * Thread rule: read-only once parsed. */
#ifndef FF_FORMAT_SPLIT_RULE_H
#define FF_FORMAT_SPLIT_RULE_H

#include "format/base/memory.h"

#include <regex.h>
#include <stdbool.h>

#define FF_SPLIT_SHARES_LIMIT     16
#define FF_SPLIT_NAME_LIMIT_BYTES 64

typedef struct ff_split_share {
    char name[FF_SPLIT_NAME_LIMIT_BYTES + 1];
    double up_to; /* this share and the shares before it; 1 for the last */
} ff_split_share;

/* Whether `bytes` bytes can name a split: letters, digits, _ and -, at least one. */
bool ff_is_split_name(const char *name, size_t bytes);

/* Zero-initialised: no rule (count 0). */
typedef struct ff_split_rule {
    size_t count;
    ff_split_share share[FF_SPLIT_SHARES_LIMIT];
    uint64_t seed;
    bool stratify;
    bool recorded; /* recorded by the set that is appended to: splits may stay without new items */
    char *text; /* as a set records it: "train=0.9,val=0.1 seed=0 stratify group-by=REGEX"; owned */
    const char *group_by; /* in `text`; NULL = keys are hashed */
    regex_t expression;   /* compiled if group_by is not NULL */
} ff_split_rule;

/* The rule of the options' values; group_by may be NULL. FF_USAGE naming the option. The rule is
 * released with ff_split_rule_free, also after a failure. */
FF_MUST_USE ff_status ff_split_rule_parse(ff_split_rule *rule, const char *shares, uint64_t seed,
                                          bool stratify, const char *group_by, ff_error *error);
/* The rule that a set records. */
FF_MUST_USE ff_status ff_split_rule_read(ff_split_rule *rule, const char *text, ff_error *error);
void ff_split_rule_free(ff_split_rule *rule);

/* The hash h of an item. FF_USAGE, naming the key, if --group-by does not match it. */
FF_MUST_USE ff_status ff_split_rule_hash(const ff_split_rule *rule, const void *key,
                                         size_t key_bytes, uint64_t *hash, ff_error *error);
/* The split, from 0, of an item with this hash. */
size_t ff_split_rule_at(const ff_split_rule *rule, uint64_t hash);

/* An item of a class. */
typedef struct ff_split_member {
    uint64_t number, hash;
} ff_split_member;

/* --stratify: split_of[number] of the items of one class, which are ordered by their hashes. Items
 * of one name, whose hashes are equal, stay together. */
void ff_split_rule_cut(const ff_split_rule *rule, const ff_split_member *member, size_t count,
                       unsigned char *split_of);

#endif
