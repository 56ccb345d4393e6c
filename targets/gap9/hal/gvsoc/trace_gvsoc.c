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
} now __attribute__((section(".l1_data")));

void hal_set_profile(hal_profile_t *rows, uint32_t count)
{
    profile = rows;
    profile_rows = count;
}

/* Performance counters of the core, by their CSR: which one counts what is the same on the model and on RI5CY. */
#define CSR_EVENTS_ENABLED "0xcc0"
#define CSR_COUNTING "0xcc1"
#define CSR_INSTRUCTIONS "0x781"
#define CSR_LOAD_STALLS "0x782"
#define CSR_FETCH_STALLS "0x784"
#define CSR_BANK_STALLS "0x790"
#define CSR_FPU_STALLS "0x792"

static inline uint32_t read_events(hal_event_t event)
{
    uint32_t count = 0;
#define READ(event, csr)                                    \
    case event:                                             \
        __asm__ volatile("csrr %0, " csr : "=r"(count));    \
        break;
    switch (event) {
        READ(HAL_INSTRUCTIONS, CSR_INSTRUCTIONS)
        READ(HAL_LOAD_STALLS, CSR_LOAD_STALLS)
        READ(HAL_FETCH_STALLS, CSR_FETCH_STALLS)
        READ(HAL_BANK_STALLS, CSR_BANK_STALLS)
        READ(HAL_FPU_STALLS, CSR_FPU_STALLS)
    case HAL_EVENTS:
        break;
    }
#undef READ
    return count;
}

void net_trace_group_begin(uint32_t group)
{
    (void)group;
    __asm__ volatile("csrw " CSR_EVENTS_ENABLED ", %0\n csrw " CSR_COUNTING ", %1" ::"r"(-1), "r"(1));
    now.kernel = now.wait = 0;
    memset(now.events, 0, sizeof now.events);
    now.group_begin = hal_cycles();
}

void net_trace_group_end(uint32_t group)
{
    const uint32_t total = hal_cycles() - now.group_begin;
    if (group >= profile_rows)
        return;
    profile[group] = (hal_profile_t){total, now.kernel, now.wait, {0}};
    memcpy(profile[group].events, now.events, sizeof now.events);
}

void net_trace_kernel_begin(uint32_t count, void *const blocks[], const uint32_t bytes[])
{
    (void)count;
    (void)blocks;
    (void)bytes;
    for (int event = 0; event < HAL_EVENTS; ++event)
        now.events[event] -= read_events((hal_event_t)event);
    now.kernel_begin = hal_cycles();
}

void net_trace_kernel_end(void)
{
    now.kernel += hal_cycles() - now.kernel_begin;
    for (int event = 0; event < HAL_EVENTS; ++event)
        now.events[event] += read_events((hal_event_t)event);
}

void net_trace_wait_begin(void) { now.wait_begin = hal_cycles(); }

void net_trace_wait_end(void) { now.wait += hal_cycles() - now.wait_begin; }
