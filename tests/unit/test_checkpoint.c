/* Checkpoints: what is read is what was written, bit for bit, and what is damaged is refused. */
#include "tests/unit/train_helpers.h"

#include "format/base/file.h"
#include "format/base/path.h"
#include "format/base/read.h"
#include "train/checkpoint/every.h"
#include "train/checkpoint/keeper.h"
#include "train/checkpoint/run_folder.h"
#include "train/checkpoint/weights.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char place[64];

static int make_place(void **state) {
    (void)state;
    snprintf(place, sizeof place, "/tmp/ff-checkpoint-XXXXXX");
    return mkdtemp(place) ? 0 : -1;
}

static int remove_place(void **state) {
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", place);
    return system(command);
}

/* ---- the state of a run ---- */

static void states_are_read_as_written(void **state) {
    (void)state;
    const ff_run_state written = {
        .control = {.step = INT64_MAX,
                    .updates = 7,
                    .loss_scale = 0x1.fffffep127f,
                    .growth = 2,
                    .backoff = 0.5f,
                    .growth_interval = UINT32_MAX,
                    .good_steps = 3,
                    .non_finite = 1,
                    .skipped = 9},
        .forwards = -5,
        .epoch = {.loss_sum = 0.1 + 0.2,
                  .count = 12,
                  .correct = 11,
                  .skipped = 1,
                  .loss_scale = 65536,
                  .samples = 99,
                  .train_ns = 1,
                  .wait_ns = 2},
        .totals = {.steps = 10,
                   .samples = 20,
                   .skipped = 3,
                   .train_ns = 4,
                   .wait_ns = 5,
                   .val_ns = 6,
                   .last_val_ns = 7,
                   .val_step = 8,
                   .val = {.epoch = 8, .views = 2, .loss = NAN, .accuracy = 1.0 / 3},
                   .best = {.epoch = 9, .views = 6, .loss = 0x1p-1060, .accuracy = 2.0 / 3},
                   .best_by = 1,
                   .waited = 11},
    };
    ff_run_state read;
    ff_buffer text = {0};
    assert_ok(ff_run_state_write(&written, &text, error));
    assert_ok(ff_run_state_read(&read, text.bytes, error));
    assert_memory_equal(&written.control, &read.control, sizeof read.control);
    assert_int_equal(read.forwards, -5);
    assert_memory_equal(&written.epoch, &read.epoch, sizeof read.epoch);
    assert_memory_equal(&written.totals, &read.totals, sizeof read.totals);
    /* Older checkpoints do not have this one. */
    char *newer = strstr(text.bytes, "totals.waited");
    newer[0] = 'T';
    assert_ok(ff_run_state_read(&read, text.bytes, error));
    assert_int_equal(read.totals.waited, 0);
    newer[0] = 't';
    /* Each of the others is needed, and checked. */
    char *cut = strstr(text.bytes, "totals.best.loss");
    cut[0] = 'T';
    assert_fails(ff_run_state_read(&read, text.bytes, error), FF_BAD_DATA, "'totals.best.loss'");
    assert_fails(ff_run_state_read(&read, "[1]", error), FF_BAD_DATA, "not a JSON object");
    assert_fails(ff_run_state_read(&read, "{", error), FF_BAD_DATA, "not a JSON object");
    assert_fails(ff_run_state_read(&read, "{\"control.step\": -1}", error), FF_BAD_DATA,
                 "'control.step'");
    ff_buffer_free(&text);
}

