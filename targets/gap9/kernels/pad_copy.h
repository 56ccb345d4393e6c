/* Copies a tile into a scratch with a zero border, where kernels read without testing bounds. */
#ifndef NET_PAD_COPY_H
#define NET_PAD_COPY_H

#include "kernel.h"
#include "xpulp.h"

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
NET_KERNEL float *net_pad_zeros(float *to, int32_t count)
{
    net_zero_pairs(&to, count >> 1);
    if (count & 1)
        *to++ = 0.0f;
    return to;
}

NET_KERNEL float *net_pad_floats(float *to, const float *from, int32_t count)
{
    net_copy_pairs(&to, &from, count >> 1);
    if (count & 1)
        *to++ = *from;
    return to;
}

NET_KERNEL void net_pad_copy(int32_t core, int32_t cores, const net_pad_t *pad)
{
    const int32_t tasks = pad->channels * pad->padded_rows;
    const int32_t begin = net_share(tasks, core, cores), end = net_share(tasks, core + 1, cores);
    const int32_t right = pad->padded_row - pad->left - pad->columns;
    const float *plane = pad->source + begin / pad->padded_rows * pad->source_plane;
    int32_t row = begin % pad->padded_rows - pad->top;
    float *to = pad->padded + begin * pad->padded_row;
    NET_ROLLED
    for (int32_t task = begin; task < end; ++task) {
        if (row >= 0 && row < pad->rows) {
            to = net_pad_zeros(to, pad->left);
            to = net_pad_floats(to, plane + row * pad->source_row, pad->columns);
            to = net_pad_zeros(to, right);
        } else {
            to = net_pad_zeros(to, pad->padded_row);
        }
        if (++row == pad->padded_rows - pad->top) {
            row = -pad->top;
            plane += pad->source_plane;
        }
    }
}

#endif
