/* A split's history: the file history.jsonl beside its index, a JSON object a line for each command
 * that made or changed the split (FORMAT.md, "History"). It says what the ids must not depend on:
 * when, where, from which source and by which command line. The split can be read without it,
 * whatever it holds. Thread rule: one thread at a time for each folder. */
#ifndef FF_FORMAT_HISTORY_H
#define FF_FORMAT_HISTORY_H

#include "format/base/memory.h"

#include <jansson.h>

#define FF_HISTORY_NAME        "history.jsonl"
#define FF_HISTORY_LIMIT_BYTES (UINT64_C(64) << 20)

/* A command that writes a split. Nothing in it is owned. */
typedef struct ff_history_command {
    const char *name; /* "pack", "append", ... */
    int argc;
    char **argv; /* argv[0] is the program or the command */
    bool none;   /* --no-history: it writes none */
} ff_history_command;

/* Commits `directory`/history.jsonl: the lines of the folders `before` [count], whether they are
 * sound or not, then one for this command. A folder without a history, or with one that is no
 * file, cannot be read or is above the limit, has no lines. `source`: what the command read, or
 * NULL. Does nothing with --no-history. Call it when the index is in place. */
FF_MUST_USE ff_status ff_history_begin(const char *directory, const ff_history_command *command,
                                       const char *source, const char *const *before, size_t count,
                                       ff_error *error);

/* Adds the command's line to the history of a split that was changed in place. Fails where that
 * cannot be read; the file then stays as it is. Does nothing with --no-history. */
FF_MUST_USE ff_status ff_history_add(const char *directory, const ff_history_command *command,
                                     const char *source, ff_error *error);

/* *lines = the objects of all sound lines, oldest first, a new reference. *problem = what is wrong
 * with the history, in a sentence, allocated: it is absent, some lines are not sound, the last one
 * is of another content than `content_id`; else NULL. */
FF_MUST_USE ff_status ff_history_read(json_t **lines, char **problem, const char *directory,
                                      const uint8_t content_id[16], ff_error *error);

/* The command line of a sound line, quoted for a shell, appended. */
FF_MUST_USE ff_status ff_history_command_line(ff_buffer *out, const json_t *line, ff_error *error);

#endif
