/* Finds the known name nearest to an unknown one, for "did you mean". */
#ifndef FF_BASE_NEAREST_H
#define FF_BASE_NEAREST_H

#include <stddef.h>

/* The nearest of the names offered so far; begin with {.wanted = ..., .length = ...}. */
typedef struct ff_nearest {
    const char *wanted; /* `length` bytes, not zero-terminated */
    size_t length;
    /* NULL = no name is within three edits and a third of the longer word's length, rounded up. */
    const char *name;
    int edits; /* insertions, deletions and replacements from `wanted` to `name` */
} ff_nearest;

/* Keeps `name` if it is nearer than all names offered before; among equally near names the first is
 * kept. */
void ff_nearest_offer(ff_nearest *nearest, const char *name);

#endif
