/* Files and streams of the machine that simulates, by semihosting, and the end of the simulation. */
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "hal_gvsoc.h"

enum { SYS_OPEN = 0x01, SYS_CLOSE = 0x02, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_SEEK = 0x0A, SYS_LENGTH = 0x0C };
enum { OPEN_READ_BINARY = 1, OPEN_WRITE_BINARY = 5 };

static int call(int operation, uintptr_t argument)
{
    register uintptr_t a0 __asm__("a0") = (uintptr_t)operation;
    register uintptr_t a1 __asm__("a1") = argument;
    __asm__ volatile(".option push\n.option norvc\n"
                     "slli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\n"
                     ".option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return (int)a0;
}

int hal_file_open(const char *path, bool write)
{
    const uintptr_t block[3] = {(uintptr_t)path, write ? OPEN_WRITE_BINARY : OPEN_READ_BINARY, strlen(path)};
    return call(SYS_OPEN, (uintptr_t)block);
}

void hal_file_close(int file) { call(SYS_CLOSE, (uintptr_t)file); }

uint32_t hal_file_size(int file) { return (uint32_t)call(SYS_LENGTH, (uintptr_t)file); }

int hal_file_seek(int file, uint32_t position)
{
    const uintptr_t block[2] = {(uintptr_t)file, position};
    return call(SYS_SEEK, (uintptr_t)block);
}

int hal_file_read(int file, void *data, uint32_t bytes)
{
    const uintptr_t block[3] = {(uintptr_t)file, (uintptr_t)data, bytes};
    return call(SYS_READ, (uintptr_t)block);
}

int hal_file_write(int file, const void *data, uint32_t bytes)
{
    const uintptr_t block[3] = {(uintptr_t)file, (uintptr_t)data, bytes};
    return call(SYS_WRITE, (uintptr_t)block);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

typedef struct {
    char text[256];
    uint32_t length;
} line_t;

static void put(line_t *line, char letter)
{
    if (line->length < sizeof line->text - 1)
        line->text[line->length++] = letter;
}

static void put_number(line_t *line, uint64_t value, unsigned base, int least)
{
    char digits[20];
    int count = 0;
    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value || count < least);
    while (count)
        put(line, digits[--count]);
}

void hal_print(int file, const char *format, va_list arguments)
{
    static line_t line; /* not on a worker's small stack */
    line.length = 0;
    for (const char *c = format; *c; ++c) {
        if (*c != '%') {
            put(&line, *c);
            continue;
        }
        int longs = 0;
        while (*++c == 'l')
            ++longs;
        if (*c == 's') {
            for (const char *text = va_arg(arguments, const char *); *text; ++text)
                put(&line, *text);
        } else if (*c == 'd') {
            const int value = va_arg(arguments, int);
            if (value < 0)
                put(&line, '-');
            put_number(&line, value < 0 ? 0u - (unsigned)value : (unsigned)value, 10, 1);
        } else if (*c == 'u') {
            put_number(&line, longs == 2 ? va_arg(arguments, unsigned long long) : va_arg(arguments, unsigned), 10, 1);
        } else if (*c == 'x') {
            put_number(&line, va_arg(arguments, unsigned), 16, 8);
        } else {
            put(&line, *c);
        }
    }
    put(&line, '\n');
    hal_file_write(file, line.text, line.length);
}

/* ---- the end ---------------------------------------------------------------------------------------------------- */

_Noreturn void hal_exit(int status)
{
    hal_store(SIMULATION_END, 0x80000000u | (uint32_t)status);
    for (;;)
        __asm__ volatile("wfi");
}

static _Noreturn void fail(const char *format, va_list arguments)
{
    static char who[] = "hal: worker 0: ";
    const uint32_t hart = hal_hart();
    if (hart < CONTROLLER_CORE)
        who[12] = (char)('0' + hart);
    const char *const name = hart == FC_HART ? "hal: FC: " : hart == CONTROLLER_CORE ? "hal: controller: " : who;
    hal_file_write(HAL_STDERR, name, (uint32_t)strlen(name));
    hal_print(HAL_STDERR, format, arguments);
    hal_exit(HAL_MISUSE_STATUS);
}

void hal_fail(const char *format, ...)
{
    va_list arguments;
    while (hal_load((uint32_t)(uintptr_t)&hal_trap_lock + L1_TEST_AND_SET)) /* one message, whoever fails at the same time */
        __asm__ volatile("wfi");
    va_start(arguments, format);
    fail(format, arguments);
}

void hal_fail_locked(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail(format, arguments);
}
