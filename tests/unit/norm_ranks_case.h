/* A batch norm over ranks with uneven parts of a batch, perhaps one without samples, against a norm
 * over the whole batch in plain loops. */
#ifndef FF_TESTS_NORM_RANKS_CASE_H
#define FF_TESTS_NORM_RANKS_CASE_H

#include "tests/unit/train_helpers.h"

enum { NORM_RANKS = 4 };

/* Ranks run one after another: first each rank only sends its numbers, and continues without the
 * others'; then each runs again with the numbers of all. */
typedef struct norm_talk {
    ff_compute *compute;
    int rank, count;
    bool heard;
    double *told; /* [count][bytes] */
} norm_talk;

static inline void norm_gather(void *context, const void *own, void *all, uint64_t bytes) {
    norm_talk *talk = context;
    if (talk->heard)
        ff_compute_write(talk->compute, all, talk->told, bytes * (uint64_t)talk->count);
    else
        ff_compute_read(talk->compute, (char *)talk->told + bytes * (uint64_t)talk->rank, own,
                        bytes);
}

/* A norm of the samples [first, first + n) of a batch. */
typedef struct norm_part {
    ff_norm norm;
    ff_norm_backward backward;
    float *scratch;
    void *sums;
} norm_part;

/* The data shared by all parts: NCHW, and per channel. */
typedef struct norm_batch {
    ff_tensor shape; /* of the whole, NCHW */
    ff_activation activation;
    bool add, second, counted;
    float *x, *residual, *dy, *dy2, *gamma, *beta, *running_mean, *running_var;
} norm_batch;

static inline void *norm_put_channels(ff_compute *on, const ff_tensor *t, const float *values) {
    const size_t wide = (size_t)ff_tensor_padded_channels(t);
    float *all = floats(wide);
    memcpy(all, values, (size_t)t->c * sizeof *all);
    void *memory = put(on, FF_F32, all, wide);
    free(all);
    return memory;
}

/* As a convolution computes them. */
static inline void *norm_put_sums(ff_compute *on, const ff_tensor *t, const float *x) {
    const size_t wide = (size_t)ff_tensor_padded_channels(t), pixels = (size_t)t->h * t->w;
    float *sums = floats(2 * wide);
    for (size_t i = 0; i < logical_count(t); i++) {
        sums[i / pixels % (size_t)t->c] += x[i];
        sums[wide + i / pixels % (size_t)t->c] += x[i] * x[i];
    }
    void *memory = put(on, FF_F32, sums, 2 * wide);
    free(sums);
    return memory;
}

static inline norm_part norm_open(ff_compute *on, const norm_batch *all, int first, int n,
                                  int ranks) {
    const size_t at = (size_t)first * all->shape.c * all->shape.h * all->shape.w;
    ff_tensor t = all->shape, held = t;
    t.block = held.block = on->ops->channel_block(on, t.c);
    t.n = n;
    held.n = n ? n : 1; /* there is memory for a batch even without samples */
    const float *x = all->x + (n ? at : 0), *dy = all->dy + (n ? at : 0);
    const size_t wide = (size_t)ff_tensor_padded_channels(&t), count = ff_tensor_count(&held);
    norm_part part = {.scratch = room(on, FF_F32, on->ops->norm_scratch(on, &held) + 1)};
    part.norm = (ff_norm){.shape = t,
                          .activation = all->activation,
                          .momentum = 0.1f,
                          .epsilon = 1e-5f,
                          .gamma = norm_put_channels(on, &t, all->gamma),
                          .beta = norm_put_channels(on, &t, all->beta),
                          .running_mean = norm_put_channels(on, &t, all->running_mean),
                          .running_var = norm_put_channels(on, &t, all->running_var),
                          .mean = room(on, FF_F32, wide),
                          .inv_std = room(on, FF_F32, wide),
                          .x = put_tensor(on, &held, x),
                          .y = room(on, on->dtype, count)};
    if (all->add) part.norm.residual = put_tensor(on, &held, all->residual + (n ? at : 0));
    if (ranks && n && all->counted) part.norm.sums = part.sums = norm_put_sums(on, &t, x);
    if (ranks) {
        const size_t told = ff_norm_told(&part.norm);
        void *own = room(on, FF_F32, 2 * told), *told_by_all = room(on, FF_F32, 2 * told * ranks);
        part.norm.ranks = (ff_norm_ranks){ranks, own, told_by_all};
    }
    part.backward = (ff_norm_backward){
        .forward = part.norm,
        .dy = put_tensor(on, &held, dy),
        .dy2 = all->second ? put_tensor(on, &held, all->dy2 + (n ? at : 0)) : NULL,
        .dx = room(on, on->dtype, count),
        .dresidual = all->add ? room(on, on->dtype, count) : NULL,
        .dgamma = norm_put_channels(on, &t, all->beta),
        .dbeta = norm_put_channels(on, &t, all->beta)};
    return part;
}

