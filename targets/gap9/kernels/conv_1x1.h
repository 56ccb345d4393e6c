/* 1x1 convolution: 4 x 4 outer products in registers; forward and dX of any stride, and dW. */
#ifndef NET_CONV_1X1_H
#define NET_CONV_1X1_H

#include "conv_1x1_loops.h"
#include "conv_4x4.h"
#include "conv_grad_w.h"

/* Adds all input channels to the sums of OUT channels x PX pixels. */
NET_KERNEL void net_conv_1x1_planes(const int32_t X_STEP, const bool REVERSED, const int32_t OUT, const int32_t PX,
                                    const net_conv_t *conv, float sum[4][4], const float *plane, const float *weights,
                                    const float *const volatile stop)
{
    const int32_t U = 4, HALF = PX > 1 ? PX / 2 - 1 : 0, LAST = U * OUT - 1; /* U input channels at a time */
    const intptr_t w_in = 4 * (REVERSED ? conv->w_in : 1), w_out = 4 * (REVERSED ? 1 : conv->w_out);
    const intptr_t x_plane = 4 * conv->x_plane;
    float pixel[4];
    NET_ROLLED
    for (int32_t i = conv->in % U; i > 0; --i) { /* those that are not U */
        const float *weight = weights;
        NET_UNROLLED
        for (int32_t o = 0; o < OUT; ++o) {
            NET_UNROLLED
            for (int32_t p = 0; p < PX; ++p)
                net_multiply_add(sum[o][p], plane[p * X_STEP], *weight);
            net_move(weight, w_out);
        }
        net_move(weights, w_in);
        net_move(plane, x_plane);
    }
    if (conv->in >= U) {
        float weight = *weights;
        NET_UNROLLED
        for (int32_t p = 0; p < PX; ++p)
            pixel[p] = plane[p * X_STEP];
        net_move(plane, x_plane);
        NET_ROLLED
        while (true) {
            NET_UNROLLED
            for (int32_t n = 0; n < LAST; ++n) { /* all weights but the last */
                const int32_t i = n / OUT, to_i = (n + 1) / OUT;
                const int32_t o = REVERSED ? n % OUT : net_conv_channel(OUT, n);
                const int32_t to = REVERSED ? (n + 1) % OUT : net_conv_channel(OUT, n + 1);
                float ahead = 0.0f;
                NET_UNROLLED
                for (int32_t p = 0; p < PX; ++p) {
                    net_multiply_add(sum[o][p], pixel[p], weight);
                    if (p == 0 && !REVERSED && to > o)
                        net_move(weights, w_out);
                    if (p == 0 && !REVERSED && to < o)
                        net_move_back(weights, w_out);
                    if (p == 0 && REVERSED && to_i != i)
                        net_move(weights, w_in);
                    if (to_i != i)
                        pixel[p] = plane[p * X_STEP];
                    if (p == HALF)
                        ahead = weights[REVERSED ? to : to_i];
                    if (p == PX - 1 && (OUT > 1 ? i > 0 && n % OUT == 0 : to_i != i))
                        net_move(plane, x_plane);
                }
                weight = ahead;
            }
            const float *const last = stop;
            if (REVERSED)
                net_move(weights, w_in);
            else
                weights += U;
            if (net_rarely(weights == last))
                break;
            const int32_t o = REVERSED ? OUT - 1 : net_conv_channel(OUT, LAST);
            float ahead = 0.0f;
            NET_UNROLLED
            for (int32_t p = 0; p < PX; ++p) {
                net_multiply_add(sum[o][p], pixel[p], weight);
                pixel[p] = plane[p * X_STEP];
                if (p == HALF)
                    ahead = *weights;
            }
            net_move(plane, x_plane);
            weight = ahead;
        }
        const int32_t o = REVERSED ? OUT - 1 : net_conv_channel(OUT, LAST);
        NET_UNROLLED
        for (int32_t p = 0; p < PX; ++p)
            net_multiply_add(sum[o][p], pixel[p], weight);
    }
}

/* `blocks` blocks of OUT channels x PX pixels. Takes a net_conv_t with taps of one element. REVERSED is for dX: x is dY,
 * w_out = 1. X_STEP and Y_STEP are the strides of x and y: forward has Y_STEP = 1, dX has X_STEP = 1.
 */
