/* dX of a convolution of stride 2: 2 rows x 8 columns of dX in registers, each with the taps of its phase. */
#ifndef NET_CONV_GRAD_X_2_H
#define NET_CONV_GRAD_X_2_H

#include "conv_4x4.h"
#include "conv_grad_x_2_loops.h"

/* Takes a net_conv_t: x is the padded dY and `in` its channels, y is dX and `out`, `rows`, `columns` are dX's, w_out = K * K,
 * w_in = K * K * out channels of the whole w. No bias. PHASE_Y = (first row of the dX tile + upper padding of the layer) %
 * 2, PHASE_X likewise. Row a of the padded dY is row (first row + upper padding - PHASE_Y) / 2 - net_phase_rows + a of dY,
 * zero where there is none, and it has (rows + 1) / 2 + PHASE_Y + net_phase_rows rows; columns likewise.
 */
NET_KERNEL int32_t net_phase_rows(const int32_t K, const int32_t PHASE) { return (K + 1 - PHASE) / 2 - 1; }

/* A tap's phase, and its row in the window of dY, from the rows' start. */
NET_KERNEL int32_t net_phase_of(const int32_t PHASE, int32_t k) { return (k + PHASE) % 2; }

NET_KERNEL int32_t net_phase_at(const int32_t K, const int32_t PHASE, int32_t k)
{
    return (PHASE + net_phase_of(PHASE, k) - k) / 2 + net_phase_rows(K, PHASE);
}

/* `blocks` blocks side by side of 2 x 2 * PX elements of dX of one channel; of the last, `columns` are there. Taps go from
 * the last to the first: so the rows and columns of dY that they need ascend.
 */
