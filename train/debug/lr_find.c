#include "train/debug/lr_find.h"

#include "format/base/memory.h"
#include "format/cli/interrupt.h"
#include "train/trainer/run_step.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the steps ---- */

/* As in fastai: `falls` is the factor of the mean's weights per step; the search stops when the
 * mean is `most` times its least value. */
static const double falls = 0.98, most = 4;

/* Adds the outcomes that have arrived; *ends: the loss has risen too far. */
static ff_status collect(ff_trainer *trainer, bool wait, ff_lr_curve *curve, double *least,
                         bool *ends, ff_error *error) {
    for (uint32_t count = 1; count;) {
        const ff_outcome *outcomes;
        FF_TRY(ff_step_outcomes(trainer->step, wait, &outcomes, &count, error));
        for (uint32_t i = 0; i < count && !*ends; i++) {
            const size_t k = curve->count;
            const double loss = ff_outcome_loss(&outcomes[i]) / (double)outcomes[i].count;
            ff_hyper hypers[FF_TRAINER_GROUPS];
            *ends = !isfinite(loss);
            if (*ends) break;
            ff_trainer_steps(trainer, k, hypers);
            curve->rate[k] = hypers[trainer->main_group].learning_rate;
            curve->loss[k] = loss;
            const double before = k ? curve->mean[k - 1] * (1 - pow(falls, (double)k)) : 0;
            curve->mean[k] =
                (falls * before + (1 - falls) * loss) / (1 - pow(falls, (double)k + 1));
            if (curve->mean[k] < *least) *least = curve->mean[k];
            *ends = curve->mean[k] > most * *least;
            curve->count++;
        }
    }
    return FF_OK;
}

/* ---- the rules ---- */

enum { LAST = 5 }; /* steps at the end that no rule looks at */

/* Chooses a rate in the longest falling subsequence of `mean`. */
static ff_status valley(ff_lr_curve *curve, size_t asked, ff_error *error) {
    enum { LEAST = 5 };
    const size_t from = asked / 10;
    if (curve->count < from + LAST + LEAST) return FF_OK;
    const size_t n = curve->count - from - LAST;
    const double *mean = curve->mean + from;
    size_t *lengths, end = 0;
    FF_TRY(ff_alloc(&lengths, n, sizeof *lengths, "the curve", error));
    for (size_t i = 0; i < n; i++) {
        lengths[i] = 1;
        for (size_t j = 0; j < i; j++)
            if (mean[i] < mean[j] && lengths[i] < lengths[j] + 1) lengths[i] = lengths[j] + 1;
        if (lengths[i] > lengths[end]) end = i;
    }
    const size_t length = lengths[end], start = end > length ? end - length : 0;
    free(lengths);
    const double third = (double)(end - start) / 3;
    if (length >= LEAST)
        curve->suggested = curve->rate[from + start + (size_t)third + (size_t)(third / 2)];
    return FF_OK;
}

/* Chooses the rate from which the mean falls the most to the next step, and the rate of the least
 * mean. */
static void choose_others(ff_lr_curve *curve, size_t asked) {
    const size_t from = asked / 10;
    const double *mean = curve->mean;
    size_t steep = from, least = from;
    if (curve->count < from + LAST + 2) return;
    for (size_t i = from; i < curve->count - LAST; i++) {
        if (mean[i] < mean[least]) least = i;
        /* The logarithms of the rates are equally spaced. */
        if (i + 1 < curve->count - LAST && mean[i + 1] - mean[i] < mean[steep + 1] - mean[steep])
            steep = i;
    }
    curve->steep = curve->rate[steep];
    curve->minimum = curve->rate[least] / 10;
}

ff_status ff_lr_find(ff_trainer *trainer, ff_lr_curve *curve, ff_error *error) {
    const uint64_t steps = (uint64_t)trainer->options->sweep.steps;
    double least = INFINITY;
    ff_step_input taken = {0};
    bool ends = false;
    *curve = (ff_lr_curve){0};
    FF_TRY(ff_alloc(&curve->rate, steps, sizeof(double), "the curve", error));
    FF_TRY(ff_alloc(&curve->loss, steps, sizeof(double), "the curve", error));
    FF_TRY(ff_alloc(&curve->mean, steps, sizeof(double), "the curve", error));
    for (uint64_t step = 0; step < steps && !ends; step++) {
        FF_TRY(ff_interrupt_check(error));
        FF_TRY(ff_run_step(trainer, step, ff_micro_batch_train, trainer->step, &taken, error));
        FF_TRY(collect(trainer, step + 1 == steps, curve, &least, &ends, error));
    }
    choose_others(curve, steps);
    return valley(curve, steps, error);
}

void ff_lr_curve_free(ff_lr_curve *curve) {
    free(curve->rate);
    free(curve->loss);
    free(curve->mean);
    *curve = (ff_lr_curve){0};
}

/* ---- the output ---- */

typedef struct range {
    double least, most;
} range;

static range range_of(const double *values, size_t count) {
    range r = {INFINITY, -INFINITY};
    for (size_t i = 0; i < count; i++) {
        r.least = fmin(r.least, values[i]);
        r.most = fmax(r.most, values[i]);
    }
    return r;
}

