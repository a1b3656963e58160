#include "train/debug/gradients.h"

#include "format/base/memory.h"
#include "format/cli/interrupt.h"
#include "format/cli/say.h"
#include "train/net/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* rounding: of the loss that f32 layers compute, relative to the loss; change: the intended change
 * of the loss; largest: the largest change of a parameter, relative to its values or to 0.01. */
static const double rounding = 3e-7, change = 1e-4, largest = 0.02;
enum { DIRECTIONS = 2 };

typedef struct probe {
    ff_trainer *trainer;
    ff_step *step;
    ff_plan *plan;
    ff_batch batch;
    float *values, *moved, *gradient; /* as large as the largest parameter */
    signed char *direction;
    uint64_t state; /* of the random numbers */
} probe;

static ff_status loss_of(probe *p, double *loss, ff_error *error) {
    ff_outcome outcome;
    FF_TRY(ff_interrupt_check(error));
    FF_TRY(ff_step_gradients(p->step, p->plan, &p->batch, &outcome, error));
    *loss = outcome.loss_sum;
    if (!p->trainer->summed_loss) *loss /= fmax(outcome.weight, 1e-30);
    if (isfinite(*loss)) return FF_OK;
    return ff_fail(error, FF_FAILED,
                   "--check-gradients: the loss of the first batch is not a number");
}

/* The loss after moving the parameter by h in the direction. */
static ff_status loss_at(probe *p, int index, double h, double *loss, ff_error *error) {
    const uint64_t count = ff_model_parameter(p->trainer->model, index)->count;
    for (uint64_t i = 0; i < count; i++)
        p->moved[i] = p->values[i] + (float)h * (float)p->direction[i];
    ff_model_set(p->trainer->model, index, FF_PART_VALUE, p->moved);
    return loss_of(p, loss, error);
}

/* splitmix64 (S. Vigna, public domain) */
static void draw_direction(probe *p, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t z = p->state += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        p->direction[i] = z >> 63 ? 1 : -1;
    }
}

/* How far a difference quotient is from its slope, relative to the larger of gradient and
 * quotient. */
typedef struct distance {
    double error;
    double rounding; /* how much of the error may be the loss's rounding */
    double beyond;   /* error - rounding, at least 0; NAN if rounding hides the gradient */
} distance;

typedef struct finding {
    double norm; /* of the gradient */
    distance apart;
} finding;

static ff_status compare(probe *p, int index, double h, double slope, double norm, double base,
                         distance *apart, ff_error *error) {
    double up, down;
    FF_TRY(loss_at(p, index, h, &up, error));
    FF_TRY(loss_at(p, index, -h, &down, error));
    const double quotient = (up - down) / (2 * h), noise = rounding * fabs(base) / (2 * h);
    const double size = fmax(norm, fabs(quotient));
    apart->error = fabs(quotient - slope) / size;
    apart->rounding = noise / size;
    apart->beyond = fmax(fabs(quotient - slope) - noise, 0) / size;
    if (!(noise < FF_GRADIENT_ERROR * size)) apart->beyond = NAN;
    return FF_OK;
}

/* Orders by the error without rounding, then by the error. False for NAN. */
static bool is_farther(const distance *a, const distance *b) {
    return a->beyond > b->beyond || (a->beyond == b->beyond && a->error > b->error);
}

static ff_status check_parameter(probe *p, int index, double base, finding *found,
                                 ff_error *error) {
    const uint64_t count = ff_model_parameter(p->trainer->model, index)->count;
    double squares = 0, sizes = 0;
    ff_model_get(p->trainer->model, index, FF_PART_GRADIENT, p->gradient);
    ff_model_get(p->trainer->model, index, FF_PART_VALUE, p->values);
    for (uint64_t i = 0; i < count; i++) {
        squares += (double)p->gradient[i] * (double)p->gradient[i];
        sizes += (double)p->values[i] * (double)p->values[i];
    }
    *found = (finding){.norm = sqrt(squares), .apart = {.beyond = NAN}};
    const double most = largest * fmax(sqrt(sizes / (double)count), 0.01);
    const double h = fmin(change * fabs(base) / fmax(found->norm, 1e-30), most);
    for (int k = 0; k < DIRECTIONS; k++) {
        static const double tried[] = {0.25, 0.0625, 1};
        double slope = 0;
        distance least = {.beyond = NAN};
        draw_direction(p, count);
        for (uint64_t i = 0; i < count; i++)
            slope += (double)p->gradient[i] * (double)p->direction[i];
        for (int i = 0; i < 3 && !(least.beyond <= FF_GRADIENT_ERROR); i++) {
            distance apart;
            FF_TRY(compare(p, index, tried[i] * h, slope, found->norm, base, &apart, error));
            if (isnan(least.beyond) || apart.beyond < least.beyond) least = apart;
        }
        if (isnan(found->apart.beyond) || is_farther(&least, &found->apart)) found->apart = least;
    }
    ff_model_set(p->trainer->model, index, FF_PART_VALUE, p->values);
    return ff_model_check(p->trainer->model, error);
}

