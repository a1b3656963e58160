/* The loader's kernels on a resident set of ImageNet's size, 252 GB of u8 and 504 GB of f16, and
 * on batches of more than 2^32 elements (huge.h). */
#include "tests/cuda/unit/huge_kernels.h"

#include "loader/cuda/kernels.h"

#include <stddef.h>

#define assert_launched(call) assert_int_equal((call), FF_CUDA_OK)

enum { SAMPLES = 1281167, SIDE = 256, OUT = 224, TOP = 17, LEFT = 5 };

static struct {
    uint32_t rows, channels, out_channels, side, out;
    bool planar, resident;
    ff_augment_params *params;
    uint32_t slot;
    uint64_t slot_elements;
} now;

static int array(int k, uint64_t i) {
    return huges.arrays[k].value(i, huges.arrays[k].salt);
}

/* ---- a batch ---- */

/* Rows show samples from the whole set, the last row its last sample. */
static ff_cuda_batch *batch_of(uint32_t rows) {
    ff_cuda_batch *batch = huge_zeros(sizeof *batch);
    now.params = huge_zeros(rows * sizeof *now.params);
    for (uint32_t row = 0; row < rows; row++) {
        ff_augment_params *p = &now.params[row];
        p->sample = SAMPLES - 1 - (uint64_t)(rows - 1 - row) * (SAMPLES / rows);
        p->y = TOP, p->x = LEFT, p->weight = 1;
        p->flags = row % 2 ? FF_AUGMENT_FLIP : 0;
    }
    batch->at.count = rows;
    batch->slot = now.slot;
    return batch;
}

/* Element i of the output in the stored samples; -1: a channel that they do not have. */
static int64_t stored_at(uint64_t i) {
    const uint64_t c = i % now.out_channels, pixel = i / now.out_channels;
    const uint64_t row = pixel / now.out / now.out, line = pixel / now.out % now.out;
    const ff_augment_params *p = &now.params[row];
    uint64_t column = pixel % now.out;
    if (c >= now.channels) return -1;
    if (p->flags & FF_AUGMENT_FLIP) column = now.out - 1 - column;
    const uint64_t sample = now.resident ? p->sample : row;
    const uint64_t y = line + (uint64_t)p->y, x = column + (uint64_t)p->x;
    const uint64_t first =
        now.slot * now.slot_elements + sample * now.channels * now.side * now.side;
    return (int64_t)(first + (now.planar ? (c * now.side + y) * now.side + x
                                         : (y * now.side + x) * now.channels + c));
}
static int moved(uint64_t i) {
    const int64_t at = stored_at(i);
    return at < 0 ? 0 : array(0, (uint64_t)at);
}
static int label(uint64_t i) {
    const uint64_t row = now.resident ? now.params[i / 3].sample : i / 3;
    return array(1, now.slot * now.slot_elements / 4 + row * 3 + i % 3);
}

/* The table of u8 in the output's dtype. */
static void *table_of(ff_dtype to, uint32_t channels) {
    unsigned char *table = huge_zeros(channels * 256 * 4);
    for (uint32_t i = 0; i < channels * 256; i++) {
        const float value = (float)(i % 256);
        ff_convert(table + i * ff_dtype_bytes(to), to, &value, FF_F32, 1);
    }
    return table;
}

static ff_cuda_move move_of(ff_dtype from, ff_dtype to, uint32_t channels, uint32_t out_channels,
                            bool planar) {
    now.channels = channels, now.out_channels = out_channels, now.planar = planar;
    now.side = SIDE, now.out = OUT;
    const uint64_t samples = now.resident ? SAMPLES : now.rows;
    const uint64_t elements = (uint64_t)channels * SIDE * SIDE;
    now.slot_elements = now.resident ? 0 : samples * elements;
    const uint64_t all = now.resident ? samples * elements : (now.slot + 1) * samples * elements;
    const uint64_t words = samples * 3 + now.slot * now.slot_elements / 4;
    void *stored = huge_in("samples", from, all), *labels = huge_in("labels", FF_I32, words);
    huge *to_labels = huge_out("labels of rows", FF_I32, (uint64_t)now.rows * 3);
    huge *data = huge_out("batch", to, (uint64_t)now.rows * OUT * OUT * out_channels);
    const uint64_t bytes = ff_dtype_bytes(from);
    return (ff_cuda_move){.batch = batch_of(now.rows),
                          .params = now.params,
                          .samples = stored,
                          .row_bytes = elements * bytes,
                          .slot_bytes = now.slot_elements * bytes,
                          .gather = now.resident,
                          .from = from,
                          .from_layout = planar ? FF_CHW : FF_HWC,
                          .channels = channels,
                          .height = SIDE,
                          .width = SIDE,
                          .data = data->memory,
                          .to = to,
                          .rows = now.rows,
                          .out_height = OUT,
                          .out_width = OUT,
                          .out_channels = out_channels,
                          .pad_mode = FF_PAD_BLACK,
                          .black = huge_zeros(channels * 4),
                          .table = from == FF_U8 ? table_of(to, channels) : NULL,
                          .scale = {1, 1, 1, 1},
                          .columns = 1,
                          .column = {{labels, (uint32_t *)to_labels->memory, 3, 9}}};
}

