/* Depthwise convolution of any kernel: what its arguments are, and bands of rows in frames.
 *
 * A task is a band of rows of one channel. Its worker copies what the band needs of the image into a frame of its own, with
 * a border of zeros, and computes: no barrier between the two, and while one core copies, the one that shares its FPU
 * multiplies. Nothing is reduced over channels, so forward and dX only ever set their result.
 */
#ifndef NET_DEPTHWISE_FRAME_H
#define NET_DEPTHWISE_FRAME_H

#include "depthwise_3.h"
#include "xpulp.h"

/* y[c] = bias[c] + image[c] * w[c]; for dX image is dY and y dX. For dW y is dY and w the result. */
typedef struct {
    const float *image;
    float *w;          /* channels x K x K; only dW writes it */
    const float *bias; /* NULL: none */
    float *y;          /* dW only reads it */
    int32_t batch, channels;
    int32_t image_rows, image_columns, image_row, image_plane, image_item; /* item: of the batch */
    int32_t rows, columns, y_row, y_plane, y_item;                         /* of y */
    int32_t top, left; /* where the image begins, seen from the first row and column that the taps of y's first want */
    float *frames;     /* a frame per worker */
    int32_t workers;   /* so many frames are there: workers beyond have nothing to do */
    int32_t frame_row; /* floats in a row of a frame */
    int32_t most_rows; /* of y in a band; even */
    int32_t parts;     /* of dW: sums of one part of the rows each; parts follow each other in w, to be added up later */
    int32_t *claimed;  /* tasks of this call that are taken, 0 before it; in L1 */
    bool accumulate;   /* dW: add to w */
} net_depthwise_t;

typedef void (*net_plane_function_t)(net_plane_t *plane);

/* Rows of a frame for `rows` rows of y. */
NET_KERNEL int32_t net_frame_rows(const int32_t K, const int32_t S, const bool GRAD_X, const int32_t PHASE_Y, int32_t rows)
{
    if (!GRAD_X)
        return (rows - 1) * S + K;
    return S == 1 ? rows + K - 1 : (rows + 1) / 2 + PHASE_Y + net_phase_rows(K, PHASE_Y);
}

NET_KERNEL int32_t net_least(int32_t a, int32_t b) { return a < b ? a : b; }

/* A worker's frame of so many rows, with zeros in it. */
NET_KERNEL float *net_frame_of(const net_depthwise_t *conv, int32_t core, int32_t rows)
{
    const int32_t size = rows * conv->frame_row;
    float *const frame = conv->frames + core * size, *rest = frame;
    net_zero_pairs(&rest, size >> 1);
    if (size & 1)
        *rest = 0.0f;
    return frame;
}

/* Fills a frame with rows [row, row + rows) of a channel, counted from the border's first. Columns of the border are zero
 * already.
 */
NET_HOT void net_frame_fill(const net_depthwise_t *conv, float *frame, const float *channel, int32_t row, int32_t rows)
{
    const int32_t right = conv->frame_row - conv->left;
    const int32_t wanted = net_least(conv->image_columns, right), columns = wanted > 0 ? wanted : 0, odd = columns & 1;
    const float *source = channel + (row - conv->top) * conv->image_row;
    int32_t at = row - conv->top;
    NET_ROLLED
    for (; rows > 0; --rows, ++at, frame += conv->frame_row, source += conv->image_row) {
        float *to = frame + conv->left;
        if (at >= 0 && at < conv->image_rows) {
            const float *from = source;
            net_copy_pairs(&to, &from, columns >> 1);
            if (odd)
                *to = *from;
        } else {
            net_zero_pairs(&to, columns >> 1);
            if (odd)
                *to = 0.0f;
        }
    }
}

/* Parts of the rows of a tile of dW: a channel is a task, and few of them leave workers idle, unless 8 divides
 * their number.
 */
