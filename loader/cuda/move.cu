/* Moves samples into a batch: chooses the kernel for a job's shape; the fast kernels (explained in
 * move_fast.cuh). */
#include "loader/cuda/move_fast.cuh"

/* ---- one vector of the output --------------------------------------------------------------- */

/* The source's element type, and the type of an element before packing. */
template <ff_move_kind KIND, typename T> struct kind_of {
    typedef uint8_t source;
    typedef T value;
};
template <typename T> struct kind_of<FF_MOVE_COPY, T> {
    typedef T source;
    typedef T value;
};
template <typename T> struct kind_of<FF_MOVE_AFFINE, T> {
    typedef uint8_t source;
    typedef float value;
};

template <ff_move_kind KIND, typename T>
static __device__ __forceinline__ typename kind_of<KIND, T>::value
element(const ff_cuda_move &job, const ff_move_shared &shared, uint32_t line, uint32_t place,
        uint32_t channel, uint32_t beside) {
    typedef typename kind_of<KIND, T>::source source;
    uint32_t at = (line & FF_MOVE_OFFSET) + (place & FF_MOVE_OFFSET) + beside;
    uint32_t raw = ((const source *)shared.stage)[at];
    bool pad = ((line | place) & FF_MOVE_PAD) != 0;
    bool zero = ((line & place & FF_MOVE_CUT) | (place & FF_MOVE_ZERO)) != 0;
    if constexpr (KIND == FF_MOVE_AFFINE) {
        /* 2^23 + raw has raw in its low bits; black is the value of 0. */
        float x = __uint_as_float(0x4b000000u | (pad ? 0 : raw)) - 8388608.0f;
        float y = __fmaf_rn(x, job.scale[channel], job.bias[channel]);
        return zero ? 0.0f : y;
    } else {
        uint32_t value = raw;
        if constexpr (KIND == FF_MOVE_TABLE) value = ((const T *)shared.table)[channel * 256 + raw];
        if (pad) value = shared.black[channel];
        return (T)(zero ? 0 : value);
    }
}

/* Word i of elements in the order of memory; two 16-bit elements make a word. */
static __device__ __forceinline__ uint32_t word_of(const ff_cuda_move &, const uint32_t *value,
                                                   int i) {
    return value[i];
}
static __device__ __forceinline__ uint32_t word_of(const ff_cuda_move &, const uint16_t *value,
                                                   int i) {
    return (uint32_t)value[2 * i + 1] << 16 | value[2 * i];
}
static __device__ __forceinline__ uint32_t word_of(const ff_cuda_move &job, const float *value,
                                                   int i) {
    return ff_narrow_pair(job.to, value[2 * i], value[2 * i + 1]);
}

/* Stores VEC bytes of elements. */
template <int VEC, typename V>
static __device__ __forceinline__ void store(const ff_cuda_move &job, uint8_t *to, const V *value) {
    if constexpr (VEC == 16)
        *(uint4 *)to = make_uint4(word_of(job, value, 0), word_of(job, value, 1),
                                  word_of(job, value, 2), word_of(job, value, 3));
    else if constexpr (VEC == 8)
        *(uint2 *)to = make_uint2(word_of(job, value, 0), word_of(job, value, 1));
    else if constexpr (VEC == 4)
        *(uint32_t *)to = word_of(job, value, 0);
    else {
        const V twice[2] = {value[0], value[0]};
        *(uint16_t *)to = (uint16_t)word_of(job, twice, 0);
    }
}

/* COUNT adjacent entries, from a multiple of COUNT. */
template <int COUNT>
static __device__ __forceinline__ void load_places(const uint32_t *place, uint32_t first,
                                                   uint32_t *entry) {
    if constexpr (COUNT % 4 == 0) {
#pragma unroll
        for (int i = 0; i < COUNT / 4; i++) {
            uint4 four = ((const uint4 *)(place + first))[i];
            entry[4 * i] = four.x, entry[4 * i + 1] = four.y;
            entry[4 * i + 2] = four.z, entry[4 * i + 3] = four.w;
        }
    } else if constexpr (COUNT == 2) {
        uint2 two = *(const uint2 *)(place + first);
        entry[0] = two.x, entry[1] = two.y;
    } else {
        entry[0] = place[first];
    }
}