static void intervals_are_parsed(void **state) {
    (void)state;
    static const struct {
        const char *text;
        ff_every_unit unit;
        double amount;
    } good[] = {
        {NULL, FF_EVERY_CHOSEN, 0},
        {"epoch", FF_EVERY_EPOCHS, 1},
        {"5 epochs", FF_EVERY_EPOCHS, 5},
        {"2", FF_EVERY_EPOCHS, 2},
        {"1000 steps", FF_EVERY_STEPS, 1000},
        {"1step", FF_EVERY_STEPS, 1},
        {"2.5 minutes", FF_EVERY_MINUTES, 2.5},
        {"minute", FF_EVERY_MINUTES, 1},
    };
    static const char *const bad[] = {"",        "0",          "-1 steps",    "1.5 steps",
                                      "2 hours", "nan epochs", "inf minutes", "3 epochsx",
                                      "1e300"};
    ff_every every;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(ff_every_parse(&every, good[i].text, error));
        assert_int_equal(every.unit, good[i].unit);
        assert_true(every.unit == FF_EVERY_CHOSEN || every.amount == good[i].amount);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(ff_every_parse(&every, bad[i], error), FF_USAGE, "--checkpoint-every: '");
}

/* The first epoch's end is saved, and so is each that takes long compared with a checkpoint; one
 * that is not, where the last is 30 s old. */
static void ends_of_epochs_are_worth_a_checkpoint(void **state) {
    (void)state;
    assert_true(ff_every_worthwhile(0.001, 0));
    assert_true(ff_every_worthwhile(10.1, 0.1));
    assert_false(ff_every_worthwhile(9.9, 0.1));
    assert_true(ff_every_worthwhile(30, 100));
    assert_false(ff_every_worthwhile(29, 100));
}

/* ---- a model's values ---- */

static ff_model *make_model(uint64_t seed, int classes) {
    const ff_model_options options = {.name = "smallnet",
                                      .channels = 3,
                                      .height = 16,
                                      .width = 16,
                                      .classes = classes,
                                      .batch = 4,
                                      .threads = 1,
                                      .seed = seed,
                                      .dropout = -1};
    ff_model *model;
    assert_ok(ff_model_create(&model, &options, error));
    return model;
}

/* Other numbers in every parameter, state and counter. */
static void fill(ff_model *model, uint64_t seed) {
    dice d = {.seed = seed};
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *p = ff_model_parameter(model, i);
        int64_t tracked = (int64_t)seed + i;
        if (p->dtype == FF_I64) {
            ff_model_set(model, i, FF_PART_VALUE, &tracked);
            continue;
        }
        for (int part = 0; part < 1 + p->trained; part++) {
            float *values = random_floats(&d, p->count);
            ff_model_set(model, i, part ? FF_PART_MOMENTUM : FF_PART_VALUE, values);
            free(values);
        }
    }
    ff_model_store(model)->forwards = (int64_t)seed * 3;
    ff_model_store(model)->control->step = seed;
}

static void assert_same_values(ff_model *a, ff_model *b, bool state) {
    for (int i = 0; i < ff_model_parameter_count(a); i++) {
        const ff_parameter *p = ff_model_parameter(a, i);
        const size_t bytes = p->count * ff_dtype_bytes(p->dtype);
        for (int part = 0; part < 1 + (p->trained && state); part++) {
            char *one = calloc(1, bytes), *other = calloc(1, bytes);
            ff_model_get(a, i, part ? FF_PART_MOMENTUM : FF_PART_VALUE, one);
            ff_model_get(b, i, part ? FF_PART_MOMENTUM : FF_PART_VALUE, other);
            assert_memory_equal(one, other, bytes);
            free(one);
            free(other);
        }
    }
}

static const ff_safetensors_fact weights_facts[] = {{"format", "pt"},
                                                    {FF_WEIGHTS_MODEL, "smallnet"},
                                                    {FF_WEIGHTS_MEAN, "0.5 0.25 0.125"},
                                                    {FF_WEIGHTS_STD, "1 1 2"}};
static const ff_safetensors_fact state_facts[] = {{FF_CHECKPOINT_RECIPE, "model = smallnet\n"},
                                                  {FF_CHECKPOINT_DATA, "abc"}};

static ff_capture *capture_of(ff_model *model) {
    ff_capture *capture;
    assert_ok(ff_capture_create(&capture, model, weights_facts, 4, state_facts, 2, error));
    return capture;
}

