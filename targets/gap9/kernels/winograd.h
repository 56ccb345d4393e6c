/* Convolution with 3x3 taps and stride 1 by minimal filtering: forward, dX and dW in 16 multiplications for 2x2 results where
 * the direct form has 36.
 *
 * y = At [(G w Gt) . (Bt x B)] A, for patches x of 4x4 pixels that overlap by two, with
 *     Bt = 1  0 -1  0    G =  1   0   0     At = 1  1  1  0
 *          0  1  1  0        1/2 1/2 1/2         0  1 -1  1
 *          0 -1  1  0        1/2 -1/2 1/2
 *          0 -1  0  1         0   0   1
 * dW is the adjoint: Gt [sum over patches of (A dy At) . (Bt x B)] G. So there are three steps: both operands are transformed;
 * 16 matrix products, one for each place in a patch; and their results are transformed back, by the worker that has them.
 *
 * Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016; signs are turned so that At has a 1 last.
 */
#ifndef NET_WINOGRAD_H
#define NET_WINOGRAD_H

#include "winograd_loops.h"

/* y[o] = bias[o] + sum over i of image[i] * w[o][i]; of dX image is dY, w is taken from its last tap to the first, and `in`
 * counts dY's channels. Of dW y is dY, which is read, and w the result.
 */
typedef struct {
    const float *image;
    float *w;
    const float *bias; /* NULL: none */
    float *y;
    int32_t batch, in, out, rows, columns; /* channels of image and of y; rows and columns of y */
    int32_t image_rows, image_columns, image_row, image_plane, image_item; /* item: of the batch */
    int32_t y_row, y_plane, y_item, w_in, w_out;
    int32_t top, left; /* where the image begins, seen from the first row and column that the taps of y's first want */
    float *scratch;    /* see net_winograd_u and the others */
    int32_t *claimed;  /* tasks of this call that are taken, 0 before it; in L1 */
    bool accumulate;   /* start from what is there */
    bool image_done, other_done; /* patches of the image, and what they meet, are in the scratch already */
} net_winograd_t;

/* How many patches there are: `lines` in the batch, `across` in each, in groups of four. */
typedef struct {
    int32_t rows, lines, across, groups;
} net_patches_t;

NET_KERNEL net_patches_t net_patches(const net_winograd_t *conv)
{
    const int32_t rows = (conv->rows + 1) >> 1, across = (conv->columns + 1) >> 1;
    return (net_patches_t){rows, conv->batch * rows, across, (across + 3) >> 2};
}

NET_KERNEL int32_t net_quads(int32_t channels) { return (channels + 3) >> 2; }

/* The scratch: what multiplies the patches, by four of y's channels; the patches, by four; and a block for each worker. For
 * dW lanes are channels, and patches are summed over.
 */
NET_KERNEL float *net_winograd_patches_at(const bool W_SUMS, const net_winograd_t *conv, const net_patches_t *patches)
{
    const int32_t summed = W_SUMS ? patches->lines * patches->across : conv->in;
    return conv->scratch + NET_WINOGRAD_STEP * net_quads(conv->out) * summed;
}

NET_KERNEL float *net_winograd_block_at(const bool W_SUMS, const net_winograd_t *conv, const net_patches_t *patches,
                                        int32_t core)
{
    const int32_t steps = W_SUMS ? net_quads(conv->in) * patches->lines * patches->across
                                 : patches->lines * patches->groups * conv->in;
    return net_winograd_patches_at(W_SUMS, conv, patches) + NET_WINOGRAD_STEP * steps + NET_WINOGRAD_BLOCK * core;
}

/* Where a line of patches goes: `next` floats from one to the next, `jump` more behind the fourth. */
typedef struct {
    float *at;
    int32_t next, jump;
} net_patch_places_t;

/* A column of Bt x, whose pixels are at a place of four rows, and a row of (Bt x) B. */
NET_KERNEL void net_patch_column(float t[4], const float *const row[4], int32_t place)
{
    const float p0 = row[0][place], p1 = row[1][place], p2 = row[2][place], p3 = row[3][place];
    t[0] = p0 - p2;
    t[1] = p1 + p2;
    t[2] = p2 - p1;
    t[3] = p3 - p1;
}

NET_KERNEL void net_patch_store(float *to, const float a[4], const float b[4], const float c[4], const float d[4])
{
    NET_UNROLLED
    for (int32_t i = 0; i < 4; ++i, to += 16) {
        to[0] = a[i] - c[i];
        to[4] = b[i] + c[i];
        to[8] = c[i] - b[i];
        to[12] = d[i] - b[i];
    }
}

