/* --dp: replicas of a model in one process, each a thread with a device and a share of every batch.
 */
#ifndef FF_TRAIN_REPLICAS_H
#define FF_TRAIN_REPLICAS_H

#include "train/comm/job/job.h"

enum { FF_REPLICAS = 64 };

typedef struct ff_replicas {
    int count; /* 0 = not requested */
    char device[FF_REPLICAS][24];
    uint32_t cuts[FF_REPLICAS + 1]; /* as in ff_job */
} ff_replicas;

/* devices: "0,1,2", "cpu,cpu", "cuda:1,cuda:3", "2x0,1" with two on GPU 0; NULL = none. balance:
 * "2,3,3", parts of a batch; NULL = equal. FF_USAGE. */
FF_MUST_USE ff_status ff_replicas_parse(ff_replicas *replicas, const char *devices,
                                        const char *balance, ff_error *error);

/* The work of a rank; it calls ff_job_conclude before ff_job_disconnect. device: from --dp; NULL =
 * from the options. */
typedef struct ff_rank_work {
    ff_status (*run)(void *context, ff_job *job, const char *device, ff_error *error);
    void *context;
    uint64_t timeout_ns; /* a rank that is silent for longer is lost */
} ff_rank_work;

/* Runs every replica in a thread, the first one in the caller's. Returns its status, or the status
 * of the replica whose failure ended the others. */
FF_MUST_USE ff_status ff_replicas_run(const ff_replicas *replicas, const ff_rank_work *work,
                                      ff_error *error);
/* Runs this process as a rank of a job of processes, which have equal parts of every batch. */
FF_MUST_USE ff_status ff_rank_run(const ff_ranks *ranks, const ff_rank_work *work, ff_error *error);

#endif
