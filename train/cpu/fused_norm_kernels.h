/* The inner loops of fused_norm.c over one plane (a block of channels of one sample: `pixels`
 * vectors). Included by kernel_variants.h, which says what the macros are; hence no include guard.
 */

/* Sums of x - shift and of its square are added to sum and squares. Four chains hide the latency of
 * the addition; float within a plane, double between planes. */
TARGET
static void NAME(statistics)(const float *from, size_t pixels, const float *shift, double *sum,
                             double *squares) {
    const V *x = (const V *)from;
    const V k = *(const V *)shift;
    V s[4] = {{0}}, q[4] = {{0}};
    size_t i = 0;
    for (; i + 4 <= pixels; i += 4)
        for (int j = 0; j < 4; j++) {
            V d = x[i + j] - k;
            s[j] += d;
            q[j] += d * d;
        }
    for (; i < pixels; i++) {
        V d = x[i] - k;
        s[0] += d;
        q[0] += d * d;
    }
    V total = (s[0] + s[1]) + (s[2] + s[3]), total_squares = (q[0] + q[1]) + (q[2] + q[3]);
    for (int c = 0; c < LANES; c++) {
        sum[c] += (double)total[c];
        squares[c] += (double)total_squares[c];
    }
}

/* Lanes where y is not below zero; NaN passes. */
TARGET FF_INLINE void NAME(relu)(V *y) {
    *y = (V)((M)*y & ~(*y < 0));
}

TARGET FF_INLINE void NAME(apply_as)(const float *from, const float *residual, float *to,
                                     size_t pixels, const float *scale, const float *shift,
                                     const int relu, const int add) {
    const V *x = (const V *)from, *r = (const V *)residual;
    V *y = (V *)to;
    const V a = *(const V *)scale, b = *(const V *)shift;
    for (size_t i = 0; i < pixels; i++) {
        V value = x[i] * a + b;
        if (add) value += r[i];
        if (relu) NAME(relu)(&value);
        y[i] = value;
    }
}

/* y = relu(x * scale + shift + residual). */
TARGET
static void NAME(apply)(const float *x, const float *residual, float *y, size_t pixels,
                        const float *scale, const float *shift, bool relu) {
    if (residual && relu) NAME(apply_as)(x, residual, y, pixels, scale, shift, 1, 1);
    if (residual && !relu) NAME(apply_as)(x, residual, y, pixels, scale, shift, 0, 1);
    if (!residual && relu) NAME(apply_as)(x, residual, y, pixels, scale, shift, 1, 0);
    if (!residual && !relu) NAME(apply_as)(x, residual, y, pixels, scale, shift, 0, 0);
}

/* How the gradient reaches the affine map: as it is, masked by y > 0 with y computed again from x,
 * or masked by the y that was kept. */
#ifndef FF_NORM_MASKS
#define FF_NORM_MASKS
enum { MASK_NONE, MASK_FROM_X, MASK_FROM_Y };
#endif

TARGET FF_INLINE void NAME(masked)(V *g, const V *x, const V *y, const V *scale, const V *shift,
                                   const int mask) {
    if (mask == MASK_FROM_X) *g = (V)((M)*g & (*x * *scale + *shift > 0));
    if (mask == MASK_FROM_Y) *g = (V)((M)*g & (*y > 0));
}

TARGET FF_INLINE void NAME(reduce_as)(const plane_arguments *p, const int mask, const int second,
                                      const int store) {
    const V *x = (const V *)p->x, *y = (const V *)p->y;
    const V *dy = (const V *)p->dy, *dy2 = (const V *)p->dy2;
    V *out = (V *)p->g;
    const V scale = *(const V *)p->scale, shift = *(const V *)p->shift;
    const V mean = *(const V *)p->mean;
    V s[2] = {{0}}, q[2] = {{0}};
    size_t i = 0;
    for (; i + 2 <= p->pixels; i += 2)
        for (int j = 0; j < 2; j++) {
            V g = dy[i + j];
            if (second) g += dy2[i + j];
            NAME(masked)(&g, x + i + j, y + i + j, &scale, &shift, mask);
            if (store) out[i + j] = g;
            s[j] += g;
            q[j] += g * (x[i + j] - mean);
        }
    for (; i < p->pixels; i++) {
        V g = dy[i];
        if (second) g += dy2[i];
        NAME(masked)(&g, x + i, y + i, &scale, &shift, mask);
        if (store) out[i] = g;
        s[0] += g;
        q[0] += g * (x[i] - mean);
    }
    V total = s[0] + s[1], products = q[0] + q[1];
    for (int c = 0; c < LANES; c++) {
        p->sum[c] += (double)total[c];
        p->products[c] += (double)products[c];
    }
}

/* g = (dy + dy2) masked; its sum and the sum of g * (x - mean); g is kept where p->g. */
TARGET
static void NAME(reduce)(const plane_arguments *p, int mask) {
    const bool second = p->dy2, store = p->g;
    if (mask == MASK_NONE && !second && !store) NAME(reduce_as)(p, MASK_NONE, 0, 0);
    if (mask == MASK_NONE && !second && store) NAME(reduce_as)(p, MASK_NONE, 0, 1);
    if (mask == MASK_NONE && second) NAME(reduce_as)(p, MASK_NONE, 1, 1);
    if (mask == MASK_FROM_X && !second && !store) NAME(reduce_as)(p, MASK_FROM_X, 0, 0);
    if (mask == MASK_FROM_X && !second && store) NAME(reduce_as)(p, MASK_FROM_X, 0, 1);
    if (mask == MASK_FROM_X && second) NAME(reduce_as)(p, MASK_FROM_X, 1, 1);
    if (mask == MASK_FROM_Y && !second) NAME(reduce_as)(p, MASK_FROM_Y, 0, 1);
    if (mask == MASK_FROM_Y && second) NAME(reduce_as)(p, MASK_FROM_Y, 1, 1);
}

TARGET FF_INLINE void NAME(gradient_as)(const plane_arguments *p, const int mask) {
    const V *x = (const V *)p->x, *g = (const V *)p->g;
    V *dx = (V *)p->dx;
    const V scale = *(const V *)p->scale, shift = *(const V *)p->shift;
    const V mean = *(const V *)p->mean, slope = *(const V *)p->slope, base = *(const V *)p->base;
    for (size_t i = 0; i < p->pixels; i++) {
        V value = g[i];
        NAME(masked)(&value, x + i, NULL, &scale, &shift, mask);
        dx[i] = scale * value + (slope * (x[i] - mean) + base);
    }
}

/* dx = scale * g + slope * (x - mean) + base; g is masked on the way unless it was kept masked. */
TARGET
static void NAME(gradient)(const plane_arguments *p, int mask) {
    if (mask == MASK_FROM_X)
        NAME(gradient_as)(p, MASK_FROM_X);
    else
        NAME(gradient_as)(p, MASK_NONE);
}
