/* The update on the device: every optimizer over segments of every kind against plain loops, the
 * check of the gradients and their clipping, the control of a run over hundreds of steps, and
 * Muon's parts. */
#include "tests/cuda/unit/kernel_helpers.h"

#include "train/compute/optimizers/muon.h"
#include "train/compute/optimizers/optimizers.h"

enum { SEGMENTS = 5, GROUPS = 3, RATES = 4 };

typedef struct part {
    array *gradient, *master, *state[FF_STATES], *working, *ema;
    array *old_master, *old_state[FF_STATES], *old_working, *old_ema;
} part;

typedef struct run {
    ff_rule rule;
    ff_cuda_update update;
    ff_cuda_segment segments[SEGMENTS];
    ff_cuda_group groups[GROUPS];
    part parts[SEGMENTS];
    array *control, *rates, *sums, *scale;
} run;

static ff_control *control_of(const run *r) {
    return r->control->host;
}

/* clip_norm: 0 = none. */
static void make(dice *d, run *r, ff_rule rule, double clip_norm) {
    memset(r, 0, sizeof *r);
    r->rule = rule;
    for (int g = 0; g < GROUPS; g++)
        r->groups[g] = (ff_cuda_group){.rate_row = (uint32_t)g % 2,
                                       .multiplier = (float)(g + 1),
                                       .hyper = {.weight_decay = g ? 5e-2 : 0,
                                                 .momentum = g == 2 ? 0 : 0.85,
                                                 .nesterov = g == 1,
                                                 .beta1 = 0.9,
                                                 .beta2 = 0.99,
                                                 .epsilon = 1e-3,
                                                 .trust = 0.01},
                                       .ema_decay = 0.9f};
    for (int s = 0; s < SEGMENTS; s++) {
        ff_cuda_segment *segment = &r->segments[s];
        part *p = &r->parts[s];
        segment->count = (uint64_t)(s == 1 ? FF_CUDA_CHUNK * 2 + 3 : between(d, 1, 9000));
        segment->group = roll(d, GROUPS);
        segment->gradient_dtype = any_float(d);
        segment->working_dtype = any_float(d);
        segment->frozen = s == 3;
        segment->adapts = s != 2;
        p->gradient = filled(d, (ff_dtype)segment->gradient_dtype, segment->count, 1, 1, 0, 100);
        segment->gradient = p->gradient->device;
        const bool masters = s == 1 || roll(d, 3);
        if (masters) p->master = filled(d, FF_F32, segment->count, 1, 1, 0, 1);
        if (!masters || roll(d, 2))
            p->working = filled(d, (ff_dtype)segment->working_dtype, segment->count, 1, 1, 0, 1);
        for (int k = 0; k < ff_optimizer_at(rule)->states; k++)
            if (rule != FF_RULE_SGD || r->groups[segment->group].hyper.momentum > 0)
                p->state[k] = filled(d, FF_F32, segment->count, 1, 1, k ? 0.5 : 0, k ? 0.1 : 1);
        if (roll(d, 2)) p->ema = filled(d, FF_F32, segment->count, 1, 1, 0, 1);
        segment->master = p->master ? p->master->device : NULL;
        for (int k = 0; k < FF_STATES; k++) {
            segment->state[k] = p->state[k] ? p->state[k]->device : NULL;
            p->old_state[k] = p->state[k] ? copied(p->state[k]) : NULL;
        }
        segment->working = p->working ? p->working->device : NULL;
        segment->ema = p->ema ? p->ema->device : NULL;
        p->old_master = p->master ? copied(p->master) : NULL;
        p->old_working = p->working ? copied(p->working) : NULL;
        p->old_ema = p->ema ? copied(p->ema) : NULL;
    }
    const uint32_t count = ff_cuda_chunks(r->segments, SEGMENTS, NULL);
    ff_cuda_chunk *chunks = calloc(count, sizeof *chunks);
    assert_int_equal(ff_cuda_chunks(r->segments, SEGMENTS, chunks), count);
    r->rates = poisoned(FF_F32, 2 * RATES);
    for (size_t i = 0; i < 2 * RATES; i++) put(r->rates, i, 0.01 * (double)(i + 1));
    send(r->rates);
    const ff_control control = {.step = roll(d, 7), .updates = roll(d, 4), .loss_scale = 1024};
    r->control = uploaded(&control, sizeof control);
    r->sums = bytes(count * 2 * sizeof(double));
    r->scale = poisoned(FF_F32, 1);
    r->update = (ff_cuda_update){.segments = uploaded(r->segments, sizeof r->segments)->device,
                                 .chunks = uploaded(chunks, count * sizeof *chunks)->device,
                                 .chunk_count = count,
                                 .groups = uploaded(r->groups, sizeof r->groups)->device,
                                 .group_count = GROUPS,
                                 .rates = r->rates->device,
                                 .rate_steps = RATES,
                                 .control = r->control->device,
                                 .sums = r->sums->device,
                                 .scale = clip_norm > 0 ? r->scale->device : NULL,
                                 .how.clip_norm = clip_norm};
    free(chunks);
}

