/* The planner (train/compute/cuda/planner.h) with the test's own engines in place of cuDNN's, on
 * the host device's streams: with a "GPU", whose handle is not NULL, and without one. The clock is
 * the test's own too: compiling and running move it by what the test says, and nothing else does.
 */
#include "tests/unit/train_helpers.h"

#include "tests/cuda/sim/device.h"
#include "train/compute/cuda/cudnn/run.h"
#include "train/compute/cuda/planner.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

/* ---- the clock ---- */

static _Atomic int64_t clock_us;

/* In place of the C library's. */
int clock_gettime(clockid_t id, struct timespec *t) {
    const int64_t us = clock_us;
    (void)id;
    *t = (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    return 0;
}

/* ---- cuDNN ---- */

typedef struct engine {
    int64_t engine;
    const char *name, *fails;
    bool tensor_cores, compiled;
    int compile_ms, run_us;
    int compilations; /* in this process */
} engine;

static engine *engines;
static int engine_count, loads;
static bool loads_fail; /* as for a GPU that was described wrongly */
static int handle;      /* its address is the GPU's handle */

size_t ff_cudnn_version(void) {
    return 91900;
}
static void be(ff_cudnn_device *device, void *of) {
    *device = (ff_cudnn_device){.handle = of, .name = "NVIDIA H200", .major = 9};
}
ff_status ff_cudnn_device_open(ff_cudnn_device *device, void *of, ff_error *error) {
    (void)error;
    be(device, of);
    return FF_OK;
}
ff_status ff_cudnn_device_describe(ff_cudnn_device *device, const char *json, ff_error *error) {
    (void)json;
    (void)error;
    be(device, NULL);
    return FF_OK;
}
void ff_cudnn_device_close(ff_cudnn_device *device) {
    *device = (ff_cudnn_device){0};
}
ff_status ff_cudnn_graph_create(ff_cudnn_graph *graph, void *of, const ff_library_conv_spec *spec,
                                ff_error *error) {
    (void)of;
    (void)spec;
    (void)error;
    *graph = (ff_cudnn_graph){0};
    return FF_OK;
}
void ff_cudnn_graph_destroy(ff_cudnn_graph *graph) {
    (void)graph;
}
ff_status ff_cudnn_candidates_find(ff_cudnn_candidates *found, const ff_cudnn_device *device,
                                   const ff_cudnn_graph *graph, ff_precision precision,
                                   bool deterministic, ff_error *error) {
    (void)device;
    (void)graph;
    (void)precision;
    (void)deterministic;
    *found = (ff_cudnn_candidates){.count = engine_count, .engines = engine_count};
    FF_TRY(
        ff_alloc(&found->list, (uint64_t)engine_count + 1, sizeof *found->list, "engines", error));
    for (int i = 0; i < engine_count; i++) {
        ff_cudnn_candidate *c = &found->list[i];
        *c = (ff_cudnn_candidate){.config = &engines[i],
                                  .engine = engines[i].engine,
                                  .tensor_cores = engines[i].tensor_cores,
                                  .runtime_compiled = engines[i].compiled};
        snprintf(c->name, sizeof c->name, "%s", engines[i].name);
    }
    return FF_OK;
}
void ff_cudnn_candidates_release(ff_cudnn_candidates *found) {
    free(found->list);
    *found = (ff_cudnn_candidates){0};
}
ff_status ff_cudnn_plan_create(ff_cudnn_plan *plan, const ff_cudnn_device *device,
                               const ff_cudnn_candidate *candidate, ff_error *error) {
    engine *e = candidate->config;
    (void)device;
    *plan = (ff_cudnn_plan){0};
    if (e->compiled) {
        clock_us += 1000 * e->compile_ms;
        e->compilations++;
    }
    if (e->fails) return ff_fail(error, FF_FAILED, "%s", e->fails);
    *plan = (ff_cudnn_plan){.plan = e, .workspace_bytes = 256};
    return FF_OK;
}
ff_status ff_cudnn_plan_json(const ff_cudnn_plan *plan, char **json, ff_error *error) {
    return ff_copy_string(json, ((const engine *)plan->plan)->name, error);
}
ff_status ff_cudnn_plan_load(ff_cudnn_plan *plan, const ff_cudnn_device *device, const char *json,
                             ff_error *error) {
    (void)device;
    *plan = (ff_cudnn_plan){0};
    loads++;
    for (int i = 0; i < engine_count; i++)
        if (strcmp(engines[i].name, json) == 0 && !loads_fail) {
            *plan = (ff_cudnn_plan){.plan = &engines[i], .workspace_bytes = 256};
            return FF_OK;
        }
    return ff_fail(error, FF_FAILED, "no such plan");
}
void ff_cudnn_plan_destroy(ff_cudnn_plan *plan) {
    *plan = (ff_cudnn_plan){0};
}
static void work(void *context) {
    clock_us += ((const engine *)context)->run_us;
}
ff_status ff_cudnn_run_enqueue(ff_cudnn_run *run, void *of, const ff_cudnn_graph *graph,
                               const ff_cudnn_plan *plan, void *stream,
                               const ff_library_conv_arguments *arguments, void *workspace,
                               ff_error *error) {
    (void)run;
    (void)graph;
    (void)arguments;
    assert_true(of == &handle && workspace);
    if (ff_device_sim_enqueue(stream, work, plan->plan, NULL))
        return ff_fail(error, FF_FAILED, "not taken");
    return FF_OK;
}
void ff_cudnn_run_release(ff_cudnn_run *run) {
    *run = (ff_cudnn_run){0};
}

/* ---- a planner ---- */

typedef struct bench {
    ff_device *device;
    ff_cudnn_planner planner;
    ff_library_tuning tuning;
    int notes, progress;
    char note[1024];
} bench;

static void keep_note(void *context, const char *line) {
    bench *b = context;
    b->notes++;
    snprintf(b->note, sizeof b->note, "%s", line);
}
static void keep_progress(void *context, const ff_library_tuning *tuning) {
    bench *b = context;
    assert_true(tuning == &b->tuning);
    b->progress++;
}

static void open_bench(bench *b, bool card, ff_library_options options) {
    *b = (bench){0};
    loads = 0;
    for (int i = 0; i < engine_count; i++) engines[i].compilations = 0;
    assert_ok(ff_device_sim_create(&b->device, FF_HOST_STREAMS_THREADS, 0, 1, error));
    options.device = card ? b->device : NULL;
    options.device_json = card ? NULL : "a card";
    options.note = keep_note;
    options.progress = keep_progress;
    options.note_context = b;
    options.tuning = &b->tuning;
    assert_ok(ff_cudnn_planner_open(&b->planner, &options, card ? &handle : NULL, 13000, error));
}
static void close_bench(bench *b) {
    ff_cudnn_planner_close(&b->planner);
    ff_device_destroy(&b->device);
}

/* The engine that is chosen for the nth convolution; NULL = none. */
static const ff_cudnn_planned *plan(bench *b, int n, ff_precision precision) {
    const ff_library_conv_spec spec = {.pass = FF_PASS_FORWARD,
                                       .precision = precision,
                                       .n = n,
                                       .h = 4,
                                       .w = 4,
                                       .c = 8,
                                       .k = 8,
                                       .kernel = 3,
                                       .groups = 1,
                                       .stride = 1,
                                       .pad = 1};
    const ff_cudnn_planned *planned;
    assert_ok(ff_cudnn_planner_find(&b->planner, &spec, &planned, error));
    return planned;
}
static void takes(bench *b, int n, const char *name, bool timed) {
    const ff_cudnn_planned *planned = plan(b, n, FF_PRECISION_F16);
    assert_non_null(planned->plan.plan);
    assert_string_equal(planned->engine.name, name);
    assert_int_equal(planned->engine.timed, timed);
    assert_int_equal(planned->engine.ns > 0, timed);
}

static char folder[] = "/tmp/ffpack-planner-XXXXXX";
static void empty_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* A folder that was filled without a GPU: with the GPU nothing is compiled, and all engines are
 * timed. */
static void a_filled_cache_saves_every_compilation(void **state) {
    (void)state;
    static engine some[] = {{.engine = 5, .name = "5", .tensor_cores = true, .run_us = 900},
                            {.engine = 7, .name = "7 24=1", .compiled = true, .run_us = 500},
                            {.engine = 8, .name = "8", .compiled = true, .run_us = 100},
                            {.engine = 9, .name = "9", .tensor_cores = true, .run_us = 700},
                            {.engine = 7, .name = "7 24=2", .compiled = true, .run_us = 400}};
    bench b;
    engines = some;
    engine_count = 5;
    empty_folder();
    for (int again = 0; again <= 1; again++) {
        open_bench(&b, false, (ff_library_options){.cache_folder = folder, .compile_ahead = true});
        takes(&b, 1, "5", false);
        takes(&b, 2, "5", false);
        assert_int_equal(b.tuning.compiled, again ? 0 : 4); /* 7 and 8, of both */
        assert_int_equal(some[1].compilations, again ? 0 : 2);
        assert_int_equal(some[4].compilations, 0); /* only the first knobs */
        assert_int_equal(b.tuning.cached, again ? 2 : 0);
        close_bench(&b);
    }
    /* Two engines are tried first, then the other knobs of the two best: one is compiled. */
    open_bench(&b, true,
               (ff_library_options){
                   .cache_folder = folder, .timing_seconds = 1e3, .compile_seconds = 1e3});
    engine_count = 4;
    takes(&b, 1, "8", true);
    assert_int_equal(b.tuning.compiled, 0);
    assert_int_equal(b.tuning.reused, 2);
    assert_int_equal(b.tuning.timed, 4);
    engine_count = 5;
    takes(&b, 2, "8", true);
    assert_int_equal(b.tuning.compiled, 1);
    assert_int_equal(some[1].compilations + some[2].compilations, 0);
    close_bench(&b);
    /* What it chose is read back without any timing. */
    open_bench(&b, true, (ff_library_options){.cache_folder = folder, .timing_seconds = 1e3});
    takes(&b, 1, "8", true);
    assert_int_equal(b.tuning.timed + b.tuning.compiled, 0);
    assert_int_equal(b.tuning.cached, 1);
    close_bench(&b);
    empty_folder();
}

static void without_ahead_only_the_choice_is_compiled(void **state) {
    (void)state;
    static engine some[] = {{.engine = 7, .name = "7", .compiled = true},
                            {.engine = 8, .name = "8", .compiled = true}};
    bench b;
    engines = some;
    engine_count = 2;
    empty_folder();
    open_bench(&b, false, (ff_library_options){.cache_folder = folder});
    takes(&b, 1, "7", false);
    assert_int_equal(b.tuning.compiled, 1);
    close_bench(&b);
    empty_folder();
}

/* Compiling does not use up the time for timing; it has its own bound; nothing is compiled
 * twice. */
static void compiling_has_its_own_budget(void **state) {
    (void)state;
    static engine some[] = {
        {.engine = 5, .name = "5", .run_us = 900},
        {.engine = 6, .name = "6", .compiled = true, .compile_ms = 450, .run_us = 500},
        {.engine = 7, .name = "7", .compiled = true, .compile_ms = 450, .run_us = 120},
        {.engine = 8, .name = "8", .compiled = true, .compile_ms = 450, .run_us = 1}};
    bench b;
    engines = some;
    engine_count = 4;
    /* A quarter of this is for the convolution: enough for all runs, but not for one
     * compilation. */
    open_bench(&b, true, (ff_library_options){.timing_seconds = 1.6, .compile_seconds = 1e3});
    b.planner.chooser.budget.expected = 1;
    takes(&b, 1, "8", true);
    assert_int_equal(b.tuning.timed, 4);
    assert_int_equal(b.tuning.compiled, 3);
    for (int i = 1; i < 4; i++) assert_int_equal(some[i].compilations, 1);
    assert_float_equal(b.tuning.compile_seconds, 3 * 0.45, 1e-9);
    assert_true(b.planner.chooser.budget.timing > 0);
    assert_true(b.tuning.timing_seconds < b.tuning.compile_seconds);
    close_bench(&b);
    /* A quarter of this is less than two compilations. */
    open_bench(&b, true, (ff_library_options){.timing_seconds = 1e3, .compile_seconds = 2.6});
    b.planner.chooser.budget.expected = 1;
    takes(&b, 1, "7", true);
    assert_int_equal(b.tuning.compiled, 2);
    close_bench(&b);
    open_bench(&b, true, (ff_library_options){.timing_seconds = 1e3});
    takes(&b, 1, "5", true);
    assert_int_equal(b.tuning.compiled, 0);
    close_bench(&b);
}

/* Plans that the GPU rejects are compiled again: outside the time for timing, with few lines about
 * them. */
static void what_cannot_be_loaded_is_compiled(void **state) {
    (void)state;
    static engine some[] = {
        {.engine = 5, .name = "5", .run_us = 900},
        {.engine = 6, .name = "6", .compiled = true, .run_us = 500, .compile_ms = 450},
        {.engine = 7, .name = "7", .compiled = true, .run_us = 1, .compile_ms = 450}};
    bench b;
    engines = some;
    engine_count = 3;
    empty_folder();
    open_bench(&b, false, (ff_library_options){.cache_folder = folder, .compile_ahead = true});
    for (int n = 1; n <= 3; n++) takes(&b, n, "5", false);
    assert_int_equal(b.tuning.compiled, 6);
    close_bench(&b);
    loads_fail = true;
    open_bench(&b, true,
               (ff_library_options){
                   .cache_folder = folder, .timing_seconds = 1.6, .compile_seconds = 1e3});
    b.planner.chooser.budget.expected = 1;
    takes(&b, 1, "7", true);
    assert_int_equal(b.tuning.timed, 3);
    assert_int_equal(b.tuning.compiled, 2);
    takes(&b, 2, "7", true);
    takes(&b, 3, "7", true);
    assert_int_equal(b.notes, 3);
    assert_non_null(strstr(b.note, "rebuilt"));
    loads_fail = false;
    close_bench(&b);
    empty_folder();
}

static void tensor_cores_come_first_untimed(void **state) {
    (void)state;
    static engine some[] = {{.engine = 1, .name = "1"},
                            {.engine = 2, .name = "2"},
                            {.engine = 3, .name = "3", .tensor_cores = true},
                            {.engine = 4, .name = "4", .tensor_cores = true}};
    bench b;
    engines = some;
    engine_count = 4;
    for (int card = 0; card <= 1; card++) {
        open_bench(&b, card, (ff_library_options){0});
        takes(&b, 1, "3", false);
        assert_string_equal(plan(&b, 1, FF_PRECISION_BF16)->engine.name, "3");
        assert_string_equal(plan(&b, 1, FF_PRECISION_TF32)->engine.name, "1");
        assert_string_equal(plan(&b, 1, FF_PRECISION_F32)->engine.name, "1");
        some[2].fails = some[3].fails = "CUDNN_STATUS_NOT_SUPPORTED_SHAPE";
        takes(&b, 2, "1", false);
        some[2].fails = some[3].fails = NULL;
        close_bench(&b);
    }
}

/* Each convolution counts once, however often it is asked for. */
static void repeats_take_no_share(void **state) {
    (void)state;
    static engine some[] = {{.engine = 1, .name = "1"}};
    bench b;
    engines = some;
    engine_count = 1;
    open_bench(&b, true, (ff_library_options){.timing_seconds = 1, .expected_convs = 20});
    for (int i = 0; i < 10; i++) takes(&b, 1 + i / 5, "1", true);
    assert_int_equal(b.planner.chooser.budget.asked, 2);
    assert_int_equal(b.tuning.convolutions, 2);
    assert_int_equal(b.tuning.timed, 2);
    assert_true(b.progress >= 2);
    close_bench(&b);
}

static void what_cannot_be_loaded_is_reported_once(void **state) {
    (void)state;
    static engine some[] = {
        {.engine = 1, .name = "1", .fails = "CUDNN_STATUS_NOT_SUPPORTED_SHAPE: no"},
        {.engine = 2,
         .name = "2",
         .compiled = true,
         .fails = "CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED: no builtins"},
        {.engine = 3, .name = "3", .fails = "CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE"},
        {.engine = 4, .name = "4"}};
    bench b;
    engines = some;
    engine_count = 4;
    for (int card = 0; card <= 1; card++) {
        open_bench(&b, card, (ff_library_options){.timing_seconds = 10, .compile_seconds = 10});
        takes(&b, 1, "4", card);
        takes(&b, 2, "4", card);
        assert_int_equal(b.tuning.failed, 4);
        assert_int_equal(b.notes, 1);
        assert_non_null(strstr(b.note, "forward f16 n1 h4"));
        assert_non_null(strstr(b.note, card ? "engine 3 cannot be built: "
                                            : "engine 2 cannot be built: CUDNN_STATUS_"
                                              "INTERNAL_ERROR_COMPILATION_FAILED: no builtins"));
        close_bench(&b);
    }
    /* Without a driver cuDNN offers no engines that it compiles at run time. */
    engine_count = 0;
    open_bench(&b, false, (ff_library_options){0});
    assert_null(plan(&b, 1, FF_PRECISION_F16)->plan.plan);
    assert_null(plan(&b, 2, FF_PRECISION_F16)->plan.plan);
    if (!dlopen("libcuda.so.1", RTLD_LAZY)) {
        assert_int_equal(b.notes, 1);
        assert_non_null(strstr(b.note, "without a driver (libcuda.so.1: cannot open"));
    }
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filled_cache_saves_every_compilation),
        cmocka_unit_test(without_ahead_only_the_choice_is_compiled),
        cmocka_unit_test(compiling_has_its_own_budget),
        cmocka_unit_test(what_cannot_be_loaded_is_compiled),
        cmocka_unit_test(tensor_cores_come_first_untimed),
        cmocka_unit_test(repeats_take_no_share),
        cmocka_unit_test(what_cannot_be_loaded_is_reported_once),
    };
    if (!mkdtemp(folder)) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    empty_folder();
    return failed;
}
