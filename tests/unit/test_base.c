/* format/base: memory, errors, options, queues, threads, the mapping guard. */
#include "format/base/guard.h"
#include "format/base/huge.h"
#include "format/base/read.h"
#include "format/base/thread.h"
#include "format/cli/interrupt.h"
#include "format/cli/nearest.h"
#include "format/cli/options.h"
#include "format/cli/progress.h"
#include "format/cli/say.h"
#include "tests/unit/format_set.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- bytes, memory, errors ------------------------------------------------------------------ */

static void byte_order(void **state) {
    (void)state;
    uint8_t bytes[9] = {0};
    ff_store_u64(bytes + 1, UINT64_C(0x0102030405060708));
    assert_int_equal(bytes[1], 8);
    assert_int_equal(bytes[8], 1);
    assert_int_equal(ff_load_u64(bytes + 1), UINT64_C(0x0102030405060708));
    assert_int_equal(ff_load_u32(bytes + 1), 0x05060708);
    assert_int_equal(ff_load_u16(bytes + 1), 0x0708);
    assert_int_equal(ff_load_be32(bytes + 1), 0x08070605);
    ff_store_be32(bytes, 0xa1b2c3d4);
    assert_int_equal(bytes[0], 0xa1);
    assert_int_equal(bytes[3], 0xd4);
}

/* Memory for a disk has all its pages once they are touched. */
static void assert_is_resident(uint64_t bytes) {
    void *memory_at;
    unsigned char page[4096];
    assert_ok(ff_alloc_for_disk(&memory_at, bytes, "a test", error));
    assert_int_equal((uintptr_t)memory_at % 4096, 0);
    ff_touch_pages(memory_at, bytes);
    assert_int_equal(mincore(memory_at, bytes, page), 0);
    for (uint64_t i = 0; i < bytes / 4096; i++) assert_int_equal(page[i] & 1, 1);
    free(memory_at);
}

/* Huge pages are used, and touched, within the memory alone. */
static void huge_pages(void **state) {
    (void)state;
    static const uint64_t sizes[] = {0, 1, 4096, FF_HUGE_PAGE - 1, FF_HUGE_PAGE, 3 * FF_HUGE_PAGE};
    const uint64_t room = 6 * FF_HUGE_PAGE;
    uint8_t *block;
    assert_ok(ff_alloc_aligned(&block, room, 1, FF_HUGE_PAGE, "a test", error));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (uint64_t skip = 0; skip < 3 * 4096; skip += 4095) {
            memset(block, 1, room);
            ff_use_huge_pages(block + skip, sizes[i]);
            uint64_t written = 0;
            for (uint64_t at = 0; at < room; at++) {
                written += !block[at];
                if (!block[at]) assert_true(at >= skip && at < skip + sizes[i]);
            }
            assert_int_equal(written, sizes[i] / FF_HUGE_PAGE - (skip && sizes[i] >= FF_HUGE_PAGE));
        }
    }
    free(block);
}

