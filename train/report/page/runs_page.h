/* The runs of a folder: one HTML page with a table that links to each run's own page. */
#ifndef FF_TRAIN_REPORT_PAGE_RUNS_PAGE_H
#define FF_TRAIN_REPORT_PAGE_RUNS_PAGE_H

#include "train/report/page/runs_table.h"

/* Writes the page to `path`, "-" = standard output; NULL: report.html in the folder, with relative
 * links. A run without a report.html has no link. *bytes = the page's size. FF_IO, FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_runs_page_write(const ff_runs_table *table, const char *path,
                                         uint64_t *bytes, ff_error *error);

#endif
