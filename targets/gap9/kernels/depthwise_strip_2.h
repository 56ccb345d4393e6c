/* Depthwise convolution 3x3 of stride 2, forward and dW, by strips as in depthwise_strip.h. A row of the image is either of the
 * middle taps of one row of results, or of the last taps of one and of the first of the next.
 */
#ifndef NET_DEPTHWISE_STRIP_2_H
#define NET_DEPTHWISE_STRIP_2_H

#include "depthwise_strip.h"

#if NET_STRIP_LOOPS
/* A row of the middle taps, then one of last (sums a, stored) and first taps (sums s and t in turn, which become a). Each of
 * the 9 pixels goes to u, v or q, two before its use.
 */
#define NET_STRIP_2_MIDDLE                                                                                              \
    NET_STRIP_ADD(a0, u, w3) NET_LOAD(q, x) NET_STRIP_ADD(a0, v, w4) NET_LOAD(u, x) NET_STRIP_ADD(a1, q, w3)            \
        NET_STRIP_ADD(a0, q, w5) NET_LOAD(v, x) NET_STRIP_ADD(a1, u, w4) NET_LOAD(q, x) NET_STRIP_ADD(a2, v, w3)        \
            NET_STRIP_ADD(a1, v, w5) NET_LOAD(u, x) NET_STRIP_ADD(a2, q, w4) NET_LOAD(v, x) NET_STRIP_ADD(a3, u, w3)    \
                NET_STRIP_ADD(a2, u, w5) NET_STRIP_STEP(q, x, x_step) NET_STRIP_ADD(a3, v, w4)                          \
                    NET_STRIP_MASK(q, right) NET_LOAD(u, x) NET_STRIP_ADD(a3, q, w5) NET_STRIP_MASK(u, left) NET_LOAD(v, x)
#define NET_STRIP_2_BOTH                                                                                                \
    NET_STRIP_ADD(a0, u, w6) NET_LOAD(q, x) NET_FUSED("fmadd.s", s, u, w0, start) NET_STRIP_ADD(a0, v, w7)              \
        NET_LOAD(u, x) NET_STRIP_ADD(s, v, w1) NET_STRIP_ADD(a0, q, w8) NET_STRIP_ADD(a1, q, w6) NET_LOAD(v, x)         \
            NET_FUSED("fmadd.s", t, q, w0, start) NET_STORE(a0, y) NET_FUSED("fmadd.s", a0, q, w2, s)                   \
                NET_STRIP_ADD(a1, u, w7) NET_LOAD(q, x) NET_STRIP_ADD(t, u, w1) NET_STRIP_ADD(a1, v, w8)                \
                    NET_STRIP_ADD(a2, v, w6) NET_LOAD(u, x) NET_FUSED("fmadd.s", s, v, w0, start) NET_STORE(a1, y)      \
    NET_FUSED("fmadd.s", a1, v, w2, t) NET_STRIP_ADD(a2, q, w7) NET_LOAD(v, x) NET_STRIP_ADD(s, q, w1)                  \
        NET_STRIP_ADD(a2, u, w8) NET_STRIP_ADD(a3, u, w6) NET_STRIP_STEP(q, x, x_step)                                  \
            NET_FUSED("fmadd.s", t, u, w0, start) NET_STORE(a2, y) NET_FUSED("fmadd.s", a2, u, w2, s)                   \
                NET_STRIP_ADD(a3, v, w7) NET_STRIP_MASK(q, right) NET_LOAD(u, x) NET_STRIP_ADD(t, v, w1)                \
                    NET_STRIP_ADD(a3, q, w8) NET_STRIP_MASK(u, left) NET_LOAD(v, x) NET_STORE(a3, y)                    \
                        NET_FUSED("fmadd.s", a3, q, w2, t) NET_OP("add", y, y, y_step)

/* `rows` pairs of such rows, at least one. */
NET_KERNEL void net_strip_2_loop(const net_plane_t *plane, const float w[9], float a[4], const float **from, float **to,
                                 int32_t rows)
{
    const intptr_t x_step = 4 * plane->x_row - 32, y_step = 4 * plane->y_row - 16;
    const float *x = *from;
    float *y = *to, s, t, u, v;
    int32_t q = rows;
    __asm__ volatile(NET_LOAD(u, x) NET_LOAD(v, x) NET_STRIP_MASK(u, left) NET_REPEAT("%[q]", 252)
                         NET_STRIP_2_MIDDLE NET_STRIP_2_BOTH NET_REPEAT_END
                     : [a0] "+r"(a[0]), [a1] "+r"(a[1]), [a2] "+r"(a[2]), [a3] "+r"(a[3]), [s] "=&r"(s), [t] "=&r"(t),
                       [u] "=&r"(u), [v] "=&r"(v), [q] "+r"(q), [x] "+r"(x), [y] "+r"(y)
                     : [w0] "r"(w[0]), [w1] "r"(w[1]), [w2] "r"(w[2]), [w3] "r"(w[3]), [w4] "r"(w[4]), [w5] "r"(w[5]),
                       [w6] "r"(w[6]), [w7] "r"(w[7]), [w8] "r"(w[8]), [start] "r"(plane->start), [x_step] "r"(x_step),
                       [y_step] "r"(y_step), [left] "r"(plane->left), [right] "r"(plane->right)
                     : "memory");
    *from = x - 2; /* the first pixels of the row behind are loaded already */
    *to = y;
}

