/* The hot loop of conv_4x4.h for 3x3 taps and 4 channels x 4 pixels, in Xpulp's hardware loops and post-increment loads. */
#ifndef NET_CONV_3X3_LOOPS_H
#define NET_CONV_3X3_LOOPS_H

#include "kernel.h"
#include "xpulp.h"

#if defined(NET_XPULP) && defined(__riscv_zfinx) && defined(__clang__) /* GCC takes 30 operands at most */
#define NET_CONV_3X3_LOOPS 1

/* One tap of one channel: sums s_o0 to s_o3 of pixels a to d times w. A load stands alone between multiplications, and
 * never just before its use; registers being just enough, a pixel's follows its last multiplication. So the order of pixels.
 */
#define NET_3X3_ADD(o, p, pixel, w) "fmadd.s %[s" #o #p "], %[" #pixel "], %[" #w "], %[s" #o #p "]\n"
#define NET_3X3_CHANNEL(o, w, a, b, c, d, LOAD_0, LOAD_1, LOAD_2, LOAD_3)                                               \
    NET_3X3_ADD(o, 1, b, w) LOAD_0 NET_3X3_ADD(o, 0, a, w) LOAD_1 NET_3X3_ADD(o, 3, d, w) LOAD_2 NET_3X3_ADD(o, 2, c, w) LOAD_3

/* Weights that g and h take in turn: of channels 1, 0, 3, 2. Forward: two pointers, w_step from a row to the next. */
#define NET_3X3_ROWS(n, k) NET_3X3_ROWS_##n(k)
#define NET_3X3_ROWS_0(k) NET_LOAD_AT("%[g]", "%[c]", "%[w_step]")
#define NET_3X3_ROWS_1(k) NET_LOAD_NEXT("%[h]", "%[c]", k)
#define NET_3X3_ROWS_2(k) NET_LOAD_AT("%[g]", "%[d]", "%[w_step]")
#define NET_3X3_ROWS_3(k) NET_LOAD_NEXT("%[h]", "%[d]", k)
/* Reversed: one pointer, to what is loaded last. */
#define NET_3X3_TURNED(n, k) NET_3X3_TURNED_##n(k)
#define NET_3X3_TURNED_0(k) "lw %[g], -36 + " k "(%[c])\n"
#define NET_3X3_TURNED_1(k) "lw %[h], -72 + " k "(%[c])\n"
#define NET_3X3_TURNED_2(k) "lw %[g], 36 + " k "(%[c])\n"
#define NET_3X3_TURNED_3(k) "lw %[h], " k "(%[c])\n"
#define NET_3X3_TURNED_LAST NET_LOAD_STEP("%[h]", "%[c]", "%[w_step]")

/* A row of taps of one input channel, with the loads for the next one. x points to the pixel that is loaded last. In the
 * last row MOVE_0 to MOVE_4 take the pointers to the next row of taps; the register is free that they take for it.
 */
#define NET_3X3_PIXEL(r, offset) "lw %[" #r "], " #offset "(%[x])\n"
#define NET_3X3_PLANE(r) NET_LOAD_STEP("%[" #r "]", "%[x]", "%[x_step]")
#define NET_3X3_1(W, W_LAST, K0, K1, K2, MOVE_0, MOVE_1, MOVE_2, MOVE_3, MOVE_4)                                        \
    NET_3X3_CHANNEL(1, g, r0, r1, r2, r3, W(1, K0), NET_3X3_PIXEL(r4, -4), , )                                          \
    NET_3X3_CHANNEL(0, h, r0, r1, r2, r3, W(2, K0), , , )                                                               \
    NET_3X3_CHANNEL(3, g, r0, r1, r2, r3, W(3, K0), , , )                                                               \
    NET_3X3_CHANNEL(2, h, r0, r1, r2, r3, W(0, K1), , , )                                                               \
    NET_3X3_CHANNEL(1, g, r1, r2, r3, r4, W(1, K1), NET_3X3_PLANE(r0), , )                                              \
    NET_3X3_CHANNEL(0, h, r1, r2, r3, r4, W(2, K1), , , )                                                               \
    NET_3X3_CHANNEL(3, g, r1, r2, r3, r4, W(3, K1), , , )                                                               \
    NET_3X3_CHANNEL(2, h, r1, r2, r3, r4, W(0, K2), , , )                                                               \
    NET_3X3_CHANNEL(1, g, r2, r3, r4, r0, W(1, K2), , , )                                                               \
    NET_3X3_CHANNEL(0, h, r2, r3, r4, r0, W(2, K2), , MOVE_0, MOVE_1)                                                   \
    NET_3X3_CHANNEL(3, g, r2, r3, r4, r0, W_LAST, MOVE_2, MOVE_3, MOVE_4 NET_3X3_PIXEL(r1, -16))                        \
    NET_3X3_CHANNEL(2, h, r2, r3, r4, r0, W(0, K0), NET_3X3_PIXEL(r3, -8), NET_3X3_PIXEL(r2, -12), NET_3X3_PIXEL(r0, -20))
