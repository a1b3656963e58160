/* Kernels that read neighbours, pools, depthwise convolutions and views, over tensors of more than
 * 2^32 elements, or 2^32 bytes (huge.h). */
#include "tests/cuda/unit/huge_kernels.h"
#include "tests/cuda/unit/huge_tensors.h"

static struct {
    ff_pool pool;
    ff_cuda_depthwise conv;
    ff_image_view view;
    ff_tensor shape; /* of samples of one value */
} now;

/* The sum over a window is a multiple of the value. */
static int by_sample(uint64_t i, uint64_t salt) {
    return huge_hashed(i / ff_tensor_sample(&now.shape), salt);
}
static int four_by_sample(uint64_t i, uint64_t salt) {
    return 4 * (by_sample(i, salt) - 1);
}
static int of_four(uint64_t i, uint64_t salt) {
    return huge_hashed(i, salt) & 3;
}

/* ---- pools ---- */

/* The 3 x 3 window of output element i, pad 1. */
static int largest_of(uint64_t i, int *index) {
    const ff_pool *pool = &now.pool;
    const place p = place_of(&pool->output, i);
    int largest = -1;
    for (int k = 0; k < 9; k++) {
        const place from = {p.n, p.h * pool->stride + k / 3 - 1, p.w * pool->stride + k % 3 - 1,
                            p.c};
        const int64_t at = element(&pool->input, from);
        if (at < 0 || array(0, (uint64_t)at) <= largest) continue;
        largest = array(0, (uint64_t)at);
        *index = k;
    }
    return largest;
}
static int largest(uint64_t i) {
    int index;
    return largest_of(i, &index);
}
static int largest_place(uint64_t i) {
    int index;
    largest_of(i, &index);
    return index;
}
static int sample_of_input(uint64_t i) { /* an average */
    return array(0, (uint64_t)place_of(&now.pool.output, i).n * ff_tensor_sample(&now.shape));
}
static int routed(uint64_t i) { /* the gradient of 2 x 2 windows, by the index */
    const place p = place_of(&now.pool.input, i);
    const int64_t at = element(&now.pool.output, (place){p.n, p.h / 2, p.w / 2, p.c});
    return at >= 0 && array(1, (uint64_t)at) == p.h % 2 * 2 + p.w % 2 ? array(0, (uint64_t)at) : 0;
}
static int quarter(uint64_t i) { /* the gradient of 2 x 2 averages; none where no window is */
    const place p = place_of(&now.pool.input, i);
    const int64_t at = element(&now.pool.output, (place){p.n, p.h / 2, p.w / 2, p.c});
    return at < 0 ? 0 : array(0, (uint64_t)at) / 4;
}

static void max_of(ff_tensor shape, ff_dtype dtype) {
    const ff_cuda_queue queue = queue_of(dtype);
    float *mean = channels_of(0), *inv_std = channels_of(0);
    void *scratch = huge_zeros(2 * ff_cuda_scratch(multiprocessors, shape.c));
    ff_tensor half = {shape.n, shape.c, (shape.h + 1) / 2, (shape.w + 1) / 2, shape.c};
    now.pool = (ff_pool){shape, half, 3, 3, 2, 1, .max = true};
    const uint64_t count = ff_tensor_count(&half);
    void *x = huge_in("x", dtype, ff_tensor_count(&shape));
    huge *y = huge_out("y", dtype, count), *index = huge_out("index", FF_U8, count);
    huge *again = huge_out("y with statistics", dtype, count);
    assert_launched(ff_cuda_pool_forward(&queue, &now.pool, x, y->memory, index->memory));
    huge_check(y, largest);
    huge_check(index, largest_place);
    const ff_norm norm = {.shape = half, .mean = mean, .inv_std = inv_std};
    assert_launched(
        ff_cuda_pool_statistics(&queue, &now.pool, x, again->memory, NULL, &norm, scratch));
    huge_check(again, largest);
}

