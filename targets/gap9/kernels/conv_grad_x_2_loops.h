/* The hot loop of conv_grad_x_2.h for 3x3 taps and phases 1, in Xpulp's hardware loops and post-increment loads. */
#ifndef NET_CONV_GRAD_X_2_LOOPS_H
#define NET_CONV_GRAD_X_2_LOOPS_H

#include "conv_3x3_loops.h"

#if NET_CONV_3X3_LOOPS
/* What blocks need now and then, for which there is no register; distances in bytes. */
typedef struct {
    float *y;
    intptr_t y_row;
    int32_t blocks, accumulate, in;
    intptr_t x_back, w_back; /* set here */
} net_grad_x_2_loop_t;

/* The taps of one channel: two rows of pixels r0 to r4. Sums s0 and s1 are of the first row of dX, even and odd columns, s2
 * and s3 of the second. x points to r4, w to the weight that is loaded last.
 */
#define NET_X_2_WEIGHT(r, tap) "lw %[" #r "], 4 * " #tap "(%[w])\n"
#define NET_X_2_LAST(r, step) NET_LOAD_STEP("%[" #r "]", "%[x]", "%[" #step "]")
#define NET_X_2_TAPS                                                                                                    \
    NET_3X3_PIXEL(r1, -12) NET_X_2_WEIGHT(g, 8) NET_3X3_PIXEL(r0, -16)                                                  \
    NET_3X3_CHANNEL(3, g, r0, r1, r2, r3, NET_3X3_PIXEL(r3, -4), NET_3X3_PIXEL(r2, -8), NET_X_2_WEIGHT(h, 7),           \
                    NET_X_2_LAST(r4, x_row))                                                                            \
    NET_3X3_CHANNEL(2, h, r0, r1, r2, r3, NET_X_2_WEIGHT(g, 5), , , )                                                   \
    NET_3X3_CHANNEL(1, g, r0, r1, r2, r3, NET_X_2_WEIGHT(h, 4), , , )                                                   \
    NET_3X3_CHANNEL(0, h, r0, r1, r2, r3, NET_X_2_WEIGHT(g, 6), , , )                                                   \
    NET_3X3_CHANNEL(3, g, r1, r2, r3, r4, NET_X_2_WEIGHT(h, 3), NET_3X3_PIXEL(r0, -16), , )                             \
    NET_3X3_CHANNEL(1, h, r1, r2, r3, r4, NET_X_2_WEIGHT(g, 2), NET_3X3_PIXEL(r2, -8), NET_3X3_PIXEL(r1, -12),          \
                    NET_3X3_PIXEL(r3, -4))                                                                              \
    NET_3X3_CHANNEL(3, g, r0, r1, r2, r3, NET_X_2_WEIGHT(h, 1), , NET_X_2_LAST(r4, x_next), )                           \
    NET_3X3_CHANNEL(2, h, r0, r1, r2, r3, NET_LOAD_STEP("%[g]", "%[w]", "%[w_in]"), , , )                               \
    NET_3X3_CHANNEL(3, g, r1, r2, r3, r4, , , , )

#define NET_X_2_ROW(op, even, odd)                                                                                      \
    op " %[s" #even "0], 0(%[r0])\n" op " %[s" #odd "0], 4(%[r0])\n" op " %[s" #even "1], 8(%[r0])\n"                   \
    op " %[s" #odd "1], 12(%[r0])\n" op " %[s" #even "2], 16(%[r0])\n" op " %[s" #odd "2], 20(%[r0])\n"                 \
    op " %[s" #even "3], 24(%[r0])\n" op " %[s" #odd "3], 28(%[r0])\n"
#define NET_X_2_ZERO(t) "li %[s" #t "0], 0\nli %[s" #t "1], 0\nli %[s" #t "2], 0\nli %[s" #t "3], 0\n"

#define NET_X_2_BLOCKS                                                                                                  \
    "1:\n" NET_3X3_VALUE(r2, accumulate) NET_3X3_VALUE(h, in) "beqz %[r2], 2f\n"                                        \
    NET_3X3_VALUE(r0, y) NET_3X3_VALUE(r1, y_row) NET_X_2_ROW("lw", 0, 1) NET_3X3_MOVE(r1, r0) NET_X_2_ROW("lw", 2, 3)  \
    "j 3f\n2:\n" NET_X_2_ZERO(0) NET_X_2_ZERO(1) NET_X_2_ZERO(2) NET_X_2_ZERO(3) "3:\n"                                 \
    NET_REPEAT("%[h]", 220) NET_X_2_TAPS NET_REPEAT_END                                                                 \
    NET_3X3_VALUE(r0, y) NET_3X3_VALUE(r1, y_row) "addi %[r2], %[r0], 32\nsw %[r2], %[y]\n" NET_X_2_ROW("sw", 0, 1)     \
    NET_3X3_MOVE(r1, r0) NET_3X3_VALUE(r1, x_back) NET_X_2_ROW("sw", 2, 3) NET_3X3_VALUE(r2, blocks)                    \
    NET_3X3_VALUE(r3, w_back) NET_3X3_MOVE(r1, x) "addi %[r2], %[r2], -1\n" NET_3X3_MOVE(r3, w)                         \
    "sw %[r2], %[blocks]\nbnez %[r2], 1b\n"

/* `all.blocks` blocks of 2 x 8 elements of dX, 1 at least; distances of rows, planes and weights. */
NET_KERNEL void net_grad_x_2_loop(net_grad_x_2_loop_t all, const float *x, intptr_t x_row, intptr_t x_plane, const float *w,
                                  intptr_t w_in)
{
    float r0, r1, r2, r3, r4, g, h, s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33;
    const intptr_t x_next = x_plane - x_row;
    all.x_back = 16 - all.in * x_plane;
    all.w_back = -all.in * w_in;
    x += 4;
    __asm__ volatile(NET_X_2_BLOCKS
                     : [s00] "=&r"(s00), [s01] "=&r"(s01), [s02] "=&r"(s02), [s03] "=&r"(s03), [s10] "=&r"(s10),
                       [s11] "=&r"(s11), [s12] "=&r"(s12), [s13] "=&r"(s13), [s20] "=&r"(s20), [s21] "=&r"(s21),
                       [s22] "=&r"(s22), [s23] "=&r"(s23), [s30] "=&r"(s30), [s31] "=&r"(s31), [s32] "=&r"(s32),
                       [s33] "=&r"(s33), [r0] "=&r"(r0), [r1] "=&r"(r1), [r2] "=&r"(r2), [r3] "=&r"(r3), [r4] "=&r"(r4),
                       [g] "=&r"(g), [h] "=&r"(h), [x] "+r"(x), [w] "+r"(w), [y] "+m"(all.y), [blocks] "+m"(all.blocks)
                     : [w_in] "r"(w_in), [x_row] "r"(x_row), [x_next] "r"(x_next), [in] "m"(all.in),
                       [accumulate] "m"(all.accumulate), [x_back] "m"(all.x_back), [w_back] "m"(all.w_back),
                       [y_row] "m"(all.y_row)
                     : "memory");
}
#else
typedef struct {
    float *y;
    intptr_t y_row;
    int32_t blocks, accumulate, in;
} net_grad_x_2_loop_t;

NET_KERNEL void net_grad_x_2_loop(net_grad_x_2_loop_t all, const float *x, intptr_t x_row, intptr_t x_plane, const float *w,
                                  intptr_t w_in)
{
    (void)all, (void)x, (void)x_row, (void)x_plane, (void)w, (void)w_in;
}
#endif

#endif
