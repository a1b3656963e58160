/* The report of one or several runs: one HTML page without scripts that loads nothing. */
#ifndef FF_TRAIN_REPORT_PAGE_PAGE_H
#define FF_TRAIN_REPORT_PAGE_PAGE_H

#include "train/report/page/html.h"

#include <stddef.h>
#include <stdint.h>

/* Reads the runs, each a folder or a log (run_log.h), and writes the page to `path`, "-" = standard
 * output. *bytes (may be NULL) = its size. FF_BAD_DATA, FF_IO, FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_page_write(const char *path, const char *const *runs, size_t count,
                                    uint64_t *bytes, ff_error *error);

/* For runs_page.c. Adds the head of a page, with the style of all pages; `more`: number of runs
 * that the title does not name. */
void ff_page_begin(ff_html *html, const char *title, size_t more);
/* Adds the end of the page and writes it to `path` as above. */
FF_MUST_USE ff_status ff_page_end(ff_html *html, const char *path, uint64_t *bytes,
                                  ff_error *error);

#endif
