/* Updates on the CPU: segment by segment, each by its optimizer; Muon filter bank by filter
 * bank. */
#include "format/base/memory.h"
#include "loader/device/absent.h"
#include "train/compute/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ff_prepared_update {
    ff_update_spec spec; /* its arrays are copies */
    ff_matrix_product product;
    float *scratch; /* of Muon's steps, for the largest filter bank */
    size_t scratch_bytes;
};

/* The filters of a bank as a matrix. */
typedef struct shape {
    size_t rows, columns;
} shape;

static shape shape_of(const ff_conv *conv) {
    const ff_conv_shape *s = &conv->shape;
    return (shape){(size_t)s->output.c, (size_t)s->input.c * s->kernel * s->kernel};
}

/* Scratch: u in the held order, u in torch's order, the scratch of the steps; each aligned to 64
 * bytes. */
static size_t held_floats(const ff_conv *conv) {
    return ff_align_u64(conv->weight_count, 16);
}
static size_t torch_floats(const shape *s) {
    return ff_align_u64(s->rows * s->columns, 16);
}

static size_t muon_scratch(const ff_update_spec *spec) {
    size_t most = 0;
    for (int i = 0; i < spec->segment_count; i++) {
        const ff_conv *conv = spec->segments[i].conv;
        if (spec->segments[i].rule != FF_RULE_MUON) continue;
        const shape s = shape_of(conv);
        const size_t floats =
            held_floats(conv) + torch_floats(&s) + ff_muon_room(s.rows, s.columns);
        if (floats > most) most = floats;
    }
    return most * sizeof(float);
}

static ff_arrays arrays_of(const ff_update_segment *s) {
    const bool narrow = !s->sums && s->gradient_dtype == FF_BF16;
    ff_arrays arrays = {.count = s->count,
                        .value = s->values,
                        .gradient = s->sums  ? s->sums
                                    : narrow ? NULL
                                             : s->gradient,
                        .narrow_gradient = narrow ? s->gradient : NULL,
                        .working = s->working,
                        .adapts = s->adapts};
    memcpy(arrays.state, s->state, sizeof arrays.state);
    return arrays;
}

static void run_muon(ff_compute *compute, const ff_prepared_update *update,
                     const ff_update_segment *segment, const ff_muon *muon, float scale) {
    const ff_conv *conv = segment->conv;
    const shape s = shape_of(conv);
    float *held = update->scratch, *u = held + held_floats(conv), *steps = u + torch_floats(&s);
    const ff_arrays arrays = arrays_of(segment);
    const float *gradient = arrays.gradient;
    if (arrays.narrow_gradient) {
        ff_convert(held, FF_F32, arrays.narrow_gradient, FF_BF16, segment->count);
        gradient = held;
    }
    ff_muon_momentum(muon, scale, segment->count, segment->state[0], gradient, held);
    compute->ops->conv_export(conv, held, u);
    ff_muon_orthogonalise(muon, s.rows, s.columns, u, steps, update->product, compute);
    compute->ops->conv_import(conv, u, held);
    ff_muon_apply(muon, s.rows, segment->count, segment->values, held);
    if (segment->working)
        ff_convert(segment->working, FF_BF16, segment->values, FF_F32, segment->count);
}

static double rate_at(const ff_update_spec *spec, int group) {
    const uint64_t last = spec->how.rate_steps - 1, step = spec->control->step;
    return spec->how.rates[(uint64_t)group * spec->how.rate_steps + (step < last ? step : last)];
}

/* The factor of all gradients: from the mean over micro-batches, from the loss scale of 16-bit
 * gradients, and from clipping. NaN if any gradient is not finite. */
static float gradient_scale(const ff_compute *compute, const ff_update_spec *spec) {
    const double grown = compute->dtype == FF_F32 ? 1 : (double)spec->control->loss_scale;
    const double mean = ff_sum_factor(spec->total, spec->how.summed) / grown;
    const bool clips = spec->how.clip_norm > 0;
    double sum = 0;
    for (int i = 0; i < spec->segment_count; i++) {
        const ff_arrays arrays = arrays_of(&spec->segments[i]);
        sum += ff_optimizer_sum(NULL, &arrays,
                                clips ? ff_squares_of_gradients : ff_zeros_of_gradients);
    }
    if (!isfinite(sum)) return NAN;
    return (float)(clips ? mean * (double)ff_clip_factor(spec->how.clip_norm, mean * sqrt(sum))
                         : mean);
}

