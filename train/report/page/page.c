#include "train/report/page/page.h"

#include "format/base/file.h"
#include "format/cli/options.h"
#include "train/report/page/chart.h"
#include "train/report/page/mistakes.h"
#include "train/report/page/run_sums.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    ":root{--paper:#fff;--ink:#1d2129;--pale:#6b7280;--line:#e4e6ea;--box:#f7f8fa;"
    "--good:37,99,235;--bad:220,38,38;"
    "--c0:#2563eb;--c1:#d97706;--c2:#059669;--c3:#db2777;--c4:#7c3aed;--c5:#0891b2;--c6:#65a30d;"
    "--c7:#dc2626;color-scheme:light dark}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#15181e;--ink:#e6e8ec;--pale:#9aa1ad;"
    "--line:#2c313a;--box:#1c2027;--good:96,165,250;--bad:248,113,113;"
    "--c0:#60a5fa;--c1:#fbbf24;--c2:#34d399;--c3:#f472b6;--c4:#a78bfa;--c5:#22d3ee;--c6:#a3e635;"
    "--c7:#f87171}}\n"
    "*{box-sizing:border-box}body{margin:0 auto;max-width:1180px;padding:28px 24px 60px;"
    "background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:24px;margin:0 0 18px}h2{font-size:18px;margin:40px 0 12px;padding-bottom:6px;"
    "border-bottom:1px solid var(--line)}h3{font-size:15px;margin:0}small,.pale{color:var(--pale)}\n"
    ".cards,.charts,.columns{display:grid;gap:16px;"
    "grid-template-columns:repeat(auto-fill,minmax(260px,1fr))}"
    ".charts{grid-template-columns:repeat(auto-fill,minmax(440px,1fr))}"
    ".columns{grid-template-columns:repeat(auto-fill,minmax(380px,1fr));align-items:start;"
    "gap:16px 40px}\n"
    ".card,figure{background:var(--box);border:1px solid var(--line);border-radius:8px;"
    "padding:14px 16px;margin:0}figure{margin:0 0 16px}.charts figure{margin:0}"
    ".card p{margin:4px 0 0}.card .big{font-size:30px;font-weight:600;line-height:1.2;"
    "margin:8px 0 2px}.card .pale{font-size:13px}\n"
    ".swatch{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:8px}"
    ".word{overflow-wrap:anywhere}figcaption{font-weight:600;margin-bottom:8px}"
    "figcaption small{font-weight:400;margin-left:6px}"
    "svg{display:block;width:100%;height:auto}svg text{font-size:11px;fill:var(--pale)}"
    ".grid{stroke:var(--line);fill:none}.axis{stroke:var(--pale);fill:none}"
    ".line{fill:none;stroke-width:2;stroke-linejoin:round}.dashed{stroke-width:1.4;"
    "stroke-dasharray:4 3;opacity:.75}.dotted{stroke-dasharray:.1 4;stroke-linecap:round}"
    "circle{stroke:none}img{display:block;max-width:100%;"
    "border-radius:4px}\n"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;"
    "font-size:14px}caption{text-align:left;font-weight:600;padding:4px 0 8px}"
    "th,td{padding:4px 10px 4px 0;text-align:left;vertical-align:top;"
    "border-bottom:1px solid var(--line)}th{font-weight:500}td.number{text-align:right}"
    ".settings td{overflow-wrap:anywhere}.settings tr.differs{background:rgba(var(--good),.1)}"
    ".settings th:first-child{color:var(--pale);white-space:nowrap}"
    ".wide{overflow-x:auto;margin:16px 0}\n"
    ".bars td{white-space:nowrap}.bars th{max-width:180px;overflow-wrap:anywhere}"
    ".bar{width:140px;height:8px;margin-top:8px;border-radius:4px;background:var(--line)}"
    ".bar i{display:block;height:8px;border-radius:4px;background:rgb(var(--good))}\n"
    ".matrix{width:auto;font-size:12px}.matrix td,.matrix th{border:0;padding:0}"
    ".matrix td{width:44px;height:30px;text-align:center;vertical-align:middle;"
    "border:1px solid var(--paper)}.matrix th{padding-right:8px;text-align:right;"
    "vertical-align:middle;white-space:nowrap}.matrix .up{vertical-align:bottom;padding:0 0 6px;"
    "text-align:center}.up span{writing-mode:vertical-rl;transform:rotate(180deg)}"
    ".right{background:rgba(var(--good),calc(.12 + .88*var(--v)))}"
    ".wrong{background:rgba(var(--bad),calc(.08 + 1.6*var(--v)))}.right.strong{color:var(--paper)}"
    "\n"
    ".times{display:flex;height:18px;border-radius:4px;overflow:hidden;background:var(--line)}"
    ".times i{display:block}.t0{background:var(--c0)}.t1{background:var(--c7)}"
    ".t2{background:var(--c2)}.t3{background:var(--c4)}.t4{background:var(--pale)}"
    "pre{background:var(--box);border:1px solid var(--line);border-radius:8px;padding:12px 16px;"
    "overflow-x:auto;font-size:13px}details{margin:0 0 12px}"
    "summary{cursor:pointer;font-weight:600;padding:6px 0}\n"
    "@media print{body{max-width:none;padding:0}figure,.card{break-inside:avoid}}\n";

