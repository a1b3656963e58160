/* Affine changes, one source for host (C11) and CUDA C: output pixel (x, y) shows the input at
 *   column = m[0] x' + m[1] y' + m[2], row = m[3] x' + m[4] y' + m[5]
 * relative to the image's middle, as x' = x - (width - 1) / 2 and y' = y - (height - 1) / 2 are.
 *
 * Source: torchvision's _get_inverse_affine_matrix, affine_image, rotate_image and
 * _apply_grid_transform (version 0.29) with fill 0, and torch's grid_sample on a CPU with fused
 * multiply-adds: the matrix in f64, rounded to f32 and divided by half the width or height; places
 * in f32. torch leaves the products of the grid to a BLAS; here they are rounded one by one, as by
 * Debian's. A BLAS that fuses them rounds some places otherwise, and takes another pixel where a
 * place is almost halfway between two. Sines are own series, the same on every host and device.
 * Thread rule: everything here is pure. */
#ifndef FF_LOADER_AUGMENT_CHANGE_MATRIX_H
#define FF_LOADER_AUGMENT_CHANGE_MATRIX_H

#include "loader/augment/change/change.h"

/* The sine of |degrees| <= 2^20, within some units in the last place; exact at multiples of 90. */
FF_HD double ff_matrix_sin(double degrees) {
    const double quarters = degrees / 90.0;
    const int64_t turns = (int64_t)(quarters + (quarters < 0 ? -0.5 : 0.5));
    const double x = (degrees - (double)turns * 90.0) * 0.017453292519943295, square = x * x;
    const int odd = (int)(turns & 1), negative = (int)(turns & 2);
    double sum = 1; /* of the Taylor series; in odd quarters, the cosine's */
    for (int n = 22 - odd; n > 0; n -= 2) sum = 1 - square * sum / (n * (n + 1));
    if (!odd) sum = x * sum;
    return negative ? -sum : sum;
}
FF_HD double ff_matrix_cos(double degrees) {
    return ff_matrix_sin(degrees + 90.0);
}

/* Adds the change by a matrix to an image of height x width. */
FF_HD void ff_changes_add_matrix(ff_changes *changes, int bilinear, const double m[6],
                                 uint32_t height, uint32_t width) {
    ff_change *change = &changes->change[changes->count++];
    change->kind = bilinear ? FF_CHANGE_BILINEAR : FF_CHANGE_NEAREST;
    for (int k = 0; k < 6; k++)
        change->value[k] = (float)m[k] / (0.5f * (float)(k < 3 ? width : height));
}

/* Rotation counter-clockwise: F.rotate. */
FF_HD void ff_changes_add_rotation(ff_changes *changes, int bilinear, double degrees,
                                   uint32_t height, uint32_t width) {
    const double s = ff_matrix_sin(degrees), c = ff_matrix_cos(degrees);
    const double m[6] = {c, -s, 0, s, c, 0};
    ff_changes_add_matrix(changes, bilinear, m, height, width);
}

/* Shear along x and y by these tangents, of which one is 0, with the upper left corner fixed:
 * F.affine with center (0, 0). */
FF_HD void ff_changes_add_shear(ff_changes *changes, int bilinear, double x, double y,
                                uint32_t height, uint32_t width) {
    const double left = 0.5 * width, top = 0.5 * height;
    const double m[6] = {1, x, (left + x * top) - left, y, 1, (y * left + top) - top};
    ff_changes_add_matrix(changes, bilinear, m, height, width);
}

/* F.affine: rotation by `degrees` clockwise, enlargement by `scale`, shear along x by `shear`
 * degrees, |shear| < 90, about the middle, then a shift. */
