/* Depthwise convolution 3x3 of stride 1, forward, dX and dW: strips of up to four columns, from the top row to the last. A
 * row of the image is loaded once for the three rows of results that it is part of. At the image's edges taps outside are
 * left out, or pixels there masked to zero, so that no border of zeros is needed.
 */
#ifndef NET_DEPTHWISE_STRIP_H
#define NET_DEPTHWISE_STRIP_H

#include "depthwise_3.h"
#include "depthwise_strip_loops.h"

/* A pixel, or 0 where the mask is 0: there may be no pixel at the edge, but then some other number is beside it in L1. */
NET_KERNEL float net_masked(const float *x, uint32_t mask)
{
#if defined(__riscv)
    union {
        uint32_t bits;
        float value;
    } pixel = {.value = *x};
    pixel.bits &= mask;
    return pixel.value;
#else
    return mask ? *x : 0.0f;
#endif
}

/* Sets the masks for strips of the columns [column, end). */
NET_KERNEL void net_strip_masks(net_plane_t *plane, int32_t column, int32_t end)
{
    plane->left = plane->no_left && column == 0 ? 0 : UINT32_MAX;
    plane->right = plane->no_right && end == plane->columns ? 0 : UINT32_MAX;
}

/* Pixel c of P + 2, of which the first and the last may be outside: the latter always, if CUT says so, and then it is none. */
NET_KERNEL float net_strip_pixel(const int32_t P, const bool CUT, uint32_t left, uint32_t right, const float *x,
                                 const int32_t c)
{
    if (c == P + 1)
        return CUT ? 0.0f : net_masked(x + c, right);
    return c == 0 ? net_masked(x, left) : x[c];
}

/* `rows` rows of P + 2 pixels, CUT of one less, of which x is the first: each ends the sums of the row of results above its own, which go to
 * y, carries on those of its own, and begins those of the row below. The last sums of the latter two take the registers of
 * those before: so sums change their places without moves.
 */
NET_KERNEL void net_strip_rows(const int32_t P, const bool CUT, const net_plane_t *plane, const float weight[9], float done[4], float half[4],
                               const float **from, float **to, int32_t rows)
{
    const intptr_t x_row = 4 * plane->x_row, y_row = 4 * plane->y_row;
    const uint32_t left = plane->left, right = plane->right;
    const float start = plane->start, *x = *from;
    float fresh[4], *y = *to;
    NET_ROLLED
    for (; rows > 0; --rows) {
        float pixel = net_strip_pixel(P, CUT, left, right, x, 0);
        NET_UNROLLED
        for (int32_t c = 0; c < P + 2 - CUT; ++c) {
            const float ahead = net_strip_pixel(P, CUT, left, right, x, c < P + 1 ? c + 1 : c);
            NET_UNROLLED
            for (int32_t kx = 2; kx >= 0; --kx) {
                const int32_t p = c - kx;
                if (p < 0 || p >= P)
                    continue;
                net_multiply_add(done[p], pixel, weight[6 + kx]);
                if (kx == 2 || c == P + 1 - CUT) {
                    y[p] = done[p];
                    net_multiply_start(done[p], half[p], pixel, weight[3 + kx]);
                    net_multiply_start(half[p], fresh[p], pixel, weight[kx]);
                } else {
                    net_multiply_add(half[p], pixel, weight[3 + kx]);
                    if (kx == 0)
                        net_multiply_start(fresh[p], start, pixel, weight[0]);
                    else
                        net_multiply_add(fresh[p], pixel, weight[1]);
                }
            }
            pixel = ahead;
        }
        net_move(x, x_row);
        net_move(y, y_row);
    }
    *from = x;
    *to = y;
}

/* Strips of P columns of results from column `column` to `end`. y is the plane's first row, and x the row of its middle taps,
 * from the pixel before the first column.
 */
NET_KERNEL void net_strips_of(const int32_t P, const bool CUT, net_plane_t *plane, const float *x, float *y, int32_t column, int32_t end)
{
    const float *tap = plane->w + (plane->reversed ? 8 : 0);
    const intptr_t to_next = plane->reversed ? -4 : 4;
    float weight[9];
    NET_UNROLLED
    for (int32_t k = 0; k < 9; ++k) {
        weight[k] = *tap;
        net_move(tap, to_next);
    }
    x -= plane->above ? plane->x_row : 0;
    NET_ROLLED
    for (; column < end; column += P) {
        const float *from = x + column;
        float done[4], half[4], *to = y + column;
        net_strip_masks(plane, column, column + P);
        NET_UNROLLED
        for (int32_t p = 0; p < P; ++p)
            done[p] = half[p] = plane->start;
        /* Rows that end nothing, one at a time: what they write to y's first row does not stay. Then all others. */
        NET_ROLLED
        for (int32_t ahead = plane->above ? 2 : 1; ahead >= 0; --ahead) {
            net_strip_rows(P, CUT, plane, weight, done, half, &from, &to, ahead ? 1 : plane->rows - 1 + plane->below);
            to -= ahead ? plane->y_row : 0;
        }
        if (plane->below)
            continue;
        NET_UNROLLED
        for (int32_t p = 0; p < P; ++p)
            to[p] = done[p];
    }
}