static void add_name(ff_html *html, const ff_run_log *run, size_t number) {
    ff_html_add(html, "<span class=\"word\"><i class=\"swatch b%zu\"></i>",
                number % FF_CHART_COLORS);
    ff_html_text(html, run->name);
    ff_html_add(html, "</span>");
}

/* ---- results ---- */

/* Describes the state of the run in words. */
static void add_status(ff_html *html, const ff_run_log *run) {
    const char *message = ff_run_log_text(run->end, "message");
    ff_html_text(html, ff_run_status(run));
    ff_html_add(html, ", epoch %.0f of ", ff_run_last_epoch(run));
    ff_html_number(html, ff_run_log_number(run->start, "epochs"), FF_UNIT_COUNT);
    if (!*message) return;
    ff_html_add(html, ": ");
    ff_html_text(html, message);
}

static void add_card(ff_html *html, const ff_run_log *run, size_t number) {
    const size_t epochs = json_array_size(run->epochs);
    long last, best;
    ff_run_evaluated(run, &last, &best);
    ff_html_add(html, "<article class=\"card\"><h3>");
    add_name(html, run, number);
    ff_html_add(html, "</h3>\n<p class=\"big\">");
    if (last >= 0)
        ff_html_number(html, ff_run_log_at(run, (size_t)last, "val_accuracy"), FF_UNIT_PERCENT);
    else
        ff_html_number(html, epochs ? ff_run_log_at(run, epochs - 1, "train_accuracy") : NAN,
                       FF_UNIT_PERCENT);
    ff_html_add(html, "</p>\n<p class=\"pale\">%s", last >= 0 ? "accuracy" : "training accuracy");
    if (last >= 0) {
        const json_t *line = json_array_get(run->epochs, (size_t)last);
        if (best >= 0 && best != last) {
            ff_html_add(html, ", best ");
            ff_html_number(html, ff_run_log_at(run, (size_t)best, "val_accuracy"), FF_UNIT_PERCENT);
            ff_html_add(html, " after epoch %.0f", ff_run_log_at(run, (size_t)best, "epoch"));
        }
        if (isfinite(ff_run_log_number(line, "val_top5_accuracy"))) {
            ff_html_add(html, ", top-5 ");
            ff_html_number(html, ff_run_log_number(line, "val_top5_accuracy"), FF_UNIT_PERCENT);
        }
        if (isfinite(ff_run_log_number(line, "val_ema_accuracy"))) {
            ff_html_add(html, ", of the average ");
            ff_html_number(html, ff_run_log_number(line, "val_ema_accuracy"), FF_UNIT_PERCENT);
        }
        ff_html_add(html, ", loss ");
        ff_html_number(html, ff_run_log_number(line, "val_loss"), FF_UNIT_PLAIN);
    }
    ff_html_add(html, "</p>\n<p>");
    add_status(html, run);
    ff_html_add(html, "</p></article>\n");
}

/* ---- time ---- */

static const char *const part_names[FF_RUN_TIMES] = {"training", "waiting for data", "evaluation",
                                                     "warm-up", "other"};