/* ---- moving ---- */

static void move_and_check(ff_cuda_move *job) {
    assert_launched(ff_cuda_move_launch(job, huge_stream));
    huge_check(&huges.arrays[3], moved);
    if (job->slot_bytes % 16 == 0) huge_check(&huges.arrays[2], label);
    huge_release(NULL);
}

static void test_move(void **state) {
    (void)state;
    static const struct {
        ff_dtype from, to;
        uint32_t channels, out_channels, rows;
        bool planar, affine;
    } cases[] = {
        {FF_U8, FF_F16, 3, 4, 22000, true, true},    {FF_U8, FF_F32, 3, 3, 30000, false, false},
        {FF_F16, FF_F16, 3, 8, 12000, true, false},  {FF_F16, FF_F32, 3, 4, 22000, true, false},
        {FF_U8, FF_BF16, 1, 8, 12000, true, true},   {FF_U8, FF_F16, 1, 1, 86000, false, true},
        {FF_F16, FF_F16, 5, 8, 12000, false, false}, {FF_U8, FF_F16, 5, 5, 18000, true, false},
        {FF_F32, FF_F32, 4, 4, 22000, false, false}, {FF_U8, FF_BF16, 4, 4, 22000, true, true},
    };
    for (size_t k = huge_short() ? 0 : 4; k < (huge_long() ? sizeof cases / sizeof *cases : 4);
         k++) {
        now.rows = cases[k].rows, now.resident = true, now.slot = 0;
        ff_cuda_move job = move_of(cases[k].from, cases[k].to, cases[k].channels,
                                   cases[k].out_channels, cases[k].planar);
        job.affine = cases[k].affine;
        move_and_check(&job);
    }
    now.rows = 22000, now.resident = false, now.slot = 3; /* streamed */
    ff_cuda_move job = move_of(FF_U8, FF_F16, 3, 4, true);
    job.affine = 1;
    move_and_check(&job);
}

/* A crop so high that the table of its lines passes 2^32 bytes: not for the fast kernel. */
static void test_high_crop(void **state) {
    (void)state;
    now.rows = 1, now.resident = true, now.slot = 0;
    ff_cuda_move job = move_of(FF_U8, FF_F16, 1, 1, true);
    job.height = job.width = 16, job.out_width = 1, job.out_height = 1u << 30, job.columns = 0;
    job.row_bytes = 256;
    huge *data = huge_out("column", FF_F16, UINT64_C(1) << 30);
    job.data = data->memory;
    assert_launched(ff_cuda_move_launch(&job, huge_stream));
    assert_non_null(strstr(huges.running, "move_plain_kernel"));
}

/* ---- rows of f32 ---- */

static int more(uint64_t i) { /* what a change of +1 leaves */
    return array(4, i) + 1;
}
/* Row r is sample r, as it is: blocks that do not run have their values, too. */
static int as_stored(uint64_t i, uint64_t salt) {
    (void)salt;
    return huge_hashed(i, 0) & 1;
}
static int shown(uint64_t i) { /* a window of the values of a row */
    const uint64_t plane = (uint64_t)OUT * OUT, row = i / plane / now.channels;
    const uint64_t c = i / plane % now.channels, line = i % plane / OUT, column = i % OUT;
    const uint64_t at = (row * OUT * OUT + line * OUT + column) * now.out_channels + c;
    return array(0, (uint64_t)stored_at(at));
}

