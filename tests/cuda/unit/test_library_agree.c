/* The comparison that is run on a GPU, tested here with agreeing libraries: the plain library on
 * the asynchronous host device; and libraries with one fault each are detected. */
#include "tests/unit/train_helpers.h"

#include "tests/cuda/sim/device.h"
#include "tests/cuda/sim/library_agree.h"
#include "tests/cuda/sim/library_plain.h"

enum { TRIALS = 40 };

static void agrees(const ff_library_table *table, uint64_t seed) {
    ff_agreement a = {.seed = seed};
    assert_ok(ff_device_sim_create(&a.device, FF_HOST_STREAMS_THREADS, 20000, 1, error));
    assert_ok(table->open(&a.library, &(ff_library_options){0}, error));
    for (int trial = 0; trial < TRIALS; trial++) {
        ff_precision precision = (ff_precision)(trial % FF_PRECISION_COUNT);
        assert_ok(ff_agree_conv(&a, (uint64_t)trial, precision, trial & 4, error));
        assert_ok(ff_agree_gemm(&a, (uint64_t)trial, precision, error));
    }
    assert_int_equal(a.agreed, 2 * TRIALS);
    assert_int_equal(a.missing, 0);
    ff_library_close(&a.library);
    ff_device_destroy(&a.device);
}

static void the_plain_library_agrees(void **state) {
    (void)state;
    agrees(&ff_library_plain, 3);
}

/* With seed 4 (trial 8, f16) and cuDNN's f16 engine in a trial on an H100, the two sums differ by
 * more than the tolerance. */
static void unrounded_sums_agree(void **state) {
    (void)state;
    agrees(&ff_library_plain_unrounded, 3);
    ff_agreement a = {.seed = 4};
    assert_ok(ff_device_sim_create(&a.device, FF_HOST_STREAMS_CALLER, 0, 1, error));
    assert_ok(ff_library_plain_unrounded.open(&a.library, &(ff_library_options){0}, error));
    assert_ok(ff_agree_conv(&a, 8, FF_PRECISION_F16, true, error));
    ff_library_close(&a.library);
    ff_device_destroy(&a.device);
}

/* ---- wrong libraries ---- */

typedef enum fault { NO_RUN, LAST_ELEMENT, SHIFTED, CHANGED_INPUT, PAST_THE_END, FAULTS } fault;

static fault at_hand;

static ff_status wrong_run(ff_library *library, ff_library_conv *conv, void *stream,
                           const ff_library_conv_arguments *arguments, void *workspace,
                           ff_error *error) {
    ff_library_conv_arguments other = *arguments;
    ff_library_conv_spec spec = conv->spec;
    size_t size = ff_dtype_bytes(ff_precision_dtype(spec.precision));
    char *out = spec.pass == FF_PASS_FORWARD         ? arguments->y
                : spec.pass == FF_PASS_BACKWARD_DATA ? arguments->x
                                                     : arguments->w;
    ff_library_conv_sizes bytes = ff_library_conv_bytes(&spec);
    size_t all = spec.pass == FF_PASS_FORWARD         ? bytes.y
                 : spec.pass == FF_PASS_BACKWARD_DATA ? bytes.x
                                                      : bytes.w;
    if (at_hand == NO_RUN) return FF_OK;
    if (at_hand == SHIFTED) other.w = (char *)other.w + size;
    FF_TRY(ff_library_plain.conv_run(library, conv, stream, &other, workspace, error));
    if (at_hand == LAST_ELEMENT) memset(out + all - size, 0x55, size);
    if (at_hand == CHANGED_INPUT)
        ((char *)(spec.pass == FF_PASS_FORWARD ? arguments->x : arguments->y))[0] +=
            1; /* runs twice */
    if (at_hand == PAST_THE_END) out[all] = 0;
    return FF_OK;
}

static void wrong_libraries_are_detected(void **state) {
    (void)state;
    ff_library_table table = ff_library_plain;
    ff_agreement a = {.seed = 4};
    table.conv_run = wrong_run;
    assert_ok(ff_device_sim_create(&a.device, FF_HOST_STREAMS_CALLER, 0, 1, error));
    assert_ok(ff_library_plain.open(&a.library, &(ff_library_options){0}, error));
    a.library->table = &table;
    for (int f = 0; f < FAULTS; f++)
        for (int trial = 0; trial < 8; trial++) {
            ff_error failure = {0};
            at_hand = (fault)f;
            ff_status status =
                ff_agree_conv(&a, (uint64_t)trial, (ff_precision)(trial % 4), false, &failure);
            if (status != FF_BAD_DATA) print_message("fault %d, trial %d\n", f, trial);
            assert_int_equal(status, FF_BAD_DATA);
            assert_true(failure.message[0]);
        }
    ff_library_close(&a.library);
    ff_device_destroy(&a.device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plain_library_agrees),
        cmocka_unit_test(unrounded_sums_agree),
        cmocka_unit_test(wrong_libraries_are_detected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
