/* Copies a tile into a scratch with a zero border, where kernels read without testing bounds. */
#ifndef NET_PAD_COPY_H
#define NET_PAD_COPY_H

#include "kernel.h"

/* The scratch has, per channel, `padded_rows` rows of `padded_row` floats; the tile lies at (top, left) of each. */
typedef struct {
    const float *source; /* channels x rows x columns */
    float *padded;
    int32_t channels, rows, columns;
    int32_t source_row, source_plane;
    int32_t top, left;
    int32_t padded_rows, padded_row;
} net_pad_t;

/* Borders are one to three floats wide: no unrolling. */
NET_KERNEL float *net_pad_zeros(float *to, intptr_t bytes)
{
    float *const end = net_moved(to, bytes);
    NET_ROLLED
    while (to != end)
        *to++ = 0.0f;
    return to;
}

/* Eight words at a time, all loaded before the first is stored: a load takes a cycle more when its value is used at once. */
NET_KERNEL float *net_pad_floats(float *restrict to, const float *restrict from, intptr_t eights, intptr_t bytes)
{
    float *const last = net_moved(to, eights), *const end = net_moved(to, bytes);
    NET_ROLLED
    while (to != last) {
        const float a = from[0], b = from[1], c = from[2], d = from[3];
        const float e = from[4], f = from[5], g = from[6], h = from[7];
        to[0] = a, to[1] = b, to[2] = c, to[3] = d;
        to[4] = e, to[5] = f, to[6] = g, to[7] = h;
        to += 8;
        from += 8;
    }
    NET_ROLLED
    while (to != end)
        *to++ = *from++;
    return to;
}

NET_KERNEL void net_pad_copy(int32_t core, int32_t cores, const net_pad_t *pad)
{
    const int32_t tasks = pad->channels * pad->padded_rows;
    const int32_t begin = net_share(tasks, core, cores), end = net_share(tasks, core + 1, cores);
    const intptr_t left = 4 * pad->left, columns = 4 * pad->columns, eights = pad->columns / 8 * 32;
    const intptr_t whole = 4 * pad->padded_row, right = whole - left - columns;
    const float *plane = pad->source + begin / pad->padded_rows * pad->source_plane;
    int32_t row = begin % pad->padded_rows - pad->top;
    float *to = pad->padded + begin * pad->padded_row;
    NET_ROLLED
    for (int32_t task = begin; task < end; ++task) {
        if (row >= 0 && row < pad->rows) {
            to = net_pad_zeros(to, left);
            to = net_pad_floats(to, plane + row * pad->source_row, eights, columns);
            to = net_pad_zeros(to, right);
        } else {
            to = net_pad_zeros(to, whole);
        }
        if (++row == pad->padded_rows - pad->top) {
            row = -pad->top;
            plane += pad->source_plane;
        }
    }
}

#endif
