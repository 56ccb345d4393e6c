/* Settings, counters and the hooks of the walker of the host HAL. */
#include <inttypes.h>
#include <stdio.h>

#include "hal_internal.h"
#include "net_trace.h"

hal_host_config_t hal_config;
hal_host_counters_t hal_counters;

#define MAX_BLOCKS 16

static bool kernel_is_running;
static struct {
    const uint8_t *begin;
    uint32_t bytes;
} kernel_blocks[MAX_BLOCKS];
static uint32_t kernel_block_count;

void hal_host_configure(const hal_host_config_t *config) { hal_config = *config; }

const hal_host_counters_t *hal_host_counters(void) { return &hal_counters; }

void hal_host_reset_counters(void)
{
    hal_counters = (hal_host_counters_t){.l1_peak_bytes = hal_counters.l1_peak_bytes,
                                         .l2_peak_bytes = hal_counters.l2_peak_bytes,
                                         .l3_peak_bytes = hal_counters.l3_peak_bytes};
}

void hal_host_print_counters(void)
{
#define PRINT(name) printf(#name " %" PRIu64 "\n", hal_counters.name)
    PRINT(l3_to_l2_bytes);
    PRINT(l2_to_l3_bytes);
    PRINT(l2_to_l1_bytes);
    PRINT(l1_to_l2_bytes);
    PRINT(table_bytes);
    PRINT(fc_l3_read_bytes);
    PRINT(fc_l3_write_bytes);
    PRINT(dma_commands);
    PRINT(ram_transfers);
    PRINT(max_in_flight);
    PRINT(barriers);
    PRINT(forks);
    PRINT(kernels);
    PRINT(overlapped_kernels);
    PRINT(l1_peak_bytes);
    PRINT(l2_peak_bytes);
    PRINT(l3_peak_bytes);
#undef PRINT
}

bool hal_kernel_is_running(void) { return kernel_is_running; }

bool hal_kernel_uses(const void *data, uint32_t size)
{
    const uintptr_t begin = (uintptr_t)data;
    for (uint32_t i = 0; kernel_is_running && i < kernel_block_count; i++) {
        const uintptr_t block = (uintptr_t)kernel_blocks[i].begin;
        if (begin < block + kernel_blocks[i].bytes && block < begin + size)
            return true;
    }
    return false;
}

/* A PC has no cycles to count. */
void net_trace_group_begin(uint32_t group) { (void)group; }
void net_trace_group_end(uint32_t group) { (void)group; }
void net_trace_wait_begin(void) {}
void net_trace_wait_end(void) {}

void net_trace_kernel_begin(uint32_t count, void *const blocks[], const uint32_t bytes[])
{
    hal_require_worker0("net_trace_kernel_begin");
    if (kernel_is_running)
        hal_fail("net_trace_kernel_begin: the kernel before has not ended");
    if (count > MAX_BLOCKS)
        hal_fail("net_trace_kernel_begin: more than %d blocks", MAX_BLOCKS);
    for (uint32_t i = 0; i < count; i++) {
        hal_require_chunk("net_trace_kernel_begin", HAL_L1, blocks[i], bytes[i]);
        if (hal_loads_into(blocks[i], bytes[i]))
            hal_fail("net_trace_kernel_begin: a block of the kernel is still being loaded");
        kernel_blocks[i].begin = blocks[i];
        kernel_blocks[i].bytes = bytes[i];
    }
    kernel_block_count = count;
    kernel_is_running = true;
    hal_counters.kernels++;
    hal_progress();
    hal_poison_all();
    for (uint32_t i = 0; i < count; i++)
        hal_unpoison(blocks[i], bytes[i]);
}

void net_trace_kernel_end(void)
{
    hal_require_worker0("net_trace_kernel_end");
    if (!kernel_is_running)
        hal_fail("net_trace_kernel_end: no kernel has begun");
    kernel_is_running = false;
    hal_counters.overlapped_kernels += hal_in_flight() > 0;
    hal_unpoison_live();
    hal_progress();
}
