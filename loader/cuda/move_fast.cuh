/* Moves samples into a batch, fast, for outputs with interleaved channels.
 *
 * Bytes to move for a 32x32 sample of 3 channels: 3072 of u8 or 6144 of f16 in, and 2048 * C of f16
 * out; at 3 TB/s 3 to 6.5 ns, 27 instructions per lane and output element. So:
 *
 * A block writes a band of lines of one sample, or all lines of a small one. It reads each byte
 * once, 16 aligned ones at a time, into shared memory: the whole sample if it is small (and no byte
 * beyond it), else only the visible part of each visible line, extended to 16 bytes. Bytes are
 * shifted, mirrored and converted in shared memory; then adjacent threads store 16 adjacent bytes
 * each (fewer if the sample's bytes are not a multiple of 16).
 *
 * An output element's source is the sum of two table entries made once per block, one for its line,
 * one for its place in the line, so that no element costs a comparison with edges or a division.
 * The low bits of an entry are an offset into shared memory; the flags are
 *   PAD   outside the sample: black (in either entry)
 *   CUT   in the cutout: 0 (in both entries)
 *   ZERO  a channel that the sample does not have: 0 (of a place in a line) */
#ifndef FF_LOADER_CUDA_MOVE_FAST_CUH
#define FF_LOADER_CUDA_MOVE_FAST_CUH

#include "loader/cuda/move.cuh"

/* Blocks per multiprocessor: leaves 48 registers per thread, without spills. Devices of 7.5 hold
 * 1024 threads. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
enum { FF_MOVE_THREADS = 128, FF_MOVE_BLOCKS = 8 };
#else
enum { FF_MOVE_THREADS = 128, FF_MOVE_BLOCKS = 10 };
#endif

#define FF_MOVE_PAD     0x80000000u
#define FF_MOVE_CUT     0x40000000u
#define FF_MOVE_ZERO    0x20000000u
#define FF_MOVE_OFFSET  0x000fffffu /* elements */
#define FF_MOVE_CHANNEL 20          /* the channel's first bit in a place's entry; 8 bits */

/* How values are converted to the output's. */
typedef enum ff_move_kind {
    FF_MOVE_AFFINE, /* u8 by one fused multiply-add, to f16 or bf16 */
    FF_MOVE_TABLE,  /* u8 by the table */
    FF_MOVE_COPY,   /* as stored */
} ff_move_kind;

/* The shape of the work, made by the host. */
typedef struct ff_move_shape {
    uint32_t bands, band_lines;
    uint32_t whole;                  /* 1: the sample is read whole, by one band */
    uint32_t planes;                 /* runs that a line of the sample consists of: CHW channels */
    uint32_t pixel;                  /* elements between adjacent pixels of a line */
    uint32_t line_elements;          /* of the output */
    uint32_t line_magic;             /* for division by line_elements: see ff_move_divide */
    uint32_t stage_bytes;            /* shared memory of samples */
    uint32_t run_bytes, run_chunks;  /* of a line's run in shared memory, if not the whole sample */
    uint32_t run_magic, plane_magic; /* for division by run_chunks and planes */
    uint32_t table_bytes;            /* of the table of values in shared memory */
    uint32_t lines, places; /* table entries; all of these lie in shared memory in this order */
    uint32_t bytes;         /* in total, with [channels] black elements after */
} ff_move_shape;

/* n / d with magic = 2^32 / d + 1 rounded down; exact where n * d < 2^32 and d > 1. */
static inline uint32_t ff_move_magic(uint32_t d) {
    return (uint32_t)((UINT64_C(1) << 32) / d + 1);
}
static __device__ __forceinline__ uint32_t ff_move_divide(uint32_t n, uint32_t d, uint32_t magic) {
    return d == 1 ? n : __umulhi(n, magic);
}

/* A block's shared memory. */
typedef struct ff_move_shared {
    uint8_t *stage;
    uint8_t *table;
    uint32_t *line;  /* [lines of the band][planes] */
    uint32_t *place; /* [elements or pixels of a line] */
    uint32_t *black; /* [channels] */
} ff_move_shared;

static __device__ __forceinline__ ff_move_shared ff_move_divide_shared(const ff_move_shape &shape,
                                                                       uint8_t *memory) {
    ff_move_shared shared;
    shared.stage = memory;
    shared.table = memory + shape.stage_bytes;
    shared.place = (uint32_t *)(shared.table + shape.table_bytes);
    shared.line = shared.place + shape.places;
    shared.black = shared.line + shape.lines;
    return shared;
}

/* The columns of the sample that the output shows: a superset if edges are reflected. */
typedef struct ff_move_columns_shown {
    int32_t begin, end;
} ff_move_columns_shown;

