/* exp, log and sqrt in fp32, the same on every engine.
 *
 * net_exp: argument reduction x = n*ln2 + r with ln2 in two parts (Cody and Waite), polynomial of degree 7 in r from the
 * Taylor series, scaling by 2^n through the exponent field. net_log: x = m * 2^e with m in [sqrt(1/2), sqrt(2)), series
 * of 2*atanh(s), s = (m-1)/(m+1). Both are within 2 ulp of the exact value over the ranges that tests walk.
 */
#ifndef NET_MATH_H
#define NET_MATH_H

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

#endif
