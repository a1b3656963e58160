/* A model planned for an absent device has the same memory and convolutions as on a present one,
 * and uses no device. */
#include "tests/cuda/unit/cuda_helpers.h"

#include "loader/device/absent.h"
#include "train/machine/planned_device.h"

static const char description[] =
    "{\"deviceName\": \"A Card\", \"totalGlobalMem\": 1000000000, \"multiProcessorCount\": 3}";

static ff_model_options options_of(const ff_model_device *device) {
    return (ff_model_options){.name = "smallnet",
                              .channels = 1,
                              .height = 12,
                              .width = 12,
                              .classes = 10,
                              .batch = 6,
                              .dropout = -1,
                              .device = device,
                              .precision = FF_PRECISION_F16};
}

static void a_planned_model_equals_the_real_one(void **state) {
    (void)state;
    machine m;
    ff_planned_device *planned;
    ff_model *here, *there;
    open_machine(&m, &ff_library_plain_pieces, 0, 1);
    const ff_model_device device = {
        .name = "host", .ops = &ff_cuda_compute_ops, .device = m.device, .cuda = &m.cuda};
    ff_model_options options = options_of(&device);
    assert_ok(ff_model_create(&here, &options, error));
    assert_ok(ff_planned_device_open_with(&planned, description, &ff_cuda_compute_ops,
                                          &ff_library_plain_pieces, error));
    options.device = ff_planned_device_model(planned);
    assert_string_equal(options.device->name, "A Card");
    assert_ok(ff_model_create(&there, &options, error));
    assert_ok(ff_model_check(there, error));

    uint64_t roles = 0, free_bytes, total;
    ff_device *absent = ff_planned_device_model(planned)->device;
    for (int role = 0; role < FF_ROLE_COUNT; role++) {
        assert_int_equal(ff_model_bytes(here, (ff_role)role), ff_model_bytes(there, (ff_role)role));
        roles += ff_model_bytes(there, (ff_role)role);
    }
    assert_ok(absent->table->memory(absent, &free_bytes, &total, error));
    assert_int_equal(total, 1000000000);
    assert_true(total - free_bytes >= roles && free_bytes > 0);
    assert_int_equal(ff_device_absent_most(absent).device, total - free_bytes);

    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    ff_planned_device_print(out, planned);
    fclose(out);
    assert_non_null(strstr(text, "Convolutions on A Card"));
    assert_non_null(strstr(text, "  forward           6x12x12x8 "));
    assert_non_null(strstr(text, "backward weights  6x12x12x8 "));
    assert_null(strstr(text, "backward data     6x12x12x8 ")); /* images have no gradient */
    assert_non_null(strstr(text, "none: not fused"));
    free(text);

    ff_model_destroy(&there);
    ff_model_destroy(&here);
    assert_ok(absent->table->memory(absent, &free_bytes, &total, error));
    assert_int_equal(free_bytes, total);
    ff_planned_device_close(&planned);
    assert_null(planned);
    close_machine(&m);
}

