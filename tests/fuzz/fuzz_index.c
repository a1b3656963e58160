/* An index of any bytes next to the shards of a golden set: the reader and the verifier. The set is
 * the one that the index's first row names, so that mutations elsewhere are reached. */
#include "tests/fuzz/set.h"

enum { MOST_SETS = 64, MOST_SHARDS = 8 };

typedef struct golden_set {
    uint64_t first_footer; /* its checksum, from the index's first row */
    uint32_t count;
    uint8_t *bytes[MOST_SHARDS];
    size_t length[MOST_SHARDS];
} golden_set;

static golden_set golden[MOST_SETS];
static size_t golden_count;
static const golden_set *in_place; /* whose shards are in the folder */

static uint8_t *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    uint8_t *bytes = malloc(FF_FUZZ_MOST_BYTES);
    CHECK(bytes);
    *length = fread(bytes, 1, FF_FUZZ_MOST_BYTES, file);
    fclose(file);
    return bytes;
}

static void free_golden(void) {
    for (size_t i = 0; i < golden_count; i++)
        for (uint32_t k = 0; k < golden[i].count; k++) free(golden[i].bytes[k]);
}

/* The tests run in the repository's root. */
static void load_golden(void) {
    static const char root[] = "tests/golden/v0";
    DIR *folder = golden_count ? NULL : opendir(root);
    if (!folder) return;
    for (struct dirent *item; (item = readdir(folder)) && golden_count < MOST_SETS;) {
        golden_set *set = &golden[golden_count];
        char path[600], name[32];
        size_t length;
        snprintf(path, sizeof path, "%s/%.200s/set/" FF_INDEX_NAME, root, item->d_name);
        uint8_t *index = read_file(path, &length);
        if (!index) continue;
        uint64_t rows = ff_load_u64(index + 84 + 24 * FF_INDEX_SHARDS);
        set->first_footer = ff_load_u64(index + rows + 16);
        free(index);
        for (; set->count < MOST_SHARDS; set->count++) {
            ff_shard_name(name, set->count);
            snprintf(path, sizeof path, "%s/%.200s/set/%s", root, item->d_name, name);
            set->bytes[set->count] = read_file(path, &set->length[set->count]);
            if (!set->bytes[set->count]) break;
        }
        golden_count += set->count > 0;
    }
    closedir(folder);
    atexit(free_golden);
}

static void place_shards(const uint8_t *index, size_t length, unsigned choice) {
    const golden_set *set = golden_count ? &golden[choice % golden_count] : NULL;
    if (length >= FF_HEADER_BYTES) {
        uint64_t rows = ff_load_u64(index + 84 + 24 * FF_INDEX_SHARDS);
        for (size_t i = 0; fuzz_fits(rows, 64, length) && i < golden_count; i++)
            if (golden[i].first_footer == ff_load_u64(index + rows + 16)) set = &golden[i];
    }
    if (!set || set == in_place) return;
    for (uint32_t i = 0; i < MOST_SHARDS; i++) {
        char name[32], path[256];
        ff_shard_name(name, i);
        snprintf(path, sizeof path, "%s/%s", fuzz_folder, name);
        unlink(path);
        if (i < set->count) fuzz_write(name, set->bytes[i], set->length[i]);
    }
    in_place = set;
}

static void try_index(const uint8_t *bytes, size_t length, unsigned choice) {
    place_shards(bytes, length, choice);
    fuzz_write(FF_INDEX_NAME, bytes, length);
    fuzz_read((ff_verify)(choice % 3));
    (void)fuzz_verify();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    unsigned choice = fuzz_hash(bytes, length);
    fuzz_make_folder();
    load_golden();
    try_index(bytes, length, choice);
    uint8_t *repaired = malloc(length ? length : 1);
    if (!repaired) return 0;
    if (length) memcpy(repaired, bytes, length);
    fuzz_repair_index(repaired, length);
    if (length && memcmp(repaired, bytes, length) != 0) try_index(repaired, length, choice);
    free(repaired);
    return 0;
}

FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
