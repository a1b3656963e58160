#include "loader/rates/measure.h"

#include "format/base/thread.h"
#include "loader/host/ahead/stage.h"

#include <math.h>
#include <stdlib.h>

/* The first turn has this number of requests and bytes: enough for the engine's threads, and no
 * more than a slow disk reads in a short time. The turn doubles while it takes less than 1 /
 * TIME_PARTS of the budget. */
enum { TURNS = 2, FIRST_REQUESTS = 32, DOUBLINGS = 5, TIME_PARTS = 16 };
enum { TURN_REQUESTS = FIRST_REQUESTS << DOUBLINGS };
#define FIRST_BYTES (UINT64_C(1) << 20)

/* Amount of requests: the rows that need them, the bytes read, and the bytes used. */
typedef struct amount {
    double rows, read, used;
} amount;

/* Requests that are submitted together, and the memory that they read into. */
typedef struct turn {
    ff_request request[TURN_REQUESTS];
    size_t count, left; /* left: not yet done */
    uint8_t *memory;
    uint64_t bytes; /* of memory */
    amount amount;
    uint64_t done_ns; /* when the last request was done */
} turn;

typedef struct measurement {
    pthread_mutex_t mutex;
    pthread_cond_t done;
    ff_engine *engine;
    ff_ahead_plan plan;
    ff_ahead_stage stage;
    size_t next;          /* index of the next request in the stage */
    uint64_t stage_bytes; /* bytes of the stage's requests */
    double stage_used;    /* bytes of them that are used */
    uint64_t end;         /* the row after the epoch's last one */
    turn *turn;           /* [TURNS] */
    int doublings;        /* times that a turn was doubled */
    bool failed;
    atomic_bool stop; /* stays false: the plan needs one */
} measurement;

static void request_done(void *context, ff_request *request) {
    measurement *m = context;
    turn *own = request->owner;
    pthread_mutex_lock(&m->mutex);
    m->failed |= atomic_load(&request->state) == FF_REQUEST_FAILED;
    if (!--own->left) {
        own->done_ns = ff_now_ns();
        pthread_cond_signal(&m->done);
    }
    pthread_mutex_unlock(&m->mutex);
}

/* The bytes of the samples in the planned stage. */
static double used_bytes(const measurement *m) {
    const ff_loader_settings *settings = m->plan.rows.settings;
    double used = 0;
    if (settings->metadata->compression != FF_COMPRESSION_NONE)
        return (double)(m->stage.end - m->stage.first) * (double)settings->shard_bytes /
               (double)settings->stored;
    for (size_t i = 0; i < m->plan.need_count; i++) used += (double)m->plan.need[i].extent.bytes;
    return used;
}

/* The next request of the epoch; NULL at its end. */
static const ff_request *next_request(measurement *m) {
    while (m->next == m->stage.request_count) {
        if (m->stage.end >= m->end) return NULL;
        ff_ahead_plan_stage(&m->plan, &m->stage, m->stage.end);
        m->next = 0;
        m->stage_bytes = 0;
        for (size_t i = 0; i < m->stage.request_count; i++)
            m->stage_bytes += m->stage.request[i].bytes;
        m->stage_used = used_bytes(m);
    }
    return &m->stage.request[m->next];
}

/* Fills a turn with the next requests, at least one. */
static ff_status fill(measurement *m, turn *own, ff_error *error) {
    const size_t requests = (size_t)FIRST_REQUESTS << m->doublings;
    const uint64_t most = FIRST_BYTES << m->doublings;
    const ff_request *request;
    uint64_t at = 0;
    own->count = 0;
    own->amount = (amount){0};
    while (own->count < requests && (request = next_request(m)) != NULL) {
        const uint64_t bytes = ff_align_u64(request->bytes, FF_READ_BLOCK);
        const double part = (double)request->bytes / (double)m->stage_bytes;
        if (own->count && at + bytes > most) break;
        if (at + bytes > own->bytes || (!at && most > own->bytes)) {
            free(own->memory);
            own->memory = NULL;
            own->bytes = bytes > most ? bytes : most;
            FF_TRY(ff_alloc_for_disk(&own->memory, own->bytes, "requests", error));
        }
        ff_request *copy = &own->request[own->count++];
        copy->shard = request->shard;
        copy->offset = request->offset;
        copy->bytes = request->bytes;
        copy->to = own->memory + at;
        copy->owner = own;
        atomic_store(&copy->state, FF_REQUEST_WAITS);
        own->amount.rows += part * (double)(m->stage.end - m->stage.first);
        own->amount.read += (double)bytes;
        own->amount.used += part * m->stage_used;
        at += bytes;
        m->next++;
    }
    own->left = own->count;
    return FF_OK;
}