/* Nothing is allocated, so nothing is refused: what would be needed is reported afterwards. */
static void what_does_not_fit_is_counted(void **state) {
    (void)state;
    ff_planned_device *planned;
    ff_model *model;
    ff_device *device;
    uint64_t free_bytes, total;
    void *memory[3];
    assert_ok(ff_planned_device_open_with(
        &planned,
        "{\"deviceName\": \"Small\", \"totalGlobalMem\": 100000, \"multiProcessorCount\": 1}",
        &ff_cuda_compute_ops, &ff_library_plain, error));
    ff_model_options options = options_of(ff_planned_device_model(planned));
    assert_ok(ff_model_create(&model, &options, error));
    device = options.device->device;
    assert_ok(device->table->memory(device, &free_bytes, &total, error));
    assert_int_equal(total, 100000);
    assert_int_equal(free_bytes, 0);
    assert_true(ff_device_absent_most(device).device > 100000);
    ff_model_destroy(&model);
    ff_planned_device_close(&planned);

    assert_ok(ff_device_absent_create(&device, 1000, true, error));
    const ff_device_table *table = device->table;
    assert_true(ff_device_is_absent(device) && table->unified);
    assert_ok(table->allocate(device, &memory[0], 600, "a", error));
    assert_ok(table->allocate(device, &memory[1], 1, "b", error));
    assert_true(memory[0] != memory[1]);
    table->release(device, memory[0]);
    table->release(device, NULL);
    assert_ok(table->allocate(device, &memory[0], UINT64_C(1) << 44, "more than there is", error));
    table->release(device, memory[0]);
    assert_ok(table->allocate(device, &memory[0], 399, "c", error));
    assert_ok(table->memory(device, &free_bytes, &total, error));
    assert_int_equal(free_bytes, 600);
    assert_int_equal(ff_device_absent_most(device).device, (UINT64_C(1) << 44) + 1);
    assert_ok(table->allocate_pinned(device, &memory[2], 500, "d", error));
    table->release_pinned(device, memory[2]);
    assert_ok(table->allocate_pinned(device, &memory[2], 300, "e", error));
    assert_int_equal(ff_device_absent_most(device).pinned, 500);
    ff_device_destroy(&device); /* with what is left */
}

static void broken_descriptions_are_refused(void **state) {
    (void)state;
    static const char *const broken[] = {
        "",
        "[",
        "[]",
        "{}",
        "{\"deviceName\": \"x\"}",
        "{\"deviceName\": 3, \"totalGlobalMem\": 1000000000, \"multiProcessorCount\": 3}",
        "{\"deviceName\": \"x\", \"totalGlobalMem\": -1, \"multiProcessorCount\": 3}",
        "{\"deviceName\": \"x\", \"totalGlobalMem\": 1000, \"multiProcessorCount\": 3000000000}"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        ff_planned_device *planned;
        ff_error error = {0};
        assert_int_equal(ff_planned_device_open_with(&planned, broken[i], &ff_cuda_compute_ops,
                                                     &ff_library_plain, &error),
                         FF_BAD_DATA);
        assert_null(planned);
    }
    ff_planned_device *planned;
    ff_error failure = {0};
    assert_int_equal(
        ff_planned_device_open(&planned, "/nowhere.json", &(ff_machine_options){0}, &failure),
        FF_IO);
    assert_non_null(strstr(failure.message, "/nowhere.json"));
}

/* ---- what the library is asked for ---- */

static struct {
    const char *model; /* NULL = ResNet-18 */
    ff_library_options options;
    int folded, blocks[9]; /* how often with a norm in it; by the images' channels */
    int told, told_folded, settled;
} asked;
static ff_status asked_open(ff_library **library, const ff_library_options *options,
                            ff_error *error) {
    asked.options = *options;
    return ff_library_plain.open(library, options, error);
}
static bool folds(const ff_library_conv_spec *spec) {
    return spec->prologue || spec->epilogue == FF_EPILOGUE_RELU_NORM_BACKWARD;
}
static ff_status asked_create(ff_library *library, const ff_library_conv_spec *spec,
                              ff_library_conv **conv, ff_error *error) {
    asked.folded += folds(spec);
    if (spec->c <= 8) asked.blocks[spec->c]++;
    return ff_library_plain.conv_create(library, spec, conv, error);
}
static void asked_settle(ff_library *library) {
    (void)library;
    asked.settled++;
}
static void take_told(void *context, const ff_library_conv_spec *spec,
                      const ff_library_conv *conv) {
    (void)context;
    (void)conv;
    asked.told++;
    asked.told_folded += folds(spec) || spec->c == 3 || spec->c == 4;
}

