/* Why a run was as fast as it was. Pure. */
#ifndef FF_TRAIN_BOTTLENECK_H
#define FF_TRAIN_BOTTLENECK_H

#include "train/report.h"

/* One sentence into `text`: whether the steps waited for data or the data for the steps, by how
 * much, and what to change. */
void ff_bottleneck_text(const ff_recipe *recipe, const ff_run_result *result, char *text,
                        size_t size);

#endif
