/* Hot loops of minimal filtering: the 16 matrix products of a block, which is 4x4 lanes, m[k] = sum over n of u[n][k] times
 * v[n][k] transposed; and the way back from such a block to results.
 */
#ifndef NET_WINOGRAD_LOOPS_H
#define NET_WINOGRAD_LOOPS_H

#include "kernel.h"
#include "xpulp.h"

#define NET_WINOGRAD_STEP 68   /* floats from one n to the next: 16 places of 4 lanes, and 4 so that all banks are used */
#define NET_WINOGRAD_BLOCK 256 /* floats of a block: 16 places of 4x4 lanes */

/* At m A of a lane of a block: 2x2 results, each with `start` added to it, which is in all of them if it is in the middle of m. */
NET_KERNEL void net_patch_result(float y[4], const float *m, float start)
{
    float sum[4], difference[4];
    NET_UNROLLED
    for (int32_t j = 0; j < 4; ++j) {
        const float m1 = m[16 * j + 64], m2 = m[16 * j + 128], middle = j == 1 ? m1 + start : m1;
        sum[j] = m[16 * j] + middle + m2;
        difference[j] = middle - m2 + m[16 * j + 192];
    }
    y[0] = sum[0] + sum[1] + sum[2];
    y[1] = sum[1] - sum[2] + sum[3];
    y[2] = difference[0] + difference[1] + difference[2];
    y[3] = difference[1] - difference[2] + difference[3];
}

#if defined(NET_XPULP) && defined(__riscv_zfinx) && defined(__clang__)
#define NET_PRODUCT_ADD(i, j, b) NET_FUSED("fmadd.s", s##i##j, a##i, b, s##i##j)
#define NET_PRODUCT_SET(i, j, b) NET_OP("fmul.s", s##i##j, a##i, b)
#define NET_PRODUCT_KEEP(i) NET_STORE(s##i##0, m) NET_STORE(s##i##1, m) NET_STORE(s##i##2, m) NET_STORE(s##i##3, m)
#define NET_PRODUCT_LAST(d, from) ".insn i 0x0b, 2, %[" #d "], 260(%[" #from "])\n" /* to the next n */

/* Loads stand one by one among multiplications, well before their use: those of the next n at the end. */
#define NET_PRODUCT_N(DO)                                                                                               \
    DO(0, 0, b0) NET_LOAD(b1, v) DO(1, 0, b0) DO(2, 0, b0) DO(3, 0, b0) DO(0, 1, b1) NET_LOAD(b0, v) DO(1, 1, b1)       \
    DO(2, 1, b1) DO(3, 1, b1) DO(0, 2, b0) NET_PRODUCT_LAST(b1, v) DO(1, 2, b0) DO(2, 2, b0) DO(3, 2, b0)               \
    NET_LOAD(b0, v) DO(0, 3, b1) NET_LOAD(a0, u) DO(1, 3, b1) NET_LOAD(a1, u) DO(2, 3, b1) NET_LOAD(a2, u) DO(3, 3, b1) \
    NET_PRODUCT_LAST(a3, u)

#define NET_PRODUCT_ROW(i) [s##i##0] "=&r"(s##i##0), [s##i##1] "=&r"(s##i##1), [s##i##2] "=&r"(s##i##2), [s##i##3] "=&r"(s##i##3)

/* `count` values of n, at least one. Loads go one n too far. */
NET_HOT void net_winograd_product(const float *u_at, const float *v_at, int32_t count, float *m)
{
    const int32_t others = count - 1;
    const float *u, *v;
    float s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33, a0, a1, a2, a3, b0, b1;
    __asm__ volatile("li %[b1], 16\n" NET_REPEAT_OUTER("%[b1]", 304)
                     "mv %[u], %[u_at]\n"
                     "mv %[v], %[v_at]\n"
                     NET_LOAD(a0, u) NET_LOAD(b0, v) NET_LOAD(a1, u) NET_LOAD(a2, u) NET_PRODUCT_LAST(a3, u)
                     "addi %[u_at], %[u_at], 16\n"
                     NET_PRODUCT_N(NET_PRODUCT_SET)
                     "lw %[b1], %[others]\n"
                     "addi %[v_at], %[v_at], 16\n"
                     "beqz %[b1], 1f\n"
                     NET_REPEAT("%[b1]", 96) NET_PRODUCT_N(NET_PRODUCT_ADD) NET_REPEAT_END "1:\n"
                     NET_PRODUCT_KEEP(0) NET_PRODUCT_KEEP(1) NET_PRODUCT_KEEP(2) NET_PRODUCT_KEEP(3) NET_REPEAT_END
                     : NET_PRODUCT_ROW(0), NET_PRODUCT_ROW(1), NET_PRODUCT_ROW(2), NET_PRODUCT_ROW(3), [a0] "=&r"(a0),
                       [a1] "=&r"(a1), [a2] "=&r"(a2), [a3] "=&r"(a3), [b0] "=&r"(b0), [b1] "=&r"(b1), [u] "=&r"(u),
                       [v] "=&r"(v), [u_at] "+r"(u_at), [v_at] "+r"(v_at), [m] "+r"(m)
                     : [others] "m"(others)
                     : "memory");
}
/* A column of At m, of places 0 to 3 in registers a to d that end as its two elements, a and b. */
#define NET_RESULT_LOAD(d, place) "lw %[" #d "], 64*" #place "(%[m])\n"
#define NET_RESULT_COLUMN(a, b, c, d, LOAD_0, LOAD_1, LOAD_2, LOAD_3)                                                   \
    NET_OP("fadd.s", a, a, b) LOAD_0 NET_OP("fsub.s", b, b, c) LOAD_1 NET_OP("fadd.s", a, a, c) LOAD_2                  \
    NET_OP("fadd.s", b, b, d) LOAD_3
