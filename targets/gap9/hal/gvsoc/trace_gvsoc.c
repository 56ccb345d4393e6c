/* Hooks of the walker on the simulator: cycles and events of every tile nest, counted by worker 0. */
#include "net_trace.h"

#include <string.h>

#include "hal_gvsoc.h"

static hal_profile_t *profile;
static uint32_t profile_rows;

/* The nest that runs now; in L1, so that counting costs next to nothing. */
static struct {
    uint32_t group_begin, kernel_begin, wait_begin;
    uint32_t kernel, wait;
    uint32_t events[HAL_EVENTS];
    bool counts_events, in_kernel;
} now __attribute__((section(".l1_data")));

void hal_set_profile(hal_profile_t *rows, uint32_t count, bool events)
{
    profile = rows;
    profile_rows = count;
    now.counts_events = events;
}

/* Adds each performance counter of the core to its event. Which CSR counts what is the same on the model and on RI5CY. */
#define ADD(event, csr)                                                 \
    do {                                                                \
        uint32_t count;                                                 \
        __asm__ volatile("csrr %0, " csr : "=r"(count));                \
        now.events[event] += sign * count;                              \
    } while (0)

static __attribute__((noinline)) void count_events(uint32_t sign)
{
    ADD(HAL_INSTRUCTIONS, "0x781");
    ADD(HAL_LOAD_STALLS, "0x782");
    ADD(HAL_FETCH_STALLS, "0x784");
    ADD(HAL_BANK_STALLS, "0x790");
    ADD(HAL_FPU_STALLS, "0x792");
}

static void start_events(void)
{
    __asm__ volatile("csrw 0xcc0, %0\n csrw 0xcc1, %1" ::"r"(-1), "r"(1)); /* all events, on */
    memset(now.events, 0, sizeof now.events);
}

void net_trace_group_begin(uint32_t group)
{
    (void)group;
    if (now.counts_events)
        start_events();
    now.kernel = now.wait = 0;
    now.group_begin = hal_cycles();
}

void net_trace_group_end(uint32_t group)
{
    const uint32_t total = hal_cycles() - now.group_begin;
    if (group >= profile_rows)
        return;
    profile[group].total = total;
    profile[group].kernel = now.kernel;
    profile[group].wait = now.wait;
    if (now.counts_events)
        memcpy(profile[group].events, now.events, sizeof now.events);
}

void net_trace_kernel_begin(uint32_t count, void *const blocks[], const uint32_t bytes[])
{
    (void)count;
    (void)blocks;
    (void)bytes;
    if (now.counts_events)
        count_events(-1u);
    now.in_kernel = true;
    now.kernel_begin = hal_cycles();
}

void net_trace_kernel_end(void)
{
    now.kernel += hal_cycles() - now.kernel_begin;
    now.in_kernel = false;
    if (now.counts_events)
        count_events(1);
}

void net_trace_wait_begin(void) { now.wait_begin = hal_cycles(); }

void net_trace_wait_end(void)
{
    if (!now.in_kernel)
        now.wait += hal_cycles() - now.wait_begin;
}
