/* Steps that never wait, on the simulated GPU or on a real one: against the CPU's, recorded against
 * called, with scaled losses, Muon, a smaller last batch, gradient buckets, and two replicas at
 * once. Engines are deterministic ones, so what is equal on the simulator is equal on a GPU. */
#include "tests/cuda/unit/cuda_helpers.h"

#include "format/base/thread.h"
#include "train/net/average.h"
#include "train/step/step.h"

/* Under a sanitizer the small net alone: the larger ones launch kernels that have tests of their
 * own there. */
#ifdef __SANITIZE_ADDRESS__
enum { NETS = 1 };
#else
enum { NETS = 2 };
#endif

enum { SIDE = 8, BATCH = 6, TAIL = 3, MOST_STEPS = 64, CHANNELS = 3 };

/* Weights after six steps in f32. Another order of sums (oneDNN's against the plain loops') differs
 * by 4e-8; a GPU's library may also use Winograd's algorithm, whose roundings are larger. */
#define SUMS_APART (ON_CARD ? 1e-5 : 1e-6)

/* One run of a model: its options and its results. */
typedef struct run {
    const char *model;
    ff_precision precision;
    ff_rule rule;
    bool adds;                       /* steps of two micro-batches */
    bool cuda, record, tail, poison; /* poison: an infinite image at step 5 */
    bool still;                      /* one batch, without the host in between */
    double rate, loss_scale, clip_norm;
    double ema; /* decay; 0 = no average */
    uint32_t scale_interval, send_steps;
    uint64_t delay_ns;
    int steps;
    const ff_library_table *library;
    /* results; the caller frees values */
    ff_outcome outcomes[MOST_STEPS];
    int outcome_count;
    float *values; /* of all trained parameters, in torch's order, and averages of all */
    size_t value_count;
    ff_step_times times;
} run;

/* A batch in device memory, written again for each step. */
typedef struct input {
    ff_compute *compute;
    ff_tensor shape;
    void *images;
    int32_t *labels;
} input;

static void open_input(input *in, ff_model *model, ff_compute *compute, int block) {
    (void)model;
    *in = (input){.compute = compute, .shape = {BATCH, CHANNELS, SIDE, SIDE, block}};
    assert_ok(ff_compute_allocate(compute, &in->images,
                                  ff_tensor_count(&in->shape) * compute->element_bytes, "a test",
                                  error));
    assert_ok(ff_compute_allocate(compute, &in->labels, BATCH * sizeof(int32_t), "a test", error));
}

/* The images and labels of step `number`, on any device. */
static void fill_input(input *in, int number, bool poison) {
    dice d = {.seed = 100 + (uint64_t)number};
    float *nchw = random_floats(&d, logical_count(&in->shape));
    int32_t labels[BATCH];
    for (int n = 0; n < BATCH; n++) labels[n] = between(&d, 0, 3);
    if (poison) nchw[7] = INFINITY;
    float *laid = lay_out(&in->shape, nchw);
    const size_t count = ff_tensor_count(&in->shape);
    void *narrow = floats(count);
    ff_convert(narrow, in->compute->dtype, laid, FF_F32, count);
    ff_compute_write(in->compute, in->images, narrow, count * in->compute->element_bytes);
    ff_compute_write(in->compute, in->labels, labels, sizeof labels);
    free(narrow);
    free(laid);
    free(nchw);
}

static void collect(run *r, ff_step *step, bool wait) {
    for (;;) {
        const ff_outcome *outcomes;
        uint32_t count;
        assert_ok(ff_step_outcomes(step, wait, &outcomes, &count, error));
        if (!count) return;
        for (uint32_t i = 0; i < count; i++) r->outcomes[r->outcome_count++] = outcomes[i];
    }
}

/* Where `part` is NULL, only counts. */
static void keep_part(run *r, ff_model *model, const ff_parameter_part *part, bool average) {
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        if (p->dtype != FF_F32 || !(p->trained || average)) continue;
        if (part) ff_model_get(model, i, *part, r->values + r->value_count);
        r->value_count += p->count;
    }
}

