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

typedef void (*net_strip_t)(const net_plane_t *plane, const float *x, float *y);

#define NET_STRIP(name, P, LEFT, RIGHT)                                                                                 \
    NET_HOT void name(const net_plane_t *plane, const float *x, float *y)                                               \
    {                                                                                                                   \
        net_strip(P, LEFT, RIGHT, plane, x, y);                                                                         \
    }
NET_STRIP(net_strip_left, 4, true, false)
NET_STRIP(net_strip_4, 4, false, false)
NET_STRIP(net_strip_3, 3, false, false)
NET_STRIP(net_strip_2, 2, false, false)
NET_STRIP(net_strip_1, 1, false, false)
NET_STRIP(net_strip_right_4, 4, false, true)
NET_STRIP(net_strip_right_3, 3, false, true)
NET_STRIP(net_strip_right_2, 2, false, true)
NET_STRIP(net_strip_right_1, 1, false, true)

/* Whether the strips may read an image that lacks so many rows or columns on its sides. */
NET_KERNEL bool net_strips_direct(int32_t above, int32_t below, int32_t left, int32_t right, int32_t columns)
{
    return above <= 1 && below <= 1 && left <= 1 && right <= 1 && (left <= 0 || columns > 4);
}

/* The function for the strip that begins at a column. */
NET_HOT net_strip_t net_strip_at(int32_t column, int32_t columns, bool left, bool right)
{
    static const net_strip_t inside[4] = {net_strip_1, net_strip_2, net_strip_3, net_strip_4};
    static const net_strip_t at_right[4] = {net_strip_right_1, net_strip_right_2, net_strip_right_3, net_strip_right_4};
    if (column == 0 && left)
        return net_strip_left;
    return columns - column > 4 ? net_strip_4 : (right ? at_right : inside)[columns - column - 1];
}

/* A whole plane whose x has its border. */
NET_HOT void net_strips(const net_plane_t *plane)
{
    NET_ROLLED
    for (int32_t column = 0; column < plane->columns; column += 4)
        net_strip_at(column, plane->columns, false, false)(plane, plane->x + column, plane->y + column);
}

#endif
