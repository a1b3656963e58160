/* The strict stand-in for CUDA's runtime: it accepts what is right, and names each mistake. This
 * file is compiled as kernels are for it, and calls CUDA directly. */
#include "tests/cuda/sim/device.h"
#include "tests/cuda/strict/strict.h"
#include "tests/unit/check.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 64, BYTES = COUNT * sizeof(float) };

/* One run of a case: two streams, two events, memory of each kind. */
typedef struct bench {
    cudaStream_t a, b;
    cudaEvent_t e, f;
    float *x, *y, *pinned;
} bench;

/* to[i] = from[i] + 1 for i < count. */
typedef struct job {
    float *to;
    const float *from;
    int count;
} job;

static void add_one(void *context) {
    const job *j = context;
    for (int i = 0; i < j->count; i++) j->to[i] = j->from[i] + 1;
}

static void launch(cudaStream_t stream, float *to, const float *from, int count) {
    job *j = malloc(sizeof *j);
    *j = (job){to, from, count};
    if (ff_device_sim_enqueue(stream, add_one, j, free)) free(j);
}
static void fill(cudaStream_t stream, float *to) {
    (void)cudaMemsetAsync(to, 0, BYTES, stream);
}
static void copy(cudaStream_t stream, void *to, const void *from) {
    (void)cudaMemcpyAsync(to, from, BYTES, cudaMemcpyDefault, stream);
}
static void follow(cudaStream_t stream, cudaEvent_t event, cudaStream_t before) {
    (void)cudaEventRecord(event, before);
    (void)cudaStreamWaitEvent(stream, event, 0);
}
static void begin(cudaStream_t stream) {
    (void)cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
}
/* Ends the capture and launches what it made, if it made something. */
static cudaGraphExec_t end(cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t made = NULL;
    if (cudaStreamEndCapture(stream, &graph) != cudaSuccess) return NULL;
    (void)cudaGraphInstantiate(&made, graph, 0);
    (void)cudaGraphDestroy(graph);
    (void)cudaGraphLaunch(made, stream);
    return made;
}
static void settle(bench *k) {
    (void)cudaStreamSynchronize(k->a);
    (void)cudaStreamSynchronize(k->b);
}

/* ---- what is right ---- */

static void ordered_streams(bench *k) {
    fill(k->a, k->x);
    follow(k->b, k->e, k->a);
    launch(k->b, k->y, k->x, COUNT);
    launch(k->a, k->x + COUNT / 2, k->x, 0);
    follow(k->a, k->f, k->b);
    fill(k->a, k->x);
    copy(k->a, k->pinned, k->y);
    (void)cudaEventRecord(k->e, k->a);
    (void)cudaEventSynchronize(k->e);
    assert_float_equal(k->pinned[COUNT - 1], 1, 0);
    k->pinned[0] = 3;
}
static void readers_at_once(bench *k) {
    fill(k->a, k->x);
    follow(k->b, k->e, k->a);
    copy(k->a, k->pinned, k->x);
    copy(k->b, k->y, k->x);
}
static void a_graph_of_branches(bench *k) {
    begin(k->a);
    fill(k->a, k->x);
    follow(k->b, k->e, k->a);
    launch(k->b, k->y, k->x, COUNT);
    fill(k->a, k->pinned);
    follow(k->a, k->f, k->b);
    launch(k->a, k->x, k->y, COUNT);
    (void)cudaEventRecordWithFlags(k->e, k->a, cudaEventRecordExternal);
    cudaGraphExec_t made = end(k->a);
    (void)cudaStreamWaitEvent(k->b, k->e, 0);
    copy(k->b, k->pinned, k->x);
    (void)cudaStreamSynchronize(k->b);
    assert_float_equal(k->pinned[0], 2, 0);
    (void)cudaStreamSynchronize(k->a);
    (void)cudaGraphExecDestroy(made);
}

/* ---- what is wrong ---- */

