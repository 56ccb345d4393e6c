/* Depthwise convolution 3x3 of stride 1, forward and dX: columns of up to four results, from the top row to the last. A row
 * of the image is loaded once for the three rows of results that it is part of. At the image's edges the taps outside are
 * left out, so that no border of zeros is needed.
 */
#ifndef NET_DEPTHWISE_STRIP_H
#define NET_DEPTHWISE_STRIP_H

#include "depthwise_3.h"

/* The pixels x[0 .. P + 1] of a row, without the first at the LEFT and the last at the RIGHT edge, times the last row of taps
 * for `done`, which is then stored at y, the middle row for `half` and the first for `fresh`, which starts here. NULL: not
 * wanted. The last sums go to `half_to` and `fresh_to`: so sums change their places without moves.
 */
NET_KERNEL void net_strip_row(const int32_t P, const bool LEFT, const bool RIGHT, const float *x, const float weight[9],
                              float *done, float *half, float *half_to, float *fresh, float *fresh_to, float start, float *y)
{
    const int32_t FIRST = LEFT ? 1 : 0, END = RIGHT ? P + 1 : P + 2;
    float pixel = x[FIRST];
    NET_UNROLLED
    for (int32_t c = FIRST; c < END; ++c) {
        float ahead = 0.0f;
        if (c + 1 < END)
            ahead = x[c + 1];
        NET_UNROLLED
        for (int32_t kx = 0; kx < 3; ++kx) {
            const int32_t p = c - kx;
            if (p >= 0 && p < P) {
                const bool first = kx == 0 || c == FIRST, last = kx == 2 || c == END - 1;
                if (done)
                    net_multiply_add(done[p], pixel, weight[6 + kx]);
                if (done && last)
                    y[p] = done[p];
                if (half && last)
                    net_multiply_start(half_to[p], half[p], pixel, weight[3 + kx]);
                else if (half)
                    net_multiply_add(half[p], pixel, weight[3 + kx]);
                if (fresh && first)
                    net_multiply_start(fresh[p], start, pixel, weight[kx]);
                else if (fresh && last)
                    net_multiply_start(fresh_to[p], fresh[p], pixel, weight[kx]);
                else if (fresh)
                    net_multiply_add(fresh[p], pixel, weight[kx]);
            }
        }
        pixel = ahead;
    }
}

/* P columns of the results of a plane, of which x and y are the first column. */
NET_KERNEL void net_strip(const int32_t P, const bool LEFT, const bool RIGHT, const net_plane_t *plane, const float *x,
                          float *y)
{
    const intptr_t x_row = 4 * plane->x_row;
    const volatile intptr_t y_row = 4 * plane->y_row;
    const float start = plane->start, *taps = plane->w;
    float weight[9], a[4], b[4], c[4];
    if (plane->reversed) {
        NET_UNROLLED
        for (int32_t k = 0; k < 9; ++k)
            weight[k] = taps[8 - k];
    } else {
        NET_UNROLLED
        for (int32_t k = 0; k < 9; ++k)
            weight[k] = taps[k];
    }
    NET_UNROLLED
    for (int32_t p = 0; p < P; ++p)
        a[p] = start;
    if (plane->above)
        net_strip_row(P, LEFT, RIGHT, x, weight, NULL, NULL, NULL, a, a, start, y);
    net_move(x, x_row);
    if (plane->rows > 1) {
        net_strip_row(P, LEFT, RIGHT, x, weight, NULL, a, a, b, b, start, y);
        net_move(x, x_row);
        const float *const end = net_moved(x, (plane->rows - 2) * x_row);
        NET_ROLLED
        while (x != end) {
            net_strip_row(P, LEFT, RIGHT, x, weight, a, b, a, c, b, start, y);
            net_move(x, x_row);
            net_move(y, y_row);
        }
        net_strip_row(P, LEFT, RIGHT, x, weight, a, b, a, NULL, NULL, start, y);
        net_move(y, y_row);
    } else {
        net_strip_row(P, LEFT, RIGHT, x, weight, NULL, a, a, NULL, NULL, start, y);
    }
    net_move(x, x_row);
    if (plane->below) {
        net_strip_row(P, LEFT, RIGHT, x, weight, a, NULL, NULL, NULL, NULL, start, y);
    } else {
        NET_UNROLLED
        for (int32_t p = 0; p < P; ++p)
            y[p] = a[p];
    }
}

/* The pixels of a row as in net_strip_row, times the row of dY that is above its own for the last row of taps, its own for
 * the middle one, and the one below, which is loaded from y, for the first. NULL: not there.
 */
NET_KERNEL void net_strip_w_row(const int32_t P, const bool LEFT, const bool RIGHT, const float *x, float weight[9],
                                const float *above, const float *own, float *below, const float *y)
{
    const int32_t FIRST = LEFT ? 1 : 0, END = RIGHT ? P + 1 : P + 2;
    float pixel = x[FIRST];
    if (below) {
        NET_UNROLLED
        for (int32_t p = 0; p <= FIRST; ++p)
            below[p] = y[p];
    }
    NET_UNROLLED
    for (int32_t c = FIRST; c < END; ++c) {
        float ahead = 0.0f;
        if (c + 1 < END)
            ahead = x[c + 1];
        if (below && c + 1 < P)
            below[c + 1] = y[c + 1];
        NET_UNROLLED
        for (int32_t kx = 0; kx < 3; ++kx) {
            const int32_t p = c - kx;
            if (p >= 0 && p < P) {
                if (above)
                    net_multiply_add(weight[6 + kx], pixel, above[p]);
                if (own)
                    net_multiply_add(weight[3 + kx], pixel, own[p]);
                if (below)
                    net_multiply_add(weight[kx], pixel, below[p]);
            }
        }
        pixel = ahead;
    }
}

