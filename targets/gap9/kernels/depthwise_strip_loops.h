/* The hot loops of depthwise_strip.h for strips of four columns, in Xpulp's hardware loops. */
#ifndef NET_DEPTHWISE_STRIP_LOOPS_H
#define NET_DEPTHWISE_STRIP_LOOPS_H

#include "depthwise_3.h"
#include "xpulp.h"

#if defined(NET_XPULP) && defined(__riscv_zfinx) && defined(__clang__) /* GCC takes 30 operands at most */
#define NET_STRIP_LOOPS 1

#define NET_STRIP_ADD(sum, pixel, weight) NET_FUSED("fmadd.s", sum, pixel, weight, sum)
#define NET_STRIP_MASK(pixel, mask) NET_OP("and", pixel, pixel, mask)
#define NET_STRIP_STEP(pixel, pointer, step) NET_LOAD_STEP("%[" #pixel "]", "%[" #pointer "]", "%[" #step "]")

/* A row of pixels as in net_strip_rows, with sums of done (a), half (b) and fresh (s, t in turn); each pixel is loaded during
 * the multiplications of the one before. Its first, u, is that of the next row in the end.
 */
#define NET_STRIP_ROW                                                                                                   \
    NET_STRIP_ADD(a0, u, w6) NET_LOAD(v, x) NET_STRIP_ADD(b0, u, w3) NET_FUSED("fmadd.s", s, u, w0, start)              \
        NET_STRIP_ADD(a0, v, w7) NET_LOAD(u, x) NET_STRIP_ADD(a1, v, w6) NET_STRIP_ADD(b0, v, w4)                       \
            NET_STRIP_ADD(s, v, w1) NET_STRIP_ADD(b1, v, w3) NET_FUSED("fmadd.s", t, v, w0, start)                      \
                NET_STRIP_ADD(a0, u, w8) NET_LOAD(v, x) NET_STRIP_ADD(a1, u, w7) NET_STRIP_ADD(a2, u, w6)               \
                    NET_STORE(a0, y) NET_STRIP_ADD(b1, u, w4) NET_FUSED("fmadd.s", a0, u, w5, b0)                       \
                        NET_STRIP_ADD(t, u, w1) NET_FUSED("fmadd.s", b0, u, w2, s) NET_STRIP_ADD(b2, u, w3)             \
                            NET_FUSED("fmadd.s", s, u, w0, start)                                                       \
    NET_STRIP_ADD(a1, v, w8) NET_LOAD(u, x) NET_STRIP_ADD(a2, v, w7) NET_STRIP_ADD(a3, v, w6) NET_STORE(a1, y)          \
        NET_STRIP_ADD(b2, v, w4) NET_FUSED("fmadd.s", a1, v, w5, b1) NET_STRIP_ADD(s, v, w1)                            \
            NET_FUSED("fmadd.s", b1, v, w2, t) NET_STRIP_ADD(b3, v, w3) NET_FUSED("fmadd.s", t, v, w0, start)           \
                NET_STRIP_ADD(a2, u, w8) NET_STRIP_STEP(v, x, x_step) NET_STRIP_ADD(a3, u, w7) NET_STRIP_ADD(b3, u, w4) \
                    NET_STORE(a2, y) NET_FUSED("fmadd.s", a2, u, w5, b2) NET_STRIP_MASK(v, right)                       \
                        NET_FUSED("fmadd.s", b2, u, w2, s) NET_STRIP_ADD(t, u, w1)                                      \
                            NET_STRIP_ADD(a3, v, w8) "lw %[s], %[y_step]\n" NET_LOAD(u, x) NET_STORE(a3, y)             \
                                NET_FUSED("fmadd.s", a3, v, w5, b3) NET_STRIP_MASK(u, left)                             \
                                    NET_FUSED("fmadd.s", b3, v, w2, t) NET_OP("add", y, y, s)

/* Where a strip begins: its first pixels, results, and masks; those on the right are the last strip's. */
#define NET_STRIP_BEGIN                                                                                                 \
    "lw %[v], %[count]\n"                                                                                               \
    "lw %[x], %[x_at]\n"                                                                                                \
    "lw %[y], %[y_at]\n"                                                                                                \
    "lw %[left], %[left_now]\n"                                                                                         \
    "addi %[v], %[v], -1\n"                                                                                             \
    "li %[right], -1\n"                                                                                                 \
    "sw %[v], %[count]\n"                                                                                               \
    "sw %[right], %[left_now]\n"                                                                                        \
    "bnez %[v], 2f\n"                                                                                                   \
    "lw %[right], %[right_last]\n"                                                                                      \
    "2: addi %[s], %[x], 16\n"                                                                                          \
    "addi %[t], %[y], 16\n"                                                                                             \
    "sw %[s], %[x_at]\n"                                                                                                \
    "sw %[t], %[y_at]\n"
