#include "train/comm/job/ranks.h"

#include "train/comm/job/node_list.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FFTRAIN, TORCHRUN, OPEN_MPI, MPICH, SLURM, FAMILIES };
enum { MOST_RANKS = 65536, FIRST_PORT = 15000, PORTS = 10000 };

/* The variables that a launcher must set, all of them. */
typedef struct rank_family {
    const char *name;
    const char *rank, *size, *local_rank;
    const char *others[3];
    const char *job[3]; /* their values name the job, if they are set */
} rank_family;

static const rank_family families[FAMILIES] = {
    [FFTRAIN] = {"fftrain",
                 "FFTRAIN_RANK",
                 "FFTRAIN_RANKS",
                 "FFTRAIN_RANK",
                 {"FFTRAIN_JOB"},
                 {"FFTRAIN_JOB"}},
    [TORCHRUN] = {"torchrun",
                  "RANK",
                  "WORLD_SIZE",
                  "LOCAL_RANK",
                  {"LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
                  {"TORCHELASTIC_RUN_ID", "MASTER_PORT"}},
    [OPEN_MPI] = {"Open MPI",
                  "OMPI_COMM_WORLD_RANK",
                  "OMPI_COMM_WORLD_SIZE",
                  "OMPI_COMM_WORLD_LOCAL_RANK",
                  {"OMPI_COMM_WORLD_LOCAL_SIZE"},
                  {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"}},
    [MPICH] = {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", {"MPI_LOCALNRANKS"}, {NULL}},
    [SLURM] = {"SLURM",
               "SLURM_PROCID",
               "SLURM_NTASKS",
               "SLURM_LOCALID",
               {"SLURM_NODEID", "SLURM_JOB_ID"},
               {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

/* NULL if a variable is not set, or empty. */
static const char *value_of(const char *name) {
    const char *value = name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

static ff_status read_number(const char *name, int lowest, int highest, int *out, ff_error *error) {
    const char *text = value_of(name);
    char *end = NULL;
    const long number = text ? strtol(text, &end, 10) : 0;
    if (!text) return ff_fail(error, FF_USAGE, "%s is not set", name);
    if (strspn(text, "0123456789") != strlen(text) || number < lowest || number > highest)
        return ff_fail(error, FF_USAGE, "%s is '%.100s': not a number from %d to %d", name, text,
                       lowest, highest);
    *out = (int)number;
    return FF_OK;
}

/* The first variable of a family that is missing; NULL if none is missing. */
static const char *missing_of(const rank_family *family) {
    const char *const first[] = {family->rank, family->size, family->local_rank};
    for (size_t i = 0; i < 3; i++)
        if (!value_of(first[i])) return first[i];
    for (size_t i = 0; i < 3 && family->others[i]; i++)
        if (!value_of(family->others[i])) return family->others[i];
    return NULL;
}

/* A shell in an allocation, or a batch script, has variables of tasks but is not a task. Only srun
 * numbers steps; the step ids of such shells have ten digits. */
static bool in_shell_of_slurm(void) {
    const char *job = value_of("SLURM_JOB_NAME"), *kind = value_of("ENVIRONMENT");
    const char *step = value_of("SLURM_STEP_ID");
    const bool bash = job && !strcmp(job, "bash");
    if (step) return bash || strlen(step) > 9;
    return bash || !value_of("SLURM_PROCID") || (job && !strcmp(job, "interactive")) ||
           (kind && !strcmp(kind, "BATCH"));
}

/* Refuses two launchers whose variables disagree. They may differ if another launcher starts a
 * torchrun on each machine: then its variables remain. SLURM's variables are not compared, because
 * SLURM starts the daemons of mpirun. */
static ff_status check_others(const ff_ranks *ranks, int chosen, ff_error *error) {
    for (int i = chosen + 1; chosen != FFTRAIN && i < SLURM; i++) {
        const rank_family *mine = &families[chosen], *other = &families[i];
        int rank, size, machines = 0;
        if (missing_of(other)) continue;
        FF_TRY(read_number(other->size, 1, MOST_RANKS, &size, error));
        FF_TRY(read_number(other->rank, 0, size - 1, &rank, error));
        if (chosen == TORCHRUN && value_of("GROUP_WORLD_SIZE"))
            FF_TRY(read_number("GROUP_WORLD_SIZE", 1, MOST_RANKS, &machines, error));
        if ((rank == ranks->rank && size == ranks->size) || size == machines) continue;
        return ff_fail(error, FF_USAGE,
                       "%s has rank %d of %d (%s, %s), %s has rank %d of %d (%s, %s): unset the "
                       "variables of one launcher",
                       mine->name, ranks->rank, ranks->size, mine->rank, mine->size, other->name,
                       rank, size, other->rank, other->size);
    }
    return FF_OK;
}

static ff_status name_job(ff_ranks *ranks, const rank_family *family, ff_error *error) {
    ff_buffer name = {0};
    ff_status status = ff_buffer_printf(&name, error, "%s", family->name);
    for (size_t i = 0; i < 3 && family->job[i] && status == FF_OK; i++)
        if (value_of(family->job[i]))
            status = ff_buffer_printf(&name, error, " %.200s", value_of(family->job[i]));
    ranks->job = name.bytes;
    return status;
}

/* 15000 + the last four digits of SLURM's job id; under other launchers, of a hash of the job. */
static int port_of(const ff_ranks *ranks, int chosen) {
    const char *text = chosen == SLURM ? value_of("SLURM_JOB_ID") : ranks->job;
    uint32_t sum = 0;
    for (; *text; text++)
        sum = chosen == SLURM ? (sum * 10 + (uint32_t)(*text - '0')) % PORTS
                              : (sum ^ (unsigned char)*text) * 16777619;
    return FIRST_PORT + (int)(sum % PORTS);
}

static ff_status read_slurm(ff_ranks *ranks, ff_buffer *host, ff_error *error) {
    static const char *const lists[] = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST",
                                        "SLURM_NODELIST"};
    static const char *const tasks[] = {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"};
    int list = 0, node, number;
    uint64_t nodes = 0, local = 0;
    FF_TRY(read_number("SLURM_NODEID", 0, MOST_RANKS, &node, error));
    FF_TRY(read_number("SLURM_JOB_ID", 0, 2147483647, &number, error));
    while (list < 2 && !value_of(lists[list])) list++;
    if (!value_of(lists[list]))
        return ff_fail(error, FF_USAGE, "%s is not set, but %s is", lists[0], families[SLURM].rank);
    FF_TRY(ff_node_list_host(lists[list], value_of(lists[list]), 0, host, &nodes, error));
    const char *given = value_of(tasks[0]) ? tasks[0] : tasks[1];
    if (value_of(given))
        FF_TRY(ff_node_list_tasks(given, value_of(given), (uint64_t)node, &local, error));
    else if (nodes == 1)
        local = (uint64_t)ranks->size;
    else
        return ff_fail(error, FF_USAGE, "%s is not set, but %s is", given, families[SLURM].rank);
    if (local < 1 || local > (uint64_t)ranks->size)
        return ff_fail(error, FF_USAGE, "%s is '%.100s', but SLURM_NTASKS is %d", given,
                       value_of(given), ranks->size);
    ranks->local_size = (int)local;
    return FF_OK;
}

/* Finds the machine and the port of rank 0. */
static ff_status find_address(ff_ranks *ranks, int chosen, ff_error *error) {
    static const char *const passed[] = {
        [OPEN_MPI] = "mpirun -x MASTER_ADDR=HOST", [MPICH] = "mpirun -genv MASTER_ADDR HOST"};
    const char *given = value_of("MASTER_ADDR");
    ff_buffer node = {0};
    ff_status status = FF_OK;
    if (chosen == FFTRAIN) return ff_copy_string(&ranks->host, value_of("FFTRAIN_JOB"), error);
    if (chosen == SLURM) FF_TRY_DONE(read_slurm(ranks, &node, error));
    if (!given) given = node.bytes;
    if (!given && ranks->local_size < ranks->size)
        FF_TRY_DONE(ff_fail(error, FF_USAGE,
                            "MASTER_ADDR is not set: on several machines set rank 0's: %s",
                            passed[chosen]));
    FF_TRY_DONE(ff_copy_string(&ranks->host, given ? given : "127.0.0.1", error));
    if (chosen == TORCHRUN)
        status = read_number("MASTER_PORT", 1, 65534, &ranks->port, error);
    else if (value_of("MASTER_PORT"))
        status = read_number("MASTER_PORT", 1, 65535, &ranks->port, error);
    else
        ranks->port = port_of(ranks, chosen);
    if (chosen == TORCHRUN) ranks->port++;
done:
    ff_buffer_free(&node);
    return status;
}

static ff_status read_family(ff_ranks *ranks, int chosen, ff_error *error) {
    const rank_family *family = &families[chosen];
    ranks->family = family->name;
    FF_TRY(read_number(family->size, 1, MOST_RANKS, &ranks->size, error));
    FF_TRY(read_number(family->rank, 0, ranks->size - 1, &ranks->rank, error));
    ranks->local_size = ranks->size;
    if (chosen != FFTRAIN && chosen != SLURM)
        FF_TRY(read_number(family->others[0], 1, ranks->size, &ranks->local_size, error));
    FF_TRY(check_others(ranks, chosen, error));
    FF_TRY(name_job(ranks, family, error));
    FF_TRY(find_address(ranks, chosen, error));
    FF_TRY(read_number(family->local_rank, 0, ranks->local_size - 1, &ranks->local_rank, error));
    if (chosen == FFTRAIN && ranks->rank == 0)
        FF_TRY(read_number("FFTRAIN_LISTENER", 0, 1 << 20, &ranks->listener, error));
    return FF_OK;
}

ff_status ff_ranks_read(ff_ranks *ranks, ff_error *error) {
    int chosen = FAMILIES, partial = FAMILIES;
    *ranks = (ff_ranks){.size = 1, .local_size = 1, .listener = -1};
    for (int i = FAMILIES - 1; i >= 0; i--) {
        if (i == SLURM && in_shell_of_slurm()) continue;
        if (!missing_of(&families[i]))
            chosen = i;
        else if (value_of(families[i].rank) || value_of(families[i].size))
            partial = i;
    }
    if (chosen == FAMILIES && partial == FAMILIES) return FF_OK;
    if (chosen == FAMILIES) {
        const rank_family *family = &families[partial];
        return ff_fail(error, FF_USAGE, "%s is not set, but %s is, as by %s", missing_of(family),
                       value_of(family->rank) ? family->rank : family->size, family->name);
    }
    ff_status status = read_family(ranks, chosen, error);
    if (status == FF_OK) return FF_OK;
    ff_ranks_free(ranks);
    return status;
}

void ff_ranks_free(ff_ranks *ranks) {
    free(ranks->host);
    free(ranks->job);
    ranks->host = ranks->job = NULL;
}

bool ff_ranks_are_own(const ff_ranks *ranks) {
    return ranks->family == families[FFTRAIN].name;
}
