/* Walks along contiguous runs: element-wise operators and the sums of normalisation, each call one worker's.
 *
 * Four elements a turn, in hardware loops where there are; the rest, or everything, in C. A result may lie where an operand
 * does. Element i of a sum belongs to part i % 4, those behind the last four to part 0.
 */
#ifndef NET_ELEMENTWISE_H
#define NET_ELEMENTWISE_H

#include "kernel.h"
#include "xpulp.h"

#if defined(NET_XPULP) && defined(__riscv)
#define NET_FOUR(r) [r##0] "=&r"(r##0), [r##1] "=&r"(r##1), [r##2] "=&r"(r##2), [r##3] "=&r"(r##3)
#define NET_PARTS(sum) [sum##0] "+r"(sum[0]), [sum##1] "+r"(sum[1]), [sum##2] "+r"(sum[2]), [sum##3] "+r"(sum[3])

/* FIRST(i) and OP(i) compute a_i from a_i and, of two operands, b_i, or add to part i of a sum. Accesses for other elements
 * stand between, as two cores share an FPU. SIZE: bytes of the loop. Constants follow.
 */
#define NET_MAP_1(FIRST, OP, SIZE, ...)                                                                                 \
    if (count > 3) {                                                                                                    \
        float a0, a1, a2, a3;                                                                                           \
        __asm__ volatile(NET_REPEAT("%[turns]", SIZE)                                                                   \
                         NET_LOAD(a0, a) NET_LOAD(a1, a) FIRST(0) NET_LOAD(a2, a) OP(0) NET_STORE(a0, y)                \
                         FIRST(1) NET_LOAD(a3, a) OP(1) NET_STORE(a1, y)                                                \
                         FIRST(2) OP(2) NET_STORE(a2, y) FIRST(3) OP(3) NET_STORE(a3, y)                                \
                         NET_REPEAT_END                                                                                 \
                         : [y] "+r"(y), [a] "+r"(a), NET_FOUR(a)                                                        \
                         : [turns] "r"(count >> 2), ##__VA_ARGS__                                                       \
                         : "memory");                                                                                   \
        count &= 3;                                                                                                     \
    }
#define NET_MAP_2(FIRST, OP, SIZE, ...)                                                                                 \
    if (count > 3) {                                                                                                    \
        float a0, a1, a2, a3, b0, b1, b2, b3;                                                                           \
        __asm__ volatile(NET_REPEAT("%[turns]", SIZE)                                                                   \
                         NET_LOAD(a0, a) NET_LOAD(b0, b) NET_LOAD(a1, a)                                                \
                         FIRST(0) NET_LOAD(b1, b) OP(0) NET_STORE(a0, y) NET_LOAD(a2, a)                                \
                         FIRST(1) NET_LOAD(b2, b) OP(1) NET_STORE(a1, y) NET_LOAD(a3, a)                                \
                         FIRST(2) NET_LOAD(b3, b) OP(2) NET_STORE(a2, y) FIRST(3) OP(3) NET_STORE(a3, y)                \
                         NET_REPEAT_END                                                                                 \
                         : [y] "+r"(y), [a] "+r"(a), [b] "+r"(b), NET_FOUR(a), NET_FOUR(b)                              \
                         : [turns] "r"(count >> 2), ##__VA_ARGS__                                                       \
                         : "memory");                                                                                   \
        count &= 3;                                                                                                     \
    }
#define NET_SUM_1(OP, SIZE, ...)                                                                                        \
    if (count > 3) {                                                                                                    \
        float a0, a1, a2, a3;                                                                                           \
        __asm__ volatile(NET_REPEAT("%[turns]", SIZE)                                                                   \
                         NET_LOAD(a0, a) NET_LOAD(a1, a) OP(0) NET_LOAD(a2, a) OP(1) NET_LOAD(a3, a) OP(2) OP(3)        \
                         NET_REPEAT_END                                                                                 \
                         : [a] "+r"(a), NET_FOUR(a), NET_PARTS(sum)                                                     \
                         : [turns] "r"(count >> 2), ##__VA_ARGS__                                                       \
                         : "memory");                                                                                   \
        count &= 3;                                                                                                     \
    }
