#include "tools/ffpack/settings/part_auto.h"

#include <stdlib.h>
#include <string.h>

enum { DIGITS_LIMIT = 9 };
#define LAST_STEP UINT64_C(4294967280)

/* A launcher's variables. A launcher of jobs starts each part as a separate job; the others number
 * the processes of one job, and several may be set together. */
typedef struct family {
    const char *name, *index, *count;
    bool jobs;
} family;

static const family families[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", false},
    {"MPICH", "PMI_RANK", "PMI_SIZE", false},
    {"SLURM's tasks", "SLURM_PROCID", "SLURM_NTASKS", false},
    {"a SLURM array", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", true},
    {"a Kubernetes indexed job", "JOB_COMPLETION_INDEX", "FFPACK_PARTS", true},
};
enum { OPEN_MPI, MPICH, TASKS, ARRAY, KUBERNETES, FAMILIES };

/* An empty variable counts as unset. */
static const char *value_of(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static ff_status read_number(uint32_t *number, const char *name, uint32_t from, uint32_t to,
                             ff_error *error) {
    const char *text = value_of(name);
    size_t length = text ? strspn(text, "0123456789") : 0;
    if (text) *number = (uint32_t)strtoul(text, NULL, 10);
    if (length && length <= DIGITS_LIMIT && !text[length] && *number >= from && *number <= to)
        return FF_OK;
    return text ? ff_fail(error, FF_USAGE, "--part auto: %s is '%s', wanted a number from %u to %u",
                          name, text, from, to)
                : ff_fail(error, FF_USAGE, "--part auto: %s is not set, but others of its kind are",
                          name);
}

/* The task ids may begin anywhere and go in steps, but a list of ids has no such order. */
static ff_status read_array(uint32_t *index, uint32_t count, ff_error *error) {
    const uint32_t limit = 999999999;
    uint32_t first, last, step, id;
    FF_TRY(read_number(&first, "SLURM_ARRAY_TASK_MIN", 0, limit, error));
    FF_TRY(read_number(&last, "SLURM_ARRAY_TASK_MAX", first, limit, error));
    FF_TRY(read_number(&step, "SLURM_ARRAY_TASK_STEP", 1, limit, error));
    FF_TRY(read_number(&id, "SLURM_ARRAY_TASK_ID", first, last, error));
    *index = (id - first) / step;
    if ((last - first) / step + 1 == count && (id - first) % step == 0) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "--part auto: SLURM_ARRAY_TASK_COUNT is %u, but SLURM_ARRAY_TASK_MIN, "
                   "SLURM_ARRAY_TASK_MAX and SLURM_ARRAY_TASK_STEP (%u, %u, %u) are not such a "
                   "range with SLURM_ARRAY_TASK_ID %u; wanted --array=1-%u",
                   count, first, last, step, id, count);
}

/* part->count = 0 if the family is not set. */
static ff_status read_family(ff_part *part, const family *own, ff_error *error) {
    uint32_t index, count;
    *part = (ff_part){0};
    if (!value_of(own->index)) return FF_OK;
    /* A batch script that asks for no tasks has only SLURM_PROCID, 0. */
    if (own == &families[TASKS] && !value_of(own->count)) return FF_OK;
    if (own == &families[KUBERNETES] && !value_of(own->count))
        return ff_fail(error, FF_USAGE,
                       "--part auto: JOB_COMPLETION_INDEX is set, but Kubernetes does not set the "
                       "number of parts; wanted FFPACK_PARTS in the job's env, the same as its "
                       "completions");
    FF_TRY(read_number(&count, own->count, 1, FF_PARTS_LIMIT, error));
    FF_TRY(own == &families[ARRAY] ? read_array(&index, count, error)
                                   : read_number(&index, own->index, 0, count - 1, error));
    *part = (ff_part){.number = index + 1, .count = count};
    return FF_OK;
}

static ff_status refuse_none(ff_error *error) {
    ff_buffer list = {0};
    ff_status status = FF_OK;
    for (int i = FAMILIES - 1; i >= 0 && status == FF_OK; i--)
        status = ff_buffer_printf(&list, error, "%s%s and %s (%s)", list.length ? ", " : "",
                                  families[i].index, families[i].count, families[i].name);
    if (status == FF_OK)
        status = ff_fail(error, FF_USAGE,
                         "--part auto: no launcher numbers this process; looked for %s; wanted "
                         "--part I/N",
                         list.bytes);
    ff_buffer_free(&list);
    return status;
}

/* Accepts one launcher, or several that number the same processes. */
static ff_status choose(const ff_part *part, int *chosen, ff_error *error) {
    *chosen = -1;
    for (int i = 0; i < FAMILIES; i++) {
        const int best = *chosen;
        if (!part[i].count) continue;
        if (best < 0 || (part[best].count == 1 && part[i].count > 1)) *chosen = i;
        if (best < 0 || part[best].count == 1 || part[i].count == 1) continue;
        if (!families[i].jobs && !families[best].jobs && part[i].number == part[best].number &&
            part[i].count == part[best].count)
            continue;
        return ff_fail(
            error, FF_USAGE,
            "--part auto: %s and %s mean part %u/%u, but %s and %s part %u/%u; wanted one "
            "launcher, or --part I/N",
            families[best].index, families[best].count, part[best].number, part[best].count,
            families[i].index, families[i].count, part[i].number, part[i].count);
    }
    return *chosen < 0 ? refuse_none(error) : FF_OK;
}

ff_status ff_part_auto(ff_part *part, char **origin, ff_error *error) {
    ff_part found[FAMILIES];
    int chosen;
    *origin = NULL;
    for (int i = 0; i < FAMILIES; i++) FF_TRY(read_family(&found[i], &families[i], error));
    /* A job's script, which has no step, is not a task; neither is a shell in the job (salloc),
     * whose step number is above the tasks' steps. mpirun starts its daemons as tasks. */
    const char *step = value_of("SLURM_STEP_ID");
    const bool script = !step || strtoull(step, NULL, 10) > LAST_STEP;
    const uint32_t ranks = found[OPEN_MPI].count | found[MPICH].count;
    if (ranks > 1 || (script && (ranks || found[TASKS].count == 1))) found[TASKS].count = 0;
    FF_TRY(choose(found, &chosen, error));
    if (script && chosen == TASKS)
        return ff_fail(
            error, FF_USAGE,
            "--part auto: SLURM_NTASKS is %u, but by SLURM_STEP_ID this is not one of the tasks; "
            "wanted srun ffpack",
            found[TASKS].count);
    *part = found[chosen];
    return ff_format(origin, error, "%s=%s, %s=%s", families[chosen].index,
                     getenv(families[chosen].index), families[chosen].count,
                     getenv(families[chosen].count));
}
