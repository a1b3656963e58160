/* The report of one or several runs: one HTML page without scripts that loads nothing. */
#ifndef FF_TRAIN_REPORT_PAGE_PAGE_H
#define FF_TRAIN_REPORT_PAGE_PAGE_H

#include "train/report_page/html.h"
#include "train/report_page/run_log.h"

/* FF_NO_MEMORY. The caller frees html->text, after a failure too. */
FF_MUST_USE ff_status ff_page_make(ff_html *html, const ff_run_log *runs, size_t count,
                                   ff_error *error);

#endif