/* The same rows of dW: gradients are those of the own row, g, and of the one below, h, which is the next one's own. */
#define NET_STRIP_2_W_MIDDLE                                                                                            \
    NET_STRIP_ADD(w3, u, g0) NET_LOAD(q, x) NET_STRIP_ADD(w4, v, g0) NET_LOAD(u, x) NET_STRIP_ADD(w5, q, g0)            \
        NET_LOAD(h0, y) NET_STRIP_ADD(w3, q, g1) NET_LOAD(v, x) NET_STRIP_ADD(w4, u, g1) NET_LOAD(q, x)                 \
            NET_STRIP_ADD(w5, v, g1) NET_LOAD(h1, y) NET_STRIP_ADD(w3, v, g2) NET_LOAD(u, x) NET_STRIP_ADD(w4, q, g2)   \
                NET_LOAD(v, x) NET_STRIP_ADD(w5, u, g2) NET_LOAD(h2, y) NET_STRIP_ADD(w3, u, g3)                        \
                    NET_STRIP_STEP(q, x, x_step) NET_STRIP_ADD(w4, v, g3) NET_STRIP_STEP(h3, y, y_step)                 \
                        NET_STRIP_MASK(q, right) NET_LOAD(u, x) NET_STRIP_ADD(w5, q, g3) NET_STRIP_MASK(u, left) NET_LOAD(v, x)
#define NET_STRIP_2_W_BOTH                                                                                              \
    NET_STRIP_ADD(w6, u, g0) NET_LOAD(q, x) NET_STRIP_ADD(w0, u, h0) NET_STRIP_ADD(w7, v, g0) NET_LOAD(u, x)            \
        NET_STRIP_ADD(w1, v, h0) NET_STRIP_ADD(w8, q, g0) NET_STRIP_ADD(w2, q, h0) "mv %[g0], %[h0]\n"                  \
            NET_STRIP_ADD(w6, q, g1) NET_LOAD(v, x) NET_STRIP_ADD(w0, q, h1) NET_STRIP_ADD(w7, u, g1) NET_LOAD(q, x)    \
                NET_STRIP_ADD(w1, u, h1) NET_STRIP_ADD(w8, v, g1) NET_STRIP_ADD(w2, v, h1) "mv %[g1], %[h1]\n"          \
    NET_STRIP_ADD(w6, v, g2) NET_LOAD(u, x) NET_STRIP_ADD(w0, v, h2) NET_STRIP_ADD(w7, q, g2) NET_LOAD(v, x)            \
        NET_STRIP_ADD(w1, q, h2) NET_STRIP_ADD(w8, u, g2) NET_STRIP_ADD(w2, u, h2) "mv %[g2], %[h2]\n"                  \
            NET_STRIP_ADD(w6, u, g3) NET_STRIP_STEP(q, x, x_step) NET_STRIP_ADD(w0, u, h3) NET_STRIP_ADD(w7, v, g3)     \
                NET_STRIP_MASK(q, right) NET_LOAD(u, x) NET_STRIP_ADD(w1, v, h3) NET_STRIP_ADD(w8, q, g3)               \
                    NET_STRIP_MASK(u, left) NET_LOAD(v, x) NET_STRIP_ADD(w2, q, h3) "mv %[g3], %[h3]\n"

