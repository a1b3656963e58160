/* Each operation of MobileNetV2's forward pass, one at a time: its stored output against plain sums
 * in double over its own stored input. So an operation that is wrong is told from rounding, which
 * 52 norms in a row make a fifth of the last features. */
#include "tests/cuda/unit/cuda_helpers.h"

#include "train/debug/probe.h"
#include "train/net/models/models.h"
#include "train/net/ops/ops.h"

enum { SIDE = 8, BATCH = 6, CHANNELS = 3, MOST = 256 };

static void build_mobilenet(ff_graph *g) {
    int k = 0;
    while (strcmp(ff_net_at(k)->name, "mobilenet_v2") != 0) k++;
    ff_net_at(k)->build(g, &(ff_model_options){.stem = FF_STEM_CIFAR, .classes = CLASSES});
}

/* What the step stored. */
typedef struct sight {
    const ff_plan *plan;
    float *value[MOST]; /* of each node, [n, c, h, w] */
    ff_dtype dtype;
    double furthest; /* of what is allowed */
} sight;

static ff_status keep(void *context, ff_probe *probe, const ff_seen *seen, ff_error *why) {
    sight *s = context;
    const bool input = seen->kind == FF_SEEN_INPUT;
    if (!input && seen->kind != FF_SEEN_OUTPUT) return FF_OK;
    const float *values = ff_probe_values(probe, why);
    assert_non_null(values);
    float **to = &s->value[input ? 0 : probe->plan->ops[seen->op].out];
    *to = floats(seen->count);
    memcpy(*to, values, seen->count * sizeof **to);
    return FF_OK;
}

/* ---- one value ---- */

/* Half a unit of the last place. */
static double half_unit(ff_dtype dtype, double value) {
    int exponent;
    const int bits = dtype == FF_F16 ? 11 : dtype == FF_BF16 ? 8 : 24;
    (void)frexp(value, &exponent);
    if (dtype == FF_F16 && exponent < -13) exponent = -13;
    return ldexp(0.5, exponent - bits);
}

/* size: of what was added up in f32. */
static void check(sight *s, const ff_op *op, double found, double wanted, double size) {
    const double allowed = half_unit(s->dtype, wanted) + ldexp(size, -20);
    const double share = fabs(found - wanted) / allowed;
    if (!(share <= 1))
        fail_msg("%s: %.9g, wanted %.9g", s->plan->graph->layers[op->layer].name, found, wanted);
    if (share > s->furthest) s->furthest = share;
}

static const float *input_of(const sight *s, ff_node from) {
    const float *values = from < 0 ? NULL : s->value[ff_plan_origin(s->plan, from)];
    assert_true(from < 0 || values);
    return values;
}

/* A parameter as convolutions and linear layers read it. */
static float *parameter_of(const sight *s, const ff_op *op, int k, bool rounded) {
    const int at = s->plan->graph->layers[op->layer].parameter + k;
    const ff_graph_parameter *p = &s->plan->graph->parameters[at];
    size_t count = 1;
    for (int i = 0; i < p->rank; i++) count *= (size_t)p->shape[i];
    float *values = floats(count);
    ff_store_export(s->plan->store, at, FF_PART_VALUE, values);
    for (size_t i = 0; rounded && i < count; i++) {
        uint32_t bits;
        ff_convert(&bits, s->dtype, &values[i], FF_F32, 1);
        ff_convert(&values[i], FF_F32, &bits, s->dtype, 1);
    }
    return values;
}

/* ---- operations ---- */

static void check_conv(sight *s, const ff_op *op) {
    const ff_layer *l = &s->plan->graph->layers[op->layer];
    const ff_tensor *in = &op->input, *out = &op->output;
    const float *x = input_of(s, op->from), *y = input_of(s, op->out);
    const int inputs = in->c / l->groups, filters = out->c / l->groups, side = l->kernel_h;
    float *w = parameter_of(s, op, 0, true);
    for (int n = 0; n < out->n; n++)
        for (int o = 0; o < out->c; o++)
            for (int p = 0; p < out->h * out->w; p++) {
                double sum = 0, size = 0;
                for (int k = 0; k < inputs * side * side; k++) {
                    const int h = p / out->w * l->stride - l->pad + k / side % side;
                    const int v = p % out->w * l->stride - l->pad + k % side;
                    const int i = o / filters * inputs + k / side / side;
                    if (h < 0 || h >= in->h || v < 0 || v >= in->w) continue;
                    const double term = (double)x[((n * in->c + i) * in->h + h) * in->w + v] *
                                        (double)w[o * inputs * side * side + k];
                    sum += term;
                    size += fabs(term);
                }
                check(s, op, (double)y[(n * out->c + o) * out->h * out->w + p], sum, size);
            }
    free(w);
}

