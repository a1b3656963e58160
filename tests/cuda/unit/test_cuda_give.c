/* Copies of a batch for its consumer: planes of random odd shapes, values of the own and of the
 * other row, samples' numbers; outputs poisoned, between guard bands. */
#include "tests/cuda/unit/kernel_helpers.h"

#include "loader/cuda/kernels.h"

static ff_cuda_stream queue(void) {
    return bench.device->table->native_stream(bench.device, bench.stream);
}

static array *random_bytes(dice *d, size_t size) {
    array *a = bytes(size);
    for (size_t i = 0; i < size; i++) ((uint8_t *)a->host)[i] = (uint8_t)roll(d, 256);
    send(a);
    return a;
}

static void planes(void **state) {
    (void)state;
    for (int trial = 0; trial < trials(60); trial++) {
        dice d = (dice){61 + 1000u * (unsigned)trial, 0};
        const uint32_t rows = 1 + roll(&d, 5), channels = 1 + roll(&d, trial % 5 ? 4 : 40);
        const uint32_t wide = channels + roll(&d, 3), size = 1u << roll(&d, 3);
        const size_t pixels = 1 + roll(&d, trial % 7 ? 300 : 3000);
        const array *from = random_bytes(&d, rows * pixels * wide * size);
        const array *to = bytes(rows * pixels * channels * size);
        const ff_cuda_planes job = {.from = from->device,
                                    .to = to->device,
                                    .pixels = pixels,
                                    .rows = rows,
                                    .channels = channels,
                                    .from_channels = wide,
                                    .element_bytes = size};
        assert_launched(ff_loader_cuda_kernels.planes(&job, queue()));
        fetch(to);
        for (size_t row = 0; row < rows; row++)
            for (size_t c = 0; c < channels; c++)
                for (size_t i = 0; i < pixels; i++)
                    assert_memory_equal(
                        (uint8_t *)to->host + ((row * channels + c) * pixels + i) * size,
                        (uint8_t *)from->host + ((row * pixels + i) * wide + c) * size, size);
        drop_arrays();
    }
}

/* What is given of a row that shows `sample`, and of the row next to it. */
static void check_row(const ff_cuda_give *job, array *const *from, array *const *to, uint32_t row,
                      uint32_t count, uint64_t sample) {
    for (uint32_t i = 0; i < job->columns; i++) {
        const size_t size = 4 * (size_t)job->column[i].words;
        const bool other = job->column[i].other && row < count && (row ^ 1) < count;
        const uint8_t *found = (uint8_t *)to[i]->host + row * size;
        const int64_t number = row < count ? (int64_t)sample : -1;
        if (from[i])
            assert_memory_equal(found, (uint8_t *)from[i]->host + (other ? row ^ 1 : row) * size,
                                size);
        else
            assert_memory_equal(found, &number, sizeof number);
    }
}

static void values(void **state) {
    (void)state;
    for (int trial = 0; trial < trials(60); trial++) {
        dice d = (dice){62 + 1000u * (unsigned)trial, 0};
        const uint32_t rows = 1 + roll(&d, 9), count = roll(&d, rows + 1);
        ff_cuda_batch batch = {.at.count = count};
        ff_augment_params params[10] = {{0}};
        for (uint32_t row = 0; row < rows; row++)
            params[row].sample = (uint64_t)roll(&d, 1000) << roll(&d, 40);
        ff_cuda_give job = {.batch = uploaded(&batch, sizeof batch)->device,
                            .params = uploaded(params, sizeof params)->device,
                            .rows = rows,
                            .columns = roll(&d, FF_CUDA_GIVE_COLUMNS + 1)};
        array *from[FF_CUDA_GIVE_COLUMNS], *to[FF_CUDA_GIVE_COLUMNS];
        for (uint32_t i = 0; i < job.columns; i++) {
            const uint32_t words = i == 1 ? 2 : 1 + roll(&d, i == 2 ? 300 : 4);
            from[i] = i == 1 ? NULL : random_bytes(&d, 4ul * rows * words);
            to[i] = bytes(4ul * rows * words);
            job.column[i] = (ff_cuda_give_column){.from = from[i] ? from[i]->device : NULL,
                                                  .to = to[i]->device,
                                                  .words = words,
                                                  .other = roll(&d, 2)};
        }
        assert_launched(ff_loader_cuda_kernels.give(&job, queue()));
        for (uint32_t i = 0; i < job.columns; i++) fetch(to[i]);
        for (uint32_t row = 0; row < rows; row++)
            check_row(&job, from, to, row, count, params[row].sample);
        drop_arrays();
    }
}

static void refused(void **state) {
    (void)state;
    const ff_cuda_give give = {.rows = 1, .columns = FF_CUDA_GIVE_COLUMNS + 1};
    const ff_cuda_planes narrow = {
        .pixels = 1, .rows = 1, .channels = 4, .from_channels = 3, .element_bytes = 4};
    const ff_cuda_planes three = {
        .pixels = 1, .rows = 1, .channels = 3, .from_channels = 3, .element_bytes = 3};
    assert_int_equal(ff_loader_cuda_kernels.give(&give, queue()), FF_CUDA_INVALID_VALUE);
    assert_int_equal(ff_loader_cuda_kernels.planes(&narrow, queue()), FF_CUDA_INVALID_VALUE);
    assert_int_equal(ff_loader_cuda_kernels.planes(&three, queue()), FF_CUDA_INVALID_VALUE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(planes), cmocka_unit_test(values),
                                       cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, bench_open, bench_close);
}
