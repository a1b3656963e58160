/* fftrain diff: the first step and layer in which two runs differ. */
#include "format/base/memory.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "train/checkpoint/run_folder.h"
#include "train/commands/command.h"
#include "train/debug/hash_log.h"
#include "train/debug/option_changes.h"
#include "train/report/page/run_log.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { RECIPE_LIMIT_BYTES = 1 << 20 };

static const char summary[] =
    "Names the first step and layer where two runs differ, by the hashes that they keep "
    "(--hash-every), and the options in which they differ. RUN is the folder of a run, or a file "
    "of hashes that fftrain replay has written. The same batches, parameters and instructions "
    "produce the same bits on the CPU with the same --threads, and on a GPU with --deterministic.";

static const char epilogue[] =
    "Exit codes: 0 no difference in any step that both have, 1 they part, 2 wrong usage, 65 bad "
    "data,\n74 input or output error.";

typedef struct run {
    const char *path;
    bool folder;
    ff_buffer recipe;
    ff_hash_log log;
} run;

static ff_status open_run(run *r, const char *path, ff_error *error) {
    char *file = NULL;
    ff_status status;
    *r = (run){.path = path, .folder = ff_path_exists("%s/" FF_RUN_RECIPE_FILE, path)};
    if (!r->folder && ff_path_exists("%s/.", path))
        return ff_fail(error, FF_USAGE, "%s: is not a run, it has no " FF_RUN_RECIPE_FILE, path);
    if (!r->folder) return ff_hash_log_read(&r->log, path, UINT64_MAX, error);
    FF_TRY_DONE(ff_path_join(&file, path, FF_RUN_RECIPE_FILE, error));
    FF_TRY_DONE(ff_read_whole(&r->recipe, file, RECIPE_LIMIT_BYTES, error));
    free(file);
    FF_TRY_DONE(ff_path_join(&file, path, FF_RUN_HASHES, error));
    if (ff_path_exists("%s", file))
        status = ff_hash_log_read(&r->log, file, UINT64_MAX, error);
    else
        status = ff_fail(error, FF_USAGE,
                         "%s: keeps no hashes (--hash-every 0, or an older fftrain)", path);
done:
    free(file);
    return status;
}

static void close_run(run *r) {
    ff_buffer_free(&r->recipe);
    ff_hash_log_free(&r->log);
}

/* ---- options ---- */

/* The value in a line "NAME = VALUE"; `line` begins with the name. */
static const char *value_of(const run *r, const char *line, size_t *length) {
    const char *value = ff_run_log_setting(&r->recipe, line, length);
    if (value) return value;
    *length = strlen("the default");
    return "the default";
}

static void print_row(const char *name, size_t name_length, const char *one, size_t one_length,
                      const char *other, size_t other_length) {
    printf("%-18.*s %-28.*s %.*s\n", (int)name_length, name, (int)one_length, one,
           (int)other_length, other);
}

/* The lines of one recipe that differ in the other; `second`: only lines that the other lacks. */
static void print_options(const run *one, const run *other, bool second) {
    const char *line = one->recipe.bytes;
    while (line && *line) {
        const size_t whole = strcspn(line, "\n"), name = strcspn(line, " ");
        size_t length, other_length;
        const char *value = value_of(one, line, &length);
        const char *others = value_of(other, line, &other_length);
        const bool lacks = !strncmp(others, "the default", other_length);
        const bool same =
            *line == '#' || (length == other_length && !memcmp(value, others, length));
        if (!same && !second) print_row(line, name, value, length, others, other_length);
        if (!same && second && lacks) print_row(line, name, others, other_length, value, length);
        line += whole + (line[whole] == '\n');
    }
}

static const char *fact(const run *r, const char *key) {
    const char *text = json_string_value(json_object_get(r->log.names, key));
    return text ? text : "";
}

static void print_differences(const run runs[2]) {
    static const struct {
        const char *key, *name;
    } facts[] = {{"data", "data's content id"},
                 {"val", "val's content id"},
                 {"compute", "computes with"},
                 {"version", "ffpack's version"}};
    print_row("", 0, runs[0].path, strlen(runs[0].path), runs[1].path, strlen(runs[1].path));
    print_options(&runs[0], &runs[1], false);
    print_options(&runs[1], &runs[0], true);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        const char *one = fact(&runs[0], facts[i].key), *other = fact(&runs[1], facts[i].key);
        if (strcmp(one, other))
            print_row(facts[i].name, strlen(facts[i].name), one, strlen(one), other, strlen(other));
    }
}

/* ---- hashes ---- */

/* Two lines of the same step. */
typedef struct pair {
    const json_t *one, *other, *names;
} pair;