static void memory(void **state) {
    (void)state;
    void *memory_at;
    assert_fails(ff_alloc(&memory_at, UINT64_MAX, 2, "a test", error), FF_NO_MEMORY, "for a test");
    assert_null(memory_at);
    assert_fails(ff_alloc(&memory_at, UINT64_C(1) << 32, UINT64_C(1) << 31, "a test", error),
                 FF_NO_MEMORY, "4294967296 x 2147483648 bytes");
    assert_fails(ff_alloc_aligned(&memory_at, UINT64_MAX - 10, 1, 0, "a test", error), FF_NO_MEMORY,
                 "a test");
    assert_ok(ff_alloc(&memory_at, 0, 5, "a test", error));
    assert_non_null(memory_at);
    free(memory_at);
    for (size_t alignment = 0; alignment <= 4096; alignment = alignment ? alignment * 2 : 64) {
        assert_ok(ff_alloc_aligned(&memory_at, 3, 33, alignment, "a test", error));
        assert_int_equal((uintptr_t)memory_at % (alignment ? alignment : 64), 0);
        free(memory_at);
    }
    assert_is_resident(2 * 4096);
    assert_is_resident((5 << 20) + 4096);
    uint16_t *array = NULL;
    size_t capacity = 0;
    for (size_t count = 1; count < 1000; count++) {
        assert_ok(ff_reserve(&array, &capacity, count, sizeof *array, "a test", error));
        assert_true(capacity >= count);
        assert_int_equal(array[count - 1], 0);
        array[count - 1] = (uint16_t)count;
    }
    for (size_t i = 0; i < 999; i++) assert_int_equal(array[i], i + 1);
    uint8_t *far = NULL; /* many times the capacity at once */
    size_t room = 0;
    assert_ok(ff_reserve(&far, &room, 3, 1, "a test", error));
    assert_ok(ff_reserve(&far, &room, 100000, 1, "a test", error));
    assert_true(room >= 100000 && far[99999] == 0);
    free(far);
    size_t before = capacity;
    assert_fails(ff_reserve(&array, &capacity, SIZE_MAX, sizeof *array, "a test", error),
                 FF_NO_MEMORY, "a test");
    assert_fails(ff_reserve(&array, &capacity, SIZE_MAX / 2, sizeof *array, "a test", error),
                 FF_NO_MEMORY, "a test");
    assert_int_equal(capacity, before);
    free(array);
    uint64_t out = 7;
    assert_false(ff_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_false(ff_add_u64(UINT64_MAX, 1, &out));
    assert_true(ff_mul_u64(UINT32_MAX, UINT32_MAX, &out));
    assert_int_equal(out, UINT64_C(0xfffffffe00000001));
    assert_int_equal(ff_align_u64(0, 64), 0);
    assert_int_equal(ff_align_u64(1, 64), 64);
    assert_int_equal(ff_align_u64(64, 64), 64);
}

static void buffers(void **state) {
    (void)state;
    ff_buffer buffer = {0};
    for (int i = 0; i < 1000; i++) assert_ok(ff_buffer_printf(&buffer, error, "%d,", i));
    assert_ok(ff_buffer_add(&buffer, "\0x", 2, error));
    assert_ok(ff_buffer_add(&buffer, NULL, 0, error));
    assert_int_equal(buffer.length, 10 * 2 + 90 * 3 + 900 * 4 + 2);
    assert_int_equal(buffer.bytes[buffer.length], 0);
    ff_buffer_free(&buffer);
    assert_null(buffer.bytes);
    char *text;
    assert_ok(ff_copy_bytes(&text, "ab\0cd", 5, error));
    assert_memory_equal(text, "ab\0cd\0", 6);
    free(text);
    assert_ok(ff_copy_bytes(&text, NULL, 0, error));
    assert_string_equal(text, "");
    free(text);
}

static void errors(void **state) {
    (void)state;
    ff_error error = {0};
    assert_int_equal(ff_fail(&error, FF_USAGE, "%s", "first"), FF_USAGE);
    assert_int_equal(ff_fail_within(&error, FF_IO, "at %d", 7), FF_USAGE);
    assert_string_equal(error.message, "at 7: first");
    assert_int_equal(ff_fail_within(NULL, FF_IO, "x"), FF_IO);
    assert_int_equal(ff_fail(NULL, FF_BAD_DATA, "x"), FF_BAD_DATA);
    errno = EACCES;
    assert_int_equal(ff_fail_errno(&error, "path: cannot open"), FF_IO);
    assert_string_equal(error.message, "path: cannot open: Permission denied");
    errno = ENOMEM;
    assert_int_equal(ff_fail_errno(&error, "map"), FF_NO_MEMORY);
    ff_fail(&error, FF_BAD_DATA, "%s: bad", "a\nb\x1b[2J\x7f\xc3\xa9");
    assert_string_equal(error.message, "a?b?[2J?\xc3\xa9: bad");
    /* Longer than a message can be. */
    char *text = malloc(5001);
    memset(text, 'x', 5000);
    text[5000] = 0;
    ff_fail(&error, FF_FAILED, "%s", text);
    assert_int_equal(strlen(error.message), sizeof error.message - 1);
    ff_fail_within(&error, FF_FAILED, "%s", text);
    assert_int_equal(strlen(error.message), sizeof error.message - 1);
    errno = EIO;
    ff_fail_errno(&error, "%s", text);
    free(text);
    static const struct {
        ff_status status;
        int code;
    } codes[] = {{FF_OK, 0},        {FF_FAILED, 1}, {FF_USAGE, 2},
                 {FF_BAD_DATA, 65}, {FF_IO, 74},    {FF_NO_MEMORY, 1}};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        error.status = codes[i].status;
        assert_int_equal(ff_exit_code(&error), codes[i].code);
    }
    error.status = FF_INTERRUPTED;
    error.signal_number = SIGTERM;
    assert_int_equal(ff_exit_code(&error), 143);
}

