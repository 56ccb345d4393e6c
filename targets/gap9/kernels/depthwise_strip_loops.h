/* Depthwise 3x3 of stride 1 by strips of up to four columns, in Xpulp's hardware loops: planes one after the other, of each
 * strip by strip, of each row by row. See depthwise_strip.h, where the same is in C.
 */
#ifndef NET_DEPTHWISE_STRIP_LOOPS_H
#define NET_DEPTHWISE_STRIP_LOOPS_H

#include "depthwise_3.h"
#include "xpulp.h"

/* Strips of some planes: forward and dX set y = start + x * w; dW sets w = start + x * y. Steps are in bytes. */
typedef struct {
    const float *x; /* the row of the middle taps of y's first, from the pixel before the first column */
    float *w, *y;   /* what the operator reads is not written */
    const float *start;
    int32_t planes, strips; /* strips of a plane, side by side */
    int32_t rows;           /* of y; of dW 2 at least */
    intptr_t x_row, y_row, x_plane, y_plane;
    intptr_t w_step, w_next; /* from one tap to the next, and from the last of a plane to the first of the next */
    intptr_t start_step;     /* of forward and dX to the next plane's, of dW to the next tap's */
    bool above, below;       /* forward and dX: whether x has a row above and below those of y */
    bool left, right;        /* whether x has a pixel before the first strip and behind the last */
} net_strips_t;

#if defined(NET_XPULP) && defined(__riscv_zfinx) && defined(__clang__) /* GCC takes 30 operands at most */
#define NET_STRIP_LOOPS 1

#define NET_STRIP_ADD(sum, pixel, weight) NET_FUSED("fmadd.s", sum, pixel, weight, sum)
#define NET_STRIP_START(sum, pixel, weight) NET_FUSED("fmadd.s", sum, pixel, weight, start)
#define NET_STRIP_MASK(pixel, mask) NET_OP("and", pixel, pixel, mask)
#define NET_STRIP_STEP(pixel, pointer, step) NET_LOAD_STEP("%[" #pixel "]", "%[" #pointer "]", "%[" #step "]")
#define NET_STRIP_AT(pixel, pointer, offset) NET_LOAD_AT("%[" #pixel "]", "%[" #pointer "]", "%[" #offset "]")

/* A row of pixels as in net_strip_rows: sums of the row of results that it ends (a), of the one it carries on (b), and of the
 * one it begins, which are in s and t in turn (S of the results l and r, T of m). Each pixel is loaded during the
 * multiplications of the one before. The last own one moves x to the next row; the pixel on its right is then `beside` it.
 */
#define NET_STRIP_LEFT(load)                                                                                            \
    NET_LOAD(u, x) load NET_STRIP_MASK(u, left) NET_STRIP_ADD(a0, u, w6) NET_STRIP_ADD(b0, u, w3)                       \
        NET_STRIP_START(s, u, w0)
#define NET_STRIP_FIRST(load)                                                                                           \
    NET_STRIP_ADD(a0, v, w7) load NET_STRIP_ADD(a1, v, w6) NET_STRIP_ADD(b0, v, w4) NET_STRIP_ADD(b1, v, w3)            \
        NET_STRIP_ADD(s, v, w1) NET_STRIP_START(t, v, w0)
