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

/* A row of taps of one input channel. x points to the pixel that is loaded last. Nothing is loaded for the next one: the
 * loop's few loads side by side cost less than what a last row of its own does not leave of the instruction cache.
 */
#define NET_3X3_PIXEL(r, offset) "lw %[" #r "], " #offset "(%[x])\n"
#define NET_3X3_PLANE(r) NET_LOAD_STEP("%[" #r "]", "%[x]", "%[x_step]")
#define NET_3X3_1(W, W_LAST, K0, K1, K2)                                                                                \
    NET_3X3_PIXEL(r1, -16) W(0, K0) NET_3X3_PIXEL(r0, -20)                                                              \
    NET_3X3_CHANNEL(1, g, r0, r1, r2, r3, NET_3X3_PIXEL(r3, -8), NET_3X3_PIXEL(r2, -12), W(1, K0), NET_3X3_PIXEL(r4, -4)) \
    NET_3X3_CHANNEL(0, h, r0, r1, r2, r3, W(2, K0), , , )                                                               \
    NET_3X3_CHANNEL(3, g, r0, r1, r2, r3, W(3, K0), , , )                                                               \
    NET_3X3_CHANNEL(2, h, r0, r1, r2, r3, W(0, K1), , , )                                                               \
    NET_3X3_CHANNEL(1, g, r1, r2, r3, r4, W(1, K1), NET_3X3_PLANE(r0), , )                                              \
    NET_3X3_CHANNEL(0, h, r1, r2, r3, r4, W(2, K1), , , )                                                               \
    NET_3X3_CHANNEL(3, g, r1, r2, r3, r4, W(3, K1), , , )                                                               \
    NET_3X3_CHANNEL(2, h, r1, r2, r3, r4, W(0, K2), , , )                                                               \
    NET_3X3_CHANNEL(1, g, r2, r3, r4, r0, W(1, K2), , , )                                                               \
    NET_3X3_CHANNEL(0, h, r2, r3, r4, r0, W(2, K2), , , )                                                               \
    NET_3X3_CHANNEL(3, g, r2, r3, r4, r0, W_LAST, , , )                                                                 \
    NET_3X3_CHANNEL(2, h, r2, r3, r4, r0, , , , )

/* The same for stride 2: taps 0, 2, 1, so that the second needs one more pixel, and the third four. */
#define NET_3X3_2(W, W_LAST, K0, K1, K2)                                                                                \
    NET_3X3_PIXEL(r1, -20) W(0, K0) NET_3X3_PIXEL(r0, -28)                                                              \
    NET_3X3_CHANNEL(1, g, r0, r1, r2, r3, NET_3X3_PIXEL(r3, -4), NET_3X3_PIXEL(r2, -12), W(1, K0), )                    \
    NET_3X3_CHANNEL(0, h, r0, r1, r2, r3, W(2, K0), NET_3X3_PIXEL(r4, 4), , )                                           \
    NET_3X3_CHANNEL(3, g, r0, r1, r2, r3, W(3, K0), , , )                                                               \
    NET_3X3_CHANNEL(2, h, r0, r1, r2, r3, W(0, K1), , , )                                                               \
    NET_3X3_CHANNEL(1, g, r1, r2, r3, r4, W(1, K1), NET_3X3_PIXEL(r0, -24), , )                                         \
    NET_3X3_CHANNEL(0, h, r1, r2, r3, r4, W(2, K1), , , )                                                               \
    NET_3X3_CHANNEL(3, g, r1, r2, r3, r4, W(3, K1), , , )                                                               \
    NET_3X3_CHANNEL(2, h, r1, r2, r3, r4, W(0, K2), NET_3X3_PIXEL(r2, -8), NET_3X3_PIXEL(r1, -16), NET_3X3_PLANE(r3))   \
    NET_3X3_CHANNEL(1, g, r0, r1, r2, r3, W(1, K2), , , )                                                               \
    NET_3X3_CHANNEL(0, h, r0, r1, r2, r3, W(2, K2), , , )                                                               \
    NET_3X3_CHANNEL(3, g, r0, r1, r2, r3, W_LAST, , , )                                                                 \
    NET_3X3_CHANNEL(2, h, r0, r1, r2, r3, , , , )

