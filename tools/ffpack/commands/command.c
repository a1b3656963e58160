#include "tools/ffpack/commands/command.h"

#include "format/base/json.h"
#include "format/base/path.h"
#include "format/base/quote.h"
#include "format/storage/storage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

ff_status ff_command_parse(const ff_command *command, int argc, char **argv,
                           ff_positionals *operands, ff_error *error) {
    FF_TRY(ff_options_parse(command, argc, argv, operands, error));
    if (!operands->done || (fflush(stdout) == 0 && !ferror(stdout))) return FF_OK;
    return ff_fail_errno(error, "stdout: cannot write");
}

ff_status ff_command_parse_after(const ff_command *command, const ff_recorded *options, int argc,
                                 char **argv, ff_positionals *operands, ff_error *error) {
    char **all;
    FF_TRY(ff_alloc(&all, options->count + (size_t)argc + 1, sizeof *all, "arguments", error));
    int count = 0;
    all[count++] = argv[0];
    for (size_t i = 0; i < options->count; i++) all[count++] = options->option[i];
    for (int i = 1; i < argc; i++) all[count++] = argv[i];
    ff_positionals_free(operands);
    const ff_status status = ff_command_parse(command, count, all, operands, error);
    free(all);
    return status;
}

int ff_command_fail(const ff_error *error, const char *more, int argc, char **argv) {
    fprintf(stderr, "ffpack: %s", error->message);
    if (more) fprintf(stderr, "; %s", more);
    for (int i = 0; more && i < argc; i++) {
        ff_buffer word = {0};
        const size_t shown = ff_storage_shown_bytes(argv[i]);
        char *text = NULL;
        if (argv[i][shown]) (void)!ff_format(&text, NULL, "%.*s?...", (int)shown, argv[i]);
        if (ff_shell_quote(&word, text ? text : argv[i], NULL) == FF_OK)
            fprintf(stderr, " %s", word.bytes);
        ff_buffer_free(&word);
        free(text);
    }
    fputc('\n', stderr);
    return ff_exit_code(error);
}

char *ff_command_kept(const char *output) {
    char *folder = NULL;
    if (ff_format(&folder, NULL, "%.*s.partial", (int)ff_path_length(output), output) == FF_OK &&
        ff_path_exists("%s", folder))
        return folder;
    free(folder);
    return NULL;
}

void ff_command_notice(void *context, const char *message) {
    (void)context;
    fprintf(stderr, "ffpack: %s\n", message);
}

static void print_broken(int *failed, const char *line) {
    if ((puts(line) == EOF || fflush(stdout) != 0) && !*failed) *failed = errno;
}

void ff_command_broken(void *context, const char *split, const char *name, const char *reason) {
    (void)split, (void)name;
    print_broken(context, reason);
}

void ff_command_broken_json(void *context, const char *split, const char *name,
                            const char *reason) {
    json_t *object =
        json_pack("{s:s, s:o, s:o, s:o}", "event", "broken", "split", ff_json_text(split), "name",
                  ff_json_text(name), "reason", ff_json_text(reason));
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    if (text) print_broken(context, text);
    free(text);
    json_decref(object);
}

ff_status ff_command_listed(ff_status status, int failed, ff_error *error) {
    if (!failed || status == FF_INTERRUPTED) return status;
    errno = failed;
    return ff_fail_errno(error, "stdout: cannot write the list of broken images");
}

ff_status ff_command_flush(ff_error *error) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return FF_OK;
    return ff_fail_errno(error, "stdout: cannot write the summary");
}