static void add_times(ff_html *html, const ff_run_log *runs, size_t count) {
    ff_html_add(html, "<h2>Time</h2>\n<table><tr><th></th><th></th><th>total</th>");
    for (int p = 0; p < FF_RUN_TIMES; p++)
        ff_html_add(html, "<th><i class=\"swatch t%d\"></i>%s</th>", p, part_names[p]);
    ff_html_add(html, "<th>samples/s</th></tr>\n");
    for (size_t i = 0; i < count; i++) {
        double parts[FF_RUN_TIMES], rate, total = ff_run_times(&runs[i], parts, &rate);
        ff_html_add(html, "<tr><th>");
        add_name(html, &runs[i], i);
        ff_html_add(html, "</th><td style=\"width:22%%\"><div class=\"times\">");
        for (int p = 0; p < FF_RUN_TIMES; p++)
            ff_html_add(html, "<i class=\"t%d\" style=\"width:%.2f%%\"></i>", p,
                        total > 0 ? 100 * parts[p] / total : 0);
        ff_html_add(html, "</div></td><td>");
        ff_html_number(html, total, FF_UNIT_SECONDS);
        ff_html_add(html, "</td>");
        for (int p = 0; p < FF_RUN_TIMES; p++) {
            ff_html_add(html, "<td>");
            ff_html_number(html, parts[p] > 0 ? parts[p] : NAN, FF_UNIT_SECONDS);
            if (parts[p] > 0)
                ff_html_add(html, " <small>%.1f&#8239;%%</small>", 100 * parts[p] / total);
            ff_html_add(html, "</td>");
        }
        ff_html_add(html, "<td>");
        ff_html_number(html, rate, FF_UNIT_COUNT);
        ff_html_add(html, "</td></tr>\n");
    }
    ff_html_add(html, "</table>\n");
}

/* ---- settings ---- */

static void add_value(ff_html *html, const json_t *value) {
    if (!value || json_is_null(value)) {
        ff_html_add(html, "-");
    } else if (json_is_string(value)) {
        ff_html_text(html, json_string_value(value));
    } else if (json_is_boolean(value)) {
        ff_html_add(html, json_is_true(value) ? "yes" : "no");
    } else if (json_is_number(value)) {
        ff_html_add(html, "%.10g", json_number_value(value));
    } else {
        char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(10));
        if (text) ff_html_text(html, text);
        free(text);
    }
}

static void add_setting(ff_html *html, const char *key, const ff_run_log *runs, size_t count) {
    bool differs = false;
    const json_t *first = json_object_get(runs[0].start, key);
    for (size_t i = 1; i < count; i++) {
        json_t *here = json_object_get(runs[i].start, key);
        differs |= first ? !here || !json_equal(first, here) : here != NULL;
    }
    ff_html_add(html, "<tr%s><th>", differs ? " class=\"differs\"" : "");
    ff_html_text(html, key);
    ff_html_add(html, "</th>");
    for (size_t i = 0; i < count; i++) {
        ff_html_add(html, "<td>");
        add_value(html, json_object_get(runs[i].start, key));
        ff_html_add(html, "</td>");
    }
    ff_html_add(html, "</tr>\n");
}

/* Whether one of the first `count` runs has the setting. */
static bool is_known(const char *key, const ff_run_log *runs, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (json_object_get(runs[i].start, key)) return true;
    return strcmp(key, "event") == 0;
}

static void add_settings(ff_html *html, const ff_run_log *runs, size_t count) {
    ff_html_add(html, "<h2>Settings</h2>\n");
    if (count > 1)
        ff_html_add(html, "<p class=\"pale\">Settings in which the runs differ are marked.</p>\n");
    ff_html_add(html, "<div class=\"wide\"><table class=\"settings\"><tr><th></th>");
    for (size_t i = 0; i < count; i++) {
        ff_html_add(html, "<th>");
        add_name(html, &runs[i], i);
        ff_html_add(html, "</th>");
    }
    ff_html_add(html, "</tr>\n");
    for (size_t i = 0; i < count; i++) {
        const char *key;
        json_t *value;
        json_object_foreach(runs[i].start, key, value) {
            if (!is_known(key, runs, i)) add_setting(html, key, runs, count);
        }
    }
    ff_html_add(html, "</table></div>\n");
    for (size_t i = 0; i < count; i++) {
        if (!runs[i].recipe.length) continue;
        ff_html_add(html, "<details%s><summary>Recipe of ", count == 1 ? " open" : "");
        add_name(html, &runs[i], i);
        ff_html_add(html, "</summary><pre>");
        for (char *line = runs[i].recipe.bytes, *next; line && *line; line = next) {
            next = strchr(line, '\n');
            if (next) *next++ = 0;
            ff_html_text(html, line);
            ff_html_add(html, "\n");
        }
        ff_html_add(html, "</pre></details>\n");
    }
}

/* ---- the page ---- */

