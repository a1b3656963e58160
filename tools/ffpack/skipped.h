/* The list of items that --on-error skip left out: OUT.skipped.tsv beside OUT, a line an item:
 * split, storage position, item number, key, reason, with tabs between; key and reason have
 * everything outside 0x21..0x7e (but spaces in the reason) as %XX. The file exists only where items
 * were left out. It grows as they are found, so a continued run knows those before it too.
 * Thread rule: one thread at a time. */
#ifndef FF_FFPACK_SKIPPED_H
#define FF_FFPACK_SKIPPED_H

#include "format/base/memory.h"

typedef struct ff_skipped ff_skipped;

/* The list's path for OUT, allocated. */
FF_MUST_USE ff_status ff_skipped_name(char **path, const char *output, ff_error *error);

/* `output` is OUT. Removes a list that an earlier packing left, unless this run continues it. */
FF_MUST_USE ff_status ff_skipped_open(ff_skipped **skipped, const char *output, bool continues,
                                      ff_error *error);

/* The split `split` goes on at storage position `position`: what is listed of it from there on will
 * come again and is taken off. */
FF_MUST_USE ff_status ff_skipped_rewind(ff_skipped *skipped, const char *split, uint64_t position,
                                        ff_error *error);

FF_MUST_USE ff_status ff_skipped_add(ff_skipped *skipped, const char *split, uint64_t position,
                                     uint64_t item, const void *key, size_t key_bytes,
                                     const char *reason, ff_error *error);

/* Appends what the list at `path` says of `split`; *lines counts it. A missing list is empty. */
FF_MUST_USE ff_status ff_skipped_take(ff_skipped *skipped, const char *path, const char *split,
                                      uint64_t *lines, ff_error *error);

const char *ff_skipped_path(const ff_skipped *skipped);
void ff_skipped_close(ff_skipped **skipped);

#endif
