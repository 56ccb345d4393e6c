/* Convolution, 4 output channels x 4 pixels in registers: forward of any stride, and dX of stride 1. */
#ifndef NET_CONV_4X4_H
#define NET_CONV_4X4_H

#include "conv_3x3_loops.h"
#include "kernel.h"

/* y[o][r][c] = bias[o] + sum over i, ky, kx of x[i][r * S + ky][c * S + kx] * w[o * w_out + i * w_in + ky * K + kx]
 *
 * x is the padded tile. For dX of stride 1, x is the padded dY, y is dX, w_out = K * K, w_in = K * K * input channels
 * of the layer, and REVERSED takes w's taps from the last to the first.
 */
typedef struct {
    const float *x, *w;
    const float *bias; /* NULL: none */
    float *y;
    int32_t in, out, rows, columns; /* channels of x, channels of y, and its rows and columns */
    int32_t x_row, x_plane, y_row, y_plane, w_in, w_out;
    int32_t images, x_image, y_image; /* of a batch, and the strides between them */
    int32_t groups, x_group, w_group, y_group; /* of channels, `in` to `out` each, and the strides between them */
    int32_t *claimed; /* tasks of this call that are taken, 0 before it; in L1 */
    bool accumulate; /* start from y instead of from bias */
} net_conv_t;

/* Column of the n-th tap of a row: first those of phase 0 of the stride, then those of phase 1, ..., so that the pixels of
 * one tap are those of the tap before, moved by one.
 */
NET_KERNEL int32_t net_conv_column(const int32_t K, const int32_t S, int32_t n)
{
    for (int32_t phase = 0, first = 0; phase < S; ++phase) {
        const int32_t taps = (K - phase + S - 1) / S;
        if (n < first + taps)
            return phase + (n - first) * S;
        first += taps;
    }
    return 0;
}

/* Channel of the n-th weight of a row of taps. One pointer walks to and fro between the channels: four would not fit. */
NET_KERNEL int32_t net_conv_channel(const int32_t OUT, int32_t n) { return n / OUT % 2 ? OUT - 1 - n % OUT : n % OUT; }

/* The sums of a block at first, and where they go in the end. */
NET_KERNEL void net_conv_start(const int32_t OUT, const int32_t PX, const net_conv_t *conv, const float *bias,
                               const float *y, float sum[4][4])
{
    if (conv->accumulate) {
        NET_UNROLLED
        for (int32_t o = 0; o < OUT; ++o) {
            NET_UNROLLED
            for (int32_t p = 0; p < PX; ++p)
                sum[o][p] = y[p];
            y += conv->y_plane;
            net_pin(y);
        }
    } else {
        NET_UNROLLED
        for (int32_t o = 0; o < OUT; ++o)
            sum[o][0] = sum[o][1] = sum[o][2] = sum[o][3] = bias ? bias[o] : 0.0f;
    }
}

NET_KERNEL void net_conv_finish(const int32_t OUT, const int32_t PX, const net_conv_t *conv, float *y, float sum[4][4])
{
    NET_UNROLLED
    for (int32_t o = 0; o < OUT; ++o) {
        NET_UNROLLED
        for (int32_t p = 0; p < PX; ++p)
            y[p] = sum[o][p];
        y += conv->y_plane;
        net_pin(y);
    }
}

/* `blocks` blocks of OUT channels x PX pixels, side by side. Hot is one row of K taps of one input channel: all that it
 * multiplies is loaded a multiplication or two ahead, its first operands by the row before. Rows of taps are the outer
 * loop, input channels the inner one.
 */