/* ---- options -------------------------------------------------------------------------------- */

static bool flag;
static const char *string, *optional;
static int64_t integer, worded, patient;
static double real;
static uint64_t bytes_wanted;
static int choice;
static const ff_option options[] = {
    {.kind = FF_OPTION_HEADING, .help = "Group"},
    {"flag", 'f', FF_OPTION_FLAG, NULL, &flag, NULL, 0, 0, "A flag."},
    {"string", 's', FF_OPTION_STRING, "TEXT", &string, NULL, 0, 0, "A string."},
    {"integer", 'i', FF_OPTION_INTEGER, "N", &integer, NULL, -5, 1e6, "An integer."},
    {"real", 0, FF_OPTION_REAL, "X", &real, NULL, -1, 1, "A number."},
    {"bytes", 0, FF_OPTION_BYTES, "BYTES", &bytes_wanted, NULL, 1, 1e18, "A size."},
    {"worded", 0, FF_OPTION_INTEGER, "N|auto", &worded, "auto", 1, 9, "An integer or a word."},
    {"patient", 0, FF_OPTION_INTEGER, "[N]", &patient, "ever", 0, 99, "An integer or nothing."},
    {"optional", 0, FF_OPTION_STRING, "[TEXT]", &optional, "none", 0, 0, "A string or nothing."},
    {"choice", 0, FF_OPTION_CHOICE, NULL, &choice, "one|two|three", 0, 0, "A choice."},
    {.kind = FF_OPTION_FLAG},
};
static const ff_command command = {"prog", "prog [options]", "Does things.", options, NULL, NULL};

static ff_positionals found;

static ff_status parse(int count, const char **words, ff_error *error) {
    char *argv[16] = {(char *)(uintptr_t) "prog"};
    for (int i = 0; i < count; i++) argv[i + 1] = (char *)(uintptr_t)words[i];
    flag = false;
    string = optional = NULL;
    integer = worded = patient = 77;
    real = 0.5;
    bytes_wanted = 78;
    choice = 1;
    ff_positionals_free(&found);
    return ff_options_parse(&command, count + 1, argv, &found, error);
}

#define PARSE(...)                                                                                 \
    parse((int)(sizeof(const char *[]){__VA_ARGS__} / sizeof(const char *)),                       \
          (const char *[]){__VA_ARGS__}, error)

