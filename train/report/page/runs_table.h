/* Compares the runs in a folder, the best first. In the order of use:
 *
 *     ff_runs_table_read(&table, "runs", &error);
 *     ff_runs_table_print(stdout, &table, &error);   or _csv, or _json
 *     ff_runs_table_free(&table);
 *
 * Thread rule: one thread at a time. */
#ifndef FF_TRAIN_REPORT_PAGE_RUNS_TABLE_H
#define FF_TRAIN_REPORT_PAGE_RUNS_TABLE_H

#include "train/report/page/run_log.h"

#include <stdio.h>

typedef struct ff_runs_row {
    char *name;        /* of the run's folder in the table's folder */
    ff_run_log log;    /* without evaluation and sheets */
    bool by_loss;      /* `best` is a loss; else an accuracy in [0, 1] */
    double best;       /* NaN: no evaluation */
    double best_epoch; /* NaN: no evaluation */
    double epoch;      /* the last finished epoch; 0 = none */
    double epochs;     /* NaN: unknown */
    double seconds;
    const char *status; /* owned by the log */
} ff_runs_row;

typedef struct ff_runs_table {
    char *folder;
    ff_runs_row *rows; /* [count] */
    size_t count;
    char **settings; /* [setting_count]: names of the options in which the runs differ */
    size_t setting_count;
    ff_buffer left_out; /* a line for each run whose log cannot be read; of length 0 = none */
} ff_runs_table;

/* Whether the folder is not itself a run, so that it may hold runs. */
bool ff_runs_are_in(const char *folder);

/* A run is a folder with a recipe.txt. Runs by accuracy come first, then runs by loss, then runs
 * without an evaluation. FF_IO if the folder cannot be read, FF_USAGE if it holds no run. The
 * caller frees the table, after a failure too. */
FF_MUST_USE ff_status ff_runs_table_read(ff_runs_table *table, const char *folder, ff_error *error);
void ff_runs_table_free(ff_runs_table *table);

/* The value of a run's setting, *length bytes of its text; "-" if the run has the default. */
const char *ff_runs_setting(const ff_runs_row *row, const char *setting, size_t *length);

/* The columns of the printed table: a heading, and a run's text in the column. */
enum { FF_RUNS_CELL_BYTES = 256 };
size_t ff_runs_columns(const ff_runs_table *table);
const char *ff_runs_heading(const ff_runs_table *table, size_t column);
void ff_runs_cell(const ff_runs_table *table, const ff_runs_row *row, size_t column,
                  char text[FF_RUNS_CELL_BYTES]);

/* Prints these columns as lines. FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_runs_table_print(FILE *out, const ff_runs_table *table, ff_error *error);
/* As in RFC 4180, a header first. FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_runs_table_csv(FILE *out, const ff_runs_table *table, ff_error *error);
/* Writes an array of objects; a setting with its default is null. FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_runs_table_json(FILE *out, const ff_runs_table *table, ff_error *error);

#endif