NET_KERNEL void net_patch_column_if(float t[4], const float *const row[4], int32_t place, int32_t columns)
{
    if (place >= 0 && place < columns)
        net_patch_column(t, row, place);
    else
        t[0] = t[1] = t[2] = t[3] = 0.0f;
}

/* A line of patches of one channel, the first of which begins `left` columns before the rows do. */
NET_HOT void net_patch_line(const float *const row[4], int32_t left, int32_t columns, int32_t patches,
                            net_patch_places_t places)
{
    float a[4], b[4], c[4], d[4], *to = places.at;
    const float *at[4] = {row[0] + 2 - left, row[1] + 2 - left, row[2] + 2 - left, row[3] + 2 - left};
    const int32_t inside = (columns + left - 2) >> 1; /* patches whose last columns are there */
    net_patch_column_if(a, row, -left, columns);
    net_patch_column_if(b, row, 1 - left, columns);
    int32_t lane = 4;
    NET_ROLLED
    for (int32_t n = inside < patches ? inside : patches; n > 0; --n) {
        net_patch_column(c, at, 0);
        net_patch_column(d, at, 1);
        net_patch_store(to, a, b, c, d);
        to += places.next;
        if (--lane == 0) {
            to += places.jump;
            lane = 4;
        }
        NET_UNROLLED
        for (int32_t i = 0; i < 4; ++i) {
            a[i] = c[i];
            b[i] = d[i];
            at[i] += 2;
        }
    }
    NET_ROLLED
    for (int32_t n = inside > 0 ? inside : 0; n < patches; ++n) {
        net_patch_column_if(c, row, 2 * n + 2 - left, columns);
        net_patch_column_if(d, row, 2 * n + 3 - left, columns);
        net_patch_store(to, a, b, c, d);
        to += places.next;
        if (--lane == 0) {
            to += places.jump;
            lane = 4;
        }
        NET_UNROLLED
        for (int32_t i = 0; i < 4; ++i) {
            a[i] = c[i];
            b[i] = d[i];
        }
    }
}

/* Bt x B for a line of patches, of up to four channels from `channel` on; `none` is a line of zeros. */
NET_KERNEL void net_patch_channels(const bool W_SUMS, const net_winograd_t *conv, const net_patches_t *patches, float *to,
                                   int32_t line, int32_t channel, const float *none)
{
    const int32_t item = conv->batch > 1 ? line / patches->rows : 0, y = line - item * patches->rows;
    const int32_t end = channel + 4 < conv->in ? channel + 4 : conv->in, total = patches->lines * patches->across;
    const float *row[4];
    int32_t plane[4];
    NET_ROLLED
    for (int32_t i = 0; i < 4; ++i) {
        const int32_t at = 2 * y + i - conv->top;
        const bool there = at >= 0 && at < conv->image_rows;
        row[i] = there ? conv->image + item * conv->image_item + channel * conv->image_plane + at * conv->image_row : none;
        plane[i] = there ? conv->image_plane : 0;
    }
    NET_ROLLED
    for (int32_t c = channel; c < end; ++c) {
        net_patch_places_t places;
        if (W_SUMS)
            places = (net_patch_places_t){to + ((c >> 2) * total + line * patches->across) * NET_WINOGRAD_STEP + (c & 3),
                                          NET_WINOGRAD_STEP, 0};
        else
            places = (net_patch_places_t){to + (line * patches->groups * conv->in + c) * NET_WINOGRAD_STEP, 1,
                                          conv->in * NET_WINOGRAD_STEP - 4};
        net_patch_line(row, conv->left, conv->image_columns, patches->across, places);
        NET_UNROLLED
        for (int32_t i = 0; i < 4; ++i)
            row[i] += plane[i];
    }
}

/* A column of G w, and a row of (G w) Gt. */
NET_KERNEL void net_taps_turn(float t[4], float g0, float g1, float g2)
{
    const float half = 0.5f * (g0 + g2);
    t[0] = g0;
    t[1] = half + 0.5f * g1;
    t[2] = half - 0.5f * g1;
    t[3] = g2;
}