/* Column j of m begins 4 j places on; the last load moves m on by a lane. */
#define NET_RESULT(OLD_0, OLD_1, OLD_2, OLD_3)                                                                          \
    NET_RESULT_LOAD(e0, 1) NET_RESULT_LOAD(e1, 5) NET_RESULT_LOAD(e2, 9) NET_RESULT_LOAD(e3, 13)                        \
    NET_RESULT_LOAD(a0, 0) NET_OP("fadd.s", e1, e1, start) NET_RESULT_LOAD(a1, 4) NET_RESULT_LOAD(a2, 8)                \
    NET_RESULT_COLUMN(e0, e1, e2, e3, NET_RESULT_LOAD(a3, 12), , NET_RESULT_LOAD(c0, 2), NET_RESULT_LOAD(c1, 6))        \
    NET_RESULT_COLUMN(a0, a1, a2, a3, NET_RESULT_LOAD(c2, 10), NET_RESULT_LOAD(c3, 14), NET_RESULT_LOAD(e2, 3),         \
                      NET_RESULT_LOAD(e3, 7))                                                                           \
    NET_RESULT_COLUMN(c0, c1, c2, c3, NET_RESULT_LOAD(a2, 11), NET_RESULT_LOAD(a3, 15), "addi %[m], %[m], 4\n", OLD_0)  \
    NET_OP("fadd.s", e2, e2, e3) NET_OP("fadd.s", a0, a0, e0) NET_OP("fsub.s", e3, e3, a2) NET_OP("fsub.s", e0, e0, c0) \
    NET_OP("fadd.s", e2, e2, a2) NET_OP("fadd.s", a0, a0, c0) NET_OP("fadd.s", e3, e3, a3) NET_OP("fadd.s", e0, e0, e2) \
    OLD_1 NET_STORE(a0, y) OLD_2 NET_OP("fadd.s", a1, a1, e1) NET_OP("fsub.s", e1, e1, c1) NET_STORE(e0, y)             \
    NET_OP("fadd.s", a1, a1, c1) NET_OP("fadd.s", e1, e1, e3) OLD_3 NET_STORE(a1, below) NET_STORE(e1, below)

#define NET_RESULT_OLD(d, place, from) "lw %[" #d "], " #place "(%[" #from "])\n"
#define NET_RESULT_RUN(BODY, TEXT)                                                                                      \
    __asm__ volatile(NET_REPEAT("%[count]", BODY) TEXT NET_REPEAT_END                                                   \
                     : [a0] "=&r"(a0), [a1] "=&r"(a1), [a2] "=&r"(a2), [a3] "=&r"(a3), [c0] "=&r"(c0), [c1] "=&r"(c1),  \
                       [c2] "=&r"(c2), [c3] "=&r"(c3), [e0] "=&r"(e0), [e1] "=&r"(e1), [e2] "=&r"(e2), [e3] "=&r"(e3),  \
                       [y] "+r"(y), [below] "+r"(below), [m] "+r"(m)                                                    \
                     : [start] "r"(start), [count] "r"(count)                                                           \
                     : "memory")

/* At m A of `count` lanes of a block, at least one, to 2x2 results each, side by side in y and the row below; with `start` or
 * what is there added, the former in the middle of m, from where it comes into all four.
 */
NET_KERNEL void net_patch_results(float *y, float *below, const float *m, int32_t count, float start, const bool ACCUMULATE)
{
    float a0, a1, a2, a3, c0, c1, c2, c3, e0, e1, e2, e3;
    if (ACCUMULATE)
        NET_RESULT_RUN(216, NET_RESULT(NET_RESULT_OLD(c2, 0, y) NET_RESULT_OLD(c3, 4, y),
                                       NET_OP("fadd.s", a0, a0, c2) NET_RESULT_OLD(c2, 0, below) NET_OP("fadd.s", e0, e0, c3),
                                       NET_RESULT_OLD(c3, 4, below),
                                       NET_OP("fadd.s", a1, a1, c2) NET_OP("fadd.s", e1, e1, c3)));
    else
        NET_RESULT_RUN(184, NET_RESULT(, , , ));
}
#else
NET_HOT void net_winograd_product(const float *u_at, const float *v_at, int32_t count, float *m)
{
    NET_ROLLED
    for (int32_t k = 0; k < 16; ++k, u_at += 4, v_at += 4, m += 16) {
        float sum[16] = {0.0f};
        const float *u = u_at, *v = v_at;
        NET_ROLLED
        for (int32_t n = 0; n < count; ++n, u += NET_WINOGRAD_STEP, v += NET_WINOGRAD_STEP) {
            NET_UNROLLED
            for (int32_t i = 0; i < 16; ++i)
                net_multiply_add(sum[i], u[i >> 2], v[i & 3]);
        }
        NET_UNROLLED
        for (int32_t i = 0; i < 16; ++i)
            m[i] = sum[i];
    }
}

NET_KERNEL void net_patch_results(float *y, float *below, const float *m, int32_t count, float start, const bool ACCUMULATE)
{
    NET_ROLLED
    for (; count > 0; --count, ++m, y += 2, below += 2) {
        float result[4];
        net_patch_result(result, m, start);
        y[0] = ACCUMULATE ? result[0] + y[0] : result[0];
        y[1] = ACCUMULATE ? result[1] + y[1] : result[1];
        below[0] = ACCUMULATE ? result[2] + below[0] : result[2];
        below[1] = ACCUMULATE ? result[3] + below[1] : result[3];
    }
}
#endif

#endif
