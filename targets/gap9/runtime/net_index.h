/* Index ranges of sliding windows, computed outside inner loops so that these need no bounds test. */
#ifndef NET_INDEX_H
#define NET_INDEX_H

#include <stdint.h>

static inline int32_t net_floor_div(int32_t value, int32_t divisor)
{
    const int32_t quotient = value / divisor;
    return quotient - (value % divisor < 0);
}

static inline int32_t net_max(int32_t a, int32_t b) { return a > b ? a : b; }
static inline int32_t net_min(int32_t a, int32_t b) { return a < b ? a : b; }

/* First and one past the last j in [begin, end) with start <= origin + step * j < start + size; step > 0. */
static inline int32_t net_inside_begin(int32_t origin, int32_t step, int32_t start, int32_t begin)
{
    return net_max(begin, -net_floor_div(origin - start, step));
}

static inline int32_t net_inside_end(int32_t origin, int32_t step, int32_t start, int32_t size, int32_t end)
{
    return net_min(end, net_floor_div(start + size - 1 - origin, step) + 1);
}

/* The taps k of a strided window that reach an input position: those in [first, end) with period `every`. */
typedef struct {
    int32_t first, end;
} net_taps_t;

/* Taps k in [begin, end) for which (position - dilation * k) / stride is an integer in [start, start + size).
 * `every` = stride / gcd(stride, dilation): only one residue class of k, found by trying, gives integers at all.
 */
static inline net_taps_t net_gather_taps(int32_t position, int32_t dilation, int32_t stride, int32_t every, int32_t start,
                                         int32_t size, int32_t begin, int32_t end)
{
    int32_t residue = 0;
    while (residue < every && (position - dilation * residue) % stride)
        ++residue;
    if (residue == every || size == 0)
        return (net_taps_t){0, 0};
    const int32_t lowest = net_max(begin, -net_floor_div(stride * (start + size - 1) - position, dilation));
    const int32_t highest = net_min(end, net_floor_div(position - stride * start, dilation) + 1);
    return (net_taps_t){residue - net_floor_div(residue - lowest, every) * every, highest};
}

#endif
