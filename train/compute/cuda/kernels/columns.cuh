/* Sums over the rows of [rows][channels] arrays, for the kernels of this folder.
 *
 * A block of FF_COLUMN_THREADS threads covers a tile of `across` vectors of 16 bytes and `down`
 * rows, and moves down the rows: a thread keeps its channels, so per-channel values are loaded
 * once, and no element needs a division. With sums, all blocks are resident and pass through the
 * array in parallel, from start to end. Without sums, each block takes a chunk, the last chunk
 * first, because the end of the array is still in the L2 cache from the previous pass. Sums pass
 * from thread to block (a tree in shared memory), to partial results [parts][width] in scratch, to
 * finish; each step adds in an order fixed by the shapes and the number of multiprocessors. */
#ifndef FF_TRAIN_CUDA_KERNELS_COLUMNS_CUH
#define FF_TRAIN_CUDA_KERNELS_COLUMNS_CUH

#include "train/compute/cuda/kernels/vectors.cuh"

enum {
    FF_COLUMN_THREADS = 256,
    FF_COLUMN_ACROSS = 32, /* vectors: 512 bytes of a row, so that cache lines are fully used */
    /* Blocks per multiprocessor. With sums: the number resident at once (64, 80 or 128 registers
     * per thread), so that all finish together. Without sums: approximate, and many. */
    FF_COLUMN_BLOCKS = 4,
    FF_COLUMN_MAPPING = 16,
    FF_COLUMN_AHEAD = 4 /* the most rows that a thread loads before it uses them */
};

struct ff_columns {
    size_t rows;
    int channels;
    int vectors;      /* per row: channels / lanes */
    int across, down; /* vectors and rows of a block's tile */
    int slices;       /* tiles across a row: blockIdx.y */
    int parts;        /* blocks that share the rows: blockIdx.x */
    size_t chunk;     /* contiguous rows of a part; 0 = tiles are assigned round-robin */
};

/* Partial results of one slice, with `blocks` per multiprocessor. */
static inline int ff_columns_parts(int multiprocessors, int blocks, int slices) {
    int parts = blocks * multiprocessors / slices;
    return parts > 1 ? parts : 1;
}

/* Tiles over the array; false: no kernel supports the shape. */
static inline bool ff_columns_tiles(const ff_tensor *shape, int lanes, ff_columns *columns) {
    const size_t rows = ff_cuda_rows(shape);
    const int channels = ff_tensor_padded_channels(shape);
    if (rows < 1 || rows >> 31 || channels < 8 || channels % 8) return false;
    columns->rows = rows;
    columns->channels = channels;
    columns->vectors = channels / lanes;
    columns->slices = (columns->vectors + FF_COLUMN_ACROSS - 1) / FF_COLUMN_ACROSS;
    if (columns->slices > 65535) return false; /* of a grid's y */
    columns->across = (columns->vectors + columns->slices - 1) / columns->slices;
    columns->down = FF_COLUMN_THREADS / columns->across;
    return true;
}
/* For kernels that sum, with `blocks` per multiprocessor, at most FF_COLUMN_BLOCKS. */
static inline bool ff_columns_plan(const ff_cuda_queue *queue, const ff_tensor *shape, int lanes,
                                   int blocks, ff_columns *columns) {
    if (!ff_columns_tiles(shape, lanes, columns)) return false;
    size_t most = (columns->rows + columns->down - 1) / columns->down;
    columns->parts = ff_columns_parts(queue->multiprocessors, blocks, columns->slices);
    if ((size_t)columns->parts > most) columns->parts = (int)most;
    columns->chunk = 0;
    return true;
}
/* For kernels that do not sum. */
static inline bool ff_columns_map(const ff_cuda_queue *queue, const ff_tensor *shape, int lanes,
                                  ff_columns *columns) {
    if (!ff_columns_tiles(shape, lanes, columns)) return false;
    const size_t rows = columns->rows;
    const size_t least = (size_t)columns->down * FF_COLUMN_AHEAD;
    const size_t parts =
        ff_columns_parts(queue->multiprocessors, FF_COLUMN_MAPPING, columns->slices);
    const size_t times = rows / (least * parts);
    columns->chunk = least * (times ? times : 1);
    columns->parts = (int)((rows + columns->chunk - 1) / columns->chunk);
    return true;
}
static inline dim3 ff_columns_grid(const ff_columns *columns) {
    return dim3((unsigned)columns->parts, (unsigned)columns->slices);
}

