/* ffpack: turns a dataset of images into shards of tensors. This file chooses the command. */
#include "tools/ffpack/command.h"

#include <string.h>

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "merge")) return ff_command_merge(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "append")) return ff_command_append(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "repair")) return ff_command_repair(argc - 1, argv + 1);
    return ff_command_pack(argc, argv);
}