/* G w Gt of four pairs of channels from (o, i) on, as far as there are. */
NET_KERNEL void net_taps_channels(const bool REVERSED, const net_winograd_t *conv, int32_t o, int32_t first)
{
    const int32_t end = first + 4 < conv->in ? first + 4 : conv->in, out = o + 4 < conv->out ? o + 4 : conv->out;
    NET_ROLLED
    for (int32_t i = first; i < end; ++i) {
        float *to = conv->scratch + ((o >> 2) * conv->in + i) * NET_WINOGRAD_STEP;
        NET_ROLLED
        for (int32_t lane = o; lane < out; ++lane, ++to) {
            const float *const w = conv->w + lane * conv->w_out + i * conv->w_in;
            float turned[3][4], row[4];
            NET_UNROLLED
            for (int32_t k = 0; k < 3; ++k)
                net_taps_turn(turned[k], w[REVERSED ? 8 - k : k], w[REVERSED ? 5 - k : 3 + k], w[REVERSED ? 2 - k : 6 + k]);
            NET_UNROLLED
            for (int32_t k = 0; k < 4; ++k) {
                net_taps_turn(row, turned[0][k], turned[1][k], turned[2][k]);
                NET_UNROLLED
                for (int32_t j = 0; j < 4; ++j)
                    to[16 * k + 4 * j] = row[j];
            }
        }
    }
}

/* A dy At for a line of patches, of up to four channels from `channel` on. */
NET_KERNEL void net_gradient_channels(const net_winograd_t *conv, const net_patches_t *patches, int32_t line, int32_t channel)
{
    const int32_t item = conv->batch > 1 ? line / patches->rows : 0, row = 2 * (line - item * patches->rows);
    const int32_t end = channel + 4 < conv->out ? channel + 4 : conv->out, below = row + 1 < conv->rows ? conv->y_row : 0;
    const int32_t total = patches->lines * patches->across;
    NET_ROLLED
    for (int32_t c = channel; c < end; ++c) {
        const float *from = conv->y + item * conv->y_item + c * conv->y_plane + row * conv->y_row;
        float *to = conv->scratch + ((c >> 2) * total + line * patches->across) * NET_WINOGRAD_STEP + (c & 3);
        NET_ROLLED
        for (int32_t left = conv->columns; left > 0; left -= 2, from += 2, to += NET_WINOGRAD_STEP) {
            const float p = from[0], q = left > 1 ? from[1] : 0.0f;
            const float r = below ? from[below] : 0.0f, s = below && left > 1 ? from[below + 1] : 0.0f;
            const float first[4] = {p, p + r, p - r, r}, second[4] = {q, q + s, q - s, s};
            NET_UNROLLED
            for (int32_t i = 0; i < 4; ++i) {
                to[16 * i] = first[i];
                to[16 * i + 4] = first[i] + second[i];
                to[16 * i + 8] = first[i] - second[i];
                to[16 * i + 12] = second[i];
            }
        }
    }
}

/* The first step. */
NET_KERNEL void net_winograd_transform(const bool W_SUMS, const bool REVERSED, int32_t core, const net_winograd_t *conv)
{
    const net_patches_t patches = net_patches(conv);
    const int32_t quads = net_quads(conv->in), out_quads = net_quads(conv->out);
    const int32_t of_image = conv->image_done ? 0 : patches.lines * quads;
    const int32_t others = conv->other_done ? 0 : out_quads * (W_SUMS ? patches.lines : quads), tasks = of_image + others;
    float *const to = net_winograd_patches_at(W_SUMS, conv, &patches);
    float *const none = net_winograd_block_at(W_SUMS, conv, &patches, core), *zeros = none;
    net_zero_pairs(&zeros, (conv->image_columns + 1) >> 1);
    NET_ROLLED
    for (int32_t task = net_claim(conv->claimed); task < tasks; task = net_claim(conv->claimed)) {
        const int32_t other = task - of_image, across = W_SUMS && other >= 0 ? out_quads : quads;
        const int32_t line = (other < 0 ? task : other) / across, quad = 4 * ((other < 0 ? task : other) - line * across);
        if (other < 0)
            net_patch_channels(W_SUMS, conv, &patches, to, line, quad, none);
        else if (W_SUMS)
            net_gradient_channels(conv, &patches, line, quad);
        else
            net_taps_channels(REVERSED, conv, 4 * line, quad);
    }
}

/* The last results of a line or a column: one or two wide, one or two high. */
NET_HOT void net_patch_rest(float *y, int32_t y_row, const float *m, int32_t wide, bool high, float start, bool accumulate)
{
    const int32_t end = high ? 4 : 2;
    float result[4];
    net_patch_result(result, m, start);
    for (int32_t i = 0; i < end; ++i) {
        float *const to = y + (i >> 1) * y_row + (i & 1);
        if ((i & 1) == 0 || wide > 1)
            *to = accumulate ? result[i] + *to : result[i];
    }
}