FF_HD void ff_changes_add_affine(ff_changes *changes, int bilinear, double degrees, double right,
                                 double down, double scale, double shear, uint32_t height,
                                 uint32_t width) {
    const double s = ff_matrix_sin(degrees), c = ff_matrix_cos(degrees);
    const double tangent = ff_matrix_sin(shear) / ff_matrix_cos(shear);
    const double b = -c * tangent - s, d = -s * tangent + c;
    double m[6] = {d / scale, -b / scale, 0, -s / scale, c / scale, 0};
    m[2] = m[0] * -right + m[1] * -down;
    m[5] = m[3] * -right + m[4] * -down;
    ff_changes_add_matrix(changes, bilinear, m, height, width);
}

/* ---- places --------------------------------------------------------------------------------- */

/* x' of column x, or y' of row y. */
FF_HD float ff_matrix_base(uint32_t at, uint32_t size) {
    return (float)at - (float)(size - 1) * 0.5f;
}
/* The column or row of m's products with x' and y', and m[2] or m[5]; perhaps outside. */
FF_HD float ff_matrix_place(float of_x, float of_y, float shift, uint32_t size) {
    return fmaf(((of_x + of_y) + shift) + 1.0f, (float)size * 0.5f, -0.5f);
}

/* The index in a plane of the pixel nearest to a place; -1: outside. */
FF_HD int32_t ff_matrix_nearest(float column, float row, uint32_t height, uint32_t width) {
    const float x = ff_change_round(column), y = ff_change_round(row);
    const int inside = x >= 0.0f && x < (float)width && y >= 0.0f && y < (float)height;
    return inside ? (int32_t)y * (int32_t)width + (int32_t)x : -1;
}

/* The four pixels around a place: the index of the first, perhaps outside; and their weights, 0 if
 * outside. */
typedef struct ff_matrix_corners {
    int32_t x, y;
    float weight[4]; /* (x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1) */
} ff_matrix_corners;

FF_HD ff_matrix_corners ff_matrix_around(float column, float row, uint32_t height, uint32_t width) {
    ff_matrix_corners at;
    /* Far outside is as far as just outside. */
    column = column > -2.0f ? (column < (float)width + 1.0f ? column : (float)width + 1.0f) : -2.0f;
    row = row > -2.0f ? (row < (float)height + 1.0f ? row : (float)height + 1.0f) : -2.0f;
    at.x = (int32_t)(column + 2.0f) - 2;
    at.y = (int32_t)(row + 2.0f) - 2;
    at.x -= (float)at.x > column;
    at.y -= (float)at.y > row;
    at.x += (float)(at.x + 1) <= column;
    at.y += (float)(at.y + 1) <= row;
    const float w = column - (float)at.x, e = 1.0f - w, n = row - (float)at.y, s = 1.0f - n;
    const int left = at.x >= 0 && at.x < (int32_t)width;
    const int right = at.x + 1 >= 0 && at.x + 1 < (int32_t)width;
    const int upper = at.y >= 0 && at.y < (int32_t)height;
    const int lower = at.y + 1 >= 0 && at.y + 1 < (int32_t)height;
    at.weight[0] = left && upper ? e * s : 0.0f;
    at.weight[1] = right && upper ? w * s : 0.0f;
    at.weight[2] = left && lower ? e * n : 0.0f;
    at.weight[3] = right && lower ? w * n : 0.0f;
    return at;
}

/* Their value; pixels outside may be anything. */
FF_HD uint8_t ff_matrix_blend(const float weight[4], float nw, float ne, float sw, float se) {
    return ff_change_nearest(
        fmaf(se, weight[3], fmaf(sw, weight[2], fmaf(ne, weight[1], nw * weight[0]))));
}

#ifndef __CUDACC__
/* Whether a change leaves images of height x width as they are. */
int ff_matrix_is_identity(const ff_change *change, uint32_t height, uint32_t width);

/* Applies a change to an image `from`, into `to`: both [channels][height][width], of 1 or 3
 * channels. words: [height][width][4], scratch. */
void ff_matrix_apply(const ff_change *change, const uint8_t *from, uint8_t *to, uint8_t *words,
                     uint32_t channels, uint32_t height, uint32_t width);
#endif

#endif
