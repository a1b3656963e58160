/* ffpack: turns a dataset of images into shards of tensors. This file chooses the command. */
#include "tools/ffpack/command.h"

#include <string.h>

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {
        {"merge", ff_command_merge}, {"append", ff_command_append}, {"repair", ff_command_repair}};
    enum { COUNT = sizeof commands / sizeof *commands };
    for (int i = 0; argc > 1 && i < COUNT; i++)
        if (!strcmp(argv[1], commands[i].name)) return commands[i].run(argc - 1, argv + 1);
    int code = ff_command_pack(argc, argv);
    /* Manuals and completions have all commands in them. */
    for (int i = 0; argc == 2 && !strcmp(argv[1], "--describe") && i < COUNT; i++)
        code |= commands[i].run(argc, argv);
    return code;
}
