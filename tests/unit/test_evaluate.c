/* An evaluation counts each labelled sample exactly once, whatever the batch; options that are not
 * given are resolved; a net's first convolution is whitened from the set. */
#include "tests/unit/format_set.h"
#include "tests/unit/trainer_options.h"

#include "train/evaluate/evaluate.h"
#include "train/net/plan.h"
#include "train/net/whitening.h"
#include "train/trainer/trainer.h"
#include "train/trainer/updates.h"

#include <math.h>

enum { SAMPLES = 101, CLASSES = 5 };

static char *make_set_of(uint32_t height, uint32_t width) {
    char *folder = new_folder();
    set_spec spec = {.dtype = FF_U8,
                     .layout = FF_CHW,
                     .channels = 3,
                     .height = height,
                     .width = width,
                     .alignment = 64,
                     .items = SAMPLES,
                     .labels = LABELS_CLASS,
                     .seed = 5};
    assert_ok(set_write(&spec, folder, NULL, error));
    return folder;
}

static char *make_set(void) {
    return make_set_of(19, 17);
}

/* By hand: the sample of the largest loss. */
static struct {
    uint64_t sample;
    double loss;
} worst;

static void evaluate(ff_trainer *trainer, int batch, int workers, ff_evaluation *result) {
    ff_plan *plan;
    ff_feed *feed;
    ff_tally *tally;
    ff_feed_options options = {.loader = ff_loader_defaults(),
                               .compute = ff_model_compute(trainer->model)};
    options.loader.batch = (uint64_t)batch;
    options.loader.last_batch = FF_LAST_BATCH_KEEP;
    options.loader.order = FF_ORDER_SEQUENTIAL;
    options.loader.threads = workers;
    assert_ok(ff_model_plan(trainer->model, batch, false, &plan, error));
    assert_ok(ff_feed_create(&feed, trainer->splits.train, &options, error));
    assert_ok(ff_tally_create(&tally, plan, error));
    /* Twice: the second pass begins where the first one ended. */
    assert_ok(ff_evaluate(plan, feed, NULL, NULL, result, error));
    ff_evaluation again;
    for (int i = 0; i < 2; i++) {
        assert_ok(ff_evaluate(plan, feed, tally, NULL, &again, error));
        assert_true(again.loss == result->loss && again.count == result->count);
        assert_int_equal(tally->count, result->count);
        assert_true((double)tally->correct / (double)tally->count == result->accuracy);
        assert_int_equal(tally->top, tally->count);
        assert_int_equal(tally->worst[0].sample, worst.sample);
        assert_true(fabs(tally->worst[0].loss - worst.loss) < 1e-4);
    }
    ff_feed_destroy(&feed);
    ff_tally_destroy(&tally);
}

/* The same without ff_evaluate: samples one by one, and the loss of their logits by its formula. */
static void evaluate_by_hand(ff_trainer *trainer, ff_evaluation *result) {
    ff_plan *plan;
    ff_loader *loader;
    ff_slot *slot;
    ff_loader_options options = ff_loader_defaults();
    *result = (ff_evaluation){0};
    options.batch = 1;
    options.epochs = 1;
    options.order = FF_ORDER_SEQUENTIAL;
    options.layout = trainer->train_plan->tensors[0].block == 1 ? FF_CHW : FF_HWC;
    options.threads = 0;
    assert_ok(ff_model_plan(trainer->model, 1, false, &plan, error));
    assert_ok(ff_loader_create(&loader, trainer->splits.train, &options, error));
    for (uint64_t i = 0; i < SAMPLES; i++) {
        int64_t label;
        ff_outcome ignored;
        assert_ok(ff_loader_acquire(loader, &slot, error));
        const ff_batch batch = {.images = slot->data,
                                .labels = slot->label[0].values,
                                .label_dtype = slot->label[0].dtype};
        ff_plan_enqueue(plan, &batch, false, &ignored, 1, NULL);
        assert_ok(ff_model_check(trainer->model, error));
        assert_ok(ff_dataset_class(trainer->splits.train, i, 0, &label, error));
        ff_loader_release(loader, slot, NULL);
        if (label < 0) continue;
        const float *logits = ff_plan_at(plan, plan->logits);
        double sum = 0;
        int best = 0;
        for (int c = 0; c < CLASSES; c++) {
            sum += exp((double)logits[c]);
            if (logits[c] > logits[best]) best = c;
        }
        const double loss = log(sum) - (double)logits[label];
        if (loss > worst.loss) worst.sample = i, worst.loss = loss;
        result->loss += loss;
        result->accuracy += best == label;
        result->count++;
    }
    result->loss /= (double)result->count;
    result->accuracy /= (double)result->count;
    ff_loader_destroy(&loader);
}