/* Forward and dX, the second step: a task is four channels of four patches side by side. */
NET_HOT void net_winograd_y(int32_t core, const net_winograd_t *conv)
{
    const net_patches_t patches = net_patches(conv);
    const int32_t groups = patches.lines * patches.groups, tasks = net_quads(conv->out) * groups;
    const float *const v = net_winograd_patches_at(false, conv, &patches);
    float *const block = net_winograd_block_at(false, conv, &patches, core);
    NET_ROLLED
    for (int32_t task = net_claim(conv->claimed); task < tasks; task = net_claim(conv->claimed)) {
        const int32_t quad = task / groups, group = task - quad * groups, line = group / patches.groups;
        const int32_t item = conv->batch > 1 ? line / patches.rows : 0, row = 2 * (line - item * patches.rows);
        const int32_t column = 8 * (group - line * patches.groups), left = conv->columns - column;
        const int32_t channels = conv->out - 4 * quad < 4 ? conv->out - 4 * quad : 4, wide = left < 8 ? left : 8;
        net_winograd_product(conv->scratch + quad * conv->in * NET_WINOGRAD_STEP, v + group * conv->in * NET_WINOGRAD_STEP,
                             conv->in, block);
        float *y = conv->y + item * conv->y_item + 4 * quad * conv->y_plane + row * conv->y_row + column;
        const float *m = block, *bias = conv->bias ? conv->bias + 4 * quad : NULL;
        const bool high = row + 1 < conv->rows;
        const int32_t whole = high ? wide >> 1 : 0;
        NET_ROLLED
        for (int32_t o = 0; o < channels; ++o, y += conv->y_plane, m += 4) {
            const float start = bias && !conv->accumulate ? bias[o] : 0.0f;
            if (whole > 0 && conv->accumulate)
                net_patch_results(y, y + conv->y_row, m, whole, start, true);
            else if (whole > 0)
                net_patch_results(y, y + conv->y_row, m, whole, start, false);
            NET_ROLLED
            for (int32_t x = 2 * whole; x < wide; x += 2)
                net_patch_rest(y + x, conv->y_row, m + (x >> 1), wide - x, high, start, conv->accumulate);
        }
    }
}

/* A column of Gt m, and a row of (Gt m) G. */
NET_KERNEL void net_taps_back(float t[3], float m0, float m1, float m2, float m3)
{
    const float half = 0.5f * (m1 + m2);
    t[0] = m0 + half;
    t[1] = 0.5f * (m1 - m2);
    t[2] = half + m3;
}

/* dW, the second step: a task is four channels of dY and four of X. */
NET_HOT void net_winograd_dw(int32_t core, const net_winograd_t *conv)
{
    const net_patches_t patches = net_patches(conv);
    const int32_t total = patches.lines * patches.across, quads = net_quads(conv->in);
    const int32_t tasks = net_quads(conv->out) * quads;
    const float *const v = net_winograd_patches_at(true, conv, &patches);
    float *const block = net_winograd_block_at(true, conv, &patches, core);
    NET_ROLLED
    for (int32_t task = net_claim(conv->claimed); task < tasks; task = net_claim(conv->claimed)) {
        const int32_t o = task / quads, i = task - o * quads;
        net_winograd_product(conv->scratch + o * total * NET_WINOGRAD_STEP, v + i * total * NET_WINOGRAD_STEP, total, block);
        const int32_t outs = conv->out - 4 * o < 4 ? conv->out - 4 * o : 4, ins = conv->in - 4 * i < 4 ? conv->in - 4 * i : 4;
        float *row = conv->w + 4 * (o * conv->w_out + i * conv->w_in);
        NET_ROLLED
        for (int32_t p = 0; p < outs; ++p, row += conv->w_out) {
            float *w = row;
            NET_ROLLED
            for (int32_t q = 0; q < ins; ++q, w += conv->w_in) {
                const float *const m = block + 4 * p + q;
                float turned[4][3], taps[3];
                NET_UNROLLED
                for (int32_t k = 0; k < 4; ++k)
                    net_taps_back(turned[k], m[16 * k], m[16 * k + 64], m[16 * k + 128], m[16 * k + 192]);
                NET_UNROLLED
                for (int32_t k = 0; k < 3; ++k) {
                    net_taps_back(taps, turned[0][k], turned[1][k], turned[2][k], turned[3][k]);
                    NET_UNROLLED
                    for (int32_t j = 0; j < 3; ++j)
                        w[3 * k + j] = taps[j] + (conv->accumulate ? w[3 * k + j] : 0.0f);
                }
            }
        }
    }
}

/* The first step of each. */
NET_HOT void net_winograd_forward_transform(int32_t core, const net_winograd_t *conv)
{
    net_winograd_transform(false, false, core, conv);
}

NET_HOT void net_winograd_dx_transform(int32_t core, const net_winograd_t *conv)
{
    net_winograd_transform(false, true, core, conv);
}

NET_HOT void net_winograd_dw_transform(int32_t core, const net_winograd_t *conv)
{
    net_winograd_transform(true, false, core, conv);
}

#endif
