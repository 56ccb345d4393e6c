/* Depthwise convolution with at most 3 x 3 taps: the weights of a channel (dW: their sums) stay in registers, and 2 rows x 4
 * columns of the result at a time.
 */
#ifndef NET_DEPTHWISE_3_H
#define NET_DEPTHWISE_3_H

#include "conv_grad_x_2.h"

/* One channel, or some rows of it. */
typedef struct {
    const float *x; /* of forward with its border; of dX dY with a border, and taps are reversed */
    float *w;       /* K x K; only dW writes it */
    float start;    /* forward: the bias */
    float *y;       /* of dW: dY, which is only read */
    int32_t rows, columns; /* of y */
    int32_t x_row, y_row;
    bool reversed;
    /* Of strips: whether x has a row above and below those of y, and lacks a column beside them; and of the strip that is
     * computed masks of its first and last column of x.
     */
    bool above, below, no_left, no_right;
    uint32_t left, right;
} net_plane_t;

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
                                    const bool W_SUMS, const net_plane_t *plane, const float *x, float *y, int32_t bands,
                                    int32_t blocks)
{
    const intptr_t x_row = 4 * plane->x_row, y_row = 4 * plane->y_row;
    const float start = plane->start;
    float weight[9], *const w = plane->w;
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
        x += E * S * plane->x_row;
        y += E * plane->y_row;
    }
    if (W_SUMS) {
        NET_UNROLLED
        for (int32_t k = 0; k < K * K; ++k)
            w[k] = weight[k];
    }
}

typedef void (*net_plane_bands_t)(const net_plane_t *plane, const float *x, float *y, int32_t bands, int32_t blocks);

/* `bands` has the functions for 1, 2, 3 and 4 columns of two rows, then of one. */
NET_KERNEL void net_depthwise_plane(const int32_t S, const net_plane_t *plane, const net_plane_bands_t bands[8])
{
    const int32_t whole = plane->columns / 4, left = plane->columns % 4;
    const float *x = plane->x;
    float *y = plane->y;
    NET_ROLLED
    for (int32_t rows = plane->rows, now; rows > 0; rows -= now) {
        const net_plane_bands_t *const of = bands + (rows > 1 ? 0 : 4);
        now = rows > 1 ? rows / 2 * 2 : 1;
        if (whole)
            of[3](plane, x, y, (now + 1) / 2, whole);
        if (left)
            of[left - 1](plane, x + whole * 4 * S, y + whole * 4, (now + 1) / 2, 1);
        x += now * S * plane->x_row;
        y += now * plane->y_row;
    }
}

#define NET_PLANE_BANDS(name, K, S, REVERSED, E, P, W_SUMS)                                                             \
    NET_HOT void name##_##E##x##P(const net_plane_t *plane, const float *x, float *y, int32_t bands, int32_t blocks)    \
    {                                                                                                                   \
        net_depthwise_bands(K, S, REVERSED, E, P, W_SUMS, plane, x, y, bands, blocks);                                  \
    }

/* Defines name(plane). W_SUMS: it adds to w; else it sets y. */
#define NET_PLANE_3(name, K, S, REVERSED, W_SUMS)                                                                       \
    NET_PLANE_BANDS(name, K, S, REVERSED, 2, 4, W_SUMS)                                                                 \
    NET_PLANE_BANDS(name, K, S, REVERSED, 2, 3, W_SUMS)                                                                 \
    NET_PLANE_BANDS(name, K, S, REVERSED, 2, 2, W_SUMS)                                                                 \
    NET_PLANE_BANDS(name, K, S, REVERSED, 2, 1, W_SUMS)                                                                 \
    NET_PLANE_BANDS(name, K, S, REVERSED, 1, 4, W_SUMS)                                                                 \
    NET_PLANE_BANDS(name, K, S, REVERSED, 1, 3, W_SUMS)                                                                 \
    NET_PLANE_BANDS(name, K, S, REVERSED, 1, 2, W_SUMS)                                                                 \
    NET_PLANE_BANDS(name, K, S, REVERSED, 1, 1, W_SUMS)                                                                 \
    NET_HOT void name(net_plane_t *plane)                                                                               \
    {                                                                                                                   \
        static const net_plane_bands_t bands[8] = {name##_2x1, name##_2x2, name##_2x3, name##_2x4,                      \
                                                   name##_1x1, name##_1x2, name##_1x3, name##_1x4};                     \
        net_depthwise_plane(S, plane, bands);                                                                           \
    }

/* dX of stride 2: one row pair x 2 * P columns of dX of one channel, as in net_grad_x_2_blocks, row after row of dX. */
NET_KERNEL void net_depthwise_x_2_bands(const int32_t K, const int32_t PHASE_Y, const int32_t PHASE_X, const int32_t P,
                                        const net_plane_t *plane, const float *x, float *y, int32_t columns, int32_t blocks)
{
    const int32_t LEAST_X = net_phase_at(K, PHASE_X, K - 1), WINDOW = P + net_phase_at(K, PHASE_X, 0);
    const int32_t ROWS = net_phase_at(K, PHASE_Y, 0) + 1;
    const intptr_t x_row = 4 * plane->x_row;
    const float *const w = plane->w;
    float weight[9];
    NET_UNROLLED
    for (int32_t k = 0; k < K * K; ++k)
        weight[k] = w[k];
    NET_ROLLED
    for (int32_t rows = plane->rows; rows > 0; rows -= 2) {
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
                    to += plane->y_row;
                }
            }
            window += P;
            at += 2 * P;
        }
        x += plane->x_row;
        y += 2 * plane->y_row;
    }
}

typedef void (*net_plane_x_2_t)(const net_plane_t *plane, const float *x, float *y, int32_t columns, int32_t blocks);

#define NET_PLANE_X_2_BANDS(name, K, PHASE_Y, PHASE_X, P)                                                               \
    NET_HOT void name##_##P(const net_plane_t *plane, const float *x, float *y, int32_t columns, int32_t blocks)        \
    {                                                                                                                   \
        net_depthwise_x_2_bands(K, PHASE_Y, PHASE_X, P, plane, x, y, columns, blocks);                                  \
    }

/* Defines name(plane), dX of stride 2; K is 2 or 3. x is dY with a border as for NET_CONV_GRAD_X_2. */
#define NET_PLANE_X_2_3(name, K, PHASE_Y, PHASE_X)                                                                      \
    NET_PLANE_X_2_BANDS(name, K, PHASE_Y, PHASE_X, 4)                                                                   \
    NET_PLANE_X_2_BANDS(name, K, PHASE_Y, PHASE_X, 3)                                                                   \
    NET_PLANE_X_2_BANDS(name, K, PHASE_Y, PHASE_X, 2)                                                                   \
    NET_PLANE_X_2_BANDS(name, K, PHASE_Y, PHASE_X, 1)                                                                   \
    NET_HOT void name(net_plane_t *plane)                                                                               \
    {                                                                                                                   \
        static const net_plane_x_2_t by[4] = {name##_1, name##_2, name##_3, name##_4};                                  \
        const int32_t pairs = (plane->columns + 1) / 2, whole = pairs / 4, left = pairs % 4;                            \
        if (whole)                                                                                                      \
            by[3](plane, plane->x, plane->y, plane->columns, whole);                                                    \
        if (left)                                                                                                       \
            by[left - 1](plane, plane->x + 4 * whole, plane->y + 8 * whole, plane->columns - 8 * whole, 1);             \
    }

#endif
