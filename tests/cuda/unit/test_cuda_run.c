/* Where a run of steps differs from single steps: plans without the gradients of parameters whose
 * learning rate has reached 0, recordings that cannot be made, restarting. On the simulated GPU,
 * and on the CPU where that makes sense. */
#include "tests/cuda/unit/cuda_helpers.h"

#include "train/net/ops/ops.h"
#include "train/step/step.h"
#include "train/step/update.h"

enum { SIDE = 8, BATCH = 6, CHANNELS = 3, STEPS = 9, SETTLED = 4 };

typedef struct run {
    bool cuda, record, settles; /* settles: from SETTLED on, a plan without the first stage */
    bool poison;                /* an infinite image at the step before */
    int fails;                  /* this capture_end, counted from 1, fails; 0 = none */
    bool refuses;               /* the library refuses to be captured */
    bool muon;                  /* of all filters except the first layer's */
    bool restarts;              /* after three steps that are checked, and undone */
    uint64_t seed;              /* of the streams' delays */
    ff_outcome outcomes[STEPS];
    int count;
    float *values;
    size_t value_count;
    char note[512];
} run;

/* ---- a device whose captures fail ---- */

static const ff_device_table *whole;
static int captures, failing;

static ff_status capture_end(ff_device *device, ff_stream *stream, ff_recording **recording,
                             ff_error *error) {
    FF_TRY(whole->capture_end(device, stream, recording, error));
    if (++captures != failing) return FF_OK;
    whole->recording_destroy(device, *recording);
    *recording = NULL;
    return ff_fail(error, FF_FAILED, "capture_end: refused by the test");
}

/* ---- a library that cannot be captured ---- */

static bool capturing;

static ff_status capture_begin(ff_device *device, ff_stream *stream, ff_error *error) {
    capturing = true;
    return whole->capture_begin(device, stream, error);
}

static ff_status capture_ended(ff_device *device, ff_stream *stream, ff_recording **recording,
                               ff_error *error) {
    capturing = false;
    return whole->capture_end(device, stream, recording, error);
}

static ff_status conv_run(ff_library *library, ff_library_conv *conv, void *stream,
                          const ff_library_conv_arguments *arguments, void *workspace,
                          ff_error *error) {
    if (capturing) return ff_fail(error, FF_FAILED, "conv_run: refused by the test");
    return ff_library_plain.conv_run(library, conv, stream, arguments, workspace, error);
}

/* ---- a run ---- */

static void keep_values(run *r, ff_model *model) {
    r->value_count = 0;
    for (int i = 0; i < ff_model_parameter_count(model); i++)
        if (ff_model_parameter(model, i)->dtype == FF_F32)
            r->value_count += ff_model_parameter(model, i)->count;
    r->values = floats(r->value_count);
    size_t at = 0;
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        if (ff_model_parameter(model, i)->dtype != FF_F32) continue;
        ff_model_get(model, i, FF_PART_VALUE, r->values + at);
        at += ff_model_parameter(model, i)->count;
    }
    assert_ok(ff_model_check(model, error));
}

static void fill_images(const run *r, ff_compute *compute, const ff_tensor *shape, void *images,
                        int number) {
    dice d = {.seed = 300 + (uint64_t)number};
    float *nchw = random_floats(&d, logical_count(shape));
    if (r->poison && number == SETTLED - 1) nchw[3] = INFINITY;
    float *laid = lay_out(shape, nchw);
    round_all(compute, laid, ff_tensor_count(shape));
    void *narrow = floats(ff_tensor_count(shape));
    ff_convert(narrow, compute->dtype, laid, FF_F32, ff_tensor_count(shape));
    ff_compute_write(compute, images, narrow, ff_tensor_count(shape) * compute->element_bytes);
    free(narrow);
    free(laid);
    free(nchw);
}

static void collect(run *r, ff_step *step, bool wait) {
    const ff_outcome *outcomes;
    for (uint32_t count = 1; count;) {
        assert_ok(ff_step_outcomes(step, wait, &outcomes, &count, error));
        for (uint32_t i = 0; i < count; i++) r->outcomes[r->count++ % STEPS] = outcomes[i];
    }
}

