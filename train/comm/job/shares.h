/* How the samples of a batch are shared among ranks of different speed and memory. */
#ifndef FF_TRAIN_SHARES_H
#define FF_TRAIN_SHARES_H

#include <stdbool.h>
#include <stdint.h>

/* cuts[count + 1], as in ff_job, of a list of `count` parts from 1 to 1048576, as in "2,3,3". False
 * for anything else. */
bool ff_shares_parse(const char *list, int count, uint32_t *cuts);

/* rows[count] that add up to `total`, so that ranks of those speeds, samples per time, are done as
 * early as possible; of rank r at least 1 and at most most[r]. pairs: as in ff_loader_share, even
 * numbers but for the last one's. False where there are none. */
bool ff_shares_choose(const double *speed, const int64_t *most, int count, int64_t total,
                      bool pairs, int64_t *rows);

#endif
