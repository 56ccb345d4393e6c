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

NET_KERNEL float *net_pad_zeros(float *to, int32_t count)
{
    net_zero_pairs(&to, count >> 1);
    if (count & 1)
        *to++ = 0.0f;
    return to;
}

/* Workers share out padded rows. Of each plane they see part of, all rows but the tile's are zero; from the end of one row of
 * the tile to the start of the next it is one run of zeros, and so it is behind the last one.
 */
NET_KERNEL void net_pad_copy(int32_t core, int32_t cores, const net_pad_t *pad)
{
    const int32_t tasks = pad->channels * pad->padded_rows;
    const int32_t begin = net_share(tasks, core, cores), gap = pad->padded_row - pad->columns;
    int32_t left = net_share(tasks, core + 1, cores) - begin;
    const int32_t channel = begin / pad->padded_rows;
    const float *plane = pad->source + channel * pad->source_plane;
    int32_t row = begin - channel * pad->padded_rows;
    float *to = pad->padded + begin * pad->padded_row;
    NET_ROLLED
    while (left > 0) {
        const int32_t stop = row + left < pad->padded_rows ? row + left : pad->padded_rows;
        const int32_t first = row > pad->top ? row : pad->top;
        const int32_t end = pad->top + pad->rows < stop ? pad->top + pad->rows : stop;
        const float *from = plane + (first - pad->top) * pad->source_row;
        int32_t zeros = (stop - row) * pad->padded_row;
        left -= stop - row;
        if (end > first) {
            to = net_pad_zeros(to, (first - row) * pad->padded_row + pad->left);
            zeros = (stop - end) * pad->padded_row + gap - pad->left;
        }
        NET_ROLLED
        for (int32_t more = end - first; more > 0; --more) {
            const float *next = from + pad->source_row;
            net_copy_pairs(&to, &from, pad->columns >> 1);
            if (pad->columns & 1)
                *to++ = *from;
            from = next;
            if (more > 1)
                to = net_pad_zeros(to, gap);
        }
        to = net_pad_zeros(to, zeros);
        row = 0;
        plane += pad->source_plane;
    }
}

#endif
