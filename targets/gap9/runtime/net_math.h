/* Functions of fp32 numbers, the same on every engine.
 *
 * net_exp: argument reduction x = n*ln2 + r with ln2 in two parts (Cody and Waite), polynomial of degree 7 in r from the
 * Taylor series, scaling by 2^n through the exponent field. net_log: x = m * 2^e with m in [sqrt(1/2), sqrt(2)), series
 * of 2*atanh(s), s = (m-1)/(m+1). net_tanh and net_erf: x + x*q(x^2) near 0, with q fitted at Chebyshev nodes; beyond,
 * 1 - 2/(exp(2x)+1), and 1 - exp(p(x)) with p fitted to the logarithm of 1 - erf. All are within 2 ulp of the exact value
 * over the ranges that tests walk. net_pow: exp(y*log(x)), within 2 ulp times 1 + |y*log(x)|.
 */
#ifndef NET_MATH_H
#define NET_MATH_H

#include <stdbool.h>
#include <stdint.h>

static inline float net_from_bits(uint32_t bits)
{
    union {
        uint32_t bits;
        float value;
    } both = {.bits = bits};
    return both.value;
}

static inline uint32_t net_to_bits(float value)
{
    union {
        float value;
        uint32_t bits;
    } both = {.value = value};
    return both.bits;
}

static inline float net_exp(float x)
{
    if (x != x)
        return x;
    if (x > 88.72283f)
        return net_from_bits(0x7f800000u);
    if (x < -87.33654f)
        return 0.0f; /* results below the normal range are flushed to zero */
    const float scaled = x * 1.44269504f;
    const int32_t n = (int32_t)(scaled + (scaled < 0.0f ? -0.5f : 0.5f));
    const float r = (x - (float)n * 0.693359375f) + (float)n * 2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    /* in two factors: 2^n alone may leave the range at n = 128 */
    const int32_t half = n / 2;
    return p * net_from_bits((uint32_t)(half + 127) << 23) * net_from_bits((uint32_t)(n - half + 127) << 23);
}

static inline float net_log(float x)
{
    if (x != x || x < 0.0f)
        return net_from_bits(0x7fc00000u);
    if (x == 0.0f)
        return net_from_bits(0xff800000u);
    const uint32_t bits = net_to_bits(x);
    if (bits >= 0x7f800000u)
        return x;
    if (bits < 0x00800000u)
        return net_log(x * 8388608.0f) - 15.9423852f; /* subnormal: 23 * ln 2 */
    int32_t exponent = (int32_t)(bits >> 23) - 127;
    float m = net_from_bits((bits & 0x007fffffu) | 0x3f800000u);
    if (m > 1.41421356f) {
        m *= 0.5f;
        ++exponent;
    }
    const float s = (m - 1.0f) / (m + 1.0f), square = s * s;
    float p = 2.0f / 9.0f;
    p = p * square + 2.0f / 7.0f;
    p = p * square + 2.0f / 5.0f;
    p = p * square + 2.0f / 3.0f;
    const float series = 2.0f * s + s * square * p;
    return (float)exponent * 0.693359375f + (series - (float)exponent * 2.12194440e-4f);
}

static inline float net_sqrt(float x) { return __builtin_sqrtf(x); }
static inline float net_abs(float x) { return __builtin_fabsf(x); }

/* Of a NaN and a number the second operand, as the comparison says. */
static inline float net_larger(float a, float b) { return a > b ? a : b; }
static inline float net_smaller(float a, float b) { return a < b ? a : b; }

static inline float net_tanh(float x)
{
    const float size = net_abs(x), square = x * x;
    if (size > 0.625f) {
        const float value = 1.0f - 2.0f / (net_exp(2.0f * size) + 1.0f);
        return x < 0.0f ? -value : value;
    }
    float q = -5.664775e-3f;
    q = q * square + 2.0595679e-2f;
    q = q * square - 5.372268e-2f;
    q = q * square + 1.333115e-1f;
    q = q * square - 3.3333263e-1f;
    q = q * square - 3.836387e-9f;
    return x + x * q;
}

static inline float net_erf(float x)
{
    const float size = net_abs(x), square = x * x;
    if (size > 0.9f) {
        const float z = size > 4.0f ? 4.0f : size; /* 1 - erf(4) is less than half an ulp */
        float p = 1.6102404e-6f;
        p = p * z - 4.5512774e-5f;
        p = p * z + 5.9209275e-4f;
        p = p * z - 4.7369506e-3f;
        p = p * z + 2.6355121e-2f;
        p = p * z - 1.099608e-1f;
        p = p * z - 6.319562e-1f;
        p = p * z - 1.1301551f;
        p = p * z + 3.0026882e-4f;
        const float value = 1.0f - net_exp(p);
        return x < 0.0f ? -value : value;
    }
    float q = 8.5341206e-5f;
    q = q * square - 8.180781e-4f;
    q = q * square + 5.2043316e-3f;
    q = q * square - 2.6860708e-2f;
    q = q * square + 1.1283719e-1f;
    q = q * square - 3.7612635e-1f;
    q = q * square + 1.2837917e-1f;
    return x + x * q;
}

static inline float net_floor(float x)
{
    if (!(net_abs(x) < 8388608.0f))
        return x; /* an integer already, or NaN */
    const float whole = (float)(int32_t)x;
    return whole > x ? whole - 1.0f : whole;
}

static inline float net_ceil(float x) { return -net_floor(-x); }

/* x to the power of y; of a negative x only for integers y, else NaN. */
static inline float net_pow(float x, float y)
{
    if (y == 0.0f || x == 1.0f)
        return 1.0f;
    if (x == 0.0f && y < 0.0f)
        return net_from_bits(0x7f800000u);
    if (x < 0.0f && net_floor(y) != y)
        return net_from_bits(0x7fc00000u);
    const float size = net_exp(y * net_log(net_abs(x)));
    const bool odd = net_floor(0.5f * y) != 0.5f * y;
    return x < 0.0f && odd ? -size : size;
}

#endif
