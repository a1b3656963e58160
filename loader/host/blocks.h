/* Blocks of host memory of one size, which a consumer may keep: returned blocks are used again.
 *
 * Life of a block: ff_blocks_take -> its owner -> ff_blocks_give. The blocks outlive their creator:
 * after ff_blocks_close the last block to be returned frees all. Thread rule: any thread. */
#ifndef FF_LOADER_BLOCKS_H
#define FF_LOADER_BLOCKS_H

#include "format/base/status.h"

#include <stdint.h>

typedef struct ff_blocks ff_blocks;

/* Blocks of `bytes` (at least 1), aligned to 256 bytes, up to `unused_most` blocks without an owner
 * stay allocated. Allocates no block yet. */
FF_MUST_USE ff_status ff_blocks_create(ff_blocks **blocks, uint64_t bytes, uint32_t unused_most,
                                       ff_error *error);
/* No more are taken. NULL is accepted; *blocks = NULL. */
void ff_blocks_close(ff_blocks **blocks);

/* Returns a block, if possible the one returned last; its content is undefined. FF_NO_MEMORY. */
FF_MUST_USE ff_status ff_blocks_take(ff_blocks *blocks, void **block, ff_error *error);
/* Frees `blocks` if it is closed and this was its last block. */
void ff_blocks_give(ff_blocks *blocks, void *block);

/* The number of blocks allocated since the creation: constant while blocks are only reused. */
uint64_t ff_blocks_allocated(ff_blocks *blocks);

#endif