#define NET_STRIP_START(sum) "mv %[" #sum "], %[start]\n"

/* Rows that end nothing write to y's first row, where that does not stay; then come those that do. */
#define NET_STRIP_TEXT                                                                                                  \
    "1:\n" NET_STRIP_BEGIN NET_LOAD(u, x) "li %[s], -16\n"                                                              \
    "lw %[v], %[ahead]\n" NET_STRIP_START(a0) NET_STRIP_START(a1) NET_STRIP_START(a2) NET_STRIP_START(a3)               \
        NET_STRIP_START(b0) NET_STRIP_START(b1) NET_STRIP_START(b2) NET_STRIP_START(b3) NET_STRIP_MASK(u, left)         \
    "3: sw %[s], %[y_step]\n" NET_REPEAT("%[v]", 200) NET_STRIP_ROW NET_REPEAT_END                                      \
    "lw %[s], %[y_step]\n"                                                                                              \
    "bgez %[s], 4f\n"                                                                                                   \
    "lw %[v], %[ending]\n"                                                                                              \
    "lw %[s], %[y_down]\n"                                                                                              \
    "bnez %[v], 3b\n"                                                                                                   \
    "4: lw %[s], %[below]\n"                                                                                            \
    "lw %[v], %[count]\n"                                                                                               \
    "bnez %[s], 5f\n" NET_STORE(a0, y) NET_STORE(a1, y) NET_STORE(a2, y) NET_STORE(a3, y) "5: bnez %[v], 1b\n"

/* `count` strips of four columns, at least one; see net_strips_of. The plane's masks are the first and the last strip's. */
NET_KERNEL void net_strips_loop(const net_plane_t *plane, const float w[9], const float *x_at, float *y_at, int32_t count)
{
    const int32_t ahead = plane->above ? 2 : 1, ending = plane->rows - 1 + plane->below, below = plane->below;
    const intptr_t x_step = 4 * plane->x_row - 20, y_down = 4 * plane->y_row - 16;
    float a0, a1, a2, a3, b0, b1, b2, b3, s, t, u, v, *y;
    const float *x;
    uint32_t left, right, left_now = plane->left, right_last = plane->right;
    intptr_t y_step;
    __asm__ volatile(NET_STRIP_TEXT
                     : [a0] "=&r"(a0), [a1] "=&r"(a1), [a2] "=&r"(a2), [a3] "=&r"(a3), [b0] "=&r"(b0), [b1] "=&r"(b1),
                       [b2] "=&r"(b2), [b3] "=&r"(b3), [s] "=&r"(s), [t] "=&r"(t), [u] "=&r"(u), [v] "=&r"(v),
                       [x] "=&r"(x), [y] "=&r"(y), [left] "=&r"(left), [right] "=&r"(right), [x_at] "+m"(x_at),
                       [y_at] "+m"(y_at), [count] "+m"(count), [left_now] "+m"(left_now), [y_step] "=m"(y_step)
                     : [w0] "r"(w[0]), [w1] "r"(w[1]), [w2] "r"(w[2]), [w3] "r"(w[3]), [w4] "r"(w[4]), [w5] "r"(w[5]),
                       [w6] "r"(w[6]), [w7] "r"(w[7]), [w8] "r"(w[8]), [start] "r"(plane->start), [x_step] "r"(x_step),
                       [right_last] "m"(right_last), [ahead] "m"(ahead), [ending] "m"(ending), [below] "m"(below),
                       [y_down] "m"(y_down)
                     : "memory");
}

/* A row of pixels as in net_strip_w_rows: f to k are pixels, gradients go through p, q, r, t in turn, each loaded two ahead;
 * y2, y1 and y0 are the rows for the last, middle and first row of taps.
 */
#define NET_STRIP_W_3(k0, k1, k2, p0, p1, p2, gradient, first, second)                                                  \
    NET_STRIP_ADD(k0, p0, gradient) first NET_STRIP_ADD(k1, p1, gradient) second NET_STRIP_ADD(k2, p2, gradient)