NET_KERNEL void net_grad_x_2_blocks(const int32_t K, const int32_t PHASE_Y, const int32_t PHASE_X, const int32_t PX,
                                    const net_conv_t *conv, const float *x, const float *w, float *y, bool second_row,
                                    int32_t columns, int32_t blocks)
{
    const int32_t LAST = K * K - 1, FIRST_COLUMN = net_phase_at(K, PHASE_X, 0); /* of the last tap in order, kx = 0 */
    const int32_t ROWS = net_phase_at(K, PHASE_Y, 0) + 1, WINDOW = PX + FIRST_COLUMN;
    const int32_t LAST_E = net_phase_of(PHASE_Y, 0);
    const int32_t LEAST_X = net_phase_at(K, PHASE_X, K - 1), LEAST_Y = net_phase_at(K, PHASE_Y, K - 1);
    const int32_t LATE = LEAST_X < FIRST_COLUMN; /* the first tap does not need the window's last column: it loads that */
    const volatile intptr_t x_row = 4 * conv->x_row, x_next = 4 * (conv->x_plane - (ROWS - 1 - LEAST_Y) * conv->x_row);
    const volatile intptr_t w_next = 4 * conv->w_in;
    x += LEAST_Y * conv->x_row;
    const float *const volatile stop = w + (conv->in - 1) * conv->w_in;
    NET_ROLLED
    for (; blocks > 0; --blocks, columns -= 2 * PX) {
        float sum[2][8], window[8], weight = w[LAST];
        const float *plane = x, *weights = w;
        float *at = y;
        const bool whole = columns >= 2 * PX;
        NET_UNROLLED
        for (int32_t j = 0; j < 4 * PX; ++j)
            sum[j / (2 * PX)][j % (2 * PX)] = 0.0f;
        if (conv->accumulate) {
            NET_UNROLLED
            for (int32_t e = 0; e < 2; ++e) {
                if (e == 0 || second_row) {
                    NET_UNROLLED
                    for (int32_t c = 0; c < 2 * PX - 1; ++c)
                        sum[e][c] = at[c];
                    if (whole)
                        sum[e][2 * PX - 1] = at[2 * PX - 1];
                }
                at += conv->y_row;
            }
        }
        NET_UNROLLED
        for (int32_t j = LEAST_X; j < WINDOW - LATE; ++j)
            window[j] = plane[j];
        NET_ROLLED
        while (true) {
            intptr_t step = 0, to_weights = 0;
            const float *last = NULL;
            NET_UNROLLED
            for (int32_t n = 0; n < LAST - 1; ++n) { /* all taps but two */
                const int32_t ky = K - 1 - n / K, kx = K - 1 - n % K;
                const int32_t e = net_phase_of(PHASE_Y, ky), f = net_phase_of(PHASE_X, kx);
                const int32_t first = net_phase_at(K, PHASE_X, kx);
                const bool row_ends = ky > 0 && net_phase_at(K, PHASE_Y, ky - 1) != net_phase_at(K, PHASE_Y, ky);
                float ahead = 0.0f;
                NET_UNROLLED
                for (int32_t p = 0; p < PX; ++p) {
                    net_multiply_add(sum[e][2 * p + f], window[first + p], weight);
                    if (n == 0 && p == 0 && LATE)
                        window[WINDOW - 1] = plane[WINDOW - 1];
                    if (row_ends && kx == 1 && p == 0)
                        step = x_row;
                    if (p == (PX > 1 ? PX / 2 - 1 : 0))
                        ahead = weights[LAST - n - 1];
                    if (row_ends && kx == 1 && p == (PX > 1 ? PX - 2 : 0))
                        net_move(plane, step);
                    NET_UNROLLED
                    for (int32_t j = LEAST_X; j < FIRST_COLUMN; ++j) {
                        if (row_ends && kx == 1 && p == PX - 1)
                            window[j] = plane[j];
                    }
                    if (row_ends && kx == 0)
                        window[first + p] = plane[first + p];
                    if (n == LAST - 2 && p == (PX > 1 ? PX - 2 : 0))
                        last = stop;
                }
                weight = ahead;
            }
            if (net_rarely(weights == last))
                break;
            NET_UNROLLED
            for (int32_t n = LAST - 1; n <= LAST; ++n) {
                const int32_t kx = LAST - n, f = net_phase_of(PHASE_X, kx), first = net_phase_at(K, PHASE_X, kx);
                float ahead = 0.0f;
                NET_UNROLLED
                for (int32_t p = 0; p < PX; ++p) {
                    net_multiply_add(sum[LAST_E][2 * p + f], window[first + p], weight);
                    if (kx == 1 && p == 0)
                        step = x_next;
                    if (kx == 0 && p == 0)
                        net_move(weights, to_weights);
                    if (p == (PX > 1 ? PX / 2 - 1 : 0))
                        ahead = weights[kx == 1 ? 0 : LAST];
                    if (kx == 1 && p == (PX > 1 ? PX - 2 : 0))
                        net_move(plane, step);
                    NET_UNROLLED
                    for (int32_t j = LEAST_X; j < FIRST_COLUMN; ++j) {
                        if (kx == 1 && p == PX - 1)
                            window[j] = plane[j];
                    }
                    if (kx == 1 && p == PX - 1)
                        to_weights = w_next;
                    if (kx == 0 && p < PX - LATE)
                        window[first + p] = plane[first + p];
                }
                weight = ahead;
            }
        }
        NET_UNROLLED
        for (int32_t kx = 1; kx >= 0; --kx) {
            NET_UNROLLED
            for (int32_t p = 0; p < PX; ++p)
                net_multiply_add(sum[LAST_E][2 * p + net_phase_of(PHASE_X, kx)], window[net_phase_at(K, PHASE_X, kx) + p], weight);
            weight = *weights;
        }
        at = y;
        NET_UNROLLED
        for (int32_t e = 0; e < 2; ++e) {
            if (e == 0 || second_row) {
                NET_UNROLLED
                for (int32_t c = 0; c < 2 * PX - 1; ++c)
                    at[c] = sum[e][c];
                if (whole)
                    at[2 * PX - 1] = sum[e][2 * PX - 1];
            }
            at += conv->y_row;
        }
        x += PX;
        y += 2 * PX;
    }
}

/* Blocks that are whole, for 3x3 taps, phases 1 and 4 columns of dY, in hardware loops. */
NET_KERNEL void net_grad_x_2_whole(const net_conv_t *conv, const float *x, const float *w, float *y, int32_t blocks)
{
    const net_grad_x_2_loop_t all = {
        .y = y, .y_row = 4 * conv->y_row, .blocks = blocks, .accumulate = conv->accumulate, .in = conv->in};
    net_grad_x_2_loop(all, x, 4 * conv->x_row, 4 * conv->x_plane, w, 4 * conv->w_in);
}