/* A thread's position. */
struct ff_tile {
    int x, y;      /* in the block's tile */
    int vector;    /* of the row */
    bool active;   /* it has channels and rows */
    size_t row;    /* its first */
    size_t end;    /* its first row */
    size_t stride; /* to its next row */
};

static __device__ __forceinline__ ff_tile ff_tile_of(const ff_columns &columns) {
    ff_tile tile;
    tile.y = (int)threadIdx.x / columns.across;
    tile.x = (int)threadIdx.x - tile.y * columns.across;
    tile.vector = (int)blockIdx.y * columns.across + tile.x;
    tile.row = (size_t)blockIdx.x * columns.down + tile.y;
    tile.end = columns.rows;
    tile.stride = (size_t)columns.parts * columns.down;
    if (columns.chunk) {
        const size_t first = (size_t)(columns.parts - 1 - (int)blockIdx.x) * columns.chunk;
        tile.row = first + tile.y;
        if (tile.end > first + columns.chunk) tile.end = first + columns.chunk;
        tile.stride = (size_t)columns.down;
    }
    tile.active = tile.y < columns.down && tile.vector < columns.vectors && tile.row < tile.end;
    return tile;
}

/* The number of rows of a part. */
static __device__ __forceinline__ int ff_rows_of_part(const ff_columns &columns, int part) {
    int step = columns.parts * columns.down, rows = (int)columns.rows;
    int rest = rows % step - part * columns.down;
    rest = rest < 0 ? 0 : rest > columns.down ? columns.down : rest;
    return rows / step * columns.down + rest;
}

/* Shared memory of the tree: a block's values, one array per lane to avoid bank conflicts. */
template <int lanes> struct ff_tree { float value[lanes][FF_COLUMN_THREADS]; };

/* Adds the values of each column of the tile; the threads of row 0 get the sums. All threads of the
 * block must call it; `value` is 0 in threads without data. */
template <int lanes>
static __device__ __forceinline__ void ff_tree_sum(const ff_columns &columns, const ff_tile &tile,
                                                   ff_tree<lanes> *tree, float (&value)[lanes]) {
#pragma unroll
    for (int i = 0; i < lanes; i++) tree->value[i][threadIdx.x] = value[i];
    for (int reach = FF_COLUMN_THREADS / 2; reach > 0; reach /= 2) {
        if (reach >= columns.down) continue;
        __syncthreads();
        if (tile.y < reach && tile.y + reach < columns.down) {
#pragma unroll
            for (int i = 0; i < lanes; i++) {
                value[i] += tree->value[i][threadIdx.x + reach * columns.across];
                tree->value[i][threadIdx.x] = value[i];
            }
        }
    }
    __syncthreads(); /* the tree may be reused */
}

/* ---- moments -------------------------------------------------------------------------------- */

/* The mean and the sum of squared deviations of a thread's values, around the first value: nothing
 * cancels, however far from zero the values are. */
template <int lanes> struct ff_moments {
    float shift[lanes], sum[lanes], squares[lanes];
    int count;

    __device__ __forceinline__ void clear() {
        count = 0;
#pragma unroll
        for (int i = 0; i < lanes; i++) shift[i] = sum[i] = squares[i] = 0;
    }
    __device__ __forceinline__ void add(const float (&value)[lanes]) {
#pragma unroll
        for (int i = 0; i < lanes; i++) {
            if (count == 0) shift[i] = value[i];
            float centred = value[i] - shift[i];
            sum[i] += centred;
            squares[i] += centred * centred;
        }
        count++;
    }
};