NET_KERNEL void net_conv_blocks(const int32_t K, const int32_t S, const bool REVERSED, const int32_t OUT, const int32_t PX,
                                const net_conv_t *conv, const float *x, const float *w, const float *bias, float *y,
                                int32_t blocks)
{
    const int32_t HALF = PX > 1 ? PX / 2 - 1 : 0, LAST = K * OUT - 1, LAST_OUT = net_conv_channel(OUT, LAST);
    const intptr_t w_out = 4 * (REVERSED ? K * K : conv->w_out), w_in = 4 * (REVERSED ? conv->w_in : K * K);
    /* What is needed once in a row of taps has no register; it is loaded early, where that is written. */
    const volatile intptr_t x_plane = 4 * conv->x_plane, w_next = REVERSED ? w_in : w_in - LAST_OUT * w_out;
    w += REVERSED ? K * K - 1 : 0;
    NET_ROLLED
    for (; blocks > 0; --blocks) {
        float sum[4][4], pixel[4], weight = *w;
        const float *weights = w, *plane = x, *row = x, *volatile end = net_moved(w, conv->in * w_in);
        net_conv_start(OUT, PX, conv, bias, y, sum);
        NET_UNROLLED
        for (int32_t p = 0; p < PX; ++p)
            pixel[p] = x[p * S];
        int32_t ky = K;
        NET_ROLLED
        while (true) {
            intptr_t to_plane = 0, to_weights = LAST ? 0 : w_next;
            const float *stop = LAST ? NULL : end;
            NET_UNROLLED
            for (int32_t n = 0; n < LAST; ++n) { /* all weights of the row but the last */
                const int32_t tap = n / OUT, o = net_conv_channel(OUT, n), to = net_conv_channel(OUT, n + 1);
                const int32_t kx = net_conv_column(K, S, tap), next = net_conv_column(K, S, (n + 1) / OUT);
                const bool last_of_tap = n % OUT == OUT - 1, slides = K > 1 && net_conv_column(K, S, tap + 1) == kx + S;
                float ahead = 0.0f, fresh = 0.0f;
                NET_UNROLLED
                for (int32_t p = 0; p < PX; ++p) {
                    net_multiply_add(sum[o][p], pixel[p], weight);
                    if (tap == K - 1 && n % OUT == 0 && p == (PX > 1 ? PX - 2 : 0))
                        to_plane = x_plane;
                    if (n == LAST - 1 && p == (PX > 1 ? PX - 2 : 0))
                        to_weights = w_next;
                    if (p == 0 && !REVERSED && to > o)
                        net_move(weights, w_out);
                    if (p == 0 && !REVERSED && to < o)
                        net_move_back(weights, w_out);
                    if (last_of_tap && !slides)
                        pixel[p] = plane[next + p * S];
                    else if (last_of_tap && p == 0)
                        fresh = plane[next + (PX - 1) * S];
                    if (p == HALF)
                        ahead = weights[REVERSED ? to * K * K - next : next];
                    if (tap == K - 1 && n % OUT == 0 && p == PX - 1) /* its last pixel is loaded */
                        net_move(plane, to_plane);
                    if (n == LAST - 1 && p == PX - 1)
                        net_move(weights, to_weights);
                }
                if (last_of_tap && slides) {
                    NET_UNROLLED
                    for (int32_t p = 0; p < PX - 1; ++p)
                        pixel[p] = pixel[p + 1];
                    pixel[PX - 1] = fresh;
                }
                weight = ahead;
            }
            if (OUT == 1) {
                to_plane = x_plane;
                net_move(plane, to_plane);
            }
            if (LAST == 0)
                net_move(weights, to_weights);
            stop = end;
            if (net_rarely(weights == stop)) {
                if (--ky == 0)
                    break;
                plane = row = row + conv->x_row;
                end = weights = stop + (REVERSED ? -K : K);
                weights = net_moved(weights, -conv->in * w_in);
            }
            float ahead = 0.0f;
            NET_UNROLLED
            for (int32_t p = 0; p < PX; ++p) {
                net_multiply_add(sum[LAST_OUT][p], pixel[p], weight);
                pixel[p] = plane[p * S];
                if (p == HALF)
                    ahead = weights[0];
            }
            weight = ahead;
        }
        NET_UNROLLED
        for (int32_t p = 0; p < PX; ++p)
            net_multiply_add(sum[LAST_OUT][p], pixel[p], weight);
        net_conv_finish(OUT, PX, conv, y, sum);
        x += PX * S;
        y += PX;
    }
}

