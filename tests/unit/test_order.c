/* The epoch order: golden values, bijection, uniformity, inverse, and how well block order
 * mixes. */
#include "loader/sequence/order.h"
#include "tests/unit/check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static ff_order order_of(ff_order_kind kind, uint64_t count, uint64_t seed, uint32_t epoch,
                         uint64_t block, uint64_t group) {
    ff_order_spec spec = {
        .count = count, .seed = seed, .block = block, .group = group, .kind = kind};
    ff_order order;
    assert_ok(ff_order_check(&spec, error));
    ff_order_init(&order, &spec, epoch);
    return order;
}

static ff_order node_order(uint64_t count, uint32_t epoch, uint64_t block, uint64_t group,
                           uint64_t batch, uint32_t machines, bool pairs) {
    const ff_order_spec spec = {.count = count,
                                .seed = 42,
                                .block = block,
                                .group = group,
                                .batch = batch,
                                .machines = machines,
                                .pairs = pairs,
                                .kind = FF_ORDER_NODE_BLOCK};
    ff_order order;
    assert_ok(ff_order_check(&spec, error));
    ff_order_init(&order, &spec, epoch);
    return order;
}

static void expect(const ff_order *order, const uint64_t *wanted, uint64_t count) {
    for (uint64_t p = 0; p < count; p++) assert_int_equal(ff_order_at(order, p), wanted[p]);
}

static void golden_values(void **state) {
    (void)state;
    ff_order order = order_of(FF_ORDER_RANDOM, 10, 42, 0, 0, 0);
    expect(&order, (uint64_t[]){0, 8, 5, 7, 6, 9, 3, 2, 4, 1}, 10);
    order = order_of(FF_ORDER_RANDOM, 10, 42, 1, 0, 0);
    expect(&order, (uint64_t[]){5, 6, 9, 2, 8, 1, 0, 7, 4, 3}, 10);
    order = order_of(FF_ORDER_RANDOM, 50000, 42, 3, 0, 0);
    expect(&order, (uint64_t[]){30662, 12039, 5672, 48521, 10431}, 5);
    order = order_of(FF_ORDER_RANDOM, UINT64_C(1) << 40, 42, 0, 0, 0);
    expect(&order, (uint64_t[]){813458305091, 1925197998, 660804979975}, 3);
    order = order_of(FF_ORDER_BLOCK, 10, 42, 0, 4, 2);
    expect(&order, (uint64_t[]){7, 5, 4, 6, 3, 1, 2, 0, 9, 8}, 10);
    order = order_of(FF_ORDER_BLOCK, 50000, 42, 3, 64, 16);
    expect(&order, (uint64_t[]){48739, 16903, 18741, 48712, 39958}, 5);
    assert_int_equal(ff_order_at(&order, 49999), 3401);
    order = order_of(FF_ORDER_SEQUENTIAL, 10, 42, 1, 0, 0);
    expect(&order, (uint64_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 10);
    order = node_order(18, 0, 4, 2, 4, 2, false);
    expect(&order, (uint64_t[]){3, 1, 16, 15, 0, 2, 6, 14, 11, 9, 13, 17, 10, 8, 12, 7, 4, 5}, 18);
}

static void check_bijection(const ff_order *order) {
    uint64_t count = order->spec.count;
    uint8_t *seen = calloc(count, 1);
    assert_non_null(seen);
    for (uint64_t p = 0; p < count; p++) {
        uint64_t sample = ff_order_at(order, p);
        assert_true(sample < count && !seen[sample]);
        seen[sample] = 1;
    }
    free(seen);
}

static void every_sample_once(void **state) {
    (void)state;
    for (uint64_t n = 1; n <= 300; n++) {
        ff_order order = order_of(FF_ORDER_RANDOM, n, n * 31, (uint32_t)n, 0, 0);
        check_bijection(&order);
        for (uint64_t k = 1; k <= 9; k += 2) {
            order = order_of(FF_ORDER_BLOCK, n, n + k, 5, k, 1 + (n + k) % 7);
            check_bijection(&order);
        }
    }
    for (unsigned bits = 9; bits <= 17; bits++) {
        for (int off = -1; off <= 1; off++) {
            uint64_t n = (UINT64_C(1) << bits) + (uint64_t)off;
            ff_order order = order_of(FF_ORDER_RANDOM, n, bits, 1, 0, 0);
            check_bijection(&order);
            order = order_of(FF_ORDER_BLOCK, n, bits, 1, 61, 13);
            check_bijection(&order);
            order = order_of(FF_ORDER_BLOCK, n, bits, 1, n + 5, 1);
            check_bijection(&order);
        }
    }
}

static void inverse(void **state) {
    (void)state;
    const uint64_t sizes[] = {
        1, 2, 3, 5, 255, 257, 50000, (UINT64_C(1) << 33) - 9, UINT64_C(1) << 62};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ff_permutation permutation;
        ff_permutation_init(&permutation, sizes[i], 7, 1, 0);
        for (uint64_t k = 0; k < 200; k++) {
            uint64_t index = k * UINT64_C(0x9e3779b97f4a7c15) % sizes[i];
            uint64_t value = ff_permutation_at(&permutation, index, (uint32_t)k);
            assert_true(value < sizes[i]);
            assert_int_equal(ff_permutation_inverse(&permutation, value, (uint32_t)k), index);
        }
    }
}