#define NET_3X3_FIRST_1 NET_3X3_PIXEL(r1, -16) NET_3X3_PIXEL(r3, -8) NET_3X3_PIXEL(r2, -12) NET_3X3_PIXEL(r0, -20)

/* The same for stride 2: taps 0, 2, 1, so that the second needs one more pixel, and the third four. */
#define NET_3X3_2(W, W_LAST, K0, K1, K2, MOVE_0, MOVE_1, MOVE_2, MOVE_3, MOVE_4)                                        \
    NET_3X3_CHANNEL(1, g, r0, r1, r2, r3, W(1, K0), NET_3X3_PIXEL(r2, -12), , )                                         \
    NET_3X3_CHANNEL(0, h, r0, r1, r2, r3, W(2, K0), NET_3X3_PIXEL(r4, 4), , )                                           \
    NET_3X3_CHANNEL(3, g, r0, r1, r2, r3, W(3, K0), , , )                                                               \
    NET_3X3_CHANNEL(2, h, r0, r1, r2, r3, W(0, K1), , , )                                                               \
    NET_3X3_CHANNEL(1, g, r1, r2, r3, r4, W(1, K1), NET_3X3_PIXEL(r0, -24), , )                                         \
    NET_3X3_CHANNEL(0, h, r1, r2, r3, r4, W(2, K1), , , )                                                               \
    NET_3X3_CHANNEL(3, g, r1, r2, r3, r4, W(3, K1), , , )                                                               \
    NET_3X3_CHANNEL(2, h, r1, r2, r3, r4, W(0, K2), NET_3X3_PIXEL(r2, -8), NET_3X3_PIXEL(r1, -16), NET_3X3_PLANE(r3))   \
    NET_3X3_CHANNEL(1, g, r0, r1, r2, r3, W(1, K2), , , )                                                               \
    NET_3X3_CHANNEL(0, h, r0, r1, r2, r3, W(2, K2), , MOVE_0, MOVE_1)                                                   \
    NET_3X3_CHANNEL(3, g, r0, r1, r2, r3, W_LAST, MOVE_2, MOVE_3, MOVE_4)                                               \
    NET_3X3_CHANNEL(2, h, r0, r1, r2, r3, W(0, K0), NET_3X3_PIXEL(r1, -20), NET_3X3_PIXEL(r0, -28), NET_3X3_PIXEL(r3, -4))
#define NET_3X3_FIRST_2 NET_3X3_PIXEL(r1, -20) NET_3X3_PIXEL(r0, -28) NET_3X3_PIXEL(r3, -4)

/* Three rows of taps. What the first multiplications need of a fourth is loaded as well: it lies in the tile, for there are
 * two input channels at least.
 */
#define NET_3X3_MOVE(value, pointer) "add %[" #pointer "], %[" #pointer "], %[" #value "]\n"
#define NET_3X3_VALUE(r, value) "lw %[" #r "], %[" #value "]\n"
#define NET_3X3_BLOCK(FIRST, TAPS, W, W_LAST, K0, K1, K2, FREE, MOVE_C, MOVE_D, INNER, OUTER)                           \
    FIRST W(0, K0) NET_REPEAT_OUTER("%[h]", OUTER)                                                                      \
    NET_3X3_VALUE(h, more) NET_REPEAT("%[h]", INNER) TAPS(W, W_LAST, K0, K1, K2, , , , , )                              \
    NET_REPEAT_END TAPS(W, W_LAST, K0, K1, K2, NET_3X3_VALUE(FREE, w_next), MOVE_C, MOVE_D, NET_3X3_VALUE(FREE, x_next), \
                        NET_3X3_MOVE(FREE, x)) NET_REPEAT_END