/* The plan leaves out what it should, and nothing else. */
static void assert_left_out(const ff_plan *whole_plan, const ff_plan *settled) {
    assert_int_equal(whole_plan->op_count, settled->op_count);
    int left_out = 0;
    for (int i = 0; i < settled->op_count; i++) {
        const ff_op *op = &settled->ops[i];
        const char *layer = settled->graph->layers[op->layer].name;
        const bool first = strcmp(layer, "conv1") == 0 || strcmp(layer, "bn1") == 0 || i == 1;
        /* a pool's gradient may be computed by the norm after it */
        const bool trained = whole_plan->ops[i].backward;
        assert_true(trained || op->type == &ff_op_pool);
        if (i < 3) assert_int_equal(op->backward, trained && !first);
        left_out += trained && !op->backward;
        if (op->type == &ff_op_conv && strcmp(layer, "conv2") == 0) {
            assert_false(op->conv.planned->shape.input_gradient);
            assert_int_equal(op->dx, FF_BUFFER_NONE);
            assert_true(whole_plan->ops[i].conv.planned->shape.input_gradient);
        }
    }
    assert_true(left_out >= 2 && left_out <= 3); /* conv1, its pool where that is apart, bn1 */
}

/* The loss was not finite; as a host that continues. */
static void go_on(const ff_store *store) {
    ff_control control;
    ff_compute_read(store->compute, &control, store->control, sizeof control);
    assert_int_equal(control.halted, 1);
    control.halted = control.non_finite = 0;
    ff_compute_write(store->compute, store->control, &control, sizeof control);
}

static void take_steps(run *r, ff_step *step, ff_model *model, ff_plan *settled,
                       const ff_tensor *shape, void *images, const ff_batch *batch) {
    ff_plan *plan = ff_model_training_plan(model);
    for (int i = 0; i < STEPS; i++) {
        fill_images(r, ff_model_compute(model), shape, images, i);
        assert_ok(ff_step_run(step, settled && i >= SETTLED ? settled : plan, batch, error));
        collect(r, step, false);
        if (r->poison && i == SETTLED - 1) go_on(plan->store);
    }
    collect(r, step, true);
}

/* Runs steps whose outcomes are delivered, then restores everything. */
static void steps_and_restart(run *r, ff_step *step, ff_model *model, const ff_tensor *shape,
                              void *images, const ff_batch *batch) {
    ff_store *store = ff_model_training_plan(model)->store;
    ff_compute *compute = ff_model_compute(model);
    ff_store_block blocks[FF_STORE_BLOCKS];
    void *kept[FF_STORE_BLOCKS] = {NULL};
    ff_store_blocks(store, blocks);
    for (int i = 0; i < FF_STORE_BLOCKS; i++) {
        if (!blocks[i].memory) continue;
        kept[i] = malloc(blocks[i].bytes);
        ff_compute_read(compute, kept[i], blocks[i].memory, blocks[i].bytes);
    }
    fill_images(r, compute, shape, images, 0);
    for (int i = 0; i < 3; i++)
        assert_ok(ff_step_run(step, ff_model_training_plan(model), batch, error));
    collect(r, step, true);
    assert_int_equal(r->count, 3);
    assert_ok(ff_step_restart(step, error));
    for (int i = 0; i < FF_STORE_BLOCKS; i++) {
        if (kept[i]) ff_compute_write(compute, blocks[i].memory, kept[i], blocks[i].bytes);
        free(kept[i]);
    }
    r->count = 0;
}