/* ---- the kernel ----------------------------------------------------------------------------- */

/* PIXEL: the output's channels if a store of VEC bytes holds whole pixels, else 1. */
template <ff_move_kind KIND, typename T, int PIXEL, int VEC>
static __global__ void __launch_bounds__(FF_MOVE_THREADS, FF_MOVE_BLOCKS)
    move_fast_kernel(ff_cuda_move job, ff_move_shape shape) {
    typedef typename kind_of<KIND, T>::source source;
    typedef typename kind_of<KIND, T>::value value;
    enum { ELEMENTS = VEC / (int)sizeof(T), PLACES = ELEMENTS / PIXEL };
    FF_DYNAMIC_SHARED(uint8_t, memory);
    uint32_t row = shape.bands == 1 ? blockIdx.x : blockIdx.x / shape.bands;
    uint32_t band = blockIdx.x - row * shape.bands, first = band * shape.band_lines;
    uint32_t lines = min(shape.band_lines, job.out_height - first);
    uint8_t *out = (uint8_t *)job.data +
                   ((size_t)row * job.out_height + first) * shape.line_elements * sizeof(T);
    uint32_t count = lines * shape.line_elements / ELEMENTS;

    ff_move_row found = ff_move_find(job, row);
    if (band == 0) ff_move_columns(job, row, found);
    if (found.padding) {
        const value none[ELEMENTS] = {};
        for (uint32_t i = threadIdx.x; i < count; i += FF_MOVE_THREADS)
            store<VEC>(job, out + (size_t)i * VEC, none);
        return;
    }

    const ff_augment_params params = job.params[row];
    const ff_move_shared shared = ff_move_divide_shared(shape, memory);
    const ff_move_columns_shown shown = ff_move_shown(job, shape, params);
    const ff_move_box cut = ff_move_cutout(job, params);
    ff_move_read_lines(job, shape, params, shown, cut, sizeof(source), ff_move_sample(job, found),
                       first, lines, shared);
    ff_move_make_places<PIXEL>(job, shape, params, shown, cut, shared.place);
    for (uint32_t i = threadIdx.x; i < shape.table_bytes / 16; i += FF_MOVE_THREADS)
        ((uint4 *)shared.table)[i] = __ldg((const uint4 *)job.table + i);
    if (KIND != FF_MOVE_AFFINE)
        for (uint32_t i = threadIdx.x; i < job.channels; i += FF_MOVE_THREADS)
            shared.black[i] = job.black[i];
    __syncthreads();

    const bool straddles = shape.line_elements % ELEMENTS != 0; /* a vector may span two lines */
    for (uint32_t i = threadIdx.x; i < count; i += FF_MOVE_THREADS) {
        uint32_t line = ff_move_divide(i * ELEMENTS, shape.line_elements, shape.line_magic);
        uint32_t begin = (i * ELEMENTS - line * shape.line_elements) / PIXEL;
        uint32_t entry[PLACES];
        if (!straddles) load_places<PLACES>(shared.place, begin, entry);
        value values[ELEMENTS];
#pragma unroll
        for (int n = 0; n < PLACES; n++) {
            uint32_t at = line;
            if (straddles) {
                uint32_t place = begin + n;
                if (place >= shape.places) place -= shape.places, at++;
                entry[n] = shared.place[place];
            }
            uint32_t of_line = shared.line[at * shape.planes];
#pragma unroll
            for (int c = 0; c < PIXEL; c++) {
                uint32_t channel = PIXEL > 1 ? c : entry[n] >> FF_MOVE_CHANNEL & 255;
                value v = 0;
                if (PIXEL == 1 || channel < job.channels) {
                    if (shape.planes > 1) of_line = shared.line[at * shape.planes + channel];
                    v = element<KIND, T>(job, shared, of_line, entry[n], channel,
                                         PIXEL > 1 && shape.planes == 1 ? c : 0);
                }
                values[n * PIXEL + c] = v;
            }
        }
        store<VEC>(job, out + (size_t)i * VEC, values);
    }
}

/* ---- choosing ------------------------------------------------------------------------------- */