/* The same for stride 1 and K up to 3, where all pixels of a row of taps have a register: channels are the outer loop of a
 * row, so that the pointer to weights moves once per channel. The last channel's multiplications load the pixels of the
 * next input channel; where a row of taps ends they are done apart.
 */
NET_KERNEL void net_conv_wide_blocks(const int32_t K, const bool REVERSED, const int32_t OUT, const int32_t PX,
                                     const net_conv_t *conv, const float *x, const float *w, const float *bias, float *y,
                                     int32_t blocks)
{
    const int32_t TAP = REVERSED ? -1 : 1, AHEAD = K * (OUT - 1), HALF = PX > 1 ? PX / 2 - 1 : 0;
    const intptr_t w_out = 4 * (REVERSED ? K * K : conv->w_out), w_in = 4 * (REVERSED ? conv->w_in : K * K);
    /* What is needed once in a row of taps has no register; it is loaded early, where that is written. */
    const volatile intptr_t x_plane = 4 * conv->x_plane, w_next = REVERSED ? w_in : w_in - (OUT - 1) * w_out;
    const volatile intptr_t x_row = 4 * conv->x_row, planes = 4 * conv->in * conv->x_plane;
    w += REVERSED ? K * K - 1 : 0;
    NET_ROLLED
    for (; blocks > 0; --blocks) {
        float sum[4][4], pixel[8], weight = *w;
        const float *weights = w, *plane = x, *volatile row = x, *volatile w_row = w, *volatile end = net_moved(x, planes);
        net_conv_start(OUT, PX, conv, bias, y, sum);
        NET_UNROLLED
        for (int32_t p = 0; p < PX; ++p)
            pixel[p] = x[p];
        int32_t ky = K;
        NET_ROLLED
        while (true) {
            intptr_t step = 0;
            const float *stop = NULL;
            if (OUT == 1) {
                NET_UNROLLED
                for (int32_t j = PX; j < PX + K - 1; ++j)
                    pixel[j] = plane[j];
                step = x_plane;
                net_move(plane, step);
            }
            NET_UNROLLED
            for (int32_t n = 0; n <= AHEAD; ++n) { /* up to the first tap of the last channel */
                const int32_t o = n / K, kx = n % K, to = (n + 1) / K, next = (n + 1) % K;
                float ahead = 0.0f;
                NET_UNROLLED
                for (int32_t p = 0; p < PX; ++p) {
                    net_multiply_add(sum[o][p], pixel[kx + p], weight);
                    if (!REVERSED && p == 0 && to > o)
                        net_move(weights, w_out);
                    if (OUT > 1 && p == 0 && n == K)
                        step = x_plane;
                    if (OUT > 1 && p == HALF && n == K)
                        net_move(plane, step);
                    if (p == (n == K && PX > 1 ? PX - 2 : HALF))
                        ahead = weights[(REVERSED ? to * K * K : 0) + next * TAP];
                    if (OUT > 1 && p == PX - 1 && n < K - 1)
                        pixel[PX + n] = plane[PX + n];
                    if (p == (PX > 1 ? PX - 2 : 0) && n == AHEAD)
                        stop = end;
                }
                weight = ahead;
            }
            if (net_rarely(plane == stop)) {
                NET_UNROLLED
                for (int32_t kx = 1; kx < K; ++kx) {
                    float ahead = 0.0f;
                    NET_UNROLLED
                    for (int32_t p = 0; p < PX; ++p) {
                        net_multiply_add(sum[OUT - 1][p], pixel[kx + p], weight);
                        if (p == HALF && kx < K - 1)
                            ahead = weights[(REVERSED ? (OUT - 1) * K * K : 0) + (kx + 1) * TAP];
                    }
                    weight = ahead;
                }
                if (--ky == 0)
                    break;
                w_row = weights = w_row + K * TAP;
                weight = *weights;
                row = plane = net_moved(row, x_row);
                NET_UNROLLED
                for (int32_t p = 0; p < PX; ++p)
                    pixel[p] = plane[p];
                end = net_moved(plane, planes);
                continue;
            }
            NET_UNROLLED
            for (int32_t kx = 1; kx < K; ++kx) {
                const bool LAST = kx == K - 1;
                float ahead = 0.0f;
                NET_UNROLLED
                for (int32_t p = 0; p < PX; ++p) {
                    net_multiply_add(sum[OUT - 1][p], pixel[kx + p], weight);
                    if (K == 2 && p == 0)
                        step = w_next;
                    if (LAST && p == 0)
                        net_move(weights, step);
                    if (p == HALF)
                        ahead = weights[LAST ? 0 : (REVERSED ? (OUT - 1) * K * K : 0) + (kx + 1) * TAP];
                    if (kx == 1 && p == 0)
                        pixel[0] = plane[0];
                    if (kx == K - 2 && p == (PX > 2 ? PX - 2 : 0))
                        step = w_next;
                    if (!LAST && p == PX - 1 && kx < PX)
                        pixel[kx] = plane[kx];
                    if (LAST && p >= kx)
                        pixel[p] = plane[p];
                }
                weight = ahead;
            }
        }
        net_conv_finish(OUT, PX, conv, y, sum);
        x += PX;
        y += PX;
    }
}

