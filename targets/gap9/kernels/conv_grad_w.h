/* dW of a convolution: the sums of 4 output channels x K taps of a row stay in registers over the whole image. */
#ifndef NET_CONV_GRAD_W_H
#define NET_CONV_GRAD_W_H

#include "conv_grad_w_rows.h"

/* dw[o][i][ky][kx] = sum over r, c of dy[o][r][c] * x[i][r * S + ky][c * S + kx]
 *
 * x is the padded tile, dy a plain one, and taps are contiguous in dw, also from i to i + 1. With `parts` > 1 the rows are
 * cut in as many parts whose sums go to dw, dw + part, dw + 2 * part, ...: for layers with too few channels to occupy all
 * workers. net_add_parts adds them up, 8 at most.
 */
typedef struct {
    const float *x, *dy;
    float *dw;
    int32_t in, out, rows, columns; /* channels of x, channels of dy, and its rows and columns */
    int32_t x_row, x_plane, y_row, y_plane, w_out; /* w_out: between output channels of dw */
    int32_t parts, part;
    int32_t images, x_image, y_image; /* of a batch, and the strides between them */
    int32_t groups, x_group, y_group, w_group; /* of channels, `in` to `out` each, and the strides between them */
    int32_t *claimed; /* tasks of this call that are taken, 0 before it; in L1 */
    bool accumulate; /* add to dw */
} net_conv_w_t;

/* A row's chunks of 4 pixels, `span` bytes of x. */
NET_KERNEL void net_conv_w_chunks(const int32_t K, const int32_t S, const int32_t OUT, float sum[4][8], const float *from[4],
                                  const float **pixels, intptr_t span)
{
    const int32_t CARRIED = K > S ? K - S : 0;
    const float *x = *pixels;
    const float *const end = net_moved(x, span);
    float carried[8] = {0};
    NET_UNROLLED
    for (int32_t j = 0; j < CARRIED; ++j)
        carried[j] = x[j];
    NET_ROLLED
    while (x != end) {
        float pixel[16];
        float gradient = from[0][0];
        NET_UNROLLED
        for (int32_t j = 0; j < K; ++j)
            pixel[j] = j < CARRIED ? carried[j] : x[j];
        NET_UNROLLED
        for (int32_t n = 0; n < 4 * OUT; ++n) {
            const int32_t p = n / OUT, o = n % OUT, new_pixels = K < S ? K : S;
            float ahead = 0.0f;
            NET_UNROLLED
            for (int32_t kx = 0; kx < K; ++kx) {
                net_multiply_add(sum[o][kx], pixel[p * S + kx], gradient);
                if (kx == 0 && n + 1 < 4 * OUT)
                    ahead = from[(n + 1) % OUT][(n + 1) / OUT];
                NET_UNROLLED
                for (int32_t q = 0; q < new_pixels; ++q) { /* what the next pixel's taps do not share with these */
                    const int32_t j = (p + 1) * S + K - new_pixels + q, when = OUT - new_pixels + q;
                    if (kx == K - 1 && p < 3 && o == (when > 0 ? when : 0))
                        pixel[j] = x[j];
                }
                if (kx == K - 1 && p == 3) {
                    from[o] += 4;
                    net_pin(from[o]);
                }
            }
            gradient = ahead;
        }
        NET_UNROLLED
        for (int32_t j = 0; j < CARRIED; ++j)
            carried[j] = pixel[4 * S + j];
        x += 4 * S;
        net_pin(x);
    }
    *pixels = x;
}

