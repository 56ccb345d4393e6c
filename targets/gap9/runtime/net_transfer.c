/* Transfers on both hops: rings of requests in flight, and boxes cut into 1-D and 2-D transfers. */
#include "net_transfer.h"

#include "net_trace.h"

void net_wait_dma(net_transfers_t *t, uint32_t until)
{
    if (t->dma_done >= until)
        return;
    net_trace_wait_begin();
    while (t->dma_done < until)
        pi_cl_dma_cmd_wait(&t->dma[t->dma_done++ % NET_MAX_IN_FLIGHT]);
    net_trace_wait_end();
}

void net_wait_ram(net_transfers_t *t, uint32_t until)
{
    if (t->ram_done >= until)
        return;
    net_trace_wait_begin();
    while (t->ram_done < until) {
        const uint32_t slot = t->ram_done++ % NET_MAX_IN_FLIGHT;
        if (t->ram_writes >> slot & 1)
            pi_cl_ram_write_wait(&t->ram[slot]);
        else
            pi_cl_ram_read_wait(&t->ram[slot]);
    }
    net_trace_wait_end();
}

void net_issue_dma(net_transfers_t *t, bool out, uint32_t l2, uint32_t l1, uint32_t lines, uint32_t length, uint32_t stride)
{
    const pi_cl_dma_dir_e direction = out ? PI_CL_DMA_DIR_LOC2EXT : PI_CL_DMA_DIR_EXT2LOC;
    const uintptr_t far = (uintptr_t)(net_memory.l2 + l2), near = (uintptr_t)(net_memory.l1 + l1);
    if (t->dma_issued - t->dma_done == NET_MAX_IN_FLIGHT)
        net_wait_dma(t, t->dma_done + 1);
    pi_cl_dma_cmd_t *const command = &t->dma[t->dma_issued++ % NET_MAX_IN_FLIGHT];
    if (lines == 1)
        pi_cl_dma_cmd(far, near, length, direction, command);
    else
        pi_cl_dma_cmd_2d(far, near, lines * length, stride, length, direction, command);
}

void net_defer_load(net_transfers_t *t, bool out, uint32_t l2, uint32_t l1, uint32_t lines, uint32_t length, uint32_t stride)
{
    (void)out;
    if (t->listed == NET_MAX_DEFERRED) {
        t->overflown = true;
        return;
    }
    t->deferred[t->listed++] = (net_deferred_t){l2, l1, lines, length, stride};
}

void net_defer_store(net_transfers_t *t, bool out, uint32_t l2, uint32_t l1, uint32_t lines, uint32_t length, uint32_t stride)
{
    net_defer_load(t, out, l2, l1, lines, length, stride);
    t->stores = t->unbound = t->listed;
}

void net_defer_unbound(net_transfers_t *t, bool out, uint32_t l2, uint32_t l1, uint32_t lines, uint32_t length,
                       uint32_t stride)
{
    net_defer_load(t, out, l2, l1, lines, length, stride);
    t->unbound = t->listed;
}

static void issue_deferred(net_transfers_t *t, bool out, uint32_t begin, uint32_t end)
{
    for (const net_deferred_t *d = t->deferred + begin; d != t->deferred + end; ++d)
        net_issue_dma(t, out, d->l2, d->l1, d->lines, d->length, d->stride);
}

void net_issue_deferred_stores(net_transfers_t *t) { issue_deferred(t, true, 0, t->stores); }

void net_issue_deferred_unbound(net_transfers_t *t) { issue_deferred(t, false, t->stores, t->unbound); }

void net_issue_deferred_loads(net_transfers_t *t) { issue_deferred(t, false, t->unbound, t->listed); }

void net_issue_ram(net_transfers_t *t, bool out, uint32_t l3, uint32_t l2, uint32_t lines, uint32_t length, uint32_t stride)
{
    struct pi_device *const ram = &net_memory.ram;
    uint8_t *const near = net_memory.l2 + l2;
    l3 += net_memory.l3;
    if (t->ram_issued - t->ram_done == NET_MAX_IN_FLIGHT)
        net_wait_ram(t, t->ram_done + 1);
    const uint32_t slot = t->ram_issued++ % NET_MAX_IN_FLIGHT;
    t->ram_writes = out ? t->ram_writes | 1u << slot : t->ram_writes & ~(1u << slot);
    if (lines == 1 && out)
        pi_cl_ram_write(ram, l3, near, length, &t->ram[slot]);
    else if (lines == 1)
        pi_cl_ram_read(ram, l3, near, length, &t->ram[slot]);
    else if (out)
        pi_cl_ram_write_2d(ram, l3, near, lines * length, stride, length, &t->ram[slot]);
    else
        pi_cl_ram_read_2d(ram, l3, near, lines * length, stride, length, &t->ram[slot]);
}

void net_move_box(net_transfers_t *t, net_issue_t issue, const net_block_t *block, const net_axis_t axes[], bool out,
                  uint32_t far, uint32_t near, const int32_t start[], const int32_t size[])
{
    uint32_t stride[NET_MAX_RANK], pitch = block->item;
    for (int32_t axis = block->rank - 1; axis >= 0; --axis) {
        stride[axis] = pitch;
        far += pitch * (uint32_t)start[axis];
        pitch *= (uint32_t)axes[axis].extent;
        if (size[axis] == 0)
            return;
    }
    int32_t run = block->rank - 1; /* axes run .. rank-1 are contiguous */
    while (run > 0 && size[run] == axes[run].extent)
        --run;
    const uint32_t length = (uint32_t)size[run] * stride[run];
    const int32_t line = run - 1; /* the axis of a 2-D transfer's lines */
    const uint32_t lines = line >= 0 ? (uint32_t)size[line] : 1;
    const uint32_t at_once = length <= PI_CL_DMA_MAX_LENGTH ? lines : 1;
    int32_t at[NET_MAX_RANK] = {0};
    for (;;) {
        uint32_t from = far;
        for (int32_t axis = 0; axis < line; ++axis)
            from += stride[axis] * (uint32_t)at[axis];
        for (uint32_t done = 0; done < lines; done += at_once) {
            const uint32_t pitch_of_lines = line >= 0 ? stride[line] : 0;
            issue(t, out, from + done * pitch_of_lines, near, at_once, length, pitch_of_lines);
            near += at_once * length;
        }
        int32_t axis = line - 1;
        while (axis >= 0 && ++at[axis] == size[axis])
            at[axis--] = 0;
        if (axis < 0)
            return;
    }
}