static void options_accepted(void **state) {
    (void)state;
    assert_ok(parse(0, NULL, error));
    assert_true(found.count == 0 && !flag && integer == 77 && choice == 1);
    assert_ok(PARSE("--flag", "--string", "--x", "-i", "-5", "--real=-.5", "--bytes", "4K",
                    "--choice=three"));
    assert_true(flag && integer == -5 && real == -0.5 && bytes_wanted == 4096 && choice == 2);
    assert_string_equal(string, "--x");
    assert_ok(PARSE("a", "-f", "-", "--", "--flag", "-s"));
    assert_int_equal(found.count, 4);
    assert_string_equal(found.operand[1], "-");
    assert_string_equal(found.operand[2], "--flag");
    assert_ok(PARSE("--string="));
    assert_string_equal(string, "");
    assert_ok(PARSE("--worded", "9"));
    assert_int_equal(worded, 9);
    assert_ok(PARSE("--worded", "auto"));
    assert_int_equal(worded, 0);
    assert_fails(PARSE("--worded", "often"), FF_USAGE, "'often' is not a whole number or auto");
    assert_ok(PARSE("--patient", "x", "--flag"));
    assert_true(patient == -1 && found.count == 1 && flag);
    assert_ok(PARSE("--patient", "8", "9"));
    assert_true(patient == 8 && found.count == 1);
    assert_ok(PARSE("--patient=7", "8"));
    assert_true(patient == 7 && found.count == 1);
    assert_ok(PARSE("x", "--patient"));
    assert_true(patient == -1 && found.count == 1);
    assert_ok(PARSE("--patient", "8a"));
    assert_true(patient == -1 && found.count == 1);
    assert_ok(PARSE("--optional", "--flag"));
    assert_true(!strcmp(optional, "none") && flag && found.count == 0);
    assert_ok(PARSE("--flag", "--optional"));
    assert_true(!strcmp(optional, "none") && flag);
    assert_ok(PARSE("--optional", "text", "more"));
    assert_true(!strcmp(optional, "text") && found.count == 1);
    assert_ok(PARSE("--optional=-text"));
    assert_string_equal(optional, "-text");
    assert_ok(PARSE("--optional", ""));
    assert_true(!*optional && found.count == 0);
    assert_ok(PARSE("--integer=1", "--integer=2"));
    assert_int_equal(integer, 2);
    /* A range includes its ends. */
    assert_ok(PARSE("--integer", "-5", "--real", "-1", "--bytes", "1"));
    assert_true(integer == -5 && real == -1 && bytes_wanted == 1);
    assert_ok(PARSE("--integer", "1000000", "--real", "1", "--bytes", "1000000000000000000"));
    assert_true(integer == 1000000 && real == 1 && bytes_wanted == UINT64_C(1000000000000000000));
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {{"4096", 4096},
                 {"128M", UINT64_C(128) << 20},
                 {"1G", UINT64_C(1) << 30},
                 {"2T", UINT64_C(2) << 40}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_ok(PARSE("--bytes", sizes[i].text));
        assert_int_equal(bytes_wanted, sizes[i].bytes);
    }
    ff_positionals_free(&found);
}

/* Whole numbers next to a limit that as doubles would be the limit: 2^53 + 1. */
static void options_limits(void **state) {
    (void)state;
    int64_t number = 7;
    const ff_option seed = {"seed",  0,      FF_OPTION_INTEGER, "N", &number, NULL,
                            -0x1p53, 0x1p53, "A number."};
    static const char limits[] = "must be from -9007199254740992 to 9007199254740992";
    assert_fails(ff_option_set(&seed, "9007199254740993", error), FF_USAGE, limits);
    assert_fails(ff_option_set(&seed, "-9007199254740993", error), FF_USAGE, limits);
    assert_int_equal(number, 7);
    assert_ok(ff_option_set(&seed, "-9007199254740992", error));
    assert_ok(ff_option_set(&seed, "9007199254740992", error));
    assert_int_equal(number, INT64_C(9007199254740992));
}