static bool same(const pair *p, const char *key) {
    const json_t *one = json_object_get(p->one, key), *other = json_object_get(p->other, key);
    return !one || !other || json_equal((json_t *)one, (json_t *)other);
}

/* Whether both cut the batch into the same parts. Hashes of different parts differ. */
static bool same_parts(const pair *p) {
    return same(p, "cut");
}

static bool all_same(const pair *p) {
    const bool parts =
        same(p, "images") && same(p, "labels") && same(p, "outputs") && same(p, "gradients");
    return (parts || !same_parts(p)) && same(p, "loss") && same(p, "parameters");
}

/* The first hash of a list that differs; from its end with `back`. */
static const char *first_of(const pair *p, const char *key, const char *names, bool back) {
    const json_t *one = json_object_get(p->one, key), *other = json_object_get(p->other, key);
    const size_t count = json_array_size(one);
    for (size_t k = 0; k < count; k++) {
        const size_t i = back ? count - 1 - k : k;
        if (json_equal(json_array_get(one, i), json_array_get(other, i))) continue;
        const char *name = json_string_value(json_array_get(json_object_get(p->names, names), i));
        return name ? name : "";
    }
    return "";
}

/* Running statistics of batch norms: tensors that are not parameters. */
static bool is_statistic(const char *name) {
    static const char *const ends[] = {".running_mean", ".running_var", ".num_batches_tracked"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t length = strlen(name), end = strlen(ends[i]);
        if (length >= end && !strcmp(name + length - end, ends[i])) return true;
    }
    return false;
}

/* "9 of 14 parameters and 8 of 12 running statistics" */
static void say_parameters(const pair *p, char *text, size_t size) {
    const json_t *one = json_object_get(p->one, "parameters");
    const json_t *other = json_object_get(p->other, "parameters");
    const json_t *names = json_object_get(p->names, "parameters");
    size_t differ[2] = {0, 0}, count[2] = {0, 0};
    for (size_t i = 0; i < json_array_size(one); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        const bool kind = name && is_statistic(name);
        count[kind]++;
        differ[kind] += !json_equal(json_array_get(one, i), json_array_get(other, i));
    }
    const int used = snprintf(text, size, "%zu of %zu parameters", differ[0], count[0]);
    if (count[1])
        snprintf(text + used, size - (size_t)used, " and %zu of %zu running statistics", differ[1],
                 count[1]);
}

/* next: both had the same parameters before the step, so the first difference is the cause. */
static void say_what(const pair *p, bool next, char *text, size_t size) {
    const char *images = same(p, "images") ? "" : "images",
               *labels = same(p, "labels") ? "" : "labels";
    const bool parts = same_parts(p);
    if (parts && (*images || *labels)) {
        snprintf(text, size, "the inputs differ: the %s%s%s of its batch", images,
                 *images && *labels ? " and " : "", labels);
    } else if (parts && next && !same(p, "outputs")) {
        const char *name = first_of(p, "outputs", "outputs", false);
        snprintf(text, size,
                 "inputs and parameters before it are the same, the output of %s is the first that "
                 "differs",
                 name);
    } else if (parts && next && !same(p, "gradients")) {
        const char *name = first_of(p, "gradients", "parameters", true);
        snprintf(text, size,
                 "inputs, parameters before it and outputs are the same, the gradient of %s is the "
                 "first that differs on the way back",
                 name);
    } else if (!same(p, "parameters")) {
        const char *name = first_of(p, "parameters", "parameters", false);
        const bool known = parts && next && json_object_get(p->one, "outputs") &&
                           json_object_get(p->other, "outputs");
        char which[120];
        say_parameters(p, which, sizeof which);
        snprintf(text, size, "%s%s is the first of %s that differ",
                 known ? "all gradients are the same, the update is not: " : "", name, which);
    } else {
        snprintf(text, size, "the loss differs");
    }
}

static void print_replays(const run runs[2], uint64_t from, uint64_t to) {
    for (int i = 0; i < 2; i++)
        printf("  fftrain replay %s --from %" PRIu64 " --step %" PRIu64 " --hashes %c.jsonl\n",
               runs[i].path, from, to, 'a' + i);
    printf("  fftrain diff a.jsonl b.jsonl\n");
}

/* The last step in between at which a run was resumed with other options. */
static uint64_t change_in(const run runs[2], uint64_t from, uint64_t to) {
    uint64_t last = 0;
    for (int i = 0; i < 2; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/" FF_RUN_LOG_FILE, runs[i].path);
        const uint64_t changed = ff_option_changes_last(path, from, to);
        if (changed > last) last = changed;
    }
    return last;
}