NET_KERNEL void net_conv_1x1_blocks(const int32_t X_STEP, const int32_t Y_STEP, const bool REVERSED, const int32_t OUT,
                                    const int32_t PX, const net_conv_t *conv, const float *x, const float *w,
                                    const float *bias, float *y, int32_t blocks)
{
    const intptr_t w_in = 4 * (REVERSED ? conv->w_in : 1), w_out = 4 * (REVERSED ? 1 : conv->w_out);
    const intptr_t x_plane = 4 * conv->x_plane, y_plane = 4 * conv->y_plane;
    float start[4];
    NET_UNROLLED
    for (int32_t o = 0; o < OUT; ++o)
        start[o] = !REVERSED && bias ? bias[o] : 0.0f;
    const float *const stop = net_moved(w, conv->in * w_in);
    NET_ROLLED
    for (; blocks > 0; --blocks) {
        float sum[4][4], *at = y;
        if (conv->accumulate) {
            NET_UNROLLED
            for (int32_t o = 0; o < OUT; ++o) {
                NET_UNROLLED
                for (int32_t p = 0; p < PX; ++p)
                    sum[o][p] = at[p * Y_STEP];
                net_move(at, y_plane);
            }
        } else {
            NET_UNROLLED
            for (int32_t o = 0; o < OUT; ++o)
                sum[o][0] = sum[o][1] = sum[o][2] = sum[o][3] = start[o];
        }
        if (NET_CONV_1X1_LOOPS && OUT == 4)
            net_conv_1x1_loop(X_STEP, REVERSED, PX, sum, x, x_plane, w, REVERSED ? w_in : w_out, conv->in);
        else
            net_conv_1x1_planes(X_STEP, REVERSED, OUT, PX, conv, sum, x, w, stop);
        at = y;
        NET_UNROLLED
        for (int32_t o = 0; o < OUT; ++o) {
            NET_UNROLLED
            for (int32_t p = 0; p < PX; ++p)
                at[p * Y_STEP] = sum[o][p];
            net_move(at, y_plane);
        }
        x += PX * X_STEP;
        y += PX * Y_STEP;
    }
}

#define NET_CONV_1X1_BLOCKS(name, X_STEP, Y_STEP, REVERSED, OUT, PX)                                                    \
    NET_HOT void name##_##OUT##x##PX(const net_conv_t *conv, const float *x, const float *w, const float *bias, float *y, \
                                     int32_t blocks)                                                                    \
    {                                                                                                                   \
        net_conv_1x1_blocks(X_STEP, Y_STEP, REVERSED, OUT, PX, conv, x, w, bias, y, blocks);                            \
    }

/* Defines name(conv): forward and, REVERSED, dX. `rows` and `columns` count the pixels of the side with step
 * 1; the strides of the other are between rows and columns that count, e.g. x_row = 2 rows of x.
 */