static void checkpoints_are_read_as_written(void **state) {
    (void)state;
    ff_model *model = make_model(1, 10), *other = make_model(2, 10);
    ff_capture *capture = capture_of(model);
    const ff_run_state run = {.totals = {.steps = 77}};
    ff_checkpoint *checkpoint;
    char path[96];
    fill(model, 41);
    assert_ok(ff_capture_take(capture, &run, error));
    assert_ok(ff_capture_write(capture, place, "step-77", error));
    snprintf(path, sizeof path, "%s/step-77", place);
    assert_ok(ff_checkpoint_open(&checkpoint, path, error));
    assert_string_equal(ff_checkpoint_text(checkpoint, FF_CHECKPOINT_RECIPE), "model = smallnet\n");
    assert_null(ff_checkpoint_text(checkpoint, "no such"));
    assert_int_equal(ff_checkpoint_state(checkpoint)->totals.steps, 77);
    assert_int_equal(ff_checkpoint_state(checkpoint)->forwards, 123);
    fill(other, 5);
    assert_ok(ff_checkpoint_load(checkpoint, other, error));
    assert_same_values(model, other, true);
    assert_int_equal(ff_model_store(other)->control->step, 41);
    assert_int_equal(ff_model_store(other)->forwards, 123);
    ff_checkpoint_close(&checkpoint);
    /* Written again, under the same name. */
    fill(model, 42);
    assert_ok(ff_capture_take(capture, &run, error));
    assert_ok(ff_capture_write(capture, place, "step-77", error));
    assert_ok(ff_checkpoint_open(&checkpoint, path, error));
    assert_ok(ff_checkpoint_load(checkpoint, other, error));
    assert_same_values(model, other, true);
    ff_checkpoint_close(&checkpoint);
    /* Another model's. */
    ff_model *classes = make_model(1, 7);
    assert_ok(ff_checkpoint_open(&checkpoint, path, error));
    assert_fails(ff_checkpoint_load(checkpoint, classes, error), FF_BAD_DATA,
                 "of this model's shape");
    ff_checkpoint_close(&checkpoint);
    ff_model_destroy(&classes);
    ff_capture_destroy(&capture);
    ff_model_destroy(&other);
    ff_model_destroy(&model);
}

/* Every file cut short, and bits of it flipped at many places. */
static void damaged_checkpoints_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {FF_WEIGHTS_FILE, FF_CHECKPOINT_STATE_FILE,
                                        FF_CHECKPOINT_SUMS_FILE};
    ff_model *model = make_model(1, 10);
    ff_capture *capture = capture_of(model);
    const ff_run_state run = {.totals = {.steps = 5}};
    ff_checkpoint *checkpoint;
    char folder[96], path[160];
    assert_ok(ff_capture_take(capture, &run, error));
    assert_ok(ff_capture_write(capture, place, "step-5", error));
    snprintf(folder, sizeof folder, "%s/step-5", place);
    for (int i = 0; i < 3; i++) {
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(stat(path, &info), 0);
        const int fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        for (int at = 0; at < 24; at++) {
            const off_t offset = info.st_size * at / 24;
            char byte, flipped;
            assert_int_equal(pread(fd, &byte, 1, offset), 1);
            flipped = (char)(byte ^ (1 << at % 8));
            assert_int_equal(pwrite(fd, &flipped, 1, offset), 1);
            assert_fails(ff_checkpoint_open(&checkpoint, folder, error), FF_BAD_DATA, "is damaged");
            assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
        }
        char last;
        assert_int_equal(pread(fd, &last, 1, info.st_size - 1), 1);
        assert_int_equal(ftruncate(fd, info.st_size - 1), 0);
        assert_fails(ff_checkpoint_open(&checkpoint, folder, error), FF_BAD_DATA, "is damaged");
        assert_int_equal(pwrite(fd, &last, 1, info.st_size - 1), 1);
        close(fd);
    }
    assert_ok(ff_checkpoint_open(&checkpoint, folder, error));
    ff_checkpoint_close(&checkpoint);
    assert_int_equal(unlink(path), 0);
    assert_fails(ff_checkpoint_open(&checkpoint, folder, error), FF_IO, FF_CHECKPOINT_SUMS_FILE);
    ff_capture_destroy(&capture);
    ff_model_destroy(&model);
}

