/* Room format/select, floor 4: which samples, by what a set records about them.
 *
 * This header parses an expression, where_holds.c evaluates it, and meant.h does so for the samples
 * of a set. keys.h reads lists of keys; split_rule.h assigns the samples of a source to splits.
 *
 * May include format/base, format/cli, format/disk, format/reader.
 *
 * Expressions that select samples of a packed split, such as
 *
 *     label in ('cat', 'dog') and not key like 'blurred/_*' or height < 32
 *
 * An expression is comparisons combined by `or`, `and`, `not` and parentheses; `not` binds most
 * closely, `or` least. A comparison is one of
 *
 *     NAME OPERATOR VALUE          OPERATOR: = == != < <= > >=
 *     NAME [not] in (VALUE, ...)
 *     NAME [not] like 'PATTERN'    PATTERN: * means any text, ? one character
 *
 * NAME is a label field, key, split, height or width; `NAME` in backquotes is always a label field.
 * class, if no field is called so, is the only field of classes.
 * VALUE is a number, or text in '' or "", in which \ stands before a quote or another \.
 *
 * A class is written as its name (text) or its number; samples without a label have the number -1.
 * and, or, not, in and like are read in any case. The struct holds everything: nothing is
 * allocated. Thread rule: read-only once it is bound. */
#ifndef FF_FORMAT_WHERE_H
#define FF_FORMAT_WHERE_H

#include "format/disk/metadata.h"

enum {
    FF_WHERE_LIMIT_BYTES = 16384, /* length of an expression */
    FF_WHERE_STEPS = 256,         /* comparisons and the words between them */
    FF_WHERE_VALUES = 1024,
    FF_WHERE_DEPTH = 32, /* nesting depth of parentheses and nots */
};

typedef enum ff_where_operator {
    FF_WHERE_EQUAL,
    FF_WHERE_UNEQUAL,
    FF_WHERE_BELOW,
    FF_WHERE_AT_MOST,
    FF_WHERE_ABOVE,
    FF_WHERE_AT_LEAST,
    FF_WHERE_IN,
    FF_WHERE_LIKE,
    /* These join the results before them: */
    FF_WHERE_NOT,
    FF_WHERE_AND,
    FF_WHERE_OR,
} ff_where_operator;

typedef enum ff_where_name {
    FF_WHERE_KEY,
    FF_WHERE_SPLIT,
    FF_WHERE_HEIGHT,
    FF_WHERE_WIDTH,
    FF_WHERE_FIELD,
} ff_where_name;

typedef struct ff_where_value {
    bool quoted;
    double number; /* quoted: the class's number, once bound */
    size_t at;     /* place in the expression */
    size_t text, bytes;
} ff_where_value;

typedef struct ff_where_step {
    ff_where_operator is;
    /* A comparison has: */
    size_t at, name_bytes; /* its name, in the expression */
    bool quoted_name;
    size_t value, value_count;
    ff_where_name name; /* set when bound, together with */
    size_t field;       /* for FF_WHERE_FIELD */
} ff_where_step;

typedef struct ff_where {
    const char *expression;
    char text[FF_WHERE_LIMIT_BYTES]; /* the quoted values */
    size_t text_bytes;
    size_t step_count, value_count;
    ff_where_step step[FF_WHERE_STEPS]; /* each after those that it joins */
    ff_where_value value[FF_WHERE_VALUES];
    const ff_metadata *metadata; /* that the expression is bound to */
} ff_where;

/* Reads the expression, which must outlive `where`. FF_USAGE with the place, from 1, and what was
 * wanted there. */
FF_MUST_USE ff_status ff_where_read(ff_where *where, const char *expression, ff_error *error);

/* Finds the names in a split's metadata, which must outlive `where`; may be called again for
 * another split. `set` is the set's name in messages. FF_USAGE if there is no such field or class
 * (the error names the nearest one) or if a value does not fit its name. */
FF_MUST_USE ff_status ff_where_bind(ff_where *where, const ff_metadata *metadata, const char *set,
                                    ff_error *error);

/* Whether a bound expression needs this field of a sample. */
bool ff_where_needs(const ff_where *where, size_t field);

/* A sample. height and width are the stored ones. */
typedef struct ff_where_sample {
    const char *key, *split;
    size_t key_bytes;
    uint32_t height, width;
    const double *field; /* by field: the class or the number; only needed fields are read */
} ff_where_sample;

/* Whether a bound expression selects this sample. */
bool ff_where_holds(const ff_where *where, const ff_where_sample *sample);

#endif
