#include "train/checkpoint/state.h"

#include "format/base/json.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* LOSS: an F64 that may be NaN or infinite. */
typedef enum number_kind { U32, U64, I64, F32, F64, LOSS } number_kind;

#define AT(member, kind)                                                                           \
    { #member, offsetof(ff_run_state, member), kind, false }
/* Checkpoints of an older fftrain lack this member. */
#define NEWER(member, kind)                                                                        \
    { #member, offsetof(ff_run_state, member), kind, true }
static const struct {
    const char *name;
    size_t offset;
    number_kind kind;
    bool newer;
} numbers[] = {
    AT(control.step, U64),       AT(control.updates, U64),
    AT(control.loss_scale, F32), AT(control.growth, F32),
    AT(control.backoff, F32),    AT(control.growth_interval, U32),
    AT(control.good_steps, U32), AT(control.non_finite, U32),
    AT(control.skipped, U64),    AT(forwards, I64),
    AT(epoch.loss_sum, F64),     AT(epoch.count, I64),
    AT(epoch.correct, I64),      AT(epoch.skipped, U64),
    AT(epoch.loss_scale, F64),   AT(epoch.samples, U64),
    AT(epoch.train_ns, U64),     AT(epoch.wait_ns, U64),
    AT(totals.steps, U64),       AT(totals.samples, U64),
    AT(totals.skipped, U64),     AT(totals.train_ns, U64),
    AT(totals.wait_ns, U64),     AT(totals.val_ns, U64),
    AT(totals.last_val_ns, U64), AT(totals.val_step, U64),
    AT(totals.val.epoch, U32),   AT(totals.val.views, U32),
    AT(totals.val.loss, LOSS),   AT(totals.val.accuracy, F64),
    AT(totals.best.epoch, U32),  AT(totals.best.views, U32),
    AT(totals.best.loss, LOSS),  AT(totals.best.accuracy, F64),
    AT(totals.best_by, U32),     NEWER(totals.waited, U32),
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static json_t *number_of(const void *at, number_kind kind) {
    switch (kind) {
    case U32: return json_integer(*(const uint32_t *)at);
    case U64: return json_integer((json_int_t) * (const uint64_t *)at);
    case I64: return json_integer(*(const int64_t *)at);
    case F32: return ff_json_number((double)*(const float *)at);
    case F64:
    case LOSS: return ff_json_number(*(const double *)at);
    }
    return NULL;
}

ff_status ff_run_state_write(const ff_run_state *state, ff_buffer *text, ff_error *error) {
    json_t *object = json_object();
    int failed = !object;
    for (int i = 0; i < NUMBERS; i++)
        failed |= json_object_set_new(
            object, numbers[i].name,
            number_of((const char *)state + numbers[i].offset, numbers[i].kind));
    char *dumped = failed ? NULL : json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(object);
    if (!dumped) return ff_fail(error, FF_NO_MEMORY, "no memory for the state of the run");
    const ff_status status = ff_buffer_printf(text, error, "%s", dumped);
    free(dumped);
    return status;
}

/* Reads a loss in the form that ff_json_number writes. */
static bool read_loss(const json_t *value, double *to) {
    const char *text = json_string_value(value);
    if (json_is_number(value))
        *to = json_number_value(value);
    else if (text && !strcmp(text, "NaN"))
        *to = NAN;
    else if (text && !strcmp(text, "Infinity"))
        *to = INFINITY;
    else if (text && !strcmp(text, "-Infinity"))
        *to = -INFINITY;
    else
        return false;
    return true;
}

/* Whole numbers are at most 2^63 - 1, JSON's largest. */
static bool read_number(const json_t *value, number_kind kind, void *to) {
    const json_int_t whole = json_integer_value(value);
    if (kind == LOSS) return read_loss(value, to);
    if (kind == F32 || kind == F64) {
        const double real = json_number_value(value);
        if (!json_is_number(value) || !isfinite(real)) return false;
        if (kind == F32)
            *(float *)to = (float)real;
        else
            *(double *)to = real;
        return true;
    }
    if (!json_is_integer(value) || (kind != I64 && whole < 0)) return false;
    if (kind == U32 && whole > UINT32_MAX) return false;
    if (kind == U32)
        *(uint32_t *)to = (uint32_t)whole;
    else
        *(int64_t *)to = whole;
    return true;
}

ff_status ff_run_state_read(ff_run_state *state, const char *text, ff_error *error) {
    json_error_t where;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    ff_status status = FF_OK;
    *state = (ff_run_state){0};
    if (!json_is_object(object))
        status = ff_fail(error, FF_BAD_DATA, "the state of the run is not a JSON object: %s",
                         object ? "" : where.text);
    for (int i = 0; status == FF_OK && i < NUMBERS; i++) {
        const json_t *value = json_object_get(object, numbers[i].name);
        if (!value && numbers[i].newer) continue;
        if (!read_number(value, numbers[i].kind, (char *)state + numbers[i].offset))
            status = ff_fail(error, FF_BAD_DATA, "the state of the run has no valid '%s'",
                             numbers[i].name);
    }
    json_decref(object);
    return status;
}

ff_evaluated ff_run_state_evaluation(const ff_run_state *state) {
    const bool now = state->totals.val_step == state->totals.steps && !state->epoch.samples;
    return now ? state->totals.val : (ff_evaluated){0};
}
