/* Depthwise convolution, one input and one output channel per group: forward, dX and dW of square kernels, stride 1 or 2.
 *
 * A task is a band of rows of one channel. Its worker copies what the band needs of the image into a frame of its own, with
 * a border of zeros, and computes: no barrier between the two, and while one core copies, the one that shares its FPU
 * multiplies. Nothing is reduced over channels, so forward and dX only ever set their result.
 */
#ifndef NET_DEPTHWISE_H
#define NET_DEPTHWISE_H

#include "conv_4x4.h"
#include "conv_grad_w.h"
#include "conv_grad_x_2.h"
#include "depthwise_planes.h"
#include "depthwise_strip_2.h"
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

/* A plane is a task, or some of its strips if there are few planes: what a task costs beside its rows is more than what
 * workers gain by ending closer together.
 */
NET_KERNEL net_cut_t net_strips_cut(int32_t planes, int32_t strips)
{
    const int32_t wanted = planes < NET_TASKS_LEAST ? 1 + (NET_TASKS_LEAST - 1) / planes : 1;
    const int32_t part = (strips + wanted - 1) / wanted;
    return (net_cut_t){(strips + part - 1) / part, part};
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

/* Whether planes are such as net_planes_t has them. */
NET_KERNEL bool net_planes_fit(const net_depthwise_t *conv)
{
    const int32_t columns = conv->columns, plane = conv->rows * columns;
    return NET_STRIP_LOOPS && columns >= NET_PLANES_LEAST && columns <= NET_PLANES_MOST && conv->rows >= 2 &&
           conv->image_columns == columns && conv->image_rows == conv->rows && conv->top == 1 && conv->left == 1 &&
           conv->image_row == columns && conv->y_row == columns && conv->image_plane == plane && conv->y_plane == plane;
}

/* Forward and dX of whole planes: each is a task. */
NET_KERNEL void net_depthwise_planes(int32_t core, int32_t cores, const bool GRAD_X, const net_depthwise_t *conv)
{
    const int32_t all = conv->batch * conv->channels;
    const float none = 0.0f;
    net_planes_t planes = {
        .rows = conv->rows,
        .w_step = GRAD_X ? -4 : 4,
        .w_next = GRAD_X ? 72 : 0,
        .start_step = conv->bias ? 4 : 0,
    };
    net_share_t share = net_share_first(core, cores, conv->claimed, all, all >> 4);
    NET_ROLLED
    for (; share.begin < all; share = net_share_next(&share, conv->claimed, all)) {
        NET_ROLLED
        for (; share.begin < share.end; share.begin += planes.planes) {
            int32_t channel = share.begin, item = 0;
            NET_ROLLED
            for (; channel >= conv->channels; channel -= conv->channels)
                ++item;
            planes.planes = net_least(share.end - share.begin, conv->channels - channel);
            planes.x = conv->image + item * conv->image_item + channel * conv->image_plane;
            planes.y = conv->y + item * conv->y_item + channel * conv->y_plane;
            planes.w = conv->w + channel * 9 + (GRAD_X ? 8 : 0);
            planes.start = conv->bias ? conv->bias + channel : &none;
            net_planes_run(conv->columns, &planes);
        }
    }
}

/* dW of them: a channel of all images is one. */
NET_KERNEL void net_depthwise_planes_w(int32_t core, int32_t cores, const net_depthwise_t *conv)
{
    const float none = 0.0f;
    net_planes_w_t planes = {.rows = conv->rows};
    net_share_t share = net_share_first(core, cores, conv->claimed, conv->channels, conv->channels >> 4);
    NET_ROLLED
    for (; share.begin < conv->channels; share = net_share_next(&share, conv->claimed, conv->channels)) {
        planes.planes = share.end - share.begin;
        planes.x = conv->image + share.begin * conv->image_plane;
        planes.y = conv->y + share.begin * conv->y_plane;
        planes.dw = conv->w + share.begin * 9;
        bool accumulate = conv->accumulate;
        NET_ROLLED
        for (int32_t item = conv->batch; item > 0; --item, planes.x += conv->image_item, planes.y += conv->y_item) {
            planes.start = accumulate ? planes.dw : &none;
            planes.start_step = accumulate ? 4 : 0;
            net_planes_w_run(conv->columns, &planes);
            accumulate = true;
        }
    }
}

/* A worker's own plane for strips of the image itself, for some rows. */
NET_KERNEL net_plane_t net_strip_plane(const int32_t S, const bool GRAD_X, const net_depthwise_t *conv, int32_t row,
                                       int32_t rows)
{
    const int32_t first = row * S - conv->top;
    return (net_plane_t){
        .rows = rows,
        .columns = conv->columns,
        .x_row = conv->image_row,
        .y_row = conv->y_row,
        .reversed = GRAD_X,
        .above = first >= 0,
        .below = first + (rows - 1) * S + 2 < conv->image_rows,
        .no_left = conv->left > 0,
        .no_right = (conv->columns - 1) * S + 3 - conv->left > conv->image_columns,
    };
}

#if NET_STRIP_LOOPS
/* Forward and dX of 3x3 with stride 1 from the image itself: tasks are some strips of a plane, those of all planes first that
 * are the leftmost. A call computes as many planes as there are.
 */
NET_KERNEL void net_depthwise_planes_of_strips(int32_t core, int32_t cores, const bool GRAD_X, const net_depthwise_t *conv)
{
    const int32_t all = conv->batch * conv->channels, columns = conv->columns;
    const float none = 0.0f;
    int32_t part = (columns + 3) & ~3, tasks = all;
    while (tasks < NET_TASKS_LEAST && part > 4) { /* halves of all strips, and so on */
        part = ((part >> 1) + 3) & ~3;
        tasks = 0;
        for (int32_t column = 0; column < columns; column += part)
            tasks += all;
    }
    const bool no_left = conv->left > 0, no_right = columns + 2 - conv->left > conv->image_columns;
    const float *const x = conv->image + (1 - conv->top) * conv->image_row - conv->left;
    net_strips_t planes = {
        .rows = conv->rows,
        .x_row = 4 * conv->image_row,
        .y_row = 4 * conv->y_row,
        .x_plane = 4 * conv->image_plane,
        .y_plane = 4 * conv->y_plane,
        .w_step = GRAD_X ? -4 : 4,
        .w_next = GRAD_X ? 72 : 0,
        .start_step = conv->bias ? 4 : 0,
        .above = conv->top <= 0,
        .below = conv->rows + 1 - conv->top < conv->image_rows,
    };
    net_share_t share = net_share_first(core, cores, conv->claimed, tasks, tasks >> 4);
    NET_ROLLED
    for (; share.begin < tasks; share = net_share_next(&share, conv->claimed, tasks)) {
        NET_ROLLED
        for (; share.begin < share.end; share.begin += planes.planes) {
            int32_t plane = share.begin, from = 0, item = 0;
            NET_ROLLED
            for (; plane >= all; plane -= all)
                from += part;
            int32_t channel = plane;
            NET_ROLLED
            for (; channel >= conv->channels; channel -= conv->channels)
                ++item;
            planes.planes = net_least(share.end - share.begin, conv->channels - channel);
            planes.x = x + item * conv->image_item + channel * conv->image_plane;
            planes.y = conv->y + item * conv->y_item + channel * conv->y_plane;
            planes.w = conv->w + channel * 9 + (GRAD_X ? 8 : 0);
            planes.start = conv->bias ? conv->bias + channel : &none;
            net_strips_span(false, &planes, columns, no_left, no_right, from, net_least(from + part, columns));
        }
    }
}

/* dW of whole planes without a row above or below: a channel of all images is a task. */
NET_KERNEL void net_depthwise_planes_of_strips_w(int32_t core, int32_t cores, const net_depthwise_t *conv)
{
    const int32_t columns = conv->columns;
    const bool no_left = conv->left > 0, no_right = columns + 2 - conv->left > conv->image_columns;
    const float none = 0.0f;
    net_strips_t planes = {
        .rows = conv->rows,
        .x_row = 4 * conv->image_row,
        .y_row = 4 * conv->y_row,
        .x_plane = 4 * conv->image_plane,
        .y_plane = 4 * conv->y_plane,
    };
    net_share_t share = net_share_first(core, cores, conv->claimed, conv->channels, conv->channels >> 4);
    NET_ROLLED
    for (; share.begin < conv->channels; share = net_share_next(&share, conv->claimed, conv->channels)) {
        planes.planes = share.end - share.begin;
        planes.x = conv->image + share.begin * conv->image_plane - conv->left;
        planes.y = conv->y + share.begin * conv->y_plane;
        planes.w = conv->w + share.begin * 9;
        bool accumulate = conv->accumulate;
        NET_ROLLED
        for (int32_t item = conv->batch; item > 0; --item) {
            planes.start = accumulate ? planes.w : &none;
            planes.start_step = accumulate ? 4 : 0;
            net_strips_span(true, &planes, columns, no_left, no_right, 0, columns);
            planes.x += conv->image_item;
            planes.y += conv->y_item;
            accumulate = true;
        }
    }
}
#endif

/* Forward and dX of 3x3 from the image itself: tasks are some strips of a plane. */
NET_KERNEL void net_depthwise_strips(const int32_t S, const bool GRAD_X, const net_depthwise_t *conv)
{
    const int32_t planes = conv->batch * conv->channels;
    const net_cut_t cut = net_strips_cut(planes, (conv->columns + 3) / 4);
    const int32_t tasks = planes * cut.parts;
    net_plane_t plane = net_strip_plane(S, GRAD_X, conv, 0, conv->rows);
    const int32_t to_first = (1 - conv->top) * conv->image_row - conv->left;
    NET_ROLLED
    for (int32_t task = net_claim(conv->claimed); task < tasks; task = net_claim(conv->claimed)) {
        const int32_t of = task / cut.parts, begin = 4 * cut.part * (task - of * cut.parts), end = begin + 4 * cut.part;
        const int32_t item = conv->batch > 1 ? of / conv->channels : 0, channel = of - item * conv->channels;
        plane.w = conv->w + channel * 9;
        plane.start = conv->bias ? conv->bias[channel] : 0.0f;
        const float *const x = conv->image + item * conv->image_item + channel * conv->image_plane + to_first;
        float *const y = conv->y + item * conv->y_item + channel * conv->y_plane;
        (S == 1 ? net_strips_columns : net_strided_columns)(&plane, x, y, begin, net_least(end, conv->columns));
    }
}

/* dW of it: a task is one part of the rows of all images of a channel. */
NET_KERNEL void net_depthwise_strips_w(const int32_t S, const net_depthwise_t *conv)
{
    const int32_t tasks = conv->channels * conv->parts, part = conv->channels * 9;
    NET_ROLLED
    for (int32_t task = net_claim(conv->claimed); task < tasks; task = net_claim(conv->claimed)) {
        const int32_t channel = task / conv->parts, at = task - channel * conv->parts;
        const int32_t row = net_share(conv->rows, at, conv->parts), end = net_share(conv->rows, at + 1, conv->parts);
        net_plane_t plane = net_strip_plane(S, false, conv, row, end - row);
        const float *x = conv->image + channel * conv->image_plane + (row * S + 1 - conv->top) * conv->image_row - conv->left;
        float *y = conv->y + channel * conv->y_plane + row * conv->y_row;
        plane.w = conv->w + at * part + channel * 9;
        net_depthwise_start_w(conv, plane.w, 9);
        NET_ROLLED
        for (int32_t item = end > row ? conv->batch : 0; item > 0; --item, x += conv->image_item, y += conv->y_item)
            (S == 1 ? net_strips_w_plane : net_strided_w_plane)(&plane, x, y);
    }
}

NET_KERNEL void net_depthwise_any_3x3(int32_t core, int32_t cores, const int32_t S, const bool GRAD_X, const bool W_SUMS,
                                      const net_depthwise_t *conv, net_plane_function_t framed)
{
    const int32_t right = (conv->columns - 1) * S + 3 - conv->left - conv->image_columns;
    if (!net_strips_direct(conv->top, (conv->rows - 1) * S + 3 - conv->top - conv->image_rows, conv->left, right))
        net_depthwise(core, cores, 3, S, GRAD_X, W_SUMS, 0, conv, framed);
    else if (S == 1 && !W_SUMS && net_planes_fit(conv))
        net_depthwise_planes(core, cores, GRAD_X, conv);
    else if (S == 1 && W_SUMS && conv->parts == 1 && net_planes_fit(conv))
        net_depthwise_planes_w(core, cores, conv);
#if NET_STRIP_LOOPS
    else if (S == 1 && !W_SUMS)
        net_depthwise_planes_of_strips(core, cores, GRAD_X, conv);
    else if (S == 1 && conv->parts == 1 && conv->rows >= 2 && conv->top == 1 && conv->image_rows == conv->rows)
        net_depthwise_planes_of_strips_w(core, cores, conv);
#endif
    else if (W_SUMS)
        net_depthwise_strips_w(S, conv);
    else
        net_depthwise_strips(S, GRAD_X, conv);
}

/* Forward, dX and dW of 3x3 with stride 1; forward and dW with stride 2. */
NET_HOT void net_depthwise_3x3(int32_t core, int32_t cores, const net_depthwise_t *conv)
{
    net_depthwise_any_3x3(core, cores, 1, false, false, conv, net_strips);
}

NET_HOT void net_depthwise_3x3_grad_x(int32_t core, int32_t cores, const net_depthwise_t *conv)
{
    net_depthwise_any_3x3(core, cores, 1, true, false, conv, net_strips);
}

NET_HOT void net_depthwise_3x3_grad_w(int32_t core, int32_t cores, const net_depthwise_t *conv)
{
    net_depthwise_any_3x3(core, cores, 1, false, true, conv, net_strips_w);
}

NET_HOT void net_depthwise_3x3_2(int32_t core, int32_t cores, const net_depthwise_t *conv)
{
    net_depthwise_any_3x3(core, cores, 2, false, false, conv, net_strided);
}

NET_HOT void net_depthwise_3x3_2_grad_w(int32_t core, int32_t cores, const net_depthwise_t *conv)
{
    net_depthwise_any_3x3(core, cores, 2, false, true, conv, net_strided_w);
}

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