/* A net on a device that is described (NULL: on the host's). */
static void ask(const char *json, const char *cache, double seconds, bool deterministic,
                bool no_fold) {
    ff_library_table library = ff_library_plain;
    machine m;
    ff_device *absent;
    ff_model *model;
    library.open = asked_open;
    library.conv_create = asked_create;
    library.settle = asked_settle;
    const char *name = asked.model ? asked.model : "resnet18";
    memset(&asked, 0, sizeof asked);
    open_machine(&m, &library, 0, 1);
    assert_ok(ff_device_absent_create(&absent, UINT64_C(1) << 40, false, error));
    m.cuda.device_json = json;
    m.cuda.cache_folder = cache;
    m.cuda.timing_seconds = seconds;
    m.cuda.no_fold = no_fold;
    m.cuda.planned = json ? take_told : NULL;
    const ff_model_device device = {.name = "x",
                                    .ops = &ff_cuda_compute_ops,
                                    .device = json ? absent : m.device,
                                    .cuda = &m.cuda};
    ff_model_options options = options_of(&device);
    options.name = name;
    options.channels = 3;
    options.deterministic = deterministic;
    assert_ok(ff_model_create(&model, &options, error));
    assert_int_equal(asked.settled, 1); /* a plan was made */
    ff_model_destroy(&model);
    ff_device_destroy(&absent);
    close_machine(&m);
}

/* With a folder to take along, the engines that a GPU would time are compiled into it, outside the
 * plan. */
static void a_gpus_engines_are_compiled_in_advance(void **state) {
    (void)state;
    ask(description, "folder", -1, false, false);
    assert_true(asked.options.compile_ahead && asked.options.timing_seconds == 0);
    assert_true(asked.folded >= 4 * 3 && asked.told > 40);
    assert_true(asked.blocks[3] >= 3 && asked.blocks[4] >= 3 && asked.blocks[8] >= 3);
    assert_int_equal(asked.told_folded, 0);
    ask(description, "folder", -1, false, true);
    assert_true(asked.options.compile_ahead && asked.folded == 0 && asked.blocks[4] >= 3);
    const struct {
        const char *cache;
        double seconds;
        bool deterministic;
    } none[] = {{NULL, -1, false}, {"folder", 0, false}, {"folder", -1, true}};
    for (int i = 0; i < 3; i++) {
        ask(description, none[i].cache, none[i].seconds, none[i].deterministic, false);
        assert_true(!asked.options.compile_ahead && asked.folded == 0 && asked.told > 40);
        assert_int_equal(asked.blocks[3] + asked.blocks[4], 0);
    }
}

/* ResNet-18 has 20 convolutions, 11 of them different. */
static void time_is_by_the_convolutions(void **state) {
    (void)state;
    ask(NULL, NULL, -1, false, true);
    const int apart = asked.options.expected_convs;
    assert_int_equal(apart, 11 * 5 + 6);
    assert_true(fabs(asked.options.timing_seconds - 0.35 * apart) < 1e-6);
    assert_true(asked.options.compile_seconds == 3 * asked.options.timing_seconds);
    assert_true(asked.folded == 0);
    ask(NULL, NULL, -1, false, false);
    assert_int_equal(asked.options.expected_convs, apart + 3 * 4);
    assert_true(asked.options.timing_seconds > 0.35 * apart && asked.folded >= 3 * 4);
    ask(NULL, NULL, 7, false, false);
    assert_true(asked.options.timing_seconds == 7 && asked.options.compile_seconds == 21);
    ask(NULL, NULL, 0, false, false);
    assert_true(asked.options.timing_seconds == 0 && asked.folded == 0);
    ask(NULL, NULL, 7, true, false);
    assert_true(asked.options.timing_seconds == 0 && asked.folded == 0);
    /* besides its depthwise ones MobileNetV2 has 20 different convolutions, none after a ReLU */
    asked.model = "mobilenet_v2";
    ask(NULL, NULL, -1, false, false);
    assert_int_equal(asked.options.expected_convs, 20 * 5 + 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_planned_model_equals_the_real_one),
        cmocka_unit_test(what_does_not_fit_is_counted),
        cmocka_unit_test(broken_descriptions_are_refused),
        cmocka_unit_test(a_gpus_engines_are_compiled_in_advance),
        cmocka_unit_test(time_is_by_the_convolutions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
