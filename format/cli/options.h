/* Room format/cli, floor 1: what every command has in common.
 *
 * A program's options are one table, from which the parser, --help and a file of options are made
 * (this header, options_file.c, describe.c). nearest.h finds the word that a user meant, habits.h
 * knows the words of other programs. What a user sees goes through say.h, columns.h and
 * progress.h; interrupt.h stops a command on a signal; host_memory.h is the memory that a process
 * may take.
 *
 * May include format/base.
 *
 * Command lines: parser and --help from one table.
 *
 * `--name value`, `--name=value`, `-x value`; `--` ends the options. The error for an unknown
 * option names our word for it (habits.h) or the nearest known option. `--help`, `--help WORD` and
 * `--version` are always known. */
#ifndef FF_BASE_OPTIONS_H
#define FF_BASE_OPTIONS_H

#include "format/base/status.h"
#include "format/cli/habits.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef enum ff_option_kind {
    FF_OPTION_FLAG,    /* bool *: set true                                                        */
    FF_OPTION_STRING,  /* const char **: points into argv                                         */
    FF_OPTION_INTEGER, /* int64_t *: within [minimum, maximum]; the word in choices = minimum - 1 */
    FF_OPTION_REAL,    /* double *: within [minimum, maximum]; NaN and infinity refused           */
    FF_OPTION_BYTES,   /* uint64_t *: 4096, 64K, 128M, 1G (powers of 1024), within the range      */
    FF_OPTION_LIST,    /* ff_option_list *: each use of the option adds a value                   */
    FF_OPTION_CHOICE,  /* int *: index of the word in `choices` ("a|b|c")                         */
    FF_OPTION_HEADING, /* not an option: a line between groups in --help (in `help`)              */
} ff_option_kind;

/* The values of an option that may be used several times: pointers into argv. */
enum { FF_OPTION_LIST_LIMIT = 64 };
typedef struct ff_option_list {
    const char *value[FF_OPTION_LIST_LIMIT];
    int count;
} ff_option_list;

/* Used as the letter of every option in a library's table: messages then name the options without
 * dashes. */
#define FF_OPTION_BARE '-'

typedef struct ff_option {
    const char *name; /* without the dashes */
    char letter;      /* 0 = none; or FF_OPTION_BARE */
    ff_option_kind kind;
    /* The value's name in --help, "N"; for CHOICE NULL = the choices. A name "[N]" means that the
     * value is optional: without a value the option takes the word in `choices`. The next word of
     * the command line is then taken as the value only if it is a number, or for STRING if it is
     * not an option. */
    const char *argument;
    void *target;
    const char *choices;
    double minimum, maximum; /* INTEGER, REAL, BYTES */
    const char *help;        /* one sentence that states the default */
} ff_option;

typedef struct ff_command {
    const char *program; /* "ffpack" */
    const char *usage;   /* "ffpack SOURCE -o OUT [options]" */
    /* --help fills the paragraphs of summary and epilogue: their line ends count as blanks. A line
     * that begins with a blank is printed unchanged. */
    const char *summary;
    const ff_option *options; /* ends with an entry of name NULL and kind FLAG */
    const char *epilogue;     /* examples and exit codes; may be NULL */
    const ff_habit *habits;   /* names from other programs; may be NULL */
} ff_command;

/* The operands of a command line: strings of argv. */
typedef struct ff_positionals {
    const char **operand; /* [count]; owned array */
    int count;
    bool done; /* --help or --version was printed: nothing else to do */
} ff_positionals;

/* Parses argv[1..]. Writes option targets; an absent option leaves its target at the default. The
 * caller frees *positionals, after a failure too. FF_USAGE on any error in the command line. */
FF_MUST_USE ff_status ff_options_parse(const ff_command *command, int argc, char **argv,
                                       ff_positionals *positionals, ff_error *error);
/* Returns 0, the exit code of --help. */
int ff_positionals_free(ff_positionals *positionals);

/* Sets one option, as a line `name = value` of a file does; a flag is `yes` or `no`. FF_USAGE if
 * there is no option of that name; the error names the nearest one. */
FF_MUST_USE ff_status ff_options_set(const ff_command *command, const char *name, const char *value,
                                     ff_error *error);

/* Sets all options of a text, one line `name = value` each. Blanks around name and value, empty
 * lines and lines that begin with # are ignored. The text is modified and must outlive the targets.
 * Errors name `where` and the line. */
FF_MUST_USE ff_status ff_options_read(const ff_command *command, char *text, const char *where,
                                      ff_error *error);

/* Whether the option's target has the same value as `other`; a NULL string target always does. */
bool ff_option_same(const ff_option *option, const void *other);
/* Copies a value of the option's kind into its target. */
void ff_option_copy(const ff_option *option, const void *from);

/* Appends a line `name = value` for each option whose target differs from the default. All targets
 * are in one struct at `base`; `defaults` is a copy of that struct with the defaults. */
struct ff_buffer;
FF_MUST_USE ff_status ff_options_write(const ff_option *options, const void *base,
                                       const void *defaults, struct ff_buffer *text,
                                       ff_error *error);

/* Prints --help, 80 columns wide; usage and lines that begin with a blank must not be wider. */
void ff_options_help(const ff_command *command, FILE *out);
/* Prints --help WORD: the options with the word in their name, value or help, in any case, and the
 * habits with the word in their name. FF_USAGE if nothing has it. */
FF_MUST_USE ff_status ff_options_help_word(const ff_command *command, const char *word, FILE *out,
                                           ff_error *error);

/* Prints the command for the scripts that generate man pages and completions (`--describe`, which
 * --help does not list): one record per line, fields separated by tabs.
 *   command|version|usage|summary|heading|epilogue TEXT, a record for each line of TEXT
 *   option NAME LETTER ARGUMENT HELP; a flag's ARGUMENT is empty */
void ff_options_describe(const ff_command *command, FILE *out);

/* For options_file.c: finds an option by name; sets the target of an option that is not a flag from
 * its value. */
FF_MUST_USE ff_status ff_options_find(const ff_command *command, const char *name, size_t length,
                                      const ff_option **option, ff_error *error);
FF_MUST_USE ff_status ff_option_set(const ff_option *option, const char *value, ff_error *error);

/* The version of ffpack's programs and libraries. */
extern const char ff_version[];

#endif