/* Every permutation of a small set is about equally frequent: chi square against 5 standard
 * deviations. */
static void small_sets_uniform(void **state) {
    (void)state;
    for (uint64_t n = 2; n <= 6; n++) {
        unsigned permutations = 1, cells = 1;
        for (unsigned i = 2; i <= n; i++) permutations *= i;
        for (unsigned i = 0; i < n; i++) cells *= (unsigned)n;
        unsigned *count = calloc(cells, sizeof *count);
        assert_non_null(count);
        const unsigned each = 100;
        for (unsigned trial = 0; trial < permutations * each; trial++) {
            ff_order order = order_of(FF_ORDER_RANDOM, n, 1000 + trial, trial % 3, 0, 0);
            uint64_t cell = 0;
            for (uint64_t p = 0; p < n; p++) cell = cell * n + ff_order_at(&order, p);
            count[cell]++;
        }
        double chi = 0;
        unsigned used = 0;
        for (unsigned i = 0; i < cells; i++) {
            if (!count[i]) continue;
            used++;
            chi += ((double)count[i] - each) * ((double)count[i] - each) / each;
        }
        double freedom = permutations - 1;
        assert_int_equal(used, permutations);
        /* (chi - freedom)^2 < 25 * 2 * freedom, or below */
        assert_true(chi < freedom || (chi - freedom) * (chi - freedom) < 50 * freedom + 100);
        free(count);
    }
}

/* Positions and samples are uncorrelated: 16 x 16 cells of (position, sample) equally full, and
 * neighbours are far apart, over several epochs. */
static void large_sets_uniform(void **state) {
    (void)state;
    const uint64_t n = 50000;
    for (uint32_t epoch = 0; epoch < 4; epoch++) {
        ff_order order = order_of(FF_ORDER_RANDOM, n, 3, epoch, 0, 0);
        static unsigned cell[16][16];
        memset(cell, 0, sizeof cell);
        double distance = 0;
        uint64_t before = 0;
        for (uint64_t p = 0; p < n; p++) {
            uint64_t sample = ff_order_at(&order, p);
            cell[p * 16 / n][sample * 16 / n]++;
            distance += (double)(sample > before ? sample - before : before - sample);
            before = sample;
        }
        double chi = 0, each = (double)n / 256;
        for (int i = 0; i < 256; i++) {
            double off = cell[i / 16][i % 16] - each;
            chi += off * off / each;
        }
        /* 225 degrees of freedom: 225 +- 5 * 21. */
        assert_true(chi > 120 && chi < 330);
        /* The mean distance of two random samples is n / 3. */
        assert_true(distance / (double)n > 0.32 * (double)n &&
                    distance / (double)n < 0.347 * (double)n);
    }
}

/* The mean number of distinct classes in batches of 256 from class-sorted data. */
static double classes_of_batches(const ff_order *order, uint64_t a_class) {
    uint64_t batches = 0, distinct = 0;
    uint8_t seen[1000];
    for (uint64_t p = 0; p + 256 <= order->spec.count; p += 256 * 7, batches++) {
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < 256; i++) {
            uint64_t label = ff_order_at(order, p + i) / a_class;
            distinct += !seen[label];
            seen[label] = 1;
        }
    }
    return (double)distinct / (double)batches;
}

