/* --check-gradients finds backward passes that are wrong, and no others. */
#include "tests/unit/format_set.h"
#include "tests/unit/trainer_options.h"

#include "train/compute/compute.h"
#include "train/debug/gradients.h"
#include "train/net/plan.h"

#include <stdio.h>
#include <stdlib.h>

static const ff_compute_ops *right; /* the compute's own */

static void wrong_norm(ff_compute *compute, const ff_norm_backward *norm, float *scratch) {
    right->norm_backward(compute, norm, scratch);
    for (int c = 0; norm->dgamma && c < norm->forward.shape.c; c++) norm->dgamma[c] *= 1.2f;
}

/* dx of a quarter of the samples is forgotten. */
static void wrong_data(ff_compute *compute, ff_conv *conv, const void *dy, const void *w, void *dx,
                       void *scratch) {
    right->conv_backward_data(compute, conv, dy, w, dx, scratch);
    const size_t count = ff_tensor_count(&conv->shape.input) / 4;
    for (size_t i = 0; i < count; i++) ((float *)dx)[i] = 0;
}

/* As where the loss is smoothed and its gradient is not. */
static void wrong_loss(ff_compute *compute, const ff_loss *loss) {
    ff_loss plain = *loss;
    plain.smoothing = 0;
    right->loss(compute, &plain);
    plain = *loss;
    plain.gradient = NULL;
    right->loss(compute, &plain);
}

/* The table of what is printed, with the faults of `table`. The caller frees it. */
static char *check(const ff_compute_ops *faults, const char *folder, ff_status *status,
                   ff_error *failure) {
    ff_trainer_options options = default_options();
    ff_compute_ops table;
    ff_trainer *trainer;
    char *text;
    size_t length;
    options.data = options.val = folder;
    options.model = "smallnet";
    options.batch = 20;
    options.threads = 1;
    options.label_smoothing = 0.3;
    assert_ok(ff_trainer_create(&trainer, &options, error));
    ff_compute *compute = ff_model_compute(trainer->model);
    table = *(right = compute->ops);
    if (faults->norm_backward) table.norm_backward = faults->norm_backward;
    if (faults->conv_backward_data) table.conv_backward_data = faults->conv_backward_data;
    if (faults->loss) table.loss = faults->loss;
    compute->ops = &table;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    *status = ff_check_gradients(trainer, out, failure);
    fclose(out);
    compute->ops = right;
    ff_trainer_destroy(&trainer);
    return text;
}

/* How many lines of parameters that begin with `name` are said to be wrong. */
static int wrong_of(const char *text, const char *name) {
    int count = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += !!line) {
        const size_t length = strcspn(line, "\n");
        if (strncmp(line, name, strlen(name)) == 0 && length > 5 &&
            strncmp(line + length - 5, "WRONG", 5) == 0)
            count++;
    }
    return count;
}

static void wrong_gradients_are_found(void **state) {
    (void)state;
    char *folder = new_folder();
    set_spec spec = {.dtype = FF_U8,
                     .layout = FF_CHW,
                     .channels = 3,
                     .height = 16,
                     .width = 16,
                     .alignment = 64,
                     .items = 60,
                     .labels = LABELS_CLASS,
                     .seed = 5};
    assert_ok(set_write(&spec, folder, NULL, error));
    const ff_compute_ops none = {.name = "none"}, norm = {.norm_backward = wrong_norm},
                         data = {.conv_backward_data = wrong_data}, loss = {.loss = wrong_loss};
    ff_error failure = {0};
    ff_status status;

    char *text = check(&none, folder, &status, &failure);
    assert_int_equal(status, FF_OK);
    assert_int_equal(wrong_of(text, ""), 0);
    assert_non_null(strstr(text, "conv1.weight"));
    /* The error that is printed holds what rounding made of it: f32 losses are never exact. */
    assert_non_null(strstr(text, "relative error  rounding up to\n"));
    int told = 0;
    for (const char *line = strchr(text, '\n') + 1; *line != 'T'; line = strchr(line, '\n') + 1) {
        double gradient, apart, rounding;
        assert_int_equal(sscanf(line, "%*s %*u %lf %lf %lf", &gradient, &apart, &rounding) == 3 ||
                             strstr(line, "tell"),
                         1);
        if (sscanf(line, "%*s %*u %lf %lf %lf", &gradient, &apart, &rounding) < 3) continue;
        assert_true(rounding > 0 && rounding < FF_GRADIENT_ERROR);
        assert_true(apart - rounding <= FF_GRADIENT_ERROR);
        told += apart > 0;
    }
    assert_true(told >= 12);
    assert_non_null(strstr(text, "The gradients of 14 parameters are the loss's"));
    free(text);

    text = check(&norm, folder, &status, &failure);
    assert_int_equal(status, FF_FAILED);
    assert_int_equal(wrong_of(text, "bn"), 4);
    assert_int_equal(wrong_of(text, ""), 4);
    assert_non_null(strstr(failure.message, "the gradients of 4 parameters differ"));
    assert_non_null(strstr(failure.message, "of bn1.weight first"));
    free(text);

    text = check(&data, folder, &status, &failure);
    assert_int_equal(status, FF_FAILED);
    assert_true(wrong_of(text, "conv1") == 1 && wrong_of(text, "conv2") == 1);
    assert_true(!wrong_of(text, "conv4") && !wrong_of(text, "fc"));
    free(text);

    text = check(&loss, folder, &status, &failure);
    assert_int_equal(status, FF_FAILED);
    assert_int_equal(wrong_of(text, "fc"), 2);
    free(text);
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_gradients_are_found)};
    return cmocka_run_group_tests_name("check_gradients", tests, NULL, NULL);
}
