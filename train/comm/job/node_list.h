/* SLURM's lists of nodes, and of tasks on nodes. */
#ifndef FF_TRAIN_COMM_NODE_LIST_H
#define FF_TRAIN_COMM_NODE_LIST_H

#include "format/base/memory.h"

/* Appends host `index` of a list such as "a[01-03,7]b[0-1],c" to `host`, the last brackets changing
 * fastest; *count = the number of hosts, at most 2^20. FF_USAGE if `list` is not a list or has no
 * such host; the message names `variable`. */
FF_MUST_USE ff_status ff_node_list_host(const char *variable, const char *list, uint64_t index,
                                        ff_buffer *host, uint64_t *count, ff_error *error);

/* The number of tasks on node `index`, from a list such as "2(x3),1". */
FF_MUST_USE ff_status ff_node_list_tasks(const char *variable, const char *list, uint64_t index,
                                         uint64_t *tasks, ff_error *error);

#endif
