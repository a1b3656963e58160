/* Times of a step's rows (train/cost/profile.h), over the simulated GPU's asynchronous streams. */
#include "tests/unit/cost_nets.h"

#include "train/cost/profile.h"
#include "train/step/step.h"

static void *device_copy(ff_compute *compute, const void *from, size_t bytes) {
    void *to;
    assert_ok(ff_compute_allocate(compute, &to, bytes, "a test", error));
    ff_compute_write(compute, to, from, bytes);
    return to;
}

typedef struct learned {
    float *values;
    size_t count;
} learned;

static learned values_of(ff_model *model) {
    const ff_store *store = ff_model_store(model);
    learned l = {.count = store->trained_count + store->buffer_count};
    l.values = floats(l.count);
    ff_compute_read(store->compute, l.values, store->values, store->trained_count * sizeof(float));
    ff_compute_read(store->compute, l.values + store->trained_count, store->buffers,
                    store->buffer_count * sizeof(float));
    assert_ok(ff_compute_check(store->compute, error));
    return l;
}

/* Steps that are timed row by row train exactly as the same number of steps of a run, bit for bit;
 * every row has a time, and together they take about as long as a step without events in it. */
static void rows_are_measured(void **state) {
    (void)state;
    enum { LAUNCHES = 3, STEPS = 2 + 2 * LAUNCHES };
    const net_form *form = &forms[0];
    learned found[2] = {0};
    for (int profiled = 0; profiled < 2; profiled++) {
        machine m;
        ff_model *model;
        dice d = {.seed = 3};
        const int32_t labels[BATCH] = {0, 3, 1, 2};
        open_machine(&m, &ff_library_plain, 100000, 1);
        const ff_model_device device = {"simulated", &ff_cuda_compute_ops, m.device, &m.cuda};
        open_model(&model, form, FF_PRECISION_F32, &device);
        ff_compute *compute = ff_model_compute(model);
        ff_plan *plan = ff_model_training_plan(model);
        const size_t count = ff_tensor_count(&plan->tensors[0]);
        float *images = random_floats(&d, count);
        const ff_batch batch = {.images = device_copy(compute, images, count * sizeof *images),
                                .labels = device_copy(compute, labels, sizeof labels),
                                .label_dtype = FF_I32};
        const ff_update_options update = update_options(false);
        if (profiled) {
            const ff_cost_options options = {0};
            const ff_profile_options how = {.batch = batch, .update = update, .launches = LAUNCHES};
            ff_costs costs;
            ff_profile profile;
            ff_control control;
            uint64_t sum = 0;
            assert_ok(ff_costs_count(&costs, plan, &options, error));
            assert_ok(ff_profile_step(&profile, plan, &costs, &how, error));
            for (size_t i = 0; i < costs.row_count; i++) {
                assert_true(profile.row_ns[i] > 0);
                sum += profile.row_ns[i];
            }
            assert_true(profile.step_ns > 0);
            if (!(sum < 5 * profile.step_ns && profile.step_ns < 5 * sum))
                print_message("rows %g ms, a step %g ms\n", (double)sum * 1e-6,
                              (double)profile.step_ns * 1e-6);
            assert_true(sum < 5 * profile.step_ns && profile.step_ns < 5 * sum);
            ff_compute_read(compute, &control, plan->store->control, sizeof control);
            assert_int_equal(control.step, 0);
            assert_null(compute->watch);
            ff_profile_free(&profile);
            found[1] = values_of(model);

            /* Counts of another step do not match what is measured. */
            ff_error failure = {0};
            costs.rows[3].op++;
            assert_int_equal(ff_profile_step(&profile, plan, &costs, &how, &failure), FF_FAILED);
            assert_non_null(strstr(failure.message, "part 4"));
            assert_null(profile.row_ns);
            ff_costs_free(&costs);
        } else {
            const ff_step_options how = {.update.groups = update.groups,
                                         .update.group_count = 1,
                                         .update.rates = rates,
                                         .update.rate_steps = 1,
                                         .loss_scale = 1,
                                         .record = true};
            ff_step *step;
            assert_ok(ff_step_create(&step, model, &how, error));
            for (int i = 0; i < STEPS; i++) assert_ok(ff_step_run(step, plan, &batch, error));
            ff_step_destroy(&step);
        }
        if (!profiled) found[0] = values_of(model);
        ff_compute_release(compute, (void *)batch.images);
        ff_compute_release(compute, (void *)batch.labels);
        ff_model_destroy(&model);
        close_machine(&m);
        free(images);
    }
    assert_int_equal(found[0].count, found[1].count);
    assert_memory_equal(found[0].values, found[1].values, found[0].count * sizeof(float));
    free(found[0].values);
    free(found[1].values);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_measured)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