static ff_status check_all(probe *p, FILE *out, ff_error *error) {
    const ff_model *model = p->trainer->model;
    int wrong = 0, checked = 0, longest = 9;
    char first[96] = "";
    double base;
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const int length = (int)strlen(ff_model_parameter(model, i)->name);
        if (length > longest) longest = length;
    }
    fprintf(out, "%-*s  %10s  %10s  %14s  %s\n", longest, "parameter", "elements", "|gradient|",
            "relative error", "rounding up to");
    for (int i = 0; i < ff_model_parameter_count(model); i++) {
        const ff_parameter *parameter = ff_model_parameter(model, i);
        finding found;
        if (!parameter->trained || !ff_plan_trains_parameter(p->plan, i)) continue;
        FF_TRY(loss_of(p, &base, error)); /* computes the gradients of unchanged parameters again */
        FF_TRY(check_parameter(p, i, base, &found, error));
        const bool bad = found.apart.beyond > FF_GRADIENT_ERROR;
        fprintf(out, "%-*s  %10" PRIu64 "  %10.3g  ", longest, parameter->name, parameter->count,
                found.norm);
        if (isnan(found.apart.beyond))
            fprintf(out, "too small to judge\n");
        else
            fprintf(out, "%14.1e  %14.1e%s\n", found.apart.error, found.apart.rounding,
                    bad ? "  WRONG" : "");
        fflush(out);
        checked += !isnan(found.apart.beyond);
        if (bad && !wrong++) snprintf(first, sizeof first, "%s", parameter->name);
    }
    if (wrong)
        return ff_fail(error, FF_FAILED,
                       "--check-gradients: the gradients of %s differ from the loss's differences "
                       "by more than %g %%, of %s first",
                       ff_say_count((uint64_t)wrong, "parameter", "parameters").text,
                       100 * FF_GRADIENT_ERROR, first);
    fprintf(out, "The gradients of %s are the loss's, within %g %%.\n",
            ff_say_count((uint64_t)checked, "parameter", "parameters").text,
            100 * FF_GRADIENT_ERROR);
    return FF_OK;
}

ff_status ff_check_gradients(ff_trainer *trainer, FILE *out, ff_error *error) {
    probe p = {.trainer = trainer, .state = trainer->seed};
    ff_compute *compute = ff_model_compute(trainer->model);
    ff_feed_batch next = {0};
    uint64_t most = 1;
    ff_status status;
    if (trainer->precision != FF_PRECISION_F32)
        return ff_fail(error, FF_USAGE,
                       "--check-gradients: differences of a loss need --precision f32, not %s",
                       ff_precision_name(trainer->precision));
    for (int i = 0; i < ff_model_parameter_count(trainer->model); i++)
        most = ff_model_parameter(trainer->model, i)->count > most
                   ? ff_model_parameter(trainer->model, i)->count
                   : most;
    FF_TRY_DONE(ff_alloc(&p.values, most, sizeof(float), "a parameter", error));
    FF_TRY_DONE(ff_alloc(&p.moved, most, sizeof(float), "a parameter", error));
    FF_TRY_DONE(ff_alloc(&p.gradient, most, sizeof(float), "a gradient", error));
    FF_TRY_DONE(ff_alloc(&p.direction, most, 1, "a direction", error));
    FF_TRY_DONE(ff_trainer_make_step(trainer, trainer->options, false, &p.step, error));
    FF_TRY_DONE(ff_feed_next(trainer->train_feed, &next, error));
    FF_TRY_DONE(ff_feed_make(trainer->train_feed, compute->stream, error));
    p.plan = ff_trainer_plan(trainer, 0, next.count);
    p.batch = next.batch;
    p.batch.weights = NULL; /* samples come first, and all of them count */
    FF_TRY_DONE(check_all(&p, out, error));
done:
    ff_step_destroy(&p.step);
    free(p.values);
    free(p.moved);
    free(p.gradient);
    free(p.direction);
    return status;
}
