/* --part auto: the part by the variables of each launcher, of two, and of broken ones; names of
 * parts; failures noted next to them. */
#include "tests/unit/check.h"
#include "tools/ffpack/settings/part_auto.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARRAY(id, count, first, last, step)                                                        \
    "SLURM_ARRAY_TASK_ID=" id " SLURM_ARRAY_TASK_COUNT=" count " SLURM_ARRAY_TASK_MIN=" first      \
    " SLURM_ARRAY_TASK_MAX=" last " SLURM_ARRAY_TASK_STEP=" step " SLURM_PROCID=0 "
#define TASK(id, count) "SLURM_STEP_ID=0 SLURM_PROCID=" id " SLURM_NTASKS=" count " "
#define OMPI(id, count) "OMPI_COMM_WORLD_RANK=" id " OMPI_COMM_WORLD_SIZE=" count " "
#define PMI(id, count)  "PMI_RANK=" id " PMI_SIZE=" count " "
#define POD(id, count)  "JOB_COMPLETION_INDEX=" id " FFPACK_PARTS=" count " "

/* Variables, and "I/N by VARIABLES" or parts of the sentence that refuses, with ; between. */
static const struct {
    const char *variables, *wanted;
} cases[] = {
    {ARRAY("1", "4", "1", "4", "1"), "1/4 by SLURM_ARRAY_TASK_ID=1, SLURM_ARRAY_TASK_COUNT=4"},
    {ARRAY("4", "4", "1", "4", "1"), "4/4 by"},
    {ARRAY("0", "3", "0", "2", "1"), "1/3 by"},
    {ARRAY("4", "3", "1", "7", "3"), "2/3 by"},
    {ARRAY("7", "3", "1", "8", "3"), "3/3 by"},
    {ARRAY("5", "1", "5", "5", "1"), "1/1 by"},
    {TASK("0", "2"), "1/2 by SLURM_PROCID=0, SLURM_NTASKS=2"},
    {TASK("1", "2"), "2/2 by"},
    {TASK("0", "1"), "1/1 by"},
    {OMPI("6", "8"), "7/8 by OMPI_COMM_WORLD_RANK=6, OMPI_COMM_WORLD_SIZE=8"},
    {PMI("1", "3"), "2/3 by PMI_RANK=1, PMI_SIZE=3"},
    {POD("0", "5"), "1/5 by JOB_COMPLETION_INDEX=0, FFPACK_PARTS=5"},
    {POD("999999", "1000000"), "1000000/1000000 by"},
    /* Several that number the same processes, or one of a single process. */
    {PMI("1", "3") TASK("1", "3"), "2/3 by PMI_RANK"},
    {OMPI("1", "2") PMI("1", "2"), "2/2 by OMPI_"},
    {ARRAY("2", "4", "1", "4", "1") TASK("0", "1"), "2/4 by SLURM_ARRAY_TASK_ID"},
    {POD("2", "4") OMPI("0", "1"), "3/4 by JOB_COMPLETION_INDEX"},
    {OMPI("0", "1") TASK("0", "1"), "1/1 by OMPI_"},
    /* mpirun's daemons are tasks. */
    {OMPI("3", "4") TASK("1", "2"), "4/4 by OMPI_"},
    {PMI("3", "4") TASK("0", "2"), "4/4 by PMI_"},
    {OMPI("0", "1") TASK("1", "2"), "2/2 by SLURM_PROCID"},
    /* In a batch script, with what mpirun adds there. */
    {"SLURM_PROCID=0 SLURM_NTASKS=4 " OMPI("3", "4"), "4/4 by OMPI_"},
    {"SLURM_PROCID=0 SLURM_NTASKS=4 " PMI("2", "4"), "3/4 by PMI_"},
    {ARRAY("2", "4", "1", "4", "1") "SLURM_NTASKS=1", "2/4 by SLURM_ARRAY_TASK_ID"},
    {"SLURM_PROCID=0 SLURM_NTASKS=4",
     "SLURM_NTASKS is 4, but by SLURM_STEP_ID this is not one of;srun ffpack"},
    {"SLURM_STEP_ID=4294967290 SLURM_PROCID=0 SLURM_NTASKS=4", "this is not one of the tasks"},
    {"SLURM_STEP_ID=4294967290 SLURM_PROCID=0 SLURM_NTASKS=1", "no launcher numbers this process"},
    {"SLURM_STEP_ID=4294967280 SLURM_PROCID=0 SLURM_NTASKS=4", "1/4 by SLURM_PROCID"},
    /* None: a login shell, a batch script without tasks, half a family, empty variables. */
    {"", "no launcher numbers this process;SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT (a SLURM "
         "array);SLURM_PROCID and SLURM_NTASKS;OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE;"
         "PMI_RANK and PMI_SIZE;JOB_COMPLETION_INDEX and FFPACK_PARTS;--part I/N"},
    {"SLURM_PROCID=0", "no launcher numbers this process"},
    {"SLURM_PROCID=0 SLURM_NTASKS=1", "no launcher numbers this process"},
    {"FFPACK_PARTS=4", "no launcher numbers this process"},
    {OMPI("", ""), "no launcher numbers this process"},
    {"JOB_COMPLETION_INDEX=1", "wanted FFPACK_PARTS in the job's env, the same as its completions"},
    {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE is not set"},
    {"PMI_RANK=1", "PMI_SIZE is not set"},
    {"SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_COUNT=2", "SLURM_ARRAY_TASK_MIN is not set"},
    /* Numbers that are none, or out of range. */
    {OMPI("2", "2"), "OMPI_COMM_WORLD_RANK is '2', wanted a number from 0 to 1"},
    {OMPI("-1", "2"), "OMPI_COMM_WORLD_RANK is '-1'"},
    {OMPI("1x", "2"), "OMPI_COMM_WORLD_RANK is '1x'"},
    {OMPI("4294967296", "2"), "OMPI_COMM_WORLD_RANK is '4294967296'"},
    {PMI("0", "0"), "PMI_SIZE is '0', wanted a number from 1 to 1000000"},
    {POD("0", "1000001"), "FFPACK_PARTS is '1000001'"},
    {ARRAY("5", "4", "1", "4", "1"), "SLURM_ARRAY_TASK_ID is '5', wanted a number from 1 to 4"},
    {ARRAY("1", "4", "1", "4", "0"), "SLURM_ARRAY_TASK_STEP is '0'"},
    {ARRAY("1", "4", "5", "4", "1"), "SLURM_ARRAY_TASK_MAX is '4', wanted a number from 5"},
    {ARRAY("3", "3", "1", "7", "1"),
     "SLURM_ARRAY_TASK_COUNT is 3;are not such a range;--array=1-3"},
    {ARRAY("2", "3", "1", "7", "3"), "are not such a range with SLURM_ARRAY_TASK_ID 2"},
    /* Two that disagree; an array and tasks in it, also where both say the same. */
    {ARRAY("2", "4", "1", "4", "1") TASK("0", "2"),
     "SLURM_PROCID and SLURM_NTASKS mean part 1/2, but SLURM_ARRAY_TASK_ID and "
     "SLURM_ARRAY_TASK_COUNT part 2/4;wanted one launcher"},
    {ARRAY("2", "2", "1", "2", "1") TASK("1", "2"), "SLURM_ARRAY_TASK_COUNT part 2/2"},
    {ARRAY("2", "2", "1", "2", "1") "SLURM_NTASKS=2",
     "SLURM_NTASKS mean part 1/2;ARRAY_TASK_COUNT"},
    {OMPI("1", "2") PMI("1", "3"), "OMPI_COMM_WORLD_SIZE mean part 2/2, but PMI_RANK"},
    {POD("1", "2") OMPI("1", "2"), "but JOB_COMPLETION_INDEX and FFPACK_PARTS part 2/2"},
    {OMPI("0", "1") PMI("1", "2") POD("0", "3"),
     "PMI_SIZE mean part 2/2, but JOB_COMPLETION_INDEX"},
};

static void set_variables(const char *list) {
    char text[512], output[32], *rest = NULL;
    const char *format = getenv("CMOCKA_MESSAGE_OUTPUT"); /* of the results */
    snprintf(text, sizeof text, "%s", list);
    snprintf(output, sizeof output, "%s", format ? format : "STDOUT");
    clearenv();
    assert_int_equal(setenv("CMOCKA_MESSAGE_OUTPUT", output, 1), 0);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *equal = strchr(word, '=');
        *equal = 0;
        assert_int_equal(setenv(word, equal + 1, 1), 0);
    }
}

