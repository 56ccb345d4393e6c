/* Depthwise convolution 3x3 of stride 1 on planes of 3 to 6 columns with a border of one zero all around: forward, dX and
 * dW of whole planes, one behind the other. A row of results is in registers as a whole, so that taps beside it are left
 * out, no border is needed, and rows and planes follow each other without a step.
 */
#ifndef NET_DEPTHWISE_PLANES_H
#define NET_DEPTHWISE_PLANES_H

#include "depthwise_strip_loops.h"

#define NET_PLANES_LEAST 3 /* columns */
#define NET_PLANES_MOST 6

/* Planes of forward or dX: y = start + x * w. Steps are of bytes: from one tap to the next, from one plane's last tap to the
 * next plane's first, and from one start to the next.
 */
typedef struct {
    const float *x, *w, *start;
    float *y;
    int32_t planes, rows; /* rows: 2 at least */
    intptr_t w_step, w_next, start_step;
} net_planes_t;

/* Planes of dW: dw = start + x * y, with a step of bytes from one element of start to the next. */
typedef struct {
    const float *x, *y, *start;
    float *dw;
    int32_t planes, rows;
    intptr_t start_step;
} net_planes_w_t;

#if NET_STRIP_LOOPS
/* Pixel c of a row is of the last sums (l) of kx = 2, of the middle ones (m) of 1, and of the first (r) of 0: of the row of
 * results that it ends (a), the one it carries on (b), and the one it begins: S of l and r, and T of m. The next pixel is
 * loaded meanwhile. What a row has begun takes the place of what it carried on, and that of what was stored.
 */
#define NET_PLANE_FIRST                                                                                                 \
    NET_LOAD(u, x) NET_LOAD(v, x) NET_STRIP_ADD(a0, u, w7) NET_STRIP_ADD(a1, u, w6) NET_STRIP_ADD(b0, u, w4)            \
        NET_STRIP_ADD(b1, u, w3) NET_STRIP_START(s, u, w1) NET_STRIP_START(t, u, w0)
