/* Command lines: parser and --help from one table.
 *
 * `--name value`, `--name=value`, `-x value`; `--` ends the options; an unknown option is refused
 * with our word for it (habits.h) or the nearest known one named. `--help`, `--help WORD` and
 * `--version` are always known. */
#ifndef FF_BASE_OPTIONS_H
#define FF_BASE_OPTIONS_H

#include "format/base/habits.h"
#include "format/base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef enum ff_option_kind {
    FF_OPTION_FLAG,    /* bool *: set true                                                        */
    FF_OPTION_STRING,  /* const char **: points into argv                                         */
    FF_OPTION_INTEGER, /* int64_t *: within [minimum, maximum]; `choices`, a word, is minimum - 1 */
    FF_OPTION_REAL,    /* double *: within [minimum, maximum]; NaN and infinity refused           */
    FF_OPTION_BYTES,   /* uint64_t *: 4096, 64K, 128M, 1G (powers of 1024), within the range      */
    FF_OPTION_LIST,    /* ff_option_list *: each time it is given, one more                       */
    FF_OPTION_CHOICE,  /* int *: index of the word in `choices` ("a|b|c")                         */
    FF_OPTION_HEADING, /* no option: a line between groups in --help (in `help`)                  */
} ff_option_kind;

/* The values of an option that may be given several times: pointers into argv. */
enum { FF_OPTION_LIST_LIMIT = 64 };
typedef struct ff_option_list {
    const char *value[FF_OPTION_LIST_LIMIT];
    int count;
} ff_option_list;

/* In place of a letter, in all options of a table: they are a library's, and messages have their
 * names without dashes. */
#define FF_OPTION_BARE '-'

typedef struct ff_option {
    const char *name; /* without the dashes */
    char letter;      /* 0 = none; or FF_OPTION_BARE */
    ff_option_kind kind;
    /* The value's name in --help, "N"; for CHOICE NULL = the choices. "[N]" may be left out where
     * `choices` has a word, which then is the value: the next word of the command line is taken
     * only where it is a number, by STRING where it is no option. */
    const char *argument;
    void *target;
    const char *choices;
    double minimum, maximum; /* INTEGER, REAL, BYTES */
    const char *help;        /* one sentence; the default named in it */
} ff_option;

typedef struct ff_command {
    const char *program; /* "ffpack" */
    const char *usage;   /* "ffpack SOURCE -o OUT [options]" */
    /* --help fills the paragraphs of summary and epilogue: their line ends count as blanks. A line
     * that begins with a blank is printed as it is. */
    const char *summary;
    const ff_option *options; /* ends with an entry of name NULL and kind FLAG */
    const char *epilogue;     /* examples and exit codes; may be NULL */
    const ff_habit *habits;   /* names from other programs; may be NULL */
} ff_command;

typedef enum ff_options_result {
    FF_OPTIONS_RUN,  /* continue */
    FF_OPTIONS_DONE, /* --help or --version was printed: exit 0 */
} ff_options_result;

/* Parses argv[1..]. Writes option targets; positional arguments are stored in `positional` (space
 * for argc), *positional_count of them. A target keeps its default where its option is absent.
 * FF_USAGE on anything wrong. */
FF_MUST_USE ff_status ff_options_parse(const ff_command *command, int argc, char **argv,
                                       const char **positional, int *positional_count,
                                       ff_options_result *result, ff_error *error);

/* Sets one option as a line `name = value` of a file does; a flag is `yes` or `no`. FF_USAGE naming
 * the nearest option where there is none of that name. */
FF_MUST_USE ff_status ff_options_set(const ff_command *command, const char *name, const char *value,
                                     ff_error *error);

/* All lines of a text: `name = value`, blanks around both are ignored, as are empty lines and those
 * that begin with #. The text is changed and must outlive the targets. Errors name `where` and the
 * line. */
FF_MUST_USE ff_status ff_options_read(const ff_command *command, char *text, const char *where,
                                      ff_error *error);

/* Whether the option's target has the same value as another place; a string NULL is any. */
bool ff_option_same(const ff_option *option, const void *other);
/* Copies a value of the option's kind into its target. */
void ff_option_copy(const ff_option *option, const void *from);

/* The shortest text from which the same double is read. */
void ff_real_text(double value, char text[32]);
/* Appends such a line for each option whose target differs from the default. All targets are in one
 * struct at `base`; `defaults` is a copy of it with the defaults. */
struct ff_buffer;
FF_MUST_USE ff_status ff_options_write(const ff_option *options, const void *base,
                                       const void *defaults, struct ff_buffer *text,
                                       ff_error *error);

/* Prints --help, 80 columns wide; usage and lines that begin with a blank must be that narrow. */
void ff_options_help(const ff_command *command, FILE *out);
/* Prints --help WORD: the options whose name, value or help has the word, in any case, and the
 * habits whose name has it. FF_USAGE where there are none. */
FF_MUST_USE ff_status ff_options_help_word(const ff_command *command, const char *word, FILE *out,
                                           ff_error *error);

/* Prints the command for the scripts that generate man pages and completions (`--describe`, which
 * --help leaves out): a record a line, fields with tabs between.
 *   command|version|usage|summary|heading|epilogue TEXT, a record for each line of TEXT
 *   option NAME LETTER ARGUMENT HELP; an empty ARGUMENT is that of a flag */
void ff_options_describe(const ff_command *command, FILE *out);

/* For options_file.c. An option by its name; and its target set from a value that is not a flag's.
 */
FF_MUST_USE ff_status ff_options_find(const ff_command *command, const char *name, size_t length,
                                      const ff_option **option, ff_error *error);
FF_MUST_USE ff_status ff_option_set(const ff_option *option, const char *value, ff_error *error);

/* The version of ffpack's programs and libraries. */
extern const char ff_version[];

#endif