static void block_order_mixes_classes(void **state) {
    (void)state;
    /* ImageNet's shape at 224 px f16, and at 32 px u8; CIFAR-100's. */
    static const struct {
        uint64_t classes, a_class, sample_bytes;
    } sets[] = {{1000, 1281, 301056}, {1000, 1281, 3072}, {100, 500, 6144}};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        uint64_t count = sets[i].classes * sets[i].a_class;
        uint64_t block = ff_order_default_block(sets[i].sample_bytes);
        uint64_t group = ff_order_default_group(block * sets[i].sample_bytes, UINT64_MAX);
        ff_order random = order_of(FF_ORDER_RANDOM, count, 1, 0, 0, 0);
        ff_order blocks = order_of(FF_ORDER_BLOCK, count, 1, 0, block, group);
        double of_random = classes_of_batches(&random, sets[i].a_class);
        double of_blocks = classes_of_batches(&blocks, sets[i].a_class);
        assert_true(of_blocks >= 0.9 * of_random);
    }
}

/* The blocks of a set that memory cannot keep, for class-sorted data: a group has one of 43 samples
 * where the memory is a tenth of the set, of which reading ahead takes half for two groups. */
static void fitted_blocks_mix_classes(void **state) {
    (void)state;
    static const struct {
        uint64_t classes, a_class, sample_bytes;
        double share; /* of the classes that random order gives */
    } sets[] = {
        {100, 10000, 12288, 0.9}, /* 12.3 GB */
        {10, 5000, 3072, 0.9},    /* CIFAR-10's shape */
        {1000, 1281, 150528, 0.9} /* ImageNet's: at 224 px u8, f16, and at 64 px */,
        {1000, 1281, 301056, 0.9},
        {1000, 1281, 12288, 0.9},
    };
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        const uint64_t count = sets[i].classes * sets[i].a_class;
        uint64_t block, group;
        ff_order_fit(sets[i].sample_bytes, count / 43, &block, &group);
        assert_true(block * group <= count / 43);
        ff_order random = order_of(FF_ORDER_RANDOM, count, 1, 0, 0, 0);
        ff_order blocks = order_of(FF_ORDER_BLOCK, count, 1, 0, block, group);
        const double share = classes_of_batches(&blocks, sets[i].a_class) /
                             classes_of_batches(&random, sets[i].a_class);
        print_message("%d classes: %d blocks of %d: %.3f\n", (int)sets[i].classes, (int)group,
                      (int)block, share);
        if (share < sets[i].share)
            fail_msg("%d classes, %d blocks of %d: %.3f", (int)sets[i].classes, (int)group,
                     (int)block, share);
    }
}

/* Consecutive positions stay within the blocks of one group. */
static void block_order_is_local(void **state) {
    (void)state;
    const uint64_t n = 100000, block = 50, group = 20;
    ff_order order = order_of(FF_ORDER_BLOCK, n, 9, 2, block, group);
    for (uint64_t first = 0; first < n; first += block * group) {
        uint8_t touched[2000] = {0};
        uint64_t blocks = 0;
        for (uint64_t p = first; p < first + block * group; p++) {
            uint64_t at = ff_order_at(&order, p) / block;
            blocks += !touched[at];
            touched[at] = 1;
        }
        assert_int_equal(blocks, group);
    }
}

/* Each sample once; each block by one machine, except for those that M - 1 borders cut; the
 * machine of a row is that of its rank, by the shares of ranks. */