static void counts_each_sample_once(void **state) {
    (void)state;
    char *folder = make_set();
    ff_trainer_options options = default_options();
    options.data = folder;
    options.model = "smallnet";
    options.compute = "reference";
    options.threads = 1;
    options.batch = 16;
    ff_trainer *trainer;
    assert_ok(ff_trainer_create(&trainer, &options, error));
    int64_t labelled = 0;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        int64_t value;
        assert_ok(ff_dataset_class(trainer->splits.train, i, 0, &value, error));
        labelled += value >= 0;
    }
    assert_true(labelled > 0 && labelled < SAMPLES);
    ff_evaluation whole, part;
    evaluate_by_hand(trainer, &whole);
    assert_int_equal(whole.count, labelled);
    assert_true(whole.accuracy > 0 && whole.accuracy < 1);
    static const int batches[] = {1, 7, 64, 100, SAMPLES, 128};
    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
        evaluate(trainer, batches[i], (int)(i % 3), &part);
        assert_int_equal(part.count, labelled);
        assert_true(part.accuracy == whole.accuracy);
        double difference = part.loss - whole.loss;
        assert_true(difference < 1e-6 && difference > -1e-6);
    }
    ff_trainer_destroy(&trainer);
    remove_folder(folder);
}

/* Of the first sample of a batch, too: the model has fewer classes than the set. */
static void labels_beyond_the_model_are_refused(void **state) {
    (void)state;
    char *folder = make_set();
    ff_model_options options = {.name = "smallnet",
                                .channels = 3,
                                .height = 19,
                                .width = 17,
                                .classes = 1,
                                .batch = 1,
                                .threads = 1,
                                .dropout = -1,
                                .compute = "reference"};
    ff_model *model;
    ff_dataset *set;
    ff_plan *plan;
    ff_feed *feed;
    ff_evaluation result;
    assert_ok(ff_model_create(&model, &options, error));
    assert_ok(ff_dataset_open(&set, folder, FF_VERIFY_FIRST, error));
    ff_feed_options feeding = {.loader = ff_loader_defaults(), .compute = ff_model_compute(model)};
    feeding.loader.batch = 1;
    feeding.loader.order = FF_ORDER_SEQUENTIAL;
    assert_ok(ff_model_plan(model, 1, false, &plan, error));
    assert_ok(ff_feed_create(&feed, set, &feeding, error));
    assert_fails(ff_evaluate(plan, feed, NULL, NULL, &result, error), FF_BAD_DATA,
                 "label of sample 0 of a validation batch");
    ff_feed_destroy(&feed);
    ff_dataset_close(&set);
    ff_model_destroy(&model);
    remove_folder(folder);
}

