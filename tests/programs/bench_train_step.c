/* Times training steps: `bench_train_step NAME STEM CHANNELS SIDE BATCH THREADS [PRECISION
 * [COMPUTE]]`. Reads lines from stdin: a number of steps to run; answers each with "best_ms
 * median_ms best_cpu_ms loss" of these steps (cpu: processor time of all threads, for busy
 * machines), so that tests/bench/train_step.py can alternate it with PyTorch. */
#include "format/base/memory.h"
#include "format/base/thread.h"
#include "loader/sequence/philox.h"
#include "train/step/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double cpu_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int fail(const ff_error *error) {
    fprintf(stderr, "bench_train_step: %s\n", error->message);
    return ff_exit_code(error);
}

int main(int argc, char **argv) {
    ff_error error = {0};
    if (argc < 7) {
        fprintf(
            stderr,
            "usage: %s NAME auto|cifar|imagenet CHANNELS SIDE BATCH THREADS [PRECISION [COMPUTE]]\n",
            argv[0]);
        return 2;
    }
    ff_model_options options = {
        .name = argv[1],
        .stem = strcmp(argv[2], "cifar") == 0      ? FF_STEM_CIFAR
                : strcmp(argv[2], "imagenet") == 0 ? FF_STEM_IMAGENET
                                                   : FF_STEM_AUTO,
        .channels = atoi(argv[3]),
        .height = atoi(argv[4]),
        .width = atoi(argv[4]),
        .classes = 10,
        .batch = atoi(argv[5]),
        .threads = atoi(argv[6]),
        .seed = 1,
        .dropout = -1,
        .compute = argc > 8 ? argv[8] : NULL,
    };
    ff_model *model;
    if (argc > 7 && ff_precision_read(argv[7], &options.precision, &error) != FF_OK)
        return fail(&error);
    if (ff_model_create(&model, &options, &error) != FF_OK) return fail(&error);
    size_t count = (size_t)options.batch * (size_t)options.channels * (size_t)options.height *
                   (size_t)options.width;
    float *images;
    void *read; /* the images in the compute's dtype */
    int64_t *labels;
    double *times;
    enum { MOST = 10000 };
    if (ff_alloc_aligned(&images, count, sizeof *images, 64, "images", &error) != FF_OK ||
        ff_alloc(&labels, (uint64_t)options.batch, sizeof *labels, "labels", &error) != FF_OK ||
        ff_alloc(&times, MOST, sizeof *times, "times", &error) != FF_OK)
        return fail(&error);
    for (size_t i = 0; i < count; i++)
        images[i] = 4 * ff_random_unit(ff_philox_draw(1, 99, 0, i, 0).word[0]) - 2;
    const ff_dtype dtype = ff_precision_dtype(options.precision);
    if (ff_alloc_aligned(&read, count, ff_dtype_bytes(dtype), 64, "images", &error) != FF_OK)
        return fail(&error);
    ff_convert(read, dtype, images, FF_F32, count);
    for (int n = 0; n < options.batch; n++) labels[n] = n % options.classes;
    fprintf(stderr, "%s, %.1f million multiply-accumulates a sample", ff_model_compute_name(model),
            ff_model_macs(model) * 1e-6);
    for (int role = 0; role < FF_ROLE_COUNT; role++)
        fprintf(stderr, ", %s %.1f MB", ff_role_name(role),
                (double)ff_model_bytes(model, role) * 1e-6);
    fprintf(stderr, "\n");
    const ff_hyper sgd = {.momentum = 0.9, .weight_decay = 5e-4};
    const double rate = 1e-3;
    const ff_step_options how = {.update.groups = &sgd,
                                 .update.group_count = 1,
                                 .update.rates = &rate,
                                 .update.rate_steps = 1,
                                 .send_steps = 1};
    ff_step *step;
    if (ff_step_create(&step, model, &how, &error) != FF_OK) return fail(&error);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        int steps = atoi(line);
        if (steps < 1 || steps > MOST) break;
        const ff_outcome *outcomes = NULL;
        uint32_t found;
        double best_cpu = 1e300;
        for (int i = 0; i < steps; i++) {
            ff_batch batch = {.images = read, .labels = labels, .label_dtype = FF_I64};
            double start_cpu = cpu_ms();
            uint64_t start = ff_now_ns();
            if (ff_step_run(step, ff_model_training_plan(model), &batch, &error) != FF_OK ||
                ff_step_outcomes(step, true, &outcomes, &found, &error) != FF_OK)
                return fail(&error);
            times[i] = (double)(ff_now_ns() - start) * 1e-6;
            double cpu = cpu_ms() - start_cpu;
            if (cpu < best_cpu) best_cpu = cpu;
        }
        qsort(times, (size_t)steps, sizeof *times, compare);
        printf("%.3f %.3f %.3f %.6f\n", times[0], times[steps / 2], best_cpu,
               outcomes->loss_sum / (double)outcomes->count);
        fflush(stdout);
    }
    free(images);
    free(read);
    free(labels);
    free(times);
    ff_step_destroy(&step);
    ff_model_destroy(&model);
    return 0;
}