/* `rows` pairs of such rows, at least one; y is the first one's own row. */
NET_KERNEL void net_strip_2_w_loop(const net_plane_t *plane, float w[9], const float *x, const float *y, int32_t rows)
{
    const intptr_t x_step = 4 * plane->x_row - 32, y_step = 4 * plane->y_row - 12;
    float g0, g1, g2, g3, h0, h1, h2, h3, u, v;
    int32_t q = rows;
    __asm__ volatile(NET_LOAD(u, x) NET_LOAD(v, x) NET_LOAD(g0, y) NET_LOAD(g1, y) NET_LOAD(g2, y)
                         NET_STRIP_STEP(g3, y, y_step) NET_STRIP_MASK(u, left) NET_REPEAT("%[q]", 264)
                             NET_STRIP_2_W_MIDDLE NET_STRIP_2_W_BOTH NET_REPEAT_END
                     : [w0] "+r"(w[0]), [w1] "+r"(w[1]), [w2] "+r"(w[2]), [w3] "+r"(w[3]), [w4] "+r"(w[4]),
                       [w5] "+r"(w[5]), [w6] "+r"(w[6]), [w7] "+r"(w[7]), [w8] "+r"(w[8]), [g0] "=&r"(g0), [g1] "=&r"(g1),
                       [g2] "=&r"(g2), [g3] "=&r"(g3), [h0] "=&r"(h0), [h1] "=&r"(h1), [h2] "=&r"(h2), [h3] "=&r"(h3),
                       [u] "=&r"(u), [v] "=&r"(v), [q] "+r"(q), [x] "+r"(x), [y] "+r"(y)
                     : [x_step] "r"(x_step), [y_step] "r"(y_step), [left] "r"(plane->left), [right] "r"(plane->right)
                     : "memory");
}
#else
NET_KERNEL void net_strip_2_loop(const net_plane_t *plane, const float w[9], float a[4], const float **from, float **to,
                                 int32_t rows)
{
    (void)plane, (void)w, (void)a, (void)from, (void)to, (void)rows;
}

NET_KERNEL void net_strip_2_w_loop(const net_plane_t *plane, float w[9], const float *x, const float *y, int32_t rows)
{
    (void)plane, (void)w, (void)x, (void)y, (void)rows;
}
#endif

/* Pixel c of 2 * P + 1, of which the first and the last may be outside. */
NET_KERNEL float net_strip_2_pixel(const int32_t P, uint32_t left, uint32_t right, const float *x, const int32_t c)
{
    return c == 0 ? net_masked(x, left) : c == 2 * P ? net_masked(x + c, right) : x[c];
}

/* A row of pixels times the middle taps of its row of results; or times the last ones of that above, which is then stored at
 * y, and the first ones of the next (BEGINS), whose sums take the place of the former.
 */
NET_KERNEL void net_strip_2_row(const int32_t P, const bool MIDDLE, const bool ENDS, const bool BEGINS,
                                const net_plane_t *plane, const float weight[9], float sum[4], const float *x, float *y)
{
    const uint32_t left = plane->left, right = plane->right;
    const float start = plane->start;
    float fresh[4] = {0}, pixel = net_strip_2_pixel(P, left, right, x, 0);
    NET_UNROLLED
    for (int32_t c = 0; c <= 2 * P; ++c) {
        const float ahead = net_strip_2_pixel(P, left, right, x, c < 2 * P ? c + 1 : c);
        NET_UNROLLED
        for (int32_t kx = 2; kx >= 0; --kx) {
            const int32_t p = (c - kx) / 2;
            if (c < kx || (c - kx) % 2 || p >= P)
                continue;
            if (MIDDLE)
                net_multiply_add(sum[p], pixel, weight[3 + kx]);
            if (ENDS)
                net_multiply_add(sum[p], pixel, weight[6 + kx]);
            if (ENDS && kx == 2)
                y[p] = sum[p];
            if (BEGINS && kx == 0)
                net_multiply_start(fresh[p], start, pixel, weight[0]);
            if (BEGINS && kx == 1)
                net_multiply_add(fresh[p], pixel, weight[1]);
            if (BEGINS && kx == 2)
                net_multiply_start(sum[p], fresh[p], pixel, weight[2]);
        }
        pixel = ahead;
    }
}

/* Strips of P columns from column `column` to `end`; x is the row of the middle taps of y's first, as in net_strips_of. */
NET_KERNEL void net_strided_of(const int32_t P, net_plane_t *plane, const float *x, float *y, int32_t column, int32_t end)
{
    float weight[9];
    NET_UNROLLED
    for (int32_t k = 0; k < 9; ++k)
        weight[k] = plane->w[k];
    NET_ROLLED
    for (; column < end; column += P) {
        const float *from = x + 2 * column;
        float sum[4], *to = y + column;
        net_strip_masks(plane, column, column + P);
        NET_UNROLLED
        for (int32_t p = 0; p < P; ++p)
            sum[p] = plane->start;
        if (plane->above)
            net_strip_2_row(P, false, false, true, plane, weight, sum, from - plane->x_row, to);
        const int32_t rows = plane->rows - !plane->below;
        if (NET_STRIP_LOOPS && P == 4) {
            if (rows > 0)
                net_strip_2_loop(plane, weight, sum, &from, &to, rows);
        } else {
            NET_ROLLED
            for (int32_t row = rows; row > 0; --row, from += 2 * plane->x_row, to += plane->y_row) {
                net_strip_2_row(P, true, false, false, plane, weight, sum, from, to);
                net_strip_2_row(P, false, true, true, plane, weight, sum, from + plane->x_row, to);
            }
        }
        if (plane->below)
            continue;
        net_strip_2_row(P, true, false, false, plane, weight, sum, from, to);
        NET_UNROLLED
        for (int32_t p = 0; p < P; ++p)
            to[p] = sum[p];
    }
}

