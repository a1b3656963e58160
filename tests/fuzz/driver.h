/* A fuzz target's own main, for compilers without a fuzzer: every target defines
 * LLVMFuzzerTestOneInput and ends with
 *
 *     FF_FUZZ_MAIN(LLVMFuzzerTestOneInput)
 *
 * Built with -DFF_LIBFUZZER there is no main, and libFuzzer's is linked instead. Otherwise:
 *
 *     fuzz_NAME PATH...                         runs each file (of each folder) once, in order
 *     fuzz_NAME -seconds N [-seed S] PATH...    also runs mutations of them for N seconds
 *     fuzz_NAME -runs N [-seed S] PATH...       the same for N mutations
 *     -save FOLDER                              the folder for a failing input (default .)
 *
 * Mutation n depends on (seed, n) and the corpus alone, so a run is repeated by its seed: bit
 * flips, bytes set, interesting integers of 1 to 8 bytes in both byte orders, parts cut, repeated
 * or copied from another input of the corpus, truncation. An input on which the target crashes,
 * fails a sanitizer's check, or takes longer than 30 seconds is written to FOLDER/NAME-SEED-n, and
 * the program exits non-zero. Keep it in tests/fuzz/corpus/NAME to have it replayed by the tests.
 *
 * An input is passed in memory of exactly its length, so that AddressSanitizer detects a read
 * beyond it. Everything is static: one target per program, one thread. */
#ifndef FF_FUZZ_DRIVER_H
#define FF_FUZZ_DRIVER_H

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef int ff_fuzz_target(const uint8_t *bytes, size_t length);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#ifdef FF_LIBFUZZER
#define FF_FUZZ_MAIN(one_input)
#else
#define FF_FUZZ_MAIN(one_input)                                                                    \
    int main(int argc, char **argv) {                                                              \
        return ff_fuzz_main(argc, argv, one_input);                                                \
    }

enum { FF_FUZZ_MOST_BYTES = 1 << 20, FF_FUZZ_MOST_INPUTS = 1 << 16, FF_FUZZ_LIMIT_S = 30 };

typedef struct ff_fuzz_input {
    uint8_t *bytes;
    size_t length;
    char *path;
} ff_fuzz_input;

static struct {
    ff_fuzz_target *target;
    ff_fuzz_input *corpus;
    size_t corpus_count;
    uint64_t seed, random;
    const uint8_t *now; /* the current input, for the handler */
    size_t now_length;
    char save_path[4096];
} ff_fuzz;

/* The sanitizers' hook, if one is linked. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

/* SplitMix64. */
static uint64_t ff_fuzz_random(void) {
    uint64_t z = ff_fuzz.random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
static size_t ff_fuzz_below(size_t bound) {
    return bound ? (size_t)(ff_fuzz_random() % bound) : 0;
}

/* Only async-signal-safe calls from here. */
static void ff_fuzz_save(void) {
    if (!ff_fuzz.now) return;
    int file = open(ff_fuzz.save_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ssize_t written = file < 0 ? -1 : write(file, ff_fuzz.now, ff_fuzz.now_length);
    const char *say = written < 0 ? "fuzz: the input could not be written to "
                                  : "fuzz: the input that failed is in ";
    written = write(2, say, strlen(say));
    written = write(2, ff_fuzz.save_path, strlen(ff_fuzz.save_path));
    written = write(2, "\n", 1);
    (void)written;
    if (file >= 0) close(file);
    ff_fuzz.now = NULL;
}
static void ff_fuzz_on_signal(int number) {
    static const char late[] = "fuzz: an input takes longer than 30 s\n";
    if (number == SIGALRM && write(2, late, sizeof late - 1) < 0) _exit(2);
    ff_fuzz_save();
    if (number == SIGALRM) _exit(1);
    signal(number, SIG_DFL);
    raise(number);
}

static void ff_fuzz_run(const uint8_t *bytes, size_t length) {
    uint8_t *exact = malloc(length ? length : 1);
    if (!exact) return;
    memcpy(exact, bytes, length);
    ff_fuzz.now = exact;
    ff_fuzz.now_length = length;
    alarm(FF_FUZZ_LIMIT_S);
    ff_fuzz.target(exact, length);
    alarm(0);
    ff_fuzz.now = NULL;
    free(exact);
}

static void ff_fuzz_add_file(const char *path) {
    FILE *file = fopen(path, "rb");
    ff_fuzz_input input = {.bytes = malloc(FF_FUZZ_MOST_BYTES), .path = strdup(path)};
    if (!file || !input.bytes || !input.path || ff_fuzz.corpus_count == FF_FUZZ_MOST_INPUTS) {
        fprintf(stderr, "fuzz: %s: cannot be read\n", path);
        exit(2);
    }
    input.length = fread(input.bytes, 1, FF_FUZZ_MOST_BYTES, file);
    fclose(file);
    uint8_t *shrunk = realloc(input.bytes, input.length ? input.length : 1);
    if (shrunk) input.bytes = shrunk;
    ff_fuzz.corpus[ff_fuzz.corpus_count++] = input;
}

/* Files of a folder are sorted, so that the corpus does not depend on the file system. */
static void ff_fuzz_add(const char *path) {
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode)) {
        ff_fuzz_add_file(path);
        return;
    }
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') ff_fuzz_add(name);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
}

