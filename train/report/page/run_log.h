/* A run, read from its folder or from its log alone:
 *
 *   log.jsonl         the lines of --log-json (train/report/report.h); only the last run counts
 *   evaluation.json   train/report/tally_json.h
 *   worst.png, inputs.png, recipe.txt */
#ifndef FF_TRAIN_REPORT_PAGE_RUN_LOG_H
#define FF_TRAIN_REPORT_PAGE_RUN_LOG_H

#include "format/base/json.h"
#include "format/base/memory.h"

typedef struct ff_run_log {
    char *name;
    json_t *start, *end;             /* events; NULL = none yet */
    const char *unended;             /* the run's status if `end` is NULL */
    json_t *epochs;                  /* array of events, by increasing epoch */
    json_t *notes;                   /* array of texts */
    json_t *evaluation;              /* NULL = none */
    ff_buffer worst, inputs, recipe; /* of length 0 if missing */
    size_t unreadable;               /* lines that could not be read */
    double seconds_before;           /* of the sessions before the one that `start` began */
} ff_run_log;

/* `path`: the folder, or a log. FF_IO; FF_BAD_DATA if the log has neither an epoch nor the start of
 * a run. The caller frees the log, after a failure too. */
FF_MUST_USE ff_status ff_run_log_read(ff_run_log *run, const char *path, ff_error *error);
/* The same, reading only the log and the recipe. */
FF_MUST_USE ff_status ff_run_log_read_brief(ff_run_log *run, const char *path, ff_error *error);
void ff_run_log_free(ff_run_log *run);

/* A number of an event; NaN if it is missing, or `event` is NULL. */
double ff_run_log_number(const json_t *event, const char *key);
/* A text of an event; "" if it is missing. */
const char *ff_run_log_text(const json_t *event, const char *key);
/* The value of an option in a run's recipe, *length bytes of the recipe's text; NULL: the option
 * has its default. The name ends before a blank or at its end. */
const char *ff_run_log_setting(const ff_buffer *recipe, const char *name, size_t *length);
/* A number of epoch `i`. */
static inline double ff_run_log_at(const ff_run_log *run, size_t i, const char *key) {
    return ff_run_log_number(json_array_get(run->epochs, i), key);
}

#endif
