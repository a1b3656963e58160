/* Whole small nets on the CUDA compute table (simulated kernels, plain library, asynchronous
 * streams) against the plain loops: loss, every gradient, running statistics. */
#include "tests/unit/cuda_helpers.h"

/* Images as the compute wants them. */
static void *put_images(const net *n, const net_case *k, const float *nchw) {
    const ff_tensor *t = &n->plan->tensors[0];
    assert_int_equal(t->n, k->batch);
    return put_tensor(n->compute, t, nchw);
}

/* The mean loss of a step's forward pass, or of an evaluation. */
static double loss_of(net *n, const net_case *k, const samples *s, bool training) {
    ff_compute *compute = n->compute;
    ff_batch batch = s->batch;
    ff_step_result result;
    void *labels, *weights = put(compute, FF_F32, s->weights, (size_t)k->batch);
    void *images = put_images(n, k, s->images);
    assert_ok(ff_compute_allocate(compute, &labels, sizeof s->labels, "a test", error));
    ff_compute_write(compute, labels, s->labels, sizeof s->labels);
    batch.images = images;
    batch.labels = labels;
    batch.weights = weights;
    assert_ok(training ? ff_plan_gradients(n->plan, &batch, &result, error)
                       : ff_plan_evaluate(n->plan, &batch, &result, error));
    ff_compute_release(compute, images);
    ff_compute_release(compute, labels);
    ff_compute_release(compute, weights);
    return result.loss_sum / (double)result.count;
}

/* Norms that the convolutions behind them do. */
static int folded(const net *n) {
    int count = 0;
    for (int i = 0; i < n->plan->op_count; i++) count += n->plan->ops[i].folded_by >= 0;
    return count;
}

static void agree(const net_case *k, const ff_library_table *library, ff_precision precision,
                  double loss_tolerance, double tolerance) {
    machine m;
    net right, other;
    samples s;
    open_machine(&m, library, 0, 5);
    open_net(&right, k->build, k->channels, k->height, k->width, k->batch, "reference", 2);
    open_net_on(&other, k->build, k->channels, k->height, k->width, k->batch,
                open_cuda(&m, precision));
    draw(&s, k);
    s.weights[1] = 0;
    s.labels[0] = -1;
    const bool whole = library == &ff_library_plain; /* it has every fused graph */
    assert_int_equal(folded(&other), whole && strcmp(k->name, "residual") == 0 ? 2 : 0);
    /* The evaluation comes first, with running statistics that no step has moved. */
    for (int training = 0; training < 2; training++) {
        ff_step_result result;
        assert_ok(training ? ff_plan_gradients(right.plan, &s.batch, &result, error)
                           : ff_plan_evaluate(right.plan, &s.batch, &result, error));
        double apart = result.loss_sum / (double)result.count - loss_of(&other, k, &s, training);
        if (!(fabs(apart) < loss_tolerance))
            print_message("%s, %s: loss %g\n", k->name, ff_precision_name(precision), apart);
        assert_true(fabs(apart) < loss_tolerance);
    }
    for (int p = 0; p < right.graph->parameter_count; p++) {
        const ff_graph_parameter *parameter = &right.graph->parameters[p];
        if (parameter->dtype != FF_F32) continue;
        size_t count = 1;
        for (int r = 0; r < parameter->rank; r++) count *= (size_t)parameter->shape[r];
        const ff_parameter_part part = parameter->trained ? FF_PART_GRADIENT : FF_PART_VALUE;
        float *a = exported(&right, p, part), *b = exported(&other, p, part);
        double squares = 0, off = 0;
        for (size_t e = 0; e < count; e++) {
            squares += (double)a[e] * (double)a[e];
            off += ((double)a[e] - (double)b[e]) * ((double)a[e] - (double)b[e]);
        }
        double relative = sqrt(off / ((double)count * 1e-6 + squares));
        if (!(relative < tolerance))
            print_message("%s, %s: %s: %g\n", k->name, ff_precision_name(precision),
                          parameter->name, relative);
        assert_true(relative < tolerance);
        free(a);
        free(b);
    }
    free(s.images);
    close_net(&right);
    close_net(&other);
    close_machine(&m);
}

/* Gradients are compared by the length of what they are apart. f32: sums in another order. 16 bits:
 * each value is rounded (f16 by 2^-11, bf16 by 2^-8 of it), some hundred times on the way through a
 * net, and now and then that turns a ReLU or the choice of a max pool, which moves a gradient of
 * these few pixels by some percent. */
static void nets_agree(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++) {
        agree(&cases[c], &ff_library_plain, FF_PRECISION_F32, 1e-5, 1e-3);
        agree(&cases[c], &ff_library_plain_pieces, FF_PRECISION_F32, 1e-5, 1e-3);
        agree(&cases[c], &ff_library_plain, FF_PRECISION_F16, 1e-2, 0.05);
        agree(&cases[c], &ff_library_plain_pieces, FF_PRECISION_BF16, 5e-2, 0.25);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nets_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