static void fetch_parts(const run *r) {
    for (int s = 0; s < SEGMENTS; s++) {
        const part *p = &r->parts[s];
        if (p->master) fetch(p->master);
        for (int k = 0; k < FF_STATES; k++)
            if (p->state[k]) fetch(p->state[k]);
        if (p->working) fetch(p->working);
        if (p->ema) fetch(p->ema);
    }
}

/* Of all gradients that are not frozen; 1 / loss scale, and clipped. */
static double gradient_scale(const run *r) {
    double squares = 0;
    for (int s = 0; s < SEGMENTS; s++)
        for (size_t i = 0; !r->segments[s].frozen && i < r->segments[s].count; i++) {
            const double g = at(r->parts[s].gradient, i) / 1024;
            squares += g * g;
        }
    if (r->update.how.clip_norm <= 0) return 1.0 / 1024;
    return fmin(1, r->update.how.clip_norm / (sqrt(squares) + 1e-6)) / 1024;
}

/* In f64: g, w and state of an element, before and after. */
typedef struct element {
    double g, w, m, v, update;
} element;

static element element_of(const run *r, int s, size_t i, double scale) {
    const part *p = &r->parts[s];
    const ff_hyper *h = &r->groups[r->segments[s].group].hyper;
    const double t = (double)control_of(r)->updates + 1;
    element e = {.g = at(p->gradient, i) * scale,
                 .w = at(p->master ? p->old_master : p->old_working, i)};
    if (p->state[0]) e.m = at(p->old_state[0], i);
    if (p->state[1]) e.v = at(p->old_state[1], i);
    if (r->rule == FF_RULE_SGD || r->rule == FF_RULE_LARS) return e;
    e.m = h->beta1 * e.m + (1 - h->beta1) * e.g;
    e.v = h->beta2 * e.v + (1 - h->beta2) * e.g * e.g;
    e.update =
        e.m / (1 - pow(h->beta1, t)) / (sqrt(e.v) / sqrt(1 - pow(h->beta2, t)) + h->epsilon) +
        h->weight_decay * e.w;
    return e;
}

static double ratio_of(const run *r, int s, double scale) {
    const ff_hyper *h = &r->groups[r->segments[s].group].hyper;
    double weights = 0, gradients = 0, updates = 0;
    for (size_t i = 0; i < r->segments[s].count; i++) {
        const element e = element_of(r, s, i, scale);
        weights += e.w * e.w;
        gradients += e.g * e.g;
        updates += e.update * e.update;
    }
    if (!r->segments[s].adapts || r->rule == FF_RULE_SGD || r->rule == FF_RULE_ADAMW) return 1;
    if (r->rule == FF_RULE_LAMB) return sqrt(weights / updates);
    return h->trust * sqrt(weights) /
           (sqrt(gradients) + h->weight_decay * sqrt(weights) + h->epsilon);
}

static void check_segment(const run *r, int s) {
    const part *p = &r->parts[s];
    const ff_cuda_segment *segment = &r->segments[s];
    const ff_cuda_group *group = &r->groups[segment->group];
    const uint64_t step = control_of(r)->step < RATES ? control_of(r)->step : RATES - 1;
    const double rate = at(r->rates, group->rate_row * RATES + step) * (double)group->multiplier;
    const double momentum = group->hyper.momentum, scale = gradient_scale(r);
    const double ratio = ratio_of(r, s, scale);
    for (size_t i = 0; i < segment->count; i++) {
        element e = element_of(r, s, i, scale);
        if (r->rule == FF_RULE_SGD || r->rule == FF_RULE_LARS) {
            const double g = ratio * (e.g + group->hyper.weight_decay * e.w);
            e.m = momentum * e.m + g;
            e.update = (group->hyper.nesterov ? g + momentum * e.m : e.m) / ratio;
        }
        e.w -= rate * ratio * e.update;
        if (p->master) assert_near(p->master, i, e.w, 1e-6);
        if (p->state[0]) assert_near(p->state[0], i, e.m, 1e-6);
        if (p->state[1]) assert_near(p->state[1], i, e.v, 1e-6);
        if (p->working) assert_near(p->working, i, p->master ? at(p->master, i) : e.w, 1e-6);
        if (p->ema)
            assert_near(p->ema, i, (double)0.9f * at(p->old_ema, i) + (1 - (double)0.9f) * e.w,
                        2e-6);
    }
}

