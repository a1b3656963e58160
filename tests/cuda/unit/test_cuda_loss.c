/* The loss on the device against the reference's loops: gradients of every dtype, mixed and
 * smoothed labels, weights, samples without a label, bad labels; the record in the ring. */
#include "tests/cuda/unit/kernel_helpers.h"

#include "train/compute/compute.h"

typedef struct batch {
    ff_loss loss;
    ff_dtype dtype; /* of the gradient */
    array *logits, *labels, *weights, *mix, *class_weights, *gradient, *ring, *control, *scratch;
    float factor;
    uint64_t step;
} batch;

/* The first of sample n's largest logits, or the last. */
static int largest(const batch *b, int n, bool last) {
    const size_t row = (size_t)n * b->loss.stride;
    int best = 0;
    for (int c = 1; c < b->loss.classes; c++) {
        const double now = at(b->logits, row + c), most = at(b->logits, row + best);
        if (now > most || (last && now == most)) best = c;
    }
    return best;
}

static batch make(dice *d) {
    batch b = {.factor = 1};
    ff_loss *loss = &b.loss;
    loss->n = between(d, 1, roll(d, 8) ? 40 : 700);
    loss->classes = between(d, 1, roll(d, 3) ? 30 : 700);
    loss->stride = (loss->classes + 7) / 8 * 8;
    b.dtype = any_float(d);
    loss->smoothing = roll(d, 2) ? 0.2 : 0;
    loss->form.kind = (ff_loss_kind)roll(d, 3);
    loss->form.threshold = roll(d, 2) ? -1 : 0.2 * roll(d, 4);
    loss->divisor = (double)roll(d, 3) * (1 + loss->n % 2);
    b.logits = filled(d, FF_F32, (size_t)loss->n, loss->stride, loss->classes, 0, 3);
    const bool equal = !roll(d, 3); /* equal logits, few or many: the first largest is taken */
    const uint32_t others = roll(d, 2) ? 1 : 1 + (uint32_t)loss->classes / 4;
    for (size_t i = 0; equal && i < b.logits->count; i++)
        if ((int)(i % (size_t)loss->stride) < loss->classes)
            put(b.logits, i, roll(d, others) ? -1 : between(d, -1, 1));
    /* pad lanes may hold anything: they are not checked */
    for (size_t i = 0; i < b.logits->count; i++)
        if ((int)(i % (size_t)loss->stride) >= loss->classes) put(b.logits, i, 50);
    send(b.logits);
    loss->label_dtype = roll(d, 2) ? FF_I64 : FF_I32;
    b.labels = poisoned(loss->label_dtype, (size_t)loss->n);
    for (int n = 0; n < loss->n; n++) {
        int label = between(d, roll(d, 3) ? 0 : -1, loss->classes - 1);
        if (equal && roll(d, 2)) label = largest(&b, n, n % 2);
        if (loss->label_dtype == FF_I64)
            ((int64_t *)b.labels->host)[n] = label;
        else
            ((int32_t *)b.labels->host)[n] = label;
    }
    send(b.labels);
    if (roll(d, 2)) {
        b.weights = poisoned(FF_F32, (size_t)loss->n);
        for (int n = 0; n < loss->n; n++) put(b.weights, n, roll(d, 3) ? 1 : 0);
        send(b.weights);
    }
    if (roll(d, 2)) {
        b.mix = poisoned(FF_F32, (size_t)loss->n);
        for (int n = 0; n < loss->n; n++)
            put(b.mix, n, (n ^ 1) < loss->n && roll(d, 3) ? roll(d, 5) ? uniform(d) : 0.5 : 1);
        send(b.mix);
    }
    if (roll(d, 2)) {
        b.class_weights = poisoned(FF_F32, (size_t)loss->classes);
        for (int c = 0; c < loss->classes; c++) put(b.class_weights, c, 0.5 + uniform(d));
        send(b.class_weights);
    }
    if (roll(d, 3)) { /* without one: step 0, scale 1 */
        b.factor = roll(d, 2) ? 1024 : 1;
        b.step = roll(d, 1000);
        const ff_control control = {.step = b.step, .loss_scale = b.factor};
        b.control = uploaded(&control, sizeof control);
    }
    b.ring = bytes(5 * sizeof(ff_outcome));
    b.gradient = roll(d, 4) ? poisoned(b.dtype, b.logits->count) : NULL;
    b.scratch = bytes(ff_cuda_loss_scratch(loss->n));
    loss->logits = b.logits->device;
    loss->labels = b.labels->device;
    loss->weights = b.weights ? b.weights->device : NULL;
    loss->mix = b.mix ? b.mix->device : NULL;
    loss->class_weights = b.class_weights ? b.class_weights->device : NULL;
    loss->control = b.control ? b.control->device : NULL;
    loss->gradient = b.gradient ? b.gradient->device : NULL;
    loss->ring = b.ring->device;
    loss->ring_size = 5;
    loss->scratch = b.scratch->device;
    return b;
}

