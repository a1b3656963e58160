/* The probe (train/debug/probe.h) on the plain loops, on oneDNN and on the simulated GPU: it sees
 * every layer once, and its step has the bits of one that nobody looks at. */
#include "tests/cuda/unit/cuda_helpers.h"

#include "train/debug/probe.h"
#include "train/net/ops/ops.h"

enum { MOST = 64 };

/* What a probe saw, by the last layer of each operation. */
typedef struct sight {
    float *output[MOST], *gradient[MOST], *parameter[MOST]; /* NULL = not seen */
    int held[MOST];                                         /* how often a layer was */
    bool input;
} sight;

static float *copy_of(const float *values, size_t count) {
    assert_non_null(values);
    float *copy = floats(count);
    memcpy(copy, values, count * sizeof *copy);
    return copy;
}

/* Counts the layers in a name, "bn1 + relu"; names of layers may repeat. */
static void count_layers(const ff_plan *plan, const char *name, int held[MOST]) {
    char text[FF_PROBE_NAME], *rest = text;
    snprintf(text, sizeof text, "%s + ", name);
    for (char *end; (end = strstr(rest, " + ")); rest = end + 3) {
        *end = 0;
        for (int i = 0; i < plan->graph->layer_count; i++)
            held[i] += !strcmp(plan->graph->layers[i].name, rest);
    }
}

static ff_status keep(void *context, ff_probe *probe, const ff_seen *seen, ff_error *why) {
    sight *s = context;
    const ff_plan *plan = probe->plan;
    float *values = copy_of(ff_probe_values(probe, why), seen->count);
    float **to = seen->kind == FF_SEEN_OUTPUT               ? &s->output[plan->ops[seen->op].out]
                 : seen->kind == FF_SEEN_GRADIENT           ? &s->gradient[plan->ops[seen->op].out]
                 : seen->kind == FF_SEEN_PARAMETER_GRADIENT ? &s->parameter[seen->parameter]
                                                            : NULL;
    if (seen->kind == FF_SEEN_OUTPUT) count_layers(plan, seen->name, s->held);
    if (!to) {
        assert_false(s->input);
        s->input = true;
        free(values);
        return FF_OK;
    }
    assert_null(*to); /* once */
    *to = values;
    return FF_OK;
}

static void forget(sight *s) {
    for (int i = 0; i < MOST; i++) {
        free(s->output[i]);
        free(s->gradient[i]);
        free(s->parameter[i]);
    }
}

/* The gradient seen of the first convolution's output, of all its users, makes its weights'. */
static void check_first(const ff_plan *plan, const net_case *k, const float *images,
                        const sight *seen, float tolerance) {
    const ff_op *op = &plan->ops[0];
    const ff_layer *l = &plan->graph->layers[op->layer];
    const ff_tensor *to = &op->output;
    if (op->type != &ff_op_conv || !ff_op_trains(plan, op, 0) || l->groups > 1) return;
    const float *dy = seen->gradient[op->out], *dw = seen->parameter[l->parameter];
    for (int o = 0; o < l->c; o++)
        for (int i = 0; i < k->channels; i++)
            for (int r = 0; r < l->kernel_h; r++)
                for (int q = 0; q < l->kernel_w; q++, dw++) {
                    double sum = 0, size = 1e-3;
                    for (int n = 0; n < to->n; n++)
                        for (int y = 0; y < to->h; y++)
                            for (int x = 0; x < to->w; x++) {
                                const int row = y * l->stride - l->pad + r;
                                const int column = x * l->stride - l->pad + q;
                                if (row < 0 || column < 0 || row >= k->height || column >= k->width)
                                    continue;
                                const double term =
                                    (double)images[((n * k->channels + i) * k->height + row) *
                                                       k->width +
                                                   column] *
                                    (double)dy[((n * l->c + o) * to->h + y) * to->w + x];
                                sum += term;
                                size += fabs(term);
                            }
                    assert_true(fabs(sum - (double)*dw) < (double)tolerance * size);
                }
}

