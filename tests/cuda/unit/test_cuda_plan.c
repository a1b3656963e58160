/* Whole small nets on the CUDA compute table (simulated kernels, plain library, asynchronous
 * streams; or a GPU's) against the plain loops: loss, every gradient, running statistics. */
#include "tests/cuda/unit/cuda_helpers.h"

#include "train/net/ops/ops.h"

static bool untimed; /* the plain library may not time anything */

#ifndef FF_TESTS_ON_CARD
/* The plain library with made-up times for its engines: convolutions of `quickest` channels are the
 * fastest. Otherwise it is the plain one. */
static int quickest;
static bool slow_fusions; /* and fused graphs are slower than the separate operations */
static ff_status timed_create(ff_library *library, const ff_library_conv_spec *spec,
                              ff_library_conv **conv, ff_error *why) {
    FF_TRY(ff_library_plain.conv_create(library, spec, conv, why));
    if (*conv) (*conv)->engine.ns = spec->c == quickest ? 10000 : 20000;
    if (*conv && slow_fusions && (spec->prologue || spec->epilogue)) (*conv)->engine.ns *= 10;
    return FF_OK;
}
static ff_library_table timed_library(void) {
    ff_library_table table = ff_library_plain;
    table.name = "timed";
    table.conv_create = timed_create;
    return table;
}
static bool timed(const ff_library_table *library) {
    return library->conv_create == timed_create;
}
#endif

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
    void *labels, *weights = put(compute, FF_F32, s->weights, (size_t)k->batch);
    void *images = put_images(n, k, s->images);
    assert_ok(ff_compute_allocate(compute, &labels, sizeof s->labels, "a test", error));
    ff_compute_write(compute, labels, s->labels, sizeof s->labels);
    batch.images = images;
    batch.labels = labels;
    batch.weights = weights;
    const ff_outcome result = run_plan(n->plan, &batch, training);
    ff_compute_release(compute, images);
    ff_compute_release(compute, labels);
    ff_compute_release(compute, weights);
    return result.loss_sum / (double)result.count;
}

#ifndef FF_TESTS_ON_CARD
/* Norms that are fused into the convolutions after them. */
static int folded(const net *n) {
    int count = 0;
    for (int i = 0; i < n->plan->op_count; i++) {
        const ff_op *op = &n->plan->ops[i];
        count += op->type == &ff_op_norm && op->norm.folded_by;
    }
    return count;
}

/* Which of a simulated library's graphs were used. */
static void check_fusions(const net *n, const net_case *k, const ff_library_table *library) {
    const bool whole = library != &ff_library_plain_pieces; /* it has every fused graph */
    const bool slow = timed(library) && slow_fusions, folds = whole && !slow && !untimed;
    assert_int_equal(folded(n), folds && strcmp(k->name, "residual") == 0 ? 2 : 0);
    if (whole && slow)
        for (int i = 0; i < n->plan->op_count; i++)
            assert_true(n->plan->ops[i].type != &ff_op_conv ||
                        n->plan->ops[i].conv.sums == FF_BUFFER_NONE);
}
#else
/* A real library has its own graphs, and is not timed here. */
static bool timed(const ff_library_table *library) {
    return library != NULL;
}
static void check_fusions(const net *n, const net_case *k, const ff_library_table *library) {
    (void)n;
    (void)k;
    (void)library;
}
#endif