/* The gradients of a rank without samples are not used; they count as 0. */
static inline void norm_add_channels(ff_compute *on, const norm_part *part, const float *from,
                                     float *sum) {
    const ff_tensor *t = &part->norm.shape;
    const size_t wide = (size_t)ff_tensor_padded_channels(t);
    float *one = take_floats(on, FF_F32, (void *)from, wide);
    for (int c = 0; c < t->c && t->n; c++) sum[c] += one[c];
    free(one);
}

static inline void norm_add_rows(ff_compute *on, const ff_tensor *t, void *from, float *to) {
    if (!t->n) {
        ff_compute_release(on, from);
        return;
    }
    float *rows = take_tensor(on, t, from);
    memcpy(to, rows, logical_count(t) * sizeof *to);
    free(rows);
}

typedef struct norm_results {
    float *y, *dx, *dresidual;                          /* NCHW, of all parts */
    float *dgamma, *dbeta, *running_mean, *running_var; /* summed; of the last part */
} norm_results;

static inline norm_results norm_results_for(const norm_batch *all) {
    const size_t count = logical_count(&all->shape), channels = (size_t)all->shape.c;
    return (norm_results){floats(count),    floats(count),    floats(count),   floats(channels),
                          floats(channels), floats(channels), floats(channels)};
}

/* Reads the part's results, which may be NULL, and releases it. */
static inline void norm_close(ff_compute *on, const norm_part *part, size_t at, norm_results *to) {
    const ff_norm *norm = &part->norm;
    const ff_norm_backward *back = &part->backward;
    const size_t channels = (size_t)norm->shape.c;
    const size_t wide = (size_t)ff_tensor_padded_channels(&norm->shape);
    assert_ok(ff_compute_wait(on, error));
    if (to) {
        norm_add_rows(on, &norm->shape, norm->y, to->y + at);
        norm_add_rows(on, &norm->shape, back->dx, to->dx + at);
        if (back->dresidual) norm_add_rows(on, &norm->shape, back->dresidual, to->dresidual + at);
        norm_add_channels(on, part, back->dgamma, to->dgamma);
        norm_add_channels(on, part, back->dbeta, to->dbeta);
        float *of[] = {norm->running_mean, norm->running_var};
        float *kept[] = {to->running_mean, to->running_var};
        for (int i = 0; i < 2; i++) {
            float *one = take_floats(on, FF_F32, of[i], wide);
            /* every rank has the same bits */
            if (kept[i][0] != 0) assert_memory_equal(kept[i], one, channels * sizeof *one);
            memcpy(kept[i], one, channels * sizeof *one);
            free(one);
        }
    } else {
        void *results[] = {norm->y,     back->dx,           back->dresidual,  back->dgamma,
                           back->dbeta, norm->running_mean, norm->running_var};
        for (size_t i = 0; i < sizeof results / sizeof *results; i++)
            ff_compute_release(on, results[i]);
    }
    void *rest[] = {part->scratch,      part->sums,       (void *)norm->gamma,
                    (void *)norm->beta, norm->mean,       norm->inv_std,
                    (void *)norm->x,    (void *)back->dy, (void *)back->dy2,
                    norm->ranks.own,    norm->ranks.all,  (void *)norm->residual};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) ff_compute_release(on, rest[i]);
}

/* The whole, as one batch. */
static inline norm_results norm_alone(ff_compute *on, const norm_batch *all) {
    norm_results results = norm_results_for(all);
    norm_part part = norm_open(on, all, 0, all->shape.n, 0);
    on->ops->norm_train(on, &part.norm, part.scratch);
    on->ops->norm_backward(on, &part.backward, part.scratch);
    norm_close(on, &part, 0, &results);
    return results;
}