#define NET_3X3_RUN(text)                                                                                               \
    do {                                                                                                                \
        float r0, r1, r2, r3, r4, g;                                                                                    \
        int32_t h = 3;                                                                                                  \
        __asm__ volatile(text                                                                                           \
                         : [s00] "+r"(sum[0][0]), [s01] "+r"(sum[0][1]), [s02] "+r"(sum[0][2]), [s03] "+r"(sum[0][3]),  \
                           [s10] "+r"(sum[1][0]), [s11] "+r"(sum[1][1]), [s12] "+r"(sum[1][2]), [s13] "+r"(sum[1][3]),  \
                           [s20] "+r"(sum[2][0]), [s21] "+r"(sum[2][1]), [s22] "+r"(sum[2][2]), [s23] "+r"(sum[2][3]),  \
                           [s30] "+r"(sum[3][0]), [s31] "+r"(sum[3][1]), [s32] "+r"(sum[3][2]), [s33] "+r"(sum[3][3]),  \
                           [r0] "=&r"(r0), [r1] "=&r"(r1), [r2] "=&r"(r2), [r3] "=&r"(r3), [r4] "=&r"(r4),              \
                           [g] "=&r"(g), [h] "+r"(h), [x] "+r"(x), [c] "+r"(c), [d] "+r"(d)                             \
                         : [w_step] "r"(w_step), [x_step] "r"(x_step), [more] "m"(more), [x_next] "m"(x_next),          \
                           [w_next] "m"(w_next)                                                                         \
                         : "memory");                                                                                   \
    } while (0)

/* Sums of 4 channels x 4 pixels over all taps of `in` planes, 2 or more; distances in bytes. w is the first tap's weight of
 * the first channel, or of the last tap if REVERSED.
 */
NET_KERNEL void net_conv_3x3_loop(const int32_t S, const bool REVERSED, float sum[4][4], const float *x, intptr_t x_row,
                                  intptr_t x_step, const float *w, intptr_t w_out, intptr_t w_in, int32_t in)
{
    const intptr_t w_step = REVERSED ? w_in : w_out;
    const intptr_t x_next = x_row - in * x_step, w_next = REVERSED ? -12 - in * w_in : 12 - in * w_in;
    const int32_t more = in - 1;
    const float *c = REVERSED ? w + 16 : w, *d = net_moved(w, 2 * w_out);
    x += S == 1 ? 5 : 7;
    if (REVERSED)
        NET_3X3_RUN(NET_3X3_BLOCK(NET_3X3_FIRST_1, NET_3X3_1, NET_3X3_TURNED, NET_3X3_TURNED_LAST, "8", "4", "0", r1, ,
                                  NET_3X3_MOVE(r1, c), 264, 552));
    else if (S == 1)
        NET_3X3_RUN(NET_3X3_BLOCK(NET_3X3_FIRST_1, NET_3X3_1, NET_3X3_ROWS, NET_3X3_ROWS(3, "28"), "4", "4", "28", r1,
                                  NET_3X3_MOVE(r1, c), NET_3X3_MOVE(r1, d), 264, 556));
    else
        NET_3X3_RUN(NET_3X3_BLOCK(NET_3X3_FIRST_2, NET_3X3_2, NET_3X3_ROWS, NET_3X3_ROWS(3, "32"), "8", "-4", "32", r4,
                                  NET_3X3_MOVE(r4, c), NET_3X3_MOVE(r4, d), 276, 580));
}
#else
#define NET_CONV_3X3_LOOPS 0
NET_KERNEL void net_conv_3x3_loop(const int32_t S, const bool REVERSED, float sum[4][4], const float *x, intptr_t x_row,
                                  intptr_t x_step, const float *w, intptr_t w_out, intptr_t w_in, int32_t in)
{
    (void)S, (void)REVERSED, (void)sum, (void)x, (void)x_row, (void)x_step, (void)w, (void)w_out, (void)w_in, (void)in;
}
#endif

#endif
