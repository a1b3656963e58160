/* Line charts as SVG: a number of each epoch, of several runs in one chart. */
#ifndef FF_TRAIN_REPORT_PAGE_CHART_H
#define FF_TRAIN_REPORT_PAGE_CHART_H

#include "train/report/page/html.h"
#include "train/report/page/run_log.h"

/* Colours of runs in the page's style; further runs begin again. */
enum { FF_CHART_COLORS = 8 };

typedef struct ff_chart {
    const char *title;
    /* Of the epochs' lines: drawn solid; others, or NULL: of the training, dashed; of averaged
     * parameters, dotted. */
    const char *key, *dashed, *dotted;
    ff_unit unit;
    bool from_zero; /* the axis begins at 0 */
} ff_chart;

/* Nothing where no run has a finite number. */
void ff_chart_add(ff_html *html, const ff_chart *chart, const ff_run_log *runs, size_t count);

#endif
