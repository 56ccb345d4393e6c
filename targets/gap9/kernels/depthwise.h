/* Depthwise convolution, one input and one output channel per group: the weights of a channel (dW: their sums) stay in
 * registers, 2 rows x 4 pixels at a time. Nothing is reduced over channels, so forward and dX only ever set their result.
 */
#ifndef NET_DEPTHWISE_H
#define NET_DEPTHWISE_H

#include "conv_grad_w.h"
#include "conv_grad_x_2.h"

/* y[c] = bias[c] + x[c] * w[c], for dX of stride 1 with dY padded as x and REVERSED taps. For dW: y is dY, w the result. */
typedef struct {
    const float *x; /* the padded tile */
    float *w;       /* channels x K x K; only dW writes it */
    const float *bias; /* NULL: none */
    float *y;
    int32_t channels, rows, columns; /* rows and columns of y */
    int32_t x_row, x_plane, y_row, y_plane;
    int32_t parts, part; /* of dW: as in net_conv_w_t */
    bool accumulate;     /* dW: add to w */
} net_depthwise_t;

/* A tile of E x P elements of y for every row and column of its window in x, that is, pixel by pixel: each pixel is loaded
 * once, during the multiplications of the one before. W_SUMS: the weights are summed, else the tile.
 */
NET_KERNEL void net_depthwise_tile(const int32_t K, const int32_t S, const bool REVERSED, const int32_t E, const int32_t P,
                                   const bool W_SUMS, const float *x, intptr_t x_row, float weight[9], float tile[2][4],
                                   float start)
{
    const int32_t ROWS = (E - 1) * S + K, COLUMNS = (P - 1) * S + K;
    float pixel = *x;
    NET_UNROLLED
    for (int32_t n = 0; n < ROWS * COLUMNS; ++n) {
        const int32_t r = n / COLUMNS, c = n % COLUMNS;
        float ahead = 0.0f;
        if (c == COLUMNS - 1 && n + 1 < ROWS * COLUMNS)
            net_move(x, x_row);
        if (n + 1 < ROWS * COLUMNS)
            ahead = x[(c + 1) % COLUMNS];
        NET_UNROLLED
        for (int32_t m = 0; m < E * K; ++m) {
            const int32_t e = m / K, kx = m % K, ky = r - e * S, p = (c - kx) / S;
            if (ky >= 0 && ky < K && kx <= c && (c - kx) % S == 0 && p < P) {
                const int32_t k = REVERSED ? K * K - 1 - ky * K - kx : ky * K + kx;
                if (W_SUMS)
                    net_multiply_add(weight[k], pixel, tile[e][p]);
                else if (ky == 0 && kx == 0)
                    net_multiply_start(tile[e][p], start, pixel, weight[k]);
                else
                    net_multiply_add(tile[e][p], pixel, weight[k]);
            }
        }
        pixel = ahead;
    }
}

/* `bands` bands of E rows by `blocks` blocks of P columns, of one channel. */
NET_KERNEL void net_depthwise_bands(const int32_t K, const int32_t S, const bool REVERSED, const int32_t E, const int32_t P,
                                    const bool W_SUMS, const net_depthwise_t *conv, const float *x, float *w, float start,
                                    float *y, int32_t bands, int32_t blocks)
{
    const intptr_t x_row = 4 * conv->x_row, y_row = 4 * conv->y_row;
    float weight[9];
    NET_UNROLLED
    for (int32_t k = 0; k < K * K; ++k)
        weight[k] = w[k];
    NET_ROLLED
    for (; bands > 0; --bands) {
        const float *window = x;
        float *at = y, *const end = y + blocks * P;
        NET_ROLLED
        while (at != end) {
            float tile[2][4], *below = at;
            if (E > 1)
                net_move(below, y_row);
            if (W_SUMS) {
                NET_UNROLLED
                for (int32_t p = 0; p < P; ++p) {
                    tile[0][p] = at[p];
                    if (E > 1)
                        tile[1][p] = below[p];
                }
            }
            net_depthwise_tile(K, S, REVERSED, E, P, W_SUMS, window, x_row, weight, tile, start);
            if (!W_SUMS) {
                NET_UNROLLED
                for (int32_t p = 0; p < P; ++p) {
                    at[p] = tile[0][p];
                    if (E > 1)
                        below[p] = tile[1][p];
                }
            }
            window += P * S;
            at += P;
        }
        x += E * S * conv->x_row;
        y += E * conv->y_row;
    }
    if (W_SUMS) {
        NET_UNROLLED
        for (int32_t k = 0; k < K * K; ++k)
            w[k] = weight[k];
    }
}