static void add_charts(ff_html *html, const ff_run_log *runs, size_t count) {
    static const ff_chart charts[] = {
        {"Accuracy", "val_accuracy", "train_accuracy", "val_ema_accuracy", FF_UNIT_PERCENT, false},
        {"Loss", "val_loss", "train_loss", "val_ema_loss", FF_UNIT_PLAIN, false},
        {"Learning rate", "learning_rate", NULL, NULL, FF_UNIT_PLAIN, true},
        {"Samples per second", "samples_per_second", NULL, NULL, FF_UNIT_COUNT, true},
    };
    ff_html_add(html, "<h2>Curves</h2>\n<div class=\"charts\">\n");
    for (size_t i = 0; i < sizeof charts / sizeof *charts; i++)
        ff_chart_add(html, &charts[i], runs, count);
    ff_html_add(html, "</div>\n");
}

static void add_notes(ff_html *html, const ff_run_log *run) {
    for (size_t i = 0; i < json_array_size(run->notes); i++) {
        ff_html_add(html, "<p>Note: ");
        ff_html_text(html, json_string_value(json_array_get(run->notes, i)));
        ff_html_add(html, "</p>\n");
    }
    if (run->unreadable)
        ff_html_add(html, "<p>%zu line%s of its log could not be read.</p>\n", run->unreadable,
                    run->unreadable == 1 ? "" : "s");
}

static void add_details(ff_html *html, const ff_run_log *runs, size_t count) {
    ff_html_add(html, "<h2>Evaluation</h2>\n");
    for (size_t i = 0; i < count; i++) {
        if (count > 1) {
            ff_html_add(html, "<details%s><summary>", i ? "" : " open");
            add_name(html, &runs[i], i);
            ff_html_add(html, "</summary>\n");
        }
        add_notes(html, &runs[i]);
        ff_mistakes_add(html, &runs[i]);
        if (count > 1) ff_html_add(html, "</details>\n");
    }
}

static void add_style(ff_html *html) {
    ff_html_add(html, "<style>\n%s", style);
    for (int i = 0; i < FF_CHART_COLORS; i++)
        ff_html_add(
            html,
            ".b%d{background:var(--c%d)}path.c%d{stroke:var(--c%d)}circle.c%d{fill:var(--c%d)}\n",
            i, i, i, i, i, i);
    ff_html_add(html, "</style>\n");
}

void ff_page_begin(ff_html *html, const char *title, size_t more) {
    ff_html_add(html, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                      "<title>");
    ff_html_text(html, title);
    if (more) ff_html_add(html, " and %zu more", more);
    ff_html_add(html, "</title>\n");
    add_style(html);
    ff_html_add(html, "</head><body>\n");
}

ff_status ff_page_end(ff_html *html, const char *path, uint64_t *bytes, ff_error *error) {
    ff_file *file = NULL;
    ff_status status;
    ff_html_add(html, "<p class=\"pale\">fftrain %s</p>\n</body></html>\n", ff_version);
    if (bytes) *bytes = html->text.length;
    if (html->failure.status != FF_OK)
        return ff_fail(error, html->failure.status, "%s: %s", path, html->failure.message);
    FF_TRY_DONE(ff_file_replace(&file, path, error));
    FF_TRY_DONE(ff_file_write(file, html->text.bytes, html->text.length, error));
    FF_TRY_DONE(ff_file_commit(&file, error));
done:
    ff_file_discard(&file);
    return status;
}

static void add_body(ff_html *html, const ff_run_log *runs, size_t count) {
    ff_html_add(html, "<h1>Training report</h1>\n<section class=\"cards\">\n");
    for (size_t i = 0; i < count; i++) add_card(html, &runs[i], i);
    ff_html_add(html, "</section>\n");
    add_charts(html, runs, count);
    add_times(html, runs, count);
    add_details(html, runs, count);
    add_settings(html, runs, count);
}

ff_status ff_page_write(const char *path, const char *const *runs, size_t count, uint64_t *bytes,
                        ff_error *error) {
    ff_run_log *logs;
    ff_html html = {0};
    ff_status status = FF_OK;
    FF_TRY(ff_alloc(&logs, count, sizeof *logs, "the runs", error));
    for (size_t i = 0; i < count; i++) FF_TRY_DONE(ff_run_log_read(&logs[i], runs[i], error));
    ff_page_begin(&html, logs[0].name, count - 1);
    add_body(&html, logs, count);
    FF_TRY_DONE(ff_page_end(&html, path, bytes, error));
done:
    for (size_t i = 0; i < count; i++) ff_run_log_free(&logs[i]);
    free(logs);
    ff_buffer_free(&html.text);
    return status;
}
