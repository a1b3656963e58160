/* Ranks from launchers' variables, and SLURM's lists of nodes. */
#include "tests/unit/check.h"
#include "train/comm/job/node_list.h"
#include "train/comm/job/ranks.h"

#include <stdio.h>
#include <stdlib.h>

#define TORCHRUN                                                                                   \
    "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_ADDR=node-a MASTER_PORT=29500 "    \
    "GROUP_RANK=1 GROUP_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none "
#define OPEN_MPI                                                                                   \
    "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=2 "                  \
    "OMPI_COMM_WORLD_LOCAL_SIZE=4 OMPI_MCA_ess_base_jobid=243662849 "
#define OPEN_MPI_2                                                                                 \
    "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 "                  \
    "OMPI_COMM_WORLD_LOCAL_SIZE=2 "
#define MPICH   "PMI_RANK=1 PMI_SIZE=3 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=3 "
#define MPICH_2 "PMI_RANK=2 PMI_SIZE=3 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1 "
#define SLURM                                                                                      \
    "SLURM_PROCID=6 SLURM_NTASKS=7 SLURM_LOCALID=1 SLURM_NODEID=3 SLURM_JOB_ID=1234567 "           \
    "SLURM_STEP_ID=0 SLURM_STEP_NODELIST=gpu[08-10],x7 SLURM_JOB_NODELIST=other "                  \
    "SLURM_STEP_TASKS_PER_NODE=2(x2),1,2 "
#define FFTRAIN "FFTRAIN_RANK=1 FFTRAIN_RANKS=2 FFTRAIN_JOB=7f "

static const char *const known[] = {"RANK",
                                    "WORLD_SIZE",
                                    "LOCAL_RANK",
                                    "LOCAL_WORLD_SIZE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "GROUP_RANK",
                                    "GROUP_WORLD_SIZE",
                                    "TORCHELASTIC_RUN_ID",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "OMPI_MCA_ess_base_jobid",
                                    "PMIX_NAMESPACE",
                                    "PMI_RANK",
                                    "PMI_SIZE",
                                    "MPI_LOCALRANKID",
                                    "MPI_LOCALNRANKS",
                                    "SLURM_PROCID",
                                    "SLURM_NTASKS",
                                    "SLURM_LOCALID",
                                    "SLURM_NODEID",
                                    "SLURM_JOB_ID",
                                    "SLURM_STEP_ID",
                                    "SLURM_JOB_NAME",
                                    "ENVIRONMENT",
                                    "SLURM_STEP_NODELIST",
                                    "SLURM_JOB_NODELIST",
                                    "SLURM_NODELIST",
                                    "SLURM_STEP_TASKS_PER_NODE",
                                    "SLURM_TASKS_PER_NODE",
                                    "FFTRAIN_RANK",
                                    "FFTRAIN_RANKS",
                                    "FFTRAIN_JOB",
                                    "FFTRAIN_LISTENER"};

/* "NAME=VALUE NAME=VALUE": a later one replaces an earlier one; "NAME=" is empty, "-NAME" unset. */
static void set_variables(const char *text) {
    char copy[2048];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) unsetenv(known[i]);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        if (value) *value++ = 0;
        if (value)
            setenv(word, value, 1);
        else
            unsetenv(word + 1);
    }
}

