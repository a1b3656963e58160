#include "loader/ahead/measure.h"

#include "format/base/thread.h"
#include "loader/ahead/stage.h"

#include <stdlib.h>

enum { TURNS = 2, TURN_REQUESTS = 512 };
#define TURN_BYTES (UINT64_C(32) << 20)

/* Requests that are submitted together, and the memory that they read into. */
typedef struct turn {
    ff_request request[TURN_REQUESTS];
    size_t count, left; /* left: not yet done */
    uint8_t *memory;
    uint64_t bytes; /* of memory */
    double rows;    /* that need these requests */
} turn;

typedef struct measurement {
    pthread_mutex_t mutex;
    pthread_cond_t done;
    ff_engine *engine;
    ff_ahead_plan plan;
    ff_ahead_stage stage;
    size_t next;          /* request of the stage */
    uint64_t stage_bytes; /* of its requests */
    uint64_t end;         /* the row after the epoch's last one */
    turn *turn;           /* [TURNS] */
    bool failed;
    atomic_bool stop; /* never: the plan asks for one */
} measurement;

static void request_done(void *context, ff_request *request) {
    measurement *m = context;
    turn *own = request->owner;
    pthread_mutex_lock(&m->mutex);
    m->failed |= atomic_load(&request->state) == FF_REQUEST_FAILED;
    if (!--own->left) pthread_cond_signal(&m->done);
    pthread_mutex_unlock(&m->mutex);
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
    }
    return &m->stage.request[m->next];
}

/* Fills a turn with the next requests until its memory is full. The memory grows where a single
 * request needs more. */
static ff_status fill(measurement *m, turn *own, ff_error *error) {
    const ff_request *request;
    uint64_t at = 0;
    own->count = 0;
    own->rows = 0;
    while (own->count < TURN_REQUESTS && (request = next_request(m)) != NULL) {
        const uint64_t bytes = ff_align_u64(request->bytes, FF_READ_BLOCK);
        if (own->count && at + bytes > own->bytes) break;
        if (at + bytes > own->bytes) {
            free(own->memory);
            own->bytes = bytes > TURN_BYTES ? bytes : TURN_BYTES;
            FF_TRY(ff_alloc_aligned(&own->memory, own->bytes, 1, FF_READ_BLOCK, "requests", error));
        }
        ff_request *copy = &own->request[own->count++];
        copy->shard = request->shard;
        copy->offset = request->offset;
        copy->bytes = request->bytes;
        copy->to = own->memory + at;
        copy->owner = own;
        atomic_store(&copy->state, FF_REQUEST_WAITS);
        own->rows += (double)(m->stage.end - m->stage.first) * (double)request->bytes /
                     (double)m->stage_bytes;
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

static ff_status read_for(measurement *m, uint64_t budget_ns, double *rate, ff_error *error) {
    const uint64_t began = ff_now_ns();
    double rows = 0;
    ff_status status = FF_OK;
    for (unsigned i = 0; status == FF_OK && !m->failed && ff_now_ns() - began < budget_ns; i++) {
        turn *own = &m->turn[i % TURNS];
        await(m, own);
        status = fill(m, own, error);
        if (status != FF_OK || !own->count) break;
        rows += own->rows;
        ff_engine_submit(m->engine, own->request, own->count);
    }
    for (int i = 0; i < TURNS; i++) await(m, &m->turn[i]);
    *rate = rows * 1e9 / (double)(ff_now_ns() - began + 1);
    return status;
}

ff_status ff_ahead_measure(const ff_loader_settings *settings, uint64_t budget_ns, double *rate,
                           ff_error *error) {
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
    *rate = 0;
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
    free(m.plan.extent);
    ff_ahead_stage_free(&m.stage);
    pthread_cond_destroy(&m.done);
    pthread_mutex_destroy(&m.mutex);
    return status;
}
