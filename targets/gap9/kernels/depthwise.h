/* Depthwise convolution, one input and one output channel per group: forward, dX and dW of square kernels, stride 1 or 2. */
#ifndef NET_DEPTHWISE_H
#define NET_DEPTHWISE_H

#include "conv_4x4.h"
#include "conv_grad_w.h"
#include "conv_grad_x_2.h"
#include "depthwise_3x3.h"

/* Planes of larger kernels: a row of y at a time, as one channel of the blocked kernels. */
NET_KERNEL net_conv_t net_plane_conv(const int32_t K, const net_plane_t *plane)
{
    return (net_conv_t){.in = 1, .out = 1, .x_row = plane->x_row, .y_row = plane->y_row, .w_in = K * K, .w_out = K * K};
}

NET_KERNEL void net_plane_rows(const int32_t S, const net_conv_t *conv, const net_plane_t *plane,
                               const net_conv_blocks_t blocks[4])
{
    const int32_t whole = plane->columns / 4, left = plane->columns % 4;
    const float *x = plane->x;
    float *y = plane->y;
    NET_ROLLED
    for (int32_t rows = plane->rows; rows > 0; --rows, x += S * plane->x_row, y += plane->y_row) {
        if (whole)
            blocks[3](conv, x, plane->w, &plane->start, y, whole);
        if (left)
            blocks[left - 1](conv, x + 4 * S * whole, plane->w, &plane->start, y + 4 * whole, 1);
    }
}

NET_KERNEL void net_plane_rows_2(const net_conv_t *conv, const net_plane_t *plane, const net_grad_x_2_blocks_t blocks[4])
{
    const int32_t pairs = (plane->columns + 1) / 2, whole = pairs / 4, left = pairs % 4;
    const float *x = plane->x;
    float *y = plane->y;
    NET_ROLLED
    for (int32_t rows = plane->rows; rows > 0; rows -= 2, x += plane->x_row, y += 2 * plane->y_row) {
        if (whole)
            blocks[3](conv, x, plane->w, y, rows > 1, plane->columns, whole);
        if (left)
            blocks[left - 1](conv, x + 4 * whole, plane->w, y + 8 * whole, rows > 1, plane->columns - 8 * whole, 1);
    }
}

#define NET_PLANE(name, K, S, REVERSED)                                                                                 \
    NET_CONV_BLOCKS(name, K, S, REVERSED, 1, 4)                                                                         \
    NET_CONV_BLOCKS(name, K, S, REVERSED, 1, 3)                                                                         \
    NET_CONV_BLOCKS(name, K, S, REVERSED, 1, 2)                                                                         \
    NET_CONV_BLOCKS(name, K, S, REVERSED, 1, 1)                                                                         \
    NET_HOT void name(net_plane_t *plane)                                                                               \
    {                                                                                                                   \
        static const net_conv_blocks_t blocks[4] = {name##_1x1, name##_1x2, name##_1x3, name##_1x4};                    \
        const net_conv_t conv = net_plane_conv(K, plane);                                                               \
        net_plane_rows(S, &conv, plane, blocks);                                                                        \
    }

#define NET_PLANE_X_2(name, K, PHASE_Y, PHASE_X)                                                                        \
    NET_GRAD_X_2_BLOCKS(name, K, PHASE_Y, PHASE_X, 4)                                                                   \
    NET_GRAD_X_2_BLOCKS(name, K, PHASE_Y, PHASE_X, 3)                                                                   \
    NET_GRAD_X_2_BLOCKS(name, K, PHASE_Y, PHASE_X, 2)                                                                   \
    NET_GRAD_X_2_BLOCKS(name, K, PHASE_Y, PHASE_X, 1)                                                                   \
    NET_HOT void name(net_plane_t *plane)                                                                               \
    {                                                                                                                   \
        static const net_grad_x_2_blocks_t blocks[4] = {name##_1, name##_2, name##_3, name##_4};                        \
        const net_conv_t conv = net_plane_conv(K, plane);                                                               \
        net_plane_rows_2(&conv, plane, blocks);                                                                         \
    }

#define NET_PLANE_W(name, K, S)                                                                                         \
    NET_HOT void name(net_plane_t *plane)                                                                               \
    {                                                                                                                   \
        const net_conv_w_t conv = {.columns = plane->columns, .x_row = plane->x_row, .y_row = plane->y_row,             \
                                   .accumulate = true};                                                                 \
        net_conv_w_taps(K, S, 1, &conv, plane->x, plane->y, plane->w, plane->rows, 0, K);                               \
    }

/* Defines name(core, cores, conv), for which name_plane computes a plane. */
#define NET_DEPTHWISE_OF(name, K, S, GRAD_X, W_SUMS, PHASE_Y)                                                           \
    NET_HOT void name(int32_t core, int32_t cores, const net_depthwise_t *conv)                                         \
    {                                                                                                                   \
        net_depthwise(core, cores, K, S, GRAD_X, W_SUMS, PHASE_Y, conv, name##_plane);                                  \
    }

/* Define name(core, cores, conv): forward, dW, and dX of stride 1 and 2 with PHASE_Y and PHASE_X as in NET_CONV_GRAD_X_2.
 * K is 2 or 3; those with _LARGE are for K from 4 on.
 */
#define NET_DEPTHWISE(name, K, S)                                                                                       \
    NET_PLANE_3(name##_plane, K, S, false, false)                                                                       \
    NET_DEPTHWISE_OF(name, K, S, false, false, 0)
#define NET_DEPTHWISE_GRAD_W(name, K, S)                                                                                \
    NET_PLANE_3(name##_plane, K, S, false, true)                                                                        \
    NET_DEPTHWISE_OF(name, K, S, false, true, 0)
#define NET_DEPTHWISE_GRAD_X(name, K)                                                                                   \
    NET_PLANE_3(name##_plane, K, 1, true, false)                                                                        \
    NET_DEPTHWISE_OF(name, K, 1, true, false, 0)
#define NET_DEPTHWISE_GRAD_X_2(name, K, PHASE_Y, PHASE_X)                                                               \
    NET_PLANE_X_2_3(name##_plane, K, PHASE_Y, PHASE_X)                                                                  \
    NET_DEPTHWISE_OF(name, K, 2, true, false, PHASE_Y)

#define NET_DEPTHWISE_LARGE(name, K, S)                                                                                 \
    NET_PLANE(name##_plane, K, S, false)                                                                                \
    NET_DEPTHWISE_OF(name, K, S, false, false, 0)
#define NET_DEPTHWISE_LARGE_GRAD_W(name, K, S)                                                                          \
    NET_PLANE_W(name##_plane, K, S)                                                                                     \
    NET_DEPTHWISE_OF(name, K, S, false, true, 0)
#define NET_DEPTHWISE_LARGE_GRAD_X(name, K)                                                                             \
    NET_PLANE(name##_plane, K, 1, true)                                                                                 \
    NET_DEPTHWISE_OF(name, K, 1, true, false, 0)
#define NET_DEPTHWISE_LARGE_GRAD_X_2(name, K, PHASE_Y, PHASE_X)                                                         \
    NET_PLANE_X_2(name##_plane, K, PHASE_Y, PHASE_X)                                                                    \
    NET_DEPTHWISE_OF(name, K, 2, true, false, PHASE_Y)

#endif