static void max_backward_of(ff_tensor shape, ff_dtype dtype) {
    const ff_cuda_queue queue = queue_of(dtype);
    const ff_tensor half = {shape.n, shape.c, shape.h / 2, shape.w / 2, shape.c};
    now.pool = (ff_pool){shape, half, 2, 2, 2, 0, .max = true};
    void *dy = huge_in("dy", dtype, ff_tensor_count(&half));
    huge *index = huge_reserve("index", HUGE_INPUT, FF_U8, ff_tensor_count(&half), of_four);
    huge *dx = huge_out("dx", dtype, ff_tensor_count(&shape));
    assert_launched(ff_cuda_pool_backward(&queue, &now.pool, dy, index->memory, dx->memory));
    huge_check(dx, routed);
    /* through a norm that changes nothing */
    float *ones = channels_of(1), *zeros = channels_of(0);
    huge *x = huge_reserve("x", HUGE_INPUT, dtype, ff_tensor_count(&half), huge_one);
    huge *passed = huge_out("dx of a norm", dtype, ff_tensor_count(&shape));
    const ff_norm_backward norm = {.forward = {.shape = half,
                                               .held = true,
                                               .gamma = ones,
                                               .beta = zeros,
                                               .mean = zeros,
                                               .inv_std = ones,
                                               .x = x->memory},
                                   .dy = dy,
                                   .dx = passed->memory,
                                   .pool = &now.pool,
                                   .index = index->memory};
    assert_launched(ff_cuda_norm_backward_run(
        &queue, &norm, huge_zeros(2 * ff_cuda_scratch(multiprocessors, half.c)), false));
    huge_check(passed, routed);
}

static void average_of(ff_tensor shape, ff_dtype dtype, bool adaptive) {
    const ff_cuda_queue queue = queue_of(dtype);
    const ff_tensor half = {shape.n, shape.c, shape.h / 2, shape.w / 2, shape.c};
    now.pool = (ff_pool){shape, half, 2, 2, 2, 0, .adaptive = adaptive};
    now.shape = shape;
    huge *x = huge_reserve("x", HUGE_INPUT, dtype, ff_tensor_count(&shape), by_sample);
    huge *y = huge_out("y", dtype, ff_tensor_count(&half));
    assert_launched(ff_cuda_pool_forward(&queue, &now.pool, x->memory, y->memory, NULL));
    huge_check(y, sample_of_input);
    huge_release(NULL);
    if (adaptive && shape.h % 2) return; /* windows overlap */
    now.shape = half;
    huge *dy = huge_reserve("dy", HUGE_INPUT, dtype, ff_tensor_count(&half), four_by_sample);
    huge *dx = huge_out("dx", dtype, ff_tensor_count(&shape));
    assert_launched(ff_cuda_pool_backward(&queue, &now.pool, dy->memory, NULL, dx->memory));
    huge_check(dx, quarter);
}

static void test_pools(void **state) {
    const ff_tensor shapes[] = {wide, tall};
    for (int s = 0; s < 2; s++)
        for (int k = dtype_first(); k < dtype_end(); k++) {
            max_of(shapes[s], dtypes[k]);
            huge_release(state);
            max_backward_of(shapes[s], dtypes[k]);
            huge_release(state);
            average_of(shapes[s], dtypes[k], false);
            huge_release(state);
            average_of(shapes[s], dtypes[k], true);
            huge_release(state);
        }
}

/* Positions times sizes of an adaptive pool, and sizes of a window. */
static void test_pool_limits(void **state) {
    (void)state;
    const ff_cuda_queue queue = queue_of(FF_F16);
    const ff_tensor in = {1, 8, 46342, 1, 8};
    const ff_pool cases[] = {
        {in, in, 1, 1, 1, 0, .adaptive = true},         /* 46342 * 46342 > 2^31 */
        {wide, wide, 65536, 65536, 1, 0, .max = true},  /* 0 in 32 bits */
        {wide, wide, 65536, 32769, 1, 0, .max = false}, /* 2^31 + 2^16 */
        {wide, wide, 3, 3, 1, INT32_MAX, .max = false}, /* at + pad */
        {{1, 8, 1, 1, 8}, {1, 8, 65537, 65537, 8}, 1, 1, 1, 0, .max = false}, /* rows of the output
                                                                               */
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        assert_int_equal(ff_cuda_pool_forward(&queue, &cases[k], NULL, NULL, NULL),
                         FF_CUDA_INVALID_VALUE);
        if (k == 4) continue; /* backward has a row for each of the input's */
        assert_int_equal(ff_cuda_pool_backward(&queue, &cases[k], NULL, NULL, NULL),
                         FF_CUDA_INVALID_VALUE);
    }
}

