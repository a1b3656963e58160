/* --dp: the devices of the ranks that this process starts, and the parts of a batch that
 * --dp-balance lists. */
#ifndef FF_TRAIN_COMM_DEVICES_H
#define FF_TRAIN_COMM_DEVICES_H

#include "format/base/status.h"

#include <stdint.h>

enum { FF_RANK_DEVICES = 64 };

typedef struct ff_rank_devices {
    int count; /* 0 = not requested */
    char name[FF_RANK_DEVICES][24];
    uint32_t cuts[FF_RANK_DEVICES + 1]; /* as in ff_job */
} ff_rank_devices;

/* list: "0,1,2", "cpu,cpu", "cuda:1,cuda:3", "2x0,1" with two on GPU 0; NULL = none. balance:
 * "2,3,3", parts of a batch; NULL = equal. FF_USAGE. */
FF_MUST_USE ff_status ff_rank_devices_parse(ff_rank_devices *devices, const char *list,
                                            const char *balance, ff_error *error);

#endif