#define NET_CONV_1X1(name, X_STEP, Y_STEP, REVERSED)                                                                    \
    NET_CONV_1X1_BLOCKS(name, X_STEP, Y_STEP, REVERSED, 4, 4)                                                           \
    NET_CONV_1X1_BLOCKS(name, X_STEP, Y_STEP, REVERSED, 4, 3)                                                           \
    NET_CONV_1X1_BLOCKS(name, X_STEP, Y_STEP, REVERSED, 4, 2)                                                           \
    NET_CONV_1X1_BLOCKS(name, X_STEP, Y_STEP, REVERSED, 4, 1)                                                           \
    NET_CONV_1X1_BLOCKS(name, X_STEP, Y_STEP, REVERSED, 1, 4)                                                           \
    NET_CONV_1X1_BLOCKS(name, X_STEP, Y_STEP, REVERSED, 1, 3)                                                           \
    NET_CONV_1X1_BLOCKS(name, X_STEP, Y_STEP, REVERSED, 1, 2)                                                           \
    NET_CONV_1X1_BLOCKS(name, X_STEP, Y_STEP, REVERSED, 1, 1)                                                           \
    NET_HOT void name(const net_conv_t *conv)                                                                           \
    {                                                                                                                   \
        static const net_conv_blocks_t by_4[4] = {name##_4x1, name##_4x2, name##_4x3, name##_4x4};                      \
        static const net_conv_blocks_t by_1[4] = {name##_1x1, name##_1x2, name##_1x3, name##_1x4};                      \
        net_conv_all(1, 1, X_STEP, Y_STEP, conv, by_4, by_1);                                                           \
    }

/* Adds a row to the sums of 4 output x 4 input channels. Both pointers walk to and fro. */
NET_KERNEL void net_conv_1x1_w_row(const int32_t S, int32_t columns, float sum[4][4], const float **x, intptr_t x_plane,
                                   const float **dy, intptr_t y_plane)
{
    const float *pixels = *x, *gradients = *dy;
    const int32_t left = columns % 4;
    const float *const volatile end = gradients + columns / 4 * 4;
    NET_ROLLED
    while (gradients != end) {
        float pixel[4], gradient = *gradients;
        NET_UNROLLED
        for (int32_t i = 0; i < 4; ++i) {
            pixel[i] = *pixels;
            if (i < 3)
                net_move(pixels, x_plane);
        }
        NET_UNROLLED
        for (int32_t n = 0; n < 16; ++n) { /* pixel by pixel, output channels up, then down; input channels likewise */
            const int32_t p = n / 4, o = net_conv_channel(4, n), to = net_conv_channel(4, n + 1);
            float ahead = 0.0f;
            NET_UNROLLED
            for (int32_t m = 0; m < 4; ++m) {
                /* the oldest load first, but the last time in the order in which they are replaced */
                const int32_t i = (n % 4 == 3) == (p % 2 == 1) ? m : 3 - m;
                net_multiply_add(sum[o][i], pixel[i], gradient);
                if (m == 0 && to > o)
                    net_move(gradients, y_plane);
                if (m == 0 && to < o)
                    net_move_back(gradients, y_plane);
                if (m == 1 && n < 15)
                    ahead = gradients[(n + 1) / 4];
                if (n % 4 == 3 && p < 3) {
                    pixel[i] = pixels[(p + 1) * S];
                    if (m < 3 && p % 2)
                        net_move(pixels, x_plane);
                    else if (m < 3)
                        net_move_back(pixels, x_plane);
                }
            }
            gradient = ahead;
        }
        gradients += 4;
        net_pin(gradients);
        pixels += 4 * S; /* after four pixels both are at channel 0 again */
        net_pin(pixels);
    }
    NET_ROLLED
    for (int32_t j = left; j > 0; --j) {
        const float *pixel = pixels, *gradient = gradients;
        float column[4];
        NET_UNROLLED
        for (int32_t i = 0; i < 4; ++i) {
            column[i] = *pixel;
            net_move(pixel, x_plane);
        }
        NET_UNROLLED
        for (int32_t n = 0; n < 16; ++n) {
            net_multiply_add(sum[n / 4][n % 4], column[n % 4], *gradient);
            if (n % 4 == 3)
                net_move(gradient, y_plane);
        }
        pixels += S;
        gradients += 1;
    }
    *x = pixels;
    *dy = gradients;
}

/* dW of a 1x1 convolution of the rows of x and dy: `count` blocks of 4 output x 4 input channels, side by side. */
NET_KERNEL void net_conv_1x1_w_block(const int32_t S, const net_conv_w_t *conv, const float *x, const float *dy, float *dw,
                                     int32_t rows, int32_t count)
{
    const intptr_t x_plane = 4 * conv->x_plane, y_plane = 4 * conv->y_plane, w_out = 4 * conv->w_out;
    const intptr_t x_gap = 4 * S * (conv->x_row - conv->columns), y_gap = 4 * (conv->y_row - conv->columns);
    NET_ROLLED
    for (; count > 0; --count, x = net_moved(x, 4 * x_plane), dw += 4) {
        float sum[4][4], *at = dw;
        NET_UNROLLED
        for (int32_t n = 0; n < 16; ++n)
            sum[n / 4][n % 4] = 0.0f;
        if (conv->accumulate) {
            NET_UNROLLED
            for (int32_t n = 0; n < 16; ++n) {
                sum[n / 4][n % 4] = at[n % 4];
                if (n % 4 == 3)
                    net_move(at, w_out);
            }
        }
        if (NET_CONV_1X1_LOOPS)
            net_conv_1x1_w_loop(S, sum, x, x_plane, x_gap, dy, y_plane, y_gap, rows, conv->columns);
        const float *pixels = x, *gradients = dy;
        NET_ROLLED
        for (int32_t row = NET_CONV_1X1_LOOPS ? 0 : rows; row > 0; --row) {
            net_conv_1x1_w_row(S, conv->columns, sum, &pixels, x_plane, &gradients, y_plane);
            net_move(pixels, x_gap);
            net_move(gradients, y_gap);
        }
        at = dw;
        NET_UNROLLED
        for (int32_t n = 0; n < 16; ++n) {
            at[n % 4] = sum[n / 4][n % 4];
            if (n % 4 == 3)
                net_move(at, w_out);
        }
    }
}

typedef void (*net_conv_1x1_w_t)(const net_conv_w_t *conv, const float *x, const float *dy, float *dw, int32_t rows,
                                 int32_t count);

/* Blocks of 4 x 4 channels: lines of all input channels, one for each part and four output channels. */
NET_KERNEL net_cut_t net_conv_1x1_w_cut(const net_conv_w_t *conv)
{
    return net_cut(conv->parts * (conv->out / 4), conv->in / 4, 16 * conv->images * conv->rows * conv->columns);
}

/* One piece of a line, of all images: see net_conv_w_task. */
NET_KERNEL void net_conv_1x1_w_task(const int32_t S, net_conv_w_t *conv, net_cut_t cut, int32_t task, net_conv_1x1_w_t block)
{
    const int32_t line = task / cut.parts, first = (task - line * cut.parts) * cut.part, left = conv->in / 4 - first;
    const int32_t o = line / conv->parts * 4, part = line - o / 4 * conv->parts, i = 4 * first;
    const int32_t row = net_share(conv->rows, part, conv->parts), to = net_share(conv->rows, part + 1, conv->parts);
    const float *x = conv->x + i * conv->x_plane + row * S * conv->x_row;
    const float *dy = conv->dy + o * conv->y_plane + row * conv->y_row;
    float *const dw = conv->dw + part * conv->part + o * conv->w_out + i;
    const bool accumulate = conv->accumulate;
    NET_ROLLED
    for (int32_t n = conv->images; n > 0; --n, x += conv->x_image, dy += conv->y_image, conv->accumulate = true)
        block(conv, x, dy, dw, to - row, left < cut.part ? left : cut.part);
    conv->accumulate = accumulate;
}

/* What blocks of 4 x 4 channels leave of dW: columns on the right, or what is below of the others. */
NET_KERNEL net_conv_w_t net_conv_1x1_w_rest(const net_conv_w_t *conv, bool below)
{
    net_conv_w_t rest = *conv;
    const int32_t in = conv->in / 4 * 4, out = conv->out / 4 * 4;
    if (below) {
        rest.dy += out * conv->y_plane;
        rest.dw += out * conv->w_out;
        rest.out -= out;
        rest.in = in;
    } else {
        rest.x += in * conv->x_plane;
        rest.dw += in;
        rest.in -= in;
    }
    return rest;
}

/* Defines name(conv). For S = 1 a contiguous image is best taken as one row, or as one row per part. Channels beyond
 * multiples of four are done with NET_CONV_GRAD_W's functions, which come last in the list of tasks.
 */
#define NET_CONV_1X1_GRAD_W(name, S)                                                                                    \
    NET_CONV_GRAD_W(name##_rest, 1, S, 4)                                                                               \
    NET_HOT void name##_4x4(const net_conv_w_t *conv, const float *x, const float *dy, float *dw, int32_t rows,         \
                            int32_t count)                                                                              \
    {                                                                                                                   \
        net_conv_1x1_w_block(S, conv, x, dy, dw, rows, count);                                                          \
    }                                                                                                                   \
    NET_HOT void name##_rest_of(const net_conv_w_t *conv, int32_t task, bool below)                                     \
    {                                                                                                                   \
        net_conv_w_t rest = net_conv_1x1_w_rest(conv, below);                                                           \
        name##_rest_task(&rest, (net_cut_t){rest.in, 1}, task);                                                         \
    }                                                                                                                   \
    NET_HOT void name##_any(net_conv_w_t *conv, net_cut_t cut, int32_t task, int32_t blocks, int32_t right)             \
    {                                                                                                                   \
        if (task < blocks)                                                                                              \
            net_conv_1x1_w_task(S, conv, cut, task, name##_4x4);                                                        \
        else                                                                                                            \
            name##_rest_of(conv, task - (task < right ? blocks : right), task >= right);                                \
    }                                                                                                                   \
    NET_HOT void name##_group(const net_conv_w_t *conv, net_cut_t cut, int32_t task, int32_t each, int32_t blocks,      \
                              int32_t right)                                                                            \
    {                                                                                                                   \
        net_conv_w_t own = *conv;                                                                                       \
        const int32_t at = net_conv_w_group(&own, task, each);                                                          \
        name##_any(&own, cut, at, blocks, right);                                                                       \
    }                                                                                                                   \
    NET_HOT void name(net_conv_w_t *conv)                                                                               \
    {                                                                                                                   \
        const net_cut_t cut = net_conv_1x1_w_cut(conv);                                                                 \
        const int32_t in = conv->in / 4, out = conv->out / 4, blocks = in ? conv->parts * out * cut.parts : 0;           \
        const int32_t right = blocks + conv->parts * (conv->in % 4) * (out + conv->out % 4);                            \
        const int32_t each = right + conv->parts * 4 * in * (conv->out % 4), tasks = conv->groups * each;               \
        NET_ROLLED                                                                                                      \
        for (int32_t task = net_claim(conv->claimed); task < tasks; task = net_claim(conv->claimed)) {                  \
            if (conv->groups > 1)                                                                                       \
                name##_group(conv, cut, task, each, blocks, right);                                                     \
            else                                                                                                        \
                name##_any(conv, cut, task, blocks, right);                                                             \
        }                                                                                                               \
    }

#endif
