/* Room tools/ffpack/commands, floor 18: the command line.
 *
 * One command_*.c for each command; command.c has what they share.
 *
 * May include format, tools/ffpack/bucket, tools/ffpack/copy, tools/ffpack/pack,
 * tools/ffpack/parts, tools/ffpack/repair, tools/ffpack/settings.
 *
 * The commands of ffpack, and what their command lines share. Only main.c and the command_*.c files
 * use this; they print and return the exit code. */
#ifndef FF_FFPACK_COMMAND_H
#define FF_FFPACK_COMMAND_H

#include "format/cli/options.h"
#include "format/writer/recorded.h"

#include <stdbool.h>

/* argv[0] is the program or, for the others, the command's name. They return the exit code. */
int ff_command_pack(int argc, char **argv);
int ff_command_merge(int argc, char **argv);
int ff_command_append(int argc, char **argv);
int ff_command_check(int argc, char **argv);
int ff_command_copy(int argc, char **argv);
int ff_command_repair(int argc, char **argv);
int ff_command_ls(int argc, char **argv);
int ff_command_push(int argc, char **argv);
int ff_command_pull(int argc, char **argv);
int ff_command_verify(int argc, char **argv);

/* The same as ff_options_parse; FF_IO if the output of --help could not be written. */
FF_MUST_USE ff_status ff_command_parse(const ff_command *command, int argc, char **argv,
                                       ff_positionals *operands, ff_error *error);
/* Parses again with these options before the command line's, which override them; `operands` come
 * from an earlier parse. */
FF_MUST_USE ff_status ff_command_parse_after(const ff_command *command, const ff_recorded *options,
                                             int argc, char **argv, ff_positionals *operands,
                                             ff_error *error);
/* Prints "ffpack: SENTENCE[; more [argv]]" on stderr, the arguments quoted for a shell; returns the
 * exit code. `more` may be NULL, argc 0. */
int ff_command_fail(const ff_error *error, const char *more, int argc, char **argv);

/* The folder OUT.partial in which a failed run kept whole shards, allocated; NULL if it kept none.
 */
char *ff_command_kept(const char *output);

/* Prints a notice on stderr; has the signature of ff_notices.tell. */
void ff_command_notice(void *context, const char *message);

/* Prints a broken item on stdout: a line with its reason, which names the item, or a JSON object.
 * Has the signature of ff_notices.broken; `context` is an int that gets the errno of the first
 * failed write. */
void ff_command_broken(void *context, const char *split, const char *name, const char *reason);
void ff_command_broken_json(void *context, const char *split, const char *name, const char *reason);

/* Returns `status`, or FF_IO if broken items could not be written (`failed`, as above). */
FF_MUST_USE ff_status ff_command_listed(ff_status status, int failed, ff_error *error);

/* FF_IO if writing to stdout failed. */
FF_MUST_USE ff_status ff_command_flush(ff_error *error);

#endif