/* ---- depthwise convolutions ---- */

/* The filter's taps 0 and 4 are 1. */
static int filtered(uint64_t i) {
    const ff_cuda_depthwise *conv = &now.conv;
    const place p = place_of(&conv->output, i);
    const int64_t h = p.h * conv->stride, w = p.w * conv->stride;
    const int64_t at = element(&conv->input, (place){p.n, h, w, p.c});
    const int64_t before = element(&conv->input, (place){p.n, h - 1, w - 1, p.c});
    return array(0, (uint64_t)at) + (before < 0 ? 0 : array(0, (uint64_t)before));
}
static int filtered_back(uint64_t i) {
    const ff_cuda_depthwise *conv = &now.conv;
    const place p = place_of(&conv->input, i);
    int total = 0;
    for (int tap = 0; tap < 2; tap++) {
        const int64_t h = p.h + (tap == 0), w = p.w + (tap == 0);
        const place to = {p.n, h / conv->stride, w / conv->stride, p.c};
        const int64_t at = element(&conv->output, to);
        if (h % conv->stride == 0 && w % conv->stride == 0 && at >= 0)
            total += array(1, (uint64_t)at);
    }
    return total;
}

static void depthwise_of(ff_tensor shape, ff_dtype dtype, int stride) {
    const ff_cuda_queue queue = queue_of(dtype);
    const ff_tensor out = {shape.n, shape.c, (shape.h - 1) / stride + 1, (shape.w - 1) / stride + 1,
                           shape.c};
    unsigned char *weights = huge_zeros(9 * 64 * sizeof(float));
    const float one = 1;
    now.conv = (ff_cuda_depthwise){shape, out, stride};
    for (int c = 0; c < shape.c; c++)
        for (int tap = 0; tap < 9; tap += 4)
            if (tap < 8)
                ff_convert(weights + (size_t)(tap * shape.c + c) * ff_dtype_bytes(dtype), dtype,
                           &one, FF_F32, 1);
    void *x = huge_in("x", dtype, ff_tensor_count(&shape));
    void *dy = huge_in("dy", dtype, ff_tensor_count(&out));
    huge *y = huge_out("y", dtype, ff_tensor_count(&out));
    huge *dx = huge_out("dx", dtype, ff_tensor_count(&shape));
    assert_launched(ff_cuda_depthwise_forward(&queue, &now.conv, x, weights, y->memory));
    huge_check(y, filtered);
    assert_launched(ff_cuda_depthwise_backward_data(&queue, &now.conv, dy, weights, dx->memory));
    huge_check(dx, filtered_back);
}

/* The sums over the output's pixels of the chosen blocks, which have a row of taps each; dy is 1.
 */
static void check_taps(const float *found, const huge *x, const ff_cuda_depthwise *conv, int c) {
    const sharing by = sharing_of(&conv->output, FF_F16, 2);
    const uint64_t channels = (uint64_t)conv->output.c;
    double want[9] = {0};
    for (unsigned k = 0; k < huges.chosen_count; k++) {
        const uint64_t part = huges.chosen[k] % by.parts, r = huges.chosen[k] / by.parts;
        for (uint64_t tile = part * by.down; tile < by.rows; tile += by.parts * by.down)
            for (uint64_t row = tile; row < tile + by.down && row < by.rows; row++)
                for (uint64_t s = 0; s < 3; s++) {
                    place p = place_of(&conv->output, row * channels + (uint64_t)c);
                    p.h = p.h * conv->stride + (int64_t)r - 1;
                    p.w = p.w * conv->stride + (int64_t)s - 1;
                    const int64_t at = element(&conv->input, p);
                    if (at >= 0) want[r * 3 + s] += x->value((uint64_t)at, x->salt);
                }
    }
    for (uint64_t tap = 0; tap < 9; tap++)
        assert_true(found[tap * channels + (uint64_t)c] == (float)want[tap]);
}