static void options_refused(void **state) {
    (void)state;
    assert_fails(PARSE("--flags"), FF_USAGE, "unknown option --flags; did you mean --flag?");
    assert_fails(PARSE("--hepl"), FF_USAGE, "unknown option --hepl; did you mean --help?");
    assert_fails(PARSE("--versoin"), FF_USAGE, "unknown option --versoin; did you mean --version?");
    assert_fails(PARSE("--entirely-other"), FF_USAGE, "'prog --help' lists the options");
    assert_fails(PARSE("-z"), FF_USAGE, "unknown option -z");
    assert_fails(PARSE("-fs"), FF_USAGE, "unknown option -fs");
    assert_fails(PARSE("--flag=1"), FF_USAGE, "--flag takes no value");
    assert_fails(PARSE("--string"), FF_USAGE, "--string needs a value (TEXT)");
    assert_fails(PARSE("--choice"), FF_USAGE, "needs a value (one|two|three)");
    assert_fails(PARSE("--choice", "four"), FF_USAGE, "'four' is not one of one|two|three");
    assert_fails(PARSE("--choice", "tw"), FF_USAGE, "'tw' is not one of");
    assert_fails(PARSE("--choice", ""), FF_USAGE, "'' is not one of");
    assert_fails(PARSE("--patient=soon"), FF_USAGE, "'soon' is not a whole number or ever");
    assert_fails(PARSE("--patient", "100"), FF_USAGE, "out of range; it must be from 0 to 99");
    assert_fails(PARSE("--integer", "-6"), FF_USAGE, "must be from -5 to 1000000");
    assert_fails(PARSE("--integer", "1000001"), FF_USAGE, "out of range");
    assert_fails(PARSE("--integer", "99999999999999999999"), FF_USAGE, "out of range");
    assert_fails(PARSE("--bytes", "1000000000000000001"), FF_USAGE, "out of range");
    assert_fails(PARSE("--integer", "1.5"), FF_USAGE, "is not a whole number");
    assert_fails(PARSE("--integer", ""), FF_USAGE, "is not a whole number");
    assert_fails(PARSE("--integer", "1K"), FF_USAGE, "is not a whole number");
    assert_fails(PARSE("--real", "nan"), FF_USAGE, "out of range");
    assert_fails(PARSE("--real", "inf"), FF_USAGE, "out of range");
    assert_fails(PARSE("--real", "1.0001"), FF_USAGE, "out of range");
    assert_fails(PARSE("--real", "-1.0001"), FF_USAGE, "out of range");
    assert_fails(PARSE("--real", "half"), FF_USAGE, "is not a number");
    assert_fails(PARSE("--bytes", "0"), FF_USAGE, "out of range");
    assert_fails(PARSE("--bytes", "-1"), FF_USAGE, "out of range");
    assert_fails(PARSE("--bytes", "4X"), FF_USAGE, "is not a size like 4096, 64K");
    assert_fails(PARSE("--bytes", "4KB"), FF_USAGE, "is not a size");
    assert_fails(PARSE("--bytes", "K"), FF_USAGE, "is not a size");
    assert_fails(PARSE("--bytes", "9999999999T"), FF_USAGE, "out of range");
    assert_fails(PARSE("--bytes", "18014398509481985K"), FF_USAGE,
                 "out of range"); /* 2^64 + 1024 */
    assert_int_equal(bytes_wanted, 78);
    ff_positionals_free(&found);
}

static void options_help(void **state) {
    (void)state;
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    assert_non_null(file);
    ff_options_help(&command, file);
    fclose(file);
    assert_non_null(strstr(text, "Usage: prog [options]"));
    assert_non_null(strstr(text, "\nGroup:\n"));
    assert_non_null(strstr(text, "  -f, --flag"));
    assert_non_null(strstr(text, "--choice one|two|three"));
    free(text);
}

