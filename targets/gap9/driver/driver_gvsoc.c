/* The test driver on the simulator: files by semihosting, in the folder where the simulator runs. */
#include "driver.h"

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "hal_gvsoc.h"
#include "net.h"
#include "net_test.h"

#define FAILURE_STATUS 71

/* run.bin: what the engine asks for. */
typedef struct {
    uint32_t rounds;
    uint32_t task_limit; /* cycles */
    uint32_t events;     /* 1: to be counted */
} request_t;

static const char *input_name;
static int input, output;
static hal_profile_t profile[TEST_GROUPS];

/* Sums over all executions, as cycles.bin has them. */
static struct {
    uint64_t cycles[DRIVER_ENTRIES], runs[DRIVER_ENTRIES];
    struct {
        uint64_t total, kernel, wait, runs, events[HAL_EVENTS];
    } groups[TEST_GROUPS];
} sums;

void driver_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    hal_file_write(HAL_STDERR, "driver: ", 8);
    hal_print(HAL_STDERR, format, arguments);
    va_end(arguments);
    hal_exit(FAILURE_STATUS);
}

static void print(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    hal_print(HAL_STDOUT, format, arguments);
    va_end(arguments);
}

void driver_print(const char *key, uint64_t value) { print("%s %llu", key, value); }

void driver_open(const char *name, uint32_t bytes)
{
    input_name = name;
    input = hal_file_open(name, false);
    if (input < 0)
        driver_fail("%s: cannot be opened", name);
    const uint32_t found = hal_file_size(input);
    if (found != bytes)
        driver_fail("%s: %u bytes where %u were expected", name, (unsigned)found, (unsigned)bytes);
}

void driver_seek(uint32_t position)
{
    if (hal_file_seek(input, position))
        driver_fail("%s: cannot be read from %u", input_name, (unsigned)position);
}

void driver_read(void *data, uint32_t bytes)
{
    if (hal_file_read(input, data, bytes) < 0)
        driver_fail("%s: cannot be read", input_name);
}

void driver_close(void) { hal_file_close(input); }

void driver_write(const void *data, uint32_t bytes)
{
    if (hal_file_write(output, data, bytes) < 0)
        driver_fail("out.bin: cannot be written");
}

void driver_reset_counters(void)
{
    hal_traffic = (hal_traffic_t){0};
    memset(&sums, 0, sizeof sums);
}

void driver_count(driver_entry_t entry)
{
    sums.cycles[entry] += hal_task_cycles();
    ++sums.runs[entry];
    for (int i = 0; i < TEST_GROUPS; ++i) {
        if (profile[i].total == 0)
            continue;
        sums.groups[i].total += profile[i].total;
        sums.groups[i].kernel += profile[i].kernel;
        sums.groups[i].wait += profile[i].wait;
        ++sums.groups[i].runs;
        for (int event = 0; event < HAL_EVENTS; ++event)
            sums.groups[i].events[event] += profile[i].events[event];
        profile[i] = (hal_profile_t){0};
    }
}

static void write_cycles(void)
{
    output = hal_file_open("cycles.bin", true);
    if (output < 0)
        driver_fail("cycles.bin: cannot be opened");
    driver_write(&sums, sizeof sums);
    hal_file_close(output);
}

int main(void)
{
    request_t request = {0};
    driver_open("run.bin", sizeof request);
    driver_read(&request, sizeof request);
    driver_close();
    hal_set_capacities(NET_L1_CAPACITY, NET_L2_CAPACITY, NET_L3_CAPACITY);
    hal_set_task_limit(request.task_limit);
    hal_set_profile(profile, TEST_GROUPS, request.events);
    output = hal_file_open("out.bin", true);
    if (output < 0)
        driver_fail("out.bin: cannot be opened");
    driver_run(request.rounds);
    hal_file_close(output);
    write_cycles();
    driver_print("l3_to_l2_bytes", hal_traffic.l3_to_l2_bytes);
    driver_print("l2_to_l3_bytes", hal_traffic.l2_to_l3_bytes);
    driver_print("l2_to_l1_bytes", hal_traffic.l2_to_l1_bytes);
    driver_print("l1_to_l2_bytes", hal_traffic.l1_to_l2_bytes);
    driver_print("table_bytes", hal_traffic.table_bytes);
    driver_print("dma_commands", hal_traffic.dma_commands);
    driver_print("ram_transfers", hal_traffic.ram_transfers);
    hal_print_memory(driver_print);
    hal_print_stacks(driver_print);
    return 0;
}
