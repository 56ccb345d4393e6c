/* The test driver on a PC: options, and files through the C library. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "hal_host.h"
#include "net.h"

#define FAILURE_STATUS 71

static const char *data_dir = ".", *out_path = "out.bin";
static FILE *input, *output;
static char input_path[4096];

void driver_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "driver: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(FAILURE_STATUS);
}

void driver_print(const char *key, uint64_t value) { printf("%s %" PRIu64 "\n", key, value); }

void driver_open(const char *name, uint32_t bytes)
{
    if (snprintf(input_path, sizeof input_path, "%s/%s", data_dir, name) >= (int)sizeof input_path)
        driver_fail("%s: path too long", data_dir);
    input = fopen(input_path, "rb");
    if (!input || fseek(input, 0, SEEK_END))
        driver_fail("%s: %s", input_path, strerror(errno));
    const long found = ftell(input);
    if (found != (long)bytes)
        driver_fail("%s: %s than the %lu bytes expected", input_path, found > (long)bytes ? "longer" : "shorter",
                    (unsigned long)bytes);
    driver_seek(0);
}

void driver_seek(uint32_t position)
{
    if (fseek(input, (long)position, SEEK_SET))
        driver_fail("%s: %s", input_path, strerror(errno));
}

void driver_read(void *data, uint32_t bytes)
{
    if (fread(data, 1, bytes, input) != bytes)
        driver_fail("%s: ends early", input_path);
}

void driver_close(void) { fclose(input); }

void driver_write(const void *data, uint32_t bytes)
{
    if (fwrite(data, 1, bytes, output) != bytes)
        driver_fail("cannot write the output: %s", strerror(errno));
}

void driver_reset_counters(void) { hal_host_reset_counters(); }

void driver_count(driver_entry_t entry) { (void)entry; }

static unsigned long parse_number(const char *option, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || end == text || *end || *text == '-')
        driver_fail("%s %s: not a number", option, text);
    return value;
}

static hal_dma_mode_t parse_dma(const char *text)
{
    static const char *const names[] = {"eager", "lazy", "random"};
    for (int mode = HAL_DMA_EAGER; mode <= HAL_DMA_RANDOM; mode++)
        if (!strcmp(text, names[mode]))
            return (hal_dma_mode_t)mode;
    driver_fail("--dma %s: use eager, lazy or random", text);
}

int main(int count, char *arguments[])
{
    hal_host_config_t hal = {0};
    unsigned long rounds = 2;
#ifdef NET_L1_CAPACITY
    hal.l1_capacity = NET_L1_CAPACITY;
#endif
#ifdef NET_L2_CAPACITY
    hal.l2_capacity = NET_L2_CAPACITY;
#endif
#ifdef NET_L3_CAPACITY
    hal.l3_capacity = NET_L3_CAPACITY;
#endif
    for (int i = 1; i < count; i += 2) {
        const char *option = arguments[i];
        if (i + 1 == count)
            driver_fail("%s: unknown or without a value", option);
        const char *value = arguments[i + 1];
        if (!strcmp(option, "--data"))
            data_dir = value;
        else if (!strcmp(option, "--out"))
            out_path = value;
        else if (!strcmp(option, "--rounds"))
            rounds = parse_number(option, value);
        else if (!strcmp(option, "--dma"))
            hal.dma = parse_dma(value);
        else if (!strcmp(option, "--seed"))
            hal.seed = parse_number(option, value);
        else
            driver_fail("%s: unknown option", option);
    }
    hal_host_configure(&hal);
    output = fopen(out_path, "wb");
    if (!output)
        driver_fail("%s: %s", out_path, strerror(errno));
    driver_run(rounds);
    if (fclose(output))
        driver_fail("%s: %s", out_path, strerror(errno));
    hal_host_print_counters();
    return 0;
}
