/* The update on the device: its tables, made once, and the launches of a step. */
#include "train/compute/cuda/compute_update.h"

#include "format/base/memory.h"

#include <stdlib.h>

struct ff_prepared_update {
    ff_cuda_update all;                    /* for the check */
    ff_cuda_update by_rule[FF_RULE_COUNT]; /* the same tables, with the chunks of one rule */
    /* The buffers and their average, of update_spec; average_buffers NULL = no average. */
    const float *buffers;
    float *average_buffers;
    size_t buffer_count;
    void *segments, *chunks, *groups, *rates, *sums, *scale; /* the tables' memory */
    ff_cuda_muon_banks *banks;
};

/* Host copies of the tables. */
typedef struct tables {
    ff_cuda_segment *segments;
    ff_cuda_chunk *chunks;
    ff_cuda_group *groups;
    float *rates;
} tables;

static ff_cuda_segment segment_of(const ff_compute *compute, const ff_update_segment *from) {
    ff_cuda_segment segment = {
        .count = from->count,
        .group = (uint32_t)from->group,
        .gradient_dtype = from->sums ? FF_F32 : from->gradient_dtype,
        .working_dtype = compute->dtype,
        .gradient = from->sums ? from->sums : from->gradient,
        .master = from->values,
        .working = from->working,
        .adapts = from->adapts,
        .ema = from->average,
    };
    for (int i = 0; i < FF_STATES; i++) segment.state[i] = from->state[i];
    return segment;
}

static ff_cuda_group group_of(const ff_update_spec *spec, int g) {
    return (ff_cuda_group){
        .rate_row = (uint32_t)g,
        .multiplier = 1,
        .hyper = spec->how.groups[g],
        .ema_decay = (float)spec->how.ema_decay,
    };
}

/* Lists segments and chunks, rule by rule; returns the number of Muon's first segment. */
static uint32_t list_segments(const ff_compute *compute, const ff_update_spec *spec, tables *host,
                              ff_prepared_update *u) {
    uint32_t made = 0, muon = 0, chunks = 0;
    for (int rule = 0; rule < FF_RULE_COUNT; rule++) {
        const uint32_t first = chunks;
        if (rule == FF_RULE_MUON) muon = made;
        for (int i = 0; i < spec->segment_count; i++)
            if ((int)spec->segments[i].rule == rule)
                host->segments[made++] = segment_of(compute, &spec->segments[i]);
        chunks = ff_cuda_chunks(host->segments, made, NULL);
        u->by_rule[rule].chunk_count = chunks - first;
    }
    return muon;
}

static ff_status send(ff_compute *compute, void *to, const void *table, uint64_t bytes,
                      ff_error *error) {
    FF_TRY(ff_compute_allocate(compute, to, bytes ? bytes : 1, "the tables of the update", error));
    ff_compute_write(compute, *(void **)to, table, bytes);
    return ff_compute_check(compute, error);
}

static ff_status build(ff_compute *compute, ff_prepared_update *u, const ff_update_spec *spec,
                       tables *host, ff_error *error) {
    const char *what = "the tables of the update";
    const uint64_t segments = (uint64_t)spec->segment_count,
                   groups = (uint64_t)spec->how.group_count;
    const uint64_t rates = groups * spec->how.rate_steps;
    FF_TRY(ff_alloc(&host->segments, segments, sizeof *host->segments, what, error));
    FF_TRY(ff_alloc(&host->groups, groups, sizeof *host->groups, what, error));
    FF_TRY(ff_alloc(&host->rates, rates, sizeof *host->rates, what, error));
    const uint32_t muon = list_segments(compute, spec, host, u);
    const uint32_t chunks = ff_cuda_chunks(host->segments, (uint32_t)segments, NULL);
    FF_TRY(ff_alloc(&host->chunks, chunks, sizeof *host->chunks, what, error));
    ff_cuda_chunks(host->segments, (uint32_t)segments, host->chunks);
    for (int g = 0; g < spec->how.group_count; g++) host->groups[g] = group_of(spec, g);
    for (uint64_t i = 0; i < rates; i++) host->rates[i] = (float)spec->how.rates[i];
    FF_TRY(send(compute, &u->segments, host->segments, segments * sizeof *host->segments, error));
    FF_TRY(send(compute, &u->chunks, host->chunks, chunks * sizeof *host->chunks, error));
    FF_TRY(send(compute, &u->groups, host->groups, groups * sizeof *host->groups, error));
    FF_TRY(send(compute, &u->rates, host->rates, rates * sizeof *host->rates, error));
    FF_TRY(ff_compute_allocate(compute, &u->sums, chunks * 2 * sizeof(double), what, error));
    if (spec->how.clip_norm > 0 || spec->total)
        FF_TRY(ff_compute_allocate(compute, &u->scale, sizeof(float), what, error));
    u->buffers = spec->buffers;
    u->average_buffers = spec->average_buffers;
    u->buffer_count = spec->buffer_count;
    u->all = (ff_cuda_update){
        .segments = u->segments,
        .chunks = u->chunks,
        .chunk_count = chunks,
        .groups = u->groups,
        .group_count = (uint32_t)groups,
        .rates = u->rates,
        .rate_steps = (uint32_t)spec->how.rate_steps,
        .control = spec->control,
        .sums = u->sums,
        .scale = u->scale,
        .how = spec->how,
        .total = spec->total,
    };
    const ff_cuda_chunk *first = u->all.chunks;
    for (int rule = 0; rule < FF_RULE_COUNT; rule++) {
        const uint32_t count = u->by_rule[rule].chunk_count;
        u->by_rule[rule] = u->all;
        u->by_rule[rule].chunks = first;
        u->by_rule[rule].chunk_count = count;
        first += count;
    }
    return ff_cuda_muon_create(&u->banks, (ff_cuda_compute *)compute, spec, host->segments + muon,
                               host->groups, &u->all, error);
}