#define NET_PLANE_NEXT(u, n, l, m, r, S, T)                                                                             \
    NET_STRIP_ADD(a##l, u, w8) NET_LOAD(n, x) NET_STRIP_ADD(a##m, u, w7) NET_STRIP_ADD(a##r, u, w6) NET_STORE(a##l, y)  \
        NET_STRIP_ADD(b##m, u, w4) NET_FUSED("fmadd.s", a##l, u, w5, b##l) NET_STRIP_ADD(b##r, u, w3)                   \
            NET_FUSED("fmadd.s", b##l, u, w2, S) NET_STRIP_ADD(T, u, w1) NET_STRIP_START(S, u, w0)
#define NET_PLANE_LAST(u, l, m, S, T)                                                                                   \
    NET_STRIP_ADD(a##l, u, w8) NET_STRIP_ADD(a##m, u, w7) NET_STORE(a##l, y) NET_FUSED("fmadd.s", a##l, u, w5, b##l)    \
        NET_FUSED("fmadd.s", b##l, u, w2, S) NET_STORE(a##m, y) NET_FUSED("fmadd.s", a##m, u, w4, b##m)                 \
            NET_FUSED("fmadd.s", b##m, u, w1, T)

/* The top row ends nothing: it begins the results of its own row (a) and of the one below (b). */
#define NET_PLANE_TOP_FIRST                                                                                             \
    NET_LOAD(u, x) NET_LOAD(v, x) NET_STRIP_START(a0, u, w4) NET_STRIP_START(a1, u, w3) NET_STRIP_START(b0, u, w1)      \
        NET_STRIP_START(b1, u, w0)
#define NET_PLANE_TOP_NEXT(u, n, l, m, r)                                                                               \
    NET_STRIP_ADD(a##l, u, w5) NET_LOAD(n, x) NET_STRIP_ADD(b##l, u, w2) NET_STRIP_ADD(a##m, u, w4)                     \
        NET_STRIP_ADD(b##m, u, w1) NET_STRIP_START(a##r, u, w3) NET_STRIP_START(b##r, u, w0)
#define NET_PLANE_TOP_LAST(u, l, m)                                                                                     \
    NET_STRIP_ADD(a##l, u, w5) NET_STRIP_ADD(b##l, u, w2) NET_STRIP_ADD(a##m, u, w4) NET_STRIP_ADD(b##m, u, w1)

#define NET_PLANE_ROW_3 NET_PLANE_FIRST NET_PLANE_NEXT(v, u, 0, 1, 2, s, t) NET_PLANE_LAST(u, 1, 2, t, s)
#define NET_PLANE_HEAD_4 NET_PLANE_FIRST NET_PLANE_NEXT(v, u, 0, 1, 2, s, t) NET_PLANE_NEXT(u, v, 1, 2, 3, t, s)
#define NET_PLANE_ROW_4 NET_PLANE_HEAD_4 NET_PLANE_LAST(v, 2, 3, s, t)
#define NET_PLANE_HEAD_5 NET_PLANE_HEAD_4 NET_PLANE_NEXT(v, u, 2, 3, 4, s, t)
#define NET_PLANE_ROW_5 NET_PLANE_HEAD_5 NET_PLANE_LAST(u, 3, 4, t, s)
#define NET_PLANE_ROW_6 NET_PLANE_HEAD_5 NET_PLANE_NEXT(u, v, 3, 4, 5, t, s) NET_PLANE_LAST(v, 4, 5, s, t)

#define NET_PLANE_TOP_3 NET_PLANE_TOP_FIRST NET_PLANE_TOP_NEXT(v, u, 0, 1, 2) NET_PLANE_TOP_LAST(u, 1, 2)
#define NET_PLANE_TOP_HEAD_4 NET_PLANE_TOP_FIRST NET_PLANE_TOP_NEXT(v, u, 0, 1, 2) NET_PLANE_TOP_NEXT(u, v, 1, 2, 3)
#define NET_PLANE_TOP_4 NET_PLANE_TOP_HEAD_4 NET_PLANE_TOP_LAST(v, 2, 3)
#define NET_PLANE_TOP_HEAD_5 NET_PLANE_TOP_HEAD_4 NET_PLANE_TOP_NEXT(v, u, 2, 3, 4)
#define NET_PLANE_TOP_5 NET_PLANE_TOP_HEAD_5 NET_PLANE_TOP_LAST(u, 3, 4)
#define NET_PLANE_TOP_6 NET_PLANE_TOP_HEAD_5 NET_PLANE_TOP_NEXT(u, v, 3, 4, 5) NET_PLANE_TOP_LAST(v, 4, 5)

#define NET_PLANE_STORE_3 NET_STORE(a0, y) NET_STORE(a1, y) NET_STORE(a2, y)
#define NET_PLANE_STORE_4 NET_PLANE_STORE_3 NET_STORE(a3, y)
#define NET_PLANE_STORE_5 NET_PLANE_STORE_4 NET_STORE(a4, y)
#define NET_PLANE_STORE_6 NET_PLANE_STORE_5 NET_STORE(a5, y)

#define NET_PLANE_TEXT(W)                                                                                               \
    NET_REPEAT_OUTER("%[v]", 4 * (19 * W + 11))                                                                         \
    NET_STRIP_FETCH NET_PLANE_TOP_##W                                                                                   \
    "lw %[s], %[rows]\n" NET_REPEAT("%[s]", 4 * (11 * W - 6)) NET_PLANE_ROW_##W NET_REPEAT_END NET_PLANE_STORE_##W      \
        NET_REPEAT_END

/* Operands for four columns; wider ones have more sums, and three columns leave the last unused. */
#define NET_PLANE_OPERANDS(...)                                                                                         \
    : [a0] "=&r"(a0), [a1] "=&r"(a1), [a2] "=&r"(a2), [b0] "=&r"(b0), [b1] "=&r"(b1), [b2] "=&r"(b2), __VA_ARGS__       \
      [s] "=&r"(s), [t] "=&r"(t), [u] "=&r"(u), [v] "+r"(v), [start] "=&r"(start), [w0] "=&r"(w0), [w1] "=&r"(w1),      \
      [w2] "=&r"(w2), [w3] "=&r"(w3), [w4] "=&r"(w4), [w5] "=&r"(w5), [w6] "=&r"(w6), [w7] "=&r"(w7), [w8] "=&r"(w8),   \
      [x] "+r"(x), [y] "+r"(y), [w_at] "+m"(w_at), [start_at] "+m"(start_at)                                            \
    : [rows] "m"(rows), [w_step] "m"(w_step), [w_next] "m"(w_next), [start_step] "m"(start_step)                        \
    : "memory"

#define NET_PLANES_OF(W, ...)                                                                                           \
    NET_HOT void net_planes_##W(const net_planes_t *planes)                                                             \
    {                                                                                                                   \
        const int32_t rows = planes->rows - 1;                                                                          \
        const intptr_t w_step = planes->w_step, w_next = planes->w_next, start_step = planes->start_step;               \
        const float *x = planes->x, *w_at = planes->w, *start_at = planes->start;                                       \
        float *y = planes->y, a0, a1, a2, a3, a4, a5, b0, b1, b2, b3, b4, b5, s, t, u, start;                           \
        float w0, w1, w2, w3, w4, w5, w6, w7, w8;                                                                       \
        int32_t v = planes->planes;                                                                                     \
        (void)a3, (void)a4, (void)a5, (void)b3, (void)b4, (void)b5;                                                     \
        __asm__ volatile(NET_PLANE_TEXT(W) NET_PLANE_OPERANDS(__VA_ARGS__));                                            \
    }

#define NET_PLANE_SUMS(i) [a##i] "=&r"(a##i), [b##i] "=&r"(b##i),
NET_PLANES_OF(3, )
NET_PLANES_OF(4, NET_PLANE_SUMS(3))
NET_PLANES_OF(5, NET_PLANE_SUMS(3) NET_PLANE_SUMS(4))
NET_PLANES_OF(6, NET_PLANE_SUMS(3) NET_PLANE_SUMS(4) NET_PLANE_SUMS(5))

/* A row of dW: each column of dY above (p), in the row (q) and below (r) times the pixels on its left, its own and on its
 * right, which are in f, g, h and i in turn. Gradients are loaded two groups of multiplications ahead.
 */
#define NET_PLANE_W_FIRST                                                                                               \
    NET_LOAD(f, x) NET_LOAD(p, y2) NET_LOAD(g, x) NET_LOAD(q, y1) NET_STRIP_ADD(w7, f, p) NET_LOAD(r, y0)               \
        NET_STRIP_ADD(w8, g, p) NET_LOAD(h, x) NET_STRIP_ADD(w4, f, q) NET_LOAD(p, y2) NET_STRIP_ADD(w5, g, q)          \
            NET_STRIP_ADD(w1, f, r) NET_LOAD(q, y1) NET_STRIP_ADD(w2, g, r)
#define NET_PLANE_W_NEXT(left, own, right, ahead)                                                                       \
    NET_STRIP_ADD(w6, left, p) NET_LOAD(r, y0) NET_STRIP_ADD(w7, own, p) ahead NET_STRIP_ADD(w8, right, p)              \
        NET_STRIP_ADD(w3, left, q) NET_LOAD(p, y2) NET_STRIP_ADD(w4, own, q) NET_STRIP_ADD(w5, right, q)                \
            NET_STRIP_ADD(w0, left, r) NET_LOAD(q, y1) NET_STRIP_ADD(w1, own, r) NET_STRIP_ADD(w2, right, r)
#define NET_PLANE_W_LAST(left, own)                                                                                     \
    NET_STRIP_ADD(w6, left, p) NET_LOAD(r, y0) NET_STRIP_ADD(w7, own, p) NET_STRIP_ADD(w3, left, q)                     \
        NET_STRIP_ADD(w4, own, q) NET_STRIP_ADD(w0, left, r) NET_STRIP_ADD(w1, own, r)
#define NET_PLANE_W_ROW_3 NET_PLANE_W_FIRST NET_PLANE_W_NEXT(f, g, h, ) NET_PLANE_W_LAST(g, h)
#define NET_PLANE_W_HEAD_4 NET_PLANE_W_FIRST NET_PLANE_W_NEXT(f, g, h, NET_LOAD(i, x))
#define NET_PLANE_W_ROW_4 NET_PLANE_W_HEAD_4 NET_PLANE_W_NEXT(g, h, i, ) NET_PLANE_W_LAST(h, i)
#define NET_PLANE_W_HEAD_5 NET_PLANE_W_HEAD_4 NET_PLANE_W_NEXT(g, h, i, NET_LOAD(f, x))
#define NET_PLANE_W_ROW_5 NET_PLANE_W_HEAD_5 NET_PLANE_W_NEXT(h, i, f, ) NET_PLANE_W_LAST(i, f)
#define NET_PLANE_W_ROW_6                                                                                               \
    NET_PLANE_W_HEAD_5 NET_PLANE_W_NEXT(h, i, f, NET_LOAD(g, x)) NET_PLANE_W_NEXT(i, f, g, ) NET_PLANE_W_LAST(f, g)

/* The first row has zeros above, the last below. What is done next is 1 after the first row, 0 after those between, -1 after
 * the last.
 */
#define NET_PLANE_W_TEXT(W)                                                                                             \
    "1:\n" NET_STRIP_NINE(from, step)                                                                                   \
    "mv %[y2], %[zeros]\n"                                                                                              \
    "addi %[y0], %[y1], 4 * " #W "\n"                                                                                   \
    "li %[next], 2\n"                                                                                                   \
    "li %[p], 1\n"                                                                                                      \
    "3:\n" NET_REPEAT("%[p]", 4 * (13 * W - 6)) NET_PLANE_W_ROW_##W NET_REPEAT_END                                      \
    "addi %[next], %[next], -1\n"                                                                                       \
    "bltz %[next], 5f\n"                                                                                                \
    "beqz %[next], 4f\n"                                                                                                \
    "lw %[p], %[between]\n"                                                                                             \
    "addi %[y2], %[y1], -4 * " #W "\n"                                                                                  \
    "bnez %[p], 3b\n"                                                                                                   \
    "li %[next], 0\n"                                                                                                   \
    "4: mv %[y0], %[zeros]\n"                                                                                           \
    "li %[p], 1\n"                                                                                                      \
    "j 3b\n"                                                                                                            \
    "5: lw %[p], %[planes]\n" NET_STORE(w0, to) NET_STORE(w1, to) NET_STORE(w2, to)                                     \
    "addi %[p], %[p], -1\n" NET_STORE(w3, to) NET_STORE(w4, to) NET_STORE(w5, to)                                       \
    "sw %[p], %[planes]\n" NET_STORE(w6, to) NET_STORE(w7, to) NET_STORE(w8, to)                                        \
    "bnez %[p], 1b\n"

#define NET_PLANES_W_OF(W)                                                                                              \
    NET_HOT void net_planes_w_##W(const net_planes_w_t *of)                                                             \
    {                                                                                                                   \
        const float zeros[W] = {0}, *x = of->x, *y0, *y1 = of->y, *y2, *from = of->start;                               \
        float *to = of->dw, w0, w1, w2, w3, w4, w5, w6, w7, w8, f, g, h, i, p, q, r;                                    \
        int32_t planes = of->planes, next;                                                                              \
        const int32_t between = of->rows - 2;                                                                           \
        __asm__ volatile(NET_PLANE_W_TEXT(W)                                                                            \
                         : [w0] "=&r"(w0), [w1] "=&r"(w1), [w2] "=&r"(w2), [w3] "=&r"(w3), [w4] "=&r"(w4),              \
                           [w5] "=&r"(w5), [w6] "=&r"(w6), [w7] "=&r"(w7), [w8] "=&r"(w8), [f] "=&r"(f), [g] "=&r"(g),  \
                           [h] "=&r"(h), [i] "=&r"(i), [p] "=&r"(p), [q] "=&r"(q), [r] "=&r"(r), [x] "+r"(x),           \
                           [y0] "=&r"(y0), [y1] "+r"(y1), [y2] "=&r"(y2), [from] "+r"(from), [to] "+r"(to),             \
                           [next] "=&r"(next), [planes] "+m"(planes)                                                    \
                         : [zeros] "r"(zeros), [step] "r"(of->start_step), [between] "m"(between)                       \
                         : "memory");                                                                                   \
    }

NET_PLANES_W_OF(3)
NET_PLANES_W_OF(4)
NET_PLANES_W_OF(5)
NET_PLANES_W_OF(6)

/* A table of functions would lie in L2, where a load takes 15 cycles. */
NET_KERNEL void net_planes_run(int32_t columns, const net_planes_t *planes)
{
    (columns == 3 ? net_planes_3 : columns == 4 ? net_planes_4 : columns == 5 ? net_planes_5 : net_planes_6)(planes);
}

NET_KERNEL void net_planes_w_run(int32_t columns, const net_planes_w_t *planes)
{
    (columns == 3 ? net_planes_w_3 : columns == 4 ? net_planes_w_4 : columns == 5 ? net_planes_w_5 : net_planes_w_6)(planes);
}
#else
NET_KERNEL void net_planes_run(int32_t columns, const net_planes_t *planes) { (void)columns, (void)planes; }
NET_KERNEL void net_planes_w_run(int32_t columns, const net_planes_w_t *planes) { (void)columns, (void)planes; }
#endif

#endif
