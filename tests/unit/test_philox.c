/* Philox4x32-10 against Random123's known answers, and the documented golden values. */
#include "loader/sequence/philox.h"
#include "tests/unit/check.h"

static void expect(ff_random found, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    assert_int_equal(found.word[0], a);
    assert_int_equal(found.word[1], b);
    assert_int_equal(found.word[2], c);
    assert_int_equal(found.word[3], d);
}

static void known_answers(void **state) {
    (void)state;
    /* Random123, kat_vectors: philox4x32 10. */
    expect(ff_philox(0, 0, 0, 0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
    expect(ff_philox(~0u, ~0u, ~0u, ~0u, ~0u, ~0u), 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd);
    expect(ff_philox(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0),
           0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

static void golden_values(void **state) {
    (void)state;
    expect(ff_philox_draw(1, FF_DOMAIN_AUGMENT, 2, 3, 0), 0xb387ec09, 0x881ebe7d, 0xa5e32d36,
           0xc44c444e);
    expect(ff_philox_draw(UINT64_C(0x0123456789abcdef), FF_DOMAIN_DROPOUT, 7,
                          (UINT64_C(1) << 40) + 5, 9),
           0x97c4853f, 0xa401808c, 0x2e73d969, 0x7580d312);
}

static void ranges(void **state) {
    (void)state;
    assert_int_equal(ff_random_below(0, 7), 0);
    assert_int_equal(ff_random_below(~0u, 7), 6);
    assert_int_equal(ff_random_below(~0u, 1), 0);
    assert_true(ff_random_unit(0) == 0.0f);
    assert_true(ff_random_unit(~0u) == 1.0f - 0x1p-24f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(golden_values),
        cmocka_unit_test(ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