static void nearest_name(void **state) {
    (void)state;
    static const struct {
        const char *wanted, *name;       /* NULL = none */
    } cases[] = {{"resnet", "resnet18"}, /* the first of equals */
                 {"resnet5", "resnet50"},
                 {"rsnet18", "resnet18"},
                 {"ResNet50", "resnet50"},
                 {"vgg", NULL},         /* five edits from the nearest */
                 {"vgg16", "vgg16_bn"}, /* three */
                 {"vgg1", NULL},        /* four */
                 {"of", "off"},         /* one of three letters, */
                 {"on", NULL},          /* but not two */
                 {"", NULL},
                 {"a name of more than forty letters, as nobody has one", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_nearest nearest = {.wanted = cases[i].wanted, .length = strlen(cases[i].wanted)};
        ff_nearest_offer(&nearest, "resnet18");
        ff_nearest_offer(&nearest, "resnet50");
        ff_nearest_offer(&nearest, "vgg16_bn");
        ff_nearest_offer(&nearest, "off");
        if (cases[i].name)
            assert_string_equal(nearest.name, cases[i].name);
        else
            assert_null(nearest.name);
    }
}

/* ---- threads -------------------------------------------------------------------------------- */

static void count_thread(void *context, int index) {
    atomic_fetch_add(&((atomic_uchar *)context)[index], 1);
}

static void threads(void **state) {
    (void)state;
    atomic_uchar seen[3] = {0};
    ff_threads *group;
    assert_ok(ff_threads_start(&group, 3, "a rather long name", count_thread, seen, error));
    ff_threads_join(&group);
    ff_threads_join(&group);
    for (int i = 0; i < 3; i++) assert_int_equal(seen[i], 1);
}

static void count_index(void *context, size_t index) {
    atomic_fetch_add(&((atomic_uchar *)context)[index], 1);
}

static void parallel_for(void **state) {
    (void)state;
    atomic_uchar seen[1000];
    for (int threads = 0; threads <= 5; threads++)
        for (size_t count = 0; count <= 1000; count += count < 4 ? 1 : 249) {
            memset(seen, 0, sizeof seen);
            assert_ok(ff_parallel_for(threads, count, count_index, seen, error));
            for (size_t i = 0; i < count; i++) assert_int_equal(seen[i], 1);
        }
    assert_true(ff_cpu_count() >= 1);
    uint64_t before = ff_now_ns();
    assert_true(ff_now_ns() >= before);
}

/* ---- the guard ------------------------------------------------------------------------------ */

typedef struct sum_job {
    const volatile uint8_t *bytes;
    size_t length;
    uint64_t sum;
} sum_job;

static void sum_body(void *context) {
    sum_job *job = context;
    job->sum = 0;
    for (size_t i = 0; i < job->length; i++) job->sum += job->bytes[i];
}

enum { MAPPED = 8 * 4096 };

/* A mapped file whose second half is cut off. */
static const uint8_t *map_and_truncate(off_t keep) {
    char path[] = "/tmp/ff_guard_XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    assert_int_equal(unlink(path), 0);
    uint8_t ones[4096];
    memset(ones, 1, sizeof ones);
    for (int i = 0; i < MAPPED / 4096; i++)
        assert_int_equal(write(descriptor, ones, sizeof ones), sizeof ones);
    void *map = mmap(NULL, MAPPED, PROT_READ, MAP_SHARED, descriptor, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(ftruncate(descriptor, keep), 0);
    close(descriptor);
    return map;
}

static void inner_guard(void *context) {
    sum_job *job = context;
    const void *fault = ff_guard_run(sum_body, job);
    if (fault) job->sum = 12345;
}

/* The outer guard's own fault after an inner guard caught one. */
static void outer_guard(void *context) {
    sum_job *job = context;
    inner_guard(job);
    job->sum = 0;
    sum_body(job);
    job->sum = 54321;
}

static void guard_catches(void) {
    const uint8_t *map = map_and_truncate(MAPPED / 2);
    sum_job job = {map, MAPPED / 2, 0};
    assert_null(ff_guard_run(sum_body, &job));
    assert_int_equal(job.sum, MAPPED / 2);
    job.length = MAPPED;
    for (int again = 0; again < 3; again++) {
        const uint8_t *fault = ff_guard_run(sum_body, &job);
        assert_ptr_equal(fault, map + MAPPED / 2);
    }
    assert_null(ff_guard_run(inner_guard, &job)); /* the innermost guard catches it */
    assert_int_equal(job.sum, 12345);
    assert_ptr_equal(ff_guard_run(outer_guard, &job), map + MAPPED / 2);
    assert_int_not_equal(job.sum, 54321);
    assert_int_equal(munmap((void *)(uintptr_t)map, MAPPED), 0);
}

static void guard_thread(void *context, int index) {
    const uint8_t *map = context;
    for (int i = 0; i < 200; i++) {
        sum_job job = {map, (size_t)MAPPED / (index % 2 ? 1 : 2), 0};
        const void *fault = ff_guard_run(sum_body, &job);
        if (index % 2 ? fault != map + MAPPED / 2 : fault != NULL) abort();
    }
}

static void guard_catches_in_threads(void) {
    const uint8_t *map = map_and_truncate(MAPPED / 2);
    ff_threads *threads;
    assert_ok(ff_threads_start(&threads, 4, "guard", guard_thread, (void *)(uintptr_t)map, error));
    ff_threads_join(&threads);
    assert_int_equal(munmap((void *)(uintptr_t)map, MAPPED), 0);
}

/* Outside a guard the fault ends the process as it does without the library. */
static void guard_passes_on(void) {
    const uint8_t *map = map_and_truncate(0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGBUS, SIG_DFL);
        sum_job job = {map, 1, 0};
        if (!ff_guard_run(sum_body, &job)) _exit(1);
        sum_body(&job);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    /* A sanitizer's handler, installed before ours, exits instead. */
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGBUS : WEXITSTATUS(status) > 1);
    assert_int_equal(munmap((void *)(uintptr_t)map, MAPPED), 0);
}

static struct sigaction passes_to;
static void pass_bus_error(int number, siginfo_t *info, void *context) {
    passes_to.sa_sigaction(number, info, context);
}

static void end_at_bus_error(int number) {
    (void)number;
    _exit(1);
}

/* Other libraries' handlers replace the guard's, one that ends the process and one that passes on
 * to the guard's: soon guards catch again, and a fault outside of one still ends the process. */
static void guard_comes_back(void) {
    const uint8_t *map = map_and_truncate(MAPPED / 2);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct sigaction ends = {.sa_handler = end_at_bus_error};
        const struct sigaction passes = {.sa_sigaction = pass_bus_error, .sa_flags = SA_SIGINFO};
        sum_job whole = {map, MAPPED, 0}, half = {map, MAPPED / 2, 0};
        signal(SIGBUS, SIG_DFL);
        for (int again = 0; again < 2; again++) {
            for (int i = 0; i < 64; i++)
                if (ff_guard_run(sum_body, &half)) _exit(1);
            if (ff_guard_run(sum_body, &whole) != map + MAPPED / 2) _exit(1);
            sigaction(SIGBUS, again ? &passes : &ends, again ? &passes_to : NULL);
        }
        for (int i = 0; i < 64; i++)
            if (ff_guard_run(sum_body, &half)) _exit(1);
        sum_body(&whole);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGBUS : WEXITSTATUS(status) > 1);
    assert_int_equal(munmap((void *)(uintptr_t)map, MAPPED), 0);
}

