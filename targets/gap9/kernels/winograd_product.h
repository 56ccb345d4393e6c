/* The 16 matrix products of minimal filtering, of which a block is 4x4 lanes: m[k] = sum over n of u[n][k] v[n][k] transposed. */
#ifndef NET_WINOGRAD_PRODUCT_H
#define NET_WINOGRAD_PRODUCT_H

#include "kernel.h"
#include "xpulp.h"

#define NET_WINOGRAD_STEP 68   /* floats from one n to the next: 16 places of 4 lanes, and 4 so that all banks are used */
#define NET_WINOGRAD_BLOCK 256 /* floats of a block: 16 places of 4x4 lanes */

#if defined(NET_XPULP) && defined(__riscv_zfinx) && defined(__clang__)
#define NET_PRODUCT_ADD(i, j, b) NET_FUSED("fmadd.s", s##i##j, a##i, b, s##i##j)
#define NET_PRODUCT_ZERO(i) "li %[s" #i "0], 0\nli %[s" #i "1], 0\nli %[s" #i "2], 0\nli %[s" #i "3], 0\n"
#define NET_PRODUCT_KEEP(i) NET_STORE(s##i##0, m) NET_STORE(s##i##1, m) NET_STORE(s##i##2, m) NET_STORE(s##i##3, m)
#define NET_PRODUCT_LAST(d, from) ".insn i 0x0b, 2, %[" #d "], 260(%[" #from "])\n" /* to the next n */

/* Loads stand one by one among multiplications, well before their use: those of the next n at the end. */
#define NET_PRODUCT_N                                                                                                   \
    NET_PRODUCT_ADD(0, 0, b0) NET_LOAD(b1, v) NET_PRODUCT_ADD(1, 0, b0) NET_PRODUCT_ADD(2, 0, b0) NET_PRODUCT_ADD(3, 0, b0) \
    NET_PRODUCT_ADD(0, 1, b1) NET_LOAD(b0, v) NET_PRODUCT_ADD(1, 1, b1) NET_PRODUCT_ADD(2, 1, b1) NET_PRODUCT_ADD(3, 1, b1) \
    NET_PRODUCT_ADD(0, 2, b0) NET_PRODUCT_LAST(b1, v) NET_PRODUCT_ADD(1, 2, b0) NET_PRODUCT_ADD(2, 2, b0)               \
    NET_PRODUCT_ADD(3, 2, b0) NET_LOAD(b0, v) NET_PRODUCT_ADD(0, 3, b1) NET_LOAD(a0, u) NET_PRODUCT_ADD(1, 3, b1)       \
    NET_LOAD(a1, u) NET_PRODUCT_ADD(2, 3, b1) NET_LOAD(a2, u) NET_PRODUCT_ADD(3, 3, b1) NET_PRODUCT_LAST(a3, u)

#define NET_PRODUCT_ROW(i) [s##i##0] "=&r"(s##i##0), [s##i##1] "=&r"(s##i##1), [s##i##2] "=&r"(s##i##2), [s##i##3] "=&r"(s##i##3)

/* `count` values of n, at least one. Loads go one n too far. */
NET_HOT void net_winograd_product(const float *u_at, const float *v_at, int32_t count, float *m)
{
    const float *u, *v;
    float s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33, a0, a1, a2, a3, b0, b1;
    __asm__ volatile("li %[b1], 16\n" NET_REPEAT_OUTER("%[b1]", 268)
                     "mv %[u], %[u_at]\n"
                     "mv %[v], %[v_at]\n"
                     "lw %[b1], %[count]\n"
                     NET_LOAD(a0, u) NET_LOAD(a1, u) NET_LOAD(a2, u) NET_PRODUCT_LAST(a3, u) NET_LOAD(b0, v)
                     NET_PRODUCT_ZERO(0) NET_PRODUCT_ZERO(1) NET_PRODUCT_ZERO(2) NET_PRODUCT_ZERO(3)
                     "addi %[u_at], %[u_at], 16\n"
                     NET_REPEAT("%[b1]", 96) NET_PRODUCT_N NET_REPEAT_END
                     NET_PRODUCT_KEEP(0) NET_PRODUCT_KEEP(1) NET_PRODUCT_KEEP(2) NET_PRODUCT_KEEP(3)
                     "addi %[v_at], %[v_at], 16\n" NET_REPEAT_END
                     : NET_PRODUCT_ROW(0), NET_PRODUCT_ROW(1), NET_PRODUCT_ROW(2), NET_PRODUCT_ROW(3), [a0] "=&r"(a0),
                       [a1] "=&r"(a1), [a2] "=&r"(a2), [a3] "=&r"(a3), [b0] "=&r"(b0), [b1] "=&r"(b1), [u] "=&r"(u),
                       [v] "=&r"(v), [u_at] "+r"(u_at), [v_at] "+r"(v_at), [m] "+r"(m)
                     : [count] "m"(count)
                     : "memory");
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
#endif

#endif