/* The reference's results for the batch; gradient: [n][stride]. */
static ff_outcome reference(const batch *b, float *gradient) {
    const ff_loss *loss = &b->loss;
    ff_compute *compute;
    const ff_compute_options options = {.threads = 1};
    assert_ok(ff_compute_open(&compute, "reference", &options, error));
    float *logits = calloc(b->logits->count, sizeof *logits);
    for (size_t i = 0; i < b->logits->count; i++) logits[i] = (float)at(b->logits, i);
    void *scratch = calloc(compute->ops->loss_scratch(compute, loss->n, loss->stride), 1);
    ff_outcome outcome;
    const ff_loss of = {.n = loss->n,
                        .classes = loss->classes,
                        .form = loss->form,
                        .smoothing = loss->smoothing,
                        .divisor = loss->divisor,
                        .stride = loss->stride,
                        .logits = logits,
                        .labels = b->labels->host,
                        .label_dtype = loss->label_dtype,
                        .weights = b->weights ? b->weights->host : NULL,
                        .mix = b->mix ? b->mix->host : NULL,
                        .class_weights = b->class_weights ? b->class_weights->host : NULL,
                        .gradient = gradient,
                        .scratch = scratch,
                        .ring = &outcome,
                        .ring_size = 1};
    compute->ops->loss(compute, &of);
    assert_ok(ff_compute_wait(compute, error));
    ff_compute_close(&compute);
    free(logits);
    free(scratch);
    return outcome;
}

static ff_outcome record_of(const batch *b) {
    fetch(b->ring);
    const size_t place = b->step % 5;
    const unsigned char *ring = b->ring->host;
    for (size_t i = 0; i < 5 * sizeof(ff_outcome); i++) /* the others stay unchanged */
        if (i / sizeof(ff_outcome) != place) assert_int_equal(ring[i], 0xFF);
    ff_outcome record;
    memcpy(&record, ring + place * sizeof record, sizeof record);
    return record;
}

static void test_loss(void **state) {
    (void)state;
    dice d = {31, 0};
    for (int trial = 0; trial < trials(80); trial++) {
        batch b = make(&d);
        const ff_loss *loss = &b.loss;
        const ff_cuda_queue queue = queue_with(1, b.dtype);
        float *gradient = calloc(b.logits->count, sizeof *gradient);
        const ff_outcome want = reference(&b, gradient);
        array *to = b.gradient;
        if (to && b.dtype == FF_F32) { /* in place */
            to = b.logits;
            b.loss.gradient = b.logits->device;
        }
        if (b.mix && loss->n % 2) { /* the last one has no partner, for any share */
            put(b.mix, (size_t)loss->n - 1, 0.25);
            send(b.mix);
        }
        assert_launched(ff_cuda_loss(&queue, loss));
        const ff_outcome record = record_of(&b);
        fetch(b.scratch);
        assert_int_equal(record.step, b.step);
        assert_int_equal(record.count, want.count);
        assert_int_equal(record.correct, want.correct);
        assert_true(fabs(record.weight - want.weight) <= 1e-9 * want.weight);
        assert_int_equal(record.bad_sample, -1);
        assert_int_equal(record.non_finite, 0);
        assert_true(fabs(record.loss_sum - want.loss_sum) <= 1e-6 * (1 + fabs(want.loss_sum)));
        if (to) {
            fetch(to);
            const double by = loss->divisor > 0 ? loss->divisor : want.weight;
            const double size = by > 0 ? 1 / by : 1;
            for (int n = 0; n < loss->n; n++)
                for (int c = 0; c < loss->stride; c++) {
                    const size_t i = (size_t)n * loss->stride + c;
                    if (c >= loss->classes) {
                        assert_true(at(to, i) == 0);
                        continue;
                    }
                    assert_near(to, i, (double)(gradient[i] * b.factor),
                                4e-6 * size * (double)b.factor);
                }
        }
        free(gradient);
        drop_arrays();
    }
}

static void test_bad_label(void **state) {
    (void)state;
    dice d = {32, 0};
    for (int trial = 0; trial < trials(20); trial++) {
        batch b = make(&d);
        const bool large = trial % 4 == 0; /* more samples than threads: each handles several */
        while (large && b.loss.n < 600) {
            drop_arrays();
            b = make(&d);
        }
        const ff_cuda_queue queue = queue_with(1, b.dtype);
        const int bad = between(&d, 0, large ? 80 : b.loss.n - 1);
        const int label = roll(&d, 2) ? b.loss.classes : -2;
        for (int n = bad; n < b.loss.n; n += large ? 512 : 7) {
            if (b.loss.label_dtype == FF_I64)
                ((int64_t *)b.labels->host)[n] = n == bad ? label : (int64_t)1 << 40;
            else
                ((int32_t *)b.labels->host)[n] = label;
        }
        send(b.labels);
        assert_launched(ff_cuda_loss(&queue, &b.loss));
        assert_int_equal(record_of(&b).bad_sample, bad);
        if (b.gradient) {
            fetch(b.gradient);
            for (int c = 0; c < b.loss.stride; c++)
                assert_true(at(b.gradient, (size_t)bad * b.loss.stride + c) == 0);
        }
        drop_arrays();
    }
}

static void test_not_finite(void **state) {
    (void)state;
    dice d = {33, 0};
    batch b = make(&d);
    while (b.loss.n < 3 || b.loss.classes < 3 || b.weights || b.mix) {
        drop_arrays();
        b = make(&d);
    }
    for (int n = 0; n < b.loss.n; n++) /* every sample counts */
        memset((unsigned char *)b.labels->host + (size_t)n * ff_dtype_bytes(b.loss.label_dtype), 0,
               ff_dtype_bytes(b.loss.label_dtype));
    send(b.labels);
    const ff_cuda_queue queue = queue_with(1, b.dtype);
    for (int c = 1; c >= 0; c--) { /* of sample 1: first a later class, then the first one too */
        put(b.logits, (size_t)b.loss.stride + c, NAN);
        send(b.logits);
        assert_launched(ff_cuda_loss(&queue, &b.loss));
        assert_int_equal(record_of(&b).correct, reference(&b, NULL).correct);
    }
    assert_true(isnan(record_of(&b).loss_sum));
    drop_arrays();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_bad_label),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, bench_open, bench_close);
}
