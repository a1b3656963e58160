#include "format/cli/options.h"

#include "format/base/memory.h"
#include "format/base/real.h"
#include "format/cli/nearest.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char ff_version[] = "0.1.0";

static bool is_end(const ff_option *option) {
    return !option->name && option->kind != FF_OPTION_HEADING;
}

static const ff_option *find(const ff_command *command, const char *name, size_t length) {
    for (const ff_option *option = command->options; !is_end(option); option++)
        if (option->name && strlen(option->name) == length && !memcmp(option->name, name, length))
            return option;
    return NULL;
}

static const ff_option *find_letter(const ff_command *command, char letter) {
    for (const ff_option *option = command->options; !is_end(option); option++)
        if (option->name && option->letter == letter) return option;
    return NULL;
}

static bool is_bare(const ff_option *option) {
    return option->letter == FF_OPTION_BARE;
}

static const char *dashes(const ff_option *option) {
    return is_bare(option) ? "" : "--";
}

/* A library has no --help, so all names are listed. */
static ff_status unlike(const ff_command *command, const char *name, size_t length,
                        ff_error *error) {
    char known[1024];
    size_t used = 0;
    for (const ff_option *option = command->options; !is_end(option); option++)
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                                     option->name);
    return ff_fail(error, FF_USAGE, "unknown option %.*s; there are %s", (int)length, name, known);
}

static ff_status unknown(const ff_command *command, const char *name, size_t length,
                         ff_error *error) {
    const char *here = ff_habit_find(command->habits, name, length);
    if (here) return ff_fail(error, FF_USAGE, "unknown option --%.*s: %s", (int)length, name, here);
    ff_nearest nearest = {.wanted = name, .length = length};
    if (!is_bare(command->options)) ff_nearest_offer(&nearest, "help");
    if (!is_bare(command->options)) ff_nearest_offer(&nearest, "version");
    for (const ff_option *option = command->options; !is_end(option); option++)
        if (option->name) ff_nearest_offer(&nearest, option->name);
    const char *mark = dashes(command->options);
    if (nearest.name)
        return ff_fail(error, FF_USAGE, "unknown option %s%.*s; did you mean %s%s?", mark,
                       (int)length, name, mark, nearest.name);
    if (is_bare(command->options)) return unlike(command, name, length, error);
    return ff_fail(error, FF_USAGE, "unknown option --%.*s; '%s --help' lists the options",
                   (int)length, name, command->program);
}

ff_status ff_options_find(const ff_command *command, const char *name, size_t length,
                          const ff_option **option, ff_error *error) {
    *option = find(command, name, length);
    return *option ? FF_OK : unknown(command, name, length, error);
}

static bool holds_real(const ff_option *option, double value) {
    return value >= option->minimum && value <= option->maximum; /* NaN is not */
}

/* Compared as whole numbers: as a double 2^53 + 1 would be 2^53. */
static bool holds_whole(const ff_option *option, int64_t value) {
    return value >= (int64_t)option->minimum && value <= (int64_t)option->maximum;
}

static ff_status parse_number(const ff_option *option, const char *text, ff_error *error) {
    char *end;
    errno = 0;
    double value = 0;
    int64_t whole = 0;
    if (option->choices && strcmp(text, option->choices) == 0) {
        *(int64_t *)option->target = (int64_t)option->minimum - 1;
        return FF_OK;
    }
    if (option->kind == FF_OPTION_REAL) {
        value = ff_real_read(text, &end);
    } else {
        whole = strtoll(text, &end, 10);
        if (option->kind == FF_OPTION_BYTES && end != text && *end) {
            const char *unit = strchr("KMGT", *end);
            if (unit && !end[1]) {
                for (long i = unit - "KMGT"; i >= 0 && !errno; i--)
                    if (__builtin_mul_overflow(whole, 1024, &whole)) errno = ERANGE;
                end++;
            }
        }
    }
    if (end == text || *end)
        return ff_fail(error, FF_USAGE, "%s%s: '%s' is not %s%s%s", dashes(option), option->name,
                       text,
                       option->kind == FF_OPTION_REAL      ? "a number"
                       : option->kind == FF_OPTION_INTEGER ? "a whole number"
                                                           : "a size like 4096, 64K, 128M or 1G",
                       option->choices ? " or " : "", option->choices ? option->choices : "");
    if (errno == ERANGE ||
        !(option->kind == FF_OPTION_REAL ? holds_real(option, value) : holds_whole(option, whole)))
        return ff_fail(error, FF_USAGE, "%s%s: %s is out of range; it must be from %.16g to %.16g",
                       dashes(option), option->name, text, option->minimum, option->maximum);
    if (option->kind == FF_OPTION_REAL)
        *(double *)option->target = value;
    else if (option->kind == FF_OPTION_INTEGER)
        *(int64_t *)option->target = whole;
    else
        *(uint64_t *)option->target = (uint64_t)whole;
    return FF_OK;
}