static void resolves_what_is_left_out(void **state) {
    (void)state;
    char *folder = make_set();
    ff_trainer_options options = default_options();
    options.data = options.val = folder;
    options.model = "smallnet";
    options.compute = "reference";
    options.threads = 1;
    options.epochs = 3;
    options.batch = 25;
    options.last_batch = FF_LAST_BATCH_KEEP;
    options.hyper.learning_rate = 0.5;
    options.warmup_epochs = 0.4;
    ff_trainer *trainer;
    assert_ok(ff_trainer_create(&trainer, &options, error));
    assert_int_equal(trainer->batches, 5);
    assert_int_equal(trainer->last_count, 1);
    assert_int_equal(trainer->dropped, 0);
    assert_int_equal(trainer->groups[0].schedule.total_steps, 15);
    assert_int_equal(trainer->groups[0].schedule.warmup_steps, 2);
    assert_true(trainer->groups[0].schedule.peak == 0.5);
    assert_int_equal(trainer->splits.classes, CLASSES);
    assert_non_null(trainer->val_plan);
    ff_trainer_destroy(&trainer);
    assert_null(trainer);

    options.last_batch = FF_LAST_BATCH_DROP;
    assert_ok(ff_trainer_create(&trainer, &options, error));
    assert_int_equal(trainer->batches, 4);
    assert_int_equal(trainer->dropped, 1);
    assert_null(trainer->sizes[0].plans[0][1]);
    ff_trainer_destroy(&trainer);

    /* A default warm-up is the model's epoch, and at most a fifth of the run; a given one may be
     * all of it. */
    static const struct {
        double given;
        int epochs;
        uint64_t steps;
    } warmups[] = {{-1, 8, 4}, {-1, 5, 4}, {-1, 3, 2}, {-1, 1, 1}, {0, 3, 0}, {3, 3, 12}};
    for (size_t i = 0; i < sizeof warmups / sizeof *warmups; i++) {
        options.warmup_epochs = warmups[i].given;
        options.epochs = warmups[i].epochs;
        assert_ok(ff_trainer_create(&trainer, &options, error));
        assert_int_equal(trainer->groups[0].schedule.warmup_steps, warmups[i].steps);
        ff_trainer_destroy(&trainer);
    }
    options.epochs = 3;

    options.batch = 4096;
    assert_ok(ff_trainer_create(&trainer, &options, error));
    assert_int_equal(trainer->batches, 1);
    assert_int_equal(trainer->batch, SAMPLES);
    assert_int_equal(trainer->val_batch, SAMPLES);
    ff_trainer_destroy(&trainer);

    options.warmup_epochs = 3.5;
    assert_fails(ff_trainer_create(&trainer, &options, error), FF_USAGE, "--warmup: 3.5 epochs");
    assert_null(trainer);
    remove_folder(folder);
}

/* The covariance of the whitening filters' outputs over every patch of the set: the largest entry
 * off the diagonal, and the smallest and largest on it. */
static void covariance_of(ff_dataset *set, const float *filters, double *off, double *low,
                          double *high) {
    enum { K = 12 };
    ff_loader *loader;
    ff_slot *slot;
    ff_loader_options options = ff_loader_defaults();
    options.batch = SAMPLES;
    options.order = FF_ORDER_SEQUENTIAL;
    options.threads = 0;
    assert_ok(ff_loader_create(&loader, set, &options, error));
    assert_ok(ff_loader_acquire(loader, &slot, error));
    const int h = (int)slot->height, w = (int)slot->width;
    double sums[K * K] = {0}, places = (double)slot->count * (h - 1) * (w - 1);
    for (uint32_t n = 0; n < slot->count; n++)
        for (int p = 0; p < (h - 1) * (w - 1); p++) {
            double made[K] = {0};
            for (int e = 0; e < K; e++) {
                const int y = p / (w - 1) + e % 4 / 2, x = p % (w - 1) + e % 2;
                const float *image = (const float *)slot->data + (size_t)n * 3 * h * w;
                for (int o = 0; o < K; o++)
                    made[o] += (double)filters[o * K + e] * (double)image[(e / 4 * h + y) * w + x];
            }
            for (int i = 0; i < K * K; i++) sums[i] += made[i / K] * made[i % K] / places;
        }
    *off = *high = 0;
    *low = INFINITY;
    for (int i = 0; i < K * K; i++) {
        if (i / K != i % K) *off = fmax(*off, fabs(sums[i]));
        if (i / K == i % K) *low = fmin(*low, sums[i]);
        if (i / K == i % K) *high = fmax(*high, sums[i]);
    }
    ff_loader_release(loader, slot, NULL);
    ff_loader_destroy(&loader);
}

/* The same bits for any seed and number of threads. */
static void whitens_the_first_convolution(void **state) {
    (void)state;
    char *folder = make_set_of(32, 34);
    float filters[2][24 * 12];
    for (int run = 0; run < 2; run++) {
        ff_trainer_options options = default_options();
        options.data = folder;
        options.recipe = "cifar-speed";
        options.threads = run + 1;
        options.seed = run;
        options.batch = 8;
        ff_trainer *trainer;
        assert_ok(ff_trainer_create(&trainer, &options, error));
        const int index = ff_model_whitening(trainer->model);
        assert_true(index >= 0);
        assert_ok(ff_whiten(trainer->model, trainer->splits.train, NULL, 0, run + 1, error));
        ff_model_get(trainer->model, index, FF_PART_VALUE, filters[run]);
        double off, low, high;
        covariance_of(trainer->splits.train, filters[run], &off, &low, &high);
        assert_true(off < 1e-4 && low > 0.9 && high < 1 + 1e-4);
        ff_trainer_destroy(&trainer);
    }
    assert_memory_equal(filters[0], filters[1], sizeof filters[0]);
    remove_folder(folder);
}

