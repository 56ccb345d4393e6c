/* Products of a matrix with a vector, and of two vectors: a layer at batch 1, forward, dX and dW. Each value of the matrix is
 * used once, so that the way from L2 is the limit, and a multiplication may have little beside it: four rows or eight columns
 * of sums are in registers.
 */
#ifndef NET_GEMM_VECTOR_H
#define NET_GEMM_VECTOR_H

#include "kernel.h"
#include "xpulp.h"

/* y[i] = start[i] + sum of w[i][k] * x[k] (rows), or + sum of w[k][i] * x[k] (columns), for `sums` of `terms` terms; or
 * y[i][j] = start[i][j] + w[i] * x[j] (outer), for `sums` rows of `terms` columns. Every sum runs over k in order.
 */
typedef struct {
    const float *w, *x;
    const float *start; /* NULL: 0; of outer it is where y is */
    float *y;
    int32_t sums, terms;
    int32_t row;        /* from row to row of the matrix: of w, of outer of y */
    int32_t start_next; /* from one sum's start to the next */
    int32_t *claimed;   /* tasks of this call that are taken, 0 before it; in L1 */
} net_vector_t;

#if defined(NET_XPULP) && defined(__riscv_zfinx)
#define NET_VECTOR_ADD(s, a, b) NET_FUSED("fmadd.s", s, a, b, s)

/* R sums of neighbouring rows. */
NET_KERNEL void net_vector_rows(const int32_t R, float s[4], const float *x, const float *p, int32_t row, int32_t terms)
{
    const float *q = p + row, *r = q + row, *t = r + row;
    float x0, x1, a, b;
    if (R == 4)
        __asm__ volatile(NET_REPEAT("%[n]", 36) NET_LOAD(x0, x) NET_LOAD(a, p) NET_LOAD(b, q) NET_VECTOR_ADD(s0, a, x0)
                             NET_LOAD(a, r) NET_VECTOR_ADD(s1, b, x0) NET_LOAD(b, t) NET_VECTOR_ADD(s2, a, x0)
                                 NET_VECTOR_ADD(s3, b, x0) NET_REPEAT_END
                         : [s0] "+r"(s[0]), [s1] "+r"(s[1]), [s2] "+r"(s[2]), [s3] "+r"(s[3]), [x0] "=&r"(x0), [a] "=&r"(a),
                           [b] "=&r"(b), [x] "+r"(x), [p] "+r"(p), [q] "+r"(q), [r] "+r"(r), [t] "+r"(t)
                         : [n] "r"(terms)
                         : "memory");
    else if (R == 2)
        __asm__ volatile(NET_REPEAT("%[n]", 20) NET_LOAD(x0, x) NET_LOAD(a, p) NET_LOAD(b, q) NET_VECTOR_ADD(s0, a, x0)
                             NET_VECTOR_ADD(s1, b, x0) NET_REPEAT_END
                         : [s0] "+r"(s[0]), [s1] "+r"(s[1]), [x0] "=&r"(x0), [a] "=&r"(a), [b] "=&r"(b), [x] "+r"(x),
                           [p] "+r"(p), [q] "+r"(q)
                         : [n] "r"(terms)
                         : "memory");
    else if (terms > 1)
        __asm__ volatile(NET_REPEAT("%[n]", 24) NET_LOAD(x0, x) NET_LOAD(a, p) NET_LOAD(x1, x) NET_LOAD(b, p)
                             NET_VECTOR_ADD(s0, a, x0) NET_VECTOR_ADD(s0, b, x1) NET_REPEAT_END
                         : [s0] "+r"(s[0]), [x0] "=&r"(x0), [x1] "=&r"(x1), [a] "=&r"(a), [b] "=&r"(b), [x] "+r"(x), [p] "+r"(p)
                         : [n] "r"(terms >> 1)
                         : "memory");
    if (R == 1 && (terms & 1))
        net_multiply_add(s[0], *p, *x);
}