/* What blocks need now and then, for which there is no register; distances in bytes. */
typedef struct {
    const float *bias; /* 4 of them */
    float *y;
    intptr_t y_plane;
    int32_t blocks, accumulate;
    intptr_t x_next, w_next, x_back, in; /* set here */
} net_conv_3x3_t;

#define NET_3X3_VALUE(r, value) "lw %[" #r "], %[" #value "]\n"
#define NET_3X3_MOVE(value, pointer) "add %[" #pointer "], %[" #pointer "], %[" #value "]\n"

/* Sums at first: of y, or the bias; r0 points to y, r1 is the distance to the next channel. */
#define NET_3X3_FROM(o)                                                                                                 \
    "lw %[s" #o "0], 0(%[r0])\nlw %[s" #o "1], 4(%[r0])\nlw %[s" #o "2], 8(%[r0])\nlw %[s" #o "3], 12(%[r0])\n"
#define NET_3X3_SPREAD(o) "mv %[s" #o "1], %[s" #o "0]\nmv %[s" #o "2], %[s" #o "0]\nmv %[s" #o "3], %[s" #o "0]\n"
#define NET_3X3_START                                                                                                   \
    NET_3X3_VALUE(r2, accumulate) NET_3X3_VALUE(r0, bias) "beqz %[r2], 2f\n"                                            \
    NET_3X3_VALUE(r0, y) NET_3X3_VALUE(r1, y_plane) NET_3X3_FROM(0) NET_3X3_MOVE(r1, r0) NET_3X3_FROM(1)                \
    NET_3X3_MOVE(r1, r0) NET_3X3_FROM(2) NET_3X3_MOVE(r1, r0) NET_3X3_FROM(3) "j 3f\n2:\n"                              \
    "lw %[s00], 0(%[r0])\nlw %[s10], 4(%[r0])\nlw %[s20], 8(%[r0])\nlw %[s30], 12(%[r0])\n"                             \
    NET_3X3_SPREAD(0) NET_3X3_SPREAD(1) NET_3X3_SPREAD(2) NET_3X3_SPREAD(3) "3:\n"

/* Sums in the end. */
#define NET_3X3_TO(o)                                                                                                   \
    "sw %[s" #o "0], 0(%[r0])\nsw %[s" #o "1], 4(%[r0])\nsw %[s" #o "2], 8(%[r0])\nsw %[s" #o "3], 12(%[r0])\n"
#define NET_3X3_FINISH                                                                                                  \
    NET_3X3_VALUE(r0, y) NET_3X3_VALUE(r1, y_plane) "addi %[r2], %[r0], 16\nsw %[r2], %[y]\n" NET_3X3_TO(0)             \
    NET_3X3_MOVE(r1, r0) NET_3X3_TO(1) NET_3X3_MOVE(r1, r0) NET_3X3_TO(2) NET_3X3_MOVE(r1, r0) NET_3X3_TO(3)

/* Blocks: three rows of taps each. */
#define NET_3X3_BLOCKS(TAPS, W, W_LAST, K0, K1, K2, MOVE_D, BACK, INNER, OUTER)                                         \
    "1:\n" NET_3X3_START "li %[h], 3\n" NET_REPEAT_OUTER("%[h]", OUTER)                                                 \
    NET_3X3_VALUE(h, in) NET_REPEAT("%[h]", INNER) TAPS(W, W_LAST, K0, K1, K2) NET_REPEAT_END                         \
    NET_3X3_VALUE(r0, w_next) NET_3X3_VALUE(r1, x_next) NET_3X3_MOVE(r0, c) MOVE_D NET_3X3_MOVE(r1, x) NET_REPEAT_END   \
    NET_3X3_FINISH NET_3X3_VALUE(r1, x_back) NET_3X3_VALUE(r0, blocks) NET_3X3_MOVE(r1, x)                              \
    "addi %[r0], %[r0], -1\nsw %[r0], %[blocks]\n" BACK "bnez %[r0], 1b\n"