/* A step with the probe, against one without in a net of its own. */
static void see(const net_case *k, ff_compute *first, ff_compute *second, sight *seen) {
    net nets[2];
    ff_outcome outcomes[2];
    samples s;
    draw(&s, k);
    for (int probed = 0; probed < 2; probed++) {
        net *n = &nets[probed];
        ff_batch batch = s.batch;
        ff_probe probe;
        void *labels;
        open_net_on(n, k->build, k->channels, k->height, k->width, k->batch,
                    probed ? second : first);
        void *images = put_tensor(n->compute, &n->plan->tensors[0], s.images);
        assert_ok(ff_compute_allocate(n->compute, &labels, sizeof s.labels, "a test", error));
        ff_compute_write(n->compute, labels, s.labels, sizeof s.labels);
        batch.images = images;
        batch.labels = labels;
        batch.weights = NULL;
        if (probed) ff_probe_begin(&probe, n->plan, images, keep, seen);
        outcomes[probed] = run_plan(n->plan, &batch, true);
        if (probed) assert_ok(ff_probe_end(&probe, error));
        assert_null(n->compute->watch);
        ff_compute_release(n->compute, images);
        ff_compute_release(n->compute, labels);
    }
    const ff_graph *graph = nets[1].graph;
    assert_true(seen->input);
    assert_memory_equal(&outcomes[0], &outcomes[1], sizeof outcomes[0]);
    for (int p = 0; p < graph->parameter_count; p++) {
        if (graph->parameters[p].dtype != FF_F32) continue;
        const bool trained = graph->parameters[p].trained;
        assert_int_equal(trained, seen->parameter[p] != NULL);
        float *plain = exported(&nets[0], p, trained ? FF_PART_GRADIENT : FF_PART_VALUE);
        float *own = trained ? NULL : exported(&nets[1], p, FF_PART_VALUE);
        size_t count = 1;
        for (int i = 0; i < graph->parameters[p].rank; i++)
            count *= (size_t)graph->parameters[p].shape[i];
        assert_memory_equal(plain, trained ? seen->parameter[p] : own, count * sizeof *plain);
        free(plain);
        free(own);
    }
    for (int i = 1; i < graph->layer_count; i++) {
        int alike = 0;
        for (int j = 1; j < graph->layer_count; j++)
            alike += !strcmp(graph->layers[i].name, graph->layers[j].name);
        assert_int_equal(seen->held[i], graph->layers[i].kind == FF_LAYER_FLATTEN ? 0 : alike);
    }
    check_first(nets[1].plan, k, s.images, seen, nets[1].compute->dtype == FF_F32 ? 1e-4f : 1e-2f);
    const ff_tensor *logits = &nets[0].plan->tensors[graph->output];
    float *plain = floats(ff_tensor_count(logits));
    ff_compute_read(nets[0].compute, plain, logits_of(nets[0].plan),
                    ff_tensor_count(logits) * sizeof *plain);
    float *flat = flatten(logits, plain);
    assert_memory_equal(flat, seen->output[graph->output], logical_count(logits) * sizeof *flat);
    free(flat);
    free(plain);
    free(s.images);
    close_net(&nets[0]);
    close_net(&nets[1]);
}

static ff_compute *open_cpu(const char *name) {
    const ff_compute_options options = {.threads = 2};
    ff_compute *compute;
    assert_ok(ff_compute_open(&compute, name, &options, error));
    return compute;
}

/* Each table sees the values that the plain loops have, wherever both see them. */
static void compare(const net_case *k, const sight *right, const sight *seen, double tolerance) {
    ff_graph *graph;
    int compared = 0;
    assert_ok(ff_graph_create(&graph, k->channels, k->height, k->width, error));
    k->build(graph);
    for (int i = 1; i < graph->layer_count; i++) {
        const ff_layer *l = &graph->layers[i];
        const size_t count = (size_t)k->batch * (size_t)l->c * (size_t)l->h * (size_t)l->w;
        if (!right->output[i] || !seen->output[i]) continue; /* folded: its gradient is masked */
        assert_close(right->output[i], seen->output[i], count, tolerance);
        if (right->gradient[i] && seen->gradient[i])
            assert_close(right->gradient[i], seen->gradient[i], count, tolerance);
        compared++;
    }
    assert_true(compared > 2);
    ff_graph_destroy(&graph);
}

static void every_layer_is_seen(void **state) {
    (void)state;
    const ff_library_table *const libraries[] = {plain_library, library_of_pieces, plain_library};
    for (int i = 0; i < CASES; i++) {
        sight right = {0}, cpu = {0};
        see(&cases[i], open_cpu("reference"), open_cpu("reference"), &right);
        see(&cases[i], open_cpu(NULL), open_cpu(NULL), &cpu);
        compare(&cases[i], &right, &cpu, 1e-4);
        for (int k = 0; k < 3; k++) {
            machine m;
            sight gpu = {0};
            const ff_precision precision = k < 2 ? FF_PRECISION_F32 : FF_PRECISION_F16;
            open_machine(&m, libraries[k], 20000, 7);
            see(&cases[i], open_cuda(&m, precision), open_cuda(&m, precision), &gpu);
            compare(&cases[i], &right, &gpu, k < 2 ? 1e-4 : 0.2);
            close_machine(&m);
            forget(&gpu);
        }
        forget(&right);
        forget(&cpu);
    }
}

static ff_status refuse(void *context, ff_probe *probe, const ff_seen *seen, ff_error *why) {
    (void)probe;
    ++*(int *)context;
    return seen->kind == FF_SEEN_OUTPUT ? ff_fail(why, FF_FAILED, "at %s", seen->name) : FF_OK;
}

/* A visit that fails is the last one; the step continues. */
static void visits_may_fail(void **state) {
    (void)state;
    const net_case *k = &cases[1];
    ff_error why = {0};
    ff_probe probe;
    samples s;
    net n;
    int visits = 0;
    draw(&s, k);
    open_net_on(&n, k->build, k->channels, k->height, k->width, k->batch, open_cpu("reference"));
    ff_probe_begin(&probe, n.plan, s.images, refuse, &visits);
    assert_true(run_plan(n.plan, &s.batch, true).loss_sum > 0);
    assert_int_equal(ff_probe_end(&probe, &why), FF_FAILED);
    assert_string_equal(why.message, "at stem");
    assert_int_equal(visits, 2);
    close_net(&n);
    free(s.images);
}

static void ranges(void **state) {
    (void)state;
    const float values[] = {3, -INFINITY, NAN, -1, 0.5f, INFINITY};
    const ff_value_range some = ff_value_range_of(values, 6),
                         none = ff_value_range_of(values + 1, 2);
    assert_true(some.minimum == -1 && some.maximum == 3 && some.mean_magnitude == 1.5);
    assert_true(some.nan == 1 && some.infinite == 2);
    assert_true(none.minimum == 0 && none.maximum == 0 && none.mean_magnitude == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_is_seen),
        cmocka_unit_test(visits_may_fail),
        cmocka_unit_test(ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
