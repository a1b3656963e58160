/* The work of an update: the check, the optimizers, the end of a step (cuda/compute_update.c). */
#include "train/step/update.h"
#include "format/base/memory.h"
#include "train/cost/count.h"
#include "train/net/groups.h"

#include <stdlib.h>

enum { F32_BYTES = 4 };

/* ---- Muon, as in cuda/compute_muon.c ---- */

typedef struct matrix {
    double rows, columns;
} matrix;

static matrix matrix_of(const ff_update_segment *s) {
    const ff_conv_shape *shape = &s->conv->shape;
    return (matrix){shape->output.c, (double)shape->kernel * shape->kernel *
                                         ff_tensor_padded_channels(&shape->input)};
}
static bool is_bank(const ff_update_segment *s) {
    return s->rule == FF_RULE_MUON && s->count;
}

/* The number of banks of the shape of bank i; 0 if an earlier bank has the same. */
static int batch_from(const ff_update_spec *spec, int i) {
    const matrix own = matrix_of(&spec->segments[i]);
    int count = 0;
    for (int k = 0; k < spec->segment_count; k++) {
        if (!is_bank(&spec->segments[k])) continue;
        const matrix other = matrix_of(&spec->segments[k]);
        if (other.rows != own.rows || other.columns != own.columns) continue;
        if (k < i) return 0;
        count++;
    }
    return count;
}

/* The Newton-Schulz steps of a batch of `banks`. */
static void count_batch(ff_compute *compute, matrix of, double banks) {
    const bool in_f32 = compute->dtype == FF_F32;
    const ff_precision precision = in_f32 ? compute->precision : FF_PRECISION_BF16;
    const double least = of.rows < of.columns ? of.rows : of.columns, e = in_f32 ? 4 : 2;
    const double count = banks * of.rows * of.columns, x = count * e;
    const double squares = banks * least * least, square = squares * e;
    for (int step = 0; step < FF_MUON_STEPS; step++) {
        ff_cost_product(compute, precision, x + square, 2 * least * count);
        ff_cost_arrays(compute, 2 * square + (step ? 2 * x : 0), 0, 1);
        ff_cost_product(compute, precision, 3 * square, 2 * least * squares);
        ff_cost_product(compute, precision, 3 * x + square, 2 * least * count);
    }
}

/* Two kernels for all banks, the batches, one kernel for all banks. */
static void count_banks(ff_compute *compute, const ff_update_spec *spec) {
    const double e = compute->dtype == FF_F32 ? 4 : 2;
    double begun = 0, elements = 0, ended = 0;
    for (int i = 0; i < spec->segment_count; i++) {
        const ff_update_segment *s = &spec->segments[i];
        if (!is_bank(s)) continue;
        const matrix of = matrix_of(s);
        const double count = of.rows * of.columns;
        elements += count;
        begun += count * ((double)ff_dtype_bytes(s->gradient_dtype) + 3 * F32_BYTES + e);
        ended += count * (e + (s->average ? 4 : 2) * F32_BYTES +
                          (s->working ? (double)compute->element_bytes : 0));
    }
    ff_cost_arrays(compute, begun, 6 * elements, 1);
    ff_cost_arrays(compute, 3 * e * elements, elements, 1);
    for (int i = 0; i < spec->segment_count; i++)
        if (is_bank(&spec->segments[i]) && batch_from(spec, i))
            count_batch(compute, matrix_of(&spec->segments[i]), batch_from(spec, i));
    ff_cost_arrays(compute, ended, 3 * elements, 1);
}

static void describe_banks(const ff_update_spec *spec, int banks, char *what, size_t size) {
    int batches = 0;
    for (int i = 0; i < spec->segment_count; i++)
        batches += is_bank(&spec->segments[i]) && batch_from(spec, i);
    snprintf(what, size, "Muon, %d bank%s of %d shape%s", banks, banks == 1 ? "" : "s", batches,
             batches == 1 ? "" : "s");
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
        if (rule == FF_RULE_MUON) describe_banks(spec, count, what, sizeof what);
        FF_TRY(update_row(c, FF_MARK_UPDATE, rule, what, error));
        if (rule == FF_RULE_MUON)
            count_banks(compute, spec);
        else
            count_pass(compute, spec, (ff_rule)rule);
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