static ff_cuda_augment augment_of(ff_dtype from, ff_dtype to, uint32_t channels,
                                  uint32_t out_channels, uint32_t rows) {
    now.rows = rows, now.resident = true, now.slot = 0;
    ff_cuda_augment job = {.move = move_of(from, to, channels, out_channels, true)};
    huge *values = huge_out("values", FF_F32, (uint64_t)rows * channels * OUT * OUT);
    job.values = (float *)values->memory;
    float *table = table_of(FF_F32, channels), *ones = huge_zeros(channels * sizeof *ones);
    for (uint32_t c = 0; c < channels; c++) ones[c] = 1;
    job.move.table = table;
    job.multiply = ones, job.add = huge_zeros(channels * sizeof(float));
    job.level = 1;
    return job;
}

static void test_rows(void **state) {
    static const struct {
        ff_dtype from, to;
        uint32_t channels, out_channels, rows;
    } cases[] = {{FF_U8, FF_F16, 3, 4, 30000},
                 {FF_F16, FF_F16, 3, 8, 30000},
                 {FF_U8, FF_F32, 1, 1, 90000},
                 {FF_F32, FF_BF16, 5, 5, 18000}};
    for (int k = huge_short() ? 0 : 1; k < (huge_long() ? 4 : 1); k++) {
        ff_cuda_augment job = augment_of(cases[k].from, cases[k].to, cases[k].channels,
                                         cases[k].out_channels, cases[k].rows);
        assert_launched(ff_cuda_augment_launch(&job, huge_stream));
        huge_check(&huges.arrays[4], shown);
        huge_check(&huges.arrays[3], moved);
        huge_check(&huges.arrays[2], label);
        huge_release(state);
        job = augment_of(cases[k].from, cases[k].to, cases[k].channels, cases[k].out_channels,
                         cases[k].rows);
        job.resampled = 1; /* a box of the output's size: the same pixels */
        for (uint32_t row = 0; row < cases[k].rows; row++) {
            now.params[row].flags |= FF_AUGMENT_BOX;
            now.params[row].height = now.params[row].width = OUT;
        }
        huges.arrays[3].use = HUGE_BOTH, huges.arrays[3].value = huge_one; /* not looked at */
        assert_launched(ff_cuda_augment_launch(&job, huge_stream));
        huge_check(&huges.arrays[4], shown);
        huge_release(state);
    }
}

/* Changes that add 1 to every value. */
static void test_changes(void **state) {
    for (int changed = 0; changed < 2; changed++)
        for (uint32_t channels = 1; channels <= 3; channels += 2) {
            const uint32_t rows = channels == 1 ? 90000 : 30000;
            now.out = OUT;
            ff_cuda_augment job = augment_of(FF_F32, FF_F16, channels, channels, rows);
            huge *stored = &huges.arrays[0], *values = &huges.arrays[4];
            job.move.height = job.move.width = OUT, job.move.columns = 0;
            job.move.row_bytes = (uint64_t)channels * OUT * OUT * 4;
            for (uint32_t row = 0; row < rows; row++)
                now.params[row] = (ff_augment_params){.sample = row, .weight = 1};
            stored->value = values->value = as_stored, values->use = HUGE_BOTH;
            const uint64_t bytes = (uint64_t)rows * 2 * channels * OUT * OUT;
            float *mean = huge_zeros(3 * sizeof *mean), *std = huge_zeros(3 * sizeof *std);
            float *table = huge_zeros((uint64_t)channels * 256 * sizeof *table);
            for (uint32_t v = 0; v < channels * 256; v++) table[v] = (float)(v % 256 + 1);
            for (int c = 0; c < 3; c++) mean[c] = changed ? 0 : -1, std[c] = 1;
            job.mean = mean, job.std = std, job.shown = table;
            job.jittered = !changed, job.changed = (uint32_t)changed;
            if (changed) job.images = huge_out("images", FF_U8, bytes)->memory;
            assert_launched(ff_cuda_augment_launch(&job, huge_stream));
            huge_check(values, more);
            huge_release(state);
        }
}

/* ---- what is given ---- */

static int given(uint64_t i) {
    return array(0, i);
}
static int plane_of(uint64_t i) {
    const uint64_t pixels = (uint64_t)OUT * OUT, row = i / pixels / now.channels;
    return array(0, (row * pixels + i % pixels) * now.out_channels + i / pixels % now.channels);
}