static void check_norm(sight *s, const ff_op *op) {
    const double epsilon = s->plan->graph->layers[op->layer].epsilon;
    const ff_tensor *t = &op->output;
    const float *x = input_of(s, op->from), *y = input_of(s, op->out);
    const float *residual = input_of(s, op->from2);
    float *gamma = parameter_of(s, op, 0, false), *beta = parameter_of(s, op, 1, false);
    const int pixels = t->h * t->w, count = t->n * pixels;
    for (int c = 0; c < t->c; c++) {
        double mean = 0, squares = 0;
#define AT(k) (((k) / pixels * t->c + c) * pixels + (k) % pixels)
        for (int k = 0; k < count; k++) mean += (double)x[AT(k)] / count;
        for (int k = 0; k < count; k++)
            squares += ((double)x[AT(k)] - mean) * ((double)x[AT(k)] - mean) / count;
        const double scale = (double)gamma[c] / sqrt(squares + epsilon);
        /* in E[x^2] - E[x]^2; and in the mean, of values of any sign */
        const double cancelled = 1 + mean * mean / (squares + epsilon);
        for (int k = 0; k < count; k++) {
            const double normed = ((double)x[AT(k)] - mean) * scale;
            const double more = residual ? (double)residual[AT(k)] : 0;
            double wanted = normed + (double)beta[c] + more;
            if (op->norm.activation == FF_ACTIVATION_RELU6) wanted = fmin(fmax(wanted, 0), 6);
            check(s, op, (double)y[AT(k)], wanted,
                  fabs(normed) * cancelled + fabs(mean * scale) + fabs((double)gamma[c]) +
                      fabs((double)beta[c]) + fabs(more));
        }
#undef AT
    }
    free(gamma);
    free(beta);
}

static void check_pool(sight *s, const ff_op *op) {
    const ff_tensor *in = &op->input;
    const float *x = input_of(s, op->from), *y = input_of(s, op->out);
    const int pixels = in->h * in->w;
    assert_int_equal(op->output.h * op->output.w, 1);
    for (int i = 0; i < in->n * in->c; i++) {
        double sum = 0, size = 0;
        for (int p = 0; p < pixels; p++) {
            sum += (double)x[i * pixels + p] / pixels;
            size += fabs((double)x[i * pixels + p]) / pixels;
        }
        check(s, op, (double)y[i], sum, size);
    }
}

static void check_linear(sight *s, const ff_op *op) {
    const int inputs = op->input.c, outputs = op->output.c;
    const float *x = input_of(s, op->from), *y = input_of(s, op->out);
    float *w = parameter_of(s, op, 0, true), *bias = parameter_of(s, op, 1, false);
    for (int n = 0; n < op->output.n; n++)
        for (int o = 0; o < outputs; o++) {
            double sum = (double)bias[o], size = fabs((double)bias[o]);
            for (int i = 0; i < inputs; i++) {
                sum += (double)x[n * inputs + i] * (double)w[o * inputs + i];
                size += fabs((double)x[n * inputs + i] * (double)w[o * inputs + i]);
            }
            check(s, op, (double)y[n * outputs + o], sum, size);
        }
    free(w);
    free(bias);
}

static void each_operation_is_right(void **state) {
    (void)state;
    static const ff_precision precisions[] = {FF_PRECISION_F16, FF_PRECISION_BF16};
    for (int p = 0; p < 2; p++) {
        machine m;
        net n;
        ff_probe probe;
        sight s = {0};
        samples drawn;
        void *labels;
        const net_case k = {"mobilenet_v2", build_mobilenet, CHANNELS, SIDE, SIDE, BATCH};
        open_machine(&m, plain_library, 0, 5);
        m.cuda.timing_seconds = 0;
        const ff_compute_options options = {.threads = 1,
                                            .precision = precisions[p],
                                            .device = m.device,
                                            .cuda = &m.cuda,
                                            .deterministic = ON_CARD};
        ff_compute *compute;
        assert_ok(m.ops->open(&compute, &options, error));
        open_net_on(&n, k.build, k.channels, k.height, k.width, k.batch, compute);
        draw(&drawn, &k);
        s.plan = n.plan;
        s.dtype = compute->dtype;
        void *images = put_tensor(compute, &n.plan->tensors[0], drawn.images);
        assert_ok(ff_compute_allocate(compute, &labels, sizeof drawn.labels, "a test", error));
        ff_compute_write(compute, labels, drawn.labels, sizeof drawn.labels);
        ff_batch batch = drawn.batch;
        batch.images = images, batch.labels = labels, batch.weights = NULL;
        ff_probe_begin(&probe, n.plan, images, keep, &s);
        (void)run_plan(n.plan, &batch, true);
        assert_ok(ff_probe_end(&probe, error));
        for (int i = 0; i < n.plan->op_count; i++) {
            const ff_op *op = &n.plan->ops[i];
            switch (n.graph->layers[op->layer].kind) {
            case FF_LAYER_CONV: check_conv(&s, op); break;
            case FF_LAYER_NORM: check_norm(&s, op); break;
            case FF_LAYER_AVERAGE_POOL: check_pool(&s, op); break;
            case FF_LAYER_LINEAR: check_linear(&s, op); break;
            default: fail_msg("%s is not checked", n.graph->layers[op->layer].name);
            }
        }
        assert_true(n.plan->op_count > 100 && s.furthest > 0.5);
        for (int i = 0; i < MOST; i++) free(s.value[i]);
        ff_compute_release(compute, images);
        ff_compute_release(compute, labels);
        free(drawn.images);
        close_net(&n);
        close_machine(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_operation_is_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
