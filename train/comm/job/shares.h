/* Divides the samples of a batch among ranks of different speed and memory. */
#ifndef FF_TRAIN_SHARES_H
#define FF_TRAIN_SHARES_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a list of `count` parts from 1 to 1048576, as in "2,3,3", to cuts[count + 1], as in ff_job.
 * False for anything else. */
bool ff_shares_parse(const char *list, int count, uint32_t *cuts);

/* Chooses rows[count] that add up to `total` and with which ranks of these speeds, in samples per
 * time, finish as early as possible. Rank r gets at least 1 and at most most[r] rows. pairs: as in
 * ff_loader_share, even numbers except for the last rank. False if there is no such choice. */
bool ff_shares_choose(const double *speed, const int64_t *most, int count, int64_t total,
                      bool pairs, int64_t *rows);

#endif
