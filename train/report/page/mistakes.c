#include "train/report/page/mistakes.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    MATRIX_CLASSES = 32, /* most classes in the matrix; beyond, only pairs are listed */
    MATRIX_NAME = 24,    /* characters of a name next to it */
    LISTED_PAIRS = 10,
    LISTED_CLASSES = 20,
    LISTED_NAME = 60, /* characters of a name in these lists */
};

/* One kind of mistake. */
typedef struct pair {
    int64_t label, prediction, count;
} pair;

/* A class, by its number. */
typedef struct class_row {
    int64_t number, samples, correct;
} class_row;

typedef struct counts {
    const json_t *classes; /* array */
    int64_t class_count;
    class_row *rows;   /* [class_count], by increasing accuracy */
    pair *pairs;       /* [pair_count], mistakes, the most frequent first */
    size_t pair_count; /* without correct predictions */
    int64_t *matrix;   /* [class_count][class_count]; NULL beyond MATRIX_CLASSES */
} counts;

static int64_t integer(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static void add_short_name(ff_html *html, const counts *c, int64_t number, size_t most) {
    const char *name = ff_run_log_text(json_array_get(c->classes, (size_t)number), "name");
    if (*name)
        ff_html_short(html, name, most);
    else
        ff_html_add(html, "<span>%" PRId64 "</span>", number);
}

static void add_name(ff_html *html, const counts *c, int64_t number) {
    add_short_name(html, c, number, LISTED_NAME);
}

/* ---- reading ---- */

static double accuracy(const class_row *row) {
    return row->samples ? (double)row->correct / (double)row->samples : 2;
}

static int lower(const void *a, const void *b) {
    const class_row *x = a, *y = b;
    const double of_x = accuracy(x), of_y = accuracy(y);
    if (of_x != of_y) return of_x < of_y ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static int more(const void *a, const void *b) {
    const pair *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return x->label != y->label ? (x->label > y->label) - (x->label < y->label)
                                : (x->prediction > y->prediction) - (x->prediction < y->prediction);
}

static bool in_range(const counts *c, int64_t class) {
    return class >= 0 && class < c->class_count;
}

static ff_status read_counts(counts *c, const json_t *evaluation, ff_error *error) {
    const json_t *confusion = json_object_get(evaluation, "confusion");
    const size_t entries = json_array_size(confusion);
    c->classes = json_object_get(evaluation, "classes");
    c->class_count = (int64_t)json_array_size(c->classes);
    const uint64_t classes = (uint64_t)c->class_count;
    FF_TRY(ff_alloc(&c->rows, classes, sizeof *c->rows, "classes", error));
    FF_TRY(ff_alloc(&c->pairs, entries, sizeof *c->pairs, "mistakes", error));
    if (entries && classes <= MATRIX_CLASSES)
        FF_TRY(ff_alloc(&c->matrix, classes * classes, sizeof *c->matrix, "a matrix", error));
    for (size_t i = 0; i < classes; i++) {
        const json_t *row = json_array_get(c->classes, i);
        c->rows[i] = (class_row){(int64_t)i, integer(row, "samples"), integer(row, "correct")};
    }
    for (size_t i = 0; i < entries; i++) {
        const json_t *entry = json_array_get(confusion, i);
        const pair one = {json_integer_value(json_array_get(entry, 0)),
                          json_integer_value(json_array_get(entry, 1)),
                          json_integer_value(json_array_get(entry, 2))};
        if (!in_range(c, one.label) || !in_range(c, one.prediction)) continue;
        if (c->matrix) c->matrix[one.label * c->class_count + one.prediction] = one.count;
        if (one.label != one.prediction) c->pairs[c->pair_count++] = one;
    }
    qsort(c->rows, (size_t)classes, sizeof *c->rows, lower);
    qsort(c->pairs, c->pair_count, sizeof *c->pairs, more);
    return FF_OK;
}

/* ---- writing ---- */

/* A cell's shade is its share of the row. */
static void add_matrix(ff_html *html, const counts *c) {
    const int64_t n = c->class_count;
    ff_html_add(html, "<div class=\"wide\"><table class=\"matrix\"><caption>Confusion matrix: a "
                      "row is the label, a column the prediction</caption>\n<tr><th></th>");
    for (int64_t k = 0; k < n; k++) {
        ff_html_add(html, "<th class=\"up\">");
        add_short_name(html, c, k, MATRIX_NAME);
        ff_html_add(html, "</th>");
    }
    ff_html_add(html, "</tr>\n");
    for (int64_t label = 0; label < n; label++) {
        int64_t sum = 0;
        for (int64_t k = 0; k < n; k++) sum += c->matrix[label * n + k];
        ff_html_add(html, "<tr><th>");
        add_short_name(html, c, label, MATRIX_NAME);
        ff_html_add(html, "</th>");
        for (int64_t k = 0; k < n; k++) {
            const int64_t here = c->matrix[label * n + k];
            const double share = sum ? (double)here / (double)sum : 0;
            if (here)
                ff_html_add(html, "<td class=\"%s%s\" style=\"--v:%.3f\">%" PRId64 "</td>",
                            k == label ? "right" : "wrong", share > 0.55 ? " strong" : "", share,
                            here);
            else
                ff_html_add(html, "<td></td>");
        }
        ff_html_add(html, "</tr>\n");
    }
    ff_html_add(html, "</table></div>\n");
}

static void add_classes(ff_html *html, const counts *c) {
    const int64_t shown = c->class_count < LISTED_CLASSES ? c->class_count : LISTED_CLASSES;
    ff_html_add(html, "<table class=\"bars\"><caption>Accuracy of each class%s</caption>\n",
                shown < c->class_count ? ", the 20 lowest" : ", the lowest first");
    for (int64_t i = 0; i < shown; i++) {
        const class_row *row = &c->rows[i];
        ff_html_add(html, "<tr><th>");
        add_name(html, c, row->number);
        if (row->samples)
            ff_html_add(html,
                        "</th><td><div class=\"bar\"><i style=\"width:%.1f%%\"></i></div></td><td>"
                        "%.1f %%</td><td class=\"pale\">%" PRId64 " of %" PRId64 "</td></tr>\n",
                        100 * accuracy(row), 100 * accuracy(row), row->correct, row->samples);
        else
            ff_html_add(html, "</th><td></td><td>-</td><td class=\"pale\">no sample</td></tr>\n");
    }
    ff_html_add(html, "</table>\n");
}

static void add_pairs(ff_html *html, const counts *c) {
    if (!c->pair_count) return;
    ff_html_add(html, "<table><caption>Most frequent confusions</caption>\n");
    for (size_t i = 0; i < c->pair_count && i < LISTED_PAIRS; i++) {
        ff_html_add(html, "<tr><td class=\"word\">");
        add_name(html, c, c->pairs[i].label);
        ff_html_add(html, " taken for ");
        add_name(html, c, c->pairs[i].prediction);
        ff_html_add(html, "</td><td class=\"number\">%" PRId64 "</td></tr>\n", c->pairs[i].count);
    }
    ff_html_add(html, "</table>\n");
}

static void add_sheet(ff_html *html, const ff_buffer *png, const char *title) {
    if (!png->length) return;
    ff_html_add(html, "<figure><figcaption>%s</figcaption><img alt=\"%s\" src=\"", title, title);
    ff_html_png(html, png);
    ff_html_add(html, "\"></figure>\n");
}

static void add_counts(ff_html *html, const json_t *evaluation) {
    counts c = {0};
    if (html->failure.status == FF_OK && read_counts(&c, evaluation, &html->failure) == FF_OK) {
        ff_html_add(html, "<div class=\"columns\">\n");
        add_classes(html, &c);
        add_pairs(html, &c);
        ff_html_add(html, "</div>\n");
        if (c.matrix) add_matrix(html, &c);
    }
    free(c.rows);
    free(c.pairs);
    free(c.matrix);
}

void ff_mistakes_add(ff_html *html, const ff_run_log *run) {
    if (run->evaluation) {
        ff_html_add(html, "<p>After epoch %" PRId64 ": %" PRId64 " of %" PRId64 " samples of ",
                    integer(run->evaluation, "epoch"), integer(run->evaluation, "correct"),
                    integer(run->evaluation, "samples"));
        ff_html_text(html, ff_run_log_text(run->evaluation, "data"));
        ff_html_add(html, " are classified correctly.</p>\n");
        add_counts(html, run->evaluation);
    }
    add_sheet(html, &run->worst, "What it got most wrong");
    add_sheet(html, &run->inputs, "What the net sees");
}
