#include "train/report/page/chart.h"

#include <math.h>

/* The drawing's measures, in its own units; the page scales it. */
enum { WIDTH = 540, HEIGHT = 260, LEFT = 52, RIGHT = 12, TOP = 10, BOTTOM = 30 };
/* The most points of a line, and the most points for which each is marked. */
enum { MOST_POINTS = 500, MARKED_POINTS = 60 };

/* The ranges that the axes show. */
typedef struct frame {
    double x0, x1, y0, y1;
} frame;

/* The lines of each run in a chart; the last one is drawn above the others. */
enum { DASHED, DOTTED, SOLID, LINES };
static const char *const styles[LINES] = {" dashed", " dotted", ""};

static const char *key_of(const ff_chart *chart, int line) {
    return line == DASHED ? chart->dashed : line == DOTTED ? chart->dotted : chart->key;
}

static double across(const frame *f, double x) {
    return LEFT + (x - f->x0) / (f->x1 - f->x0) * (WIDTH - LEFT - RIGHT);
}

static double down(const frame *f, double y) {
    return TOP + (f->y1 - y) / (f->y1 - f->y0) * (HEIGHT - TOP - BOTTOM);
}

/* ---- axes ---- */

static void widen(frame *f, const ff_run_log *run, const char *key) {
    for (size_t i = 0; key && i < json_array_size(run->epochs); i++) {
        const double x = ff_run_log_at(run, i, "epoch"), y = ff_run_log_at(run, i, key);
        if (!isfinite(x) || !isfinite(y)) continue;
        f->x0 = fmin(f->x0, x), f->x1 = fmax(f->x1, x);
        f->y0 = fmin(f->y0, y), f->y1 = fmax(f->y1, y);
    }
}

/* 1, 2 or 5 times a power of ten, for about `count` steps. */
static double step_of(double range, int count) {
    const double least = range / count, power = pow(10, floor(log10(least)));
    const double times = least / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static void add_axes(ff_html *html, const ff_chart *chart, const frame *f) {
    const double scale = chart->unit == FF_UNIT_PERCENT ? 100 : 1;
    const double y_step = step_of((f->y1 - f->y0) * scale, 6) / scale;
    const double x_step = fmax(step_of(f->x1 - f->x0, 8), 1);
    /* Counts rows, because a step may be too small to change a sum. */
    const int rows = (int)fmin((f->y1 - f->y0) / y_step + 2, 20);
    for (int i = 0; i < rows; i++) {
        const double y = (ceil(f->y0 / y_step - 1e-9) + i) * y_step;
        if (y > f->y1 + 1e-9 * y_step) break;
        ff_html_add(html, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, down(f, y),
                    WIDTH - RIGHT);
        ff_html_add(html, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g%s</text>", LEFT - 6,
                    down(f, y) + 3.5, fabs(y) < 1e-9 * y_step ? 0 : y * scale,
                    chart->unit == FF_UNIT_PERCENT ? "&#8239;%" : "");
    }
    for (int i = 0; i < 20; i++) {
        const double x = (ceil(f->x0 / x_step - 1e-9) + i) * x_step;
        if (x > f->x1 + 1e-9) break;
        ff_html_add(html, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>",
                    across(f, x), HEIGHT - BOTTOM + 16, x);
    }
    ff_html_add(html, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">epoch</text>", WIDTH - RIGHT,
                HEIGHT - 2);
    ff_html_add(html, "<path class=\"axis\" d=\"M%d %dH%d\"/>\n", LEFT, HEIGHT - BOTTOM,
                WIDTH - RIGHT);
}

/* ---- lines ---- */

/* Points that are not numbers interrupt the line. */
static void add_line(ff_html *html, const frame *f, const ff_run_log *run, const char *key,
                     size_t color, const char *how, size_t stride) {
    const size_t count = json_array_size(run->epochs);
    bool on = false;
    ff_html_add(html, "<path class=\"line c%zu%s\" d=\"", color, how);
    for (size_t i = 0; i < count; i++) {
        if (i % stride && i + 1 < count) continue;
        const double x = ff_run_log_at(run, i, "epoch"), y = ff_run_log_at(run, i, key);
        const json_t *value = json_object_get(json_array_get(run->epochs, i), key);
        if (!value || json_is_null(value)) continue; /* not evaluated */
        const bool good = isfinite(x) && isfinite(y);
        if (good) ff_html_add(html, "%c%.1f %.1f", on ? 'L' : 'M', across(f, x), down(f, y));
        on = good;
    }
    ff_html_add(html, "\"/>\n");
}

static void add_marks(ff_html *html, const ff_chart *chart, const frame *f, const ff_run_log *run,
                      const char *key, size_t color) {
    for (size_t i = 0; i < json_array_size(run->epochs); i++) {
        const double x = ff_run_log_at(run, i, "epoch"), y = ff_run_log_at(run, i, key);
        if (!isfinite(x) || !isfinite(y)) continue;
        ff_html_add(html, "<circle class=\"c%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.2\"><title>", color,
                    across(f, x), down(f, y));
        ff_html_text(html, run->name);
        ff_html_add(html, ", epoch %.0f: ", x);
        ff_html_number(html, y, chart->unit);
        ff_html_add(html, "</title></circle>\n");
    }
}

/* Adds a line of a run, if it has any number. */
static void add_run(ff_html *html, const ff_chart *chart, const frame *f, const ff_run_log *run,
                    int line, size_t color) {
    const size_t points = json_array_size(run->epochs);
    const char *key = key_of(chart, line);
    frame own = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    widen(&own, run, key);
    if (own.x0 > own.x1) return;
    add_line(html, f, run, key, color, styles[line], points / MOST_POINTS + 1);
    if (points <= MARKED_POINTS) add_marks(html, chart, f, run, key, color);
}

void ff_chart_add(ff_html *html, const ff_chart *chart, const ff_run_log *runs, size_t count) {
    frame f = {INFINITY, -INFINITY, INFINITY, -INFINITY}, averages = f;
    for (size_t i = 0; i < count; i++) {
        widen(&averages, &runs[i], chart->dotted);
        for (int line = 0; line < LINES; line++) widen(&f, &runs[i], key_of(chart, line));
    }
    if (f.x0 > f.x1) return;
    if (chart->from_zero) f.y0 = fmin(f.y0, 0);
    const double range = f.y1 - f.y0, pad = range > 0 ? range * 0.05 : fmax(fabs(f.y1) * 0.1, 1e-6);
    if (!chart->from_zero || f.y0 < 0) f.y0 -= pad;
    f.y1 += pad;
    if (f.x1 - f.x0 < 1) f.x0 -= 0.5, f.x1 += 0.5;
    ff_html_add(html, "<figure><figcaption>%s", chart->title);
    if (chart->dashed)
        ff_html_add(html, " <small>validation solid, training dashed%s</small>",
                    averages.x0 <= averages.x1 ? ", averages dotted" : "");
    ff_html_add(html, "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH, HEIGHT);
    add_axes(html, chart, &f);
    for (size_t i = 0; i < count; i++)
        for (int line = 0; line < LINES; line++)
            add_run(html, chart, &f, &runs[i], line, i % FF_CHART_COLORS);
    ff_html_add(html, "</svg></figure>\n");
}