static void check_untouched(const run *r, int s) {
    const part *p = &r->parts[s];
    if (p->master) assert_same(p->master, p->old_master);
    for (int k = 0; k < FF_STATES; k++)
        if (p->state[k]) assert_same(p->state[k], p->old_state[k]);
    if (p->working) assert_same(p->working, p->old_working);
    if (p->ema) assert_same(p->ema, p->old_ema);
}

static void test_update(void **state) {
    (void)state;
    dice d = {41, 0};
    const ff_cuda_queue queue = queue_of(2);
    static const ff_rule rules[] = {FF_RULE_SGD, FF_RULE_ADAMW, FF_RULE_LARS, FF_RULE_LAMB};
    static const double clips[] = {0, 1, 1e6};
    for (int trial = 0; trial < trials(12); trial++) {
        run r;
        make(&d, &r, rules[trial % 4], clips[trial % 3]);
        assert_launched(ff_cuda_check(&queue, &r.update));
        assert_launched(ff_cuda_update_run(&queue, &r.update, r.rule));
        fetch(r.control);
        assert_int_equal(control_of(&r)->non_finite, 0);
        fetch_parts(&r);
        for (int s = 0; s < SEGMENTS; s++) {
            if (r.segments[s].frozen)
                check_untouched(&r, s);
            else
                check_segment(&r, s);
        }
        drop_arrays();
    }
}

static void test_skipped(void **state) {
    (void)state;
    dice d = {42, 0};
    const ff_cuda_queue queue = queue_of(2);
    for (int trial = 0; trial < trials(12); trial++) {
        static const ff_rule rules[] = {FF_RULE_SGD, FF_RULE_ADAMW, FF_RULE_LARS, FF_RULE_LAMB};
        run r;
        make(&d, &r, rules[trial % 4], trial % 2);
        int bad = between(&d, 0, SEGMENTS - 1);
        array *gradient = r.parts[bad].gradient;
        /* anywhere, also last, which may be in the tail */
        put(gradient, roll(&d, 2) ? roll(&d, (uint32_t)gradient->count) : gradient->count - 1,
            trial % 3 == 0   ? NAN
            : trial % 3 == 1 ? INFINITY
                             : -INFINITY);
        send(gradient);
        assert_launched(ff_cuda_check(&queue, &r.update));
        assert_launched(ff_cuda_update_run(&queue, &r.update, r.rule));
        fetch(r.control);
        fetch_parts(&r);
        assert_int_equal(control_of(&r)->non_finite, !r.segments[bad].frozen);
        for (int s = 0; s < SEGMENTS; s++)
            if (!r.segments[bad].frozen || r.segments[s].frozen) check_untouched(&r, s);
        drop_arrays();
    }
}

/* Hundreds of steps of the control alone against its rule, written out. */
static void test_control(void **state) {
    (void)state;
    dice d = {44, 0};
    const ff_cuda_queue queue = queue_of(1);
    const ff_cuda_group group = {.multiplier = 2};
    const float rates[3] = {0.5f, 0.25f, 0.125f};
    ff_control want = {
        .loss_scale = 65536, .growth = 2, .backoff = 0.5f, .growth_interval = 7, .step = 0};
    array *control = uploaded(&want, sizeof want);
    array *ring = bytes(4 * sizeof(ff_outcome));
    const ff_cuda_update update = {.groups = uploaded(&group, sizeof group)->device,
                                   .group_count = 1,
                                   .rates = uploaded(rates, sizeof rates)->device,
                                   .rate_steps = 3,
                                   .control = control->device};
    for (int step = 0; step < trials(200); step++) {
        const bool bad = !roll(&d, 9);
        fetch(control);
        ff_control *now = control->host;
        assert_memory_equal(now, &want, sizeof want);
        now->non_finite = bad;
        send(control);
        assert_launched(ff_cuda_advance(&queue, &update, ring->device, 4));
        fetch(ring);
        const ff_outcome *outcome = (const ff_outcome *)ring->host + step % 4;
        assert_int_equal(outcome->step, step);
        assert_int_equal(outcome->non_finite, bad);
        assert_true(outcome->loss_scale == want.loss_scale);
        assert_true(outcome->learning_rate == 2 * rates[step < 2 ? step : 2]);
        want.step++;
        if (bad) {
            want.skipped++;
            want.good_steps = 0;
            want.loss_scale /= 2;
        } else {
            want.updates++;
            if (++want.good_steps == 7) {
                want.good_steps = 0;
                want.loss_scale *= 2;
            }
        }
    }
    drop_arrays();
}