/* `block`: of the images, which all plans of the net share; not 8 where timing chose another. */
static void agree_in(const net_case *k, const ff_library_table *library, int block,
                     ff_precision precision, double loss_tolerance, double tolerance) {
    machine m;
    net right, other;
    samples s;
    open_machine(&m, library, 0, 5);
    m.cuda.timing_seconds = timed(library) || (!ON_CARD && !untimed);
    open_net(&right, k->build, k->channels, k->height, k->width, k->batch, "reference", 2);
    open_net_on(&other, k->build, k->channels, k->height, k->width, k->batch,
                open_cuda(&m, precision));
    draw(&s, k);
    s.weights[1] = 0;
    s.labels[0] = -1;
    assert_int_equal(other.plan->tensors[0].block, block);
    assert_int_equal(other.compute->ops->input_block(other.compute, k->channels), block);
    check_fusions(&other, k, library);
    /* The evaluation comes first, with running statistics that no step has moved. */
    for (int training = 0; training < 2; training++) {
        const ff_outcome result = run_plan(right.plan, &s.batch, training);
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

static void agree(const net_case *k, const ff_library_table *library, ff_precision precision,
                  double loss_tolerance, double tolerance) {
    agree_in(k, library, 8, precision, loss_tolerance, tolerance);
}

/* Gradients are compared by the norm of their difference. f32: sums in another order. 16 bits: each
 * value is rounded (f16 by 2^-11, bf16 by 2^-8 of it), some hundred times on the way through a net,
 * and sometimes that changes a ReLU's side or a max pool's choice, which changes a gradient of
 * these few pixels by some percent. */
static void nets_agree(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++) {
        agree(&cases[c], plain_library, FF_PRECISION_F32, 1e-5, 1e-3);
        agree(&cases[c], library_of_pieces, FF_PRECISION_F32, 1e-5, 1e-3);
        agree(&cases[c], plain_library, FF_PRECISION_F16, 1e-2, 0.05);
        agree(&cases[c], library_of_pieces, FF_PRECISION_BF16, 5e-2, 0.25);
    }
}

#ifndef FF_TESTS_ON_CARD
/* Images of 3 channels in the fastest form: unpadded, padded to 4, or to 8. */
static void block_is_chosen(void **state) {
    (void)state;
    const ff_library_table library = timed_library();
    for (int c = 0; c < CASES; c++) {
        if (cases[c].channels != 3) continue;
        const int blocks[] = {3, 4, 8};
        for (int i = 0; i < 3; i++) {
            quickest = blocks[i];
            agree_in(&cases[c], &library, blocks[i], FF_PRECISION_F32, 1e-5, 1e-3);
            agree_in(&cases[c], &library, blocks[i], FF_PRECISION_F16, 1e-2, 0.05);
        }
    }
}

/* Graphs that were timed as slower than their separate operations are not used. */
static void slow_fusions_are_not_used(void **state) {
    (void)state;
    const ff_library_table library = timed_library();
    quickest = 8;
    slow_fusions = true;
    for (int c = 0; c < CASES; c++) agree_in(&cases[c], &library, 8, FF_PRECISION_F16, 1e-2, 0.05);
    slow_fusions = false;
}

/* Without times no norm is folded: the separate operations are known to be fast. */
static void untimed_folds_are_not_used(void **state) {
    (void)state;
    untimed = true;
    for (int c = 0; c < CASES; c++)
        agree(&cases[c], &ff_library_plain, FF_PRECISION_F16, 1e-2, 0.05);
    untimed = false;
}

static void build_mixed(ff_graph *g) {
    ff_node x = ff_graph_conv(g, ff_graph_relu(g, 0), "a", 8,
                              &(ff_conv_form){.kernel = 3, .pad = 1, .bias = true});
    ff_node y = ff_graph_conv(g, 0, "b", 8, &(ff_conv_form){.kernel = 3, .pad = 1, .bias = true});
    x = ff_graph_relu(g, ff_graph_add(g, x, y));
    ff_graph_finish(g, ff_graph_linear(g, ff_graph_flatten(g, x), "fc", CLASSES));
}

static void build_odd(ff_graph *g) {
    ff_node x = ff_graph_conv(g, 0, "a", 3, &(ff_conv_form){.kernel = 3, .pad = 1});
    ff_graph_finish(g, ff_graph_linear(g, ff_graph_flatten(g, x), "fc", CLASSES));
}

/* 8 where kernels of eights read the images or their filters, and where there is no timing; plans
 * of another batch take the block of the first. */
static void block_is_kept(void **state) {
    (void)state;
    const ff_library_table library = timed_library();
    const net_case mixed = {"mixed", build_mixed, 3, 6, 5, 4}, odd = {"odd", build_odd, 3, 6, 5, 4};
    machine m;
    net n;
    ff_plan *other;
    quickest = 4;
    agree_in(&mixed, &library, 8, FF_PRECISION_F32, 1e-5, 1e-3);
    agree_in(&odd, &library, 8, FF_PRECISION_F32, 1e-5, 1e-3);
    open_machine(&m, &library, 0, 5);
    for (int timed = 0; timed < 2; timed++) {
        m.cuda.timing_seconds = timed;
        quickest = 4;
        open_net_on(&n, build_residual, 3, 16, 12, 3, open_cuda(&m, FF_PRECISION_F32));
        assert_int_equal(n.plan->tensors[0].block, timed ? 4 : 8);
        quickest = 3;
        assert_ok(ff_plan_create(&other, n.graph, n.compute, 5, false, NULL, n.plan, error));
        assert_int_equal(other->tensors[0].block, timed ? 4 : 8);
        assert_int_equal(other->convs[1]->shape.input.block, timed ? 4 : 8);
        ff_plan_destroy(&other);
        close_net(&n);
    }
    close_machine(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nets_agree), cmocka_unit_test(block_is_chosen),
        cmocka_unit_test(slow_fusions_are_not_used), cmocka_unit_test(untimed_folds_are_not_used),
        cmocka_unit_test(block_is_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nets_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
