/* A split's history: the file history.jsonl next to its index, one JSON object per line for each
 * command that made or changed the split (FORMAT.md, "History"). The history records what the ids
 * must not depend on: when, where, from which source and by which command line. Whatever it holds,
 * the split can be read without it. Thread rule: one thread at a time for each folder. */
#ifndef FF_FORMAT_HISTORY_H
#define FF_FORMAT_HISTORY_H

#include "format/base/memory.h"

#include <jansson.h>

#define FF_HISTORY_NAME        "history.jsonl"
#define FF_HISTORY_LIMIT_BYTES (UINT64_C(64) << 20)

/* A command that writes a split. The struct owns nothing. */
typedef struct ff_history_command {
    const char *name; /* "pack", "append", ... */
    int argc;
    char **argv; /* argv[0] is the program or the command */
    bool none;   /* --no-history: no history is written */
} ff_history_command;

/* Commits `directory`/history.jsonl: the lines of the folders `before` [count], sound or not, then
 * one for this command. A folder contributes no lines if it has no history, or if its history is
 * not a file, cannot be read or is above the limit. `source`: what the command read, or NULL. Does
 * nothing with --no-history. Call it when the index is in place. */
FF_MUST_USE ff_status ff_history_begin(const char *directory, const ff_history_command *command,
                                       const char *source, const char *const *before, size_t count,
                                       ff_error *error);

/* Adds the command's line to the history of a split that was changed in place. Fails if the history
 * cannot be read; the file then stays unchanged. Does nothing with --no-history. */
FF_MUST_USE ff_status ff_history_add(const char *directory, const ff_history_command *command,
                                     const char *source, ff_error *error);

/* *lines = the objects of all sound lines, oldest first, a new reference. *problem = NULL, or one
 * sentence, allocated, that states what is wrong with the history: it is absent, some lines are not
 * sound, or the last line records another content id than `content_id`. */
FF_MUST_USE ff_status ff_history_read(json_t **lines, char **problem, const char *directory,
                                      const uint8_t content_id[16], ff_error *error);

/* The command line of a sound line, quoted for a shell, appended. */
FF_MUST_USE ff_status ff_history_command_line(ff_buffer *out, const json_t *line, ff_error *error);

#endif