static void test_families(void **state) {
    static const struct {
        const char *variables;
        ff_ranks wanted;
    } cases[] = {
        {"", {0, 1, 0, 1, NULL, NULL, 0, NULL, -1}},
        {"MASTER_ADDR=a MASTER_PORT=1", {0, 1, 0, 1, NULL, NULL, 0, NULL, -1}},
        {TORCHRUN, {5, 8, 1, 4, "torchrun", "node-a", 29501, "torchrun none 29500", -1}},
        {OPEN_MPI, {2, 4, 2, 4, "Open MPI", "127.0.0.1", 0, "Open MPI 243662849", -1}},
        {OPEN_MPI "MASTER_ADDR=host PMIX_NAMESPACE=x",
         {2, 4, 2, 4, "Open MPI", "host", 0, "Open MPI 243662849 x", -1}},
        {OPEN_MPI_2 "MASTER_ADDR=fd00::1 MASTER_PORT=5000",
         {2, 4, 0, 2, "Open MPI", "fd00::1", 5000, "Open MPI", -1}},
        {MPICH, {1, 3, 1, 3, "MPICH", "127.0.0.1", 0, "MPICH", -1}},
        {MPICH_2 "MASTER_ADDR=b MASTER_PORT=65535", {2, 3, 0, 1, "MPICH", "b", 65535, "MPICH", -1}},
        {SLURM, {6, 7, 1, 2, "SLURM", "gpu08", 19567, "SLURM 1234567 0", -1}},
        {SLURM "MASTER_ADDR=10.0.0.1", {6, 7, 1, 2, "SLURM", "10.0.0.1", 19567, NULL, -1}},
        {SLURM "MASTER_PORT=77", {6, 7, 1, 2, "SLURM", "gpu08", 77, NULL, -1}},
        {SLURM "-SLURM_STEP_NODELIST SLURM_NODEID=0",
         {6, 7, 1, 2, "SLURM", "other", 19567, NULL, -1}},
        {SLURM "-SLURM_STEP_NODELIST -SLURM_STEP_TASKS_PER_NODE",
         {6, 7, 1, 7, "SLURM", "other", 19567, NULL, -1}},
        {SLURM "-SLURM_STEP_NODELIST -SLURM_JOB_NODELIST SLURM_NODELIST=z9 SLURM_JOB_ID=7",
         {6, 7, 1, 2, "SLURM", "z9", 15007, NULL, -1}},
        {FFTRAIN, {1, 2, 1, 2, "fftrain", "7f", -1, "fftrain 7f", -1}},
        {FFTRAIN "FFTRAIN_RANK=0 FFTRAIN_LISTENER=9",
         {0, 2, 0, 2, "fftrain", "7f", -1, "fftrain 7f", 9}},
        /* Which family counts. */
        {FFTRAIN TORCHRUN OPEN_MPI, {1, 2, 1, 2, "fftrain", "7f", -1, NULL, -1}},
        {TORCHRUN SLURM, {5, 8, 1, 4, "torchrun", "node-a", 29501, NULL, -1}},
        {OPEN_MPI SLURM, {2, 4, 2, 4, "Open MPI", "127.0.0.1", 0, NULL, -1}},
        {OPEN_MPI "RANK=7", {2, 4, 2, 4, "Open MPI", "127.0.0.1", 0, NULL, -1}},
        {SLURM "PMI_RANK=6 PMI_SIZE=7", {6, 7, 1, 2, "SLURM", "gpu08", 19567, NULL, -1}},
        {OPEN_MPI MPICH "PMI_RANK=2 PMI_SIZE=4",
         {2, 4, 2, 4, "Open MPI", "127.0.0.1", 0, NULL, -1}},
        {TORCHRUN MPICH "PMI_SIZE=2", {5, 8, 1, 4, "torchrun", "node-a", 29501, NULL, -1}},
        /* Shells that are not a task of SLURM's: srun --pty bash, salloc, a step for salloc's
         * shell, a batch's script; and tasks that srun started in them. */
        {SLURM "SLURM_JOB_NAME=bash", {0, 1, 0, 1, NULL, NULL, 0, NULL, -1}},
        {SLURM "-SLURM_STEP_ID SLURM_JOB_NAME=interactive", {0, 1, 0, 1, NULL, NULL, 0, NULL, -1}},
        {SLURM "-SLURM_STEP_ID -SLURM_PROCID", {0, 1, 0, 1, NULL, NULL, 0, NULL, -1}},
        {SLURM "SLURM_STEP_ID=4294967290 SLURM_JOB_NAME=interactive",
         {0, 1, 0, 1, NULL, NULL, 0, NULL, -1}},
        {SLURM "-SLURM_STEP_ID ENVIRONMENT=BATCH", {0, 1, 0, 1, NULL, NULL, 0, NULL, -1}},
        {SLURM "ENVIRONMENT=BATCH", {6, 7, 1, 2, "SLURM", "gpu08", 19567, NULL, -1}},
        {SLURM "SLURM_JOB_NAME=interactive", {6, 7, 1, 2, "SLURM", "gpu08", 19567, NULL, -1}},
        {SLURM "-SLURM_STEP_ID", {6, 7, 1, 2, "SLURM", "gpu08", 19567, NULL, -1}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ff_ranks *wanted = &cases[i].wanted;
        ff_ranks ranks;
        ff_error error = {0};
        set_variables(cases[i].variables);
        if (ff_ranks_read(&ranks, &error) != FF_OK)
            fail_msg("%s: %s", cases[i].variables, error.message);
        if (ranks.rank != wanted->rank || ranks.size != wanted->size ||
            ranks.local_rank != wanted->local_rank || ranks.local_size != wanted->local_size ||
            ranks.listener != wanted->listener || !ranks.family != !wanted->family ||
            !ranks.host != !wanted->host)
            fail_msg("%s: rank %d/%d, local %d/%d", cases[i].variables, ranks.rank, ranks.size,
                     ranks.local_rank, ranks.local_size);
        if (wanted->family) assert_string_equal(ranks.family, wanted->family);
        if (wanted->host) assert_string_equal(ranks.host, wanted->host);
        if (wanted->job) assert_string_equal(ranks.job, wanted->job);
        if (wanted->port)
            assert_int_equal(ranks.port, wanted->port > 0 ? wanted->port : 0);
        else if (wanted->family)
            assert_in_range(ranks.port, 15000, 24999);
        ff_ranks_free(&ranks);
    }
}

static void test_refusals(void **state) {
    static const struct {
        const char *variables, *part;
    } cases[] = {
        {"RANK=0", "WORLD_SIZE is not set, but RANK is, as by torchrun"},
        {"WORLD_SIZE=2", "RANK is not set, but WORLD_SIZE is, as by torchrun"},
        {TORCHRUN "LOCAL_RANK=", "LOCAL_RANK is not set"},
        {TORCHRUN "MASTER_ADDR=", "MASTER_ADDR is not set, but RANK is"},
        {TORCHRUN "RANK=8", "RANK is '8': not a number from 0 to 7"},
        {TORCHRUN "RANK=-1", "RANK is '-1': not a number from 0 to 7"},
        {TORCHRUN "RANK=1x", "RANK is '1x'"},
        {TORCHRUN "RANK=99999999999999999999", "RANK is '99999999999999999999'"},
        {TORCHRUN "WORLD_SIZE=0", "WORLD_SIZE is '0': not a number from 1"},
        {TORCHRUN "WORLD_SIZE=100000", "WORLD_SIZE is '100000'"},
        {TORCHRUN "LOCAL_RANK=4", "LOCAL_RANK is '4': not a number from 0 to 3"},
        {TORCHRUN "LOCAL_WORLD_SIZE=9", "LOCAL_WORLD_SIZE is '9': not a number from 1 to 8"},
        {TORCHRUN "MASTER_PORT=65535", "MASTER_PORT is '65535': not a number from 1 to 65534"},
        {TORCHRUN "MASTER_PORT=tcp", "MASTER_PORT is 'tcp'"},
        {OPEN_MPI_2, "MASTER_ADDR is not set: on several machines set rank 0's: mpirun -x"},
        {MPICH_2, "MASTER_ADDR is not set: on several machines set rank 0's: mpirun -genv"},
        {MPICH "MPI_LOCALNRANKS=", "MPI_LOCALNRANKS is not set, but PMI_RANK is, as by MPICH"},
        {OPEN_MPI "MASTER_PORT=0", "MASTER_PORT is '0'"},
        {SLURM "SLURM_LOCALID=2", "SLURM_LOCALID is '2': not a number from 0 to 1"},
        {SLURM "SLURM_NODEID=4", "SLURM_STEP_TASKS_PER_NODE is '2(x2),1,2': it has no tasks"},
        {SLURM "SLURM_STEP_TASKS_PER_NODE=8(x4)", "'8(x4)', but SLURM_NTASKS is 7"},
        {SLURM "SLURM_STEP_TASKS_PER_NODE=2(x", "it has no tasks for node 3"},
        {SLURM "-SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE is not set"},
        {SLURM "SLURM_STEP_NODELIST=a[1-", "SLURM_STEP_NODELIST is 'a[1-': no list of nodes"},
        {SLURM "-SLURM_STEP_NODELIST -SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST is not set"},
        {SLURM "-SLURM_JOB_ID", "SLURM_JOB_ID is not set, but SLURM_PROCID is"},
        {SLURM "SLURM_JOB_ID=x", "SLURM_JOB_ID is 'x'"},
        {FFTRAIN "FFTRAIN_RANK=0", "FFTRAIN_LISTENER is not set"},
        {FFTRAIN "FFTRAIN_JOB=", "FFTRAIN_JOB is not set, but FFTRAIN_RANK is"},
        {TORCHRUN OPEN_MPI, "torchrun has rank 5 of 8 (RANK, WORLD_SIZE), Open MPI has rank 2 of 4 "
                            "(OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE): unset"},
        {OPEN_MPI MPICH, "Open MPI has rank 2 of 4"},
        {TORCHRUN MPICH, "MPICH has rank 1 of 3 (PMI_RANK, PMI_SIZE)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_ranks ranks;
        set_variables(cases[i].variables);
        assert_fails(ff_ranks_read(&ranks, error), FF_USAGE, cases[i].part);
        assert_null(ranks.host);
        assert_null(ranks.job);
    }
}

static void test_node_lists(void **state) {
    static const struct {
        const char *list, *hosts; /* all of them, with a blank after each */
    } cases[] = {
        {"a", "a "},
        {"a,b", "a b "},
        {"a[01-03,7],b", "a01 a02 a03 a7 b "},
        {"n[9-11]", "n9 n10 n11 "},
        {"n[098-101]", "n098 n099 n100 n101 "},
        {"r[0-1]n[2-3]", "r0n2 r0n3 r1n2 r1n3 "},
        {"gpu[1,3]-ib.x,c-4", "gpu1-ib.x gpu3-ib.x c-4 "},
        {"[1-2]", "1 2 "},
    };
    static const char *const wrong[] = {"",
                                        ",a",
                                        "a,",
                                        "a[",
                                        "a[]",
                                        "a[1",
                                        "a[1-",
                                        "a[1-]",
                                        "a[2-1]",
                                        "a[1,]",
                                        "a[1]]",
                                        "a[[1]]",
                                        "a b",
                                        "a[x]",
                                        "a[-1]",
                                        "a[1-2-3]",
                                        "a[0-9999999]",
                                        "a[1111111111]",
                                        "a;b",
                                        "a[0-1048575][0-1048575][0-1048575][0-1048575]"};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ff_buffer all = {0};
        uint64_t count = 1;
        for (uint64_t k = 0; k < count; k++) {
            assert_ok(ff_node_list_host("V", cases[i].list, k, &all, &count, error));
            assert_ok(ff_buffer_add(&all, " ", 1, error));
        }
        assert_string_equal(all.bytes, cases[i].hosts);
        assert_fails(ff_node_list_host("V", cases[i].list, count, &all, &count, error), FF_USAGE,
                     "it has no node");
        ff_buffer_free(&all);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ff_buffer host = {0};
        uint64_t count;
        assert_fails(ff_node_list_host("V", wrong[i], 0, &host, &count, error), FF_USAGE,
                     "no list of nodes");
        ff_buffer_free(&host);
    }
}

static void test_tasks(void **state) {
    (void)state;
    uint64_t tasks;
    static const int wanted[] = {2, 2, 2, 1, 16};
    for (uint64_t i = 0; i < 5; i++) {
        assert_ok(ff_node_list_tasks("V", "2(x3),1,16", i, &tasks, error));
        assert_int_equal(tasks, wanted[i]);
    }
    static const char *const wrong[] = {"", "x", "2(", "2(x)", "2(3)", "2(x3", "2(x0)", "2,,2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(ff_node_list_tasks("V", wrong[i], 1, &tasks, error), FF_USAGE, "node 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_node_lists),
        cmocka_unit_test(test_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
