#include "train/net/whitening.h"

#include "format/base/memory.h"
#include "format/cli/interrupt.h"
#include "loader/host/loader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- eigenvectors ---- */

/* Rotates the plane of p and q so that matrix[p][q] becomes zero. */
static void rotate(int n, double *matrix, double *vectors, int p, int q) {
    const double off = matrix[p * n + q];
    if (off == 0) return;
    const double theta = (matrix[q * n + q] - matrix[p * n + p]) / (2 * off);
    const double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
    const double c = 1 / sqrt(t * t + 1), s = t * c;
    for (int k = 0; k < n; k++) {
        double a = matrix[k * n + p], b = matrix[k * n + q];
        matrix[k * n + p] = c * a - s * b;
        matrix[k * n + q] = s * a + c * b;
    }
    for (int k = 0; k < n; k++) {
        double a = matrix[p * n + k], b = matrix[q * n + k];
        matrix[p * n + k] = c * a - s * b;
        matrix[q * n + k] = s * a + c * b;
        a = vectors[p * n + k], b = vectors[q * n + k];
        vectors[p * n + k] = c * a - s * b;
        vectors[q * n + k] = s * a + c * b;
    }
}

void ff_symmetric_eigen(int n, double *matrix, double *values, double *vectors) {
    enum { SWEEPS = 100 }; /* they converge quadratically: about 8 are needed */
    for (int i = 0; i < n * n; i++) vectors[i] = i % (n + 1) == 0;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double off = 0, on = 0;
        for (int i = 0; i < n * n; i++) *(i % (n + 1) == 0 ? &on : &off) += matrix[i] * matrix[i];
        if (!(off > 1e-30 * on)) break;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) rotate(n, matrix, vectors, p, q);
    }
    for (int i = 0; i < n; i++) values[i] = matrix[i * n + i];
    for (int i = 1; i < n; i++) /* insertion, of whole rows */
        for (int k = i; k > 0 && values[k] < values[k - 1]; k--) {
            double kept = values[k];
            values[k] = values[k - 1];
            values[k - 1] = kept;
            for (int c = 0; c < n; c++) {
                kept = vectors[k * n + c];
                vectors[k * n + c] = vectors[(k - 1) * n + c];
                vectors[(k - 1) * n + c] = kept;
            }
        }
}

/* ---- patches ---- */

/* The sum of products of two windows of one or two planes; in eight independent sums. */
static double product_of(const float *a, const float *b, int rows, int columns, int width) {
    double sum = 0;
    for (int r = 0; r < rows; r++, a += width, b += width) {
        float part[8] = {0};
        int c = 0;
        for (; c + 8 <= columns; c += 8)
            for (int lane = 0; lane < 8; lane++) part[lane] += a[c + lane] * b[c + lane];
        for (; c < columns; c++) part[0] += a[c] * b[c];
        for (int lane = 0; lane < 8; lane++) sum += (double)part[lane];
    }
    return sum;
}

void ff_whitening_add(int channels, int height, int width, int side, const float *image,
                      double *sums) {
    const int taps = side * side, k = channels * taps;
    const int rows = height - side + 1, columns = width - side + 1;
    const float *corner[64];
    for (int i = 0; i < k; i++)
        corner[i] = image + ((size_t)(i / taps) * height + i % taps / side) * width + i % side;
    for (int i = 0; i < k; i++)
        for (int j = i; j < k; j++) {
            double sum = product_of(corner[i], corner[j], rows, columns, width);
            sums[i * k + j] += sum;
            if (i != j) sums[j * k + i] += sum;
        }
}

ff_status ff_whitening_filters(int k, double *sums, double patches, double epsilon, float *filters,
                               ff_error *error) {
    double values[64], vectors[64 * 64];
    for (int i = 0; i < k * k; i++) {
        sums[i] /= patches;
        if (!isfinite(sums[i]))
            return ff_fail(
                error, FF_BAD_DATA,
                "the images for whitening the first convolution hold NaN or infinite values "
                "(ffinspect --stats shows them)");
    }
    ff_symmetric_eigen(k, sums, values, vectors);
    for (int i = 0; i < k; i++)
        for (int c = 0; c < k; c++) {
            /* rounding may make a zero eigenvalue slightly negative */
            double value = vectors[i * k + c] / sqrt(fmax(values[i], 0) + epsilon);
            filters[i * k + c] = (float)value;
            filters[(i + k) * k + c] = (float)-value;
        }
    return FF_OK;
}

