#include "train/debug/run_log.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a line "start", what updates depend on. */
static const char *const updates[] = {
    "epochs",    "augment",   "learning_rate", "schedule",        "warmup_steps",
    "momentum",  "nesterov",  "weight_decay",  "label_smoothing", "groups",
    "optimizer", "clip_norm", "ema",           "accumulate"};

static bool same(const json_t *one, const json_t *other) {
    for (size_t i = 0; i < sizeof updates / sizeof *updates; i++) {
        json_t *a = json_object_get(one, updates[i]), *b = json_object_get(other, updates[i]);
        if (a && b && !json_equal(a, b)) return false;
    }
    return true;
}

uint64_t ff_run_log_change(const char *path, uint64_t from, uint64_t to) {
    FILE *file = fopen(path, "re");
    json_t *before = NULL;
    uint64_t changed = 0;
    char *line = NULL;
    size_t room = 0;
    while (file && getline(&line, &room, file) > 0) {
        json_t *start = strstr(line, "\"start\"") ? json_loads(line, 0, NULL) : NULL;
        const char *event = json_string_value(json_object_get(start, "event"));
        if (!event || strcmp(event, "start") != 0) {
            json_decref(start);
            continue;
        }
        const json_int_t step = json_integer_value(json_object_get(start, "first_step"));
        if (before && !same(before, start) && step > 0 && (uint64_t)step > from &&
            (uint64_t)step < to)
            changed = (uint64_t)step;
        json_decref(before);
        before = start;
    }
    json_decref(before);
    free(line);
    if (file) fclose(file);
    return changed;
}