#define NET_3X3_RUN(text)                                                                                               \
    do {                                                                                                                \
        float r0, r1, r2, r3, r4, g, h, s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33; \
        __asm__ volatile(text                                                                                           \
                         : [s00] "=&r"(s00), [s01] "=&r"(s01), [s02] "=&r"(s02), [s03] "=&r"(s03), [s10] "=&r"(s10),    \
                           [s11] "=&r"(s11), [s12] "=&r"(s12), [s13] "=&r"(s13), [s20] "=&r"(s20), [s21] "=&r"(s21),    \
                           [s22] "=&r"(s22), [s23] "=&r"(s23), [s30] "=&r"(s30), [s31] "=&r"(s31), [s32] "=&r"(s32),    \
                           [s33] "=&r"(s33), [r0] "=&r"(r0), [r1] "=&r"(r1), [r2] "=&r"(r2), [r3] "=&r"(r3),            \
                           [r4] "=&r"(r4), [g] "=&r"(g), [h] "=&r"(h), [x] "+r"(x), [c] "+r"(c), [d] "+r"(d),           \
                           [y] "+m"(all.y), [blocks] "+m"(all.blocks)                                                   \
                         : [w_step] "r"(w_step), [x_step] "r"(x_step), [in] "m"(all.in), [bias] "m"(all.bias),      \
                           [x_next] "m"(all.x_next), [w_next] "m"(all.w_next), [x_back] "m"(all.x_back),                \
                           [y_plane] "m"(all.y_plane), [accumulate] "m"(all.accumulate)                                 \
                         : "memory");                                                                                   \
    } while (0)

/* `all.blocks` blocks of 4 channels x 4 pixels, 1 at least, over `in` planes. w is the first tap's weight of the
 * first channel, or of the last tap if REVERSED; x_row, x_step, w_out and w_in are the distances of rows, planes and weights.
 */
NET_KERNEL void net_conv_3x3_loop(const int32_t S, const bool REVERSED, net_conv_3x3_t all, const float *x, intptr_t x_row,
                                  intptr_t x_step, const float *w, intptr_t w_out, intptr_t w_in, int32_t in)
{
    const intptr_t w_step = REVERSED ? w_in : w_out;
    const float *c = REVERSED ? w + 16 : w, *d = net_moved(w, 2 * w_out);
    all.x_next = x_row - in * x_step;
    all.w_next = REVERSED ? -12 - in * w_in : 12 - in * w_in;
    all.x_back = 16 * S - 3 * x_row;
    all.in = in;
    x += S == 1 ? 5 : 7;
    if (REVERSED)
        NET_3X3_RUN(NET_3X3_BLOCKS(NET_3X3_1, NET_3X3_TURNED, NET_3X3_TURNED_LAST, "8", "4", "0", , "addi %[c], %[c], 36\n", 264, 288));
    else if (S == 1)
        NET_3X3_RUN(NET_3X3_BLOCKS(NET_3X3_1, NET_3X3_ROWS, NET_3X3_ROWS(3, "28"), "4", "4", "28", 
                                   NET_3X3_MOVE(r0, d),
                                   "addi %[c], %[c], -36\naddi %[d], %[d], -36\n", 264, 292));
    else
        NET_3X3_RUN(NET_3X3_BLOCKS(NET_3X3_2, NET_3X3_ROWS, NET_3X3_ROWS(3, "32"), "8", "-4", "32", 
                                   NET_3X3_MOVE(r0, d),
                                   "addi %[c], %[c], -36\naddi %[d], %[d], -36\n", 276, 304));
}
#else
#define NET_CONV_3X3_LOOPS 0
typedef struct {
    const float *bias;
    float *y;
    intptr_t y_plane;
    int32_t blocks, accumulate;
} net_conv_3x3_t;

NET_KERNEL void net_conv_3x3_loop(const int32_t S, const bool REVERSED, net_conv_3x3_t all, const float *x, intptr_t x_row,
                                  intptr_t x_step, const float *w, intptr_t w_out, intptr_t w_in, int32_t in)
{
    (void)S, (void)REVERSED, (void)all, (void)x, (void)x_row, (void)x_step, (void)w, (void)w_out, (void)w_in, (void)in;
}
#endif

#endif