static void await(measurement *m, const turn *own) {
    pthread_mutex_lock(&m->mutex);
    while (own->left) pthread_cond_wait(&m->done, &m->mutex);
    pthread_mutex_unlock(&m->mutex);
}

/* The requests and bytes that turns have read since a time. */
typedef struct count {
    amount amount;
    unsigned turns;
    uint64_t since_ns;
} count;

static void take(count *sum, const amount *more) {
    sum->amount.rows += more->rows;
    sum->amount.read += more->read;
    sum->amount.used += more->used;
    sum->turns++;
}

/* On a slow disk fewer turns are enough, after a few times the budget. */
static bool is_enough(const count *sum, uint64_t took_ns, uint64_t budget_ns) {
    enum { TURNS_WANTED = 12, BUDGETS = 4 };
    return took_ns >= budget_ns && (sum->turns >= TURNS_WANTED || took_ns / BUDGETS >= budget_ns);
}

/* Keeps two turns at the disk, which may serve both at once. Counting begins with the first turn.
 * It begins again after turns become larger, once the smaller turn at the disk is done. */
static ff_status read_for(measurement *m, uint64_t budget_ns, ff_disk_rate *rate, ff_error *error) {
    const uint64_t began = ff_now_ns();
    count all = {.since_ns = began}, now = all;
    uint64_t last = began;
    bool anew = false, ended = false;
    ff_status status = FF_OK;
    for (unsigned i = 0; status == FF_OK && !m->failed; i++) {
        turn *own = &m->turn[i % TURNS];
        await(m, own);
        const uint64_t at = i < TURNS ? ff_now_ns() : own->done_ns;
        if (i >= TURNS) {
            take(&all, &own->amount);
            take(&now, &own->amount);
            own->amount = (amount){0};
            if (is_enough(&now, at - began, budget_ns)) break;
            if (anew) now = (count){.since_ns = at};
            anew = !anew && m->doublings < DOUBLINGS && at - last < budget_ns / TIME_PARTS;
            m->doublings += anew;
        }
        last = at;
        status = fill(m, own, error);
        ended = status == FF_OK && !own->count;
        if (status != FF_OK || ended) break;
        if (!i) now.since_ns = all.since_ns = ff_now_ns(); /* a stage was planned */
        ff_engine_submit(m->engine, own->request, NULL, own->count);
    }
    uint64_t end = began;
    for (int i = 0; i < TURNS; i++) {
        await(m, &m->turn[i]);
        take(&all, &m->turn[i].amount);
        take(&now, &m->turn[i].amount);
        if (m->turn[i].done_ns > end) end = m->turn[i].done_ns;
    }
    const count *counted = ended || anew ? &all : &now;
    rate->samples = counted->amount.rows * 1e9 / (double)(end - counted->since_ns + 1);
    rate->read = all.amount.read / fmax(all.amount.used, 1);
    return status;
}

ff_status ff_ahead_measure(const ff_loader_settings *settings, uint64_t budget_ns,
                           ff_disk_rate *rate, ff_error *error) {
    const ff_sequence *sequence = &settings->sequence;
    measurement m = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                     .done = PTHREAD_COND_INITIALIZER,
                     .end = sequence->first_batches * sequence->rows};
    m.plan = (ff_ahead_plan){
        .rows.settings = settings,
        .sequence = *sequence,
        .limits = {.rows = settings->ahead.rows, .bytes = settings->ahead.bytes / 2},
        .rows_now = settings->ahead.rows,
        .stop = &m.stop};
    ff_status status;
    *rate = (ff_disk_rate){0};
    FF_TRY_DONE(ff_alloc(&m.turn, TURNS, sizeof *m.turn, "requests", error));
    FF_TRY_DONE(ff_engine_create(&m.engine, settings->dataset, request_done, &m, error));
    FF_TRY_DONE(read_for(&m, budget_ns, rate, error));
    if (m.failed)
        status = ff_fail(error, FF_IO, "%s: its samples cannot be read to measure the disk",
                         ff_dataset_path(settings->dataset));
done:
    ff_engine_destroy(&m.engine);
    for (int i = 0; m.turn && i < TURNS; i++) free(m.turn[i].memory);
    free(m.turn);
    free(m.plan.need);
    ff_ahead_stage_free(&m.stage);
    pthread_cond_destroy(&m.done);
    pthread_mutex_destroy(&m.mutex);
    return status;
}
