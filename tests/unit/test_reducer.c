/* The reduction of gradients in 16 bits: what is sent, how it is rounded and scaled, and that
 * values that are not finite stay so. Two ranks with the same gradients: a communicator that
 * doubles. What ranks have in common when a run continues: a communicator that fills. */
#include "tests/unit/train_helpers.h"

#include "train/net/average.h"
#include "train/step/reducer.h"

typedef struct wire {
    ff_comm base;
    uint64_t bytes; /* of reductions */
} wire;

static ff_status all_reduce(ff_comm *comm, ff_stream *stream, void *values, size_t count,
                            ff_dtype dtype, ff_error *why) {
    float *wide = floats(count);
    (void)stream, (void)why;
    ((wire *)comm)->bytes += count * ff_dtype_bytes(dtype);
    ff_convert(wide, FF_F32, values, dtype, count);
    for (size_t i = 0; i < count; i++) wide[i] += wide[i];
    ff_convert(values, dtype, wide, FF_F32, count);
    free(wide);
    return FF_OK;
}

static ff_status all_gather(ff_comm *comm, ff_stream *stream, const void *from, void *to,
                            uint64_t bytes, ff_error *why) {
    (void)stream, (void)why;
    for (int i = 0; i < comm->size; i++) memcpy((char *)to + (uint64_t)i * bytes, from, bytes);
    return FF_OK;
}

static ff_status check(ff_comm *comm, ff_error *why) {
    (void)comm, (void)why;
    return FF_OK;
}

static const ff_comm_table doubling = {
    .name = "doubling", .all_reduce = all_reduce, .all_gather = all_gather, .check = check};

enum { OF_RANK_0 = 0x5a };

static ff_status broadcast(ff_comm *comm, ff_stream *stream, void *memory, uint64_t bytes, int root,
                           ff_error *why) {
    (void)comm, (void)stream, (void)root, (void)why;
    memset(memory, OF_RANK_0, bytes);
    return FF_OK;
}

static const ff_comm_table filling = {.name = "filling", .broadcast = broadcast, .check = check};

static void build(ff_graph *g) {
    ff_node x = ff_graph_conv(g, 0, "a", 6, &(ff_conv_form){.kernel = 3, .pad = 1, .bias = true});
    x = ff_graph_relu(g, ff_graph_norm(g, x, "n"));
    ff_graph_finish(g, ff_graph_linear(g, ff_graph_flatten(g, x), "fc", 5));
}

/* Reduces sums[count] of a batch of `samples`; returns the bytes sent. */
static uint64_t reduce(ff_dtype dtype, int64_t samples, const float *sums, float *reduced) {
    net n;
    wire comm = {.base = {.table = &doubling, .size = 2}};
    ff_reducer *reducer;
    const ff_reducer_options how = {
        .ranks = 2, .comm = &comm.base, .bucket_bytes = 1000, .dtype = dtype, .samples = samples};
    open_net(&n, build, 3, 8, 8, 2, "reference", 2);
    assert_ok(ff_store_reserve_sums(&n.store, false, error));
    assert_ok(ff_reducer_create(&reducer, &n.store, &how, error));
    assert_true(ff_reducer_bucket_count(reducer) > 1);
    memcpy(n.store.sums, sums, n.store.trained_count * sizeof *sums);
    for (int i = 0; i < ff_reducer_bucket_count(reducer); i++)
        assert_ok(ff_reducer_bucket_done(reducer, n.plan, i, error));
    assert_ok(ff_reducer_outcome_done(reducer, error));
    assert_ok(ff_reducer_run(reducer, n.plan, error));
    ff_reducer_widen(reducer);
    memcpy(reduced, n.store.sums, n.store.trained_count * sizeof *sums);
    ff_reducer_destroy(&reducer);
    close_net(&n);
    return comm.bytes;
}

static size_t sums_of_net(void) {
    net n;
    open_net(&n, build, 3, 8, 8, 2, "reference", 1);
    const size_t count = n.store.trained_count;
    close_net(&n);
    return count;
}