static void test_give(void **state) {
    enum { GIVEN = 70001, WORDS = 70003 };
    now.slot = 0;
    ff_cuda_batch *batch = batch_of(GIVEN);
    uint32_t *from = huge_in("columns", FF_I32, (uint64_t)GIVEN * WORDS);
    huge *to = huge_out("given", FF_I32, (uint64_t)GIVEN * WORDS);
    uint64_t *numbers = huge_zeros(GIVEN * sizeof *numbers);
    const ff_cuda_give job = {.batch = batch,
                              .params = now.params,
                              .rows = GIVEN,
                              .columns = 2,
                              .column = {{from, (uint32_t *)to->memory, WORDS, 0, 0},
                                         {NULL, (uint32_t *)numbers, 2, 0, 0}}};
    assert_launched(ff_cuda_give_launch(&job, huge_stream));
    huge_check(to, given);
    assert_int_equal(numbers[GIVEN - 1], SAMPLES - 1);
    huge_release(state);
    for (uint32_t bytes = 2; bytes <= 4; bytes += 2)
        for (uint32_t channels = 1; channels <= 5; channels += 2) {
            now.channels = channels, now.out_channels = channels + 1;
            const uint32_t rows = 90000 / channels;
            const ff_dtype dtype = bytes == 2 ? FF_F16 : FF_F32;
            const uint64_t pixels = (uint64_t)rows * OUT * OUT;
            void *samples = huge_in("batch", dtype, pixels * (channels + 1));
            huge *planes = huge_out("planes", dtype, pixels * channels);
            const ff_cuda_planes planar = {
                samples, planes->memory, (uint64_t)OUT * OUT, rows, channels, channels + 1, bytes};
            assert_launched(ff_cuda_planes_launch(&planar, huge_stream));
            huge_check(planes, plane_of);
            huge_release(state);
        }
}

/* ---- which samples ---- */

/* A batch of more rows than 2^21, far into a long run of a set of more samples than 2^32. */
static void test_params(void **state) {
    (void)state;
    enum { ROWS = 3000001 };
    const uint64_t count = (UINT64_C(1) << 33) + 12345, number = UINT64_C(1) << 40;
    ff_cuda_batch *batch = huge_zeros(sizeof *batch);
    const ff_cuda_next next = {.sequence = {.count = count,
                                            .batch = ROWS,
                                            .epoch_batches = count / ROWS,
                                            .first_batches = count / ROWS,
                                            .total_batches = UINT64_MAX,
                                            .cuts = 1,
                                            .rows = ROWS},
                               .order = {.count = count, .seed = 3, .kind = FF_ORDER_RANDOM},
                               .slots = 3,
                               .given = 1,
                               .number = number,
                               .batch = batch};
    assert_launched(ff_cuda_next_launch(&next, huge_stream));
    assert_int_equal(batch->number, number + 1);
    assert_int_equal(batch->slot, number % 3);
    const ff_sequence_batch want = ff_sequence_at(&next.sequence, number);
    assert_memory_equal(&batch->at, &want,
                        offsetof(ff_sequence_batch, last) + sizeof(uint32_t)); /* then padding */
    ff_cuda_params job = {.batch = batch,
                          .height = 256,
                          .width = 256,
                          .out_height = 224,
                          .out_width = 224,
                          .rows = ROWS,
                          .params = huge_zeros(ROWS * sizeof *job.params),
                          .weight = huge_zeros(ROWS * sizeof *job.weight)};
    assert_launched(ff_cuda_params_launch(&job, huge_stream));
    const uint64_t sample =
        ff_sampling_at(&job.sampling, &batch->order, want.epoch, want.position + ROWS - 1);
    assert_int_equal(job.params[ROWS - 1].sample, sample);
    assert_true(job.weight[ROWS - 1] == 1);
}

static void test_all_kernels(void **state) {
    (void)state;
    huge_check_kernels(HUGE_LOADER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_move, huge_release),
        cmocka_unit_test_teardown(test_rows, huge_release),
        cmocka_unit_test_teardown(test_high_crop, huge_release),
        cmocka_unit_test_teardown(test_changes, huge_release),
        cmocka_unit_test_teardown(test_give, huge_release),
        cmocka_unit_test(test_params),
        cmocka_unit_test(test_all_kernels),
    };
    return huge_run(tests, 2, huge_open);
}
