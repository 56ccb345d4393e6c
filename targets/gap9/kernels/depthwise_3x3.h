/* Depthwise convolution 3x3: who computes which planes, read from the image itself where at most a row and a column of it are
 * missing on each side, else from frames.
 */
#ifndef NET_DEPTHWISE_3X3_H
#define NET_DEPTHWISE_3X3_H

#include "depthwise_frame.h"
#include "depthwise_planes.h"
#include "depthwise_strip_2.h"

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

/* A plane is a task, or some of its strips if there are few planes: what a task costs beside its rows is more than what
 * workers gain by ending closer together.
 */
NET_KERNEL net_cut_t net_strips_cut(int32_t planes, int32_t strips)
{
    const int32_t wanted = planes < NET_TASKS_LEAST ? 1 + (NET_TASKS_LEAST - 1) / planes : 1;
    const int32_t part = (strips + wanted - 1) / wanted;
    return (net_cut_t){(strips + part - 1) / part, part};
}

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

#endif