static void perform(run *r) {
    machine m = {0};
    ff_model *model;
    ff_plan *settled = NULL;
    ff_step *step;
    ff_device_table failing_table;
    ff_library_table library = ff_library_plain;
    library.conv_run = conv_run;
    capturing = false;
    if (r->cuda) open_machine(&m, r->refuses ? &library : &ff_library_plain, 20000, 3 + r->seed);
    m.cuda.no_fold = true; /* a norm that is left out is not folded, so it rounds differently */
    const ff_model_device device = {"simulated", &ff_cuda_compute_ops, m.device, &m.cuda};
    const ff_model_options options = {
        .name = "smallnet",
        .channels = CHANNELS,
        .height = SIDE,
        .width = SIDE,
        .classes = 4,
        .batch = BATCH,
        .threads = 1,
        .seed = 5,
        .dropout = -1,
        .device = r->cuda ? &device : NULL,
        .precision = r->cuda ? FF_PRECISION_F16 : FF_PRECISION_F32,
    };
    assert_ok(ff_model_create(&model, &options, error));
    const ff_group groups[] = {
        {.names = "*1.*", .rule = FF_RULE_SGD},
        {.names = "conv[234].weight", .rule = r->muon ? FF_RULE_MUON : FF_RULE_SGD},
        {.names = "*", .rule = FF_RULE_SGD}};
    const ff_hyper sgds[] = {{.momentum = 0.9, .weight_decay = 1e-3, .nesterov = true},
                             {.momentum = 0.9, .weight_decay = 1e-3, .nesterov = true},
                             {.momentum = 0.9, .weight_decay = 1e-3, .nesterov = true}};
    assert_ok(ff_model_set_groups(model, groups, 3, error));
    bool without[64] = {false};
    for (int i = 0; i < ff_model_parameter_count(model); i++)
        without[i] = ff_model_group(model, i) == 0;
    const ff_plan_options fewer = {.batch = BATCH, .training = true, .without = without};
    if (r->settles) assert_ok(ff_model_plan_with(model, &fewer, &settled, error));
    if (settled) assert_left_out(ff_model_training_plan(model), settled);
    double rates[3][STEPS];
    for (int i = 0; i < STEPS; i++) {
        rates[0][i] = i < SETTLED ? 0.05 : 0;
        rates[1][i] = rates[2][i] = 0.05;
    }
    const ff_step_options how = {.update.groups = sgds,
                                 .update.group_count = 3,
                                 .update.rates = rates[0],
                                 .update.rate_steps = STEPS,
                                 .loss_scale = r->cuda ? 64 : 0,
                                 .record = r->record,
                                 .send_steps = 2};
    ff_compute *compute = ff_model_compute(model);
    if (r->fails || r->refuses) {
        whole = m.device->table;
        failing_table = *whole;
        failing_table.capture_end = r->refuses ? capture_ended : capture_end;
        if (r->refuses) failing_table.capture_begin = capture_begin;
        m.device->table = &failing_table;
        captures = 0, failing = r->fails;
    }
    assert_ok(ff_step_create(&step, model, &how, error));
    const ff_tensor shape = ff_model_training_plan(model)->tensors[0];
    void *images, *labels;
    int32_t classes[BATCH];
    for (int n = 0; n < BATCH; n++) classes[n] = n % 4;
    assert_ok(ff_compute_allocate(compute, &images, ff_tensor_count(&shape) * 4, "a test", error));
    assert_ok(ff_compute_allocate(compute, &labels, sizeof classes, "a test", error));
    ff_compute_write(compute, labels, classes, sizeof classes);
    const ff_batch batch = {.images = images, .labels = labels, .label_dtype = FF_I32};
    r->count = 0;
    if (r->restarts) steps_and_restart(r, step, model, &shape, images, &batch);
    take_steps(r, step, model, settled, &shape, images, &batch);
    keep_values(r, model);
    const char *note = ff_step_note(step);
    snprintf(r->note, sizeof r->note, "%s", note ? note : "");
    ff_step_destroy(&step);
    ff_compute_release(compute, images);
    ff_compute_release(compute, labels);
    ff_model_destroy(&model);
    if (r->fails || r->refuses) m.device->table = whole;
    if (r->cuda) close_machine(&m);
}

static void assert_same(const run *a, const run *b) {
    assert_int_equal(a->count, STEPS);
    assert_int_equal(b->count, STEPS);
    assert_memory_equal(a->values, b->values, a->value_count * sizeof(float));
    for (int i = 0; i < STEPS; i++)
        assert_memory_equal(&a->outcomes[i], &b->outcomes[i], sizeof(ff_outcome));
}

/* ---- the tests ---- */

/* A restarted run has the same steps as a fresh one. */
static void a_restart_equals_a_fresh_run(void **state) {
    (void)state;
    run first = {.count = 0}, again = {.restarts = true};
    perform(&first);
    perform(&again);
    assert_same(&first, &again);
    for (int i = 0; i < STEPS; i++) assert_int_equal(again.outcomes[i].step, i);
    free(first.values);
    free(again.values);
}

/* Leaving gradients out does not change a bit of the trained parameters, on either device, recorded
 * or called. */
static void leaving_gradients_out_changes_nothing(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        run all = {.cuda = kind > 0, .record = kind == 2};
        run left = all;
        left.settles = true;
        perform(&all);
        perform(&left);
        assert_same(&all, &left);
        free(all.values);
        free(left.values);
    }
}