static void a_read_too_early(bench *k) {
    fill(k->a, k->x);
    launch(k->b, k->y, k->x, COUNT);
}
static void a_write_too_early(bench *k) {
    fill(k->a, k->x);
    follow(k->b, k->e, k->a);
    copy(k->a, k->y, k->x);
    fill(k->b, k->x);
}
static void an_event_before_the_work(bench *k) {
    (void)cudaEventRecord(k->e, k->a);
    fill(k->a, k->x);
    (void)cudaStreamWaitEvent(k->b, k->e, 0);
    fill(k->b, k->x);
}
static void one_of_two_readers(bench *k) {
    readers_at_once(k);
    (void)cudaStreamSynchronize(k->a);
    fill(k->a, k->x); /* what b reads */
}
static void a_read_of_the_host(bench *k) {
    fill(k->a, k->pinned);
    if (k->pinned[COUNT - 1] > 0) abort();
}
static void a_write_of_the_host(bench *k) {
    copy(k->a, k->x, k->pinned);
    memset(k->pinned + 1, 0, 8);
}
static void branches_that_race(bench *k) {
    begin(k->a);
    follow(k->b, k->e, k->a);
    fill(k->b, k->x);
    fill(k->a, k->x);
    follow(k->a, k->f, k->b);
    (void)end(k->a);
}
static void a_graph_beside_a_stream(bench *k) {
    begin(k->a);
    fill(k->a, k->x);
    (void)end(k->a);
    fill(k->b, k->x);
}
static void nobody_wrote(bench *k) {
    launch(k->a, k->y, k->x, COUNT);
}
static void nobody_wrote_what_is_copied(bench *k) {
    copy(k->a, k->y, k->x);
    launch(k->a, k->x, k->y, 1);
}
static void past_the_end(bench *k) {
    launch(k->a, k->y, k->pinned, COUNT + 1);
}
static float *elsewhere(void) {
    float *other;
    (void)cudaSetDevice(1);
    (void)cudaMalloc((void **)&other, BYTES);
    (void)cudaSetDevice(0);
    return other;
}
static void of_another_device(bench *k) {
    launch(k->a, elsewhere(), k->pinned, 1);
}
static void a_copy_to_another_device(bench *k) {
    copy(k->a, elsewhere(), k->pinned);
}
static void after_release(bench *k) {
    float *more;
    (void)cudaMalloc((void **)&more, BYTES);
    (void)cudaFree(more);
    launch(k->a, more, k->pinned, 1);
}
static void a_copy_past_the_end(bench *k) {
    copy(k->a, k->x + 1, k->pinned);
}
static void a_copy_of_pages(bench *k) {
    static float pages[COUNT];
    copy(k->a, k->x, pages);
}
static void released_in_use(bench *k) {
    fill(k->a, k->x);
    (void)cudaFree(k->x);
    (void)cudaMalloc((void **)&k->x, BYTES);
}
static void released_twice(bench *k) {
    (void)cudaFree(k->x);
    (void)cudaFree(k->x);
    (void)cudaMalloc((void **)&k->x, BYTES);
}
static void a_graph_in_use(bench *k) {
    begin(k->a);
    fill(k->a, k->x);
    (void)cudaGraphExecDestroy(end(k->a));
}
static void memory_in_a_capture(bench *k) {
    float *more;
    begin(k->a);
    (void)cudaMalloc((void **)&more, BYTES);
    (void)end(k->a);
}
static void a_wait_in_a_capture(bench *k) {
    begin(k->a);
    (void)cudaStreamSynchronize(k->a);
    (void)end(k->a);
}
static void an_event_outside(bench *k) {
    (void)cudaEventRecord(k->e, k->b);
    begin(k->a);
    (void)cudaStreamWaitEvent(k->a, k->e, 0);
    (void)end(k->a);
}
static void an_event_inside(bench *k) {
    begin(k->a);
    (void)cudaEventRecord(k->e, k->a);
    (void)end(k->a);
    (void)cudaEventSynchronize(k->e);
}
static void not_joined(bench *k) {
    begin(k->a);
    follow(k->b, k->e, k->a);
    fill(k->b, k->x);
    (void)end(k->a);
}
static void another_current_device(bench *k) {
    (void)cudaSetDevice(1);
    launch(k->a, k->y, k->pinned, COUNT);
    (void)cudaSetDevice(0);
}
static void call_cuda(void *context) {
    (void)context;
    (void)cudaGetDevice(&(int){0});
}
static void a_function_that_calls(bench *k) {
    (void)cudaLaunchHostFunc(k->a, call_cuda, NULL);
}
static void a_handle_that_is_gone(bench *k) {
    (void)cudaEventDestroy(k->e);
    (void)cudaEventRecord(k->e, k->a);
    (void)cudaEventCreateWithFlags(&k->e, cudaEventDisableTiming);
}

