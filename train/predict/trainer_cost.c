#include "train/predict/trainer_cost.h"

#include "format/base/memory.h"

#include <stdlib.h>

ff_status ff_trainer_costs(ff_costs *costs, const ff_trainer *trainer, ff_plan *plan,
                           ff_error *error) {
    const ff_cost_options options = {.metadata = ff_dataset_metadata(trainer->splits.train),
                                     .augment = &trainer->augment};
    return ff_costs_count(costs, plan, &options, error);
}

ff_status ff_trainer_print_costs(FILE *out, const ff_trainer *trainer, const ff_card *card,
                                 ff_error *error) {
    ff_costs costs;
    FF_TRY(ff_trainer_costs(&costs, trainer, trainer->train_plan, error));
    ff_costs_print(out, &costs, card);
    ff_costs_free(&costs);
    return FF_OK;
}

/* Batches needed: two to warm up and two per launch; an earlier measurement may have taken one. */
static int launches_of(const ff_trainer *trainer, int launches) {
    const uint64_t steps = ff_trainer_total_steps(trainer), most = steps < 5 ? 0 : (steps - 3) / 2;
    return (uint64_t)launches < most ? launches : (int)most;
}

ff_status ff_trainer_profile(ff_profile *profile, ff_trainer *trainer, ff_plan *plan,
                             const ff_costs *costs, int launches, ff_error *error) {
    static const double still[FF_TRAINER_GROUPS];
    ff_hyper hypers[FF_TRAINER_GROUPS];
    ff_trainer_steps(trainer, 0, hypers);
    const ff_profile_options options = {
        .feed = trainer->train_feed,
        .update = ff_trainer_update_options(trainer, hypers, still, 1),
        .launches = launches_of(trainer, launches),
    };
    if (!options.launches)
        return ff_fail(error, FF_USAGE,
                       "timing the parts of a step needs a run of at least 5 steps");
    return ff_profile_step(profile, plan, costs, &options, error);
}

typedef struct shortfall {
    size_t row;
    double us, expected_us;
} shortfall;

static int compare(const void *a, const void *b) {
    const shortfall *x = a, *y = b;
    const double left = x->us - x->expected_us, right = y->us - y->expected_us;
    return (left < right) - (left > right);
}

static ff_status print_furthest(FILE *out, const ff_costs *costs, const ff_profile *profile,
                                const ff_card *card, int count, ff_error *error) {
    shortfall *list;
    double sum = 0;
    FF_TRY(ff_alloc(&list, costs->row_count, sizeof *list, "the times of a step", error));
    for (size_t i = 0; i < costs->row_count; i++) {
        list[i] = (shortfall){i, (double)profile->row_ns[i] * 1e-3,
                              ff_cost_row_us(costs, &costs->rows[i], card, 0.8)};
        sum += list[i].us;
    }
    qsort(list, costs->row_count, sizeof *list, compare);
    fprintf(out, "a step         %12.3f ms; %.3f in its %zu parts", (double)profile->step_ns * 1e-6,
            sum * 1e-3, costs->row_count);
    if (ff_card_known(card))
        fprintf(out, ", %.3f expected at 80 %% of the GPU's limits",
                ff_cost_pass_us(costs, FF_COST_PASSES, card, 0.8) * 1e-3);
    fprintf(out, "; furthest from expected:\n");
    for (size_t i = 0; i < costs->row_count && (int)i < count; i++) {
        const ff_cost_row *row = &costs->rows[list[i].row];
        fprintf(out, "  %-8s %-24s %-40s %9.1f us", ff_cost_pass_name(row->pass), row->layer,
                row->what, list[i].us);
        if (ff_card_known(card)) fprintf(out, ", expected %.1f", list[i].expected_us);
        fputc('\n', out);
    }
    free(list);
    return FF_OK;
}

ff_status ff_trainer_print_furthest(FILE *out, ff_trainer *trainer, int count, ff_error *error) {
    enum { LAUNCHES = 10 };
    const ff_card card = ff_machine_card(trainer->machine);
    ff_profile profile = {0};
    ff_costs costs;
    if (!launches_of(trainer, LAUNCHES)) return FF_OK;
    FF_TRY(ff_trainer_costs(&costs, trainer, trainer->train_plan, error));
    ff_status status;
    FF_TRY_DONE(
        ff_trainer_profile(&profile, trainer, trainer->train_plan, &costs, LAUNCHES, error));
    FF_TRY_DONE(print_furthest(out, &costs, &profile, &card, count, error));
done:
    ff_profile_free(&profile);
    ff_costs_free(&costs);
    return status;
}