/* Sums of some thousand samples, which f16 could not hold. */
static void half_the_bytes(void **state) {
    (void)state;
    dice d = {.seed = 5};
    const size_t count = sums_of_net();
    float *sums = random_floats(&d, count), *got = floats(count);
    for (size_t i = 0; i < count; i++) sums[i] *= 1e6f;
    const uint64_t whole = reduce(FF_F32, 4000, sums, got);
    for (size_t i = 0; i < count; i++) assert_true(got[i] == 2 * sums[i]);
    static const struct {
        ff_dtype dtype;
        double u; /* of one rounding; the doubled value is exact */
    } narrow[] = {{FF_F16, 0x1p-11}, {FF_BF16, 0x1p-8}};
    for (int k = 0; k < 2; k++) {
        size_t rounded = 0;
        assert_int_equal(reduce(narrow[k].dtype, 4000, sums, got) * 2, whole);
        for (size_t i = 0; i < count; i++) {
            const double want = 2 * (double)sums[i];
            /* 2^-25: half of f16's smallest, at 1 / 4096 of the value */
            assert_true(fabs((double)got[i] - want) <= narrow[k].u * fabs(want) + 0x1p-12);
            rounded += (double)got[i] != want;
        }
        assert_true(rounded > count / 2);
    }
    free(sums);
    free(got);
}

/* Also what is too large for f16. */
static void stays_not_finite(void **state) {
    (void)state;
    const size_t count = sums_of_net();
    float *sums = floats(count), *got = floats(count);
    const float bad[] = {NAN, INFINITY, -INFINITY, 1e6f * 128};
    for (size_t k = 0; k < 4; k++) sums[count / 4 * k] = bad[k];
    sums[1] = 6e4f * 32;
    for (int b = 0; b < 2; b++) {
        (void)reduce(b ? FF_BF16 : FF_F16, 100, sums, got);
        assert_true(isnan(got[0]));
        assert_true(got[count / 4] == INFINITY && got[count / 4 * 2] == -INFINITY);
        assert_true(isinf(got[count / 4 * 3]) == !b);
        assert_true(isfinite(got[1]));
    }
    free(sums);
    free(got);
}

/* Every block of state that an optimizer may have, too: one that is left out would differ between
 * the ranks without a word. */
static void all_state_is_rank_0s(void **state) {
    (void)state;
    net n;
    wire comm = {.base = {.table = &filling, .size = 2, .rank = 1}};
    ff_reducer *reducer;
    const ff_reducer_options how = {.ranks = 2, .comm = &comm.base, .dtype = FF_F32};
    open_net(&n, build, 3, 8, 8, 2, "reference", 2);
    assert_ok(ff_store_reserve_states(&n.store, FF_STATES, error));
    assert_ok(ff_average_reserve(&n.store, error));
    assert_ok(ff_store_reserve_sums(&n.store, false, error));
    assert_ok(ff_reducer_create(&reducer, &n.store, &how, error));
    assert_ok(ff_reducer_share_state(reducer, error));
    const size_t trained = n.store.trained_count * sizeof(float);
    const size_t buffers = n.store.buffer_count * sizeof(float);
    const struct {
        const void *memory;
        size_t bytes;
    } blocks[] = {{n.store.values, trained},
                  {n.store.average, trained},
                  {n.store.buffers, buffers},
                  {n.store.average_buffers, buffers},
                  {n.store.control, sizeof *n.store.control}};
    assert_true(trained && buffers);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        for (size_t k = 0; k < blocks[i].bytes; k++)
            assert_int_equal(((const uint8_t *)blocks[i].memory)[k], OF_RANK_0);
    for (int i = 0; i < FF_STATES; i++)
        for (size_t k = 0; k < trained; k++)
            assert_int_equal(((const uint8_t *)n.store.state[i])[k], OF_RANK_0);
    ff_reducer_destroy(&reducer);
    close_net(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_state_is_rank_0s),
        cmocka_unit_test(half_the_bytes),
        cmocka_unit_test(stays_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