static void nodes_share_blocks(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 400; i++) {
        const bool pairs = i % 3 == 0;
        const uint64_t batch = 2 + i * 7 % 37, block = 1 + i % 9, group = 1 + i % 5;
        const uint64_t most = pairs ? batch / 2 : batch;
        const uint32_t machines = 1 + (uint32_t)(i % (most < 6 ? most : 6));
        const uint64_t count = 1 + i * 131 % 2000, blocks = (count - 1) / block + 1;
        const ff_order order = node_order(count, i % 4, block, group, batch, machines, pairs);
        uint64_t machines_of[2000] = {0}, readers = 0;
        check_bijection(&order);
        for (uint64_t p = 0; p < count; p++) {
            const uint64_t row = p % batch;
            uint64_t machine = 0; /* ff_loader_share, as loader/host/options.c has it */
            while (machine + 1 < machines &&
                   (batch * (machine + 1) / machines & ~(pairs ? UINT64_C(1) : 0)) <= row)
                machine++;
            assert_int_equal(ff_order_machine(&order.spec, p), machine);
            machines_of[ff_order_at(&order, p) / block] |= UINT64_C(1) << machine;
        }
        for (uint64_t b = 0; b < blocks; b++)
            readers += (uint64_t)__builtin_popcountll(machines_of[b]);
        assert_true(readers <= blocks + machines - 1);
    }
}

/* Another epoch gives a machine other blocks: of two machines, half of those that it had. */
static void nodes_change_blocks(void **state) {
    (void)state;
    const uint64_t count = 64000, block = 64;
    uint8_t had[2][1000] = {{0}};
    for (uint32_t epoch = 0; epoch < 2; epoch++) {
        const ff_order order = node_order(count, epoch, block, 8, 64, 2, false);
        for (uint64_t p = 0; p < count; p++)
            if (p % 64 < 32) had[epoch][ff_order_at(&order, p) / block] = 1;
    }
    int both = 0;
    for (int i = 0; i < 1000; i++) both += had[0][i] && had[1][i];
    assert_in_range(both, 210, 290);
}

/* What a machine's part costs in mixing, for class-sorted data: the classes in a batch of 256 of
 * ImageNet's shape are those of a batch in block order, whose group the machines have together; and
 * so is the distance of neighbours. */
static void nodes_mix_classes(void **state) {
    (void)state;
    const uint64_t count = 1281000, block = 27, a_class = 1281;
    const ff_order random = order_of(FF_ORDER_RANDOM, count, 1, 0, 0, 0);
    const double of_random = classes_of_batches(&random, a_class);
    for (uint32_t machines = 1; machines <= 16; machines *= 4)
        for (uint64_t group = 80; group <= 1280; group *= 4) {
            const ff_order blocks = order_of(FF_ORDER_BLOCK, count, 1, 0, block, group * machines);
            const ff_order nodes = node_order(count, 0, block, group, 256, machines, false);
            const double of_blocks = classes_of_batches(&blocks, a_class) / of_random;
            const double of_nodes = classes_of_batches(&nodes, a_class) / of_random;
            double distance = 0;
            for (uint64_t p = 1; p < count; p += 7) {
                const uint64_t a = ff_order_at(&nodes, p - 1), b = ff_order_at(&nodes, p);
                distance += (double)(a > b ? a - b : b - a) / (double)count * 7 / (double)count;
            }
            print_message("%u machines, %d blocks a group: %.3f of the classes of a random batch; "
                          "block order with groups of all machines: %.3f; distance of neighbours "
                          "%.3f of the set\n",
                          machines, (int)group, of_nodes, of_blocks, distance);
            assert_true(of_nodes > of_blocks - 0.03 && of_nodes < of_blocks + 0.03);
            assert_true(distance > 0.3 && distance < 0.36);
        }
}