static const struct {
    const char *name;
    void (*run)(bench *k);
    const char *told; /* NULL: nothing */
} cases[] = {
    {"ordered streams", ordered_streams, NULL},
    {"readers at once", readers_at_once, NULL},
    {"a graph of branches", a_graph_of_branches, NULL},
    {"a read too early", a_read_too_early, "reads what another one writes"},
    {"a write too early", a_write_too_early, "writes what another one reads"},
    {"an event before the work", an_event_before_the_work, "writes what another one writes"},
    {"one of two readers", one_of_two_readers, "writes what another one reads"},
    {"a read of the host", a_read_of_the_host, "reads what another one writes"},
    {"a write of the host", a_write_of_the_host, "writes what another one reads"},
    {"branches that race", branches_that_race, "writes what another one writes"},
    {"a graph beside a stream", a_graph_beside_a_stream, "writes what another one writes"},
    {"nobody wrote", nobody_wrote, "nobody wrote it"},
    {"nobody wrote what is copied", nobody_wrote_what_is_copied, "nobody wrote it"},
    {"past the end", past_the_end, "is not, or no longer, allocated"},
    {"of another device", of_another_device, "is another device's"},
    {"a copy to another device", a_copy_to_another_device, "cudaMemcpyAsync is refused"},
    {"after release", after_release, "is not, or no longer, allocated"},
    {"a copy past the end", a_copy_past_the_end, "reach past the end of their allocation"},
    {"a copy of pages", a_copy_of_pages, "are neither pinned nor a device's"},
    {"released in use", released_in_use, "writes what another one writes"},
    {"released twice", released_twice, "that is not, or no longer, allocated"},
    {"a graph in use", a_graph_in_use, "a graph is destroyed"},
    {"memory in a capture", memory_in_a_capture, "cudaMalloc is refused"},
    {"a wait in a capture", a_wait_in_a_capture, "cudaStreamSynchronize is refused"},
    {"an event outside", an_event_outside, "cudaStreamWaitEvent is refused"},
    {"an event inside", an_event_inside, "cudaEventSynchronize is refused"},
    {"not joined", not_joined, "cudaStreamEndCapture is refused"},
    {"another current device", another_current_device, "another device is current"},
    {"a function that calls", a_function_that_calls, "cudaGetDevice in a host function"},
    {"a handle that is gone", a_handle_that_is_gone, "the handle is not, or no longer, there"},
};

static char sentence[STRICT_SENTENCE];

static void run_case(size_t number) {
    bench k;
    *sentence = 0;
    (void)cudaStreamCreateWithFlags(&k.a, cudaStreamNonBlocking);
    (void)cudaStreamCreateWithFlags(&k.b, cudaStreamNonBlocking);
    (void)cudaEventCreateWithFlags(&k.e, cudaEventDisableTiming);
    (void)cudaEventCreateWithFlags(&k.f, cudaEventDisableTiming);
    (void)cudaMalloc((void **)&k.x, BYTES);
    (void)cudaMalloc((void **)&k.y, BYTES);
    (void)cudaHostAlloc((void **)&k.pinned, BYTES, cudaHostAllocPortable);
    memset(k.pinned, 0, BYTES);
    cases[number].run(&k);
    char *told = strdup(sentence);
    settle(&k);
    (void)cudaFree(k.x);
    (void)cudaFree(k.y);
    (void)cudaFreeHost(k.pinned);
    (void)cudaEventDestroy(k.e);
    (void)cudaEventDestroy(k.f);
    (void)cudaStreamDestroy(k.a);
    (void)cudaStreamDestroy(k.b);
    const char *wanted = cases[number].told;
    if (wanted ? !strstr(told, wanted) : *sentence)
        fail_msg("%s: wanted '%s', got '%s'", cases[number].name, wanted ? wanted : "", sentence);
    free(told);
}

static void each_mistake_is_named(void **state) {
    (void)state;
    strict_kept = sentence;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_case(i);
    strict_kept = NULL;
}

/* Both places of a race are in its sentence: function, file and line. */
static void a_race_names_both_places(void **state) {
    (void)state;
    size_t number = 0;
    strict_kept = sentence;
    while (cases[number].run != a_write_too_early) number++;
    run_case(number);
    char *now = strstr(sentence, "this one: cudaMemsetAsync"),
         *then = strstr(sentence, "the other: cudaMemcpyAsync");
    assert_true(now && then && now < then);
    assert_true(strstr(now, "test_strict.c:") && strstr(then, "copy at "));
    strict_kept = NULL;
}

static void the_counts_are_those_of_the_calls(void **state) {
    cudaStream_t stream;
    float *x;
    (void)state;
    const strict_counts before = strict_counted();
    (void)cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    (void)cudaMalloc((void **)&x, BYTES);
    fill(stream, x);
    launch(stream, x, x, 2);
    begin(stream);
    launch(stream, x, x, 3);
    fill(stream, x);
    cudaGraphExec_t made = end(stream);
    (void)cudaGraphLaunch(made, stream);
    (void)cudaStreamSynchronize(stream);
    const strict_counts after = strict_counted();
    (void)cudaGraphExecDestroy(made);
    (void)cudaFree(x);
    (void)cudaStreamDestroy(stream);
    assert_int_equal(after.kernels - before.kernels, 1);
    assert_int_equal(after.graphs - before.graphs, 2);
    assert_int_equal(after.nodes - before.nodes, 4);
    assert_int_equal(after.copies - before.copies, 3);
    assert_int_equal(after.bytes - before.bytes, 3 * BYTES);
    assert_int_equal(after.waits - before.waits, 1);
    assert_int_equal(after.allocations - before.allocations, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_is_named),
        cmocka_unit_test(a_race_names_both_places),
        cmocka_unit_test(the_counts_are_those_of_the_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