void ff_lr_curve_print(FILE *out, const ff_lr_curve *curve) {
    enum { LINES = 20, WIDTH = 50 };
    static const char bar[] = "##################################################";
    const double highest = range_of(curve->mean, curve->count).most;
    const size_t every = curve->count > LINES ? (curve->count + LINES - 1) / LINES : 1;
    fprintf(out, "     rate  smoothed loss\n");
    for (size_t i = 0; i < curve->count; i++)
        if (i % every == 0 || i + 1 == curve->count)
            fprintf(out, "%9.2e  %13.4g  %.*s\n", curve->rate[i], curve->mean[i],
                    (int)(WIDTH * fmax(curve->mean[i], 0) / highest), bar);
    if (curve->suggested > 0)
        fprintf(out, "by fastai's rules: valley %.2g, steep %.2g, minimum %.2g\n", curve->suggested,
                curve->steep, curve->minimum);
}

static json_t *numbers(const double *values, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(array, ff_json_number(values[i]))) break;
    return array;
}

ff_status ff_lr_curve_log(const ff_lr_curve *curve, ff_json_log *log, ff_error *error) {
    return ff_json_log_write(log,
                             json_pack("{ss sf sf sf so so so}", "event", "lr-find", "suggested",
                                       curve->suggested, "steep", curve->steep, "minimum",
                                       curve->minimum, "rate", numbers(curve->rate, curve->count),
                                       "loss", numbers(curve->loss, curve->count), "smoothed_loss",
                                       numbers(curve->mean, curve->count)),
                             error);
}

enum { WIDE = 720, HIGH = 440, LEFT = 70, RIGHT = 20, TOP = 30, BOTTOM = 40 };
static const ff_color white = {255, 255, 255}, ink = {40, 40, 40}, faint = {205, 205, 205},
                      line = {31, 96, 196}, chosen = {200, 40, 40};

static unsigned pixel(double value, range r, bool across) {
    const unsigned room = across ? WIDE - LEFT - RIGHT : HIGH - TOP - BOTTOM;
    const double share = r.most > r.least ? (value - r.least) / (r.most - r.least) : 0.5;
    const unsigned at = (unsigned)(fmin(fmax(share, 0), 1) * (room - 1));
    return across ? LEFT + at : HIGH - BOTTOM - 1 - at;
}

/* Draws a line from point to point: at each pixel a column between the two heights. */
static void draw_line(ff_canvas *canvas, const ff_lr_curve *curve, const double *values, range x,
                      range y, unsigned thick, ff_color color) {
    for (size_t i = 1; i < curve->count; i++) {
        const unsigned from = pixel(log10(curve->rate[i - 1]), x, true);
        const unsigned to = pixel(log10(curve->rate[i]), x, true);
        for (unsigned at = from; at <= to; at++) {
            const double share = to > from ? (double)(at - from) / (to - from) : 1;
            const double next = fmin(share + (to > from ? 1.0 / (to - from) : 1), 1);
            const double step = values[i] - values[i - 1];
            const unsigned a = pixel(values[i - 1] + share * step, y, false);
            const unsigned b = pixel(values[i - 1] + next * step, y, false);
            ff_canvas_fill(canvas, at, a < b ? a : b, thick, (a < b ? b - a : a - b) + thick,
                           color);
        }
    }
}

ff_status ff_lr_curve_draw(const ff_lr_curve *curve, ff_canvas *canvas, ff_error *error) {
    char text[96];
    FF_TRY(ff_canvas_create(canvas, WIDE, HIGH, white, error));
    if (curve->count < 2) return FF_OK;
    const range x = {log10(curve->rate[0]), log10(curve->rate[curve->count - 1])};
    const range y = {range_of(curve->loss, curve->count).least,
                     range_of(curve->mean, curve->count).most};
    for (double power = ceil(x.least); power <= x.most; power++) {
        const unsigned at = pixel(power, x, true);
        ff_canvas_fill(canvas, at, TOP, 1, HIGH - TOP - BOTTOM, faint);
        snprintf(text, sizeof text, "1e%.0f", power);
        ff_canvas_text(canvas, at - 12, HIGH - BOTTOM + 8, 1, text, ink);
    }
    for (int i = 0; i <= 4; i++) {
        const double value = y.least + (y.most - y.least) * i / 4;
        const unsigned at = pixel(value, y, false);
        ff_canvas_fill(canvas, LEFT, at, WIDE - LEFT - RIGHT, 1, faint);
        snprintf(text, sizeof text, "%8.3g", value);
        ff_canvas_text(canvas, 8, at - 4, 1, text, ink);
    }
    draw_line(canvas, curve, curve->loss, x, y, 1, (ff_color){170, 195, 230});
    draw_line(canvas, curve, curve->mean, x, y, 2, line);
    if (curve->suggested > 0) {
        ff_canvas_fill(canvas, pixel(log10(curve->suggested), x, true), TOP, 2, HIGH - TOP - BOTTOM,
                       chosen);
        snprintf(text, sizeof text, "suggested: %.2g", curve->suggested);
        ff_canvas_text(canvas, LEFT, 10, 1, text, chosen);
    }
    ff_canvas_text(canvas, WIDE - 200, 10, 1, "loss by learning rate", ink);
    return FF_OK;
}