/* Makes room for `extra` bytes at `at`, or for fewer if these do not fit. Returns the number. */
static size_t ff_fuzz_open_gap(uint8_t *bytes, size_t *length, size_t at, size_t extra) {
    if (extra > FF_FUZZ_MOST_BYTES - *length) extra = FF_FUZZ_MOST_BYTES - *length;
    memmove(bytes + at + extra, bytes + at, *length - at);
    *length += extra;
    return extra;
}

static void ff_fuzz_put_integer(uint8_t *bytes, size_t length) {
    static const uint64_t interesting[] = {0,
                                           1,
                                           2,
                                           7,
                                           8,
                                           16,
                                           64,
                                           100,
                                           127,
                                           128,
                                           255,
                                           256,
                                           1000,
                                           4096,
                                           32767,
                                           32768,
                                           65535,
                                           65536,
                                           0x7fffffff,
                                           0x80000000,
                                           0xfffffffe,
                                           0xffffffff,
                                           1 << 20,
                                           1 << 24,
                                           (1 << 30) + 1,
                                           UINT64_C(0x7fffffffffffffff),
                                           UINT64_C(0x8000000000000000),
                                           UINT64_MAX,
                                           UINT64_MAX - 63};
    size_t width = (size_t)1 << ff_fuzz_below(4);
    if (length < width) return;
    uint64_t value = interesting[ff_fuzz_below(sizeof interesting / sizeof interesting[0])];
    int big = (int)ff_fuzz_below(2);
    uint8_t *at = bytes + ff_fuzz_below(length - width + 1);
    for (size_t i = 0; i < width; i++) at[big ? width - 1 - i : i] = (uint8_t)(value >> 8 * i);
}

/* One change of bytes[*length], room FF_FUZZ_MOST_BYTES. */
static void ff_fuzz_mutate_once(uint8_t *bytes, size_t *length) {
    size_t n = *length, at = ff_fuzz_below(n);
    size_t part = n ? ff_fuzz_below(n - at < 64 || ff_fuzz_below(4) == 0 ? n - at : 64) + 1 : 0;
    switch (ff_fuzz_below(10)) {
    case 0:
    case 1:
    case 2:
        if (n) bytes[at] ^= (uint8_t)(1u << ff_fuzz_below(8));
        break;
    case 3:
        if (n) bytes[at] = (uint8_t)ff_fuzz_random();
        break;
    case 4:
    case 5: ff_fuzz_put_integer(bytes, n); break;
    case 6: /* a part is cut */
        memmove(bytes + at, bytes + at + part, n - at - part);
        *length = n - part;
        break;
    case 7: /* a part is repeated */ part = ff_fuzz_open_gap(bytes, length, at, part); break;
    case 8: { /* a part of another input, over or into this one */
        const ff_fuzz_input *other = &ff_fuzz.corpus[ff_fuzz_below(ff_fuzz.corpus_count)];
        if (!other->length) break;
        size_t from = ff_fuzz_below(other->length);
        size_t count = ff_fuzz_below(other->length - from) + 1;
        if (ff_fuzz_below(2))
            count = ff_fuzz_open_gap(bytes, length, at, count);
        else if (count > n - at)
            count = n - at;
        memcpy(bytes + at, other->bytes + from, count);
        break;
    }
    default: /* the end is missing */
        if (ff_fuzz_below(4) == 0) *length = at;
        break;
    }
}