#define NET_SUM_2(FIRST, OP, SIZE, ...)                                                                                 \
    if (count > 3) {                                                                                                    \
        float a0, a1, a2, a3, b0, b1, b2, b3;                                                                           \
        __asm__ volatile(NET_REPEAT("%[turns]", SIZE)                                                                   \
                         NET_LOAD(a0, a) NET_LOAD(b0, b) NET_LOAD(a1, a)                                                \
                         FIRST(0) NET_LOAD(b1, b) OP(0) NET_LOAD(a2, a) FIRST(1) NET_LOAD(b2, b) OP(1)                  \
                         NET_LOAD(a3, a) FIRST(2) NET_LOAD(b3, b) OP(2) FIRST(3) OP(3)                                  \
                         NET_REPEAT_END                                                                                 \
                         : [a] "+r"(a), [b] "+r"(b), NET_FOUR(a), NET_FOUR(b), NET_PARTS(sum), NET_PARTS(product)       \
                         : [turns] "r"(count >> 2), ##__VA_ARGS__                                                       \
                         : "memory");                                                                                   \
        count &= 3;                                                                                                     \
    }
#else
#define NET_MAP_1(...)
#define NET_MAP_2(...)
#define NET_SUM_1(...)
#define NET_SUM_2(...)
#endif
#define NET_CONSTANT(name) [name] "r"(name)

#define NET_NONE(i)
#define NET_RELU(i) NET_MAX_0(a##i, a##i)
#define NET_MASK(i) NET_OP("slt", b##i, zero, b##i) NET_OP("sub", b##i, zero, b##i) NET_OP("and", a##i, a##i, b##i)
#define NET_ADD(i) NET_OP("fadd.s", a##i, a##i, b##i)
#define NET_MUL(i) NET_OP("fmul.s", a##i, a##i, b##i)
#define NET_DESCEND(i) NET_FUSED("fnmsub.s", a##i, b##i, rate, a##i)
#define NET_SCALE(i) NET_FUSED("fmadd.s", a##i, a##i, factor, shift)
#define NET_CENTRE(i) NET_OP("fsub.s", a##i, a##i, centre)
#define NET_CENTRE_B(i) NET_OP("fsub.s", b##i, b##i, centre)
#define NET_LESS(i) NET_FUSED("fmsub.s", a##i, a##i, factor, shift)
#define NET_ALONG(i) NET_FUSED("fnmsub.s", a##i, b##i, slope, a##i)
#define NET_PROJECT(i) NET_LESS(i) NET_ALONG(i)
#define NET_SUM(i) NET_OP("fadd.s", sum##i, sum##i, a##i)
#define NET_SQUARE(i) NET_CENTRE(i) NET_FUSED("fmadd.s", sum##i, a##i, a##i, sum##i)
#define NET_PRODUCT(i) NET_FUSED("fmadd.s", product##i, a##i, b##i, product##i)
#define NET_SUM_PRODUCT(i) NET_SUM(i) NET_PRODUCT(i)

NET_KERNEL float net_total(const float part[4]) { return (part[0] + part[1]) + (part[2] + part[3]); }

/* y = max(a, 0), where NaN stays as instructions make it; never -0 */
NET_KERNEL void net_relu(float *y, const float *a, int32_t count)
{
    NET_MAP_1(NET_NONE, NET_RELU, 48)
    for (; count > 0; --count, ++a)
        *y++ = *a <= 0.0f ? 0.0f : *a;
}

/* y = a where b > 0, else 0 */
NET_KERNEL void net_relu_grad(float *y, const float *a, const float *b, int32_t count)
{
    NET_MAP_2(NET_NONE, NET_MASK, 96, [zero] "r"(0))
    for (; count > 0; --count, ++a)
        *y++ = *b++ > 0.0f ? *a : 0.0f;
}

/* y = a */
NET_KERNEL void net_copy(float *y, const float *a, int32_t count)
{
    NET_MAP_1(NET_NONE, NET_NONE, 32)
    for (; count > 0; --count)
        *y++ = *a++;
}

/* y = a + b */
NET_KERNEL void net_add(float *y, const float *a, const float *b, int32_t count)
{
    NET_MAP_2(NET_NONE, NET_ADD, 64)
    for (; count > 0; --count)
        *y++ = *a++ + *b++;
}