static void keep_values(run *r, ff_model *model) {
    static const ff_parameter_part parts[] = {FF_PART_VALUE, FF_PART_AVERAGE};
    for (int pass = 0; pass < 2; pass++) {
        r->value_count = 0;
        for (int k = 0; k < (r->ema > 0 ? 2 : 1); k++)
            keep_part(r, model, pass ? &parts[k] : NULL, k > 0);
        if (!pass) r->values = floats(r->value_count);
    }
    assert_ok(ff_model_check(model, error));
}

static void perform(run *r) {
    machine m = {0};
    ff_model *model;
    ff_plan *tail = NULL;
    ff_step *step;
    input in;
    if (r->cuda) open_machine(&m, r->library ? r->library : plain_library, r->delay_ns, 3);
    const ff_model_device device = {"a GPU", m.ops, m.device, &m.cuda};
    const ff_model_options options = {
        .name = r->model,
        .channels = CHANNELS,
        .height = SIDE,
        .width = SIDE,
        .classes = 4,
        .batch = BATCH,
        .threads = 1,
        .seed = 5,
        .dropout = r->model[0] == 's' ? 0.25 : -1,
        .label_smoothing = 0.1,
        .compute = r->cuda ? NULL : "reference",
        .device = r->cuda ? &device : NULL,
        .precision = r->precision,
        /* The simulated library always is, also with statistics, which a deterministic net of a
         * GPU computes apart. */
        .deterministic = ON_CARD,
    };
    m.cuda.timing_seconds = 0;
    assert_ok(ff_model_create(&model, &options, error));
    if (r->tail) assert_ok(ff_model_plan(model, TAIL, true, &tail, error));
    const ff_group groups[] = {{.names = "conv[23].weight", .rule = r->rule}, {.names = "*"}};
    const ff_group ruled[] = {{.names = "bias", .rule = r->rule}, {.names = "*", .rule = r->rule}};
    const ff_hyper hypers[] = {{.momentum = 0.6,
                                .nesterov = true,
                                .beta1 = 0.9,
                                .beta2 = 0.99,
                                .epsilon = 1e-3,
                                .trust = 1},
                               {.momentum = 0.9,
                                .weight_decay = 1e-3,
                                .nesterov = true,
                                .beta1 = 0.9,
                                .beta2 = 0.99,
                                .epsilon = 1e-3,
                                .trust = 1}};
    const bool grouped = r->rule != FF_RULE_SGD;
    if (grouped)
        assert_ok(ff_model_set_groups(model, r->rule == FF_RULE_MUON ? groups : ruled, 2, error));
    double rates[2][10];
    for (int i = 0; i < 10; i++) {
        rates[0][i] = 0.5 * r->rate / (i + 1);
        rates[1][i] = r->rate / (i + 1);
    }
    const ff_step_options how = {
        .update.groups = grouped ? hypers : hypers + 1,
        .update.group_count = grouped ? 2 : 1,
        .update.rates = grouped ? rates[0] : rates[1],
        .update.rate_steps = 10,
        .update.clip_norm = r->clip_norm,
        .update.ema_decay = r->ema,
        .update.part_samples = BATCH,
        .loss_scale = r->loss_scale,
        .scale_interval = r->scale_interval,
        .record = r->record,
        .send_steps = r->send_steps,
    };
    if (r->adds) assert_ok(ff_store_reserve_sums(ff_model_store(model), false, error));
    if (r->ema > 0) assert_ok(ff_average_reserve(ff_model_store(model), error));
    assert_ok(ff_step_create(&step, model, &how, error));
    if (r->ema > 0) ff_average_begin(ff_model_store(model));
    ff_compute *compute = ff_model_compute(model);
    open_input(&in, model, compute, compute->ops->input_block(compute, CHANNELS));
    const ff_batch batch = {.images = in.images, .labels = in.labels, .label_dtype = FF_I32};
    r->outcome_count = 0;
    for (int i = 0; i < r->steps; i++) {
        if (!r->still || i == 0) fill_input(&in, i, r->poison && i == 5);
        ff_plan *plan = r->tail && i % 4 == 3 ? tail : ff_model_training_plan(model);
        if (r->cuda) leave_machine(&m);
        if (r->adds) {
            assert_ok(ff_step_add(step, plan, &batch, error));
            fill_input(&in, i + 1000, false);
            if (r->cuda) leave_machine(&m);
        }
        assert_ok(ff_step_run(step, plan, &batch, error));
        collect(r, step, !r->still && i % 7 == 6);
    }
    collect(r, step, true);
    r->times = ff_step_measure(step);
    keep_values(r, model);
    int64_t tracked;
    int counter = 0; /* a batch norm's */
    while (ff_model_parameter(model, counter)->dtype != FF_I64) counter++;
    ff_model_get(model, counter, FF_PART_VALUE, &tracked);
    assert_int_equal(tracked, r->steps * (r->adds ? 2 : 1));
    assert_int_equal(r->outcome_count, r->steps);
    for (int i = 0; i < r->steps; i++) assert_int_equal(r->outcomes[i].step, i);
    ff_step_destroy(&step);
    ff_compute_release(compute, in.images);
    ff_compute_release(compute, in.labels);
    ff_model_destroy(&model);
    if (r->cuda) close_machine(&m);
}