static void ff_fuzz_mutations(double seconds, uint64_t runs, const char *folder, const char *name) {
    uint8_t *bytes = malloc(FF_FUZZ_MOST_BYTES);
    if (!bytes) exit(2);
    time_t end = time(NULL) + (time_t)seconds;
    uint64_t n = 0;
    for (; runs ? n < runs : time(NULL) < end; n++) {
        ff_fuzz.random = ff_fuzz.seed ^ n * UINT64_C(0xd1342543de82ef95);
        static const ff_fuzz_input none;
        const ff_fuzz_input *from =
            ff_fuzz.corpus_count ? &ff_fuzz.corpus[ff_fuzz_below(ff_fuzz.corpus_count)] : &none;
        size_t length = from->length;
        if (length) memcpy(bytes, from->bytes, length);
        size_t changes = (size_t)1 << ff_fuzz_below(5);
        for (size_t i = 0; i < changes; i++)
            if (ff_fuzz.corpus_count) ff_fuzz_mutate_once(bytes, &length);
        snprintf(ff_fuzz.save_path, sizeof ff_fuzz.save_path, "%s/%s-%llu-%llu", folder, name,
                 (unsigned long long)ff_fuzz.seed, (unsigned long long)n);
        ff_fuzz_run(bytes, length);
    }
    printf("%s: %llu mutations, seed %llu: no failure\n", name, (unsigned long long)n,
           (unsigned long long)ff_fuzz.seed);
    free(bytes);
}

static int ff_fuzz_main(int argc, char **argv, ff_fuzz_target *one_input) {
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM};
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
    const char *folder = ".";
    double seconds = 0;
    uint64_t runs = 0;
    ff_fuzz.target = one_input;
    ff_fuzz.seed = 1;
    ff_fuzz.corpus = calloc(FF_FUZZ_MOST_INPUTS, sizeof *ff_fuzz.corpus);
    if (!ff_fuzz.corpus) return 2;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-seconds") == 0 && i + 1 < argc)
            seconds = atof(argv[++i]);
        else if (strcmp(argv[i], "-runs") == 0 && i + 1 < argc)
            runs = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "-seed") == 0 && i + 1 < argc)
            ff_fuzz.seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "-save") == 0 && i + 1 < argc)
            folder = argv[++i];
        else
            ff_fuzz_add(argv[i]);
    }
    /* A sanitizer reports a crash itself, and calls back before it exits. */
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(ff_fuzz_save);
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++)
        if (!__sanitizer_set_death_callback || fatal[i] == SIGALRM || fatal[i] == SIGABRT)
            signal(fatal[i], ff_fuzz_on_signal);
    for (size_t i = 0; i < ff_fuzz.corpus_count; i++) {
        snprintf(ff_fuzz.save_path, sizeof ff_fuzz.save_path, "%s/%s-replay-%zu", folder, name, i);
        ff_fuzz_run(ff_fuzz.corpus[i].bytes, ff_fuzz.corpus[i].length);
    }
    printf("%s: %zu files replayed: no failure\n", name, ff_fuzz.corpus_count);
    if (seconds > 0 || runs > 0) ff_fuzz_mutations(seconds, runs, folder, name);
    for (size_t i = 0; i < ff_fuzz.corpus_count; i++) {
        free(ff_fuzz.corpus[i].bytes);
        free(ff_fuzz.corpus[i].path);
    }
    free(ff_fuzz.corpus);
    return 0;
}

#endif
#endif
