/* The errors of a run's last evaluation: classes, confusions and worst samples. */
#ifndef FF_TRAIN_REPORT_PAGE_MISTAKES_H
#define FF_TRAIN_REPORT_PAGE_MISTAKES_H

#include "train/report/page/html.h"
#include "train/report/page/run_log.h"

/* Adds nothing if the run has neither an evaluation nor sheets. FF_NO_MEMORY is kept in `html`. */
void ff_mistakes_add(ff_html *html, const ff_run_log *run);

#endif
