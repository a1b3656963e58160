/* What `best`, `last` and --keep mean (train/checkpoint/keeping.h): every history of up to six
 * events, against a plain reading of the rules. */
#include "tests/unit/check.h"

#include "train/checkpoint/keeping.h"

#include <math.h>

enum { EVENTS = 6, SAVES = 4 };
static const double scores[SAVES] = {NAN, 0, 1, 2}; /* NAN: not evaluated */

typedef struct line {
    int count;
    struct {
        uint64_t step;
        double score;
        bool there;
    } all[EVENTS + 1]; /* that the run has saved, removed ones too */
} line;

static int histories;

/* The step of the best of those that are there; 0: none. Later ones must be better. */
static uint64_t best_of(const line *l) {
    uint64_t step = 0;
    double best = -INFINITY;
    for (int i = 0; i < l->count; i++)
        if (l->all[i].there && l->all[i].score > best)
            best = l->all[i].score, step = l->all[i].step;
    return step;
}

/* The line after the decision is executed, and compared with the rules. */
static void settle(line *l, int keep) {
    ff_kept kept[EVENTS + 1];
    int count = 0, newer = 0;
    double highest = -INFINITY;
    for (int i = 0; i < l->count; i++)
        if (l->all[i].there)
            kept[count++] = (ff_kept){.step = l->all[i].step, .score = l->all[i].score};
    const uint64_t wanted = best_of(l);
    const int best = ff_keeping_decide(kept, count, keep);
    assert_int_equal(best < 0 ? 0 : kept[best].step, wanted);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < l->count; k++)
            if (l->all[k].step == kept[i].step) l->all[k].there = kept[i].stays;
    for (int i = l->count - 1; i >= 0; i--) {
        const bool newest = newer++ < keep, is_best = l->all[i].step == wanted;
        assert_int_equal(l->all[i].there, newest || is_best);
        if (l->all[i].score > highest) highest = l->all[i].score;
    }
    /* No evaluation of the line was better, of removed checkpoints neither. */
    if (wanted) assert_true(kept[best].score == highest);
}

/* All histories that begin so. */
static void histories_after(const line *before, int keep, int events) {
    histories++;
    if (!events) return;
    for (int save = 0; save < SAVES; save++) {
        line l = *before;
        const uint64_t step = l.count ? l.all[l.count - 1].step + 1 : 1;
        l.all[l.count].step = step;
        l.all[l.count].score = scores[save];
        l.all[l.count++].there = true;
        settle(&l, keep);
        histories_after(&l, keep, events - 1);
    }
    /* Resumed from one that is there: newer ones leave the line, as those that were removed do. */
    for (int from = 0; from + 1 < before->count; from++) {
        line l = {0};
        if (!before->all[from].there) continue;
        for (int i = 0; i <= from; i++)
            if (before->all[i].there) l.all[l.count++] = before->all[i];
        settle(&l, keep);
        histories_after(&l, keep, events - 1);
    }
}

static void every_short_history_is_right(void **state) {
    (void)state;
    for (int keep = 1; keep <= 3; keep++) {
        const line none = {0};
        histories_after(&none, keep, EVENTS);
    }
    print_message("%d histories\n", histories);
    assert_true(histories > 3 * 4096);
}

static void scores_are_of_finite_losses_and_the_same_views(void **state) {
    (void)state;
    ff_evaluated one = {.epoch = 3, .views = 2, .loss = 0.5, .accuracy = 0.75};
    assert_true(ff_evaluation_score(&one, FF_BEST_ACCURACY, 2) == 0.75);
    assert_true(ff_evaluation_score(&one, FF_BEST_LOSS, 2) == -0.5);
    assert_true(isnan(ff_evaluation_score(&one, FF_BEST_LOSS, 1)));
    for (int i = 0; i < 2; i++) {
        one.loss = i ? INFINITY : NAN;
        assert_true(isnan(ff_evaluation_score(&one, FF_BEST_ACCURACY, 2)));
        assert_true(isnan(ff_evaluation_score(&one, FF_BEST_LOSS, 2)));
    }
    const ff_evaluated none = {.views = 2};
    assert_true(isnan(ff_evaluation_score(&none, FF_BEST_ACCURACY, 2)));
}

/* Without a score that counts, the former best stays; the first that has one takes its place. */
static void the_former_best_stays_until_there_is_another(void **state) {
    (void)state;
    ff_kept kept[4];
    for (int i = 0; i < 4; i++)
        kept[i] = (ff_kept){.step = (uint64_t)i + 1, .score = NAN, .was_best = i == 0};
    assert_int_equal(ff_keeping_decide(kept, 4, 1), 0);
    assert_true(kept[0].stays && !kept[1].stays && !kept[2].stays && kept[3].stays);
    kept[3].score = -7;
    assert_int_equal(ff_keeping_decide(kept, 4, 1), 3);
    assert_true(!kept[0].stays && kept[3].stays);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_short_history_is_right),
        cmocka_unit_test(scores_are_of_finite_losses_and_the_same_views),
        cmocka_unit_test(the_former_best_stays_until_there_is_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
