/* A part of a set: a range of whole shards of a split, packed by one of several machines, without
 * an index. part.ffp names the part (FORMAT.md, "Parts"). Thread rule: pure. */
#ifndef FF_FORMAT_PART_H
#define FF_FORMAT_PART_H

#include "format/disk/metadata.h"

#define FF_PART_NAME   "part.ffp"
#define FF_SUMS_NAME   "sums.ffp" /* of a part that is merged with others to get mean and std */
#define FF_PARTS_LIMIT 1000000u

typedef struct ff_part {
    uint32_t number, count; /* I of N, 1 <= I <= N */
    uint32_t split, splits; /* this split's index in the source, from 0, and their number */
} ff_part;

/* Parses "I/N", the value of --part. FF_USAGE if `text` is not of that form. */
FF_MUST_USE ff_status ff_part_parse(ff_part *part, const char *text, ff_error *error);

/* The path where --part auto packs a part and a merge looks for it: "OUT.part-I-of-N",
 * allocated. */
FF_MUST_USE ff_status ff_part_path(char **path, const char *output, const ff_part *part,
                                   ff_error *error);
/* The length of OUT in `path` if `path` is OUT.part-I-of-N; 0 for any other path. */
size_t ff_part_base_length(const char *path, const ff_part *part);
/* Whether `name`, the last component of a path, names a part of OUT; if so, sets number and
 * count. */
bool ff_part_path_parse(ff_part *part, const char *name, const char *output);

/* Writes PART.failed: why the last run that packed PART failed, for a merge that waits for PART.
 * Does not write it if PART exists or another process is packing it; failures to write are
 * ignored. */
void ff_part_note_failure(const char *path, const char *why);
void ff_part_forget_failure(const char *path);
/* FF_FAILED with the sentence of PART.failed if that file exists. */
FF_MUST_USE ff_status ff_part_check_failure(const char *path, ff_error *error);

/* The part's shards, first .. end - 1, of `shard_count`; may be empty. */
void ff_part_range(const ff_part *part, uint32_t shard_count, uint32_t *first, uint32_t *end);

/* Commits part.ffp in the folder. `text` is the metadata's text. */
FF_MUST_USE ff_status ff_part_write(const ff_part *part, const char *directory,
                                    const ff_buffer *text, ff_error *error);

/* Reads DIRECTORY/part.ffp and appends the metadata's text to `text`. FF_IO if there is no such
 * file. */
FF_MUST_USE ff_status ff_part_read(ff_part *part, const char *directory, ff_buffer *text,
                                   ff_error *error);

#endif
