/* Hooks of the walker on the simulator: cycles of every tile nest, counted by worker 0. */
#include "net_trace.h"

#include "hal_gvsoc.h"

static hal_profile_t *profile;
static uint32_t profile_rows;

/* The nest that runs now; in L1, so that counting costs next to nothing. */
static struct {
    uint32_t group_begin, kernel_begin, wait_begin;
    uint32_t kernel, wait;
} now __attribute__((section(".l1_data")));

void hal_set_profile(hal_profile_t *rows, uint32_t count)
{
    profile = rows;
    profile_rows = count;
}

void net_trace_group_begin(uint32_t group)
{
    (void)group;
    now.kernel = now.wait = 0;
    now.group_begin = hal_cycles();
}

void net_trace_group_end(uint32_t group)
{
    const uint32_t total = hal_cycles() - now.group_begin;
    if (group >= profile_rows)
        return;
    profile[group] = (hal_profile_t){total, now.kernel, now.wait};
}

void net_trace_kernel_begin(uint32_t count, void *const blocks[], const uint32_t bytes[])
{
    (void)count;
    (void)blocks;
    (void)bytes;
    now.kernel_begin = hal_cycles();
}

void net_trace_kernel_end(void) { now.kernel += hal_cycles() - now.kernel_begin; }

void net_trace_wait_begin(void) { now.wait_begin = hal_cycles(); }

void net_trace_wait_end(void) { now.wait += hal_cycles() - now.wait_begin; }
