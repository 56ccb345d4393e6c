/* The hot loop of conv_1x1.h for 4 channels x up to 4 pixels or channels, in Xpulp's hardware loops. */
#ifndef NET_CONV_1X1_LOOPS_H
#define NET_CONV_1X1_LOOPS_H

#include "kernel.h"
#include "xpulp.h"

#if defined(NET_XPULP) && defined(__riscv_zfinx) && defined(__clang__) /* GCC takes 30 operands at most */
#define NET_CONV_1X1_LOOPS 1

/* An outer product: sums s00 to s33 of factors p0 to p3 of one side, and of four of the other that g and h take in turn.
 * NEXT(0) to NEXT(3) load the latter, FACTOR(n) the former, FINAL(n) the last of them. A load stands alone between
 * multiplications, and never just before its use; FIRST_n loads what the first multiplications need.
 */
#define NET_1X1_ADD(o, p, w) "fmadd.s %[s" #o #p "], %[p" #p "], %[" #w "], %[s" #o #p "]\n"
#define NET_1X1_2(o, w, load) NET_1X1_ADD(o, 0, w) load NET_1X1_ADD(o, 1, w)
#define NET_1X1_3(o, w, load) NET_1X1_2(o, w, load) NET_1X1_ADD(o, 2, w)
#define NET_1X1_4(o, w, load) NET_1X1_3(o, w, load) NET_1X1_ADD(o, 3, w)

#define NET_1X1_FIRST_4(FACTOR, FINAL, NEXT) FACTOR(0) FACTOR(1) FACTOR(2) NEXT(0)
#define NET_1X1_FIRST_3(FACTOR, FINAL, NEXT) FACTOR(0) FACTOR(1) NEXT(0)
#define NET_1X1_FIRST_2(FACTOR, FINAL, NEXT) FACTOR(0) NEXT(0)
#define NET_1X1_FIRST_1(FACTOR, FINAL, NEXT) FINAL(0) NEXT(0) NEXT(1)

/* All that the last product has too. */
#define NET_1X1_MAIN_4(FINAL, NEXT)                                                                                     \
    NET_1X1_ADD(0, 0, g) FINAL(3) NET_1X1_ADD(0, 1, g) NEXT(1) NET_1X1_ADD(0, 2, g) NET_1X1_ADD(0, 3, g)                \
        NET_1X1_4(1, h, NEXT(2)) NET_1X1_4(2, g, NEXT(3))
#define NET_1X1_MAIN_3(FINAL, NEXT)                                                                                     \
    NET_1X1_ADD(0, 0, g) FINAL(2) NET_1X1_ADD(0, 1, g) NEXT(1) NET_1X1_ADD(0, 2, g) NET_1X1_3(1, h, NEXT(2))            \
        NET_1X1_3(2, g, NEXT(3))
#define NET_1X1_MAIN_2(FINAL, NEXT)                                                                                     \
    NET_1X1_ADD(0, 0, g) FINAL(1) NEXT(1) NET_1X1_ADD(0, 1, g) NET_1X1_2(1, h, NEXT(2)) NET_1X1_2(2, g, NEXT(3))
#define NET_1X1_MAIN_1(FINAL, NEXT) NET_1X1_ADD(0, 0, g) NEXT(2) NET_1X1_ADD(1, 0, h) NEXT(3) NET_1X1_ADD(2, 0, g)

/* The rest, with loads for the next product, and without. */
#define NET_1X1_REST_4(FACTOR, FINAL, NEXT)                                                                             \
    NET_1X1_ADD(3, 0, h) NEXT(0) NET_1X1_ADD(3, 1, h) FACTOR(0) NET_1X1_ADD(3, 2, h) FACTOR(1) NET_1X1_ADD(3, 3, h) FACTOR(2)
#define NET_1X1_REST_3(FACTOR, FINAL, NEXT)                                                                             \
    NET_1X1_ADD(3, 0, h) NEXT(0) NET_1X1_ADD(3, 1, h) FACTOR(0) NET_1X1_ADD(3, 2, h) FACTOR(1)
#define NET_1X1_REST_2(FACTOR, FINAL, NEXT) NEXT(0) NET_1X1_ADD(3, 0, h) FACTOR(0) NET_1X1_ADD(3, 1, h)
#define NET_1X1_REST_1(FACTOR, FINAL, NEXT) NEXT(0) NET_1X1_ADD(3, 0, h) FINAL(0) NEXT(1)
#define NET_1X1_END_4 NET_1X1_4(3, h, )
#define NET_1X1_END_3 NET_1X1_3(3, h, )
#define NET_1X1_END_2 NET_1X1_2(3, h, )
#define NET_1X1_END_1 NET_1X1_ADD(3, 0, h)

