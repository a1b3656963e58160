/* ffpack: turns a dataset of images into shards of tensors. This file chooses the command. */
#include "format/base/file.h"
#include "format/cli/nearest.h"
#include "tools/ffpack/commands/command.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
    const char *word;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"merge", ff_command_merge}, {"append", ff_command_append}, {"check", ff_command_check},
    {"copy", ff_command_copy},   {"repair", ff_command_repair}, {"ls", ff_command_ls},
    {"push", ff_command_push},   {"pull", ff_command_pull},     {"verify", ff_command_verify}};

enum { COMMANDS = sizeof commands / sizeof *commands };

/* The command nearest to a first word that is neither a command nor a path. */
static const char *meant(const char *word) {
    struct stat info;
    ff_nearest nearest = {.wanted = word, .length = strlen(word)};
    if (*word == '-' || lstat(word, &info) == 0) return NULL;
    for (int i = 0; i < COMMANDS; i++) ff_nearest_offer(&nearest, commands[i].word);
    return nearest.name;
}

/* Whether the first word can only be meant as a command: it is not a path, and another operand or
 * nothing follows it. */
static bool is_command_like(int argc, char **argv) {
    struct stat info;
    const char *word = argv[1];
    if (!*word || word[strspn(word, "abcdefghijklmnopqrstuvwxyz-")] || *word == '-') return false;
    return lstat(word, &info) != 0 && (argc == 2 || argv[2][0] != '-');
}

static int refuse(const char *word) {
    const char *near = meant(word);
    ff_error error = {0};
    (void)!ff_fail(&error, FF_USAGE, "%s: is neither a command nor a file or folder; %s%s%s", word,
                   near ? "did you mean ffpack " : "the commands are ",
                   near ? near
                        : "merge, append, check, copy, repair, ls, push, pull and verify, and "
                          "ffpack SOURCE -o OUT packs",
                   near ? "?" : "");
    return ff_command_fail(&error, NULL, 0, NULL);
}

/* A closed pipe, as in `ffpack repair SET | head`, is a failed write. */
int main(int argc, char **argv) {
    ff_hold_standard_files();
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; argc > 1 && i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].word)) return commands[i].run(argc - 1, argv + 1);
    if (argc > 1 && (meant(argv[1]) || is_command_like(argc, argv))) return refuse(argv[1]);
    int code = ff_command_pack(argc, argv);
    /* Man pages and completions cover all commands. */
    for (int i = 0; !code && argc == 2 && !strcmp(argv[1], "--describe") && i < COMMANDS; i++)
        code = commands[i].run(argc, argv);
    return code;
}