/* The same for 3x3 taps, 4 channels and 4 pixels, in hardware loops. */
NET_KERNEL void net_conv_3x3_blocks(const int32_t S, const bool REVERSED, const net_conv_t *conv, const float *x,
                                    const float *w, const float *bias, float *y, int32_t blocks)
{
    const float none[4] = {0.0f};
    const net_conv_3x3_t all = {.bias = bias ? bias : none,
                                .y = y,
                                .y_plane = 4 * conv->y_plane,
                                .blocks = blocks,
                                .accumulate = conv->accumulate};
    net_conv_3x3_loop(S, REVERSED, all, x, 4 * conv->x_row, 4 * conv->x_plane, REVERSED ? w + 8 : w,
                      REVERSED ? 36 : 4 * conv->w_out, REVERSED ? 4 * conv->w_in : 36, conv->in);
}

typedef void (*net_conv_blocks_t)(const net_conv_t *conv, const float *x, const float *w, const float *bias, float *y,
                                  int32_t blocks);

/* What a task is: blocks of one row of one image, and where its first is. */
typedef struct {
    int32_t image, group, channel, row, block, blocks;
} net_conv_task_t;

/* Task `task` of all: groups and their channels, `each` of them, are the outer loops, then images, then rows. */
NET_KERNEL net_conv_task_t net_conv_task(int32_t task, net_cut_t cut, int32_t rows, int32_t images, int32_t groups,
                                         int32_t each)
{
    net_conv_task_t at = {.blocks = cut.part};
    if (cut.parts > 1) {
        const int32_t line = task / cut.parts;
        at.block = (task - line * cut.parts) * cut.part;
        task = line;
    }
    at.channel = task / rows;
    at.row = task - at.channel * rows;
    if (images > 1) {
        const int32_t image = at.channel;
        at.channel = image / images;
        at.image = image - at.channel * images;
    }
    if (groups > 1) {
        at.group = at.channel / each;
        at.channel -= at.group * each;
    }
    return at;
}

/* The whole tile: output channels by four, then those that are left. Workers take parts of rows. `by_4` and `by_1` have the
 * functions for 1, 2, 3 and 4 pixels.
 */