/* A replay has one set of options, so only steps between two changes can be replayed together. */
static void print_commands(const run runs[2], uint64_t from, uint64_t to) {
    if (!runs[0].folder || !runs[1].folder) return;
    const uint64_t changed = change_in(runs, from, to);
    if (changed) {
        printf("The options changed after step %" PRIu64 ". These look at the steps up to it:\n",
               changed);
        print_replays(runs, from, changed);
        printf("Where these are the same, at those after it:\n");
    } else {
        printf("These find the first step and layer in between:\n");
    }
    print_replays(runs, changed ? changed : from, to);
}

/* The first step at which the runs' hashes differ; `last`: the last step before it, -1 = none.
 * *common: the number of steps for which both runs have hashes; *begun: whether step 0, the initial
 * parameters, is one of them. */
static bool find(const run runs[2], pair *p, int64_t *last, uint64_t *step, size_t *common,
                 bool *begun) {
    size_t at[2] = {0, 0};
    *last = -1;
    *common = 0;
    *begun = false;
    while (at[0] < json_array_size(runs[0].log.lines) &&
           at[1] < json_array_size(runs[1].log.lines)) {
        const uint64_t one = ff_hash_log_step(&runs[0].log, at[0]);
        const uint64_t other = ff_hash_log_step(&runs[1].log, at[1]);
        if (one == other) {
            p->one = json_array_get(runs[0].log.lines, at[0]);
            p->other = json_array_get(runs[1].log.lines, at[1]);
            *step = one;
            ++*common;
            *begun |= one == 0;
            if (!all_same(p)) return true;
            *last = (int64_t)one;
        }
        at[0] += one <= other;
        at[1] += other <= one;
    }
    return false;
}

static ff_status compare(const run runs[2], ff_error *error) {
    pair p = {.names = runs[0].log.names};
    uint64_t step = 0;
    int64_t last;
    size_t common;
    bool begun;
    char what[600];
    print_differences(runs);
    putchar('\n');
    if (!json_equal(json_object_get(runs[0].log.names, "parameters"),
                    json_object_get(runs[1].log.names, "parameters")))
        return ff_fail(error, FF_FAILED,
                       "%s and %s train other nets: their parameters have other names",
                       runs[0].path, runs[1].path);
    const bool parted = find(runs, &p, &last, &step, &common, &begun);
    if (common && !same_parts(&p))
        printf("Only losses and parameters are compared where batches are cut in other parts: %s; "
               "%s.\n",
               json_string_value(json_object_get(p.one, "cut")),
               json_string_value(json_object_get(p.other, "cut")));
    if (!common)
        return ff_fail(error, FF_FAILED, "%s and %s have hashes of no common step; --hash-every N",
                       runs[0].path, runs[1].path);
    if (!parted) {
        const size_t steps = common - begun;
        if (steps)
            printf("No difference in the %zu step%s that both have hashes of, up to step %" PRIu64
                   ".\n",
                   steps, steps == 1 ? "" : "s", step);
        else
            printf("No difference in the initial parameters, and both have hashes of no step.\n");
        return FF_OK;
    }
    const bool next = last >= 0 && (uint64_t)last + 1 == step;
    say_what(&p, next, what, sizeof what);
    if (step == 0)
        printf("The initial parameters differ: %s.\n", what);
    else if (next)
        printf("Step %" PRIu64 " is the first that differs: %s.\n", step, what);
    else
        printf(
            "Step %" PRIu64 " differs: %s. The first that does is %s%" PRId64 " to %" PRIu64 ".\n",
            step, what, last < 0 ? "before it, from " : "one of ", last < 0 ? 1 : last + 1, step);
    if (step && same_parts(&p) &&
        (!next || !json_object_get(p.one, "outputs") || !json_object_get(p.other, "outputs")))
        print_commands(runs, last < 0 ? 0 : (uint64_t)last, step);
    return ff_fail(error, FF_FAILED, "%s and %s part at %s %" PRIu64, runs[0].path, runs[1].path,
                   next || !step ? "step" : "or before step", step);
}

ff_status ff_command_diff(int argc, char **argv, ff_error *error) {
    const ff_option table[] = {{.name = NULL}};
    const ff_command command = {
        .program = "fftrain diff",
        .usage = "fftrain diff RUN RUN",
        .summary = summary,
        .options = table,
        .epilogue = epilogue,
    };
    ff_positionals words;
    run runs[2] = {0};
    ff_status status;
    FF_TRY_DONE(ff_options_parse(&command, argc, argv, &words, error));
    if (words.done) goto done;
    if (words.count != 2) {
        status = ff_fail(error, FF_USAGE, "wanted fftrain diff RUN RUN");
        goto done;
    }
    for (int i = 0; i < 2; i++) FF_TRY_DONE(open_run(&runs[i], words.operand[i], error));
    FF_TRY_DONE(compare(runs, error));
done:
    for (int i = 0; i < 2; i++) close_run(&runs[i]);
    ff_positionals_free(&words);
    return status;
}