#define NET_STRIP_W_ROW                                                                                                 \
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
#define NET_STRIP_W_TEXT                                                                                                \
    "1: lw %[h], %[count]\n"                                                                                            \
    "lw %[x], %[x_at]\n"                                                                                                \
    "lw %[y2], %[y_at]\n"                                                                                               \
    "lw %[left], %[left_now]\n"                                                                                         \
    "addi %[h], %[h], -1\n"                                                                                             \
    "li %[right], -1\n"                                                                                                 \
    "sw %[h], %[count]\n"                                                                                               \
    "sw %[right], %[left_now]\n"                                                                                        \
    "bnez %[h], 2f\n"                                                                                                   \
    "lw %[right], %[right_last]\n"                                                                                      \
    "2: addi %[r], %[x], 16\n"                                                                                          \
    "sw %[r], %[x_at]\n"                                                                                                \
    "mv %[y1], %[y2]\n"                                                                                                 \
    "sw x0, %[done]\n" NET_STRIP_W_BELOW(y0, y2) NET_LOAD(f, x) NET_LOAD(g, x) NET_LOAD(p, y2) NET_LOAD(q, y1)          \
        NET_STRIP_W_KEEP(w6, w7, w8) "li %[h], 1\n" NET_STRIP_MASK(f, left)                                             \
    "3:\n" NET_REPEAT("%[h]", 224) NET_STRIP_W_ROW NET_REPEAT_END                                                       \
    "lw %[h], %[done]\n"                                                                                                \
    "li %[r], 1\n"                                                                                                      \
    "beq %[h], %[r], 4f\n"                                                                                              \
    "bnez %[h], 5f\n" NET_STRIP_W_TAKE(w6, w7, w8)                                                                      \
    "lw %[y2], %[y_at]\n"                                                                                               \
    "sw %[r], %[done]\n"                                                                                                \
    "lw %[h], %[between]\n"                                                                                             \
    "addi %[t], %[y2], 16\n"                                                                                            \
    "sw %[t], %[y_at]\n" NET_STRIP_W_BELOW(y1, y2) NET_STRIP_W_BELOW(y0, y1) NET_LOAD(p, y2) NET_LOAD(q, y1)            \
    "bnez %[h], 3b\n"                                                                                                   \
    "4:\n" NET_STRIP_W_KEEP(w0, w1, w2)                                                                                 \
    "li %[h], 2\n"                                                                                                      \
    "sw %[h], %[done]\n"                                                                                                \
    "addi %[y0], %[y1], -4\n"                                                                                           \
    "li %[h], 1\n"                                                                                                      \
    "j 3b\n"                                                                                                            \
    "5:\n" NET_STRIP_W_TAKE(w0, w1, w2)                                                                                 \
    "lw %[h], %[count]\n"                                                                                               \
    "bnez %[h], 1b\n"

/* The same for net_strips_w_of and at least two rows. */
NET_KERNEL void net_strips_w_loop(const net_plane_t *plane, float w[9], const float *x_at, const float *y_at, int32_t count)
{
    const int32_t between = plane->rows - 2;
    const intptr_t x_step = 4 * plane->x_row - 20, y_step = 4 * plane->y_row - 12;
    const float *x, *y0, *y1, *y2;
    float f, g, h, i, j, k, p, q, r, t, keep0, keep1, keep2;
    uint32_t left, right, left_now = plane->left, right_last = plane->right;
    int32_t done;
    __asm__ volatile(NET_STRIP_W_TEXT
                     : [w0] "+r"(w[0]), [w1] "+r"(w[1]), [w2] "+r"(w[2]), [w3] "+r"(w[3]), [w4] "+r"(w[4]),
                       [w5] "+r"(w[5]), [w6] "+r"(w[6]), [w7] "+r"(w[7]), [w8] "+r"(w[8]), [f] "=&r"(f), [g] "=&r"(g),
                       [h] "=&r"(h), [i] "=&r"(i), [j] "=&r"(j), [k] "=&r"(k), [p] "=&r"(p), [q] "=&r"(q), [r] "=&r"(r),
                       [t] "=&r"(t), [x] "=&r"(x), [y0] "=&r"(y0), [y1] "=&r"(y1), [y2] "=&r"(y2), [left] "=&r"(left),
                       [right] "=&r"(right), [keep0] "=m"(keep0), [keep1] "=m"(keep1), [keep2] "=m"(keep2),
                       [done] "=m"(done), [x_at] "+m"(x_at), [y_at] "+m"(y_at), [count] "+m"(count),
                       [left_now] "+m"(left_now)
                     : [x_step] "r"(x_step), [y_step] "r"(y_step), [right_last] "m"(right_last), [between] "m"(between)
                     : "memory");
}
#else
#define NET_STRIP_LOOPS 0
NET_KERNEL void net_strips_loop(const net_plane_t *plane, const float w[9], const float *x_at, float *y_at, int32_t count)
{
    (void)plane, (void)w, (void)x_at, (void)y_at, (void)count;
}

NET_KERNEL void net_strips_w_loop(const net_plane_t *plane, float w[9], const float *x_at, const float *y_at, int32_t count)
{
    (void)plane, (void)w, (void)x_at, (void)y_at, (void)count;
}
#endif

#endif