static void depthwise_weights_of(ff_tensor shape, int stride) {
    const ff_cuda_queue queue = queue_of(FF_F16);
    const ff_tensor out = {shape.n, shape.c, (shape.h - 1) / stride + 1, (shape.w - 1) / stride + 1,
                           shape.c};
    const ff_cuda_depthwise conv = {shape, out, stride};
    float *dweights = huge_zeros(9 * 64 * sizeof *dweights);
    void *scratch = huge_zeros(9 * ff_cuda_scratch(multiprocessors, shape.c));
    huge *x = huge_reserve("x", HUGE_INPUT, FF_F16, ff_tensor_count(&shape), huge_slow);
    huge *dy = huge_reserve("dy", HUGE_INPUT, FF_F16, ff_tensor_count(&out), huge_one);
    huges.whole = 128;
    LAUNCH_AND_KEEP(ff_cuda_depthwise_backward_weights(&queue, &conv, x->memory, dy->memory,
                                                       dweights, scratch));
    for (int c = 0; c < shape.c; c += 7) check_taps(dweights, x, &conv, c);
}

static void test_depthwise(void **state) {
    const ff_tensor shapes[] = {wide, tall};
    for (int s = 0; s < 2; s++)
        for (int stride = 1; stride <= 2; stride++) {
            for (int k = dtype_first(); k < dtype_end(); k++) {
                depthwise_of(shapes[s], dtypes[k], stride);
                huge_release(state);
            }
            depthwise_weights_of(shapes[s], stride);
            huge_release(state);
        }
}

/* ---- views ---- */

static int64_t reflected(int64_t at, int64_t size) {
    at = at < 0 ? -at : at;
    return at >= size ? 2 * (size - 1) - at : at;
}
static int viewed(uint64_t i) {
    const ff_tensor *t = &now.view.shape;
    const place p = place_of(t, i);
    const int64_t w = now.view.mirror ? t->w - 1 - p.w : p.w;
    const place from = {p.n, reflected(p.h + now.view.down, t->h),
                        reflected(w + now.view.right, t->w), p.c};
    return array(0, (uint64_t)element(t, from));
}

static void test_weighed(void **state) {
    const uint64_t count = (UINT64_C(1) << 32) + (UINT64_C(1) << 31) + 12347;
    for (int k = dtype_first(); k < dtype_end(); k++) {
        const ff_cuda_queue queue = queue_of(dtypes[k]);
        void *x = huge_in("x", dtypes[k], count);
        huge *to = huge_out("sums", FF_F32, count);
        assert_launched(ff_cuda_weigh(&queue, dtypes[k], count, 1, true, x, (float *)to->memory));
        huge_check(to, first);
        huge_release(state);
    }
}

/* Words of 16, 8, 4 and 2 bytes; of each the most that fit. */
static void test_views(void **state) {
    static const int channels[] = {8, 1, 3, 4, 5, 2};
    for (int c = 0; c < 6; c++)
        for (int k = dtype_first(); k < dtype_end(); k++) {
            const ff_cuda_queue queue = queue_of(dtypes[k]);
            const int bytes = channels[c] * (int)ff_dtype_bytes(dtypes[k]);
            const int word = bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 2;
            const int n = 10017 / (bytes / word);
            now.view = (ff_image_view){{n, channels[c], 463, 463, channels[c]}, -3, 2, c % 2};
            const uint64_t count = ff_tensor_count(&now.view.shape);
            void *x = huge_in("x", dtypes[k], count);
            huge *y = huge_out("y", dtypes[k], count);
            assert_launched(ff_cuda_view(&queue, &now.view, x, y->memory));
            huge_check(y, viewed);
            now.view.shape.n += n; /* past 2^31 words */
            assert_int_equal(ff_cuda_view(&queue, &now.view, x, y->memory), FF_CUDA_INVALID_VALUE);
            huge_release(state);
        }
}

static void test_all_kernels(void **state) {
    (void)state;
    huge_check_kernels(HUGE_WINDOWS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_pools, huge_release),
        cmocka_unit_test_teardown(test_depthwise, huge_release),
        cmocka_unit_test_teardown(test_views, huge_release),
        cmocka_unit_test_teardown(test_weighed, huge_release),
        cmocka_unit_test(test_pool_limits),
        cmocka_unit_test(test_all_kernels),
    };
    return huge_run(tests, 4, huge_open);
}
