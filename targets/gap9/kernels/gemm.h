/* Matrix product: 4 x 4 outer products in registers. */
#ifndef NET_GEMM_H
#define NET_GEMM_H

#include "kernel.h"
#include "xpulp.h"

/* y = start + a * b, of m x k and k x n values, each matrix with any strides; y's columns are neighbours. Every sum runs over
 * k in order with one accumulator, so that it does not matter which block computes it.
 */
typedef struct {
    const float *a, *b;
    const float *start; /* NULL: sums start from 0 */
    float *y;
    int32_t m, n, k;
    int32_t a_m, a_k, b_k, b_n, start_m, start_n, y_m;
} net_gemm_t;

#if defined(NET_XPULP) && defined(__riscv)
/* d = *from, which then moves on by a register's bytes */
#define NET_LOAD_BY(d, from, by) ".insn r 0x0b, 7, 16, %[" #d "], %[" #from "], %[" #by "]\n"
#define NET_GEMM_SUM(i, j) NET_FUSED("fmadd.s", s##i##j, a##i, b0, s##i##j)
#define NET_GEMM_ROW(i) \
    [s##i##0] "+r"(sum[i][0]), [s##i##1] "+r"(sum[i][1]), [s##i##2] "+r"(sum[i][2]), [s##i##3] "+r"(sum[i][3])
#define NET_GEMM_COLUMN(j, by) \
    NET_LOAD_BY(b0, b, by) NET_GEMM_SUM(0, j) NET_GEMM_SUM(1, j) NET_GEMM_SUM(2, j) NET_GEMM_SUM(3, j)

/* All 28 registers that a compiler may use but one are operands: the count is where b0 is later. */
NET_KERNEL void net_gemm_sums(float sum[4][4], const net_gemm_t *gemm, const float *a, const float *b)
{
    const int32_t a_next = 4 * gemm->a_m, b_next = 4 * gemm->b_n;
    const int32_t a_last = 4 * gemm->a_k - 3 * a_next, b_last = 4 * gemm->b_k - 3 * b_next;
    int32_t b0 = gemm->k;
    float a0, a1, a2, a3;
    __asm__ volatile(NET_REPEAT("%[b0]", 96)
                     NET_LOAD_BY(a0, a, a_next) NET_LOAD_BY(b0, b, b_next) NET_LOAD_BY(a1, a, a_next)
                     NET_GEMM_SUM(0, 0) NET_LOAD_BY(a2, a, a_next) NET_GEMM_SUM(1, 0) NET_LOAD_BY(a3, a, a_last)
                     NET_GEMM_SUM(2, 0) NET_GEMM_SUM(3, 0)
                     NET_GEMM_COLUMN(1, b_next) NET_GEMM_COLUMN(2, b_next) NET_GEMM_COLUMN(3, b_last)
                     NET_REPEAT_END
                     : NET_GEMM_ROW(0), NET_GEMM_ROW(1), NET_GEMM_ROW(2), NET_GEMM_ROW(3), [a0] "=&r"(a0), [a1] "=&r"(a1),
                       [a2] "=&r"(a2), [a3] "=&r"(a3), [b0] "+r"(b0), [a] "+r"(a), [b] "+r"(b)
                     : [a_next] "r"(a_next), [a_last] "r"(a_last), [b_next] "r"(b_next), [b_last] "r"(b_last)
                     : "memory");
}

/* sum_i += p_i * q, for the four values at p and the one at q, `k` times. */
NET_KERNEL void net_gemm_strip_sums(float sum[4], int32_t k, const float *p, int32_t p_next, int32_t p_k, const float *q,
                                    int32_t q_k)
{
    const int32_t next = 4 * p_next, last = 4 * p_k - 3 * next, step = 4 * q_k;
    float p0, p1, p2, p3, q0;
    __asm__ volatile(NET_REPEAT("%[k]", 36)
                     NET_LOAD_BY(p0, p, next) NET_LOAD_BY(q0, q, step) NET_LOAD_BY(p1, p, next)
                     NET_FUSED("fmadd.s", s0, p0, q0, s0) NET_LOAD_BY(p2, p, next) NET_FUSED("fmadd.s", s1, p1, q0, s1)
                     NET_LOAD_BY(p3, p, last) NET_FUSED("fmadd.s", s2, p2, q0, s2) NET_FUSED("fmadd.s", s3, p3, q0, s3)
                     NET_REPEAT_END
                     : [s0] "+r"(sum[0]), [s1] "+r"(sum[1]), [s2] "+r"(sum[2]), [s3] "+r"(sum[3]), [p0] "=&r"(p0),
                       [p1] "=&r"(p1), [p2] "=&r"(p2), [p3] "=&r"(p3), [q0] "=&r"(q0), [p] "+r"(p), [q] "+r"(q)
                     : [k] "r"(k), [next] "r"(next), [last] "r"(last), [step] "r"(step)
                     : "memory");
}
#else
NET_KERNEL void net_gemm_sums(float sum[4][4], const net_gemm_t *gemm, const float *a, const float *b)
{
    NET_ROLLED
    for (int32_t k = gemm->k; k > 0; --k, a += gemm->a_k, b += gemm->b_k) {
        NET_UNROLLED
        for (int32_t n = 0; n < 16; ++n)
            net_multiply_add(sum[n / 4][n % 4], a[n / 4 * gemm->a_m], b[n % 4 * gemm->b_n]);
    }
}

NET_KERNEL void net_gemm_strip_sums(float sum[4], int32_t k, const float *p, int32_t p_next, int32_t p_k, const float *q,
                                    int32_t q_k)
{
    NET_ROLLED
    for (; k > 0; --k, p += p_k, q += q_k) {
        NET_UNROLLED
        for (int32_t i = 0; i < 4; ++i)
            net_multiply_add(sum[i], p[i * p_next], *q);
    }
}
#endif

/* `blocks` blocks of 4 x 4, one behind the other in a row. */
NET_HOT void net_gemm_4x4(const net_gemm_t *gemm, const float *a, const float *b, const float *start, float *y,
                          int32_t blocks)
{
    NET_ROLLED
    for (; blocks > 0; --blocks, b += 4 * gemm->b_n) {
        float sum[4][4], *to = y;
        if (start) {
            const float *from = start;
            NET_UNROLLED
            for (int32_t i = 0; i < 4; ++i, from += gemm->start_m) {
                NET_UNROLLED
                for (int32_t j = 0; j < 4; ++j)
                    sum[i][j] = from[j * gemm->start_n];
            }
            start += 4 * gemm->start_n;
        } else {
            NET_UNROLLED
            for (int32_t n = 0; n < 16; ++n)
                sum[n / 4][n % 4] = 0.0f;
        }
        net_gemm_sums(sum, gemm, a, b);
        NET_UNROLLED
        for (int32_t i = 0; i < 4; ++i, to += gemm->y_m) {
            NET_UNROLLED
            for (int32_t j = 0; j < 4; ++j)
                to[j] = sum[i][j];
        }
        y += 4;
    }
}

/* Four sums along one operand, p, whose values are multiplied with the same ones of the other. */
NET_HOT void net_gemm_strip(int32_t k, const float *p, int32_t p_next, int32_t p_k, const float *q, int32_t q_k,
                            const float *start, int32_t start_next, float *y, int32_t y_next)
{
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (start) {
        NET_UNROLLED
        for (int32_t i = 0; i < 4; ++i)
            sum[i] = start[i * start_next];
    }
    net_gemm_strip_sums(sum, k, p, p_next, p_k, q, q_k);
    NET_UNROLLED
    for (int32_t i = 0; i < 4; ++i)
        y[i * y_next] = sum[i];
}

/* A block of less than 4 x 4. */
NET_HOT void net_gemm_edge(const net_gemm_t *gemm, const float *a, const float *b, const float *start, float *y,
                           int32_t rows, int32_t columns)
{
    if (rows == 4) {
        for (int32_t j = 0; j < columns; ++j, b += gemm->b_n, start += start ? gemm->start_n : 0)
            net_gemm_strip(gemm->k, a, gemm->a_m, gemm->a_k, b, gemm->b_k, start, gemm->start_m, y++, gemm->y_m);
        return;
    }
    for (int32_t i = 0; i < rows; ++i, a += gemm->a_m, y += gemm->y_m, start += start ? gemm->start_m : 0) {
        if (columns == 4) {
            net_gemm_strip(gemm->k, b, gemm->b_n, gemm->b_k, a, gemm->a_k, start, gemm->start_n, y, 1);
            continue;
        }
        for (int32_t j = 0; j < columns; ++j) {
            float sum = start ? start[j * gemm->start_n] : 0.0f;
            const float *p = a, *q = b + j * gemm->b_n;
            for (int32_t k = gemm->k; k > 0; --k, p += gemm->a_k, q += gemm->b_k)
                net_multiply_add(sum, *p, *q);
            y[j] = sum;
        }
    }
}

/* Workers share out the blocks, row of blocks by row of blocks. Of few blocks, shares that differ by one are the evenest. */
NET_HOT void net_gemm(int32_t core, int32_t cores, const net_gemm_t *gemm)
{
    const int32_t across = (gemm->n + 3) >> 2, blocks = ((gemm->m + 3) >> 2) * across;
    int32_t block = net_share(blocks, core, cores), end = net_share(blocks, core + 1, cores);
    if (cores == 8 && blocks < 128) {
        block = blocks * core >> 3;
        end = blocks * (core + 1) >> 3;
    }
    int32_t i = block / across, j = block % across;
    NET_ROLLED
    while (block < end) {
        const int32_t rows = gemm->m - 4 * i, columns = gemm->n - 4 * j, full = rows > 3 ? columns >> 2 : 0;
        const float *const a = gemm->a + 4 * i * gemm->a_m, *const b = gemm->b + 4 * j * gemm->b_n;
        const float *const start = gemm->start ? gemm->start + 4 * (i * gemm->start_m + j * gemm->start_n) : NULL;
        float *const y = gemm->y + 4 * (i * gemm->y_m + j);
        int32_t done = 1;
        if (full > 0) {
            done = full < end - block ? full : end - block;
            net_gemm_4x4(gemm, a, b, start, y, done);
        } else {
            net_gemm_edge(gemm, a, b, start, y, rows < 4 ? rows : 4, columns < 4 ? columns : 4);
        }
        block += done;
        j += done;
        if (j == across) {
            j = 0;
            ++i;
        }
    }
}

#endif
