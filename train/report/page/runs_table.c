#include "train/report/page/runs_table.h"

#include "format/base/csv.h"
#include "format/base/path.h"
#include "format/cli/columns.h"
#include "train/checkpoint/run_folder.h"
#include "train/report/page/run_sums.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

bool ff_runs_are_in(const char *folder) {
    return ff_path_exists("%s/.", folder) && !ff_path_exists("%s/" FF_RUN_LOG_FILE, folder) &&
           !ff_path_exists("%s/" FF_RUN_RECIPE_FILE, folder);
}

static void summarize(ff_runs_row *row) {
    const ff_run_log *log = &row->log;
    double parts[FF_RUN_TIMES], rate;
    long last, best;
    ff_run_evaluated(log, &last, &best);
    row->by_loss = ff_run_is_by_loss(log);
    row->best = row->best_epoch = NAN;
    if (best >= 0) {
        row->best = ff_run_log_at(log, (size_t)best, row->by_loss ? "val_loss" : "val_accuracy");
        row->best_epoch = ff_run_log_at(log, (size_t)best, "epoch");
    }
    row->epoch = ff_run_last_epoch(log);
    row->epochs = ff_run_log_number(log->start, "epochs");
    row->seconds = ff_run_times(log, parts, &rate);
    row->status = ff_run_status(log);
}

/* Moves the row into the table. */
static ff_status take_row(ff_runs_table *table, ff_runs_row *row, const char *path,
                          ff_error *error) {
    FF_TRY(ff_copy_string(&row->name, ff_path_base(path), error));
    FF_TRY(ff_grow(&table->rows, table->count, sizeof *table->rows, "runs", error));
    summarize(row);
    table->rows[table->count++] = *row;
    *row = (ff_runs_row){0};
    return FF_OK;
}

/* Adds a run; a run whose log cannot be read, or has no line yet, is listed in left_out. */
static ff_status add_run(ff_runs_table *table, const char *path, ff_error *error) {
    ff_runs_row row = {0};
    ff_error why = {0};
    ff_status status = ff_run_log_read_brief(&row.log, path, &why);
    if (status == FF_OK)
        status = take_row(table, &row, path, error);
    else if (status == FF_NO_MEMORY)
        status = ff_fail(error, status, "%s", why.message);
    else
        status = ff_buffer_printf(&table->left_out, error, "%s\n", why.message);
    ff_run_log_free(&row.log);
    free(row.name);
    return status;
}

static ff_status add_runs(ff_runs_table *table, ff_error *error) {
    ff_status status = FF_OK;
    DIR *entries = opendir(table->folder);
    if (!entries) return ff_fail_errno(error, "%s: cannot read the folder", table->folder);
    for (const struct dirent *entry; status == FF_OK && (entry = readdir(entries));) {
        char *path;
        if (entry->d_name[0] == '.') continue;
        status = ff_path_join(&path, table->folder, entry->d_name, error);
        if (status != FF_OK) break;
        if (ff_path_exists("%s/" FF_RUN_RECIPE_FILE, path)) status = add_run(table, path, error);
        free(path);
    }
    closedir(entries);
    return status;
}

/* Groups: runs by accuracy, by loss, and without an evaluation. */
static int group_of(const ff_runs_row *row) {
    return isnan(row->best) ? 2 : row->by_loss;
}

static int best_first(const void *a, const void *b) {
    const ff_runs_row *one = a, *other = b;
    const int groups = group_of(one) - group_of(other);
    if (groups) return groups;
    if (!isnan(one->best) && one->best != other->best)
        return (one->best > other->best) != one->by_loss ? -1 : 1;
    return strcmp(one->name, other->name);
}

const char *ff_runs_setting(const ff_runs_row *row, const char *setting, size_t *length) {
    const char *value = ff_run_log_setting(&row->log.recipe, setting, length);
    if (!value) *length = 1;
    return value ? value : "-";
}

/* Whether a run's value of the setting differs from the first run's. */
static bool differs(const ff_runs_table *table, const char *setting) {
    size_t length, others;
    const char *first = ff_runs_setting(&table->rows[0], setting, &length);
    for (size_t i = 1; i < table->count; i++) {
        const char *other = ff_runs_setting(&table->rows[i], setting, &others);
        if (others != length || memcmp(first, other, length) != 0) return true;
    }
    return false;
}

/* Whether the table already has such a column: all tables have one of epochs. */
static bool is_known(const ff_runs_table *table, const char *setting) {
    if (!strcmp(setting, "epochs")) return true;
    for (size_t i = 0; i < table->setting_count; i++)
        if (!strcmp(table->settings[i], setting)) return true;
    return false;
}

