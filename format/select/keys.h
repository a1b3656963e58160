/* The keys in a file of --keys or --not-keys: one per line, spelled as in the set or as ffinspect
 * prints them (%XX). In a set of several splits the split's name may precede a key:
 * train/cat/1.png. Memory: about twice the file's size and 40 bytes per line. Thread rule: one
 * thread at a time. */
#ifndef FF_FORMAT_KEYS_H
#define FF_FORMAT_KEYS_H

#include "format/base/memory.h"

/* A spelling of a line's key. */
typedef struct ff_key_form {
    const char *key;
    size_t bytes, line;
    bool decoded;
} ff_key_form;

/* Zero-initialised; released with ff_keys_free. */
typedef struct ff_keys {
    const char *path;
    char *text, *decoded; /* the file; the same with each %XX decoded */
    ff_key_form *form;    /* [form_count], by key */
    size_t form_count, form_capacity;
    size_t line_count, line_capacity;
    struct ff_key_line {
        const char *text;  /* NULL: an empty line */
        const char *split; /* where a sample has this key; NULL: nowhere so far */
        bool decoded;      /* the sample has the decoded spelling */
    } * line;              /* [line_count] */
} ff_keys;

/* Reads the file; `path` must outlive the keys. FF_IO, FF_BAD_DATA (also if no line has a key). */
FF_MUST_USE ff_status ff_keys_read(ff_keys *keys, const char *path, ff_error *error);

/* *named = whether a line names this key of the split; ff_keys_check then counts the line as found.
 * `split` must outlive the keys. FF_USAGE if the line also names a sample of another split, or
 * another sample by the line's other spelling. */
FF_MUST_USE ff_status ff_keys_look(ff_keys *keys, const char *split, const char *key, size_t bytes,
                                   bool *named, ff_error *error);

/* After all samples were looked up: FF_USAGE with the first line that names no sample, and the
 * number of such lines. */
FF_MUST_USE ff_status ff_keys_check(const ff_keys *keys, const char *set, ff_error *error);

void ff_keys_free(ff_keys *keys);

#endif
