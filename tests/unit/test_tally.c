/* The counts of an evaluation against plain ones from the same logits, of random odd shapes with
 * ties, NaN, unlabelled and wrong labels, over several batches. */
#include "tests/unit/check.h"
#include "tests/unit/dice.h"
#include "train/evaluate/tally.h"
#include "train/net/plan.h"

#include <math.h>
#include <stdlib.h>

enum { BATCH = 40, MOST = 400 };

typedef struct sample {
    int64_t label;
    int predicted, before; /* before: classes that are ranked before the label */
    bool missing;          /* a logit is NaN or infinite: wrong, whatever is predicted */
    double loss, probability;
} sample;

typedef struct pass {
    ff_plan *plan;
    int classes, samples;
    sample all[MOST];
} pass;

static sample judge_by_hand(const float *logits, int classes, int64_t label) {
    sample s = {.label = label};
    double sum = 0;
    for (int c = 0; c < classes; c++) {
        if (logits[c] > logits[s.predicted]) s.predicted = c;
        s.missing |= !isfinite(logits[c]);
    }
    for (int c = 0; c < classes; c++) sum += exp((double)logits[c] - (double)logits[s.predicted]);
    if (label < 0 || label >= classes) return s;
    for (int c = 0; c < classes; c++)
        s.before += logits[c] > logits[label] || (logits[c] == logits[label] && c < label);
    s.loss = s.missing ? INFINITY : log(sum) + (double)logits[s.predicted] - (double)logits[label];
    s.probability = 1 / sum;
    return s;
}

/* Fills the plan's logits and the labels with a batch, and keeps what it should be. */
static void fill(pass *p, dice *d, float *logits, size_t stride, int count, void *labels,
                 ff_dtype dtype) {
    for (int n = 0; n < BATCH; n++) {
        float *row = logits + (size_t)n * stride;
        const int kind = (int)roll(d, 12);
        for (int c = 0; c < p->classes; c++)
            row[c] = kind < 3 ? (float)roll(d, 3) : 20 * uniform(d) - 10;
        if (kind == 3) row[roll(d, (uint32_t)p->classes)] = roll(d, 2) ? NAN : INFINITY;
        int64_t label = (int64_t)roll(d, (uint32_t)p->classes + 2) - 1; /* one is too large */
        if (dtype == FF_I64)
            ((int64_t *)labels)[n] = label;
        else
            ((int32_t *)labels)[n] = (int32_t)label;
        if (n < count) p->all[p->samples++] = judge_by_hand(row, p->classes, label);
    }
}

/* The largest loss first, then in the order of the set. */
static int worse(const void *a, const void *b) {
    const sample *const x = *(const sample *const *)a, *const y = *(const sample *const *)b;
    if (x->loss != y->loss) return x->loss < y->loss ? 1 : -1;
    return x < y ? -1 : 1;
}

static void compare(const ff_tally *tally, const pass *p) {
    const sample *order[MOST];
    int64_t count = 0, correct = 0, top = 0;
    for (int i = 0; i < p->samples; i++) {
        const sample *s = &p->all[i];
        if (s->label < 0 || s->label >= p->classes) continue;
        order[count++] = s;
        correct += !s->missing && s->predicted == s->label;
        top += !s->missing && s->before < 5;
    }
    assert_int_equal(tally->count, count);
    assert_int_equal(tally->correct, correct);
    assert_int_equal(tally->top, top);
    int64_t sum = 0, sum_correct = 0;
    for (int c = 0; c < p->classes; c++) {
        int64_t here = 0, right = 0;
        for (int64_t i = 0; i < count; i++) {
            here += order[i]->label == c;
            right += order[i]->label == c && order[i]->predicted == c && !order[i]->missing;
        }
        assert_int_equal(tally->class_count[c], here);
        assert_int_equal(tally->class_correct[c], right);
        for (int k = 0; tally->confusion && k < p->classes; k++) {
            uint32_t pairs = 0;
            for (int64_t i = 0; i < count; i++)
                pairs += order[i]->label == c && order[i]->predicted == k;
            assert_int_equal(tally->confusion[c * p->classes + k], pairs);
        }
        sum += here, sum_correct += right;
    }
    assert_true(sum == count && sum_correct == correct);

    qsort(order, (size_t)count, sizeof *order, worse);
    assert_int_equal(tally->worst_count, count < FF_TALLY_WORST ? count : FF_TALLY_WORST);
    for (int i = 0; i < tally->worst_count; i++) {
        const ff_mistake *got = &tally->worst[i];
        const sample *want = &p->all[got->sample];
        /* Losses that are equal except for their rounding may come in any order. */
        assert_true(got->loss == order[i]->loss || fabs(got->loss - order[i]->loss) < 1e-4);
        assert_true(got->loss == want->loss || fabs(got->loss - want->loss) < 1e-4);
        assert_int_equal(got->label, want->label);
        assert_int_equal(got->predicted, want->predicted);
        assert_true(isnan(want->probability) || fabs(got->probability - want->probability) < 1e-5);
        for (int k = 0; k < i; k++) assert_int_not_equal(got->sample, tally->worst[k].sample);
    }
}

static void counts_are_those_of_plain_loops(void **state) {
    (void)state;
    static const int classes[] = {1, 2, 3, 5, 6, 7, 12, 100, 1000, 1030};
    dice d = {.seed = 11};
    for (size_t k = 0; k < sizeof classes / sizeof *classes; k++) {
        ff_model_options options = {.name = "smallnet",
                                    .channels = 1,
                                    .height = 8,
                                    .width = 8,
                                    .classes = classes[k],
                                    .batch = 2,
                                    .threads = 2,
                                    .dropout = -1,
                                    .compute = "reference"};
        ff_model *model;
        ff_tally *tally;
        pass p = {.classes = classes[k]};
        int64_t labels[BATCH];
        assert_ok(ff_model_create(&model, &options, error));
        assert_ok(ff_model_plan(model, BATCH, false, &p.plan, error));
        assert_ok(ff_tally_create(&tally, p.plan, error));
        assert_int_equal(tally->confusion != NULL, classes[k] <= FF_TALLY_MATRIX);
        const size_t stride =
            (size_t)ff_tensor_padded_channels(&p.plan->tensors[p.plan->graph->output]);
        for (int again = 0; again < 2; again++) {
            p.samples = 0;
            ff_tally_begin(tally, 0, 1);
            for (int b = 0; b < 8; b++) {
                const int count = b == 7 ? 1 + (int)roll(&d, BATCH) : BATCH;
                const ff_dtype dtype = b % 2 ? FF_I64 : FF_I32;
                fill(&p, &d, ff_plan_at(p.plan, p.plan->logits), stride, count, labels, dtype);
                const ff_batch batch = {.labels = labels, .label_dtype = dtype};
                assert_ok(ff_tally_add(tally, &batch, (uint32_t)count, error));
            }
            assert_ok(ff_tally_end(tally, error));
            compare(tally, &p);
        }
        ff_tally_destroy(&tally);
        assert_null(tally);
        ff_model_destroy(&model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_are_those_of_plain_loops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
