/* The table of GPUs and kernels, and the launches that it refuses. */
#include "tests/cuda/strict/limits.h"

#include "tests/cuda/strict/state.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CARDS_MOST = 8, KERNELS_MOST = 4096, WARP = 32, WARPS_AT_ONCE = 4, REGISTERS_AT_ONCE = 256 };

static strict_card cards[CARDS_MOST];
static strict_kernel kernels[KERNELS_MOST];
static int card_count, kernel_count;

static int round_up(int value, int step) {
    return (value + step - 1) / step * step;
}

/* "CUDA C++ Programming Guide", Compute Capabilities. A warp's registers are allocated 256 at a
 * time, and for the check the warps of all four parts of a multiprocessor count (cuda_occupancy.h,
 * cudaOccMaxBlocksPerSMRegsLimit). */
const char *strict_refusal(const strict_card *card, const strict_kernel *kernel,
                           const ff_cudasim_launch *launch) {
    const unsigned *block = launch->block;
    const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    for (int i = 0; i < 3; i++) {
        if (launch->grid[i] < 1 || launch->grid[i] > (unsigned)card->grid[i])
            return "a grid beyond the GPU's limits";
        if (block[i] < 1 || block[i] > (unsigned)card->block[i])
            return "a block beyond the GPU's limits";
    }
    if (threads > (unsigned)card->threads) return "more threads than a block may have";
    if (threads > (unsigned)kernel->threads) return "more threads than the kernel's launch bounds";
    const int warps = round_up(((int)threads + WARP - 1) / WARP, WARPS_AT_ONCE);
    if (warps * round_up(kernel->registers * WARP, REGISTERS_AT_ONCE) > card->registers)
        return "more registers than a block has";
    const size_t shared = launch->shared_bytes + (size_t)kernel->shared;
    if (shared > (size_t)card->asked_shared) return "more shared memory than a block has";
    if (shared > (size_t)card->shared && launch->asked < launch->shared_bytes)
        return "more shared memory than a block has without cudaFuncSetAttribute";
    return NULL;
}

/* ---- the table ---- */

static FILE *open_table(void) {
    char path[PATH_MAX];
    const char *given = getenv("FF_STRICT_KERNELS");
    if (given) return fopen(given, "r");
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof "kernels");
    if (length < 0) return NULL;
    path[length] = 0;
    memcpy(strrchr(path, '/') + 1, "kernels", sizeof "kernels");
    return fopen(path, "r");
}

static void read_table(void) {
    char line[2048], name[2048];
    FILE *table = open_table();
    while (table && fgets(line, sizeof line, table)) {
        if (card_count == CARDS_MOST || kernel_count == KERNELS_MOST) abort();
        strict_card *c = &cards[card_count];
        strict_kernel *k = &kernels[kernel_count];
        *k = (strict_kernel){0};
        card_count +=
            sscanf(line, "card %31s %d %d %d %d %d %d %d %d %d %d %d", c->name, &c->architecture,
                   &c->threads, &c->block[0], &c->block[1], &c->block[2], &c->grid[0], &c->grid[1],
                   &c->grid[2], &c->registers, &c->shared, &c->asked_shared) == 12;
        if (sscanf(line, "kernel %2047s %d %d %d %d", name, &k->architecture, &k->registers,
                   &k->shared, &k->threads) != 5)
            continue;
        k->name = strdup(name);
        kernel_count++;
    }
    if (!card_count || !kernel_count)
        fail(NULL, NULL, NULL, "the table of kernels has no GPU or no kernel");
    if (table) fclose(table);
}

/* g++ marks a function that only its file sees with an L, nvcc does not. */
static void set_address(char *name, const void *address) {
    if (!strncmp(name, "_ZL", 3)) memmove(name + 2, name + 3, strlen(name + 2));
    for (int i = 0; i < kernel_count; i++)
        if (!strcmp(kernels[i].name, name)) kernels[i].address = address;
}

static void read_addresses(void) {
    char command[64], line[2048], name[2048];
    unsigned long long offset;
    Dl_info program;
    if (!dladdr((const void *)strict_counted, &program)) abort();
    snprintf(command, sizeof command, "nm /proc/%d/exe", (int)getpid());
    FILE *found = popen(command, "r");
    while (found && fgets(line, sizeof line, found))
        if (strstr(line, "_kernel") && sscanf(line, "%llx %*1[tTW] %2047s", &offset, name) == 2)
            set_address(name, (const char *)program.dli_fbase + offset);
    if (found) pclose(found);
}

/* Names of kernels that were launched, for the test that counts them. */
static void note(const char *name) {
    const char *path = getenv("FF_STRICT_LAUNCHED");
    FILE *list = path ? fopen(path, "a") : NULL;
    if (!list) return;
    fprintf(list, "%s\n", name);
    fclose(list);
}

const char *strict_refusal_of_all(const ff_cudasim_launch *launch) {
    static char sentence[4096];
    static bool noted[KERNELS_MOST];
    int first = -1;
    if (!kernel_count) {
        read_table();
        read_addresses();
    }
    for (int i = 0; i < kernel_count; i++) {
        if (kernels[i].address != launch->kernel) continue;
        if (first < 0) first = i;
        for (int k = 0; k < card_count; k++) {
            if (cards[k].architecture != kernels[i].architecture) continue;
            const char *why = strict_refusal(&cards[k], &kernels[i], launch);
            if (!why) continue;
            snprintf(sentence, sizeof sentence, "%s: %s (%s)", cards[k].name, why, kernels[i].name);
            return sentence;
        }
    }
    if (first < 0) return "the table of kernels does not have the kernel";
    if (!noted[first]) note(kernels[first].name);
    noted[first] = true;
    return NULL;
}