/* |a - b| / |a| over the values. */
static double apart(const run *a, const run *b) {
    double squares = 0, off = 0;
    assert_int_equal(a->value_count, b->value_count);
    for (size_t i = 0; i < a->value_count; i++) {
        double distance = (double)a->values[i] - (double)b->values[i];
        squares += (double)a->values[i] * (double)a->values[i];
        off += distance * distance;
    }
    return sqrt(off / squares);
}

static void assert_same(const run *a, const run *b) {
    assert_memory_equal(a->values, b->values, a->value_count * sizeof(float));
    for (int i = 0; i < a->steps; i++)
        assert_memory_equal(&a->outcomes[i], &b->outcomes[i], sizeof(ff_outcome));
}

/* The CPU's steps and the GPU's reach the same weights within the rounding of sums, with every
 * optimizer, clipped or not; in 16 bits within the roundings of these; the losses too. Small rates:
 * a batch norm over a handful of values turns small differences into large ones within ten steps of
 * 0.1. */
static void steps_match_the_cpus(void **state) {
    (void)state;
    for (int rule = 0; rule < FF_RULE_COUNT; rule++) {
        run cpu = {.model = "smallnet",
                   .steps = 6,
                   .rate = 0.004,
                   .rule = (ff_rule)rule,
                   .clip_norm = rule % 3 ? 0.5 : 0,
                   .ema = rule == FF_RULE_SGD || rule == FF_RULE_MUON ? 0.8 : 0,
                   .adds = rule >= FF_RULE_MUON && rule <= FF_RULE_LARS,
                   .tail = true};
        run gpu = cpu;
        gpu.cuda = gpu.record = true;
        gpu.send_steps = 2;
        perform(&cpu);
        perform(&gpu);
        double off = apart(&cpu, &gpu);
        if (!(off < SUMS_APART)) print_message("rule %d: %g\n", rule, off);
        assert_true(off < SUMS_APART);
        for (int i = 0; i < cpu.steps; i++) {
            assert_int_equal(cpu.outcomes[i].count, gpu.outcomes[i].count);
            assert_true(fabs(cpu.outcomes[i].loss_sum - gpu.outcomes[i].loss_sum) < 1e-2);
            assert_float_equal(cpu.outcomes[i].learning_rate, gpu.outcomes[i].learning_rate, 0);
        }
        const ff_precision narrow[] = {FF_PRECISION_F16, FF_PRECISION_BF16};
        for (int p = 0; p < (rule <= FF_RULE_MUON ? 2 : 0); p++) {
            run half = gpu;
            half.precision = narrow[p];
            half.loss_scale = p ? 0 : 1024;
            perform(&half);
            off = apart(&cpu, &half);
            const double tolerance = p ? 0.015 : 0.005;
            if (!(off < tolerance))
                print_message("rule %d, %s: %g\n", rule, ff_precision_name(narrow[p]), off);
            assert_true(off < tolerance);
            free(half.values);
        }
        free(cpu.values);
        free(gpu.values);
    }
}