/* Only filters are left out: the norm after them still computes its gradients, and nothing below
 * does. */
static void unused_gradients_are_not_computed(void **state) {
    (void)state;
    ff_model *model;
    ff_plan *plan;
    const ff_model_options options = {.name = "smallnet",
                                      .channels = CHANNELS,
                                      .height = SIDE,
                                      .width = SIDE,
                                      .classes = 4,
                                      .batch = BATCH,
                                      .threads = 1,
                                      .dropout = -1,
                                      .compute = "reference"};
    bool without[64] = {false};
    assert_ok(ff_model_create(&model, &options, error));
    without[ff_model_find(model, "conv1.weight")] = true;
    assert_ok(ff_model_plan_with(
        model, &(ff_plan_options){.batch = BATCH, .training = true, .without = without}, &plan,
        error));
    for (int i = 0; i < plan->op_count; i++) {
        const ff_op *op = &plan->ops[i];
        const bool below = strcmp(plan->graph->layers[op->layer].name, "conv1") == 0 ||
                           (op->type == &ff_op_pool && i == 1);
        assert_int_equal(op->backward, !below);
    }
    ff_model_destroy(&model);
}

/* A gradient that was not finite when its parameter's learning rate reached 0 does not stop
 * updates. */
static void a_stale_gradient_skips_nothing(void **state) {
    (void)state;
    for (int record = 0; record < 2; record++) {
        run r = {.cuda = true, .record = record, .settles = true, .poison = true};
        perform(&r);
        for (int i = 0; i < STEPS; i++)
            assert_int_equal(r.outcomes[i].non_finite, i == SETTLED - 1);
        free(r.values);
    }
}

/* If any recording cannot be made, that is reported, and the steps are the same without it. */
static void captures_may_fail(void **state) {
    (void)state;
    run whole_run = {.cuda = true, .record = true, .settles = true};
    perform(&whole_run);
    assert_string_equal(whole_run.note, "");
    /* plain and timed of the first plan, the update's, plain and timed of the second */
    for (int fails = 1; fails <= 5; fails++) {
        run r = whole_run;
        r.fails = fails;
        perform(&r);
        assert_true(captures >= fails);
        assert_same(&whole_run, &r);
        assert_non_null(strstr(r.note, "steps run without CUDA graphs"));
        assert_non_null(strstr(r.note, "refused by the test"));
        free(r.values);
    }
    run refused = whole_run;
    refused.refuses = true;
    perform(&refused);
    assert_same(&whole_run, &refused);
    assert_non_null(strstr(refused.note, "conv_run: refused by the test"));
    free(refused.values);
    free(whole_run.values);
}

/* Muon's banks run concurrently: the same bits for any delays, recorded or called. */
static void banks_are_independent(void **state) {
    (void)state;
    run one = {.cuda = true, .muon = true, .record = true};
    run plain = {.cuda = true};
    perform(&one);
    perform(&plain);
    assert_int_not_equal(memcmp(one.values, plain.values, one.value_count * sizeof(float)), 0);
    for (int i = 0; i < 4; i++) {
        run other = one;
        other.record = false;
        other.seed = 40 + (uint64_t)i;
        perform(&other);
        assert_same(&one, &other);
        free(other.values);
    }
    free(one.values);
    free(plain.values);
}

/* One update of parameters whose gradients are all 0.5 except one of `bad`, which is NaN. */
static ff_outcome update_with(ff_model *model, const char *bad, float *before, float *after) {
    ff_store *store = ff_model_training_plan(model)->store;
    ff_compute *compute = ff_model_compute(model);
    const int p = bad ? ff_model_find(model, bad) : -1;
    const ff_hyper sgds[] = {{.momentum = 0.9, .nesterov = true},
                             {.momentum = 0.9, .nesterov = true}};
    const double rates[] = {0.1, 0.1};
    const ff_update_options options = {
        .groups = sgds, .group_count = 2, .rates = rates, .rate_steps = 1};
    ff_update *update;
    ff_outcome *ring, outcome;
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *parameter = ff_model_parameter(model, i);
        if (!parameter->trained) continue;
        float *values = floats(parameter->count);
        for (size_t e = 0; e < parameter->count; e++) values[e] = 0.5f;
        if (i == p) values[parameter->count / 2] = NAN;
        ff_store_import(store, i, FF_PART_GRADIENT, values);
        free(values);
    }
    ff_compute_read(compute, before, store->values, store->trained_count * sizeof *before);
    assert_ok(ff_update_create(&update, store, &options, error));
    assert_ok(ff_compute_allocate(compute, &ring, sizeof *ring, "a test", error));
    ff_update_enqueue(update, ring, 1);
    ff_compute_read(compute, &outcome, ring, sizeof outcome);
    ff_compute_read(compute, after, store->values, store->trained_count * sizeof *after);
    assert_ok(ff_compute_check(compute, error));
    ff_compute_release(compute, ring);
    ff_update_destroy(&update);
    return outcome;
}

