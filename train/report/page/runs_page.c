#include "train/report/page/runs_page.h"

#include "format/base/path.h"
#include "train/report/page/page.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PAGE "report.html"

/* A path as a link. */
static void add_link(ff_html *html, const char *path) {
    for (; *path; path++) {
        const unsigned char byte = (unsigned char)*path;
        if (byte < 128 && (isalnum(byte) || strchr("/-._~", byte)))
            ff_html_add(html, "%c", byte);
        else
            ff_html_add(html, "%%%02X", byte);
    }
}

/* Adds the name of a run, with a link to its page if there is one. folder: precedes the name in the
 * link; NULL: the link is relative. */
static void add_name(ff_html *html, const ff_runs_table *table, const char *name,
                     const char *folder) {
    const bool there = ff_path_exists("%s/%s/" PAGE, table->folder, name);
    if (there) {
        ff_html_add(html, "<a href=\"");
        if (folder) add_link(html, folder);
        add_link(html, folder ? "/" : "./");
        add_link(html, name);
        ff_html_add(html, "/" PAGE "\">");
    }
    ff_html_text(html, name);
    if (there) ff_html_add(html, "</a>");
}

static void add_table(ff_html *html, const ff_runs_table *table, const char *folder) {
    const size_t columns = ff_runs_columns(table);
    char text[FF_RUNS_CELL_BYTES];
    ff_html_add(html, "<div class=\"wide\"><table><tr>");
    for (size_t c = 0; c < columns; c++) {
        ff_html_add(html, "<th>");
        ff_html_text(html, ff_runs_heading(table, c));
        ff_html_add(html, "</th>");
    }
    for (size_t i = 0; i < table->count; i++) {
        ff_html_add(html, "</tr>\n<tr><td>");
        add_name(html, table, table->rows[i].name, folder);
        for (size_t c = 1; c < columns; c++) {
            ff_runs_cell(table, &table->rows[i], c, text);
            ff_html_add(html, "</td><td>");
            ff_html_text(html, text);
        }
        ff_html_add(html, "</td>");
    }
    ff_html_add(html, "</tr></table></div>\n");
}

ff_status ff_runs_page_write(const ff_runs_table *table, const char *path, uint64_t *bytes,
                             ff_error *error) {
    ff_html html = {0};
    char *own = NULL, *folder = path ? realpath(table->folder, NULL) : NULL;
    ff_status status;
    if (!path) FF_TRY_DONE(ff_path_join(&own, table->folder, PAGE, error));
    ff_page_begin(&html, table->folder, 0);
    ff_html_add(&html, "<h1>Runs in ");
    ff_html_text(&html, table->folder);
    ff_html_add(&html, "</h1>\n<p class=\"pale\">The best first; columns after the status are "
                       "options in which the runs differ, - as by default.</p>\n");
    add_table(&html, table, folder);
    FF_TRY_DONE(ff_page_end(&html, path ? path : own, bytes, error));
done:
    ff_buffer_free(&html.text);
    free(folder);
    free(own);
    return status;
}
