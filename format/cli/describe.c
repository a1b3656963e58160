#include "format/cli/options.h"

/* One record per line, its name first; a text of several lines becomes one record per line. */
static void describe(FILE *out, const char *record, const char *text) {
    fprintf(out, "%s\t", record);
    for (; *text; text++) {
        fputc(*text, out);
        if (*text == '\n') fprintf(out, "%s\t", record);
    }
    fputc('\n', out);
}

void ff_options_describe(const ff_command *command, FILE *out) {
    describe(out, "command", command->program);
    describe(out, "version", ff_version);
    describe(out, "usage", command->usage);
    describe(out, "summary", command->summary);
    for (const ff_option *option = command->options;
         option->name || option->kind == FF_OPTION_HEADING; option++) {
        const char letter[2] = {option->letter, 0};
        if (option->kind == FF_OPTION_HEADING)
            describe(out, "heading", option->help);
        else
            fprintf(out, "option\t%s\t%s\t%s\t%s\n", option->name, letter,
                    option->kind == FF_OPTION_FLAG ? ""
                    : option->argument             ? option->argument
                                                   : option->choices,
                    option->help);
    }
    if (command->epilogue) describe(out, "epilogue", command->epilogue);
}