static ff_run_state at_step(uint64_t step) {
    return (ff_run_state){.totals = {.steps = step}};
}

/* Just evaluated. */
static ff_run_state evaluated(uint64_t step, double accuracy) {
    ff_run_state run = at_step(step);
    run.totals.val_step = step;
    run.totals.val =
        (ff_evaluated){.epoch = (uint32_t)step, .views = 1, .loss = 1, .accuracy = accuracy};
    return run;
}

/* The newest, and the best; `newest` is found, also after damage. */
static void the_newest_and_the_best_stay(void **state) {
    (void)state;
    ff_model *model = make_model(1, 10);
    ff_keeper *keeper;
    ff_checkpoint *checkpoint;
    char folder[96], path[160], target[40] = {0}, *note;
    uint64_t *steps;
    size_t count;
    snprintf(folder, sizeof folder, "%s/kept", place);
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_ok(ff_keeper_newest(&checkpoint, folder, UINT64_MAX, &note, error));
    assert_null(checkpoint);
    ff_keeper_options options = {.directory = folder, .keep = 2, .views = 1};
    assert_ok(ff_keeper_create(&keeper, capture_of(model), &options, error));
    assert_ok(ff_keeper_begin(keeper, &note, error));
    for (uint64_t step = 9; step <= 12; step++) {
        const ff_run_state run = evaluated(step, step == 9 ? 0.5 : 0.4);
        assert_ok(ff_keeper_save(keeper, &run, error));
    }
    assert_ok(ff_keeper_finish(keeper, error));
    assert_null(ff_keeper_note(keeper));
    assert_ok(ff_checkpoint_steps(folder, &steps, &count, error));
    assert_int_equal(count, 3);
    assert_true(steps[0] == 12 && steps[1] == 11 && steps[2] == 9);
    free(steps);
    snprintf(path, sizeof path, "%s/best", folder);
    assert_int_equal(readlink(path, target, sizeof target - 1), 6);
    assert_string_equal(target, "step-9");
    /* Another process continues, and knows the best. */
    ff_keeper_destroy(&keeper);
    options.from = 12;
    assert_ok(ff_keeper_create(&keeper, capture_of(model), &options, error));
    assert_ok(ff_keeper_begin(keeper, &note, error));
    assert_null(note);
    assert_int_equal(ff_keeper_best(keeper).epoch, 9);
    for (uint64_t step = 13; step <= 15; step++) {
        const ff_run_state run = step == 13 ? at_step(13) : evaluated(step, step == 14 ? 0.6 : 0.4);
        assert_ok(ff_keeper_save(keeper, &run, error));
    }
    ff_keeper_destroy(&keeper);
    assert_ok(ff_checkpoint_steps(folder, &steps, &count, error));
    assert_true(count == 2 && steps[0] == 15 && steps[1] == 14);
    free(steps);
    /* The newest one is damaged. */
    snprintf(path, sizeof path, "%s/step-15/" FF_WEIGHTS_FILE, folder);
    assert_int_equal(truncate(path, 1000), 0);
    assert_ok(ff_keeper_newest(&checkpoint, folder, UINT64_MAX, &note, error));
    assert_int_equal(ff_checkpoint_state(checkpoint)->totals.steps, 14);
    assert_non_null(strstr(note, "step-15: is damaged"));
    assert_non_null(strstr(note, "; resuming from "));
    free(note);
    ff_checkpoint_close(&checkpoint);
    snprintf(path, sizeof path, "%s/step-14/" FF_CHECKPOINT_SUMS_FILE, folder);
    assert_int_equal(unlink(path), 0);
    assert_fails(ff_keeper_newest(&checkpoint, folder, UINT64_MAX, &note, error), FF_BAD_DATA,
                 "step-15: is damaged");
    ff_model_destroy(&model);
}

