/* The prediction of a step on N ranks, against cases counted by hand. */
#include "tests/unit/check.h"

#include "train/predict/predict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define assert_near(found, wanted)                                                                 \
    do {                                                                                           \
        const double found_ = (found), wanted_ = (wanted);                                         \
        if (fabs(found_ - wanted_) > 1e-9 * fabs(wanted_))                                         \
            fail_msg("%s: %.12g, not %.12g", #found, found_, wanted_);                             \
    } while (0)

static const ff_rank_change same = {1, 1, 1};

static void test_all_reduce(void **state) {
    (void)state;
    ff_net net = {.latency_s = 1e-5, .bytes_per_s = 1e9};
    assert_near(ff_net_all_reduce_s(&net, 4, 1e6), 6e-5 + 1.5e-3); /* ring */
    assert_near(ff_net_all_reduce_s(&net, 2, 1e6), 2e-5 + 1e-3);
    assert_near(ff_net_all_reduce_s(&net, 64, 1e3), 12e-5 + 2e-6); /* tree */
    assert_near(ff_net_all_reduce_s(&net, 5, 1e3), 6e-5 + 2e-6);
    assert_near(ff_net_all_reduce_s(&net, 64, 1e8), 126e-5 + 2.0 * 63 / 64 * 0.1);
    net.direct = true;
    assert_near(ff_net_all_reduce_s(&net, 64, 1e3), 2e-5 + 2.0 * 63 / 64 * 1e-6);
    assert_true(ff_net_all_reduce_s(&net, 1, 1e6) == 0);
    assert_true(ff_net_all_reduce_s(&net, 8, 0) == 0);
}

/* Two buckets of 5 ms each: between 2 ranks, 5 MB at 1 GB/s. */
static void test_steps(void **state) {
    (void)state;
    const ff_net net = {.bytes_per_s = 1e9};
    const ff_bucket_time buckets[] = {{4e-3, 5e6}, {10e-3, 5e6}};
    ff_rank_times times = {.before_s = 5e-3,
                           .backward_s = 10e-3,
                           .update_s = 1e-3,
                           .micro_batches = 1,
                           .buckets = buckets,
                           .bucket_count = 2};
    ff_prediction p = ff_predict(&times, &net, 2, same);
    assert_near(p.compute_s, 16e-3);
    assert_near(p.reduce_s, 10e-3);
    assert_near(p.exposed_s, 5e-3);
    assert_near(p.step_s, 21e-3);
    assert_near(p.efficiency, 16.0 / 21);
    p = ff_predict(&times, &net, 1, same);
    assert_near(p.step_s, 16e-3);
    /* Only the last of 3 micro-batches is overlapped. */
    times.micro_batches = 3;
    p = ff_predict(&times, &net, 2, same);
    assert_near(p.step_s, 3 * 15e-3 + 1e-3 + 5e-3);
    times.micro_batches = 1;
    /* One bucket waits for the whole pass; half the bytes; four times the samples. */
    p = ff_predict(&times, &net, 2, (ff_rank_change){1, 1, 2});
    assert_near(p.exposed_s, 10e-3);
    p = ff_predict(&times, &net, 2, (ff_rank_change){1, 0.5, 1});
    assert_near(p.exposed_s, 2.5e-3);
    p = ff_predict(&times, &net, 2, (ff_rank_change){4, 1, 1});
    assert_near(p.step_s, 4 * 15e-3 + 1e-3 + 5e-3);
    /* The second waits for the first: 4 + 20, then 20 more. */
    const ff_net slow = {.bytes_per_s = 0.25e9};
    p = ff_predict(&times, &slow, 2, same);
    assert_near(p.exposed_s, 34e-3);
}

static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void test_nets(void **state) {
    (void)state;
    ff_net net;
    char path[] = "/tmp/net-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    assert_ok(ff_net_open(&net, "25gbe", false, error));
    assert_string_equal(net.name, "25GbE");
    assert_near(net.bytes_per_s, 0.94 * 25e9 / 8);
    assert_fails(ff_net_open(&net, "30GbE", false, error), FF_IO,
                 "--net 30GbE: is not one of "
                 "1GbE, ");
    /* Among 4 ranks, exactly by the formula of direct exchange: 100 us a message, 1 GB/s. */
    put(path, "{\"communicator\": \"processes\", \"ranks\": 4, \"all_reduce\": ["
              "{\"bytes\": 4000, \"seconds\": 206e-6}, {\"bytes\": 4e6, \"seconds\": 6.2e-3},"
              "{\"bytes\": 4e7, \"seconds\": 60.2e-3}]}");
    assert_ok(ff_net_open(&net, path, false, error));
    assert_true(net.direct && net.ranks == 4 && net.count == 3);
    assert_near(net.latency_s, 1e-4);
    assert_near(net.bytes_per_s, 1e9);
    assert_near(ff_net_all_reduce_s(&net, 8, 4e6), 2e-4 + 1.75 * 4e-3);
    /* The measured times themselves, where they follow no formula; between sizes in between. */
    put(path, "{\"communicator\": \"nccl\", \"ranks\": 2, \"all_reduce\": ["
              "{\"bytes\": 1000, \"seconds\": 1e-4}, {\"bytes\": 1e5, \"seconds\": 1e-4},"
              "{\"bytes\": 1e7, \"seconds\": 9e-3}]}");
    assert_ok(ff_net_open(&net, path, true, error));
    assert_false(net.direct);
    assert_near(ff_net_all_reduce_s(&net, 2, 1000), 1e-4);
    assert_near(ff_net_all_reduce_s(&net, 2, 1e5), 1e-4);
    assert_near(ff_net_all_reduce_s(&net, 2, 1e7), 9e-3);
    const double between = ff_net_all_reduce_s(&net, 2, 1e6);
    assert_true(between > 1e-4 && between < 9e-3);
    put(path, "{\"communicator\": \"nccl\", \"ranks\": 1, \"all_reduce\": []}");
    assert_fails(ff_net_open(&net, path, false, error), FF_BAD_DATA, "is not a file of fftrain");
    put(path, "{\"communicator\": \"nccl\", \"ranks\": 2, \"all_reduce\": []}");
    assert_fails(ff_net_open(&net, path, false, error), FF_BAD_DATA, "not a list of 1 to 64 sizes");
    put(path, "{\"communicator\": \"nccl\", \"ranks\": 2, \"all_reduce\": ["
              "{\"bytes\": 8, \"seconds\": 1}, {\"bytes\": 8, \"seconds\": 1}]}");
    assert_fails(ff_net_open(&net, path, false, error), FF_BAD_DATA, "all_reduce[1]");
    put(path, "[");
    assert_fails(ff_net_open(&net, path, false, error), FF_BAD_DATA, "(line 1)");
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_reduce),
                                       cmocka_unit_test(test_steps), cmocka_unit_test(test_nets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
