/* Which of the known names a wrong one was meant to be: for "did you mean". */
#ifndef FF_BASE_NEAREST_H
#define FF_BASE_NEAREST_H

#include <stddef.h>

/* The best of the names offered so far; begin with {.wanted = ..., .length = ...}. */
typedef struct ff_nearest {
    const char *wanted; /* `length` bytes; nothing need end them */
    size_t length;
    /* NULL = none is within three edits, and a third of the longer word's letters, rounded up. */
    const char *name;
    int edits; /* insertions, deletions and replacements from `wanted` to `name` */
} ff_nearest;

/* Keeps `name` where it is nearer than what was offered before; of equals the first one stays. */
void ff_nearest_offer(ff_nearest *nearest, const char *name);

#endif