/* A row of pixels times rows of dY: its own for the middle taps, or that above for the last and that below for the first. */
NET_KERNEL void net_strip_2_w_row(const int32_t P, const net_plane_t *plane, float weight[9], const float *x,
                                  const float *above, const float *own, const float *below)
{
    const uint32_t left = plane->left, right = plane->right;
    NET_UNROLLED
    for (int32_t p = 0; p < P; ++p) {
        NET_UNROLLED
        for (int32_t kx = 0; kx < 3; ++kx) {
            const float pixel = net_strip_2_pixel(P, left, right, x, 2 * p + kx);
            if (own)
                net_multiply_add(weight[3 + kx], pixel, own[p]);
            if (above)
                net_multiply_add(weight[6 + kx], pixel, above[p]);
            if (below)
                net_multiply_add(weight[kx], pixel, below[p]);
        }
    }
}

/* What such strips of dY add to dW, but for the row of x above and those of the last row of dY. */
NET_KERNEL void net_strided_w_of(const int32_t P, net_plane_t *plane, const float *x, float *y, int32_t column, int32_t end)
{
    float weight[9];
    NET_UNROLLED
    for (int32_t k = 0; k < 9; ++k)
        weight[k] = plane->w[k];
    NET_ROLLED
    for (; column < end; column += P) {
        const float *from = x + 2 * column, *own = y + column;
        net_strip_masks(plane, column, column + P);
        if (NET_STRIP_LOOPS && P == 4) {
            net_strip_2_w_loop(plane, weight, from, own, plane->rows - 1);
            continue;
        }
        NET_ROLLED
        for (int32_t row = plane->rows - 1; row > 0; --row) {
            const float *const below = own + plane->y_row;
            net_strip_2_w_row(P, plane, weight, from, NULL, own, NULL);
            net_strip_2_w_row(P, plane, weight, from + plane->x_row, own, NULL, below);
            from += 2 * plane->x_row;
            own = below;
        }
    }
    NET_UNROLLED
    for (int32_t k = 0; k < 9; ++k)
        plane->w[k] = weight[k];
}

#define NET_STRIPS_2_OF(name, P)                                                                                        \
    NET_HOT void name##_##P(net_plane_t *plane, const float *x, float *y, int32_t column, int32_t end)                  \
    {                                                                                                                   \
        name##_of(P, plane, x, y, column, end);                                                                         \
    }
#define NET_STRIPS_2(name)                                                                                              \
    NET_STRIPS_2_OF(name, 1)                                                                                            \
    NET_STRIPS_2_OF(name, 2)                                                                                            \
    NET_STRIPS_2_OF(name, 3)                                                                                            \
    NET_STRIPS_2_OF(name, 4)                                                                                            \
    static const net_strips_by_t name##_by[7] = {name##_1, name##_2, name##_3, name##_4, name##_1, name##_2, name##_3};

NET_STRIPS_2(net_strided)
NET_STRIPS_2(net_strided_w)

NET_HOT void net_strided_columns(net_plane_t *plane, const float *x, float *y, int32_t column, int32_t end)
{
    net_strips_all(net_strided_by, plane, x, y, column, end);
}

NET_HOT void net_strided_w_plane(net_plane_t *plane, const float *x, float *y)
{
    float *const last = y + (plane->rows - 1) * plane->y_row;
    const float *const own = x + 2 * (plane->rows - 1) * plane->x_row;
    if (plane->above)
        net_strip_w_edge(plane, 2, plane->w, x - plane->x_row, y);
    if (plane->rows > 1)
        net_strips_all(net_strided_w_by, plane, x, y, 0, plane->columns);
    net_strip_w_edge(plane, 2, plane->w + 3, own, last);
    if (plane->below)
        net_strip_w_edge(plane, 2, plane->w + 6, own + plane->x_row, last);
}

/* Whole planes whose x has its border. */
NET_HOT void net_strided(net_plane_t *plane)
{
    net_strided_columns(plane, plane->x + plane->x_row, plane->y, 0, plane->columns);
}

NET_HOT void net_strided_w(net_plane_t *plane) { net_strided_w_plane(plane, plane->x + plane->x_row, plane->y); }

#endif