enum { WHOLE_MOST = 16 << 10, BAND_MOST = 20 << 10, SHARED_MOST = 44 << 10 };

static uint32_t round_up(uint32_t bytes) {
    return (bytes + 15) / 16 * 16;
}
static bool aligned(const void *pointer) {
    return (uintptr_t)pointer % 16 == 0;
}

/* How a sample is read. False if the sample exceeds the kernels' arithmetic or memory. */
static bool shape_input(const ff_cuda_move *job, ff_move_shape *shape) {
    uint32_t element_bytes = ff_stored_bytes(job->from);
    uint64_t sample_bytes = (uint64_t)job->height * job->width * job->channels * element_bytes;
    if (job->channels > 255 || sample_bytes >= 1u << 31) return false;
    bool planar = job->from_layout == FF_CHW;
    shape->planes = planar ? job->channels : 1;
    shape->pixel = planar ? 1 : job->channels;
    shape->whole = sample_bytes <= WHOLE_MOST;
    shape->bands = 1;
    shape->band_lines = job->out_height;
    if (shape->whole) {
        shape->stage_bytes = round_up((uint32_t)sample_bytes);
    } else {
        uint64_t shown = job->width;
        if (job->pad_mode != FF_PAD_REFLECT && job->out_width < shown) shown = job->out_width;
        /* A run begins up to 15 bytes into its first 16. */
        uint64_t run_bytes = (shown * shape->pixel * element_bytes + 15 + 15) / 16 * 16;
        if (run_bytes * shape->planes > 2 * BAND_MOST) return false;
        shape->run_bytes = (uint32_t)run_bytes;
        shape->run_chunks = shape->run_bytes / 16;
        shape->band_lines = 1;
        while (2 * shape->band_lines * shape->planes * run_bytes <= BAND_MOST)
            shape->band_lines *= 2;
        if (shape->band_lines > job->out_height) shape->band_lines = job->out_height;
        shape->bands = (job->out_height - 1) / shape->band_lines + 1;
        shape->stage_bytes = shape->band_lines * shape->planes * shape->run_bytes;
        shape->run_magic = ff_move_magic(shape->run_chunks);
    }
    shape->plane_magic = ff_move_magic(shape->planes);
    shape->lines = shape->band_lines * shape->planes;
    return true;
}

/* How the output is written. vector: bytes per store. False as above. */
static bool shape_output(const ff_cuda_move *job, ff_move_shape *shape, uint32_t *vector,
                         uint32_t *pixel) {
    uint32_t element_bytes = ff_stored_bytes(job->to);
    uint64_t line_elements = (uint64_t)job->out_width * job->out_channels;
    uint64_t band_elements = line_elements * shape->band_lines;
    if (line_elements > 1u << 16 || band_elements * line_elements >= UINT64_C(1) << 32)
        return false;
    shape->line_elements = (uint32_t)line_elements;
    shape->line_magic = ff_move_magic(shape->line_elements);
    /* The largest power of two that divides the bytes of a sample, and of a band. */
    uint64_t bytes = line_elements * element_bytes * job->out_height;
    if (shape->bands > 1) bytes |= band_elements * element_bytes;
    *vector = 16;
    while (bytes % *vector || *vector / element_bytes > line_elements) *vector /= 2;
    uint32_t pixels = *vector / element_bytes;
    *pixel = (job->out_channels == 4 || job->out_channels == 8) && pixels % job->out_channels == 0
                 ? job->out_channels
                 : 1;
    shape->places = *pixel > 1 ? job->out_width : shape->line_elements;
    return true;
}

static bool make_shape(const ff_cuda_move *job, ff_move_kind kind, ff_move_shape *shape,
                       uint32_t *vector, uint32_t *pixel) {
    *shape = {};
    if (!aligned(job->samples) || !aligned(job->data) || job->row_bytes % 16 ||
        job->slot_bytes % 16 || (kind == FF_MOVE_TABLE && !aligned(job->table)))
        return false;
    if (!shape_input(job, shape) || !shape_output(job, shape, vector, pixel)) return false;
    if (kind == FF_MOVE_TABLE) shape->table_bytes = job->channels * 256 * ff_stored_bytes(job->to);
    const uint64_t bytes = (uint64_t)shape->stage_bytes + shape->table_bytes +
                           4 * ((uint64_t)shape->places + shape->lines + job->channels);
    shape->bytes = (uint32_t)bytes;
    return bytes <= SHARED_MOST && (uint64_t)job->rows * shape->bands <= 0x7fffffffu;
}