typedef void (*net_depthwise_bands_t)(const net_depthwise_t *conv, const float *x, float *w, float start, float *y,
                                      int32_t bands, int32_t blocks);

/* Rows [row, end) of a channel. `bands` has the functions for 1, 2, 3 and 4 columns of two rows, then of one. */
NET_KERNEL void net_depthwise_rows(const int32_t S, const net_depthwise_t *conv, int32_t channel, float *w, int32_t row,
                                   int32_t end, const net_depthwise_bands_t bands[8])
{
    const float start = conv->bias ? conv->bias[channel] : 0.0f;
    const int32_t whole = conv->columns / 4, left = conv->columns % 4;
    NET_ROLLED
    while (row < end) {
        const float *x = conv->x + channel * conv->x_plane + row * S * conv->x_row;
        float *y = conv->y + channel * conv->y_plane + row * conv->y_row;
        const int32_t two = end - row > 1, count = two ? (end - row) / 2 : 1;
        const net_depthwise_bands_t *const of = bands + (two ? 0 : 4);
        if (whole)
            of[3](conv, x, w, start, y, count, whole);
        if (left)
            of[left - 1](conv, x + whole * 4 * S, w, start, y + whole * 4, count, 1);
        row += two ? 2 * count : 1;
    }
}

/* Forward: workers share out pairs of rows. */
NET_KERNEL void net_depthwise(int32_t core, int32_t cores, const int32_t K, const int32_t S, const net_depthwise_t *conv,
                              const net_depthwise_bands_t bands[8])
{
    const int32_t pairs = (conv->rows + 1) / 2, tasks = conv->channels * pairs;
    const int32_t begin = net_share(tasks, core, cores);
    int32_t todo = net_share(tasks, core + 1, cores) - begin, channel = begin / pairs, pair = begin % pairs;
    NET_ROLLED
    while (todo > 0) {
        const int32_t to = pairs - pair < todo ? pairs : pair + todo, end = 2 * to < conv->rows ? 2 * to : conv->rows;
        net_depthwise_rows(S, conv, channel, conv->w + channel * K * K, 2 * pair, end, bands);
        todo -= to - pair;
        pair = 0;
        ++channel;
    }
}

/* dW: workers share out channels, and parts of their rows. */
NET_KERNEL void net_depthwise_w(int32_t core, int32_t cores, const int32_t K, const int32_t S, const net_depthwise_t *conv,
                                const net_depthwise_bands_t bands[8])
{
    const int32_t tasks = conv->channels * conv->parts, end = net_share(tasks, core + 1, cores);
    NET_ROLLED
    for (int32_t task = net_share(tasks, core, cores); task < end; ++task) {
        const int32_t channel = task / conv->parts, part = task % conv->parts;
        float *const w = conv->w + part * conv->part + channel * K * K;
        if (!conv->accumulate) {
            NET_ROLLED
            for (int32_t k = 0; k < K * K; ++k)
                w[k] = 0.0f;
        }
        net_depthwise_rows(S, conv, channel, w, net_share(conv->rows, part, conv->parts),
                           net_share(conv->rows, part + 1, conv->parts), bands);
    }
}

#define NET_DEPTHWISE_BANDS(name, K, S, REVERSED, E, P, W_SUMS)                                                         \
    NET_HOT void name##_##E##x##P(const net_depthwise_t *conv, const float *x, float *w, float start, float *y,         \
                                  int32_t bands, int32_t blocks)                                                        \
    {                                                                                                                   \
        net_depthwise_bands(K, S, REVERSED, E, P, W_SUMS, conv, x, w, start, y, bands, blocks);                         \
    }