/* One test, because cmocka installs its own handlers before each test, and the guard its own. */
static void guard(void **state) {
    (void)state;
    guard_passes_on();
    guard_comes_back();
    guard_catches();
    guard_catches_in_threads();
}

/* ---- signals -------------------------------------------------------------------------------- */

static void interrupts(void **state) {
    (void)state;
    for (int second = 0; second < 2; second++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            ff_error error = {0};
            ff_interrupt_install(0);
            if (ff_interrupt_check(&error) != FF_OK) _exit(1);
            /* The signal goes to no thread that computes. */
            sigset_t blocked;
            struct sigaction action;
            pthread_sigmask(SIG_BLOCK, NULL, &blocked);
            sigaction(SIGTERM, NULL, &action);
            if (!sigismember(&blocked, SIGTERM) || action.sa_handler != SIG_DFL) _exit(4);
            kill(getpid(), SIGTERM);
            while (!ff_interrupt_signal()) usleep(1000);
            if (ff_interrupt_check(&error) != FF_INTERRUPTED || ff_interrupt_signal() != SIGTERM)
                _exit(2);
            if (strcmp(error.message, "stopped by SIGTERM")) _exit(3);
            if (second) {
                kill(getpid(), SIGINT); /* ends at once */
                pause();
            }
            _exit(ff_exit_code(&error));
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), second ? 128 + SIGINT : 128 + SIGTERM);
    }
}