/* Products of P factors, one more than p3 says at first: registers are just enough, so it has p3's until that is loaded. */
#define NET_1X1_PRODUCTS(P, BODY, FACTOR, FINAL, NEXT)                                                                  \
    NET_1X1_FIRST_##P(FACTOR, FINAL, NEXT) "beqz %[p3], 1f\n" NET_REPEAT("%[p3]", BODY) NET_1X1_MAIN_##P(FINAL, NEXT)   \
        NET_1X1_REST_##P(FACTOR, FINAL, NEXT) NET_REPEAT_END "1:\n" NET_1X1_MAIN_##P(FINAL, NEXT) NET_1X1_END_##P

/* Runs such a text, with p3 = start and operands beyond those that all have. */
#define NET_1X1_RUN(text, start, ...)                                                                                   \
    do {                                                                                                                \
        float p0, p1, p2, g, h;                                                                                         \
        int32_t p3 = start;                                                                                             \
        __asm__ volatile(text                                                                                           \
                         : [s00] "+r"(s[0][0]), [s01] "+r"(s[0][1]), [s02] "+r"(s[0][2]), [s03] "+r"(s[0][3]),          \
                           [s10] "+r"(s[1][0]), [s11] "+r"(s[1][1]), [s12] "+r"(s[1][2]), [s13] "+r"(s[1][3]),          \
                           [s20] "+r"(s[2][0]), [s21] "+r"(s[2][1]), [s22] "+r"(s[2][2]), [s23] "+r"(s[2][3]),          \
                           [s30] "+r"(s[3][0]), [s31] "+r"(s[3][1]), [s32] "+r"(s[3][2]), [s33] "+r"(s[3][3]),          \
                           [p0] "=&r"(p0), [p1] "=&r"(p1), [p2] "=&r"(p2), [p3] "+r"(p3), [g] "=&r"(g), [h] "=&r"(h),   \
                           [a] "+r"(a), __VA_ARGS__                                                                     \
                         : [a_step] "r"(a_step), [c_step] "r"(c_step), [next] "i"(next)                                 \
                         : "memory");                                                                                   \
    } while (0)

/* Pixels side by side, the last of which leads to the next plane. */
#define NET_1X1_PIXEL(n) NET_LOAD_NEXT("%[p" #n "]", "%[a]", "%[next]")
#define NET_1X1_PLANE(n) NET_LOAD_STEP("%[p" #n "]", "%[a]", "%[a_step]")
/* Weights side by side, likewise. */
#define NET_1X1_ALONG(n) NET_1X1_ALONG_##n
#define NET_1X1_ALONG_0 NET_LOAD_NEXT("%[g]", "%[c]", "4")
#define NET_1X1_ALONG_1 NET_LOAD_NEXT("%[h]", "%[c]", "4")
#define NET_1X1_ALONG_2 NET_LOAD_NEXT("%[g]", "%[c]", "4")
#define NET_1X1_ALONG_3 NET_LOAD_STEP("%[h]", "%[c]", "%[c_step]")
/* Rows of two pointers, a step from one to the next; first the second row of each, then the first, which moves on. */
#define NET_1X1_ROWS(n) NET_1X1_ROWS_##n
#define NET_1X1_ROWS_0 NET_LOAD_AT("%[g]", "%[c]", "%[c_step]")
#define NET_1X1_ROWS_1 NET_LOAD_NEXT("%[h]", "%[c]", "4")
#define NET_1X1_ROWS_2 NET_LOAD_AT("%[g]", "%[d]", "%[c_step]")
#define NET_1X1_ROWS_3 NET_LOAD_NEXT("%[h]", "%[d]", "4")
#define NET_1X1_PLANES(n) NET_1X1_PLANES_##n
#define NET_1X1_PLANES_0 NET_LOAD_AT("%[p0]", "%[a]", "%[a_step]")
#define NET_1X1_PLANES_1 NET_LOAD_NEXT("%[p1]", "%[a]", "%[next]")
#define NET_1X1_PLANES_2 NET_LOAD_AT("%[p2]", "%[b]", "%[a_step]")
#define NET_1X1_PLANES_3 NET_LOAD_NEXT("%[p3]", "%[b]", "%[next]")

#define NET_1X1_PIXELS(P, BODY, NEXT, ...)                                                                              \
    NET_1X1_RUN(NET_1X1_PRODUCTS(P, BODY, NET_1X1_PIXEL, NET_1X1_PLANE, NEXT), count - 1, __VA_ARGS__)
