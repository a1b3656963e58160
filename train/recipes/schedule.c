#include "train/recipes/schedule.h"

#include "format/base/real.h"
#include "format/cli/nearest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

static double constant(const ff_schedule *s, double t, uint64_t step) {
    (void)t, (void)step;
    return s->peak;
}

static double cosine(const ff_schedule *s, double t, uint64_t step) {
    const double final = s->numbers[0] * s->peak;
    (void)step;
    return final + (s->peak - final) * (1.0 + cos(pi * t)) / 2.0;
}

static double linear(const ff_schedule *s, double t, uint64_t step) {
    const double final = s->numbers[0] * s->peak;
    (void)step;
    return final + (s->peak - final) * (1.0 - t);
}

static double polynomial(const ff_schedule *s, double t, uint64_t step) {
    (void)step;
    return s->peak * pow(1.0 - t, s->numbers[0]);
}

/* The steps of an argument in epochs: at least 1. */
static uint64_t steps_of(const ff_schedule *s, double epochs) {
    return (uint64_t)fmax(1, floor(epochs * s->epoch_steps + 0.5));
}

static double in_steps(const ff_schedule *s, double t, uint64_t step) {
    (void)t;
    return s->peak * pow(s->factor, (double)(step / steps_of(s, s->numbers[0])));
}

static double at_milestones(const ff_schedule *s, double t, uint64_t step) {
    int over = 0;
    (void)t;
    while (over < s->number_count && step >= steps_of(s, s->numbers[over])) over++;
    return s->peak * pow(s->factor, over);
}

static double one_cycle(const ff_schedule *s, double t, uint64_t step) {
    const double rise = s->numbers[0] * (double)s->total_steps - 1;
    const double fall = (double)s->total_steps - 1 - rise, low = s->peak / 25;
    (void)t;
    if ((double)step < rise)
        return s->peak + (low - s->peak) / 2 * (1 + cos(pi * (double)step / rise));
    const double share = fall > 0 ? fmin(1, ((double)step - rise) / fall) : 1;
    return low / 1e4 + (s->peak - low / 1e4) / 2 * (1 + cos(pi * share));
}

static const struct row {
    const char *usage; /* "NAME" or "NAME=..." or "NAME[=...]" */
    int numbers;       /* the most numbers */
    double number;     /* default of the first number */
    double least, most;
    double factor; /* default of the FACTOR after the ':'; 0 = not accepted */
    double (*rate)(const ff_schedule *schedule, double t, uint64_t step);
} table[] = {
    {"constant", 0, 0, 0, 0, 0, constant},
    {"cosine[=FINAL]", 1, 0, 0, 1, 0, cosine},
    {"linear[=FINAL]", 1, 0, 0, 1, 0, linear},
    {"step[=EPOCHS[:FACTOR]]", 1, 30, 1e-6, 1e6, 0.1, in_steps},
    {"multi-step=EPOCH,...[:FACTOR]", FF_SCHEDULE_NUMBERS, NAN, 1e-6, 1e6, 0.1, at_milestones},
    {"polynomial[=POWER]", 1, 1, 1e-6, 100, 0, polynomial},
    {"one-cycle[=RISE]", 1, 0.3, 1e-6, 1, 0, one_cycle},
};
enum { ROWS = sizeof table / sizeof *table };

const char *ff_schedule_help(char text[FF_SCHEDULE_HELP_BYTES]) {
    size_t length = 0;
    *text = '\0';
    for (int i = 0; i < ROWS && length < FF_SCHEDULE_HELP_BYTES; i++)
        length += (size_t)snprintf(text + length, FF_SCHEDULE_HELP_BYTES - length, "%s%s",
                                   i ? ", " : "", table[i].usage);
    return text;
}

static size_t name_length(const char *text) {
    return strcspn(text, "[=");
}

static ff_status refuse(const char *text, ff_error *error) {
    char help[FF_SCHEDULE_HELP_BYTES], names[ROWS][16];
    ff_nearest nearest = {.wanted = text, .length = name_length(text)};
    for (int i = 0; i < ROWS; i++) {
        snprintf(names[i], sizeof names[i], "%.*s", (int)name_length(table[i].usage),
                 table[i].usage);
        ff_nearest_offer(&nearest, names[i]);
    }
    return ff_fail(error, FF_USAGE, "--schedule: '%s' is unknown%s%s%s are %s", text,
                   nearest.name ? "; did you mean " : "", nearest.name ? nearest.name : "",
                   nearest.name ? "? There" : "; there", ff_schedule_help(help));
}

/* Reads "A,B,C[:FACTOR]"; false if the text is malformed or does not fit the row. */
static bool read_arguments(ff_schedule *s, const struct row *row, const char *text) {
    char *end;
    for (s->number_count = 0; s->number_count < row->numbers; text = end + 1) {
        const double number = ff_real_read(text, &end);
        if (end == text || !(number >= row->least && number <= row->most)) return false;
        if (s->number_count && number <= s->numbers[s->number_count - 1]) return false;
        s->numbers[s->number_count++] = number;
        if (*end != ',') break;
    }
    if (!s->number_count) return false;
    if (*end == ':' && row->factor > 0) {
        text = end + 1;
        s->factor = ff_real_read(text, &end);
        if (end == text || !(s->factor > 0 && s->factor <= 1)) return false;
    }
    return *end == '\0';
}

ff_status ff_schedule_parse(ff_schedule *schedule, const char *text, ff_error *error) {
    const size_t length = name_length(text);
    int row = 0;
    while (row < ROWS && (name_length(table[row].usage) != length ||
                          strncmp(table[row].usage, text, length) != 0))
        row++;
    if (row == ROWS) return refuse(text, error);
    schedule->text = text;
    schedule->row = row;
    schedule->numbers[0] = table[row].number;
    schedule->number_count = table[row].numbers > 0;
    schedule->factor = table[row].factor;
    if (text[length] == '=' ? read_arguments(schedule, &table[row], text + length + 1)
                            : text[length] == '\0' && !isnan(table[row].number))
        return FF_OK;
    return ff_fail(error, FF_USAGE, "--schedule: '%s' is not as in %s%s", text, table[row].usage,
                   table[row].numbers > 1 ? ", with increasing epochs"
                   : table[row].most == 1 ? ", with a number from 0 to 1"
                                          : "");
}

bool ff_schedule_rises(const ff_schedule *schedule) {
    return table[schedule->row].rate == one_cycle;
}

double ff_schedule_rate(const ff_schedule *schedule, uint64_t step) {
    if (step < schedule->warmup_steps)
        return schedule->peak * ((double)step + 1.0) / ((double)schedule->warmup_steps + 1.0);
    const double t = step < schedule->total_steps
                         ? (double)(step - schedule->warmup_steps) /
                               (double)(schedule->total_steps - schedule->warmup_steps)
                         : 1;
    return table[schedule->row].rate(schedule, t, step);
}

double ff_schedule_late(const ff_schedule *s, uint64_t steps) {
    if (table[s->row].rate != in_steps && table[s->row].rate != at_milestones) return 0;
    for (int i = 0; i < s->number_count; i++)
        if (steps_of(s, s->numbers[i]) >= steps) return s->numbers[i];
    return 0;
}