/* Adds the settings of a recipe that differ, in the recipe's order. */
static ff_status add_settings(ff_runs_table *table, const ff_runs_row *row, ff_error *error) {
    const char *line = row->log.recipe.bytes;
    while (line && *line) {
        const size_t whole = strcspn(line, "\n"), length = strcspn(line, " \n");
        char *name;
        FF_TRY(ff_copy_bytes(&name, line, length, error));
        if (*line == '#' || is_known(table, name) || !differs(table, name)) {
            free(name);
        } else {
            const ff_status status = ff_grow(&table->settings, table->setting_count,
                                             sizeof *table->settings, "settings", error);
            if (status != FF_OK) free(name);
            FF_TRY(status);
            table->settings[table->setting_count++] = name;
        }
        line += whole + (line[whole] == '\n');
    }
    return FF_OK;
}

ff_status ff_runs_table_read(ff_runs_table *table, const char *folder, ff_error *error) {
    *table = (ff_runs_table){0};
    FF_TRY(ff_copy_bytes(&table->folder, folder, ff_path_length(folder), error));
    FF_TRY(add_runs(table, error));
    if (!table->count && !table->left_out.length)
        return ff_fail(error, FF_USAGE, "%s: holds no run, no folder with a " FF_RUN_RECIPE_FILE,
                       table->folder);
    if (table->count) qsort(table->rows, table->count, sizeof *table->rows, best_first);
    for (size_t i = 0; i < table->count; i++) FF_TRY(add_settings(table, &table->rows[i], error));
    return FF_OK;
}

void ff_runs_table_free(ff_runs_table *table) {
    for (size_t i = 0; i < table->count; i++) {
        ff_run_log_free(&table->rows[i].log);
        free(table->rows[i].name);
    }
    for (size_t i = 0; i < table->setting_count; i++) free(table->settings[i]);
    free(table->rows);
    free(table->settings);
    free(table->folder);
    ff_buffer_free(&table->left_out);
    *table = (ff_runs_table){0};
}

/* ---- writing ---- */

enum { NAME, BEST, BEST_EPOCH, EPOCHS, SECONDS, STATUS, FIXED };
static const char *const headings[FIXED] = {"run", "best", "epoch", "epochs", "seconds", "status"};

void ff_runs_cell(const ff_runs_table *table, const ff_runs_row *row, size_t column,
                  char text[FF_RUNS_CELL_BYTES]) {
    size_t length;
    const char *value = "-";
    snprintf(text, FF_RUNS_CELL_BYTES, "-");
    if (column == NAME) snprintf(text, FF_RUNS_CELL_BYTES, "%s", row->name);
    if (column == BEST && !isnan(row->best) && row->by_loss)
        snprintf(text, FF_RUNS_CELL_BYTES, "loss %.4f", row->best);
    if (column == BEST && !isnan(row->best) && !row->by_loss)
        snprintf(text, FF_RUNS_CELL_BYTES, "%.2f %%", 100 * row->best);
    if (column == BEST_EPOCH && !isnan(row->best_epoch))
        snprintf(text, FF_RUNS_CELL_BYTES, "%.0f", row->best_epoch);
    if (column == EPOCHS && isnan(row->epochs))
        snprintf(text, FF_RUNS_CELL_BYTES, "%.0f", row->epoch);
    if (column == EPOCHS && !isnan(row->epochs))
        snprintf(text, FF_RUNS_CELL_BYTES, "%.0f of %.0f", row->epoch, row->epochs);
    if (column == SECONDS) snprintf(text, FF_RUNS_CELL_BYTES, "%.1f", row->seconds);
    if (column == STATUS) snprintf(text, FF_RUNS_CELL_BYTES, "%s", row->status);
    if (column < FIXED) return;
    value = ff_runs_setting(row, table->settings[column - FIXED], &length);
    snprintf(text, FF_RUNS_CELL_BYTES, "%.*s", (int)length, value);
}

const char *ff_runs_heading(const ff_runs_table *table, size_t column) {
    return column < FIXED ? headings[column] : table->settings[column - FIXED];
}

size_t ff_runs_columns(const ff_runs_table *table) {
    return FIXED + table->setting_count;
}

static int width_of(const ff_runs_table *table, size_t column) {
    char text[FF_RUNS_CELL_BYTES];
    int width = ff_columns(ff_runs_heading(table, column));
    for (size_t i = 0; i < table->count; i++) {
        ff_runs_cell(table, &table->rows[i], column, text);
        if (ff_columns(text) > width) width = ff_columns(text);
    }
    return width;
}