/* y = a * b */
NET_KERNEL void net_mul(float *y, const float *a, const float *b, int32_t count)
{
    NET_MAP_2(NET_NONE, NET_MUL, 64)
    for (; count > 0; --count)
        *y++ = *a++ * *b++;
}

/* y = a - rate * b */
NET_KERNEL void net_descend(float *y, const float *a, const float *b, float rate, int32_t count)
{
    NET_MAP_2(NET_NONE, NET_DESCEND, 64, NET_CONSTANT(rate))
    for (; count > 0; --count)
        *y++ = *a++ - rate * *b++;
}

/* What values must be reduced by before they are multiplied: `centre`, or 0 where that may follow, which spares an operation
 * each and loses as many digits as centre * inv_std has.
 */
NET_KERNEL float net_far(float centre, float inv_std)
{
    const float distance = centre * inv_std;
    return distance > -4.0f && distance < 4.0f ? 0.0f : centre;
}

/* y = (a - centre) * factor + shift */
NET_KERNEL void net_normalise(float *y, const float *a, float centre, float factor, float shift, int32_t count)
{
    if (centre == 0.0f) {
        NET_MAP_1(NET_NONE, NET_SCALE, 48, NET_CONSTANT(factor), NET_CONSTANT(shift))
    } else {
        NET_MAP_1(NET_CENTRE, NET_SCALE, 64, NET_CONSTANT(centre), NET_CONSTANT(factor), NET_CONSTANT(shift))
    }
    for (; count > 0; --count)
        *y++ = (*a++ - centre) * factor + shift;
}

/* y = a * factor - shift - (b - centre) * slope */
NET_KERNEL void net_project(float *y, const float *a, const float *b, float centre, float factor, float shift, float slope,
                            int32_t count)
{
    if (centre == 0.0f) {
        NET_MAP_2(NET_LESS, NET_ALONG, 80, NET_CONSTANT(factor), NET_CONSTANT(shift), NET_CONSTANT(slope))
    } else {
        NET_MAP_2(NET_CENTRE_B, NET_PROJECT, 96, NET_CONSTANT(centre), NET_CONSTANT(factor), NET_CONSTANT(shift),
                  NET_CONSTANT(slope))
    }
    for (; count > 0; --count) {
        const float scaled = *a++ * factor - shift;
        *y++ = scaled - (*b++ - centre) * slope;
    }
}

/* sum += a */
NET_KERNEL void net_sum(float sum[4], const float *a, int32_t count)
{
    NET_SUM_1(NET_SUM, 32)
    for (; count > 3; count -= 4, a += 4) {
        NET_UNROLLED
        for (int32_t p = 0; p < 4; ++p)
            sum[p] += a[p];
    }
    for (; count > 0; --count)
        sum[0] += *a++;
}

/* sum += (a - centre)^2 */
NET_KERNEL void net_sum_squares(float sum[4], const float *a, float centre, int32_t count)
{
    NET_SUM_1(NET_SQUARE, 48, NET_CONSTANT(centre))
    for (; count > 3; count -= 4, a += 4) {
        NET_UNROLLED
        for (int32_t p = 0; p < 4; ++p)
            sum[p] += (a[p] - centre) * (a[p] - centre);
    }
    for (; count > 0; --count, ++a)
        sum[0] += (*a - centre) * (*a - centre);
}

/* sum += a, product += a * (b - centre) */
NET_KERNEL void net_sum_products(float sum[4], float product[4], const float *a, const float *b, float centre, int32_t count)
{
    if (centre == 0.0f) {
        NET_SUM_2(NET_SUM, NET_PRODUCT, 64)
    } else {
        NET_SUM_2(NET_CENTRE_B, NET_SUM_PRODUCT, 80, NET_CONSTANT(centre))
    }
    for (; count > 3; count -= 4, a += 4, b += 4) {
        NET_UNROLLED
        for (int32_t p = 0; p < 4; ++p) {
            sum[p] += a[p];
            product[p] += a[p] * (b[p] - centre);
        }
    }
    for (; count > 0; --count, ++a, ++b) {
        sum[0] += *a;
        product[0] += *a * (*b - centre);
    }
}

#endif
