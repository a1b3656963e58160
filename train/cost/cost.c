#include "train/cost/cost.h"

#include "format/base/memory.h"
#include "format/cli/say.h"

#include <stdlib.h>
#include <string.h>

const char *ff_cost_pass_name(ff_cost_pass pass) {
    static const char *const names[] = {"batch", "forward", "loss", "backward", "update", "step"};
    return names[pass];
}

ff_status ff_cost_add_row(ff_costs *costs, const ff_cost_row *row, ff_error *error) {
    FF_TRY(ff_reserve(&costs->rows, &costs->row_capacity, costs->row_count + 1, sizeof *row,
                      "the costs of a step", error));
    ff_cost_row *added = &costs->rows[costs->row_count++];
    *added = *row;
    added->first = costs->piece_count;
    added->count = 0;
    return FF_OK;
}

ff_status ff_cost_add_piece(ff_costs *costs, const ff_cost_piece *piece, ff_error *error) {
    FF_TRY(ff_reserve(&costs->pieces, &costs->piece_capacity, costs->piece_count + 1, sizeof *piece,
                      "the costs of a step", error));
    costs->pieces[costs->piece_count++] = *piece;
    costs->rows[costs->row_count - 1].count++;
    return FF_OK;
}

/* ---- the batch ---- */

/* As in loader/cuda/kernels.h: one kernel for the batch's position, one for each row's parameters,
 * then either one kernel that moves samples, or several with rows of f32 in between. */
static ff_status add_batch(ff_costs *costs, const ff_plan *plan, const ff_cost_options *options,
                           ff_error *error) {
    enum { LABEL_BYTES = 2 * 4, WEIGHT_BYTES = 4, F32_BYTES = 4 };
    const ff_metadata *set = options->metadata;
    const ff_augment_spec *spec = options->augment;
    const ff_tensor *images = &plan->tensors[0];
    const double rows = plan->batch;
    const double params = rows * sizeof(ff_augment_params);
    const double read = rows * (double)ff_metadata_tensor_bytes(set, set->height, set->width);
    const double write = (double)(ff_tensor_count(images) * plan->compute->element_bytes);
    const double values = rows * images->c * images->h * images->w * F32_BYTES;
    const bool resamples = ff_augment_resamples(spec) || set->variable_size;
    const bool jitters = ff_augment_jitters(spec), mixes = ff_augment_mixes(spec);
    const bool changes = ff_change_any(&spec->change);
    ff_cost_row row = {.pass = FF_COST_BATCH, .layer = "images"};
    /* through arrays of f32 values, not copied as stored */
    const bool by_values = resamples || jitters || changes || mixes || set->dtype == FF_U16;
    snprintf(row.what, sizeof row.what, "gather%s%s%s%s", resamples ? ", resample" : "",
             jitters ? ", jitter" : "", changes ? ", change" : "", mixes ? ", mix" : "");
    FF_TRY(ff_cost_add_row(costs, &row, error));
    const ff_cost_piece next = {.nodes = 1}, parameters = {.bytes = params, .nodes = 1};
    FF_TRY(ff_cost_add_piece(costs, &next, error));
    FF_TRY(ff_cost_add_piece(costs, &parameters, error));
    const double columns = params + rows * (LABEL_BYTES + WEIGHT_BYTES);
    if (!by_values) {
        const ff_cost_piece move = {.bytes = read + write + columns, .nodes = 1};
        return ff_cost_add_piece(costs, &move, error);
    }
    const ff_cost_piece begin = {.bytes = read + values + params, .nodes = 1};
    const ff_cost_piece jitter = {.bytes = 2 * values, .nodes = 1};
    /* u8 written, changed once, and read */
    const ff_cost_piece change = {.bytes = 3 * values, .nodes = 1};
    const ff_cost_piece end = {.bytes = values + write + columns, .nodes = 1};
    FF_TRY(ff_cost_add_piece(costs, &begin, error));
    if (jitters) FF_TRY(ff_cost_add_piece(costs, &jitter, error));
    if (changes) FF_TRY(ff_cost_add_piece(costs, &change, error));
    return ff_cost_add_piece(costs, &end, error);
}

/* ---- life ---- */

ff_status ff_costs_count(ff_costs *costs, ff_plan *plan, const ff_cost_options *options,
                         ff_error *error) {
    *costs = (ff_costs){.samples = plan->batch};
    if (!plan->training || plan->compute->device->table->unified)
        return ff_fail(error, FF_USAGE, "costs are counted only for steps of training on a GPU");
    ff_status status;
    if (options->metadata) FF_TRY_DONE(add_batch(costs, plan, options, error));
    FF_TRY_DONE(ff_cost_count_step(costs, plan, error));
done:
    if (status != FF_OK) ff_costs_free(costs);
    return status;
}

