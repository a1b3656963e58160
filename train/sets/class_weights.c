#include "train/sets/class_weights.h"

#include "format/base/memory.h"
#include "format/base/read.h"
#include "format/base/real.h"
#include "format/cli/nearest.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT_BYTES = 1 << 26 };

/* The field of the labels, which ff_splits_open has found. */
static const ff_field *field_of(const ff_splits *splits, size_t *index) {
    *index = 0;
    (void)!ff_dataset_field(splits->train, splits->label, index, NULL);
    return &ff_dataset_metadata(splits->train)->field[*index];
}

/* The name of a class, or its number if the classes have no names. */
static const char *name_of(const ff_field *field, uint32_t class, char number[16]) {
    snprintf(number, 16, "%" PRIu32, class);
    return field->class_count ? field->class_name[class] : number;
}

static ff_status balance(float *weights, const ff_splits *splits, ff_error *error) {
    size_t index;
    const ff_field *field = field_of(splits, &index);
    uint64_t *counts, labelled = 0;
    char number[16];
    ff_status status = FF_OK;
    FF_TRY(ff_alloc(&counts, splits->classes, sizeof *counts, "class weights", error));
    const ff_selection *selected = &splits->train_selected;
    for (uint64_t i = 0; i < ff_splits_count(splits->train, selected); i++) {
        int64_t class;
        ff_dataset_scan(splits->train, i, FF_SCAN_LABELS);
        FF_TRY_DONE(ff_dataset_class(splits->train, ff_storage_order_at(&selected->numbers, i),
                                     index, &class, error));
        if (class < 0) continue;
        counts[class]++;
        labelled++;
    }
    for (uint32_t c = 0; c < splits->classes && status == FF_OK; c++) {
        weights[c] = (float)((double)labelled / ((double)splits->classes * (double)counts[c]));
        if (!counts[c])
            status =
                ff_fail(error, FF_USAGE, "--class-weights balanced: %s has no sample of class '%s'",
                        ff_dataset_path(splits->train), name_of(field, c, number));
    }
done:
    free(counts);
    return status;
}

/* Finds a class by its name, else by its number. 00 is not a number: a class may have this name. */
static ff_status find_class(const ff_splits *splits, const ff_field *field, const char *name,
                            uint32_t *class, ff_error *error) {
    ff_nearest nearest = {.wanted = name, .length = strlen(name)};
    char *end;
    for (*class = 0; *class < field->class_count; ++*class) {
        if (strcmp(field->class_name[*class], name) == 0) return FF_OK;
        ff_nearest_offer(&nearest, field->class_name[*class]);
    }
    const unsigned long number = strtoul(name, &end, 10);
    *class = (uint32_t)number;
    const bool padded = *name == '0' && name[1];
    if (*name >= '0' && *name <= '9' && !padded && !*end && number < splits->classes) return FF_OK;
    return ff_fail(error, FF_USAGE,
                   "'%s' is not one of the "
                   "%" PRIu32 " classes of '%s'%s%s%s",
                   name, splits->classes, splits->label, nearest.name ? "; did you mean " : "",
                   nearest.name ? nearest.name : "", nearest.name ? "?" : "");
}

/* Names may contain commas: the weight follows the last one. */
static ff_status read_line(float *weights, const ff_splits *splits, char *line, ff_error *error) {
    size_t index;
    uint32_t class;
    char *comma = strrchr(line, ','), *end = line;
    double weight = 0;
    if (comma) weight = ff_real_read(comma + 1, &end);
    if (!comma || end == comma + 1 || end[strspn(end, " \t\r")] || !(weight >= 0 && weight <= 1e9))
        return ff_fail(error, FF_USAGE,
                       "'%s' is not CLASS,WEIGHT with a weight from 0 on, as in dog,2.5", line);
    *comma = 0;
    FF_TRY(find_class(splits, field_of(splits, &index), line, &class, error));
    if (weights[class] >= 0)
        return ff_fail(error, FF_USAGE, "class '%s' has a weight already", line);
    weights[class] = (float)weight;
    return FF_OK;
}

static ff_status read_file(float *weights, const ff_splits *splits, const char *path,
                           ff_error *error) {
    size_t index;
    char name[16];
    double sum = 0;
    ff_buffer text = {0};
    ff_status status;
    FF_TRY_DONE(ff_read_whole(&text, path, LIMIT_BYTES, error));
    for (uint32_t c = 0; c < splits->classes; c++) weights[c] = -1;
    char *rest = text.bytes;
    for (int number = 1; rest; number++) {
        char *line = rest, *end = strchr(line, '\n');
        if (end) *end = 0;
        rest = end ? end + 1 : NULL;
        if (*line == '#' || !line[strspn(line, " \t\r")]) continue;
        status = read_line(weights, splits, line, error);
        if (status == FF_OK) continue;
        status = ff_fail_within(error, status, "%s: line %d", path, number);
        goto done;
    }
    status = FF_OK;
    for (uint32_t c = 0; c < splits->classes && status == FF_OK; c++) {
        sum += (double)weights[c];
        if (weights[c] < 0)
            status = ff_fail(error, FF_USAGE, "%s: class '%s' has no weight", path,
                             name_of(field_of(splits, &index), c, name));
    }
    if (status == FF_OK && !(sum > 0))
        status = ff_fail(error, FF_USAGE, "%s: every class has weight 0", path);
done:
    ff_buffer_free(&text);
    return status == FF_OK ? FF_OK : ff_fail_within(error, status, "--class-weights");
}

ff_status ff_class_weights_read(float **out, const ff_splits *splits, const char *given,
                                ff_error *error) {
    *out = NULL;
    if (!given) return FF_OK;
    FF_TRY(ff_alloc(out, splits->classes, sizeof **out, "class weights", error));
    const ff_status status = strcmp(given, "balanced") == 0 ? balance(*out, splits, error)
                                                            : read_file(*out, splits, given, error);
    if (status == FF_OK) return FF_OK;
    free(*out);
    *out = NULL;
    return status;
}