static ff_status refuse_choice(const ff_option *option, const char *text, ff_error *error) {
    char words[256], *rest = NULL;
    ff_nearest nearest = {.wanted = text, .length = strlen(text)};
    snprintf(words, sizeof words, "%s", option->choices);
    for (char *word = strtok_r(words, "|", &rest); word; word = strtok_r(NULL, "|", &rest))
        ff_nearest_offer(&nearest, word);
    const char *here = ff_habit_value(text, option->choices);
    if (here) nearest.name = here;
    if (nearest.name)
        return ff_fail(error, FF_USAGE, "%s%s: '%s' is not one of %s; did you mean %s?",
                       dashes(option), option->name, text, option->choices, nearest.name);
    return ff_fail(error, FF_USAGE,
                   "%s%s: '%s' is not one of "
                   "%s",
                   dashes(option), option->name, text, option->choices);
}

static ff_status parse_choice(const ff_option *option, const char *text, ff_error *error) {
    size_t length = strlen(text);
    int index = 0;
    for (const char *word = option->choices; word; index++) {
        const char *bar = strchr(word, '|');
        size_t word_length = bar ? (size_t)(bar - word) : strlen(word);
        if (word_length == length && !memcmp(word, text, length)) {
            *(int *)option->target = index;
            return FF_OK;
        }
        word = bar ? bar + 1 : NULL;
    }
    return refuse_choice(option, text, error);
}

static ff_status add_value(const ff_option *option, const char *value, ff_error *error) {
    ff_option_list *list = option->target;
    if (list->count == FF_OPTION_LIST_LIMIT)
        return ff_fail(error, FF_USAGE, "--%s: may be repeated %d times at most", option->name,
                       FF_OPTION_LIST_LIMIT);
    list->value[list->count++] = value;
    return FF_OK;
}

ff_status ff_option_set(const ff_option *option, const char *value, ff_error *error) {
    switch (option->kind) {
    case FF_OPTION_FLAG: *(bool *)option->target = true; return FF_OK;
    case FF_OPTION_STRING: *(const char **)option->target = value; return FF_OK;
    case FF_OPTION_LIST: return add_value(option, value, error);
    case FF_OPTION_INTEGER:
    case FF_OPTION_REAL:
    case FF_OPTION_BYTES: return parse_number(option, value, error);
    case FF_OPTION_CHOICE: return parse_choice(option, value, error);
    case FF_OPTION_HEADING: break;
    }
    return FF_OK;
}

/* Whether an option whose value is optional comes without one; next: the word after it, NULL =
 * none. */
static bool lacks_value(const ff_option *option, const char *next) {
    if (!option->argument || option->argument[0] != '[' || !option->choices) return false;
    if (!next || option->kind == FF_OPTION_STRING) return !next || *next == '-';
    return !*next || next[strspn(next, "0123456789")];
}

/* --help, --describe and --version, of which `next` may be the word after it. */
static bool is_answered(const ff_command *command, const char *text, const char *next,
                        ff_status *status, ff_error *error) {
    *status = FF_OK;
    if (!strcmp(text, "--help") || !strcmp(text, "-h")) {
        if (next && next[0] != '-')
            *status = ff_options_help_word(command, next, stdout, error);
        else
            ff_options_help(command, stdout);
    } else if (!strcmp(text, "--describe")) {
        ff_options_describe(command, stdout);
    } else if (!strcmp(text, "--version")) {
        printf("%s %s\n", command->program, ff_version);
    } else {
        return false;
    }
    return true;
}

/* The option that `text` names, "--name", "--name=value", "-j" or "-j4"; *value = NULL: not in
 * `text`. */
static ff_status find_option(const ff_command *command, const char *text, const ff_option **option,
                             const char **value, ff_error *error) {
    *value = NULL;
    if (text[1] == '-') {
        const char *name = text + 2, *equal = strchr(name, '=');
        size_t length = equal ? (size_t)(equal - name) : strlen(name);
        FF_TRY(ff_options_find(command, name, length, option, error));
        if (equal) *value = equal + 1;
        if (equal && (*option)->kind == FF_OPTION_FLAG)
            return ff_fail(error, FF_USAGE, "--%s takes no value", (*option)->name);
        return FF_OK;
    }
    *option = find_letter(command, text[1]);
    const char *here = *option ? NULL : ff_habit_find(command->habits, text + 1, 1);
    if (here) return ff_fail(error, FF_USAGE, "unknown option -%c: %s", text[1], here);
    if (text[2]) *value = text + 2;
    if (!*option || (*value && (*option)->kind == FF_OPTION_FLAG))
        return ff_fail(error, FF_USAGE, "unknown option %s; '%s --help' lists the options", text,
                       command->program);
    return FF_OK;
}

