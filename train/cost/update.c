/* The work of an update: the check, the optimizers, the end of a step (cuda/compute_update.c). */
#include "train/step/update.h"
#include "format/base/memory.h"
#include "train/cost/count.h"
#include "train/net/groups.h"

#include <stdlib.h>

enum { F32_BYTES = 4 };

/* As in cuda/compute_muon.c: two kernels, the Newton-Schulz steps, one kernel. */
static void count_bank(ff_compute *compute, const ff_update_segment *s) {
    const ff_conv_shape *shape = &s->conv->shape;
    const double rows = shape->output.c;
    const double columns =
        (double)shape->kernel * shape->kernel * ff_tensor_padded_channels(&shape->input);
    const double count = rows * columns, least = rows < columns ? rows : columns;
    const bool in_f32 = compute->dtype == FF_F32;
    const ff_precision precision = in_f32 ? compute->precision : FF_PRECISION_BF16;
    const double e = in_f32 ? 4 : 2, x = count * e, square = least * least * e;
    const double working = s->working ? (double)compute->element_bytes : 0;
    const double gradient = (double)ff_dtype_bytes(s->gradient_dtype);
    ff_cost_arrays(compute, count * (gradient + 3 * F32_BYTES) + x, 6 * count, 1);
    ff_cost_arrays(compute, 3 * x, count, 1);
    for (int step = 0; step < FF_MUON_STEPS; step++) {
        ff_cost_product(compute, precision, x + square, 2 * least * count);
        ff_cost_arrays(compute, 2 * square + (step ? 2 * x : 0), 0, 1);
        ff_cost_product(compute, precision, 3 * square, 2 * least * least * least);
        ff_cost_product(compute, precision, 3 * x + square, 2 * least * count);
    }
    ff_cost_arrays(compute, x + count * ((s->average ? 4 : 2) * F32_BYTES + working), 3 * count, 1);
}

/* The passes of the other optimizers: cuda/kernels/update.cu. */
static void count_pass(ff_compute *compute, const ff_update_spec *spec, ff_rule rule) {
    const ff_optimizer *optimizer = ff_optimizer_at(rule);
    double elements = 0, bytes = 0;
    for (int i = 0; i < spec->segment_count; i++) {
        const ff_update_segment *s = &spec->segments[i];
        if (s->rule != rule || !s->count) continue;
        const double count = (double)s->count, gradient = (double)ff_dtype_bytes(s->gradient_dtype);
        elements += count;
        bytes += count * (gradient + 2 * F32_BYTES * (1 + optimizer->states) +
                          (s->working ? (double)compute->element_bytes : 0) +
                          (s->average ? 2 * F32_BYTES : 0));
        /* The measuring pass reads weights and gradients. LAMB's state is in both passes, its
         * gradient only in one. */
        if (rule == FF_RULE_LARS) bytes += count * (gradient + F32_BYTES);
        if (rule == FF_RULE_LAMB) bytes += count * (1 + optimizer->states) * F32_BYTES;
    }
    if (elements > 0) ff_cost_arrays(compute, bytes, 8 * elements, optimizer->norms ? 2 : 1);
}

static ff_status update_row(ff_cost_counter *c, ff_mark mark, int op, const char *what,
                            ff_error *error) {
    ff_cost_row row = {.pass = FF_COST_UPDATE, .mark = mark, .op = op};
    snprintf(row.what, sizeof row.what, "%s", what);
    return ff_cost_add_row(c->costs, &row, error);
}

ff_status ff_cost_update_create(ff_compute *compute, const ff_update_spec *spec,
                                ff_prepared_update **update, ff_error *error) {
    ff_cost_counter *c = (ff_cost_counter *)compute;
    double gradients = 0;
    int segments[FF_RULE_COUNT] = {0};
    char what[64];
    *update = NULL;
    for (int i = 0; i < spec->segment_count; i++) {
        const ff_update_segment *s = &spec->segments[i];
        gradients += (double)s->count * (double)ff_dtype_bytes(s->gradient_dtype);
        segments[s->rule] += s->count > 0;
    }
    FF_TRY(update_row(c, FF_MARK_CHECK, 0, "check of the gradients", error));
    ff_cost_arrays(compute, gradients, 0, spec->how.clip_norm > 0 ? 2 : 1);
    for (int rule = 0; rule < FF_RULE_COUNT; rule++) {
        const int count = segments[rule];
        if (!count) continue;
        snprintf(what, sizeof what, "%s", ff_optimizer_at(rule)->title);
        if (rule == FF_RULE_MUON)
            snprintf(what, sizeof what, "Muon, %d bank%s of 15 nodes", count,
                     count == 1 ? "" : "s");
        FF_TRY(update_row(c, FF_MARK_UPDATE, rule, what, error));
        if (rule != FF_RULE_MUON) count_pass(compute, spec, (ff_rule)rule);
        for (int i = 0; rule == FF_RULE_MUON && i < spec->segment_count; i++)
            if (spec->segments[i].rule == FF_RULE_MUON) count_bank(compute, &spec->segments[i]);
    }
    FF_TRY(update_row(c, FF_MARK_ADVANCE, 0, "end of the step", error));
    ff_cost_count(compute, (ff_cost_piece){.nodes = 1});
    if (spec->average_buffers)
        ff_cost_arrays(compute, 3.0 * F32_BYTES * (double)spec->buffer_count, 0, 1);
    return ff_compute_check(compute, error);
}

ff_status ff_cost_count_update(ff_cost_counter *c, const ff_store *store, ff_error *error) {
    static const ff_group all = {.names = "*", .rule = FF_RULE_SGD};
    ff_store counted = *store;
    ff_groups own = {0};
    ff_update *update = NULL;
    ff_hyper *sgd = NULL;
    double *rates = NULL;
    ff_status status = FF_OK;
    if (!store->groups || !store->groups->count) {
        FF_TRY(ff_groups_create(&own, store, &all, 1, error));
        counted.groups = &own;
    }
    counted.compute = &c->base;
    const uint64_t groups = (uint64_t)counted.groups->count;
    FF_TRY_DONE(ff_alloc(&sgd, groups, sizeof *sgd, "groups", error));
    FF_TRY_DONE(ff_alloc(&rates, groups, sizeof *rates, "groups", error));
    const ff_update_options options = {
        .groups = sgd, .group_count = (int)groups, .rates = rates, .rate_steps = 1};
    status = ff_update_create(&update, &counted, &options, error);
done:
    ff_update_destroy(&update);
    ff_groups_destroy(&own);
    free(sgd);
    free(rates);
    return status;
}