#define NET_1X1_ANY_PIXELS(NEXT, ...)                                                                                   \
    do {                                                                                                                \
        if (PX == 4)                                                                                                    \
            NET_1X1_PIXELS(4, 96, NEXT, __VA_ARGS__);                                                                   \
        else if (PX == 3)                                                                                               \
            NET_1X1_PIXELS(3, 76, NEXT, __VA_ARGS__);                                                                   \
        else if (PX == 2)                                                                                               \
            NET_1X1_PIXELS(2, 56, NEXT, __VA_ARGS__);                                                                   \
        else                                                                                                            \
            NET_1X1_PIXELS(1, 36, NEXT, __VA_ARGS__);                                                                   \
    } while (0)

/* sum[o][p] += x[p * STEP] * w[o] over `count` planes of x; `to_row` bytes between weights of two output channels, or,
 * REVERSED, of two input channels.
 */
NET_KERNEL void net_conv_1x1_loop(const int32_t STEP, const bool REVERSED, const int32_t PX, float sum[4][4], const float *a,
                                  intptr_t plane, const float *c, intptr_t to_row, int32_t count)
{
    const int32_t next = 4 * STEP;
    const intptr_t a_step = plane - next * (PX - 1), c_step = REVERSED ? to_row - 12 : to_row;
    const float *d = net_moved(c, 2 * to_row);
    float s[4][4];
    NET_UNROLLED
    for (int32_t n = 0; n < 16; ++n)
        s[n / 4][n % 4] = sum[REVERSED ? n / 4 : n / 4 ^ 1][n % 4];
    if (REVERSED)
        NET_1X1_ANY_PIXELS(NET_1X1_ALONG, [c] "+r"(c));
    else
        NET_1X1_ANY_PIXELS(NET_1X1_ROWS, [c] "+r"(c), [d] "+r"(d));
    NET_UNROLLED
    for (int32_t n = 0; n < 16; ++n)
        sum[REVERSED ? n / 4 : n / 4 ^ 1][n % 4] = s[n / 4][n % 4];
}

/* Rows of such products; what is needed once a row is in memory. */
#define NET_1X1_W_ROWS                                                                                                  \
    NET_REPEAT_OUTER("%[p3]", 228)                                                                                      \
    "lw %[p3], %[more]\n" NET_1X1_PRODUCTS(4, 96, NET_1X1_PLANES, NET_1X1_PLANES, NET_1X1_ROWS)                         \
    "lw %[p0], %[x_gap]\n"                                                                                              \
    "lw %[p1], %[y_gap]\n"                                                                                              \
    "add %[a], %[a], %[p0]\n"                                                                                           \
    "add %[b], %[b], %[p0]\n"                                                                                           \
    "add %[c], %[c], %[p1]\n"                                                                                           \
    "add %[d], %[d], %[p1]\n" NET_REPEAT_END

/* sum[o][i] += dy[o] * x[i] over rows of pixels. Planes and gaps behind rows are in bytes. */
NET_KERNEL void net_conv_1x1_w_loop(const int32_t S, float sum[4][4], const float *a, intptr_t a_step, intptr_t x_gap,
                                    const float *c, intptr_t c_step, intptr_t y_gap, int32_t rows, int32_t columns)
{
    const int32_t next = 4 * S;
    const float *b = net_moved(a, 2 * a_step), *d = net_moved(c, 2 * c_step);
    int32_t more = columns - 1;
    float s[4][4];
    NET_UNROLLED
    for (int32_t n = 0; n < 16; ++n)
        s[n / 4][n % 4] = sum[n / 4 ^ 1][n % 4 ^ 1];
    NET_1X1_RUN(NET_1X1_W_ROWS, rows, [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [x_gap] "+m"(x_gap), [y_gap] "+m"(y_gap),
                [more] "+m"(more));
    NET_UNROLLED
    for (int32_t n = 0; n < 16; ++n)
        sum[n / 4 ^ 1][n % 4 ^ 1] = s[n / 4][n % 4];
}
#else
#define NET_CONV_1X1_LOOPS 0
NET_KERNEL void net_conv_1x1_loop(const int32_t STEP, const bool REVERSED, const int32_t PX, float sum[4][4], const float *a,
                                  intptr_t plane, const float *c, intptr_t to_row, int32_t count)
{
    (void)STEP, (void)REVERSED, (void)PX, (void)sum, (void)a, (void)plane, (void)c, (void)to_row, (void)count;
}

NET_KERNEL void net_conv_1x1_w_loop(const int32_t S, float sum[4][4], const float *a, intptr_t a_step, intptr_t x_gap,
                                    const float *c, intptr_t c_step, intptr_t y_gap, int32_t rows, int32_t columns)
{
    (void)S, (void)sum, (void)a, (void)a_step, (void)x_gap, (void)c, (void)c_step, (void)y_gap, (void)rows, (void)columns;
}
#endif

#endif