/* `count` rows of taps, one after the other, of OUT output channels; x and dy start at the part's first row. */
NET_KERNEL void net_conv_w_taps(const int32_t K, const int32_t S, const int32_t OUT, const net_conv_w_t *conv,
                                const float *x, const float *dy, float *dw, int32_t rows, int32_t ky, int32_t count)
{
    const int32_t w_out = conv->w_out, left = conv->columns % 4, gap = conv->y_row - conv->columns;
    intptr_t span = 16 * S * (conv->columns / 4), x_gap = 4 * S * (conv->x_row - conv->columns), ragged = left | gap;
    net_pin(span); /* not to be calculated again in each row */
    net_pin(x_gap);
    net_pin(ragged);
    NET_ROLLED
    for (; count > 0; --count) {
        float sum[4][8], *at = dw;
        NET_UNROLLED
        for (int32_t o = 0; o < OUT; ++o) {
            NET_UNROLLED
            for (int32_t kx = 0; kx < K; ++kx)
                sum[o][kx] = 0.0f;
        }
        if (conv->accumulate) {
            NET_UNROLLED
            for (int32_t o = 0; o < OUT; ++o) {
                NET_UNROLLED
                for (int32_t kx = 0; kx < K; ++kx)
                    sum[o][kx] = at[kx];
                at += w_out;
                net_pin(at);
            }
        }
        const float *from[4], *pixels = x;
        NET_UNROLLED
        for (int32_t o = 0; o < OUT; ++o) {
            from[o] = dy + o * conv->y_plane;
            net_pin(from[o]);
        }
        NET_ROLLED
        for (int32_t row = rows; row > 0; --row) {
            if (NET_CONV_W_ROWS && K == 3 && S <= 2 && OUT == 4) {
                if (span)
                    net_conv_w_rows(S, sum, from, &pixels, ragged ? 1 : rows, conv->columns / 4, ragged ? 0 : x_gap);
                if (!ragged)
                    break;
            } else {
                net_conv_w_chunks(K, S, OUT, sum, from, &pixels, span);
            }
            if (net_rarely(ragged)) {
                NET_ROLLED
                for (int32_t j = left; j > 0; --j) {
                    NET_UNROLLED
                    for (int32_t o = 0; o < OUT; ++o) {
                        const float gradient = *from[o]++;
                        NET_UNROLLED
                        for (int32_t kx = 0; kx < K; ++kx)
                            net_multiply_add(sum[o][kx], pixels[kx], gradient);
                    }
                    pixels += S;
                }
                NET_UNROLLED
                for (int32_t o = 0; o < OUT; ++o)
                    from[o] += gap;
            }
            net_move(pixels, x_gap);
        }
        at = dw;
        NET_UNROLLED
        for (int32_t o = 0; o < OUT; ++o) {
            NET_UNROLLED
            for (int32_t kx = 0; kx < K; ++kx)
                at[kx] = sum[o][kx];
            at += w_out;
            net_pin(at);
        }
        dw += K;
        x += conv->x_row;
        if (++ky == K) {
            ky = 0;
            x += conv->x_plane - K * conv->x_row;
        }
    }
}

typedef void (*net_conv_w_taps_t)(const net_conv_w_t *conv, const float *x, const float *dy, float *dw, int32_t rows,
                                  int32_t ky, int32_t count);

/* How the rows of taps of one block of output channels are cut. */
NET_KERNEL net_cut_t net_conv_w_cut(const int32_t K, const int32_t OUT, const net_conv_w_t *conv)
{
    return net_cut(conv->groups * conv->parts * (conv->out / OUT + conv->out % OUT), conv->in * K,
                   OUT * K * conv->rows * conv->columns / conv->parts);
}

/* Tasks there are: some rows of taps of OUT output channels and one part each, then those of single output channels. */
NET_KERNEL int32_t net_conv_w_tasks(const int32_t OUT, const net_conv_w_t *conv, net_cut_t cut)
{
    return conv->groups * conv->parts * (conv->out / OUT + conv->out % OUT) * cut.parts;
}

/* Makes a worker's own `conv` that of one group; the number of the task in it, of `each`. */
NET_KERNEL int32_t net_conv_w_group(net_conv_w_t *conv, int32_t task, int32_t each)
{
    const int32_t group = task / each;
    conv->x += group * conv->x_group;
    conv->dy += group * conv->y_group;
    conv->dw += group * conv->w_group;
    conv->groups = 1;
    return task - group * each;
}

