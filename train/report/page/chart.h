/* Line charts as SVG: a number per epoch, for several runs in one chart. */
#ifndef FF_TRAIN_REPORT_PAGE_CHART_H
#define FF_TRAIN_REPORT_PAGE_CHART_H

#include "train/report/page/html.h"
#include "train/report/page/run_log.h"

/* Number of colours of runs in the page's style; further runs reuse them. */
enum { FF_CHART_COLORS = 8 };

typedef struct ff_chart {
    const char *title;
    /* Keys of the epochs' lines. key: drawn solid; dashed: of the training, dotted: of averaged
     * parameters, either may be NULL. */
    const char *key, *dashed, *dotted;
    ff_unit unit;
    bool from_zero; /* the axis begins at 0 */
} ff_chart;

/* Adds nothing if no run has a finite number. */
void ff_chart_add(ff_html *html, const ff_chart *chart, const ff_run_log *runs, size_t count);

#endif