template <ff_move_kind KIND, typename T, int PIXEL, int VEC>
static int launch(const ff_cuda_move *job, const ff_move_shape *shape, ff_cuda_stream stream) {
    return FF_LAUNCH((move_fast_kernel<KIND, T, PIXEL, VEC>), job->rows * shape->bands,
                     FF_MOVE_THREADS, shape->bytes, stream, *job, *shape);
}

template <ff_move_kind KIND>
static int launch16(const ff_cuda_move *job, const ff_move_shape *shape, uint32_t vector,
                    uint32_t pixel, ff_cuda_stream stream) {
    if (pixel == 8) return launch<KIND, uint16_t, 8, 16>(job, shape, stream);
    if (pixel == 4 && vector == 16) return launch<KIND, uint16_t, 4, 16>(job, shape, stream);
    if (pixel == 4) return launch<KIND, uint16_t, 4, 8>(job, shape, stream);
    if (vector == 16) return launch<KIND, uint16_t, 1, 16>(job, shape, stream);
    if (vector == 8) return launch<KIND, uint16_t, 1, 8>(job, shape, stream);
    if (vector == 4) return launch<KIND, uint16_t, 1, 4>(job, shape, stream);
    return launch<KIND, uint16_t, 1, 2>(job, shape, stream);
}

template <ff_move_kind KIND>
static int launch32(const ff_cuda_move *job, const ff_move_shape *shape, uint32_t vector,
                    uint32_t pixel, ff_cuda_stream stream) {
    if (pixel == 4) return launch<KIND, uint32_t, 4, 16>(job, shape, stream);
    if (vector == 16) return launch<KIND, uint32_t, 1, 16>(job, shape, stream);
    if (vector == 8) return launch<KIND, uint32_t, 1, 8>(job, shape, stream);
    return launch<KIND, uint32_t, 1, 4>(job, shape, stream);
}

extern "C" int ff_cuda_move_launch(const ff_cuda_move *job, ff_cuda_stream stream) {
    bool from = job->from == FF_U8 ? job->table != NULL : ff_is_floating(job->from);
    bool to = ff_is_floating(job->to);
    if (!from || !to || job->channels == 0 || job->out_channels < job->channels ||
        job->columns > FF_CUDA_COLUMNS || job->affine > (job->channels <= FF_CUDA_AFFINE))
        return FF_CUDA_INVALID_VALUE;
    if (job->rows == 0) return FF_CUDA_OK;
    bool words = job->to == FF_F32, bytes = job->from == FF_U8;
    ff_move_kind kind = !bytes                  ? FF_MOVE_COPY
                        : job->affine && !words ? FF_MOVE_AFFINE
                                                : FF_MOVE_TABLE;
    ff_move_shape shape;
    uint32_t vector, pixel;
    if ((!bytes && job->from != job->to) || !make_shape(job, kind, &shape, &vector, &pixel))
        return ff_cuda_move_plain(job, stream);
    if (kind == FF_MOVE_AFFINE) return launch16<FF_MOVE_AFFINE>(job, &shape, vector, pixel, stream);
    if (kind == FF_MOVE_COPY && words)
        return launch32<FF_MOVE_COPY>(job, &shape, vector, pixel, stream);
    if (kind == FF_MOVE_COPY) return launch16<FF_MOVE_COPY>(job, &shape, vector, pixel, stream);
    if (words) return launch32<FF_MOVE_TABLE>(job, &shape, vector, pixel, stream);
    return launch16<FF_MOVE_TABLE>(job, &shape, vector, pixel, stream);
}

extern "C" const ff_loader_kernels ff_loader_cuda_kernels = {
    ff_cuda_next_launch,    ff_cuda_params_launch, ff_cuda_move_launch,
    ff_cuda_augment_launch, ff_cuda_give_launch,   ff_cuda_planes_launch,
};