/* Without a terminal nothing is printed within the first half minute. */
static void progress(void **state) {
    (void)state;
    ff_progress line;
    ff_progress_begin(&line, "packing", "img", 10, false);
    line.terminal = false;
    for (uint64_t i = 0; i <= 10; i++) ff_progress_update(&line, i, NULL);
    ff_progress_end(&line);
    assert_false(line.shown);
}

/* Wherever the format changes, the last number before it and the first after. */
static void numbers_as_text(void **state) {
    (void)state;
    assert_string_equal(ff_say_count(0, "class", "classes").text, "0 classes");
    assert_string_equal(ff_say_count(1, "class", "classes").text, "1 class");
    assert_string_equal(ff_say_count(UINT64_MAX, "item", "items").text,
                        "18446744073709551615 items");
    static const struct {
        double rate;
        const char *text;
    } rates[] = {{0, "0.00 items/s"},
                 {9.99, "9.99 items/s"},
                 {9.996, "10.0 items/s"},
                 {99.94, "99.9 items/s"},
                 {99.96, "100 items/s"},
                 {10512.6, "10513 items/s"},
                 {1e15, "1000000000000000 items/s"},
                 {-1, "? items/s"},
                 {INFINITY, "? items/s"}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        assert_string_equal(ff_say_rate(rates[i].rate, "items").text, rates[i].text);
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {{0, "0 B"},
                 {1023, "1023 B"},
                 {1024, "1.0 KiB"},
                 {1536, "1.5 KiB"},
                 {(1 << 20) - 103, "1023.9 KiB"},
                 {(1 << 20) - 1, "1.0 MiB"},
                 {(1 << 30) - 1, "1.00 GiB"},
                 {UINT64_C(150754820096), "140.40 GiB"},
                 {UINT64_MAX, "16.00 EiB"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_string_equal(ff_say_bytes(sizes[i].bytes).text, sizes[i].text);
    assert_string_equal(ff_say_byte_rate(1.5 * (1 << 20)).text, "1.5 MiB/s");
    assert_string_equal(ff_say_byte_rate(NAN).text, "? B/s");
}

/* An eighth of 1000 descriptors is 125. */
static void descriptors(void **state) {
    (void)state;
    const struct {
        rlim_t limit;
        uint32_t least, most, wanted;
    } cases[] = {{1000, 4, 200, 125}, {1000, 4, 124, 124}, {1000, 126, 200, 126}, {32, 4, 64, 4}};
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        limit = (struct rlimit){cases[i].limit, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        assert_int_equal(ff_descriptor_share(8, cases[i].least, cases[i].most), cases[i].wanted);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_order),       cmocka_unit_test(numbers_as_text),
        cmocka_unit_test(memory),           cmocka_unit_test(huge_pages),
        cmocka_unit_test(buffers),          cmocka_unit_test(errors),
        cmocka_unit_test(options_accepted), cmocka_unit_test(options_limits),
        cmocka_unit_test(options_refused),  cmocka_unit_test(options_help),
        cmocka_unit_test(nearest_name),     cmocka_unit_test(threads),
        cmocka_unit_test(parallel_for),     cmocka_unit_test(guard),
        cmocka_unit_test(interrupts),       cmocka_unit_test(progress),
        cmocka_unit_test(descriptors),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
