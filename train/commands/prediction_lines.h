/* The predictions of fftrain predict, a line for each sample: JSON on the standard output or in a
 * file .jsonl, or CSV in a file .csv. In the order of use:
 *
 *     ff_prediction_lines_open(&lines, "out.csv", 5, &error);
 *     ff_prediction_lines_add(&lines, key, classes, 5, &error);   or _reason
 *     ff_prediction_lines_close(&lines, true, &error);
 *
 * JSON: {key, class, name, probability, top: [{class, name, probability}]}, or {key, error}. CSV, a
 * header first: key,class,name,probability, for the classes after the first class_2, name_2,
 * probability_2 and so on, and error. Thread rule: one thread at a time. */
#ifndef FF_TRAIN_PREDICTION_LINES_H
#define FF_TRAIN_PREDICTION_LINES_H

#include "format/base/file.h"
#include "format/disk/metadata.h"

#include <stdint.h>

typedef struct ff_predicted_class {
    int number;
    const char *name; /* NULL = the set has no keys */
    float probability;
} ff_predicted_class;

/* Finds the `top` classes with the largest logits; logits can differ even if probabilities are too
 * small to differ. Among equal logits the first class wins. logits, order: [classes]; order is
 * overwritten. False: a logit is not finite. names: the classes'; they outlive found[top]. */
bool ff_predicted_top(const float *logits, int classes, const ff_field *names, int top, int *order,
                      ff_predicted_class *found);

typedef struct ff_prediction_lines {
    ff_file *file; /* NULL: the standard output */
    bool csv;
    int64_t top; /* classes of a CSV line */
} ff_prediction_lines;

/* FF_USAGE if the path ends neither in .csv nor in .jsonl; NULL is accepted. */
FF_MUST_USE ff_status ff_prediction_lines_check(const char *path, ff_error *error);
/* path NULL: JSON on the standard output. A file appears when it is closed. FF_IO. */
FF_MUST_USE ff_status ff_prediction_lines_open(ff_prediction_lines *lines, const char *path,
                                               int64_t top, ff_error *error);
/* classes[count], the likeliest first; count is at most `top`. */
FF_MUST_USE ff_status ff_prediction_lines_add(ff_prediction_lines *lines, const char *key,
                                              const ff_predicted_class *classes, int64_t count,
                                              ff_error *error);
/* Writes the line of a sample without a prediction. */
FF_MUST_USE ff_status ff_prediction_lines_reason(ff_prediction_lines *lines, const char *key,
                                                 const char *reason, ff_error *error);
/* `keep` false: the file is left as it was. Frees in any case. */
FF_MUST_USE ff_status ff_prediction_lines_close(ff_prediction_lines *lines, bool keep,
                                                ff_error *error);

#endif