NET_KERNEL void net_conv_all(const int32_t K, const int32_t ROW_STEP, const int32_t X_STEP, const int32_t Y_STEP,
                             const net_conv_t *conv, const net_conv_blocks_t by_4[4], const net_conv_blocks_t by_1[4])
{
    const int32_t whole = conv->columns / 4, left = conv->columns % 4, fours = conv->out / 4;
    const int32_t each = fours + conv->out % 4, lines = conv->groups * each * conv->images * conv->rows;
    const net_cut_t cut = net_cut(lines, whole + (left > 0), 16 * K * K * conv->in);
    const int32_t tasks = lines * cut.parts;
    NET_ROLLED
    for (int32_t task = net_claim(conv->claimed); task < tasks; task = net_claim(conv->claimed)) {
        const net_conv_task_t at = net_conv_task(task, cut, conv->rows, conv->images, conv->groups, each);
        const net_conv_blocks_t *const blocks = at.channel < fours ? by_4 : by_1;
        const int32_t o = at.channel < fours ? 4 * at.channel : 3 * fours + at.channel;
        const float *x = conv->x + at.image * conv->x_image + at.group * conv->x_group + at.row * ROW_STEP * conv->x_row +
                         at.block * 4 * X_STEP;
        const float *w = conv->w + at.group * conv->w_group + o * conv->w_out;
        const float *bias = conv->bias ? conv->bias + at.group * conv->out + o : NULL;
        float *y = conv->y + at.image * conv->y_image + at.group * conv->y_group + o * conv->y_plane + at.row * conv->y_row +
                   at.block * 4 * Y_STEP;
        const int32_t there = whole - at.block, now = there < at.blocks ? there : at.blocks;
        if (now > 0)
            blocks[3](conv, x, w, bias, y, now);
        if (left && now < at.blocks)
            blocks[left - 1](conv, x + 4 * X_STEP * now, w, bias, y + 4 * Y_STEP * now, 1);
    }
}

#define NET_CONV_BLOCKS(name, K, S, REVERSED, OUT, PX)                                                                  \
    NET_HOT void name##_##OUT##x##PX(const net_conv_t *conv, const float *x, const float *w, const float *bias, float *y, \
                                     int32_t blocks)                                                                    \
    {                                                                                                                   \
        if (NET_CONV_3X3_LOOPS && K == 3 && S <= 2 && OUT == 4 && PX == 4)                                              \
            net_conv_3x3_blocks(S, REVERSED, conv, x, w, bias, y, blocks);                                              \
        else if (K <= 3 && S == 1)                                                                                      \
            net_conv_wide_blocks(K, REVERSED, OUT, PX, conv, x, w, bias, y, blocks);                                    \
        else                                                                                                            \
            net_conv_blocks(K, S, REVERSED, OUT, PX, conv, x, w, bias, y, blocks);                                      \
    }

/* Defines name(conv): the whole tile. */
#define NET_CONV_4X4(name, K, S, REVERSED)                                                                              \
    NET_CONV_BLOCKS(name, K, S, REVERSED, 4, 4)                                                                         \
    NET_CONV_BLOCKS(name, K, S, REVERSED, 4, 3)                                                                         \
    NET_CONV_BLOCKS(name, K, S, REVERSED, 4, 2)                                                                         \
    NET_CONV_BLOCKS(name, K, S, REVERSED, 4, 1)                                                                         \
    NET_CONV_BLOCKS(name, K, S, REVERSED, 1, 4)                                                                         \
    NET_CONV_BLOCKS(name, K, S, REVERSED, 1, 3)                                                                         \
    NET_CONV_BLOCKS(name, K, S, REVERSED, 1, 2)                                                                         \
    NET_CONV_BLOCKS(name, K, S, REVERSED, 1, 1)                                                                         \
    NET_HOT void name(const net_conv_t *conv)                                                                           \
    {                                                                                                                   \
        static const net_conv_blocks_t by_4[4] = {name##_4x1, name##_4x2, name##_4x3, name##_4x4};                      \
        static const net_conv_blocks_t by_1[4] = {name##_1x1, name##_1x2, name##_1x3, name##_1x4};                      \
        net_conv_all(K, S, S, 1, conv, by_4, by_1);                                                                     \
    }

#endif
