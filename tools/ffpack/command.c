#include "tools/ffpack/command.h"

#include "format/base/path.h"
#include "format/base/quote.h"

#include <stdio.h>
#include <stdlib.h>

ff_status ff_command_parse(const ff_command *command, int argc, char **argv,
                           ff_positionals *operands, ff_error *error) {
    ff_options_result result;
    *operands = (ff_positionals){0};
    FF_TRY(ff_alloc(&operands->operand, (uint64_t)argc + 1, sizeof *operands->operand, "arguments",
                    error));
    FF_TRY(
        ff_options_parse(command, argc, argv, operands->operand, &operands->count, &result, error));
    operands->done = result == FF_OPTIONS_DONE;
    if (!operands->done || (fflush(stdout) == 0 && !ferror(stdout))) return FF_OK;
    return ff_fail_errno(error, "stdout: cannot write");
}

int ff_positionals_free(ff_positionals *operands) {
    free(operands->operand);
    *operands = (ff_positionals){0};
    return 0;
}

int ff_command_fail(const ff_error *error, const char *more, int argc, char **argv) {
    fprintf(stderr, "ffpack: %s", error->message);
    if (more) fprintf(stderr, "; %s", more);
    for (int i = 0; more && i < argc; i++) {
        ff_buffer word = {0};
        if (ff_shell_quote(&word, argv[i], NULL) == FF_OK) fprintf(stderr, " %s", word.bytes);
        ff_buffer_free(&word);
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

ff_status ff_command_flush(ff_error *error) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return FF_OK;
    return ff_fail_errno(error, "stdout: cannot write the summary");
}
