/* What compilers expect to find when there is no C library: memory functions, and 64-bit division. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

void *memcpy(void *restrict destination, const void *restrict source, size_t bytes)
{
    uint8_t *to = destination;
    const uint8_t *from = source;
    if ((((uintptr_t)to | (uintptr_t)from) & 3) == 0)
        for (; bytes >= 4; bytes -= 4, to += 4, from += 4)
            *(uint32_t *)(void *)to = *(const uint32_t *)(const void *)from;
    while (bytes--)
        *to++ = *from++;
    return destination;
}

void *memmove(void *destination, const void *source, size_t bytes)
{
    uint8_t *to = destination;
    const uint8_t *from = source;
    if (to <= from)
        return memcpy(destination, source, bytes); /* which goes upwards */
    while (bytes--)
        to[bytes] = from[bytes];
    return destination;
}

void *memset(void *destination, int value, size_t bytes)
{
    uint8_t *to = destination;
    const uint32_t word = (uint8_t)value * 0x01010101u;
    for (; bytes && ((uintptr_t)to & 3); --bytes)
        *to++ = (uint8_t)value;
    for (; bytes >= 4; bytes -= 4, to += 4)
        *(uint32_t *)(void *)to = word;
    while (bytes--)
        *to++ = (uint8_t)value;
    return destination;
}

int memcmp(const void *a, const void *b, size_t bytes)
{
    const uint8_t *x = a, *y = b;
    for (; bytes--; ++x, ++y)
        if (*x != *y)
            return *x - *y;
    return 0;
}

size_t strlen(const char *text)
{
    size_t length = 0;
    while (text[length])
        ++length;
    return length;
}

/* Schoolbook division, a bit at a time: 64-bit numbers are only printed. */
static uint64_t divide(uint64_t dividend, uint64_t divisor, uint64_t *remainder)
{
    uint64_t quotient = 0, rest = 0;
    for (int bit = 63; bit >= 0; --bit) {
        rest = rest << 1 | (dividend >> bit & 1);
        if (rest >= divisor) {
            rest -= divisor;
            quotient |= UINT64_C(1) << bit;
        }
    }
    *remainder = rest;
    return quotient;
}

uint64_t __udivdi3(uint64_t dividend, uint64_t divisor);
uint64_t __umoddi3(uint64_t dividend, uint64_t divisor);

uint64_t __udivdi3(uint64_t dividend, uint64_t divisor)
{
    uint64_t remainder;
    return divide(dividend, divisor, &remainder);
}

uint64_t __umoddi3(uint64_t dividend, uint64_t divisor)
{
    uint64_t remainder;
    divide(dividend, divisor, &remainder);
    return remainder;
}