static void print_cell(FILE *out, const char *text, int width, bool last) {
    fprintf(out, "%s", text);
    if (last)
        putc('\n', out);
    else
        fprintf(out, "%*s", width - ff_columns(text) + 2, "");
}

ff_status ff_runs_table_print(FILE *out, const ff_runs_table *table, ff_error *error) {
    const size_t columns = ff_runs_columns(table);
    char text[FF_RUNS_CELL_BYTES];
    int *widths;
    FF_TRY(ff_alloc(&widths, columns, sizeof *widths, "the table of runs", error));
    for (size_t c = 0; c < columns; c++) widths[c] = width_of(table, c);
    for (size_t i = 0; i <= table->count; i++) {
        for (size_t c = 0; c < columns; c++) {
            if (i) ff_runs_cell(table, &table->rows[i - 1], c, text);
            print_cell(out, i ? text : ff_runs_heading(table, c), widths[c], c + 1 == columns);
        }
    }
    free(widths);
    return FF_OK;
}

static ff_status add_number(ff_buffer *line, double value, ff_error *error) {
    return isfinite(value) ? ff_buffer_printf(line, error, "%.10g,", value)
                           : ff_buffer_add(line, ",", 1, error);
}

static const char *metric_of(const ff_runs_row *row) {
    return row->by_loss ? "val_loss" : "val_accuracy";
}

static ff_status add_csv_row(ff_buffer *text, const ff_runs_table *table, const ff_runs_row *row,
                             ff_error *error) {
    const double numbers[] = {row->best, row->best_epoch, row->epoch, row->epochs, row->seconds};
    FF_TRY(ff_csv_cell(text, row->name, strlen(row->name), error));
    FF_TRY(ff_buffer_printf(text, error, ",%s,", metric_of(row)));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        FF_TRY(add_number(text, numbers[i], error));
    FF_TRY(ff_buffer_printf(text, error, "%s", row->status));
    for (size_t c = 0; c < table->setting_count; c++) {
        size_t length;
        const char *value = ff_run_log_setting(&row->log.recipe, table->settings[c], &length);
        FF_TRY(ff_buffer_add(text, ",", 1, error));
        if (value) FF_TRY(ff_csv_cell(text, value, length, error));
    }
    return ff_buffer_add(text, "\r\n", 2, error);
}

ff_status ff_runs_table_csv(FILE *out, const ff_runs_table *table, ff_error *error) {
    ff_buffer text = {0};
    ff_status status;
    FF_TRY_DONE(
        ff_buffer_printf(&text, error, "run,metric,best,best_epoch,epoch,epochs,seconds,status"));
    for (size_t c = 0; c < table->setting_count; c++)
        FF_TRY_DONE(ff_buffer_printf(&text, error, ",%s", table->settings[c]));
    FF_TRY_DONE(ff_buffer_add(&text, "\r\n", 2, error));
    for (size_t i = 0; i < table->count; i++)
        FF_TRY_DONE(add_csv_row(&text, table, &table->rows[i], error));
    fwrite(text.bytes, 1, text.length, out);
done:
    ff_buffer_free(&text);
    return status;
}

static json_t *number_or_null(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *row_object(const ff_runs_table *table, const ff_runs_row *row) {
    json_t *settings = json_object();
    for (size_t c = 0; c < table->setting_count; c++) {
        size_t length;
        const char *value = ff_run_log_setting(&row->log.recipe, table->settings[c], &length);
        char *copy = NULL;
        if (value && ff_copy_bytes(&copy, value, length, NULL) != FF_OK) continue;
        json_object_set_new(settings, table->settings[c], ff_json_text(copy));
        free(copy);
    }
    return json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:o}", "run",
                     ff_json_text(row->name), "metric", metric_of(row), "best",
                     number_or_null(row->best), "best_epoch", number_or_null(row->best_epoch),
                     "epoch", number_or_null(row->epoch), "epochs", number_or_null(row->epochs),
                     "seconds", number_or_null(row->seconds), "status", row->status, "settings",
                     settings);
}

ff_status ff_runs_table_json(FILE *out, const ff_runs_table *table, ff_error *error) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < table->count; i++)
        ff_json_append(&list, row_object(table, &table->rows[i]));
    char *text = list ? json_dumps(list, JSON_INDENT(1) | JSON_REAL_PRECISION(10)) : NULL;
    json_decref(list);
    if (!text) return ff_fail(error, FF_NO_MEMORY, "no memory for the table of runs");
    fprintf(out, "%s\n", text);
    free(text);
    return FF_OK;
}