/* MobileNetV2, whose depthwise convolutions have kernels of their own, its ReLU6 fused into norms.
 * Through 52 norms in a row, the last over 6 values a channel, rounding turns some of ReLU6's
 * gradients on or off. In 16 bits the last features are a fifth off (a net in torch that rounds as
 * often, too), so only the loss is compared. In f32 the losses of oneDNN and of the plain loops are
 * 5e-6 apart here, those of cuDNN and the plain loops 4e-6 (H100). In f16 the loss depends on the
 * order of the f32 sums: of ten draws of weights and images it is up to 0.025 from f32's (root mean
 * square 0.010) with a convolution's statistics, up to 0.027 (0.010) with those of a kernel, as a
 * deterministic net has them; of one draw, 0.006 apart by the number of multiprocessors that share
 * the sums (at most 0.016). In this draw the simulated GPU is 0.0005 off, deterministic 0.003 to
 * 0.010. test_cuda_layers compares each operation by itself. */
static void mobilenet_matches_the_cpus(void **state) {
    (void)state;
    if (NETS == 1) return;
    const struct {
        ff_precision precision;
        double loss_scale, loss, update; /* how far from the CPU's, as shares */
    } all[] = {{FF_PRECISION_F32, 0, ON_CARD ? 2e-5 : 1e-6, 0.03},
               {FF_PRECISION_F16, 16, ON_CARD ? 0.02 : 0.002, INFINITY},
               {FF_PRECISION_BF16, 0, 0.03, INFINITY}};
    run cpu = {.model = "mobilenet_v2", .steps = 1, .rate = 0.004}, before = cpu;
    before.rate = 0;
    perform(&before);
    perform(&cpu);
    for (int i = 0; i < 3; i++) {
        run gpu = cpu;
        gpu.cuda = gpu.record = true;
        gpu.precision = all[i].precision;
        gpu.loss_scale = all[i].loss_scale;
        perform(&gpu);
        const double loss = fabs(gpu.outcomes[0].loss_sum / cpu.outcomes[0].loss_sum - 1);
        const double update = apart(&cpu, &gpu) / apart(&before, &cpu);
        if (!(update < all[i].update && loss < all[i].loss))
            print_message("%s: %g and %g\n", ff_precision_name(gpu.precision), loss, update);
        assert_int_equal(gpu.outcomes[0].non_finite, 0);
        assert_true(update < all[i].update && loss < all[i].loss);
        free(gpu.values);
    }
    free(before.values);
    free(cpu.values);
}

/* Recorded or called, with a smaller batch in between, whatever the delays: the same bits. */
static void recordings_change_nothing(void **state) {
    (void)state;
    const char *models[] = {"smallnet", "resnet18"};
    for (int i = 0; i < NETS; i++) {
        run called = {.model = models[i],
                      .rate = 0.1,
                      .cuda = true,
                      .tail = true,
                      .precision = FF_PRECISION_F16,
                      .loss_scale = 256,
                      .send_steps = 3,
                      .steps = i ? 4 : 21, /* a tail is the fourth */
                      .library = i ? library_of_pieces : plain_library};
        called.adds = !i;
        run recorded = called;
        recorded.record = true;
        recorded.send_steps = 5;
        recorded.delay_ns = 200000;
        perform(&called);
        perform(&recorded);
        assert_same(&called, &recorded);
        assert_true(called.times.steps > 0 || i);
        assert_true(recorded.times.wait_ns <= recorded.times.step_ns);
        free(called.values);
        free(recorded.values);
    }
}

