#include "train/compute/optimizers/optimizers.h"

#include "train/compute/vector.h"

#include <string.h>

static const ff_optimizer *const table[FF_RULE_COUNT] = {
    [FF_RULE_SGD] = &ff_optimizer_sgd,     [FF_RULE_MUON] = &ff_optimizer_muon,
    [FF_RULE_ADAMW] = &ff_optimizer_adamw, [FF_RULE_LARS] = &ff_optimizer_lars,
    [FF_RULE_LAMB] = &ff_optimizer_lamb,
};

const ff_optimizer *ff_optimizer_at(int rule) {
    return rule >= 0 && rule < FF_RULE_COUNT ? table[rule] : NULL;
}

ff_rule ff_optimizer_named(const char *name, size_t length) {
    int rule = 0;
    while (rule < FF_RULE_COUNT &&
           (strlen(table[rule]->name) != length || strncmp(name, table[rule]->name, length) != 0))
        rule++;
    return (ff_rule)rule;
}

static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
    {"lr", offsetof(ff_hyper, learning_rate)},
    {"momentum", offsetof(ff_hyper, momentum)},
    {"weight-decay", offsetof(ff_hyper, weight_decay)},
    {"beta1", offsetof(ff_hyper, beta1)},
    {"beta2", offsetof(ff_hyper, beta2)},
    {"eps", offsetof(ff_hyper, epsilon)},
    {"trust", offsetof(ff_hyper, trust)},
};

const char *ff_hyper_name(int index) {
    const int count = (int)(sizeof numbers / sizeof *numbers);
    return index >= 0 && index < count ? numbers[index].name : NULL;
}

double *ff_hyper_at(const ff_hyper *hyper, int index) {
    return (double *)(void *)((char *)hyper + numbers[index].offset);
}

/* ---- passes ---- */

static ff_arrays part_of(const ff_arrays *a, size_t from, size_t end) {
    ff_arrays part = *a;
    part.count = end - from;
    part.value += from;
    if (part.narrow_gradient)
        part.narrow_gradient += from;
    else
        part.gradient += from;
    if (part.working) part.working += from;
    for (int i = 0; i < FF_STATES; i++)
        if (part.state[i]) part.state[i] += from;
    return part;
}

enum { SPAN = 2048 }; /* four such arrays stay in the L1 cache */

/* part_of for at most SPAN elements, with a gradient of bf16 converted to f32 in `room`. */
static ff_arrays span_of(const ff_arrays *a, size_t from, float *room) {
    const size_t left = a->count - from;
    ff_arrays span = part_of(a, from, from + (left < SPAN ? left : SPAN));
    if (!span.narrow_gradient) return span;
    ff_convert(room, FF_F32, span.narrow_gradient, FF_BF16, span.count);
    span.gradient = room;
    return span;
}

void ff_optimizer_spans(const ff_factors *factors, const ff_arrays *arrays,
                        void (*update)(const ff_factors *factors, const ff_arrays *span)) {
#pragma omp parallel for schedule(static)
    for (size_t from = 0; from < arrays->count; from += SPAN) {
        float room[SPAN];
        const ff_arrays span = span_of(arrays, from, room);
        update(factors, &span);
        if (span.working) ff_convert(span.working, FF_BF16, span.value, FF_F32, span.count);
    }
}

FF_VECTOR_CLONES
static void average_span(const ff_factors *factors, const ff_arrays *a) {
    const float keep = factors->momentum, take = 1.0f - keep;
    float *restrict average = a->value;
    const float *restrict value = a->gradient;
    for (size_t i = 0; i < a->count; i++) average[i] = keep * average[i] + take * value[i];
}

void ff_optimizer_average(double decay, size_t count, const float *value, float *average) {
    const ff_factors factors = {.momentum = (float)decay};
    const ff_arrays arrays = {.count = count, .value = average, .gradient = value};
    ff_optimizer_spans(&factors, &arrays, average_span);
}

FF_VECTOR_CLONES
static void add_span(const ff_factors *factors, const ff_arrays *a) {
    const float weight = factors->scale;
    float *restrict sum = a->value;
    const float *restrict value = a->gradient;
    if (a->adapts) /* skips the first; never -0, because adding a rank's 0 would change its sign */
        for (size_t i = 0; i < a->count; i++) sum[i] = 0.0f + weight * value[i];
    else
        for (size_t i = 0; i < a->count; i++) sum[i] += weight * value[i];
}

void ff_optimizer_add(float weight, bool first, size_t count, const void *value, ff_dtype dtype,
                      float *sum) {
    const ff_factors factors = {.scale = weight};
    const ff_arrays arrays = {.count = count,
                              .value = sum,
                              .gradient = dtype == FF_F32 ? value : NULL,
                              .narrow_gradient = dtype == FF_F32 ? NULL : value,
                              .adapts = first};
    ff_optimizer_spans(&factors, &arrays, add_span);
}

/* The sum over a part, of f32 at once, of bf16 by spans. */
static double sum_part(const ff_factors *factors, const ff_arrays *part,
                       double (*sum)(const ff_factors *factors, const ff_arrays *part)) {
    float room[SPAN];
    double all = 0;
    if (!part->narrow_gradient) return sum(factors, part);
    for (size_t from = 0; from < part->count; from += SPAN) {
        const ff_arrays span = span_of(part, from, room);
        all += sum(factors, &span);
    }
    return all;
}

double ff_optimizer_sum(const ff_factors *factors, const ff_arrays *arrays,
                        double (*sum)(const ff_factors *factors, const ff_arrays *part)) {
    enum { PARTS = 256 };
    double parts[PARTS], all = 0;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < PARTS; i++) {
        size_t from, end;
        ff_share(arrays->count, PARTS, i, &from, &end);
        const ff_arrays part = part_of(arrays, from, end);
        parts[i] = sum_part(factors, &part, sum);
    }
    for (int i = 0; i < PARTS; i++) all += parts[i];
    return all;
}

/* Eight sums, so that the compiler makes vectors of the loop. */
FF_VECTOR_CLONES
static double squares(size_t count, const float *values) {
    double sums[8] = {0}, sum = 0;
    for (; count >= 8; count -= 8, values += 8)
        for (int k = 0; k < 8; k++) sums[k] += (double)values[k] * (double)values[k];
    for (size_t k = 0; k < count; k++) sums[k] += (double)values[k] * (double)values[k];
    for (int k = 0; k < 8; k++) sum += sums[k];
    return sum;
}

double ff_squares_of_values(const ff_factors *factors, const ff_arrays *part) {
    (void)factors;
    return squares(part->count, part->value);
}

double ff_squares_of_gradients(const ff_factors *factors, const ff_arrays *part) {
    (void)factors;
    return squares(part->count, part->gradient);
}

FF_VECTOR_CLONES
static float zeros(size_t count, const float *values) {
    float sums[16] = {0}, sum = 0;
    for (; count >= 16; count -= 16, values += 16)
        for (int k = 0; k < 16; k++) sums[k] += 0 * values[k];
    for (size_t k = 0; k < count; k++) sums[k] += 0 * values[k];
    for (int k = 0; k < 16; k++) sum += sums[k];
    return sum;
}

double ff_zeros_of_gradients(const ff_factors *factors, const ff_arrays *part) {
    (void)factors;
    return (double)zeros(part->count, part->gradient);
}