/* A folder that cannot be written: training would continue, and the note reports it once. */
static void a_failed_checkpoint_is_told(void **state) {
    (void)state;
    ff_model *model = make_model(1, 10);
    ff_keeper *keeper;
    char folder[96];
    const ff_run_state run = at_step(3);
    snprintf(folder, sizeof folder, "%s/not-there", place);
    const ff_keeper_options options = {.directory = folder, .keep = 1};
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_ok(ff_keeper_create(&keeper, capture_of(model), &options, error));
    assert_int_equal(rmdir(folder), 0);
    assert_ok(ff_keeper_save(keeper, &run, error));
    assert_fails(ff_keeper_finish(keeper, error), FF_IO, "not-there/step-3.partial: cannot create");
    assert_non_null(strstr(ff_keeper_note(keeper), "not-there/step-3.partial"));
    assert_null(ff_keeper_note(keeper));
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_ok(ff_keeper_save(keeper, &run, error));
    assert_ok(ff_keeper_finish(keeper, error));
    assert_null(ff_keeper_note(keeper));
    ff_keeper_destroy(&keeper);
    ff_model_destroy(&model);
}

/* ---- weights ---- */

static void weights_are_matched(void **state) {
    (void)state;
    ff_model *model = make_model(1, 10), *same = make_model(2, 10), *other = make_model(3, 7),
             *fresh = make_model(3, 7);
    ff_capture *capture = capture_of(model);
    const ff_run_state run = at_step(1);
    float mean[] = {0.5f, 0.25f, 0.125f}, std[] = {1, 1, 2};
    ff_metadata data = {.channels = 3, .statistics_count = 3, .mean = mean, .std = std};
    ff_weights *weights;
    char folder[96], file[160];
    ff_weights_options how = {.path = folder, .data = &data}, any = {.path = file};
    fill(model, 9);
    assert_ok(ff_capture_take(capture, &run, error));
    assert_ok(ff_capture_write(capture, place, "weights", error));
    snprintf(folder, sizeof folder, "%s/weights", place);
    snprintf(file, sizeof file, "%s/" FF_WEIGHTS_FILE, folder);
    assert_ok(ff_weights_open(&weights, &how, same, error));
    assert_ok(ff_weights_load(weights, error));
    assert_same_values(model, same, false);
    assert_non_null(strstr(ff_weights_text(weights), " tensors loaded"));
    assert_null(strstr(ff_weights_text(weights), "head"));
    ff_weights_close(&weights);
    /* Other classes: all but the head. */
    how.path = file;
    assert_ok(ff_weights_open(&weights, &how, other, error));
    assert_ok(ff_weights_load(weights, error));
    assert_non_null(strstr(ff_weights_text(weights), "the head keeps its initial values: "));
    const char *head = ff_model_head(other);
    for (int i = 0; i < ff_model_parameter_count(other); i++) {
        const ff_parameter *p = ff_model_parameter(other, i);
        const bool kept = !strncmp(p->name, head, strlen(head)) && p->name[strlen(head)] == '.';
        if (p->dtype != FF_F32) continue;
        float *found = floats(p->count), *wanted = floats(p->count);
        ff_model_get(other, i, FF_PART_VALUE, found);
        ff_model_get(kept ? fresh : model, i, FF_PART_VALUE, wanted);
        assert_memory_equal(found, wanted, p->count * sizeof *found);
        free(found);
        free(wanted);
    }
    ff_weights_close(&weights);
    /* Images normalized with other numbers. */
    mean[1] = 0.2500001f;
    assert_fails(ff_weights_open(&weights, &how, same, error), FF_BAD_DATA, "--any-normalization");
    assert_ok(ff_weights_open(&weights, &any, same, error));
    ff_weights_close(&weights);
    data.statistics_count = 0;
    assert_fails(ff_weights_open(&weights, &how, same, error), FF_BAD_DATA,
                 "the training set has mean 0 0 0, std 1 1 1");
    ff_capture_destroy(&capture);
    ff_model_destroy(&fresh);
    ff_model_destroy(&other);
    ff_model_destroy(&same);
    ff_model_destroy(&model);
}

