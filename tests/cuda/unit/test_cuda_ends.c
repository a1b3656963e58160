/* What is destroyed, or grows, waits for the device first: no memory, recording or event that work
 * in the stream may still use is released. The work is a function that takes a while. */
#include "tests/unit/cost_nets.h"

#include "loader/cuda/kernels.h"
#include "tests/unit/format_set.h"
#include "train/step/feed.h"
#include "train/step/step.h"

#include <stdatomic.h>
#include <time.h>

enum { WORK_NS = 50000000 };

static const ff_device_table *real;
static ff_device_table watched;
static atomic_bool working;
static int released; /* since the work began */

static void work(void *context) {
    (void)context;
    nanosleep(&(struct timespec){.tv_nsec = WORK_NS}, NULL);
    atomic_store(&working, false);
}

static void begin_work(ff_compute *compute) {
    assert_ok(ff_compute_wait(compute, error));
    released = 0;
    atomic_store(&working, true);
    assert_ok(real->call(compute->device, compute->stream, work, NULL, error));
}

static void may_release(const void *what) {
    if (!what) return;
    assert_false(atomic_load(&working));
    released++;
}
static void release(ff_device *device, void *memory) {
    may_release(memory);
    real->release(device, memory);
}
static void release_pinned(ff_device *device, void *memory) {
    may_release(memory);
    real->release_pinned(device, memory);
}
static void recording_destroy(ff_device *device, ff_recording *recording) {
    may_release(recording);
    real->recording_destroy(device, recording);
}
static void event_destroy(ff_device *device, ff_event *event) {
    may_release(event);
    real->event_destroy(device, event);
}
static void library_close(ff_library *library) {
    may_release(library);
    ff_library_plain.close(library);
}

static void open_watched(machine *m) {
    open_machine(m, &ff_library_plain, 0, 1);
    real = m->device->table;
    watched = *real;
    watched.release = release;
    watched.release_pinned = release_pinned;
    watched.recording_destroy = recording_destroy;
    watched.event_destroy = event_destroy;
    m->device->table = &watched;
}

/* Something was released, after the work. */
static void ended(void) {
    assert_false(atomic_load(&working));
    assert_true(released > 0);
}

static void a_model_and_its_plans_wait(void **state) {
    (void)state;
    machine m;
    ff_model *model;
    ff_plan *larger;
    open_watched(&m);
    const ff_model_device device = {"simulated", &ff_cuda_compute_ops, m.device, &m.cuda};
    open_model(&model, &forms[0], FF_PRECISION_F16, &device);
    begin_work(ff_model_compute(model));
    assert_ok(ff_model_plan(model, 4 * BATCH, true, &larger, error)); /* its arenas grow */
    ended();
    begin_work(ff_model_compute(model));
    ff_model_destroy(&model);
    ended();
    close_machine(&m);
}

static void a_step_waits(void **state) {
    (void)state;
    machine m;
    ff_model *model;
    ff_step *step;
    const ff_outcome *outcomes;
    uint32_t count;
    open_watched(&m);
    const ff_model_device device = {"simulated", &ff_cuda_compute_ops, m.device, &m.cuda};
    open_model(&model, &forms[0], FF_PRECISION_F16, &device);
    const ff_step_options how = {.update = update_options(false), .send_steps = 4};
    assert_ok(ff_step_create(&step, model, &how, error));
    begin_work(ff_model_compute(model));
    assert_ok(ff_step_restart(step, error)); /* afterwards the batch is given again */
    assert_false(atomic_load(&working));
    assert_ok(ff_step_outcomes(step, true, &outcomes, &count, error));
    assert_int_equal(count, 0);
    begin_work(ff_model_compute(model));
    ff_step_destroy(&step);
    ended();
    ff_model_destroy(&model);
    close_machine(&m);
}

static void a_compute_waits(void **state) {
    (void)state;
    machine m;
    ff_library_table library = ff_library_plain;
    open_watched(&m);
    library.close = library_close;
    m.cuda.library = &library;
    ff_compute *compute = open_cuda(&m, FF_PRECISION_F32);
    begin_work(compute);
    ff_compute_close(&compute);
    ended();
    close_machine(&m);
}

static void batches_wait(void **state) {
    (void)state;
    for (int placement = 0; placement < 2; placement++) {
        set_spec set = plain_set(16);
        ff_feed *feed;
        machine m;
        ff_dataset *dataset = open_new_set(&set);
        open_watched(&m);
        ff_compute *compute = open_cuda(&m, FF_PRECISION_F16);
        ff_feed_options how = {.loader = ff_loader_defaults(),
                               .compute = compute,
                               .kernels = &ff_loader_cuda_kernels,
                               .placement = placement ? FF_PLACEMENT_STREAM : FF_PLACEMENT_RESIDENT,
                               .quiet = true};
        how.loader.batch = BATCH;
        assert_ok(ff_feed_create(&feed, dataset, &how, error));
        begin_work(compute);
        ff_feed_destroy(&feed);
        ended();
        ff_compute_close(&compute);
        close_machine(&m);
        ff_dataset_close(&dataset);
        set_remove(&set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_and_its_plans_wait),
        cmocka_unit_test(a_step_waits),
        cmocka_unit_test(a_compute_waits),
        cmocka_unit_test(batches_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