/* A scale that would become infinite stays; one that never changes, never does. */
static void test_control_edges(void **state) {
    (void)state;
    const ff_cuda_queue queue = queue_of(1);
    ff_control most = {.loss_scale = 0x1p127f, .growth = 2, .backoff = 0.5f, .growth_interval = 1};
    array *control = uploaded(&most, sizeof most);
    ff_cuda_update update = {.control = control->device};
    assert_launched(ff_cuda_advance(&queue, &update, NULL, 0));
    fetch(control);
    assert_true(((ff_control *)control->host)->loss_scale == 0x1p127f);
    ff_control still = {.loss_scale = 1, .non_finite = 1};
    control = uploaded(&still, sizeof still);
    update.control = control->device;
    assert_launched(ff_cuda_advance(&queue, &update, NULL, 0));
    fetch(control);
    const ff_control *after = control->host;
    assert_true(after->loss_scale == 1 && after->non_finite == 0);
    assert_int_equal(after->skipped, 1);
    drop_arrays();
}

/* ---- Muon ----------------------------------------------------------------------------------- */

/* A bank among others, which have no effect on it. */
static void muon_trial(dice *d, bool skipped) {
    const int rows = between(d, 1, 40);
    const size_t columns = 8 * (size_t)between(d, 1, 60), count = (size_t)rows * columns;
    const ff_dtype dtype = roll(d, 2) ? FF_BF16 : FF_F32;
    const ff_cuda_queue queue = queue_of(between(d, 1, 3));
    enum { BANKS = 3, OTHER = 2 * 600 };
    array *others[5];
    for (int i = 0; i < 5; i++) others[i] = filled(d, FF_F32, OTHER, 1, 1, 0, 1);
    const bool masters = roll(d, 2) != 0;
    array *gradient = filled(d, any_float(d), count, 1, 1, 0, 64);
    array *momentum = filled(d, FF_F32, count, 1, 1, 0, 1);
    array *master = masters ? filled(d, FF_F32, count, 1, 1, 0, 1) : NULL;
    array *working = filled(d, FF_F16, count, 1, 1, 0, 1);
    array *ema = roll(d, 2) ? filled(d, FF_F32, count, 1, 1, 0, 1) : NULL;
    array *old_momentum = copied(momentum), *old_master = masters ? copied(master) : NULL;
    array *old_working = copied(working), *old_ema = ema ? copied(ema) : NULL;
    array *x = poisoned(dtype, count), *next = poisoned(dtype, count);
    array *norms = bytes(2 * sizeof(double)), *other_norms = bytes(BANKS * 2 * sizeof(double));
    array *scratch = bytes(ff_cuda_muon_scratch(queue.multiprocessors, BANKS));
    const ff_control control = {.step = 1, .loss_scale = 64, .non_finite = skipped};
    const float rates[2] = {1, 0.24f};
    const ff_cuda_muon muon = {.rows = rows,
                               .columns = columns,
                               .segment = {.count = count,
                                           .gradient_dtype = gradient->dtype,
                                           .working_dtype = FF_F16,
                                           .gradient = gradient->device,
                                           .master = masters ? master->device : NULL,
                                           .state = {momentum->device},
                                           .working = working->device,
                                           .ema = ema ? ema->device : NULL},
                               .group = {.multiplier = 1,
                                         .hyper = {.momentum = 0.6, .nesterov = true},
                                         .ema_decay = 0.75f},
                               .rates = uploaded(rates, sizeof rates)->device,
                               .rate_steps = 2,
                               .control = uploaded(&control, sizeof control)->device,
                               .dtype = dtype,
                               .x = x->device,
                               .next = next->device,
                               .last = x->device,
                               .norms = norms->device};
    ff_cuda_muon banks[BANKS] = {muon, muon, muon};
    const int here = between(d, 0, BANKS - 1);
    for (int i = 0; i < BANKS; i++) {
        if (i == here) continue;
        const int shared = (i > here ? i - 1 : i) * OTHER / 2; /* halves of the arrays */
        banks[i].rows = between(d, 1, 10);
        banks[i].columns = 8 * (size_t)between(d, 1, 7);
        banks[i].dtype = FF_F32;
        banks[i].segment = (ff_cuda_segment){.gradient_dtype = FF_F32,
                                             .gradient = (float *)others[0]->device + shared,
                                             .master = (float *)others[1]->device + shared,
                                             .state = {(float *)others[2]->device + shared}};
        banks[i].x = (float *)others[3]->device + shared;
        banks[i].next = (float *)others[4]->device + shared;
        banks[i].last = banks[i].x;
        banks[i].norms = (double *)other_norms->device + 2 * i;
    }
    const uint64_t most = count > 560 ? count : 560;
    const array *table = uploaded(banks, sizeof banks);
    assert_launched(ff_cuda_muon_begin(&queue, table->device, BANKS, most, scratch->device));
    assert_launched(ff_cuda_muon_end(&queue, table->device, BANKS, most));
    fetch(momentum);
    fetch(working);
    fetch(x);
    fetch(next);
    fetch(scratch);
    assert_same(next, x); /* also both still poisoned */
    fetch(norms);
    if (masters) fetch(master);
    if (ema) fetch(ema);
    if (skipped) {
        assert_same(momentum, old_momentum);
        assert_same(working, old_working);
        if (masters) assert_same(master, old_master);
        if (ema) assert_same(ema, old_ema);
        drop_arrays();
        return;
    }

    const ff_muon plain = {
        .learning_rate = (double)0.24f, .momentum = (double)0.6f, .nesterov = true};
    float *m = calloc(count, sizeof *m), *g = calloc(count, sizeof *g);
    float *u = calloc(count, sizeof *u), *w = calloc(count, sizeof *w);
    for (size_t i = 0; i < count; i++) {
        m[i] = (float)at(old_momentum, i);
        g[i] = (float)at(gradient, i) / 64;
        w[i] = (float)at(masters ? old_master : old_working, i);
    }
    ff_muon_momentum(&plain, 1, count, m, g, u);
    double squares = 0;
    array *rounded = poisoned(dtype, count);
    for (size_t i = 0; i < count; i++) {
        put(rounded, i, (double)u[i]);
        squares += at(rounded, i) * at(rounded, i);
    }
    for (size_t i = 0; i < count; i++) {
        assert_near(momentum, i, (double)m[i], 1e-6);
        /* u may round to either of two neighbours */
        double want = at(rounded, i) / (sqrt(squares) + 1e-7);
        assert_near(x, i, want, fabs(want) * (2 * rounding(dtype) + 2e-6));
        u[i] = (float)at(x, i);
    }
    ff_muon_apply(&plain, (size_t)rows, count, w, u);
    for (size_t i = 0; i < count; i++) {
        if (masters) assert_near(master, i, (double)w[i], 2e-6);
        assert_near(working, i, masters ? at(master, i) : (double)w[i], masters ? 0 : 2e-6);
        if (ema) assert_near(ema, i, 0.75 * at(old_ema, i) + 0.25 * (double)w[i], 2e-6);
    }
    free(m);
    free(g);
    free(u);
    free(w);
    drop_arrays();
}

