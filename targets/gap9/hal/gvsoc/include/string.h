/* The part of the standard header that emitted code and the HAL use, for compilers without a C library. */
#ifndef STRING_H
#define STRING_H

#include <stddef.h>

void *memcpy(void *restrict destination, const void *restrict source, size_t bytes);
void *memmove(void *destination, const void *source, size_t bytes);
void *memset(void *destination, int value, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
size_t strlen(const char *text);

#endif