/* A block is about 1 MiB: many small samples, or one large one. */
static void default_blocks(void **state) {
    (void)state;
    static const uint64_t wanted[][2] = {{0, 1 << 20},          {1, 1 << 20}, {3072, 341},
                                         {301056, 3},           {1 << 19, 2}, {(1 << 20) - 1, 1},
                                         {UINT64_C(1) << 40, 1}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        assert_int_equal(ff_order_default_block(wanted[i][0]), wanted[i][1]);
    /* A group is what fits, from 64 to 2048 blocks. */
    static const uint64_t groups[][3] = {{1 << 20, 0, 64},
                                         {1 << 20, 100u << 20, 100},
                                         {1 << 20, UINT64_C(2047) << 20, 2047},
                                         {1 << 20, UINT64_C(3) << 40, 2048},
                                         {0, UINT64_MAX, 2048}};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
        assert_int_equal(ff_order_default_group(groups[i][0], groups[i][1]), groups[i][2]);
}

/* As many blocks as mix well, then as large ones as a disk needs, then 64 of any size. */
static void blocks_that_fit(void **state) {
    (void)state;
    static const uint64_t wanted[][4] = {/* sample bytes, samples; block, group */
                                         {12288, 0, 1, 64},
                                         {12288, 63, 1, 64},
                                         {12288, 640, 10, 64},
                                         {12288, 26 * 64 - 1, 25, 66},
                                         {12288, 26 * 64, 26, 64},
                                         {12288, 26 * 1280, 26, 1280},
                                         {12288, 50 * 1280, 50, 1280},
                                         {12288, 85 * 1280, 85, 1280},
                                         {12288, 85 * 2000, 85, 2000},
                                         {12288, UINT64_MAX, 85, 2048},
                                         {150528, 64 * 2, 2, 64},
                                         {150528, 1280 * 27, 27, 1280},
                                         {150528, UINT64_MAX, 27, 2048},
                                         {64, UINT64_MAX, 16384, 2048},
                                         {UINT64_C(1) << 40, UINT64_MAX, 1, 2048},
                                         {0, UINT64_MAX, 1 << 20, 2048}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        uint64_t block, group;
        ff_order_fit(wanted[i][0], wanted[i][1], &block, &group);
        if (block != wanted[i][2] || group != wanted[i][3])
            fail_msg("case %d: %d blocks of %d", (int)i, (int)group, (int)block);
    }
}

static void names_and_checks(void **state) {
    (void)state;
    ff_error failure;
    assert_string_equal(ff_order_name(FF_ORDER_RANDOM), "random");
    assert_string_equal(ff_order_name(FF_ORDER_BLOCK), "block");
    assert_string_equal(ff_order_name(FF_ORDER_SEQUENTIAL), "sequential");
    assert_string_equal(ff_order_name(FF_ORDER_NODE_BLOCK), "node-block");
    ff_order_spec nodes = {
        .count = 9, .block = 2, .group = 2, .batch = 5, .machines = 5, .kind = FF_ORDER_NODE_BLOCK};
    assert_ok(ff_order_check(&nodes, error));
    nodes.machines = 6;
    assert_fails(ff_order_check(&nodes, error), FF_USAGE, "1 to 5 machines");
    nodes.machines = 3, nodes.pairs = 1;
    assert_fails(ff_order_check(&nodes, error), FF_USAGE, "1 to 2 machines");
    nodes.machines = 0;
    assert_fails(ff_order_check(&nodes, error), FF_USAGE, "not 0");
    ff_order_spec bad = {.count = 5, .kind = FF_ORDER_BLOCK, .block = 0, .group = 1};
    assert_int_equal(ff_order_check(&bad, &failure), FF_USAGE);
    bad.block = UINT64_C(1) << 61, bad.group = 4;
    assert_int_equal(ff_order_check(&bad, &failure), FF_USAGE);
    bad.block = UINT64_C(1) << 30, bad.group = UINT64_C(1) << 31;
    assert_ok(ff_order_check(&bad, error));
    bad.group++;
    assert_int_equal(ff_order_check(&bad, &failure), FF_USAGE);
    bad = (ff_order_spec){.count = 0, .kind = FF_ORDER_RANDOM};
    assert_int_equal(ff_order_check(&bad, &failure), FF_USAGE);
    bad.count = UINT64_C(1) << 62;
    assert_ok(ff_order_check(&bad, error));
    bad.count++;
    assert_int_equal(ff_order_check(&bad, &failure), FF_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_values),
        cmocka_unit_test(every_sample_once),
        cmocka_unit_test(inverse),
        cmocka_unit_test(small_sets_uniform),
        cmocka_unit_test(large_sets_uniform),
        cmocka_unit_test(block_order_mixes_classes),
        cmocka_unit_test(block_order_is_local),
        cmocka_unit_test(nodes_share_blocks),
        cmocka_unit_test(nodes_change_blocks),
        cmocka_unit_test(nodes_mix_classes),
        cmocka_unit_test(default_blocks),
        cmocka_unit_test(fitted_blocks_mix_classes),
        cmocka_unit_test(blocks_that_fit),
        cmocka_unit_test(names_and_checks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