static __device__ __forceinline__ ff_move_columns_shown ff_move_shown(
    const ff_cuda_move &job, const ff_move_shape &shape, const ff_augment_params &params) {
    int32_t width = (int32_t)job.width, end = params.x + (int32_t)job.out_width;
    ff_move_columns_shown all = {0, width}, some = {max(params.x, 0), min(end, width)};
    if (some.end < some.begin) some.end = some.begin = 0;
    return shape.whole || job.pad_mode == FF_PAD_REFLECT ? all : some;
}

/* The sample's line that line `y` of the output shows; negative: outside. */
static __device__ __forceinline__ int32_t ff_move_source_line(const ff_cuda_move &job,
                                                              const ff_augment_params &params,
                                                              int32_t y) {
    int32_t height = (int32_t)job.height;
    y = params.y + (int32_t)ff_augment_line(&params, (uint32_t)y, job.out_height);
    if (job.pad_mode == FF_PAD_REFLECT) y = ff_augment_reflect(y, height);
    return y < height ? y : -1;
}

/* Entries of places in a line; PIXEL = output elements per entry. */
template <int PIXEL>
static __device__ __forceinline__ void
ff_move_make_places(const ff_cuda_move &job, const ff_move_shape &shape,
                    const ff_augment_params &params, ff_move_columns_shown shown, ff_move_box cut,
                    uint32_t *place) {
    for (uint32_t i = threadIdx.x; i < shape.places; i += FF_MOVE_THREADS) {
        int32_t column = (int32_t)(PIXEL > 1 ? i : i / job.out_channels),
                width = (int32_t)job.width;
        uint32_t channel = PIXEL > 1 ? 0 : i - (uint32_t)column * job.out_channels, entry = 0;
        int32_t across =
            params.flags & FF_AUGMENT_FLIP ? (int32_t)job.out_width - 1 - column : column;
        int32_t x = params.x + across;
        if (job.pad_mode == FF_PAD_REFLECT) x = ff_augment_reflect(x, width);
        if (x >= 0 && x < width) {
            entry = (uint32_t)(x - shown.begin) * shape.pixel;
            if (PIXEL == 1 && shape.planes == 1) entry += channel;
        } else {
            entry = FF_MOVE_PAD;
        }
        if (column >= cut.left && column < cut.right) entry |= FF_MOVE_CUT;
        if (channel >= job.channels) /* keep the offset inside */
            entry = FF_MOVE_ZERO;
        else
            entry |= channel << FF_MOVE_CHANNEL;
        place[i] = entry;
    }
}

/* Entries of lines and, if the sample is not read whole, the lines themselves. */
static __device__ __forceinline__ void
ff_move_read_lines(const ff_cuda_move &job, const ff_move_shape &shape,
                   const ff_augment_params &params, ff_move_columns_shown shown, ff_move_box cut,
                   uint32_t element_bytes, const uint8_t *sample, uint32_t first, uint32_t lines,
                   const ff_move_shared &shared) {
    uint32_t line_elements = job.width * shape.pixel, begin = (uint32_t)shown.begin * shape.pixel;
    for (uint32_t i = threadIdx.x; i < lines * shape.planes; i += FF_MOVE_THREADS) {
        uint32_t line = ff_move_divide(i, shape.planes, shape.plane_magic);
        uint32_t plane = i - line * shape.planes, entry = FF_MOVE_PAD;
        int32_t y = (int32_t)(first + line);
        int32_t from = ff_move_source_line(job, params, y);
        if (from >= 0) {
            uint32_t element = (plane * job.height + (uint32_t)from) * line_elements + begin;
            entry = element;
            if (!shape.whole)
                entry = (i * shape.run_bytes + (element * element_bytes & 15)) / element_bytes;
        }
        if (y >= cut.top && y < cut.bottom) entry |= FF_MOVE_CUT;
        shared.line[i] = entry;
    }
    if (shape.whole) {
        uint32_t chunks = shape.stage_bytes / 16;
        for (uint32_t i = threadIdx.x; i < chunks; i += FF_MOVE_THREADS)
            ((uint4 *)shared.stage)[i] = __ldg((const uint4 *)sample + i);
        return;
    }
    uint32_t bytes = (uint32_t)(shown.end - shown.begin) * shape.pixel * element_bytes;
    for (uint32_t i = threadIdx.x; i < lines * shape.planes * shape.run_chunks;
         i += FF_MOVE_THREADS) {
        uint32_t run = ff_move_divide(i, shape.run_chunks, shape.run_magic);
        uint32_t chunk = i - run * shape.run_chunks;
        uint32_t line = ff_move_divide(run, shape.planes, shape.plane_magic);
        int32_t from = ff_move_source_line(job, params, (int32_t)(first + line));
        if (from < 0) continue;
        uint32_t plane = run - line * shape.planes;
        size_t at =
            (((size_t)plane * job.height + (uint32_t)from) * line_elements + begin) * element_bytes;
        if (chunk * 16 >= (at & 15) + bytes) continue;
        ((uint4 *)(shared.stage + run * shape.run_bytes))[chunk] =
            __ldg((const uint4 *)(sample + (at & ~(size_t)15)) + chunk);
    }
}

#endif