/* One task, of all images: `conv` is the worker's own, which says to accumulate from the second image on. */
NET_KERNEL void net_conv_w_task(const int32_t K, const int32_t S, const int32_t OUT, net_conv_w_t *conv, net_cut_t cut,
                                int32_t task, net_conv_w_taps_t by_out, net_conv_w_taps_t by_1)
{
    const int32_t many = conv->out / OUT, line = task / cut.parts, first = (task - line * cut.parts) * cut.part;
    const int32_t i = first / K, ky = first - i * K, block = conv->parts > 1 ? line / conv->parts : line;
    const int32_t left = conv->in * K - first, count = left < cut.part ? left : cut.part;
    const int32_t part = line - block * conv->parts, o = block < many ? block * OUT : (OUT - 1) * many + block;
    const int32_t row = net_share(conv->rows, part, conv->parts), end = net_share(conv->rows, part + 1, conv->parts);
    const float *x = conv->x + i * conv->x_plane + (row * S + ky) * conv->x_row;
    const float *dy = conv->dy + o * conv->y_plane + row * conv->y_row;
    float *const dw = conv->dw + part * conv->part + o * conv->w_out + first * K;
    const bool accumulate = conv->accumulate;
    NET_ROLLED
    for (int32_t n = conv->images; n > 0; --n, x += conv->x_image, dy += conv->y_image, conv->accumulate = true)
        (block < many ? by_out : by_1)(conv, x, dy, dw, end - row, ky, count);
    conv->accumulate = accumulate;
}

/* Adds up the sums of PARTS parts, after a barrier: dw[j] = sums[j] + sums[j + part] + ... for `rows` rows of `length`
 * elements, one after the other in sums, w_out apart in dw. Workers share out elements.
 */
NET_KERNEL void net_add_parts(int32_t core, int32_t cores, const int32_t PARTS, float *dw, int32_t w_out, const float *sums,
                              int32_t rows, int32_t length, int32_t part, bool accumulate)
{
    const int32_t begin = net_share(rows * length, core, cores), end = net_share(rows * length, core + 1, cores);
    int32_t left = length - begin % length;
    dw += begin / length * w_out + length - left;
    NET_ROLLED
    for (int32_t j = begin; j < end; ++j) {
        float value[8], sum = accumulate ? *dw : 0.0f;
        NET_UNROLLED
        for (int32_t p = 0; p < PARTS; ++p)
            value[p] = sums[j + p * part];
        NET_UNROLLED
        for (int32_t p = 0; p < PARTS; ++p)
            sum += value[p];
        *dw++ = sum;
        if (net_rarely(--left == 0)) {
            left = length;
            dw += w_out - length;
        }
    }
}

/* Defines name(conv), and name_task for one task. OUT output channels are taken together: 4 up to K = 4, 2 beyond. */
#define NET_CONV_GRAD_W(name, K, S, OUT)                                                                                \
    NET_HOT void name##_block(const net_conv_w_t *conv, const float *x, const float *dy, float *dw, int32_t rows,       \
                              int32_t ky, int32_t count)                                                                \
    {                                                                                                                   \
        net_conv_w_taps(K, S, OUT, conv, x, dy, dw, rows, ky, count);                                                   \
    }                                                                                                                   \
    NET_HOT void name##_single(const net_conv_w_t *conv, const float *x, const float *dy, float *dw, int32_t rows,      \
                               int32_t ky, int32_t count)                                                               \
    {                                                                                                                   \
        net_conv_w_taps(K, S, 1, conv, x, dy, dw, rows, ky, count);                                                     \
    }                                                                                                                   \
    NET_HOT void name##_task(net_conv_w_t *conv, net_cut_t cut, int32_t task)                                           \
    {                                                                                                                   \
        net_conv_w_task(K, S, OUT, conv, cut, task, name##_block, name##_single);                                       \
    }                                                                                                                   \
    NET_HOT void name##_group(const net_conv_w_t *conv, net_cut_t cut, int32_t task, int32_t each)                      \
    {                                                                                                                   \
        net_conv_w_t own = *conv;                                                                                       \
        const int32_t at = net_conv_w_group(&own, task, each);                                                          \
        name##_task(&own, cut, at);                                                                                     \
    }                                                                                                                   \
    NET_HOT void name(net_conv_w_t *conv)                                                                               \
    {                                                                                                                   \
        const net_cut_t cut = net_conv_w_cut(K, OUT, conv);                                                             \
        const int32_t tasks = net_conv_w_tasks(OUT, conv, cut);                                                         \
        NET_ROLLED                                                                                                      \
        for (int32_t task = net_claim(conv->claimed); task < tasks; task = net_claim(conv->claimed)) {                  \
            if (conv->groups > 1)                                                                                       \
                name##_group(conv, cut, task, tasks / conv->groups);                                                    \
            else                                                                                                        \
                name##_task(conv, cut, task);                                                                           \
        }                                                                                                               \
    }

#endif