/* Arrays of any lengths; with and without the second one. */
static void muon_copy_trial(dice *d, int trial) {
    const size_t a_count = 4 * (size_t)between(d, 1, 400), count = 4 * (size_t)between(d, 1, 2000);
    const ff_cuda_queue queue = queue_of(between(d, 1, 3));
    array *a = filled(d, FF_F32, a_count, 1, 1, 0, 1), *b = poisoned(FF_F32, a_count);
    array *x = filled(d, FF_F32, count, 1, 1, 0, 1), *y = poisoned(FF_F32, count);
    array *kept = copied(y);
    assert_launched(ff_cuda_muon_copy(&queue, a->device, b->device, 4 * a_count, x->device,
                                      y->device, trial % 2 ? 4 * count : 0));
    fetch(b);
    fetch(y);
    assert_same(b, a);
    assert_same(y, trial % 2 ? x : kept);
    assert_int_equal(ff_cuda_muon_copy(&queue, a->device, b->device, 8, x->device, y->device, 0),
                     FF_CUDA_INVALID_VALUE);
    drop_arrays();
}

static void test_muon(void **state) {
    (void)state;
    dice d = {45, 0};
    for (int trial = 0; trial < trials(12); trial++) muon_trial(&d, trial % 6 == 5);
    for (int trial = 0; trial < trials(12); trial++) muon_copy_trial(&d, trial);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_update),  cmocka_unit_test(test_skipped),
        cmocka_unit_test(test_control), cmocka_unit_test(test_control_edges),
        cmocka_unit_test(test_muon),
    };
    return cmocka_run_group_tests(tests, bench_open, bench_close);
}