static inline norm_results norm_in_parts(ff_compute *on, const norm_batch *all, const int *rows,
                                         int ranks) {
    const size_t sample = logical_count(&all->shape) / (size_t)all->shape.n;
    norm_results results = norm_results_for(all);
    norm_part parts[NORM_RANKS], once;
    norm_talk talk = {.compute = on, .count = ranks};
    int first = 0;
    for (int r = 0; r < ranks; first += rows[r++])
        parts[r] = norm_open(on, all, first, rows[r], ranks);
    assert_ok(ff_alloc(&talk.told, ff_norm_told(&parts[0].norm) * NORM_RANKS, sizeof *talk.told,
                       "a test", error));
    on->ranks = (ff_compute_ranks){ranks, norm_gather, &talk};
    for (talk.rank = first = 0; talk.rank < ranks; first += rows[talk.rank++]) {
        once = norm_open(on, all, first, rows[talk.rank], ranks);
        on->ops->norm_train(on, &once.norm, once.scratch);
        norm_close(on, &once, 0, NULL);
    }
    for (int pass = 0; pass < 3; pass++) {
        talk.heard = pass != 1;
        for (talk.rank = 0; talk.rank < ranks; talk.rank++) {
            const norm_part *part = &parts[talk.rank];
            if (pass == 0)
                on->ops->norm_train(on, &part->norm, part->scratch);
            else
                on->ops->norm_backward(on, &part->backward, part->scratch);
        }
    }
    on->ranks = (ff_compute_ranks){0};
    for (int r = first = 0; r < ranks; first += rows[r++])
        norm_close(on, &parts[r], (size_t)first * sample, &results);
    free(talk.told);
    return results;
}

/* Compares with `right`, from the plain loops, relative to the root mean square: at most `most`
 * apart, and `fine` for values of the whole batch. */
static inline void norm_ranks_case(ff_compute *right, ff_compute *on, dice *d, double most,
                                   double fine) {
    const int ranks = between(d, 2, NORM_RANKS);
    int rows[NORM_RANKS], n = 0;
    for (int r = 0; r < ranks; r++) n += rows[r] = roll(d, 4) ? between(d, 1, 5) : 0;
    if (!n) n = rows[1] = 3;
    norm_batch all = {.shape = {n, between(d, 1, 30), between(d, 1, 6), between(d, 1, 6), 1}};
    if (n * all.shape.h * all.shape.w < 4) all.shape.w = 4; /* a variance that can be divided by */
    const size_t count = logical_count(&all.shape), channels = (size_t)all.shape.c;
    all.activation = (ff_activation)roll(d, 4);
    all.add = all.activation <= FF_ACTIVATION_RELU && roll(d, 2);
    all.second = roll(d, 2);
    all.counted = on->fusions & FF_FUSE_CONV_STATISTICS && roll(d, 3) == 0;
    float **given[] = {&all.x, &all.residual, &all.dy, &all.dy2};
    for (int i = 0; i < 4; i++) *given[i] = random_floats(d, count);
    float **wide[] = {&all.gamma, &all.beta, &all.running_mean, &all.running_var};
    for (int i = 0; i < 4; i++) *wide[i] = random_floats(d, channels);
    for (size_t i = 0; i < count; i++) all.x[i] += all.counted ? 0.5f : 4;
    for (size_t c = 0; c < channels; c++) all.running_var[c] = fabsf(all.running_var[c]) + 0.1f;
    for (int i = 0; i < 4; i++) round_all(on, *given[i], count);
    norm_results a = norm_alone(right, &all), b = norm_in_parts(on, &all, rows, ranks);
    assert_ok(ff_compute_check(on, error));
    assert_close(a.y, b.y, count, most);
    assert_close(a.dx, b.dx, count, 4 * most);
    assert_close(a.dresidual, b.dresidual, count, 4 * most);
    assert_close(a.dgamma, b.dgamma, channels, 2 * most);
    assert_close(a.dbeta, b.dbeta, channels, 2 * most);
    assert_close(a.running_mean, b.running_mean, channels, fine);
    assert_close(a.running_var, b.running_var, channels, fine);
    float *arrays[] = {
        all.x,           all.residual, all.dy, all.dy2,     all.gamma, all.beta, all.running_mean,
        all.running_var, a.y,          a.dx,   a.dresidual, a.dgamma,  a.dbeta,  a.running_mean,
        a.running_var,   b.y,          b.dx,   b.dresidual, b.dgamma,  b.dbeta,  b.running_mean,
        b.running_var};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) free(arrays[i]);
}

#endif