static void write_file(const char *path, const char *header, const void *data, size_t bytes) {
    const uint64_t length = strlen(header);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(&length, 8, 1, file);
    fwrite(header, 1, length, file);
    fwrite(data, 1, bytes, file);
    fclose(file);
}

/* Each element type, read as f32. */
static void elements_are_converted(void **state) {
    (void)state;
    const uint16_t f16[] = {0x3c00, 0xc000}, bf16[] = {0x3f80, 0x4000};
    const double f64[] = {0.1, 1e300};
    char path[96], data[32];
    float values[2];
    ff_tensors *file;
    memcpy(data, f16, 4), memcpy(data + 4, bf16, 4), memcpy(data + 8, f64, 16);
    memset(data + 24, 1, 2);
    snprintf(path, sizeof path, "%s/types", place);
    write_file(path,
               "{\"h\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]},"
               "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[4,8]},"
               "\"d\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[8,24]},"
               "\"i\":{\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[24,26]}}",
               data, 26);
    assert_ok(ff_tensors_open(&file, path, false, error));
    static const float wanted[][2] = {{1, -2}, {1, 2}, {0.1f, INFINITY}};
    for (int i = 0; i < 3; i++) {
        assert_ok(ff_tensors_read_f32(file, ff_tensors_at(file, (size_t)i), values, error));
        assert_memory_equal(values, wanted[i], sizeof values);
    }
    assert_fails(ff_tensors_read_f32(file, ff_tensors_at(file, 3), values, error), FF_BAD_DATA,
                 "'i' is I8");
    assert_null(ff_tensors_at(file, 4));
    ff_tensors_close(&file);
}

/* Files that lie: each with the words of its message. */
static void lies_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *header, *says;
    } lies[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1152921504606846976,64],\"data_offsets\":[0,16]}}",
         "2^64 elements"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,16]}}",
         "another number of bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[0,16]}}", "whole numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,4],\"data_offsets\":[0,16]}}",
         "up to 8"},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[4],\"data_offsets\":[0,16]}}", "has a dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}}", "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[4,20]}}", "begins at byte 4"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[0,32]}}", "is it cut off?"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "belong to no tensor"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
         "begins at byte 8"},
        {"{\"a\":7}", "is not an object"},
        {"{\"a\":{},\"a\":{}}", "not a JSON object's"},
        {"[1]", "not a JSON object's"},
        {"{\"a\\u0007\":{}}", "control characters"},
        {"{\"__metadata__\":{\"a\":1}}", "is not an object of texts"},
    };
    const char data[16] = {0};
    char path[96];
    ff_safetensors *file;
    snprintf(path, sizeof path, "%s/lies", place);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        write_file(path, lies[i].header, data, sizeof data);
        assert_fails(ff_safetensors_open(&file, path, error), FF_BAD_DATA, lies[i].says);
        assert_null(file);
    }
    assert_int_equal(truncate(path, 7), 0);
    assert_fails(ff_safetensors_open(&file, path, error), FF_BAD_DATA, "too few");
    assert_int_equal(truncate(path, 12), 0);
    assert_fails(ff_safetensors_open(&file, path, error), FF_BAD_DATA, "cut off");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_read_as_written),
        cmocka_unit_test(intervals_are_parsed),
        cmocka_unit_test(ends_of_epochs_are_worth_a_checkpoint),
        cmocka_unit_test(checkpoints_are_read_as_written),
        cmocka_unit_test(damaged_checkpoints_are_refused),
        cmocka_unit_test(the_newest_and_the_best_stay),
        cmocka_unit_test(a_failed_checkpoint_is_told),
        cmocka_unit_test(weights_are_matched),
        cmocka_unit_test(elements_are_converted),
        cmocka_unit_test(lies_are_refused),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
