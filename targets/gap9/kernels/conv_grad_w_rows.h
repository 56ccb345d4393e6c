/* The hot loop of conv_grad_w.h for 3x3 taps and 4 output channels, in Xpulp's hardware loops and post-increment loads. */
#ifndef NET_CONV_GRAD_W_ROWS_H
#define NET_CONV_GRAD_W_ROWS_H

#include "kernel.h"
#include "xpulp.h"

#if defined(NET_XPULP) && defined(__riscv_zfinx) && defined(__clang__) /* GCC takes 30 operands at most */
#define NET_CONV_W_ROWS 1

/* One pixel: its window a, b, c of x with the gradients of 4 channels, which g and h take in turn. A load stands at least
 * one multiplication before its use. c is loaded here, b too if FRESH says so; the last gradient is that of the next pixel.
 */
#define NET_CONV_W_ADD(sum, pixel, gradient) "fmadd.s %[" #sum "], %[" #pixel "], %[" #gradient "], %[" #sum "]\n"
#define NET_CONV_W_LOAD(value, pointer) NET_LOAD_NEXT("%[" #value "]", "%[" #pointer "]", "4")
#define NET_CONV_W_PIXEL(FRESH, a, b, c)                                                                                \
    FRESH NET_CONV_W_ADD(s0, a, g) NET_CONV_W_LOAD(c, x) NET_CONV_W_ADD(s1, b, g) NET_CONV_W_LOAD(h, y1)                \
        NET_CONV_W_ADD(s2, c, g) NET_CONV_W_ADD(s3, a, h) NET_CONV_W_LOAD(g, y2) NET_CONV_W_ADD(s4, b, h)               \
            NET_CONV_W_ADD(s5, c, h) NET_CONV_W_ADD(s6, a, g) NET_CONV_W_LOAD(h, y3) NET_CONV_W_ADD(s7, b, g)           \
                NET_CONV_W_ADD(s8, c, g) NET_CONV_W_ADD(s9, a, h) NET_CONV_W_LOAD(g, y0) NET_CONV_W_ADD(s10, b, h)      \
                    NET_CONV_W_ADD(s11, c, h)

/* Four pixels of window registers that turn: of stride 1 the window moves by one, of stride 2 by two. */
#define NET_CONV_W_PIXELS_1                                                                                             \
    NET_CONV_W_PIXEL("", p, q, r) NET_CONV_W_PIXEL("", q, r, t) NET_CONV_W_PIXEL("", r, t, p) NET_CONV_W_PIXEL("", t, p, q)
#define NET_CONV_W_PAIR_2                                                                                               \
    NET_CONV_W_PIXEL(NET_CONV_W_LOAD(q, x), p, q, r) NET_CONV_W_PIXEL(NET_CONV_W_LOAD(t, x), r, t, p)

/* `chunks` times 4 pixels of each of `rows` rows, both at least 1. x moves by x_gap bytes behind each row. */
#define NET_CONV_W_LOOP(FIRST, PIXELS, INNER, OUTER)                                                                    \
    __asm__ volatile(NET_CONV_W_LOAD(g, y0) NET_REPEAT_OUTER("%[rows]", OUTER) FIRST NET_REPEAT("%[chunks]", INNER)     \
                         PIXELS NET_REPEAT_END "add %[x], %[x], %[gap]\n" NET_REPEAT_END                                \
                     : [s0] "+r"(sum[0][0]), [s1] "+r"(sum[0][1]), [s2] "+r"(sum[0][2]), [s3] "+r"(sum[1][0]),          \
                       [s4] "+r"(sum[1][1]), [s5] "+r"(sum[1][2]), [s6] "+r"(sum[2][0]), [s7] "+r"(sum[2][1]),          \
                       [s8] "+r"(sum[2][2]), [s9] "+r"(sum[3][0]), [s10] "+r"(sum[3][1]), [s11] "+r"(sum[3][2]),        \
                       [x] "+r"(x), [y0] "+r"(from[0]), [y1] "+r"(from[1]), [y2] "+r"(from[2]), [y3] "+r"(from[3]),     \
                       [p] "=&r"(p), [q] "=&r"(q), [r] "=&r"(r), [t] "=&r"(t), [g] "=&r"(g), [h] "=&r"(h)               \
                     : [rows] "r"(rows), [chunks] "r"(chunks), [gap] "r"(x_gap)                                         \
                     : "memory")

/* Sums of 3 taps of 4 channels, over rows of whole chunks. `from` ends behind what was read. */
NET_KERNEL void net_conv_w_rows(const int32_t S, float sum[4][8], const float *from[4], const float **pixels, int32_t rows,
                                int32_t chunks, intptr_t x_gap)
{
    const float *x = *pixels;
    float p, q, r, t, g, h;
    x_gap -= 4 * (3 - S); /* the first window's pixels, which no chunk loads */
    if (S == 1)
        NET_CONV_W_LOOP(NET_CONV_W_LOAD(p, x) NET_CONV_W_LOAD(q, x), NET_CONV_W_PIXELS_1, 272, 288);
    else
        NET_CONV_W_LOOP(NET_CONV_W_LOAD(p, x), NET_CONV_W_PAIR_2 NET_CONV_W_PAIR_2, 288, 300);
    --from[0]; /* the gradient that was loaded for a pixel that does not follow */
    *pixels = x;
}
#else
#define NET_CONV_W_ROWS 0
NET_KERNEL void net_conv_w_rows(const int32_t S, float sum[4][8], const float *from[4], const float **pixels, int32_t rows,
                                int32_t chunks, intptr_t x_gap)
{
    (void)S, (void)sum, (void)from, (void)pixels, (void)rows, (void)chunks, (void)x_gap;
}
#endif

#endif