/* Whichever parameter's gradient is not finite, SGD's or Muon's, the update is left out. */
static void skips_updates(const ff_model_device *device) {
    ff_model *model;
    const ff_model_options options = {.name = "smallnet",
                                      .channels = CHANNELS,
                                      .height = SIDE,
                                      .width = SIDE,
                                      .classes = 4,
                                      .batch = BATCH,
                                      .threads = 1,
                                      .dropout = -1,
                                      .device = device,
                                      .precision = FF_PRECISION_F32};
    const ff_group groups[] = {{.names = "conv[234].weight", .rule = FF_RULE_MUON},
                               {.names = "*", .rule = FF_RULE_SGD}};
    assert_ok(ff_model_create(&model, &options, error));
    assert_ok(ff_model_set_groups(model, groups, 2, error));
    const size_t count = ff_model_training_plan(model)->store->trained_count;
    float *before = floats(count), *after = floats(count);
    static const char *const bad[] = {NULL, "conv2.weight", "conv3.weight", "conv1.weight",
                                      "bn1.bias"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const ff_outcome outcome = update_with(model, bad[i], before, after);
        assert_int_equal(outcome.non_finite, bad[i] != NULL);
        assert_int_equal(memcmp(before, after, count * sizeof *before) == 0, bad[i] != NULL);
    }
    free(before);
    free(after);
    ff_model_destroy(&model);
}

/* On the simulated GPU and on the CPU. */
static void any_gradient_skips_the_update(void **state) {
    (void)state;
    machine m;
    open_machine(&m, &ff_library_plain, 0, 1);
    const ff_model_device device = {"simulated", &ff_cuda_compute_ops, m.device, &m.cuda};
    skips_updates(&device);
    skips_updates(NULL);
    close_machine(&m);
}

/* A launcher's error is reported by the device's name for it, with what to do. */
static const char *name_of(int code) {
    return code == FF_CUDA_INVALID_VALUE ? "cudaErrorInvalidValue" : NULL;
}

static const char *advice_on(int code) {
    return code == FF_CUDA_INVALID_VALUE ? "; look" : "";
}

static void launch_errors_have_names(void **state) {
    (void)state;
    machine m;
    open_machine(&m, &ff_library_plain, 0, 1);
    ff_device_table named = *m.device->table;
    const ff_device_table *kept = m.device->table;
    named.error_name = name_of;
    named.error_advice = advice_on;
    m.device->table = &named;
    const struct {
        int code;
        const char *text;
    } told[] = {{FF_CUDA_INVALID_VALUE, "norm_train: cudaErrorInvalidValue (CUDA error 1); look"},
                {700, "norm_train: unknown (CUDA error 700)"}};
    for (int i = 0; i < 2; i++) {
        ff_error failure = {0};
        ff_compute *compute = open_cuda(&m, FF_PRECISION_F32);
        ff_cuda_keep(compute, FF_CUDA_OK, "norm_train");
        assert_ok(ff_compute_check(compute, error));
        ff_cuda_keep(compute, told[i].code, "norm_train");
        assert_int_equal(ff_compute_check(compute, &failure), FF_FAILED);
        assert_string_equal(failure.message, told[i].text);
        ff_compute_forgive(compute);
        assert_ok(ff_compute_check(compute, error));
        ff_compute_close(&compute);
    }
    m.device->table = kept;
    close_machine(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_restart_equals_a_fresh_run),
        cmocka_unit_test(leaving_gradients_out_changes_nothing),
        cmocka_unit_test(unused_gradients_are_not_computed),
        cmocka_unit_test(a_stale_gradient_skips_nothing),
        cmocka_unit_test(captures_may_fail),
        cmocka_unit_test(banks_are_independent),
        cmocka_unit_test(any_gradient_skips_the_update),
        cmocka_unit_test(launch_errors_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
