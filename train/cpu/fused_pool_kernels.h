/* The inner loops of fused_pool.c over one plane. Included by kernel_variants.h, which says what
 * the macros are; hence no include guard. Places are bytes, one a lane. */

TARGET FF_INLINE void NAME(store_places)(const M *places, uint8_t *to) {
    for (int l = 0; l < LANES; l++) to[l] = (uint8_t)(*places)[l];
}

TARGET FF_INLINE void NAME(load_places)(const uint8_t *from, M *places) {
    int wide[LANES];
    for (int l = 0; l < LANES; l++) wide[l] = from[l];
    memcpy(places, wide, sizeof wide);
}

TARGET FF_INLINE void NAME(max_window)(const ff_pool *pool, const V *x, int p, int q, V *y,
                                       uint8_t *index) {
    const int top = p * pool->stride - pool->pad, left = q * pool->stride - pool->pad;
    const int r_end = pool->input.h - top < pool->kernel_h ? pool->input.h - top : pool->kernel_h;
    const int s_end = pool->input.w - left < pool->kernel_w ? pool->input.w - left : pool->kernel_w;
    const int r_from = top < 0 ? -top : 0, s_from = left < 0 ? -left : 0;
    V best = x[(top + r_from) * pool->input.w + left + s_from];
    M place = (M){0} + (r_from * pool->kernel_w + s_from);
    for (int r = r_from; r < r_end; r++)
        for (int s = s_from; s < s_end; s++) {
            V value = x[(top + r) * pool->input.w + left + s];
            M larger = (value > best) | (value != value);
            M here = (M){0} + (r * pool->kernel_w + s);
            best = (V)(((M)value & larger) | ((M)best & ~larger));
            place = (here & larger) | (place & ~larger);
        }
    *y = best;
    if (index) NAME(store_places)(&place, index);
}

/* Windows of 2 x 2 that do not overlap: every one whole. */
TARGET FF_INLINE void NAME(max_2x2_as)(const ff_pool *pool, const V *x, V *y, uint8_t *index,
                                       const int keep) {
    const M one = (M){0} + 1;
    for (int p = 0; p < pool->output.h; p++)
        for (int q = 0; q < pool->output.w; q++) {
            const V *at = x + 2 * p * pool->input.w + 2 * q;
            V a = at[0], b = at[1], c = at[pool->input.w], d = at[pool->input.w + 1];
            M right = (b > a) | (b != b);
            V upper = (V)(((M)b & right) | ((M)a & ~right));
            M place = right & one;
            M lower = (c > upper) | (c != c);
            V best = (V)(((M)c & lower) | ((M)upper & ~lower));
            place = ((one + one) & lower) | (place & ~lower);
            M last = (d > best) | (d != d);
            *y++ = (V)(((M)d & last) | ((M)best & ~last));
            place = ((one + one + one) & last) | (place & ~last);
            if (keep) {
                NAME(store_places)(&place, index);
                index += LANES;
            }
        }
}

TARGET
static void NAME(max)(const ff_pool *pool, const float *from, float *to, uint8_t *index) {
    const V *x = (const V *)from;
    V *y = (V *)to;
    if (pool->kernel_h == 2 && pool->kernel_w == 2 && pool->stride == 2 && pool->pad == 0) {
        if (index)
            NAME(max_2x2_as)(pool, x, y, index, 1);
        else
            NAME(max_2x2_as)(pool, x, y, index, 0);
        return;
    }
    for (int p = 0; p < pool->output.h; p++)
        for (int q = 0; q < pool->output.w; q++) {
            NAME(max_window)(pool, x, p, q, y++, index);
            if (index) index += LANES;
        }
}

TARGET
static void NAME(average)(const ff_pool *pool, const float *from, float *to) {
    const V *x = (const V *)from;
    V *y = (V *)to;
    const float count = (float)(pool->kernel_h * pool->kernel_w);
    for (int p = 0; p < pool->output.h; p++)
        for (int q = 0; q < pool->output.w; q++) {
            V sum = {0};
            for (int r = 0; r < pool->kernel_h; r++) {
                int h = p * pool->stride - pool->pad + r;
                if (h < 0 || h >= pool->input.h) continue;
                for (int s = 0; s < pool->kernel_w; s++) {
                    int w = q * pool->stride - pool->pad + s;
                    if (w >= 0 && w < pool->input.w) sum += x[h * pool->input.w + w];
                }
            }
            *y++ = sum / count;
        }
}

/* The gradient of a plane, added window by window; dx is zero before where windows overlap or leave
 * pixels out. */
TARGET
static void NAME(spread)(const ff_pool *pool, const float *from, const uint8_t *index, float *to) {
    const V *dy = (const V *)from;
    V *dx = (V *)to;
    const float count = (float)(pool->kernel_h * pool->kernel_w);
    for (int p = 0; p < pool->output.h; p++)
        for (int q = 0; q < pool->output.w; q++, dy++) {
            V g = *dy;
            if (!pool->max) g = g / count;
            M at = {0};
            if (pool->max) {
                NAME(load_places)(index, &at);
                index += LANES;
            }
            for (int r = 0; r < pool->kernel_h; r++) {
                int h = p * pool->stride - pool->pad + r;
                if (h < 0 || h >= pool->input.h) continue;
                for (int s = 0; s < pool->kernel_w; s++) {
                    int w = q * pool->stride - pool->pad + s;
                    if (w < 0 || w >= pool->input.w) continue;
                    M here = at == (M){0} + (r * pool->kernel_w + s);
                    V *pixel = dx + h * pool->input.w + w;
                    if (pool->max)
                        *pixel += (V)((M)g & here);
                    else
                        *pixel += g;
                }
            }
        }
}

/* The same for windows of 2 x 2 that cover all: every pixel is written once. */
TARGET
static void NAME(spread_2x2)(const ff_pool *pool, const float *from, const uint8_t *index,
                             float *to) {
    const V *dy = (const V *)from;
    const M one = (M){0} + 1;
    V *dx = (V *)to;
    for (int p = 0; p < pool->output.h; p++)
        for (int q = 0; q < pool->output.w; q++) {
            const M g = (M)*dy++;
            M at;
            NAME(load_places)(index, &at);
            index += LANES;
            V *pixel = dx + 2 * p * pool->input.w + 2 * q;
            pixel[0] = (V)(g & (at == 0));
            pixel[1] = (V)(g & (at == one));
            pixel[pool->input.w] = (V)(g & (at == one + one));
            pixel[pool->input.w + 1] = (V)(g & (at == one + one + one));
        }
}