#define NET_STRIP_NEXT(u, load, l, m, r, S, T)                                                                          \
    NET_STRIP_ADD(a##l, u, w8) load NET_STRIP_ADD(a##m, u, w7) NET_STRIP_ADD(a##r, u, w6) NET_STORE(a##l, y)            \
        NET_STRIP_ADD(b##m, u, w4) NET_FUSED("fmadd.s", a##l, u, w5, b##l) NET_STRIP_ADD(b##r, u, w3)                   \
            NET_FUSED("fmadd.s", b##l, u, w2, S) NET_STRIP_ADD(T, u, w1) NET_STRIP_START(S, u, w0)
#define NET_STRIP_LAST(u, n, l, m, S, T)                                                                                \
    NET_STRIP_ADD(a##l, u, w8) NET_STRIP_AT(n, x, beside) NET_STRIP_ADD(a##m, u, w7) NET_STORE(a##l, y)                 \
        NET_STRIP_ADD(b##m, u, w4) NET_FUSED("fmadd.s", a##l, u, w5, b##l) NET_STRIP_MASK(n, right)                     \
            NET_FUSED("fmadd.s", b##l, u, w2, S) NET_STRIP_ADD(T, u, w1)
#define NET_STRIP_RIGHT(n, m, T, spare)                                                                                 \
    NET_STRIP_ADD(a##m, n, w8) "lw %[" #spare "], %[y_step]\n" NET_STORE(a##m, y)                                       \
        NET_FUSED("fmadd.s", a##m, n, w5, b##m) NET_OP("add", y, y, spare) NET_FUSED("fmadd.s", b##m, n, w2, T)

#define NET_STRIP_ROW_1                                                                                                 \
    NET_STRIP_LEFT(NET_STRIP_STEP(v, x, x_step)) NET_STRIP_AT(u, x, beside) NET_STRIP_ADD(a0, v, w7)                    \
        NET_STRIP_ADD(b0, v, w4) NET_STRIP_MASK(u, right) NET_STRIP_ADD(s, v, w1) NET_STRIP_RIGHT(u, 0, s, t)
#define NET_STRIP_ROW_2                                                                                                 \
    NET_STRIP_LEFT(NET_LOAD(v, x)) NET_STRIP_FIRST(NET_STRIP_STEP(u, x, x_step)) NET_STRIP_LAST(u, v, 0, 1, s, t)       \
        NET_STRIP_RIGHT(v, 1, t, s)
#define NET_STRIP_ROW_3                                                                                                 \
    NET_STRIP_LEFT(NET_LOAD(v, x)) NET_STRIP_FIRST(NET_LOAD(u, x))                                                      \
        NET_STRIP_NEXT(u, NET_STRIP_STEP(v, x, x_step), 0, 1, 2, s, t) NET_STRIP_LAST(v, u, 1, 2, t, s)                 \
            NET_STRIP_RIGHT(u, 2, s, t)
#define NET_STRIP_ROW_4                                                                                                 \
    NET_STRIP_LEFT(NET_LOAD(v, x)) NET_STRIP_FIRST(NET_LOAD(u, x)) NET_STRIP_NEXT(u, NET_LOAD(v, x), 0, 1, 2, s, t)     \
        NET_STRIP_NEXT(v, NET_STRIP_STEP(u, x, x_step), 1, 2, 3, t, s) NET_STRIP_LAST(u, v, 2, 3, s, t)                 \
            NET_STRIP_RIGHT(v, 3, t, s)

#define NET_STRIP_BIAS_1 "mv %[a0], %[start]\nmv %[b0], %[start]\n"
#define NET_STRIP_BIAS_2 NET_STRIP_BIAS_1 "mv %[a1], %[start]\nmv %[b1], %[start]\n"
#define NET_STRIP_BIAS_3 NET_STRIP_BIAS_2 "mv %[a2], %[start]\nmv %[b2], %[start]\n"
#define NET_STRIP_BIAS_4 NET_STRIP_BIAS_3 "mv %[a3], %[start]\nmv %[b3], %[start]\n"
#define NET_STRIP_STORE_1 NET_STORE(a0, y)
#define NET_STRIP_STORE_2 NET_STRIP_STORE_1 NET_STORE(a1, y)
#define NET_STRIP_STORE_3 NET_STRIP_STORE_2 NET_STORE(a2, y)
#define NET_STRIP_STORE_4 NET_STRIP_STORE_3 NET_STORE(a3, y)

/* Nine values from p on, `step` apart. */
#define NET_STRIP_NINE(p, step)                                                                                         \
    NET_STRIP_STEP(w0, p, step) NET_STRIP_STEP(w1, p, step) NET_STRIP_STEP(w2, p, step) NET_STRIP_STEP(w3, p, step)     \
        NET_STRIP_STEP(w4, p, step) NET_STRIP_STEP(w5, p, step) NET_STRIP_STEP(w6, p, step)                             \
            NET_STRIP_STEP(w7, p, step) NET_STRIP_STEP(w8, p, step)

/* Where planes begin: their strips, in front of which the next plane is noted. p and q are free. */
#define NET_STRIP_PLANE(p, q)                                                                                           \
    "lw %[" #p "], %[x_at]\n"                                                                                           \
    "lw %[" #q "], %[y_at]\n"                                                                                           \
    "sw %[" #p "], %[x_strip]\n"                                                                                        \
    "sw %[" #q "], %[y_strip]\n"                                                                                        \
    "lw %[x], %[x_plane]\n"                                                                                             \
    "lw %[left], %[y_plane]\n"                                                                                          \
    "add %[" #p "], %[" #p "], %[x]\n"                                                                                  \
    "add %[" #q "], %[" #q "], %[left]\n"                                                                               \
    "sw %[" #p "], %[x_at]\n"                                                                                           \
    "sw %[" #q "], %[y_at]\n"                                                                                           \
    "lw %[" #p "], %[strips]\n"                                                                                         \
    "lw %[" #q "], %[left_first]\n"                                                                                     \
    "sw %[" #p "], %[count]\n"                                                                                          \
    "sw %[" #q "], %[left_now]\n"

/* Where a strip begins: its pixels, and masks; what is beside the image is not loaded but the pixel next to it. */
#define NET_STRIP_BESIDE_EACH "lw %[beside], %[beside_each]\n"
#define NET_STRIP_BESIDE_LAST "lw %[beside], %[beside_last]\n"
#define NET_STRIP_BEGIN(p, q, y, each, last)                                                                            \
    "lw %[" #p "], %[count]\n"                                                                                          \
    "lw %[x], %[x_strip]\n"                                                                                             \
    "lw %[" #y "], %[y_strip]\n"                                                                                        \
    "lw %[left], %[left_now]\n"                                                                                         \
    "addi %[" #p "], %[" #p "], -1\n"                                                                                   \
    "li %[right], -1\n"                                                                                                 \
    "sw %[" #p "], %[count]\n"                                                                                          \
    "sw %[right], %[left_now]\n"                                                                                        \
    each                                                                                                                \
    "addi %[" #q "], %[x], 16\n"                                                                                        \
    "bnez %[" #p "], 5f\n"                                                                                              \
    "lw %[right], %[right_last]\n" last                                                                                 \
    "5: sw %[" #q "], %[x_strip]\n"                                                                                     \
    "addi %[" #p "], %[" #y "], 16\n"                                                                                   \
    "sw %[" #p "], %[y_strip]\n"

/* The taps and the start value of a plane; both pointers go on to those of the next. */
#define NET_STRIP_FETCH                                                                                                 \
    "lw %[s], %[w_at]\n"                                                                                                \
    "lw %[t], %[w_step]\n" NET_STRIP_NINE(s, t)                                                                         \
    "lw %[u], %[w_next]\n"                                                                                              \
    "lw %[v], %[start_at]\n"                                                                                            \
    "lw %[t], %[start_step]\n" NET_OP("add", s, s, u)                                                                   \
    "lw %[start], 0(%[v])\n" NET_OP("add", v, v, t)                                                                     \
    "sw %[s], %[w_at]\n"                                                                                                \
    "sw %[v], %[start_at]\n"

/* Rows that end nothing write to y's first row, where that does not stay; then come those that do. */
#define NET_STRIP_TEXT(P)                                                                                               \
    "1: " NET_STRIP_FETCH NET_STRIP_PLANE(s, t)                                                                         \
    "2:\n" NET_STRIP_BEGIN(s, t, y, NET_STRIP_BESIDE_EACH, NET_STRIP_BESIDE_LAST)                                       \
    "lw %[v], %[ahead]\n"                                                                                               \
    "li %[s], -4 * " #P "\n" NET_STRIP_BIAS_##P                                                                         \
    "3: sw %[s], %[y_step]\n" NET_REPEAT("%[v]", 4 * (11 * P + 6)) NET_STRIP_ROW_##P NET_REPEAT_END                     \
    "lw %[s], %[y_step]\n"                                                                                              \
    "bgez %[s], 4f\n"                                                                                                   \
    "lw %[v], %[ending]\n"                                                                                              \
    "lw %[s], %[y_down]\n"                                                                                              \
    "bnez %[v], 3b\n"                                                                                                   \
    "4: lw %[s], %[below]\n"                                                                                            \
    "lw %[v], %[count]\n"                                                                                               \
    "bnez %[s], 6f\n" NET_STRIP_STORE_##P                                                                               \
    "6: bnez %[v], 2b\n"                                                                                                \
    "lw %[v], %[planes]\n"                                                                                              \
    "addi %[v], %[v], -1\n"                                                                                             \
    "sw %[v], %[planes]\n"                                                                                              \
    "bnez %[v], 1b\n"

/* What both loops keep in memory. */
#define NET_STRIP_MEMORY(P)                                                                                             \
    const intptr_t x_step = of->x_row - 4 * P, beside_each = 4 - x_step, beside_last = of->right ? beside_each : -x_step;\
    const intptr_t x_plane = of->x_plane, y_plane = of->y_plane;                                                        \
    const uint32_t left_first = of->left ? UINT32_MAX : 0, right_last = of->right ? UINT32_MAX : 0;                     \
    const int32_t strips = of->strips;                                                                                  \
    const float *x, *x_at = of->x, *x_strip;                                                                            \
    float *y_at = of->y, *y_strip, w0, w1, w2, w3, w4, w5, w6, w7, w8;                                                  \
    uint32_t left, right, left_now;                                                                                     \
    int32_t planes = of->planes, count;                                                                                 \
    intptr_t beside;
#define NET_STRIP_COUNTS [strips] "m"(strips), [left_first] "m"(left_first), [right_last] "m"(right_last),              \
    [beside_each] "m"(beside_each), [beside_last] "m"(beside_last), [x_plane] "m"(x_plane), [y_plane] "m"(y_plane)
#define NET_STRIP_PLACES [x_at] "+m"(x_at), [y_at] "+m"(y_at), [x_strip] "=m"(x_strip), [y_strip] "=m"(y_strip),        \
    [count] "=m"(count), [left_now] "=m"(left_now), [planes] "+m"(planes)
#define NET_STRIP_NINE_OUT [w0] "=&r"(w0), [w1] "=&r"(w1), [w2] "=&r"(w2), [w3] "=&r"(w3), [w4] "=&r"(w4),              \
    [w5] "=&r"(w5), [w6] "=&r"(w6), [w7] "=&r"(w7), [w8] "=&r"(w8)
#define NET_STRIP_SUMS(i) [a##i] "=&r"(a##i), [b##i] "=&r"(b##i),

#define NET_STRIPS_LOOP(P, ...)                                                                                         \
    NET_HOT void net_strips_loop_##P(const net_strips_t *of)                                                            \
    {                                                                                                                   \
        NET_STRIP_MEMORY(P)                                                                                             \
        const intptr_t y_down = of->y_row - 4 * P, w_step = of->w_step, w_next = of->w_next, start_step = of->start_step;\
        const int32_t ahead = of->above ? 2 : 1, ending = of->rows - 1 + of->below, below = of->below;                  \
        const float *w_at = of->w, *start_at = of->start;                                                               \
        float a0, a1, a2, a3, b0, b1, b2, b3, s, t, u, v, start, *y;                                                    \
        intptr_t y_step;                                                                                                \
        (void)a1, (void)a2, (void)a3, (void)b1, (void)b2, (void)b3;                                                     \
        __asm__ volatile(NET_STRIP_TEXT(P)                                                                              \
                         : NET_STRIP_SUMS(0) __VA_ARGS__ [s] "=&r"(s), [t] "=&r"(t), [u] "=&r"(u), [v] "=&r"(v),        \
                           [start] "=&r"(start), NET_STRIP_NINE_OUT, [x] "=&r"(x), [y] "=&r"(y), [left] "=&r"(left),    \
                           [right] "=&r"(right), [beside] "=&r"(beside), NET_STRIP_PLACES, [y_step] "=m"(y_step),       \
                           [w_at] "+m"(w_at), [start_at] "+m"(start_at)                                                 \
                         : [x_step] "r"(x_step), NET_STRIP_COUNTS, [w_step] "m"(w_step), [w_next] "m"(w_next),          \
                           [start_step] "m"(start_step), [ahead] "m"(ahead), [ending] "m"(ending), [below] "m"(below),  \
                           [y_down] "m"(y_down)                                                                         \
                         : "memory");                                                                                   \
    }

NET_STRIPS_LOOP(1, )
NET_STRIPS_LOOP(2, NET_STRIP_SUMS(1))
NET_STRIPS_LOOP(3, NET_STRIP_SUMS(1) NET_STRIP_SUMS(2))
NET_STRIPS_LOOP(4, NET_STRIP_SUMS(1) NET_STRIP_SUMS(2) NET_STRIP_SUMS(3))

/* A row of dW as in net_strips_w_of: each column of dY above (p), in the row (q) and below (r) times the pixels on its left,
 * its own and on its right, which are in f, g, h and i in turn. Gradients are loaded two groups of multiplications ahead.
 */
#define NET_STRIP_W_START(p_load, q_load, h_load)                                                                       \
    NET_LOAD(f, x) p_load h_load q_load NET_STRIP_MASK(f, left)
#define NET_STRIP_W_NEXT(before, own, after, ahead, p_load, q_load, r_load, mask)                                       \
    NET_STRIP_ADD(w6, before, p) r_load NET_STRIP_ADD(w7, own, p) ahead NET_STRIP_ADD(w8, after, p)                     \
        NET_STRIP_ADD(w3, before, q) p_load NET_STRIP_ADD(w4, own, q) mask NET_STRIP_ADD(w5, after, q)                  \
            NET_STRIP_ADD(w0, before, r) q_load NET_STRIP_ADD(w1, own, r) NET_STRIP_ADD(w2, after, r)
#define NET_STRIP_W_P NET_LOAD(p, y2)
#define NET_STRIP_W_Q NET_LOAD(q, y1)
#define NET_STRIP_W_R NET_LOAD(r, y0)
#define NET_STRIP_W_P_LAST NET_STRIP_STEP(p, y2, y_step)
#define NET_STRIP_W_Q_LAST NET_STRIP_STEP(q, y1, y_step)
#define NET_STRIP_W_R_LAST NET_STRIP_STEP(r, y0, y_step)
#define NET_STRIP_W_ROW_1                                                                                               \
    NET_STRIP_W_START(NET_STRIP_W_P_LAST, NET_STRIP_W_Q_LAST, NET_STRIP_STEP(g, x, x_step)) NET_STRIP_AT(h, x, beside)  \
        NET_STRIP_W_NEXT(f, g, h, NET_STRIP_MASK(h, right), , , NET_STRIP_W_R_LAST, )
#define NET_STRIP_W_ROW_2                                                                                               \
    NET_STRIP_W_START(NET_STRIP_W_P, NET_STRIP_W_Q, NET_LOAD(g, x)) NET_STRIP_STEP(h, x, x_step)                        \
        NET_STRIP_W_NEXT(f, g, h, NET_STRIP_AT(i, x, beside), NET_STRIP_W_P_LAST, NET_STRIP_W_Q_LAST, NET_STRIP_W_R,    \
                         NET_STRIP_MASK(i, right))                                                                      \
            NET_STRIP_W_NEXT(g, h, i, , , , NET_STRIP_W_R_LAST, )
#define NET_STRIP_W_ROW_3                                                                                               \
    NET_STRIP_W_START(NET_STRIP_W_P, NET_STRIP_W_Q, NET_LOAD(g, x)) NET_LOAD(h, x)                                      \
        NET_STRIP_W_NEXT(f, g, h, NET_STRIP_STEP(i, x, x_step), NET_STRIP_W_P, NET_STRIP_W_Q, NET_STRIP_W_R, )          \
            NET_STRIP_W_NEXT(g, h, i, NET_STRIP_AT(f, x, beside), NET_STRIP_W_P_LAST, NET_STRIP_W_Q_LAST,               \
                             NET_STRIP_W_R, NET_STRIP_MASK(f, right))                                                   \
                NET_STRIP_W_NEXT(h, i, f, , , , NET_STRIP_W_R_LAST, )
/* A plane's sums, and the next plane if there is one. */
#define NET_STRIP_W_END(p)                                                                                              \
    NET_STORE(w0, x) NET_STORE(w1, x) NET_STORE(w2, x) NET_STORE(w3, x) NET_STORE(w4, x) NET_STORE(w5, x)               \
        NET_STORE(w6, x) NET_STORE(w7, x) NET_STORE(w8, x)                                                              \
    "lw %[" #p "], %[planes]\n"                                                                                         \
    "sw %[x], %[w_at]\n"                                                                                                \
    "addi %[" #p "], %[" #p "], -1\n"                                                                                   \
    "sw %[" #p "], %[planes]\n"                                                                                         \
    "bnez %[" #p "], 1b\n"

/* The first row has zeros above, the last below. What is done next is 1 after the first row, 0 after those between, -1 after
 * the last.
 */
#define NET_STRIP_W_TEXT(P)                                                                                             \
    "1: lw %[f], %[start_at]\n"                                                                                         \
    "lw %[g], %[start_step]\n" NET_STRIP_NINE(f, g)                                                                     \
    "sw %[f], %[start_at]\n" NET_STRIP_PLANE(f, g)                                                                      \
    "2:\n" NET_STRIP_BEGIN(f, g, y1, NET_STRIP_BESIDE_EACH, NET_STRIP_BESIDE_LAST)                                      \
    "lw %[y2], %[zeros_at]\n"                                                                                           \
    "lw %[p], %[y_row]\n"                                                                                               \
    "li %[next], 2\n" NET_OP("add", y0, y1, p)                                                                          \
    "li %[p], 1\n"                                                                                                      \
    "3:\n" NET_REPEAT("%[p]", 4 * (13 * P + 4)) NET_STRIP_W_ROW_##P NET_REPEAT_END                                      \
    "addi %[next], %[next], -1\n"                                                                                       \
    "bltz %[next], 7f\n"                                                                                                \
    "beqz %[next], 4f\n"                                                                                                \
    "lw %[q], %[y_row]\n"                                                                                               \
    "lw %[p], %[between]\n" NET_OP("sub", y2, y1, q)                                                                    \
    "bnez %[p], 3b\n"                                                                                                   \
    "li %[next], 0\n"                                                                                                   \
    "4: lw %[y0], %[zeros_at]\n"                                                                                        \
    "li %[p], 1\n"                                                                                                      \
    "j 3b\n"                                                                                                            \
    "7: lw %[p], %[count]\n"                                                                                            \
    "lw %[x], %[w_at]\n"                                                                                                \
    "bnez %[p], 2b\n" NET_STRIP_W_END(p)

#define NET_STRIPS_W_LOOP(P)                                                                                            \
    NET_HOT void net_strips_w_loop_##P(const net_strips_t *of)                                                          \
    {                                                                                                                   \
        NET_STRIP_MEMORY(P)                                                                                             \
        const intptr_t y_row = of->y_row, y_step = y_row - 4 * (P - 1), start_step = of->start_step;                    \
        const int32_t between = of->rows - 2;                                                                           \
        const float zeros[P] = {0}, *const zeros_at = zeros, *start_at = of->start, *y0, *y1, *y2;                      \
        float *w_at = of->w, f, g, h, i, p, q, r;                                                                       \
        int32_t next;                                                                                                   \
        __asm__ volatile(NET_STRIP_W_TEXT(P)                                                                            \
                         : NET_STRIP_NINE_OUT, [f] "=&r"(f), [g] "=&r"(g), [h] "=&r"(h), [i] "=&r"(i), [p] "=&r"(p),    \
                           [q] "=&r"(q), [r] "=&r"(r), [x] "=&r"(x), [y0] "=&r"(y0), [y1] "=&r"(y1), [y2] "=&r"(y2),    \
                           [left] "=&r"(left), [right] "=&r"(right), [beside] "=&r"(beside), [next] "=&r"(next),        \
                           NET_STRIP_PLACES, [w_at] "+m"(w_at), [start_at] "+m"(start_at)                               \
                         : [x_step] "r"(x_step), [y_step] "r"(y_step), NET_STRIP_COUNTS, [start_step] "m"(start_step),  \
                           [y_row] "m"(y_row), [zeros_at] "m"(zeros_at), [between] "m"(between)                         \
                         : "memory");                                                                                   \
    }

NET_STRIPS_W_LOOP(1)
NET_STRIPS_W_LOOP(2)
NET_STRIPS_W_LOOP(3)

/* Four columns: f to k are pixels, gradients go through p, q, r and t in turn, each loaded two ahead, and one by one among
 * multiplications.
 */
#define NET_STRIP_W_3(k0, k1, k2, p0, p1, p2, gradient, first, second)                                                  \
    NET_STRIP_ADD(k0, p0, gradient) first NET_STRIP_ADD(k1, p1, gradient) second NET_STRIP_ADD(k2, p2, gradient)
#define NET_STRIP_W_ROW_4                                                                                               \
    NET_STRIP_W_3(w6, w7, w8, f, g, h, p, NET_LOAD(h, x), NET_LOAD(r, y0))                                              \
    NET_STRIP_W_3(w3, w4, w5, f, g, h, q, NET_LOAD(t, y2), NET_LOAD(i, x))                                              \
    NET_STRIP_W_3(w0, w1, w2, f, g, h, r, NET_LOAD(p, y1), )                                                            \
    NET_STRIP_W_3(w6, w7, w8, g, h, i, t, NET_LOAD(q, y0), NET_LOAD(j, x))                                              \
    NET_STRIP_W_3(w3, w4, w5, g, h, i, p, NET_LOAD(r, y2), )                                                            \
    NET_STRIP_W_3(w0, w1, w2, g, h, i, q, NET_LOAD(t, y1), NET_STRIP_STEP(k, x, x_step))                                \
    NET_STRIP_W_3(w6, w7, w8, h, i, j, r, NET_LOAD(p, y0), )                                                            \
    NET_STRIP_W_3(w3, w4, w5, h, i, j, t, NET_STRIP_STEP(q, y2, y_step), )                                              \
    NET_STRIP_W_3(w0, w1, w2, h, i, j, p, NET_STRIP_STEP(r, y1, y_step), NET_STRIP_MASK(k, right))                      \
    NET_STRIP_W_3(w6, w7, w8, i, j, k, q, NET_STRIP_STEP(t, y0, y_step), NET_LOAD(f, x))                                \
    NET_STRIP_W_3(w3, w4, w5, i, j, k, r, NET_LOAD(p, y2), NET_STRIP_MASK(f, left))                                     \
    NET_STRIP_W_3(w0, w1, w2, i, j, k, t, NET_LOAD(q, y1), NET_LOAD(g, x))

#define NET_STRIP_W_KEEP(a, b, c) "sw %[" #a "], %[keep0]\nsw %[" #b "], %[keep1]\nsw %[" #c "], %[keep2]\n"
#define NET_STRIP_W_TAKE(a, b, c) "lw %[" #a "], %[keep0]\nlw %[" #b "], %[keep1]\nlw %[" #c "], %[keep2]\n"
#define NET_STRIP_W_BELOW(to, from) NET_OP("add", to, from, y_step) "addi %[" #to "], %[" #to "], 12\n"

/* The first row has no dY above, the last none below: instead, some other row is taken, and sums of that are taken back.
 * What is done next is 0 after the first row, 1 after those between, 2 after the last.
 */
#define NET_STRIP_W_TEXT_4                                                                                              \
    "1: lw %[f], %[start_at]\n"                                                                                         \
    "lw %[g], %[start_step]\n" NET_STRIP_NINE(f, g)                                                                     \
    "sw %[f], %[start_at]\n" NET_STRIP_PLANE(f, g)                                                                      \
    "2:\n" NET_STRIP_BEGIN(f, g, y2, , )                                                                                \
    "mv %[y1], %[y2]\n"                                                                                                 \
    "sw x0, %[done]\n" NET_STRIP_W_BELOW(y0, y2) NET_LOAD(f, x) NET_LOAD(g, x) NET_LOAD(p, y2) NET_LOAD(q, y1)          \
        NET_STRIP_W_KEEP(w6, w7, w8) "li %[h], 1\n" NET_STRIP_MASK(f, left)                                             \
    "3:\n" NET_REPEAT("%[h]", 224) NET_STRIP_W_ROW_4 NET_REPEAT_END                                                     \
    "lw %[h], %[done]\n"                                                                                                \
    "li %[r], 1\n"                                                                                                      \
    "beq %[h], %[r], 4f\n"                                                                                              \
    "bnez %[h], 7f\n" NET_STRIP_W_TAKE(w6, w7, w8)                                                                      \
    "lw %[y2], %[y_strip]\n"                                                                                            \
    "lw %[h], %[between]\n"                                                                                             \
    "addi %[y2], %[y2], -16\n"                                                                                          \
    "sw %[r], %[done]\n" NET_STRIP_W_BELOW(y1, y2) NET_STRIP_W_BELOW(y0, y1) NET_LOAD(p, y2) NET_LOAD(q, y1)            \
    "bnez %[h], 3b\n"                                                                                                   \
    "4:\n" NET_STRIP_W_KEEP(w0, w1, w2)                                                                                 \
    "li %[h], 2\n"                                                                                                      \
    "sw %[h], %[done]\n"                                                                                                \
    "addi %[y0], %[y1], -4\n"                                                                                           \
    "li %[h], 1\n"                                                                                                      \
    "j 3b\n"                                                                                                            \
    "7:\n" NET_STRIP_W_TAKE(w0, w1, w2)                                                                                 \
    "lw %[h], %[count]\n"                                                                                               \
    "lw %[x], %[w_at]\n"                                                                                                \
    "bnez %[h], 2b\n" NET_STRIP_W_END(h)

NET_HOT void net_strips_w_loop_4(const net_strips_t *of)
{
    NET_STRIP_MEMORY(4)
    const intptr_t x_next = x_step - 4, y_step = of->y_row - 12, start_step = of->start_step;
    const int32_t between = of->rows - 2;
    const float *start_at = of->start, *y0, *y1, *y2;
    float *w_at = of->w, f, g, h, i, j, k, p, q, r, t, keep0, keep1, keep2;
    int32_t done;
    (void)beside, (void)beside_last;
    __asm__ volatile(NET_STRIP_W_TEXT_4
                     : NET_STRIP_NINE_OUT, [f] "=&r"(f), [g] "=&r"(g), [h] "=&r"(h), [i] "=&r"(i), [j] "=&r"(j),
                       [k] "=&r"(k), [p] "=&r"(p), [q] "=&r"(q), [r] "=&r"(r), [t] "=&r"(t), [x] "=&r"(x),
                       [y0] "=&r"(y0), [y1] "=&r"(y1), [y2] "=&r"(y2), [left] "=&r"(left), [right] "=&r"(right),
                       NET_STRIP_PLACES, [w_at] "+m"(w_at), [start_at] "+m"(start_at), [keep0] "=m"(keep0),
                       [keep1] "=m"(keep1), [keep2] "=m"(keep2), [done] "=m"(done)
                     : [x_step] "r"(x_next), [y_step] "r"(y_step), NET_STRIP_COUNTS, [start_step] "m"(start_step),
                       [between] "m"(between)
                     : "memory");
}
#else
#define NET_STRIP_LOOPS 0
#endif

#endif