/* Eight sums of neighbouring columns. */
NET_KERNEL void net_vector_columns(float s[8], const float *x, const float *w, int32_t row, int32_t terms)
{
    const intptr_t step = 4 * (row - 7);
    float x0, a, b;
    __asm__ volatile(NET_REPEAT("%[n]", 68) NET_LOAD(x0, x) NET_LOAD(a, w) NET_LOAD(b, w) NET_VECTOR_ADD(s0, a, x0)
                         NET_LOAD(a, w) NET_VECTOR_ADD(s1, b, x0) NET_LOAD(b, w) NET_VECTOR_ADD(s2, a, x0) NET_LOAD(a, w)
                             NET_VECTOR_ADD(s3, b, x0) NET_LOAD(b, w) NET_VECTOR_ADD(s4, a, x0) NET_LOAD(a, w)
                                 NET_VECTOR_ADD(s5, b, x0) NET_LOAD_STEP("%[b]", "%[w]", "%[step]") NET_VECTOR_ADD(s6, a, x0)
                                     NET_VECTOR_ADD(s7, b, x0) NET_REPEAT_END
                     : [s0] "+r"(s[0]), [s1] "+r"(s[1]), [s2] "+r"(s[2]), [s3] "+r"(s[3]), [s4] "+r"(s[4]), [s5] "+r"(s[5]),
                       [s6] "+r"(s[6]), [s7] "+r"(s[7]), [x0] "=&r"(x0), [a] "=&r"(a), [b] "=&r"(b), [x] "+r"(x), [w] "+r"(w)
                     : [n] "r"(terms), [step] "r"(step)
                     : "memory");
}

/* Four rows of w[i] * x[j]. */
NET_KERNEL void net_vector_outer_4(const float w[4], const float *x, float *p, int32_t row, int32_t terms)
{
    float *q = p + row, *r = q + row, *t = r + row, x0, a, b;
    __asm__ volatile(NET_REPEAT("%[n]", 36) NET_LOAD(x0, x) NET_OP("fmul.s", a, w0, x0) NET_OP("fmul.s", b, w1, x0)
                         NET_STORE(a, p) NET_OP("fmul.s", a, w2, x0) NET_STORE(b, q) NET_OP("fmul.s", b, w3, x0)
                             NET_STORE(a, r) NET_STORE(b, t) NET_REPEAT_END
                     : [x0] "=&r"(x0), [a] "=&r"(a), [b] "=&r"(b), [x] "+r"(x), [p] "+r"(p), [q] "+r"(q), [r] "+r"(r),
                       [t] "+r"(t)
                     : [n] "r"(terms), [w0] "r"(w[0]), [w1] "r"(w[1]), [w2] "r"(w[2]), [w3] "r"(w[3])
                     : "memory");
}

/* A row of w * x[j], two columns at a time. */
NET_KERNEL void net_vector_outer_1(float w, const float *x, float *y, int32_t terms)
{
    float x0, x1;
    if (terms > 1)
        __asm__ volatile(NET_REPEAT("%[n]", 24) NET_LOAD(x0, x) NET_LOAD(x1, x) NET_OP("fmul.s", x0, x0, w)
                             NET_OP("fmul.s", x1, x1, w) NET_STORE(x0, y) NET_STORE(x1, y) NET_REPEAT_END
                         : [x0] "=&r"(x0), [x1] "=&r"(x1), [x] "+r"(x), [y] "+r"(y)
                         : [n] "r"(terms >> 1), [w] "r"(w)
                         : "memory");
    if (terms & 1)
        *y = w * *x;
}

/* A row of start[j] + w * x[j], of two columns at a time; start[j] may be where y[j] is. */
NET_KERNEL void net_vector_outer_add(float w, const float *x, const float *start, float *y, int32_t terms)
{
    float x0, x1, a, b;
    if (terms > 1)
        __asm__ volatile(NET_REPEAT("%[n]", 32) NET_LOAD(x0, x) NET_LOAD(a, start) NET_LOAD(x1, x)
                             NET_FUSED("fmadd.s", a, w, x0, a) NET_LOAD(b, start) NET_STORE(a, y)
                                 NET_FUSED("fmadd.s", b, w, x1, b) NET_STORE(b, y) NET_REPEAT_END
                         : [x0] "=&r"(x0), [x1] "=&r"(x1), [a] "=&r"(a), [b] "=&r"(b), [x] "+r"(x), [start] "+r"(start),
                           [y] "+r"(y)
                         : [n] "r"(terms >> 1), [w] "r"(w)
                         : "memory");
    if (terms & 1)
        *y = *start + w * *x;
}
#else
NET_KERNEL void net_vector_rows(const int32_t R, float s[4], const float *x, const float *w, int32_t row, int32_t terms)
{
    NET_ROLLED
    for (int32_t k = 0; k < terms; ++k) {
        NET_UNROLLED
        for (int32_t i = 0; i < R; ++i)
            net_multiply_add(s[i], w[i * row + k], x[k]);
    }
}

NET_KERNEL void net_vector_columns(float s[8], const float *x, const float *w, int32_t row, int32_t terms)
{
    NET_ROLLED
    for (int32_t k = 0; k < terms; ++k, w += row) {
        NET_UNROLLED
        for (int32_t i = 0; i < 8; ++i)
            net_multiply_add(s[i], w[i], x[k]);
    }
}