static void update_all(ff_compute *compute, const ff_prepared_update *update, float scale) {
    const ff_update_spec *spec = &update->spec;
    const ff_control *control = spec->control;
    for (int i = 0; i < spec->segment_count; i++) {
        const ff_update_segment *segment = &spec->segments[i];
        const ff_hyper *hyper = &spec->how.groups[segment->group];
        const double rate = rate_at(spec, segment->group);
        if (segment->rule == FF_RULE_MUON) {
            const ff_muon muon = {rate, hyper->momentum, hyper->nesterov, false};
            run_muon(compute, update, segment, &muon, scale);
        } else {
            const ff_factors factors = ff_factors_of(hyper, rate, control->updates, scale);
            const ff_arrays arrays = arrays_of(segment);
            ff_optimizer_at(segment->rule)->update(&factors, &arrays);
        }
        if (segment->average)
            ff_optimizer_average(spec->how.ema_decay, segment->count, segment->values,
                                 segment->average);
    }
    if (spec->average_buffers)
        ff_optimizer_average(spec->how.ema_decay, spec->buffer_count, spec->buffers,
                             spec->average_buffers);
}

void ff_cpu_update_run(ff_compute *compute, ff_prepared_update *update, ff_outcome *ring,
                       uint32_t ring_size) {
    const ff_update_spec *spec = &update->spec;
    ff_control *control = spec->control;
    const float scale = control->halted ? NAN : gradient_scale(compute, spec);
    const bool moves = !isnan(scale);
    if (moves) update_all(compute, update, scale);
    ff_outcome *outcome = &ring[control->step % ring_size];
    outcome->step = control->step;
    outcome->loss_scale = control->loss_scale;
    outcome->learning_rate = (float)rate_at(spec, 0);
    outcome->non_finite = !moves;
    *(moves ? &control->updates : &control->skipped) += 1;
    control->step++;
    control->part = 0;
}

void ff_cpu_sum_gradients(ff_compute *compute, const ff_gradient_sum *sum) {
    const float weight = sum->weight > 0
                             ? sum->weight
                             : (float)sum->ring[sum->control->step % sum->ring_size].weight;
    (void)compute;
    ff_optimizer_add(weight, sum->first, sum->count, sum->gradient, sum->dtype, sum->sums);
}

void ff_cpu_outcome_add(ff_compute *compute, ff_prepared_update *update, bool first,
                        ff_outcome *ring, uint32_t ring_size) {
    const ff_update_spec *spec = &update->spec;
    (void)compute;
    ff_outcome_add(spec->total, &ring[spec->control->step % ring_size], first,
                   spec->control->part++, spec->how.part_samples, spec->how.first_sample);
}

void ff_cpu_outcome_join(ff_compute *compute, ff_prepared_update *update, const ff_outcome *ranks,
                         int count, ff_outcome *ring, uint32_t ring_size) {
    const ff_update_spec *spec = &update->spec;
    (void)compute;
    ff_outcome_join(ranks, count, spec->total, &ring[spec->control->step % ring_size],
                    spec->control);
}

static ff_status copy(void *to, const void *from, uint64_t count, size_t size, ff_error *error) {
    FF_TRY(ff_alloc(to, count, size, "an update", error));
    memcpy(*(void **)to, from, count * size);
    return FF_OK;
}

static ff_status build(ff_compute *compute, ff_prepared_update *update, const ff_update_spec *spec,
                       ff_error *error) {
    const uint64_t groups = (uint64_t)spec->how.group_count, rates = groups * spec->how.rate_steps;
    FF_TRY(copy(&update->spec.segments, spec->segments, (uint64_t)spec->segment_count,
                sizeof *spec->segments, error));
    FF_TRY(
        copy(&update->spec.how.groups, spec->how.groups, groups, sizeof *spec->how.groups, error));
    if (ff_device_is_absent(compute->device)) /* memory is only counted: values are not needed */
        FF_TRY(ff_alloc(&update->spec.how.rates, rates, sizeof(double), "learning rates", error));
    else
        FF_TRY(copy(&update->spec.how.rates, spec->how.rates, rates, sizeof(double), error));
    const size_t bytes = muon_scratch(spec);
    if (!bytes) return FF_OK;
    FF_TRY(ff_compute_allocate(compute, &update->scratch, bytes, "Muon's matrices", error));
    update->scratch_bytes = bytes;
    compute->update_bytes += bytes;
    return FF_OK;
}

ff_status ff_cpu_update_create(ff_compute *compute, const ff_update_spec *spec,
                               ff_matrix_product product, ff_prepared_update **out,
                               ff_error *error) {
    ff_prepared_update *update;
    *out = NULL;
    FF_TRY(ff_alloc(&update, 1, sizeof *update, "an update", error));
    update->spec = *spec;
    update->spec.segments = NULL;
    update->spec.how.groups = NULL;
    update->spec.how.rates = NULL;
    update->product = product;
    const ff_status status = build(compute, update, spec, error);
    if (status == FF_OK)
        *out = update;
    else
        ff_cpu_update_destroy(compute, update);
    return status;
}

void ff_cpu_update_destroy(ff_compute *compute, ff_prepared_update *update) {
    if (!update) return;
    if (update->scratch) ff_compute_release(compute, update->scratch);
    compute->update_bytes -= update->scratch_bytes;
    free((void *)update->spec.segments);
    free((void *)update->spec.how.groups);
    free((void *)update->spec.how.rates);
    free(update);
}