/* Partial moments in scratch: mean and squared deviations, [parts][channels] each. */
struct ff_moment_parts {
    float *mean, *squares;
};
static inline ff_moment_parts ff_moment_parts_in(void *scratch, const ff_columns *columns) {
    float *first = (float *)scratch;
    return ff_moment_parts{first, first + (size_t)columns->parts * columns->channels};
}

template <int lanes> struct ff_moment_tree {
    float mean[lanes][FF_COLUMN_THREADS], squares[lanes][FF_COLUMN_THREADS];
    int count[FF_COLUMN_THREADS];
};

/* Merges the threads' moments by Chan's formula and writes the block's moments; all threads must
 * call it. */
template <int lanes>
static __device__ __forceinline__ void
ff_moments_write(const ff_columns &columns, const ff_tile &tile, const ff_moments<lanes> &own,
                 ff_moment_tree<lanes> *tree, ff_moment_parts parts) {
    const int me = (int)threadIdx.x;
    int count = own.count;
    float mean[lanes], squares[lanes];
    float inverse = count ? __fdividef(1.0f, (float)count) : 0.0f;
#pragma unroll
    for (int i = 0; i < lanes; i++) {
        float offset = own.sum[i] * inverse;
        mean[i] = own.shift[i] + offset;
        /* rounding may make a constant column slightly negative */
        squares[i] = own.squares[i] - own.sum[i] * offset;
        if (squares[i] < 0) squares[i] = 0;
        tree->mean[i][me] = mean[i];
        tree->squares[i][me] = squares[i];
    }
    tree->count[me] = count;
    for (int reach = FF_COLUMN_THREADS / 2; reach > 0; reach /= 2) {
        if (reach >= columns.down) continue;
        __syncthreads();
        if (tile.y < reach && tile.y + reach < columns.down) {
            const int other = me + reach * columns.across;
            const int more = tree->count[other];
            if (more) { /* rows are assigned from the top, so the upper thread has some rows */
                float share = __fdividef((float)more, (float)(count + more));
#pragma unroll
                for (int i = 0; i < lanes; i++) {
                    float apart = tree->mean[i][other] - mean[i];
                    mean[i] += apart * share;
                    squares[i] += tree->squares[i][other] + apart * apart * share * (float)count;
                    tree->mean[i][me] = mean[i];
                    tree->squares[i][me] = squares[i];
                }
                count += more;
                tree->count[me] = count;
            }
        }
    }
    if (tile.y == 0 && tile.vector < columns.vectors) {
        size_t at = (size_t)blockIdx.x * columns.channels + (size_t)tile.vector * lanes;
        ff_store_floats(parts.mean + at, mean);
        ff_store_floats(parts.squares + at, squares);
    }
}

/* ---- finishing ------------------------------------------------------------------------------ */

/* A block finishes FF_FINISH_ACROSS columns; FF_FINISH_DOWN threads share the parts of each. */
enum { FF_FINISH_ACROSS = 8, FF_FINISH_DOWN = 32 };

/* Adds the doubles of a column's threads; all of them get the sum. shared: one per thread. */
static __device__ __forceinline__ double ff_finish_sum(double *shared, double value) {
    const int y = (int)threadIdx.y, at = y * FF_FINISH_ACROSS + (int)threadIdx.x;
    __syncthreads(); /* `shared` may still be read */
    shared[at] = value;
    for (int reach = FF_FINISH_DOWN / 2; reach > 0; reach /= 2) {
        __syncthreads();
        if (y < reach) shared[at] += shared[at + reach * FF_FINISH_ACROSS];
    }
    __syncthreads();
    return shared[threadIdx.x];
}

/* to[column] = the sum over parts of from[part * width + column]; f64 inside. Defined in
 * columns.cu. */
extern "C" int ff_columns_finish(const ff_cuda_queue *queue, const float *from, int parts,
                                 int width, float *to);

#endif
