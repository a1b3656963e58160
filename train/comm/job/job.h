/* Room train/comm/job, floor 11: the ranks of a job: who and where they are, and how they
 * communicate.
 *
 * ranks.c reads this process's rank from the launcher's variables (node_list.c reads SLURM's
 * lists). launch.c starts the ranks of --ranks and of --dp, whose devices devices.c reads. The
 * channel connects all ranks to rank 0 and carries everything that a step does not wait for:
 * agreement, heartbeats, failures. shares.c divides a batch among ranks of different speed. This
 * header joins the parts: a rank meets the others, connects the communicator, and concludes.
 *
 * May include format, loader/device, loader/host, train/comm/collective.
 *
 * A job: the ranks that train one model together, each with a device and a share of every batch;
 * and this rank's connections to the others. Each rank is a process. A run with one process has no
 * job (NULL).
 *
 * Thread rule: the rank's thread. */
#ifndef FF_TRAIN_COMM_JOB_H
#define FF_TRAIN_COMM_JOB_H

#include "train/comm/collective/comm.h"
#include "train/comm/collective/nccl.h"
#include "train/comm/job/channel.h"

#include <pthread.h>

/* The place of a rank. */
typedef struct ff_job_place {
    char host[64];
    char bus[32]; /* of its GPU on the machine, as in ff_job_gpu; "" on the CPU */
    char device[288];
} ff_job_place;

typedef struct ff_job {
    int rank, size;
    int local_size; /* ranks on this machine */
    const uint32_t
        *cuts;           /* [size + 1]: rank r has the parts [cuts[r], cuts[r + 1]) of cuts[size] */
    uint64_t timeout_ns; /* a rank that is silent for longer is lost */
    const ff_ranks *ranks; /* NULL: a rank that only plans */
    ff_channel *channel;   /* NULL: a rank that only plans */
    ff_job_place *places;  /* [size]: from ff_job_meet, NULL before; freed by the job's maker */
    ff_comm *comm;         /* from ff_job_connect; NULL before */
    ff_comm *norms;        /* used in the compute's stream: NCCL's is `comm`; or NULL */
    ff_device *streams;    /* whose streams `comm` uses; NULL = the compute's device */
    pthread_mutex_t lock;  /* of comm and norms, which any thread may abort */
    bool divides;          /* --dp-balance may list the parts */
    bool concluded;        /* the others know how this rank ends */
} ff_job;

/* The rows [*first, *first + *rows) of a batch of `batch` rows are this rank's; pairs: as in
 * ff_loader_share. With job NULL: all rows. */
void ff_job_share(const ff_job *job, uint64_t batch, bool pairs, uint64_t *first, uint64_t *rows);

/* This rank's number among those on its machine; 0 without a job. */
static inline int ff_job_local_rank(const ff_job *job) {
    return job && job->ranks ? job->ranks->local_rank : 0;
}

/* A rank's GPU. */
typedef struct ff_job_gpu {
    const char *text; /* for reports */
    const char *bus;  /* its place on the machine: ff_cuda_properties.bus */
    /* NCCL, of the CUDA module: ff_nccl_create. */
    ff_status (*create)(ff_comm **comm, ff_device *device, const ff_nccl_options *options,
                        ff_error *error);
} ff_job_gpu;

/* Sends this rank's place to all ranks; gpu NULL: on the CPU. Every rank calls it; a second call
 * does nothing. */
FF_MUST_USE ff_status ff_job_meet(ff_job *job, const ff_job_gpu *gpu, ff_error *error);
/* Whether two ranks are on the same GPU or CPU or, with `host`, on the same machine. Call after
 * ff_job_meet. */
bool ff_job_together(const ff_job *job, int a, int b, bool host);
/* The number of ranks together with `rank`, including itself; 1 before ff_job_meet and without a
 * job. */
int ff_job_sharing(const ff_job *job, int rank, bool host);

/* Opens the communicator, for a compute on `device`; gpu NULL: on the CPU. Uses NCCL if every rank
 * has a GPU of its own; else the host's communicators, MPI's under its launchers. With `norms` also
 * opens that one; the host's is another one, whose calls need not wait for gradients that are being
 * reduced. Every rank calls it; a second call does nothing. */
FF_MUST_USE ff_status ff_job_connect(ff_job *job, ff_device *device, const ff_job_gpu *gpu,
                                     bool norms, ff_error *error);
/* Call after all work of the communicators is done, or aborted, and before the device is destroyed.
 * NULL is accepted. */
void ff_job_disconnect(ff_job *job);
/* Calls ff_channel_conclude for the work of this rank and, if the work failed, ends all ranks'
 * collectives. Call it before ff_job_disconnect, which may wait for ranks that would wait for this
 * one. Does nothing if job is NULL, or if called again. */
FF_MUST_USE ff_status ff_job_conclude(ff_job *job, ff_status status, ff_error *error);
/* Ends the collectives of all ranks. Any thread. */
void ff_job_abort(ff_job *job, const char *why);

/* Adds `count` numbers over all ranks, in the order of the ranks: the same result on each. */
FF_MUST_USE ff_status ff_job_sum(ff_job *job, double *numbers, size_t count, ff_error *error);
/* FF_FAILED if `length` bytes are not the same on every rank: "rank 2 has WHAT than rank 0"; for a
 * text also the first line that differs. */
FF_MUST_USE ff_status ff_job_agree(ff_job *job, const char *what, const void *bytes, size_t length,
                                   ff_error *error);
FF_MUST_USE ff_status ff_job_agree_text(ff_job *job, const char *what, const ff_buffer *text,
                                        ff_error *error);
/* Replaces weight and text by those of the rank with the largest weight, the first of equals. */
FF_MUST_USE ff_status ff_job_choose(ff_job *job, int32_t *weight, ff_buffer *text, ff_error *error);
/* Replaces `bytes` by rank 0's. */
FF_MUST_USE ff_status ff_job_broadcast(ff_job *job, void *bytes, size_t length, ff_error *error);

/* The work of a rank; it calls ff_job_conclude before ff_job_disconnect. */
typedef struct ff_rank_work {
    ff_status (*run)(void *context, ff_job *job, ff_error *error);
    void *context;
    uint64_t timeout_ns; /* a rank that is silent for longer is lost */
} ff_rank_work;

/* Runs this process as a rank of a job, whose ranks have equal parts of every batch unless the work
 * sets job->cuts. */
FF_MUST_USE ff_status ff_rank_run(const ff_ranks *ranks, const ff_rank_work *work, ff_error *error);

#endif