/* What such strips of dY add to dW, but for rows of x above and below those of dY; there are two rows at least. Each row of
 * P + 2 pixels, CUT of one less, is multiplied by the row of dY above its own for the last row of taps, its own for the middle
 * one, and the one below for the first.
 */
NET_KERNEL void net_strips_w_of(const int32_t P, const bool CUT, net_plane_t *plane, const float *x, float *y, int32_t column,
                                int32_t end)
{
    const intptr_t x_row = 4 * plane->x_row, y_row = 4 * plane->y_row;
    const float zeros[4] = {0};
    float weight[9];
    NET_UNROLLED
    for (int32_t k = 0; k < 9; ++k)
        weight[k] = plane->w[k];
    NET_ROLLED
    for (; column < end; column += P) {
        const float *at = x + column, *above = zeros, *own = y + column;
        net_strip_masks(plane, column, column + P);
        const uint32_t left = plane->left, right = plane->right;
        NET_ROLLED
        for (int32_t rows = plane->rows; rows > 0; --rows) {
            const float *const below = rows > 1 ? net_moved(own, y_row) : zeros;
            float pixel[6];
            pixel[0] = net_strip_pixel(P, CUT, left, right, at, 0);
            pixel[1] = net_strip_pixel(P, CUT, left, right, at, 1);
            NET_UNROLLED
            for (int32_t p = 0; p < P; ++p) {
                const float gradient[3] = {below[p], own[p], above[p]};
                pixel[p + 2] = net_strip_pixel(P, CUT, left, right, at, p + 2);
                NET_UNROLLED
                for (int32_t k = 0; k < 9; ++k) {
                    if (!CUT || p < P - 1 || k % 3 < 2)
                        net_multiply_add(weight[k], pixel[p + k % 3], gradient[k / 3]);
                }
            }
            above = own;
            own = below;
            net_move(at, x_row);
        }
    }
    NET_UNROLLED
    for (int32_t k = 0; k < 9; ++k)
        plane->w[k] = weight[k];
}

/* What a row of dY adds to three taps of a row of x, a step of which is one of dY. */
NET_HOT void net_strip_w_edge(const net_plane_t *plane, int32_t step, float *w, const float *x, const float *y)
{
    const float *const last = y + plane->columns - 1;
    float weight[3] = {w[0], w[1], w[2]}, first = plane->no_left ? 0.0f : x[0];
    NET_ROLLED
    for (; y <= last; ++y) {
        const float gradient = *y;
        net_multiply_add(weight[0], first, gradient);
        net_multiply_add(weight[1], x[1], gradient);
        if (y < last || !plane->no_right)
            net_multiply_add(weight[2], x[2], gradient);
        x += step;
        first = y < last ? x[0] : 0.0f;
    }
    NET_UNROLLED
    for (int32_t k = 0; k < 3; ++k)
        w[k] = weight[k];
}

/* Whether the strips may read an image that lacks so many rows or columns on its sides. */
NET_KERNEL bool net_strips_direct(int32_t above, int32_t below, int32_t left, int32_t right)
{
    return above <= 1 && below <= 1 && left <= 1 && right <= 1;
}

typedef void (*net_strips_by_t)(net_plane_t *plane, const float *x, float *y, int32_t column, int32_t end);

/* The columns [column, end) of a plane; see net_strips_of. */
NET_KERNEL void net_strips_all(const net_strips_by_t by[7], net_plane_t *plane, const float *x, float *y, int32_t column,
                               int32_t end)
{
    const int32_t left = (end - column) % 4;
    if (end - column >= 4)
        by[3](plane, x, y, column, end - left);
    if (left)
        by[left - 1 + (plane->no_right ? 4 : 0)](plane, x, y, end - left, end);
}