static void test_launchers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_part part;
        ff_error error = {0};
        char *origin, said[2048], wanted[1024], *rest = NULL;
        set_variables(cases[i].variables);
        if (ff_part_auto(&part, &origin, &error) == FF_OK)
            snprintf(said, sizeof said, "%u/%u by %s", part.number, part.count, origin);
        else
            snprintf(said, sizeof said, "%s", error.message);
        assert_true(origin ? error.status == FF_OK : error.status == FF_USAGE);
        snprintf(wanted, sizeof wanted, "%s", cases[i].wanted);
        for (char *word = strtok_r(wanted, ";", &rest); word; word = strtok_r(NULL, ";", &rest))
            if (!strstr(said, word) || (origin && strstr(said, word) != said))
                fail_msg("%s: '%s', wanted '%s'", cases[i].variables, said, word);
        free(origin);
    }
}

static void test_names(void **state) {
    static const struct {
        const char *output, *name;
        uint32_t number, count; /* count 0: no part of OUT */
    } names[] = {{"out", "out.part-2-of-3", 2, 3},
                 {"a/out/", "out.part-1-of-1", 1, 1},
                 {"a/out", "out.part-1000000-of-1000000", 1000000, 1000000},
                 {"out", "out2.part-1-of-2", 0, 0},
                 {"out", "other.part-1-of-2", 0, 0},
                 {"out", "out", 0, 0},
                 {"out", "ou", 0, 0},
                 {"out", "out.part-0-of-2", 0, 0},
                 {"out", "out.part-3-of-2", 0, 0},
                 {"out", "out.part-01-of-2", 0, 0},
                 {"out", "out.part- 1-of-2", 0, 0},
                 {"out", "out.part-1-of-2x", 0, 0},
                 {"out", "out.part-1-of-2.skipped.tsv", 0, 0},
                 {"out", "out.part-1-of-1000001", 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        ff_part part;
        char *path;
        const bool is = ff_part_path_parse(&part, names[i].name, names[i].output);
        if (is != (names[i].count > 0)) fail_msg("%s of %s", names[i].name, names[i].output);
        if (!is) continue;
        assert_int_equal(part.number, names[i].number);
        assert_int_equal(part.count, names[i].count);
        assert_ok(ff_part_path(&path, names[i].output, &part, error));
        assert_string_equal(strstr(path, "out"), names[i].name);
        free(path);
    }
}

/* Noted unless the part is whole or another process packs it. */
static void test_failures(void **state) {
    char folder[] = "/tmp/test-part-XXXXXX", part[64], failed[80], partial[80];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(part, sizeof part, "%s/p", folder);
    snprintf(failed, sizeof failed, "%s.failed", part);
    snprintf(partial, sizeof partial, "%s.partial", part);
    assert_ok(ff_part_check_failure(part, error));
    ff_part_note_failure(part, "the disk is full");
    ff_error why = {0};
    assert_int_equal(ff_part_check_failure(part, &why), FF_FAILED);
    assert_non_null(strstr(why.message, "/p: packing it failed: the disk is full"));
    ff_part_forget_failure(part);
    assert_ok(ff_part_check_failure(part, error));
    ff_part_forget_failure(part);

    assert_int_equal(mkdir(partial, 0777), 0);
    int lock = open(partial, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    ff_part_note_failure(part, "refused");
    assert_ok(ff_part_check_failure(part, error));
    close(lock);
    ff_part_note_failure(part, "refused");
    assert_int_equal(ff_part_check_failure(part, NULL), FF_FAILED);
    ff_part_forget_failure(part);
    assert_int_equal(rename(partial, part), 0);
    ff_part_note_failure(part, "refused");
    assert_ok(ff_part_check_failure(part, error));
    rmdir(part);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launchers),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