typedef void (*net_grad_x_2_blocks_t)(const net_conv_t *conv, const float *x, const float *w, float *y, bool second_row,
                                      int32_t columns, int32_t blocks);

/* Workers take parts of pairs of rows. `blocks` has the functions for 1, 2, 3 and 4 columns of dY. */
NET_KERNEL void net_grad_x_2(const int32_t K, const net_conv_t *conv, const net_grad_x_2_blocks_t blocks[4])
{
    const int32_t pairs = (conv->rows + 1) / 2, whole = (conv->columns + 1) / 2 / 4, left = (conv->columns + 1) / 2 % 4;
    const int32_t lines = conv->groups * conv->out * conv->images * pairs;
    const net_cut_t cut = net_cut(lines, whole + (left > 0), 4 * K * K * conv->in);
    const int32_t tasks = lines * cut.parts;
    NET_ROLLED
    for (int32_t task = net_claim(conv->claimed); task < tasks; task = net_claim(conv->claimed)) {
        const net_conv_task_t at = net_conv_task(task, cut, pairs, conv->images, conv->groups, conv->out);
        const float *x =
            conv->x + at.image * conv->x_image + at.group * conv->x_group + at.row * conv->x_row + 4 * at.block;
        const float *w = conv->w + at.group * conv->w_group + at.channel * conv->w_out;
        float *y = conv->y + at.image * conv->y_image + at.group * conv->y_group + at.channel * conv->y_plane +
                   2 * at.row * conv->y_row + 8 * at.block;
        const int32_t there = whole - at.block, now = there < at.blocks ? there : at.blocks;
        const int32_t columns = conv->columns - 8 * at.block;
        const bool second_row = 2 * at.row + 1 < conv->rows;
        if (now > 0)
            blocks[3](conv, x, w, y, second_row, columns, now);
        if (left && now < at.blocks)
            blocks[left - 1](conv, x + 4 * now, w, y + 8 * now, second_row, columns - 8 * now, 1);
    }
}

#define NET_GRAD_X_2_BLOCKS(name, K, PHASE_Y, PHASE_X, PX)                                                              \
    NET_HOT void name##_##PX(const net_conv_t *conv, const float *x, const float *w, float *y, bool second_row,         \
                             int32_t columns, int32_t blocks)                                                           \
    {                                                                                                                   \
        const bool loops = NET_CONV_3X3_LOOPS && K == 3 && PHASE_Y == 1 && PHASE_X == 1 && PX == 4;                     \
        const int32_t whole = !loops || !second_row ? 0 : columns >= 8 * blocks ? blocks : blocks - 1;                  \
        if (whole > 0)                                                                                                  \
            net_grad_x_2_whole(conv, x, w, y, whole);                                                                   \
        if (!loops || net_rarely(whole < blocks))                                                                       \
            net_grad_x_2_blocks(K, PHASE_Y, PHASE_X, PX, conv, x + PX * whole, w, y + 2 * PX * whole, second_row,       \
                                columns - 2 * PX * whole, blocks - whole);                                              \
    }

/* Defines name(conv). K is 2 or more. */
#define NET_CONV_GRAD_X_2(name, K, PHASE_Y, PHASE_X)                                                                    \
    NET_GRAD_X_2_BLOCKS(name, K, PHASE_Y, PHASE_X, 4)                                                                   \
    NET_GRAD_X_2_BLOCKS(name, K, PHASE_Y, PHASE_X, 3)                                                                   \
    NET_GRAD_X_2_BLOCKS(name, K, PHASE_Y, PHASE_X, 2)                                                                   \
    NET_GRAD_X_2_BLOCKS(name, K, PHASE_Y, PHASE_X, 1)                                                                   \
    NET_HOT void name(const net_conv_t *conv)                                                                           \
    {                                                                                                                   \
        static const net_grad_x_2_blocks_t blocks[4] = {name##_1, name##_2, name##_3, name##_4};                        \
        net_grad_x_2(K, conv, blocks);                                                                                  \
    }

#endif