/* Trains all of a trainer's steps; `settles`: with its plans for settled parameters, if it has any.
 * *values: the parameters, owned by the caller. Returns their count. */
static size_t train(const char *folder, bool settles, int epochs, float **values) {
    ff_trainer_options options = default_options();
    options.data = folder;
    options.recipe = "cifar-speed";
    options.threads = 1;
    options.batch = 8;
    options.epochs = epochs;
    options.last_batch = FF_LAST_BATCH_KEEP;
    ff_trainer *trainer;
    assert_ok(ff_trainer_create(&trainer, &options, error));
    assert_int_equal(trainer->settled_step, 3 * trainer->batches);
    assert_true((trainer->sizes[0].plans[1][0] != NULL) == (epochs > 3));
    assert_true((trainer->sizes[0].plans[1][1] != NULL) == (epochs > 3));
    for (int i = 0; trainer->sizes[0].plans[1][0] && i < ff_model_parameter_count(trainer->model);
         i++) {
        const bool bias = strcmp(ff_model_parameter(trainer->model, i)->name, "whiten.bias") == 0;
        assert_int_equal(trainer->sizes[0].plans[1][0]->without[i], bias);
        assert_int_equal(trainer->sizes[0].plans[1][1]->without[i], bias);
    }
    const uint64_t steps = ff_trainer_total_steps(trainer);
    for (uint64_t step = 0; step < steps; step++) {
        const ff_outcome *outcomes;
        ff_feed_batch next;
        uint32_t found = 1;
        assert_ok(ff_feed_next(trainer->train_feed, &next, error));
        next.batch.weights = NULL;
        ff_plan *plan = ff_trainer_plan(trainer, settles ? step : 0, next.count);
        assert_int_equal(ff_plan_batch(plan), next.count);
        assert_int_equal(plan->without != NULL,
                         settles && step >= trainer->settled_step && epochs > 3);
        assert_ok(ff_step_run(trainer->step, plan, &next.batch, error));
        assert_ok(ff_feed_done(trainer->train_feed, error));
        while (found) assert_ok(ff_step_outcomes(trainer->step, false, &outcomes, &found, error));
    }
    size_t count = 0;
    for (int i = 0; i < ff_model_parameter_count(trainer->model); i++)
        count += ff_model_parameter(trainer->model, i)->count;
    *values = calloc(count, sizeof **values);
    assert_non_null(*values);
    for (int i = 0, at = 0; i < ff_model_parameter_count(trainer->model); i++) {
        const ff_parameter *p = ff_model_parameter(trainer->model, i);
        if (p->dtype == FF_F32) ff_model_get(trainer->model, i, FF_PART_VALUE, *values + at);
        at += (int)p->count;
    }
    /* Muon's filters are never settled, and a constant learning rate has no end. */
    bool settled[64];
    trainer->groups[0].schedule.total_steps = 1;
    assert_int_equal(ff_trainer_settled(trainer, settled),
                     epochs > 3 ? 3 * trainer->batches : steps);
    assert_ok(ff_schedule_parse(&trainer->groups[1].schedule, "constant", error));
    assert_int_equal(ff_trainer_settled(trainer, settled), steps);
    for (int i = 0; i < ff_model_parameter_count(trainer->model); i++) assert_false(settled[i]);
    ff_trainer_destroy(&trainer);
    return count;
}

/* The whitening's bias is constant after three epochs; its gradient is then no longer computed, and
 * every parameter ends with the same bits. A run of three epochs or fewer leaves nothing out. */
static void what_is_settled_is_left_out(void **state) {
    (void)state;
    char *folder = make_set_of(32, 34);
    float *all, *left;
    const size_t count = train(folder, false, 4, &all);
    assert_int_equal(train(folder, true, 4, &left), count);
    assert_memory_equal(all, left, count * sizeof *all);
    free(all);
    free(left);
    train(folder, true, 3, &left);
    free(left);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_settled_is_left_out),
        cmocka_unit_test(counts_each_sample_once),
        cmocka_unit_test(labels_beyond_the_model_are_refused),
        cmocka_unit_test(resolves_what_is_left_out),
        cmocka_unit_test(whitens_the_first_convolution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