NET_KERNEL void net_vector_outer_4(const float w[4], const float *x, float *y, int32_t row, int32_t terms)
{
    NET_ROLLED
    for (int32_t j = 0; j < terms; ++j, ++y) {
        NET_UNROLLED
        for (int32_t i = 0; i < 4; ++i)
            y[i * row] = w[i] * x[j];
    }
}

NET_KERNEL void net_vector_outer_1(float w, const float *x, float *y, int32_t terms)
{
    NET_ROLLED
    for (int32_t j = 0; j < terms; ++j)
        y[j] = w * x[j];
}

NET_KERNEL void net_vector_outer_add(float w, const float *x, const float *start, float *y, int32_t terms)
{
    NET_ROLLED
    for (int32_t j = 0; j < terms; ++j)
        y[j] = start[j] + w * x[j];
}
#endif

/* R rows from row i on. */
NET_KERNEL void net_vector_rows_from(const int32_t R, const net_vector_t *of, int32_t i)
{
    float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (of->start) {
        const float *from = of->start + i * of->start_next;
        NET_UNROLLED
        for (int32_t j = 0; j < R; ++j, from += of->start_next)
            s[j] = *from;
    }
    net_vector_rows(R, s, of->x, of->w + i * of->row, of->row, of->terms);
    NET_UNROLLED
    for (int32_t j = 0; j < R; ++j)
        of->y[i + j] = s[j];
}

/* Each row is a task; a worker takes several of many at once. */
NET_HOT void net_gemm_rows(int32_t core, int32_t cores, const net_vector_t *of)
{
    net_share_t share = net_share_first(core, cores, of->claimed, of->sums, of->sums >> 4);
    NET_ROLLED
    for (; share.begin < of->sums; share = net_share_next(&share, of->claimed, of->sums)) {
        int32_t i = share.begin;
        NET_ROLLED
        for (; i + 4 <= share.end; i += 4)
            net_vector_rows_from(4, of, i);
        if (i + 2 <= share.end) {
            net_vector_rows_from(2, of, i);
            i += 2;
        }
        if (i < share.end)
            net_vector_rows_from(1, of, i);
    }
}

/* Eight columns are a task. */
NET_HOT void net_gemm_columns(int32_t core, int32_t cores, const net_vector_t *of)
{
    const int32_t tasks = (of->sums + 7) >> 3;
    net_share_t share = net_share_first(core, cores, of->claimed, tasks, tasks >> 4);
    NET_ROLLED
    for (; share.begin < tasks; share = net_share_next(&share, of->claimed, tasks)) {
        NET_ROLLED
        for (int32_t task = share.begin; task < share.end; ++task) {
            const int32_t first = 8 * task, left = of->sums - first;
            const float *w = of->w + first, *from = of->start ? of->start + first * of->start_next : NULL;
            float s[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f}, *const y = of->y + first;
            if (left >= 8) {
                if (from) {
                    NET_UNROLLED
                    for (int32_t i = 0; i < 8; ++i, from += of->start_next)
                        s[i] = *from;
                }
                net_vector_columns(s, of->x, w, of->row, of->terms);
                NET_UNROLLED
                for (int32_t i = 0; i < 8; ++i)
                    y[i] = s[i];
                continue;
            }
            for (int32_t i = 0; i < left; ++i) {
                float sum = from ? from[i * of->start_next] : 0.0f;
                const float *p = w + i;
                for (int32_t k = 0; k < of->terms; ++k, p += of->row)
                    net_multiply_add(sum, *p, of->x[k]);
                y[i] = sum;
            }
        }
    }
}

/* Each row of the result is a task. */
NET_HOT void net_gemm_outer(int32_t core, int32_t cores, const net_vector_t *of)
{
    net_share_t share = net_share_first(core, cores, of->claimed, of->sums, of->sums >> 4);
    NET_ROLLED
    for (; share.begin < of->sums; share = net_share_next(&share, of->claimed, of->sums)) {
        int32_t i = share.begin;
        const int32_t fours = of->start ? i : share.end - 3;
        NET_ROLLED
        for (; i < fours; i += 4)
            net_vector_outer_4(of->w + i, of->x, of->y + i * of->row, of->row, of->terms);
        NET_ROLLED
        for (; i < share.end; ++i) {
            float *const y = of->y + i * of->row;
            if (of->start)
                net_vector_outer_add(of->w[i], of->x, of->start + i * of->row, y, of->terms);
            else
                net_vector_outer_1(of->w[i], of->x, y, of->terms);
        }
    }
}

#endif