ff_status ff_cuda_update_create(ff_compute *compute, const ff_update_spec *spec,
                                ff_prepared_update **out, ff_error *error) {
    ff_prepared_update *u;
    tables host = {0};
    *out = NULL;
    if (spec->how.rate_steps > UINT32_MAX)
        return ff_fail(error, FF_USAGE, "a run of more than %u steps", UINT32_MAX);
    FF_TRY(ff_alloc(&u, 1, sizeof *u, "an update", error));
    ff_status status = build(compute, u, spec, &host, error);
    free(host.segments);
    free(host.chunks);
    free(host.groups);
    free(host.rates);
    if (status == FF_OK)
        *out = u;
    else
        ff_cuda_update_destroy(compute, u);
    return status;
}

void ff_cuda_update_destroy(ff_compute *compute, ff_prepared_update *u) {
    if (!u) return;
    void *memory[] = {u->segments, u->chunks, u->groups, u->rates, u->sums, u->scale};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i]) ff_compute_release(compute, memory[i]);
    ff_cuda_muon_destroy(compute, u->banks);
    free(u);
}

void ff_cuda_update_sum(ff_compute *compute, const ff_gradient_sum *sum) {
    const ff_cuda_queue *queue = &((const ff_cuda_compute *)compute)->queue;
    ff_cuda_keep(compute, ff_cuda_sum_gradients(queue, sum), "the sum of the gradients");
}

void ff_cuda_update_count(ff_compute *compute, ff_prepared_update *u, bool first, ff_outcome *ring,
                          uint32_t ring_size) {
    const ff_cuda_queue *queue = &((const ff_cuda_compute *)compute)->queue;
    ff_cuda_keep(compute, ff_cuda_outcome_add(queue, &u->all, first, ring, ring_size),
                 "the outcome of a micro-batch");
}

void ff_cuda_update_join(ff_compute *compute, ff_prepared_update *u, const ff_outcome *ranks,
                         int count, ff_outcome *ring, uint32_t ring_size) {
    const ff_cuda_queue *queue = &((const ff_cuda_compute *)compute)->queue;
    ff_cuda_keep(compute, ff_cuda_outcome_join(queue, &u->all, ranks, count, ring, ring_size),
                 "the outcome of all ranks");
}

void ff_cuda_update_enqueue(ff_compute *compute, ff_prepared_update *u, ff_outcome *ring,
                            uint32_t ring_size) {
    const ff_cuda_queue *queue = &((const ff_cuda_compute *)compute)->queue;
    ff_compute_mark(compute, FF_MARK_CHECK, 0);
    ff_cuda_keep(compute, ff_cuda_check(queue, &u->all), "the check of the gradients");
    for (int rule = 0; rule < FF_RULE_COUNT; rule++) {
        if (!u->by_rule[rule].chunk_count) continue;
        ff_compute_mark(compute, FF_MARK_UPDATE, rule);
        if (rule == FF_RULE_MUON)
            ff_cuda_muon_enqueue((ff_cuda_compute *)compute, u->banks);
        else
            ff_cuda_keep(compute, ff_cuda_update_run(queue, &u->by_rule[rule], (ff_rule)rule),
                         "the update");
    }
    ff_compute_mark(compute, FF_MARK_ADVANCE, 0);
    if (u->average_buffers)
        ff_cuda_keep(compute,
                     ff_cuda_average(queue, u->all.control, (float)u->all.how.ema_decay,
                                     u->buffer_count, u->buffers, u->average_buffers),
                     "the average of the buffers");
    ff_cuda_keep(compute, ff_cuda_advance(queue, &u->all, ring, ring_size), "the end of a step");
}