enum { POISONED = 6, AFTER = 2 };

/* Steps of which the sixth is poisoned: neither it nor a later one changes a parameter, and it is
 * reported. scales: of each. */
static void last_step_is_skipped(run r, const float *scales) {
    r.poison = true;
    r.steps = POISONED + AFTER;
    run before = r;
    before.steps = POISONED - 1;
    perform(&before);
    perform(&r);
    assert_memory_equal(before.values, r.values, r.value_count * sizeof(float));
    for (int i = 0; i < POISONED + AFTER; i++)
        assert_int_equal(r.outcomes[i].non_finite, i >= POISONED - 1);
    for (int i = 0; i < POISONED; i++) {
        assert_float_equal(r.outcomes[i].loss_scale, scales[i], 0);
    }
    free(before.values);
    free(r.values);
}

/* For every scale: fixed, none, in 16 bits or not; or dynamic, halved by a bad step and doubled by
 * good ones. */
static void bad_steps_are_skipped(void **state) {
    (void)state;
    const struct {
        ff_precision precision;
        double loss_scale;
        uint32_t interval;
        float scales[POISONED];
    } runs[] = {{FF_PRECISION_F16, 128, 0, {128, 128, 128, 128, 128, 128}},
                {FF_PRECISION_F16, 0, 0, {1, 1, 1, 1, 1, 1}},
                {FF_PRECISION_F32, 0, 4, {1, 1, 1, 1, 1, 1}},
                {FF_PRECISION_F16, 512, 4, {512, 512, 512, 512, 1024, 1024}},
                {FF_PRECISION_F32, 0, 0, {1, 1, 1, 1, 1, 1}}}; /* on the CPU */
    const size_t count = sizeof runs / sizeof *runs;
    for (size_t k = 0; k < count; k++)
        last_step_is_skipped((run){.model = "smallnet",
                                   .rate = 0.1,
                                   .cuda = k + 1 < count,
                                   .record = k + 1 < count,
                                   .ema = 0.5,
                                   .precision = runs[k].precision,
                                   .loss_scale = runs[k].loss_scale,
                                   .scale_interval = runs[k].interval},
                             runs[k].scales);
}

/* However far the device lags behind the host, the host waits before it reuses a place in the ring
 * whose outcome has not been read: every step's arrives, once and in order. */
static void the_host_waits_for_a_lagging_device(void **state) {
    (void)state;
    for (uint32_t report = 1; report <= 3; report++) {
        run prompt = {.model = "smallnet",
                      .rate = 0.1,
                      .cuda = true,
                      .record = true,
                      .still = true,
                      .send_steps = report,
                      .steps = 24};
        run lagging = prompt;
        lagging.delay_ns = 2000000;
        perform(&prompt);
        perform(&lagging);
        assert_same(&prompt, &lagging);
        free(prompt.values);
        free(lagging.values);
    }
}

static void perform_thread(void *context, int index) {
    perform(&((run *)context)[index]);
}

/* Two replicas at once, each on its own device, get the same results as one alone. */
static void replicas_are_independent(void **state) {
    (void)state;
    run alone = {.model = "smallnet",
                 .rate = 0.1,
                 .cuda = true,
                 .record = true,
                 .precision = FF_PRECISION_BF16,
                 .delay_ns = 100000,
                 .steps = 9};
    run both[2] = {alone, alone};
    ff_threads *threads;
    perform(&alone);
    assert_ok(ff_threads_start(&threads, 2, "replica", perform_thread, both, error));
    ff_threads_join(&threads);
    for (int i = 0; i < 2; i++) {
        assert_same(&alone, &both[i]);
        free(both[i].values);
    }
    free(alone.values);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_match_the_cpus),
        cmocka_unit_test(mobilenet_matches_the_cpus),
        cmocka_unit_test(recordings_change_nothing),
        cmocka_unit_test(bad_steps_are_skipped),
        cmocka_unit_test(replicas_are_independent),
        cmocka_unit_test(the_host_waits_for_a_lagging_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
