/* ffpack: turns a dataset of images into shards of tensors. This file chooses the command. */
#include "tools/ffpack/command.h"

int main(int argc, char **argv) {
    return ff_command_pack(argc, argv);
}