void ff_costs_free(ff_costs *costs) {
    free(costs->rows);
    free(costs->pieces);
    *costs = (ff_costs){0};
}

/* ---- sums ---- */

static void add(ff_cost_piece *to, const ff_cost_piece *piece) {
    to->bytes += piece->bytes;
    to->matrix_flops += piece->matrix_flops;
    to->f32_flops += piece->f32_flops;
    to->nodes += piece->nodes;
}

ff_cost_piece ff_cost_of_row(const ff_costs *costs, const ff_cost_row *row) {
    ff_cost_piece sum = {0};
    for (size_t i = 0; i < row->count; i++) add(&sum, &costs->pieces[row->first + i]);
    return sum;
}

ff_cost_piece ff_cost_of_pass(const ff_costs *costs, ff_cost_pass pass) {
    ff_cost_piece sum = {0};
    for (size_t i = 0; i < costs->row_count; i++) {
        if (pass != FF_COST_PASSES && costs->rows[i].pass != pass) continue;
        const ff_cost_piece row = ff_cost_of_row(costs, &costs->rows[i]);
        add(&sum, &row);
    }
    return sum;
}

/* ---- times ---- */

static double piece_us(const ff_cost_piece *piece, const ff_card *card, double share) {
    const double matrix_rate = card->matrix_flops[piece->precision];
    double arithmetic = piece->f32_flops / card->f32_flops;
    if (piece->matrix_flops > 0)
        arithmetic += piece->matrix_flops / (matrix_rate > 0 ? matrix_rate : card->f32_flops);
    const double bytes = piece->bytes / card->bytes_per_s;
    const double busy = 1e6 * (bytes > arithmetic ? bytes : arithmetic) / share;
    const double gaps = FF_CARD_NODE_US * piece->nodes;
    return busy > gaps ? busy : gaps;
}

double ff_cost_row_us(const ff_costs *costs, const ff_cost_row *row, const ff_card *card,
                      double share) {
    double sum = 0;
    if (!ff_card_known(card)) return 0;
    for (size_t i = 0; i < row->count; i++)
        sum += piece_us(&costs->pieces[row->first + i], card, share);
    return sum;
}

double ff_cost_pass_us(const ff_costs *costs, ff_cost_pass pass, const ff_card *card,
                       double share) {
    double sum = 0;
    for (size_t i = 0; i < costs->row_count; i++)
        if (pass == FF_COST_PASSES || costs->rows[i].pass == pass)
            sum += ff_cost_row_us(costs, &costs->rows[i], card, share);
    return sum;
}

void ff_costs_print(FILE *out, const ff_costs *costs, const ff_card *card) {
    fprintf(out, "\nA step of %s, counted, not measured; at 80 %% and 65 %% of the GPU's limits",
            ff_say_count((uint64_t)costs->samples, "sample", "samples").text);
    if (ff_card_known(card))
        fprintf(out, " (%s; matrix products: %.0f TFLOP/s in f16, %.0f in tf32)\n",
                ff_say_byte_rate(card->bytes_per_s).text,
                card->matrix_flops[FF_PRECISION_F16] * 1e-12,
                card->matrix_flops[FF_PRECISION_TF32] * 1e-12);
    else
        fprintf(out, ", which are unknown for this GPU\n");
    fprintf(out, "pass        nodes       GiB     TFLOP   ms at 80 %%  ms at 65 %%\n");
    for (int pass = 0; pass <= FF_COST_PASSES; pass++) {
        const ff_cost_piece sum = ff_cost_of_pass(costs, (ff_cost_pass)pass);
        if (!sum.nodes) continue;
        fprintf(out, "%-10s  %5d  %8.3f  %8.4f  %10.3f  %10.3f\n",
                ff_cost_pass_name((ff_cost_pass)pass), sum.nodes, sum.bytes / 0x1p30,
                (sum.matrix_flops + sum.f32_flops) * 1e-12,
                ff_cost_pass_us(costs, (ff_cost_pass)pass, card, 0.8) * 1e-3,
                ff_cost_pass_us(costs, (ff_cost_pass)pass, card, 0.65) * 1e-3);
    }
    if (!ff_card_known(card)) return;
    const double fast = ff_cost_pass_us(costs, FF_COST_PASSES, card, 0.8);
    const double slow = ff_cost_pass_us(costs, FF_COST_PASSES, card, 0.65);
    fprintf(out, "samples/s   %.0f at 80 %%, %.0f at 65 %%\n", costs->samples * 1e6 / fast,
            costs->samples * 1e6 / slow);
}