ff_status ff_options_parse(const ff_command *command, int argc, char **argv,
                           ff_positionals *positionals, ff_error *error) {
    *positionals = (ff_positionals){0};
    FF_TRY(ff_alloc(&positionals->operand, (uint64_t)argc + 1, sizeof *positionals->operand,
                    "arguments", error));
    bool only_positional = false;
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (only_positional || text[0] != '-' || !text[1]) {
            positionals->operand[positionals->count++] = text;
            continue;
        }
        if (!strcmp(text, "--")) {
            only_positional = true;
            continue;
        }
        ff_status status;
        if (is_answered(command, text, next, &status, error)) {
            positionals->done = true;
            return status;
        }
        const ff_option *option;
        const char *value;
        FF_TRY(find_option(command, text, &option, &value, error));
        if (!value && lacks_value(option, next)) value = option->choices;
        if (option->kind != FF_OPTION_FLAG && !value) {
            if (!next)
                return ff_fail(error, FF_USAGE, "--%s needs a value (%s)", option->name,
                               option->argument ? option->argument : option->choices);
            value = next;
            i++;
        }
        FF_TRY(ff_option_set(option, value, error));
    }
    return FF_OK;
}

int ff_positionals_free(ff_positionals *positionals) {
    free(positionals->operand);
    *positionals = (ff_positionals){0};
    return 0;
}

enum { HELP_WIDTH = 80, HELP_COLUMN = 26, VALUE_COLUMN = 10 };

/* Prints the words of `text` (`length` bytes), wrapped and indented to column `indent`. */
static void print_words(FILE *out, const char *text, size_t length, int indent) {
    int column = indent;
    for (const char *end = text + length; text < end;) {
        int word = (int)strcspn(text, " \n");
        if (word > end - text) word = (int)(end - text);
        if (column > indent && column + 1 + word > HELP_WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        column += fprintf(out, "%s%.*s", column > indent ? " " : "", word, text);
        text += word + 1;
    }
}

/* A paragraph is filled; a line that begins with a blank is printed unchanged. */
static void print_paragraphs(FILE *out, const char *text) {
    while (*text) {
        size_t length = strcspn(text, "\n");
        bool filled = length && *text != ' ';
        while (filled && text[length] && !strchr(" \n", text[length + 1]))
            length += 1 + strcspn(text + length + 1, "\n");
        if (filled)
            print_words(out, text, length, 0);
        else
            fprintf(out, "%.*s", (int)length, text);
        fputc('\n', out);
        text += length + (text[length] == '\n');
    }
}

/* Prints what stands for an option's value, from `column` on; a line that would be too long is
 * broken after a |. Returns the column after it. */
static int print_value(FILE *out, const char *text, int column) {
    for (int word; *text; text += word) {
        word = (int)strcspn(text, "|");
        word += text[word] == '|';
        if (column + word > HELP_WIDTH) column = fprintf(out, "\n%*s", VALUE_COLUMN, "") - 1;
        column += fprintf(out, "%.*s", word, text);
    }
    return column;
}

static void print_option(FILE *out, const ff_option *option) {
    int column = option->letter ? fprintf(out, "  -%c, --%s", option->letter, option->name)
                                : fprintf(out, "      --%s", option->name);
    if (option->kind != FF_OPTION_FLAG) {
        fputc(' ', out);
        column =
            print_value(out, option->argument ? option->argument : option->choices, column + 1);
    }
    if (column + 2 > HELP_COLUMN) {
        fputc('\n', out);
        column = 0;
    }
    fprintf(out, "%*s", HELP_COLUMN - column, "");
    print_words(out, option->help, strlen(option->help), HELP_COLUMN);
    fputc('\n', out);
}

void ff_options_help(const ff_command *command, FILE *out) {
    fprintf(out, "Usage: %s\n\n", command->usage);
    print_paragraphs(out, command->summary);
    for (const ff_option *option = command->options; !is_end(option); option++)
        if (option->kind == FF_OPTION_HEADING)
            fprintf(out, "\n%s:\n", option->help);
        else
            print_option(out, option);
    fprintf(out, "\nAlso:\n      --help [WORD], --version\n");
    if (!command->epilogue) return;
    fputc('\n', out);
    print_paragraphs(out, command->epilogue);
}

static bool has_word(const ff_option *option, const char *word) {
    const char *value = option->argument ? option->argument : option->choices;
    return strcasestr(option->name, word) || strcasestr(option->help, word) ||
           (value && strcasestr(value, word));
}

ff_status ff_options_help_word(const ff_command *command, const char *word, FILE *out,
                               ff_error *error) {
    bool any = false;
    for (const ff_option *option = command->options; !is_end(option); option++) {
        if (!option->name || !has_word(option, word)) continue;
        print_option(out, option);
        any = true;
    }
    const char *here = ff_habit_find(command->habits, word, strlen(word));
    if (here) fprintf(out, "--%s: %s\n", word, here);
    if (any || here) return FF_OK;
    return ff_fail(error, FF_USAGE, "--help: no option of %s has '%s'; '%s --help' lists all",
                   command->program, word, command->program);
}
