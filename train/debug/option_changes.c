#include "train/debug/option_changes.h"

#include "format/base/json.h"

#include <stdbool.h>
#include <string.h>

/* The keys of a line "start" that updates depend on. */
static const char *const updates[] = {
    "epochs",    "augment",   "learning_rate", "schedule",        "warmup_steps",
    "momentum",  "nesterov",  "weight_decay",  "label_smoothing", "groups",
    "optimizer", "clip_norm", "ema",           "accumulate",      "loss"};

static bool same(const json_t *one, const json_t *other) {
    for (size_t i = 0; i < sizeof updates / sizeof *updates; i++) {
        json_t *a = json_object_get(one, updates[i]), *b = json_object_get(other, updates[i]);
        if (a && b && !json_equal(a, b)) return false;
    }
    return true;
}

typedef struct search {
    uint64_t from, to, found;
    json_t *before; /* the line "start" of the previous session */
} search;

static ff_status take_line(void *context, json_t *line, ff_error *error) {
    search *s = context;
    const char *event = json_string_value(json_object_get(line, "event"));
    (void)error;
    if (!event || strcmp(event, "start") != 0) return FF_OK;
    const json_int_t step = json_integer_value(json_object_get(line, "first_step"));
    if (s->before && !same(s->before, line) && step > 0 && (uint64_t)step > s->from &&
        (uint64_t)step < s->to)
        s->found = (uint64_t)step;
    json_decref(s->before);
    s->before = json_incref(line);
    return FF_OK;
}

uint64_t ff_option_changes_last(const char *path, uint64_t from, uint64_t to) {
    search s = {.from = from, .to = to};
    const ff_status status = ff_json_lines_read(path, take_line, &s, NULL, NULL);
    json_decref(s.before);
    return status == FF_OK ? s.found : 0;
}
