#include "format/cli/host_memory.h"

#include "format/cli/options.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FOLDER_BYTES = 4096 };

/* Reads the first number in `folder`/`name`, or with `word` the number after this word at the start
 * of a line. False if there is no such number ("max": no limit). */
static bool read_number(const char *folder, const char *name, const char *word, uint64_t *number) {
    char path[FOLDER_BYTES + 64], line[512];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return false;
    bool found = false;
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const size_t length = word ? strlen(word) : 0;
    while (!found && fgets(line, sizeof line, file))
        if (!word || strncmp(line, word, length) == 0)
            found = sscanf(line + length, "%" SCNu64, number) == 1;
    fclose(file);
    return found;
}

static void lower(ff_host_memory *memory, uint64_t bytes, const char *limit) {
    if (bytes < memory->bytes) *memory = (ff_host_memory){bytes, limit};
}

/* The limit of one group, by its folder; false if there is none. Above memory.high the kernel takes
 * pages back, and slows the group's processes down. */
static bool read_limit(const char *folder, bool v2, uint64_t *limit) {
    uint64_t high;
    const bool most = read_number(folder, v2 ? "memory.max" : "memory.limit_in_bytes", NULL, limit);
    if (!v2 || !read_number(folder, "memory.high", NULL, &high)) return most;
    if (!most || high < *limit) *limit = high;
    return true;
}

/* Looks at the folder of one group. */
static void look_at_group(ff_host_memory *memory, const char *folder, bool v2, bool files) {
    uint64_t limit, used, inactive = 0, active = 0;
    if (!read_limit(folder, v2, &limit) ||
        !read_number(folder, v2 ? "memory.current" : "memory.usage_in_bytes", NULL, &used))
        return;
    (void)read_number(folder, "memory.stat", v2 ? "inactive_file " : "total_inactive_file ",
                      &inactive);
    if (files)
        (void)read_number(folder, "memory.stat", v2 ? "active_file " : "total_active_file ",
                          &active);
    const uint64_t cache = inactive + active;
    used -= cache < used ? cache : used;
    lower(memory, limit > used ? limit - used : 0, "left of its cgroup's limit");
}

/* Looks at the group and all groups above it. In a container the path may be the host's, and only
 * the root exists. */
static void look_at_groups(ff_host_memory *memory, const char *root, char *group, bool v2,
                           bool files) {
    char folder[FOLDER_BYTES];
    for (;;) {
        if (snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s%s", root, v2 ? "" : "/memory",
                     group) < (int)sizeof folder)
            look_at_group(memory, folder, v2, files);
        char *end = strrchr(group, '/');
        if (!end) return;
        *end = 0;
    }
}

/* Lines "0::/path" of version 2, "9:cpu,memory:/path" of version 1. */
static void look_at_all_groups(ff_host_memory *memory, const char *root, bool files) {
    char path[FOLDER_BYTES + 64], line[FOLDER_BYTES];
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path) return;
    FILE *file = fopen(path, "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        const bool v2 = names[1] == 0;
        if (v2 || strstr(names + 1, "memory"))
            look_at_groups(memory, root, strcmp(group, "/") == 0 ? group + 1 : group, v2, files);
    }
    fclose(file);
}

/* UINT64_MAX = no limit. */
static uint64_t addresses_left(const char *root) {
    struct rlimit addresses;
    uint64_t pages;
    if (getrlimit(RLIMIT_AS, &addresses) != 0 || addresses.rlim_cur == RLIM_INFINITY ||
        !read_number(root, "proc/self/statm", NULL, &pages))
        return UINT64_MAX;
    const uint64_t used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return addresses.rlim_cur > used ? addresses.rlim_cur - used : 0;
}

ff_host_maps ff_host_maps_left(const char *root) {
    enum { SPARE = 1024 };
    ff_host_maps left = {addresses_left(root), UINT64_MAX};
    char path[FOLDER_BYTES + 64];
    uint64_t most, used = SPARE;
    if (!read_number(root, "proc/sys/vm/max_map_count", NULL, &most) ||
        snprintf(path, sizeof path, "%s/proc/self/maps", root) >= (int)sizeof path)
        return left;
    FILE *file = fopen(path, "re"); /* one mapping per line */
    for (int c; file && (c = getc(file)) != EOF;) used += c == '\n';
    if (file) fclose(file);
    left.mappings = most > used ? most - used : 0;
    return left;
}

/* files: all page cache counts as free. */
static ff_host_memory look(const char *root, bool files) {
    ff_host_memory memory = {UINT64_MAX, "available"};
    uint64_t number;
    if (read_number(root, "proc/meminfo", "MemAvailable:", &number))
        lower(&memory, number * 1024, "available");
    look_at_all_groups(&memory, root, files);
    lower(&memory, addresses_left(root), "left of its address space (ulimit -v)");
    return memory;
}

ff_host_memory ff_host_memory_left(const char *root) {
    return look(root, false);
}

ff_status ff_host_memory_for_files(const char *root, uint64_t most, uint64_t reserved,
                                   ff_host_memory *memory, ff_error *error) {
    const char *given = most ? NULL : getenv("FFLOAD_MEMORY");
    uint64_t variable = UINT64_MAX;
    const ff_option option = {.name = "FFLOAD_MEMORY",
                              .letter = FF_OPTION_BARE,
                              .kind = FF_OPTION_BYTES,
                              .target = &variable,
                              .maximum = 1e18};
    *memory = look(root, true);
    if (memory->bytes != UINT64_MAX)
        memory->bytes -= reserved < memory->bytes ? reserved : memory->bytes;
    if (given && *given) FF_TRY(ff_option_set(&option, given, error));
    lower(memory, variable, "by FFLOAD_MEMORY");
    if (most) lower(memory, most, "by the option memory");
    return FF_OK;
}