#define NET_DEPTHWISE_FUNCTION(name, K, S, REVERSED, W_SUMS, share)                                                     \
    NET_DEPTHWISE_BANDS(name, K, S, REVERSED, 2, 4, W_SUMS)                                                             \
    NET_DEPTHWISE_BANDS(name, K, S, REVERSED, 2, 3, W_SUMS)                                                             \
    NET_DEPTHWISE_BANDS(name, K, S, REVERSED, 2, 2, W_SUMS)                                                             \
    NET_DEPTHWISE_BANDS(name, K, S, REVERSED, 2, 1, W_SUMS)                                                             \
    NET_DEPTHWISE_BANDS(name, K, S, REVERSED, 1, 4, W_SUMS)                                                             \
    NET_DEPTHWISE_BANDS(name, K, S, REVERSED, 1, 3, W_SUMS)                                                             \
    NET_DEPTHWISE_BANDS(name, K, S, REVERSED, 1, 2, W_SUMS)                                                             \
    NET_DEPTHWISE_BANDS(name, K, S, REVERSED, 1, 1, W_SUMS)                                                             \
    NET_HOT void name(int32_t core, int32_t cores, const net_depthwise_t *conv)                                         \
    {                                                                                                                   \
        static const net_depthwise_bands_t bands[8] = {name##_2x1, name##_2x2, name##_2x3, name##_2x4,                  \
                                                       name##_1x1, name##_1x2, name##_1x3, name##_1x4};                 \
        share(core, cores, K, S, conv, bands);                                                                          \
    }

/* Define name(core, cores, conv); K is 1 to 3. Forward and, with S = 1 and REVERSED, dX of stride 1; dW. */
#define NET_DEPTHWISE(name, K, S, REVERSED) NET_DEPTHWISE_FUNCTION(name, K, S, REVERSED, false, net_depthwise)
#define NET_DEPTHWISE_GRAD_W(name, K, S) NET_DEPTHWISE_FUNCTION(name, K, S, false, true, net_depthwise_w)

/* dX of stride 2: one row pair x 2 * P columns of dX of one channel, as in net_grad_x_2_blocks, row after row of dX. */
NET_KERNEL void net_depthwise_x_2_bands(const int32_t K, const int32_t PHASE_Y, const int32_t PHASE_X, const int32_t P,
                                        const net_depthwise_t *conv, const float *x, const float *w, float *y, int32_t rows,
                                        int32_t columns, int32_t blocks)
{
    const int32_t LEAST_X = net_phase_at(K, PHASE_X, K - 1), WINDOW = P + net_phase_at(K, PHASE_X, 0);
    const int32_t ROWS = net_phase_at(K, PHASE_Y, 0) + 1;
    const intptr_t x_row = 4 * conv->x_row;
    float weight[9];
    NET_UNROLLED
    for (int32_t k = 0; k < K * K; ++k)
        weight[k] = w[k];
    NET_ROLLED
    for (; rows > 0; rows -= 2) {
        const float *window = x;
        float *at = y;
        NET_ROLLED
        for (int32_t b = blocks, here = columns; b > 0; --b, here -= 2 * P) {
            float *to = at;
            NET_UNROLLED
            for (int32_t e = 0; e < 2; ++e) {
                if (e < rows) {
                    float sum[8], pixel = window[LEAST_X];
                    const float *from = window;
                    NET_UNROLLED
                    for (int32_t n = 0; n < ROWS * (WINDOW - LEAST_X); ++n) {
                        const int32_t r = n / (WINDOW - LEAST_X), c = LEAST_X + n % (WINDOW - LEAST_X);
                        if (c == WINDOW - 1 && r < ROWS - 1)
                            net_move(from, x_row);
                        const float ahead = c < WINDOW - 1 ? from[c + 1] : r < ROWS - 1 ? from[LEAST_X] : 0.0f;
                        NET_UNROLLED
                        for (int32_t k = 0; k < K * K; ++k) {
                            const int32_t ky = K - 1 - k / K, kx = K - 1 - k % K, p = c - net_phase_at(K, PHASE_X, kx);
                            const int32_t j = 2 * p + net_phase_of(PHASE_X, kx);
                            if (net_phase_of(PHASE_Y, ky) == e && net_phase_at(K, PHASE_Y, ky) == r && p >= 0 && p < P) {
                                if (ky + 2 >= K && kx + 2 >= K) /* the first tap of its phase */
                                    net_multiply_start(sum[j], 0.0f, pixel, weight[ky * K + kx]);
                                else
                                    net_multiply_add(sum[j], pixel, weight[ky * K + kx]);
                            }
                        }
                        pixel = ahead;
                    }
                    NET_UNROLLED
                    for (int32_t j = 0; j < 2 * P - 1; ++j)
                        to[j] = sum[j];
                    if (here >= 2 * P)
                        to[2 * P - 1] = sum[2 * P - 1];
                    to += conv->y_row;
                }
            }
            window += P;
            at += 2 * P;
        }
        x += conv->x_row;
        y += 2 * conv->y_row;
    }
}

typedef void (*net_depthwise_x_2_bands_t)(const net_depthwise_t *conv, const float *x, const float *w, float *y,
                                          int32_t rows, int32_t columns, int32_t blocks);

/* Workers share out pairs of rows of dX. `bands` has the functions for 1, 2, 3 and 4 columns of dY. */
NET_KERNEL void net_depthwise_x_2(int32_t core, int32_t cores, const int32_t K, const net_depthwise_t *conv,
                                  const net_depthwise_x_2_bands_t bands[4])
{
    const int32_t pairs = (conv->rows + 1) / 2, whole = (conv->columns + 1) / 2 / 4, left = (conv->columns + 1) / 2 % 4;
    const int32_t tasks = conv->channels * pairs, begin = net_share(tasks, core, cores);
    int32_t todo = net_share(tasks, core + 1, cores) - begin, channel = begin / pairs, pair = begin % pairs;
    NET_ROLLED
    while (todo > 0) {
        const float *x = conv->x + channel * conv->x_plane + pair * conv->x_row, *w = conv->w + channel * K * K;
        float *y = conv->y + channel * conv->y_plane + 2 * pair * conv->y_row;
        const int32_t to = pairs - pair < todo ? pairs : pair + todo;
        const int32_t rows = (2 * to < conv->rows ? 2 * to : conv->rows) - 2 * pair;
        if (whole)
            bands[3](conv, x, w, y, rows, conv->columns, whole);
        if (left)
            bands[left - 1](conv, x + 4 * whole, w, y + 8 * whole, rows, conv->columns - 8 * whole, 1);
        todo -= to - pair;
        pair = 0;
        ++channel;
    }
}

#define NET_DEPTHWISE_X_2_BANDS(name, K, PHASE_Y, PHASE_X, P)                                                           \
    NET_HOT void name##_##P(const net_depthwise_t *conv, const float *x, const float *w, float *y, int32_t rows,        \
                            int32_t columns, int32_t blocks)                                                            \
    {                                                                                                                   \
        net_depthwise_x_2_bands(K, PHASE_Y, PHASE_X, P, conv, x, w, y, rows, columns, blocks);                          \
    }

/* Defines name(core, cores, conv), dX of stride 2; K is 2 or 3. dY is padded as for NET_CONV_GRAD_X_2. */
#define NET_DEPTHWISE_GRAD_X_2(name, K, PHASE_Y, PHASE_X)                                                               \
    NET_DEPTHWISE_X_2_BANDS(name, K, PHASE_Y, PHASE_X, 4)                                                               \
    NET_DEPTHWISE_X_2_BANDS(name, K, PHASE_Y, PHASE_X, 3)                                                               \
    NET_DEPTHWISE_X_2_BANDS(name, K, PHASE_Y, PHASE_X, 2)                                                               \
    NET_DEPTHWISE_X_2_BANDS(name, K, PHASE_Y, PHASE_X, 1)                                                               \
    NET_HOT void name(int32_t core, int32_t cores, const net_depthwise_t *conv)                                         \
    {                                                                                                                   \
        static const net_depthwise_x_2_bands_t bands[4] = {name##_1, name##_2, name##_3, name##_4};                     \
        net_depthwise_x_2(core, cores, K, conv, bands);                                                                 \
    }

#endif