/* What P columns of dY, the first of which are at y, add to dW. */
NET_KERNEL void net_strip_w(const int32_t P, const bool LEFT, const bool RIGHT, const net_plane_t *plane, const float *x,
                            float *y)
{
    const intptr_t x_row = 4 * plane->x_row, y_row = 4 * plane->y_row;
    float weight[9], a[4], b[4], c[4];
    NET_UNROLLED
    for (int32_t k = 0; k < 9; ++k)
        weight[k] = plane->w[k];
    if (plane->above) {
        net_strip_w_row(P, LEFT, RIGHT, x, weight, NULL, NULL, a, y);
    } else {
        NET_UNROLLED
        for (int32_t p = 0; p < P; ++p)
            a[p] = y[p];
    }
    net_move(x, x_row);
    if (plane->rows > 1) {
        net_move(y, y_row);
        net_strip_w_row(P, LEFT, RIGHT, x, weight, NULL, a, b, y);
        net_move(x, x_row);
        const float *const end = net_moved(x, (plane->rows - 2) * x_row);
        NET_ROLLED
        while (x != end) {
            net_move(y, y_row);
            net_strip_w_row(P, LEFT, RIGHT, x, weight, a, b, c, y);
            net_move(x, x_row);
            NET_UNROLLED
            for (int32_t p = 0; p < P; ++p) {
                a[p] = b[p];
                b[p] = c[p];
            }
        }
        net_strip_w_row(P, LEFT, RIGHT, x, weight, a, b, NULL, y);
        NET_UNROLLED
        for (int32_t p = 0; p < P; ++p)
            a[p] = b[p];
    } else {
        net_strip_w_row(P, LEFT, RIGHT, x, weight, NULL, a, NULL, y);
    }
    net_move(x, x_row);
    if (plane->below)
        net_strip_w_row(P, LEFT, RIGHT, x, weight, a, NULL, NULL, y);
    NET_UNROLLED
    for (int32_t k = 0; k < 9; ++k)
        plane->w[k] = weight[k];
}

typedef void (*net_strip_t)(const net_plane_t *plane, const float *x, float *y);

#define NET_STRIP(name, KERNEL, P, LEFT, RIGHT)                                                                         \
    NET_HOT void name(const net_plane_t *plane, const float *x, float *y) { KERNEL(P, LEFT, RIGHT, plane, x, y); }

#define NET_STRIPS(name, KERNEL)                                                                                        \
    NET_STRIP(name##_left, KERNEL, 4, true, false)                                                                      \
    NET_STRIP(name##_4, KERNEL, 4, false, false)                                                                        \
    NET_STRIP(name##_3, KERNEL, 3, false, false)                                                                        \
    NET_STRIP(name##_2, KERNEL, 2, false, false)                                                                        \
    NET_STRIP(name##_1, KERNEL, 1, false, false)                                                                        \
    NET_STRIP(name##_right_4, KERNEL, 4, false, true)                                                                   \
    NET_STRIP(name##_right_3, KERNEL, 3, false, true)                                                                   \
    NET_STRIP(name##_right_2, KERNEL, 2, false, true)                                                                   \
    NET_STRIP(name##_right_1, KERNEL, 1, false, true)                                                                   \
    static const net_strip_t name##_of[9] = {name##_1,       name##_2,       name##_3,       name##_4,   name##_right_1, \
                                             name##_right_2, name##_right_3, name##_right_4, name##_left};

NET_STRIPS(net_strip, net_strip)
NET_STRIPS(net_strip_w, net_strip_w)

/* Whether the strips may read an image that lacks so many rows or columns on its sides. */
NET_KERNEL bool net_strips_direct(int32_t above, int32_t below, int32_t left, int32_t right, int32_t columns)
{
    return above <= 1 && below <= 1 && left <= 1 && right <= 1 && (left <= 0 || columns > 4);
}

/* The function of those that NET_STRIPS defines for the strip that begins at a column. */
NET_KERNEL net_strip_t net_strip_at(const net_strip_t of[9], int32_t column, int32_t columns, bool left, bool right)
{
    if (column == 0 && left)
        return of[8];
    return columns - column > 4 ? of[3] : of[columns - column - 1 + (right ? 4 : 0)];
}

/* Whole planes whose x has its border. */
NET_HOT void net_strips(const net_plane_t *plane)
{
    NET_ROLLED
    for (int32_t column = 0; column < plane->columns; column += 4)
        net_strip_at(net_strip_of, column, plane->columns, false, false)(plane, plane->x + column, plane->y + column);
}

NET_HOT void net_strips_w(const net_plane_t *plane)
{
    NET_ROLLED
    for (int32_t column = 0; column < plane->columns; column += 4)
        net_strip_at(net_strip_w_of, column, plane->columns, false, false)(plane, plane->x + column, plane->y + column);
}

#endif