/* ---- from a set ---- */

/* Adds the images of one slot, divided among the threads; images are summed in order, so the result
 * does not depend on the number of threads. */
static ff_status add_slot(const ff_slot *slot, int side, uint32_t images, int threads, double *sums,
                          ff_error *error) {
    const int k = (int)slot->channels * side * side;
    const size_t pixels = (size_t)slot->channels * slot->height * slot->width;
    double *each;
    FF_TRY(ff_alloc(&each, (uint64_t)images * (uint64_t)(k * k), sizeof *each,
                    "the covariance of patches", error));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (uint32_t i = 0; i < images; i++)
        ff_whitening_add((int)slot->channels, (int)slot->height, (int)slot->width, side,
                         (const float *)slot->data + i * pixels, each + (size_t)i * k * k);
    for (size_t i = 0; i < (size_t)images * k * k; i++) sums[i % (size_t)(k * k)] += each[i];
    free(each);
    return FF_OK;
}

static ff_status add_images(ff_loader *loader, int side, int threads, double *sums, double *patches,
                            ff_error *error) {
    uint32_t left = FF_WHITENING_IMAGES;
    for (bool last = false; left && !last;) {
        ff_slot *slot;
        FF_TRY(ff_interrupt_check(error));
        FF_TRY(ff_loader_acquire(loader, &slot, error));
        uint32_t images = slot->count < left ? slot->count : left;
        ff_status status = add_slot(slot, side, images, threads, sums, error);
        *patches += (double)images * (slot->height - side + 1.0) * (slot->width - side + 1.0);
        left -= images;
        last = slot->last;
        ff_loader_release(loader, slot, NULL);
        if (status != FF_OK) return status;
    }
    return FF_OK;
}

ff_status ff_whiten(ff_model *model, ff_dataset *set, const ff_selection *selection,
                    uint32_t resize, int threads, ff_error *error) {
    enum { BATCH = 16 }; /* few: its slots need memory in addition to training's */
    const int index = ff_model_whitening(model);
    if (index < 0) return FF_OK;
    const ff_parameter *filters = ff_model_parameter(model, index);
    const int side = (int)filters->shape[2],
              k = (int)(filters->count / (uint64_t)filters->shape[0]);
    if (k > 64)
        return ff_fail(error, FF_USAGE,
                       "%s: whitening images of %d channels; at most 16 are possible",
                       filters->name, (int)filters->shape[1]);
    ff_loader_options options = ff_loader_defaults();
    options.batch = BATCH;
    options.selection = selection;
    options.last_batch = FF_LAST_BATCH_KEEP;
    options.order = FF_ORDER_RANDOM;
    options.seed = 0;
    options.dtype = FF_F32;
    options.layout = FF_CHW;
    ff_model_input_size(model, &options.height, &options.width);
    options.augment.resize = resize;
    options.threads = threads > 8 ? 8 : threads;
    ff_loader *loader = NULL;
    ff_status status;
    float *values = NULL;
    double sums[64 * 64] = {0}, patches = 0;
    FF_TRY_DONE(ff_loader_create(&loader, set, &options, error));
    FF_TRY_DONE(add_images(loader, side, threads, sums, &patches, error));
    FF_TRY_DONE(ff_alloc(&values, filters->count, sizeof *values, "filters", error));
    FF_TRY_DONE(ff_whitening_filters(k, sums, patches, FF_WHITENING_EPSILON, values, error));
    ff_model_set(model, index, FF_PART_VALUE, values);
    status = ff_model_check(model, error);
done:
    ff_loader_destroy(&loader);
    free(values);
    return status;
}