NET_KERNEL int32_t net_depthwise_parts(int32_t channels, int32_t rows)
{
    const int32_t most = rows < 16 ? 1 : net_least(rows / 8, 8);
    int32_t parts = 1;
    while (parts < most && channels * parts < 32 && channels * parts % 8)
        ++parts;
    return parts;
}

/* Adds up the parts' sums, `part` elements each, after a barrier; one part is none. Workers share out elements. */
NET_KERNEL void net_depthwise_add_parts(int32_t core, int32_t cores, float *dw, const float *sums, int32_t parts,
                                        int32_t part, bool accumulate)
{
    const int32_t end = parts > 1 ? net_share(part, core + 1, cores) : 0;
    NET_ROLLED
    for (int32_t j = net_share(part, core, cores); j < end; ++j) {
        float sum = accumulate ? dw[j] : 0.0f;
        NET_ROLLED
        for (int32_t p = 0; p < parts; ++p)
            sum += sums[p * part + j];
        dw[j] = sum;
    }
}

/* Sums of dW of a channel that begin at zero, if they do. */
NET_KERNEL void net_depthwise_start_w(const net_depthwise_t *conv, float *w, int32_t taps)
{
    if (conv->accumulate)
        return;
    NET_ROLLED
    for (int32_t k = 0; k < taps; ++k)
        w[k] = 0.0f;
}

/* Tasks are bands of all channels; of dW, whose sums follow each other, one part of all bands of a channel. */
NET_KERNEL void net_depthwise(int32_t core, int32_t cores, const int32_t K, const int32_t S, const bool GRAD_X,
                              const bool W_SUMS, const int32_t PHASE_Y, const net_depthwise_t *conv,
                              net_plane_function_t function)
{
    const int32_t bands = (conv->rows + conv->most_rows - 1) / conv->most_rows;
    const int32_t band = ((conv->rows + 1) / 2 + bands - 1) / bands * 2;
    const int32_t parts = W_SUMS ? conv->parts : 1, each = W_SUMS ? conv->batch * bands : 1;
    const int32_t tasks = W_SUMS ? conv->channels * parts : conv->batch * conv->channels * bands;
    if (core >= net_least(tasks, net_least(cores, conv->workers)))
        return;
    float *const frame =
        net_frame_of(conv, core, net_frame_rows(K, S, GRAD_X, PHASE_Y, net_least(conv->rows, conv->most_rows)));
    net_plane_t plane = {
        .x = frame,
        .columns = conv->columns,
        .x_row = conv->frame_row,
        .y_row = conv->y_row,
        .reversed = GRAD_X,
        .above = true,
        .below = true,
    };
    NET_ROLLED
    for (int32_t task = net_claim(conv->claimed); task < tasks; task = net_claim(conv->claimed)) {
        const int32_t line = task / parts, part = task - line * parts; /* of dW: a channel */
        if (W_SUMS)
            net_depthwise_start_w(conv, conv->w + (part * conv->channels + line) * K * K, K * K);
        const int32_t first = W_SUMS ? net_share(each, part, parts) : 0, end = W_SUMS ? net_share(each, part + 1, parts) : 1;
        NET_ROLLED
        for (int32_t n = first; n < end; ++n) {
            const int32_t at = W_SUMS ? n : line, row = at % bands * band;
            const int32_t item = W_SUMS ? at / bands : at / bands / conv->channels;
            const int32_t channel = W_SUMS ? line : at / bands % conv->channels;
            plane.rows = net_least(conv->rows - row, band);
            plane.w = conv->w + (part * conv->channels + channel) * K * K;
            plane.y = conv->y + item * conv->y_item + channel * conv->y_plane + row * conv->y_row;
            plane.start = conv->bias ? conv->bias[channel] : 0.0f;
            if (plane.rows <= 0)
                continue;
            net_frame_fill(conv, frame, conv->image + item * conv->image_item + channel * conv->image_plane,
                           GRAD_X && S == 2 ? row / 2 : row * S, net_frame_rows(K, S, GRAD_X, PHASE_Y, plane.rows));
            function(&plane);
        }
    }
}

#endif