#if NET_STRIP_LOOPS
/* The columns [column, end) of planes of so many, which have no pixel on the left of the first, or on the right of the last. */
NET_KERNEL void net_strips_span(const bool W_SUMS, const net_strips_t *planes, int32_t columns, bool no_left, bool no_right,
                                int32_t column, int32_t end)
{
    net_strips_t of = *planes;
    const int32_t left = (end - column) % 4;
    of.x += column - (!W_SUMS && of.above ? of.x_row / 4 : 0);
    of.y += column;
    of.strips = (end - column) / 4;
    of.left = column > 0 || !no_left;
    of.right = end - left < columns || !no_right;
    if (of.strips) {
        (W_SUMS ? net_strips_w_loop_4 : net_strips_loop_4)(&of);
        if (W_SUMS) {
            of.start = of.w;
            of.start_step = 4;
        }
        of.x += 4 * of.strips;
        of.y += 4 * of.strips;
        of.left = true;
    }
    if (left == 0)
        return;
    of.strips = 1;
    of.right = end < columns || !no_right;
    if (left == 1)
        (W_SUMS ? net_strips_w_loop_1 : net_strips_loop_1)(&of);
    else if (left == 2)
        (W_SUMS ? net_strips_w_loop_2 : net_strips_loop_2)(&of);
    else
        (W_SUMS ? net_strips_w_loop_3 : net_strips_loop_3)(&of);
}

/* A plane as one of those; x is the row of the middle taps. Sums of dW go on from what there is. */
NET_KERNEL net_strips_t net_strips_plane(const bool W_SUMS, const net_plane_t *plane, const float *x, float *y)
{
    return (net_strips_t){
        .x = x,
        .w = plane->w + (plane->reversed ? 8 : 0),
        .y = y,
        .start = W_SUMS ? plane->w : &plane->start,
        .planes = 1,
        .rows = plane->rows,
        .x_row = 4 * plane->x_row,
        .y_row = 4 * plane->y_row,
        .w_step = plane->reversed ? -4 : 4,
        .start_step = W_SUMS ? 4 : 0,
        .above = plane->above,
        .below = plane->below,
    };
}

NET_HOT void net_strips_columns(net_plane_t *plane, const float *x, float *y, int32_t column, int32_t end)
{
    const net_strips_t of = net_strips_plane(false, plane, x, y);
    net_strips_span(false, &of, plane->columns, plane->no_left, plane->no_right, column, end);
}

NET_HOT void net_strips_w_columns(net_plane_t *plane, const float *x, float *y, int32_t column, int32_t end)
{
    const net_strips_t of = net_strips_plane(true, plane, x, y);
    net_strips_span(true, &of, plane->columns, plane->no_left, plane->no_right, column, end);
}
#else
#define NET_STRIPS_OF(name, to, P, CUT)                                                                                 \
    NET_HOT void to(net_plane_t *plane, const float *x, float *y, int32_t column, int32_t end)                          \
    {                                                                                                                   \
        name##_of(P, CUT, plane, x, y, column, end);                                                                    \
    }

/* Narrow strips are the last of their plane. */
#define NET_STRIPS(name)                                                                                                \
    NET_STRIPS_OF(name, name##_1, 1, false)                                                                             \
    NET_STRIPS_OF(name, name##_2, 2, false)                                                                             \
    NET_STRIPS_OF(name, name##_3, 3, false)                                                                             \
    NET_STRIPS_OF(name, name##_4, 4, false)                                                                             \
    NET_STRIPS_OF(name, name##_cut_1, 1, true)                                                                          \
    NET_STRIPS_OF(name, name##_cut_2, 2, true)                                                                          \
    NET_STRIPS_OF(name, name##_cut_3, 3, true)                                                                          \
    static const net_strips_by_t name##_by[7] = {name##_1,     name##_2,     name##_3,    name##_4,                        \
                                              name##_cut_1, name##_cut_2, name##_cut_3};

NET_STRIPS(net_strips)
NET_STRIPS(net_strips_w)

/* Forward and dX of some columns of a plane; dW of a whole one. */
NET_HOT void net_strips_columns(net_plane_t *plane, const float *x, float *y, int32_t column, int32_t end)
{
    net_strips_all(net_strips_by, plane, x, y, column, end);
}

NET_HOT void net_strips_w_columns(net_plane_t *plane, const float *x, float *y, int32_t column, int32_t end)
{
    net_strips_all(net_strips_w_by, plane, x, y, column, end);
}
#endif

NET_HOT void net_strips_w_plane(net_plane_t *plane, const float *x, float *y)
{
    float *const last = y + (plane->rows - 1) * plane->y_row;
    if (plane->above)
        net_strip_w_edge(plane, 1, plane->w, x - plane->x_row, y);
    if (plane->rows > 1)
        net_strips_w_columns(plane, x, y, 0, plane->columns);
    else
        net_strip_w_edge(plane, 1, plane->w + 3, x, y);
    if (plane->below)
        net_strip_w_edge(plane, 1, plane->w + 6, x + plane->rows * plane->x_row, last);
}

/* Whole planes whose x has its border. */
NET_HOT void net_strips(net_plane_t *plane)
{
    net_strips_columns(plane, plane->x + plane->x_row, plane->y, 0, plane->columns);
}

NET_HOT void net_strips_w(net_plane_t *plane) { net_strips_w_plane(plane, plane->x + plane->x_row, plane->y); }

#endif
