/* The walker: runs the groups of an entry, tile by tile.
 *
 * Worker 0 moves tiles: L3 -> stage in L2 -> L1 before a tile is computed, and back after its reduction is complete. A
 * box is moved only when it differs from the one of the tile before. With double buffering the next tile's boxes are
 * loaded, and those of the tile after next are staged, while the workers compute; results leave one tile later.
 */
#include <stddef.h>

#include "net_runtime.h"
#include "net_trace.h"
#include "net_transfer.h"

/* Position in a tile nest. */
typedef struct {
    int32_t tile;
    int32_t index[NET_MAX_LOOPS];
    uint32_t changed; /* bit mask of the loops whose index differs from the tile before */
} cursor_t;

/* Progress of one operand: boxes so far on each way, and the transfer that each slot waits for. */
typedef struct {
    uint32_t staged, loaded, current, stored;
    uint32_t staged_at[2], loaded_at[2], stored_at[2], written_at[2];
    int32_t start[NET_MAX_RANK], size[NET_MAX_RANK]; /* box of the store that is under way */
    bool leaving;                                    /* stored to the stage, not yet written to L3 */
} progress_t;

/* State of the walker, at the start of the network's L1 block. */
typedef struct {
    net_tile_t tile;
    progress_t progress[NET_MAX_OPERANDS];
    cursor_t now, next, after;
    net_transfers_t moving;
} walker_t;

/* Worker stacks are small: what only worker 0 does has frames of its own, apart from those that kernels stand on. */
#define WORKER_0 __attribute__((noinline))

_Static_assert(sizeof(walker_t) <= NET_RUNTIME_BYTES, "the planner reserves NET_RUNTIME_BYTES for the walker");

/* ---- boxes ----------------------------------------------------------------------------------------------------- */

static void advance(cursor_t *cursor, const net_group_t *group)
{
    cursor->changed = 0;
    ++cursor->tile;
    for (int32_t place = group->order_count - 1; place >= 0; --place) {
        const int32_t loop = group->order[place];
        cursor->changed |= 1u << loop;
        if (++cursor->index[loop] < group->loops[loop].count)
            return;
        cursor->index[loop] = 0;
    }
}

static bool changes(const cursor_t *cursor, const net_block_t *block)
{
    return cursor->tile == 0 || (cursor->changed & block->loops);
}

static void box_of(const net_group_t *group, const net_block_t *block, const cursor_t *cursor, int32_t start[], int32_t size[])
{
    for (int32_t axis = 0; axis < block->rank; ++axis) {
        const net_axis_t *const a = &block->axes[axis];
        int32_t row = 0;
        for (int32_t i = 0; i < 2; ++i)
            if (a->loop[i] >= 0)
                row = row * group->loops[a->loop[i]].count + cursor->index[a->loop[i]];
        start[axis] = a->regions[row].start;
        size[axis] = a->regions[row].size;
    }
}

static uint32_t box_bytes(const net_block_t *block, const int32_t size[])
{
    uint32_t bytes = block->item;
    for (int32_t axis = 0; axis < block->rank; ++axis)
        bytes *= (uint32_t)size[axis];
    return bytes;
}

static uint32_t tensor_bytes(const net_block_t *block)
{
    uint32_t bytes = block->item;
    for (int32_t axis = 0; axis < block->rank; ++axis)
        bytes *= (uint32_t)block->axes[axis].extent;
    return bytes;
}

/* Where tiles come from or go to: the home, or the image of the whole tensor in L2. */
static uint32_t tile_home(const net_block_t *block)
{
    return block->stage == NET_WHOLE ? block->stage_slot[0] : block->address;
}

/* ---- one operand on its way ------------------------------------------------------------------------------------ */

/* L3 -> stage, for tile-staged operands. */
static void stage_in(walker_t *w, const net_group_t *group, int32_t b, const cursor_t *cursor)
{
    const net_block_t *const block = &group->blocks[b];
    progress_t *const p = &w->progress[b];
    if (block->stage != NET_BY_TILE || !block->loaded || !changes(cursor, block))
        return;
    int32_t start[NET_MAX_RANK], size[NET_MAX_RANK];
    const uint32_t slot = p->staged++ % block->slots;
    box_of(group, block, cursor, start, size);
    net_move_box(&w->moving, net_issue_ram, block, false, block->address, block->stage_slot[slot], start, size);
    p->staged_at[slot] = w->moving.ram_issued;
}

/* Home or stage -> L1. */
static void load(walker_t *w, const net_group_t *group, int32_t b, const cursor_t *cursor)
{
    const net_block_t *const block = &group->blocks[b];
    progress_t *const p = &w->progress[b];
    if (!block->loaded || block->level == NET_L1 || !changes(cursor, block))
        return;
    int32_t start[NET_MAX_RANK], size[NET_MAX_RANK];
    const uint32_t slot = p->loaded++ % block->slots;
    box_of(group, block, cursor, start, size);
    if (block->stage == NET_BY_TILE) {
        const uint32_t bytes = box_bytes(block, size);
        net_wait_ram(&w->moving, p->staged_at[slot]);
        if (bytes)
            net_issue_dma(&w->moving, false, block->stage_slot[slot], block->slot[slot], 1, bytes, 0);
    } else {
        net_move_box(&w->moving, net_issue_dma, block, false, tile_home(block), block->slot[slot], start, size);
    }
    p->loaded_at[slot] = w->moving.dma_issued;
}

/* Makes the operand of the current tile ready: its box, its pointer, nothing still moving in or out of its slot. */
static void settle(walker_t *w, const net_group_t *group, int32_t b)
{
    const net_block_t *const block = &group->blocks[b];
    progress_t *const p = &w->progress[b];
    net_operand_t *const operand = &w->tile.operand[b];
    if (!changes(&w->now, block))
        return;
    box_of(group, block, &w->now, operand->start, operand->size);
    for (int32_t axis = block->rank - 1, stride = 1; axis >= 0; stride *= operand->size[axis--])
        operand->stride[axis] = stride;
    if (block->level == NET_L1) {
        operand->data = net_memory.l1 + block->address;
        return;
    }
    const uint32_t slot = p->current++ % block->slots;
    operand->data = net_memory.l1 + block->slot[slot];
    net_wait_dma(&w->moving, p->loaded_at[slot] > p->stored_at[slot] ? p->loaded_at[slot] : p->stored_at[slot]);
}

/* Stage -> L3, for the store that reached the stage. */
static void stage_out(walker_t *w, const net_group_t *group, int32_t b)
{
    const net_block_t *const block = &group->blocks[b];
    progress_t *const p = &w->progress[b];
    if (!p->leaving)
        return;
    const uint32_t slot = (p->stored - 1) % block->slots;
    net_wait_dma(&w->moving, p->stored_at[slot]);
    net_move_box(&w->moving, net_issue_ram, block, true, block->address, block->stage_slot[slot], p->start, p->size);
    p->written_at[slot] = w->moving.ram_issued;
    p->leaving = false;
}

/* L1 -> home or stage, when the next tile has another box. */
static void store(walker_t *w, const net_group_t *group, int32_t b)
{
    const net_block_t *const block = &group->blocks[b];
    progress_t *const p = &w->progress[b];
    if (!block->stored || block->level == NET_L1)
        return;
    if (w->now.tile + 1 < group->tiles && !changes(&w->next, block))
        return;
    stage_out(w, group, b);
    const uint32_t slot = p->stored++ % block->slots;
    box_of(group, block, &w->now, p->start, p->size);
    if (block->stage == NET_BY_TILE) {
        const uint32_t bytes = box_bytes(block, p->size);
        net_wait_ram(&w->moving, p->written_at[slot]);
        if (bytes)
            net_issue_dma(&w->moving, true, block->stage_slot[slot], block->slot[slot], 1, bytes, 0);
        p->leaving = true;
    } else {
        net_move_box(&w->moving, net_issue_dma, block, true, tile_home(block), block->slot[slot], p->start, p->size);
    }
    p->stored_at[slot] = w->moving.dma_issued;
}

/* Whole tensors between L3 and their image in L2, before or after the nest. */
static void stage_whole(walker_t *w, const net_group_t *group, bool out)
{
    for (int32_t b = 0; b < group->block_count; ++b) {
        const net_block_t *const block = &group->blocks[b];
        if (block->stage == NET_WHOLE && (out ? block->stored : block->loaded))
            net_issue_ram(&w->moving, out, block->address, block->stage_slot[0], 1, tensor_bytes(block), 0);
    }
    net_wait_ram(&w->moving, w->moving.ram_issued);
}

/* ---- the nest: worker 0 ---------------------------------------------------------------------------------------- */

WORKER_0 static void begin_group(walker_t *w, const net_group_t *group)
{
    const cursor_t origin = {.changed = ~0u};
    w->now = w->next = w->after = origin;
    for (int32_t b = 0; b < group->block_count; ++b)
        w->progress[b] = (progress_t){0};
    w->moving = (net_transfers_t){0};
    stage_whole(w, group, false);
    advance(&w->next, group);
    w->after = w->next;
    advance(&w->after, group);
    if (!group->double_buffer)
        return;
    for (int32_t b = 0; b < group->block_count; ++b) {
        stage_in(w, group, b, &w->now);
        load(w, group, b, &w->now);
        if (group->tiles > 1)
            stage_in(w, group, b, &w->next);
    }
}

WORKER_0 static void begin_tile(walker_t *w, const net_group_t *group)
{
    for (int32_t b = 0; b < group->block_count; ++b) {
        if (!group->double_buffer) {
            stage_in(w, group, b, &w->now);
            load(w, group, b, &w->now);
        }
    }
    for (int32_t b = 0; b < group->block_count; ++b)
        settle(w, group, b);
    for (int32_t b = 0; b < group->block_count && group->double_buffer; ++b) {
        if (w->next.tile < group->tiles)
            load(w, group, b, &w->next);
        if (w->after.tile < group->tiles)
            stage_in(w, group, b, &w->after);
    }
    w->tile.first = w->tile.last = true;
    for (int32_t i = 0; i < group->loop_count; ++i) {
        const net_loop_t *const loop = &group->loops[i];
        const int32_t start = w->now.index[i] * loop->tile, left = loop->extent - start;
        w->tile.loop[i] = (net_interval_t){start, left < loop->tile ? left : loop->tile};
        w->tile.first &= !loop->reduction || w->now.index[i] == 0;
        w->tile.last &= !loop->reduction || w->now.index[i] == loop->count - 1;
    }
#ifdef NET_TRACE
    static void *blocks[NET_MAX_OPERANDS + 1];
    static uint32_t bytes[NET_MAX_OPERANDS + 1];
    blocks[0] = &w->tile;
    bytes[0] = sizeof w->tile;
    for (int32_t b = 0; b < group->block_count; ++b) {
        blocks[b + 1] = w->tile.operand[b].data;
        bytes[b + 1] = box_bytes(&group->blocks[b], w->tile.operand[b].size);
    }
    net_trace_kernel_begin(group->block_count + 1u, blocks, bytes);
#endif
}

WORKER_0 static void end_tile(walker_t *w, const net_group_t *group)
{
    net_trace_kernel_end();
    ++net_stats.tiles;
    for (int32_t b = 0; b < group->block_count; ++b)
        store(w, group, b);
    if (!group->double_buffer) {
        for (int32_t b = 0; b < group->block_count; ++b)
            stage_out(w, group, b);
        net_wait_dma(&w->moving, w->moving.dma_issued);
        net_wait_ram(&w->moving, w->moving.ram_issued);
    }
    w->now = w->next;
    w->next = w->after;
    advance(&w->after, group);
}

WORKER_0 static void end_group(walker_t *w, const net_group_t *group)
{
    for (int32_t b = 0; b < group->block_count; ++b)
        stage_out(w, group, b);
    net_wait_dma(&w->moving, w->moving.dma_issued);
    net_wait_ram(&w->moving, w->moving.ram_issued);
    stage_whole(w, group, true);
}

/* ---- the nest: every worker ------------------------------------------------------------------------------------ */

static void compute(const net_tile_t *tile, const net_group_t *group, int32_t core, int32_t cores)
{
    for (int32_t p = 0; p < group->phase_count; ++p) {
        const net_phase_t *const phase = &group->phases[p];
        net_range_t range = {.first = tile->first, .last = tile->last, .leader = core == 0};
        for (int32_t i = 0; i < group->loop_count; ++i) {
            range.begin[i] = tile->loop[i].start;
            range.end[i] = tile->loop[i].start + tile->loop[i].size;
        }
        bool busy = core == 0;
        if (phase->core_loop >= 0) {
            const net_interval_t all = tile->loop[phase->core_loop];
            range.begin[phase->core_loop] = all.start + all.size * core / cores;
            range.end[phase->core_loop] = all.start + all.size * (core + 1) / cores;
            busy = range.begin[phase->core_loop] < range.end[phase->core_loop];
            range.leader = busy && range.begin[phase->core_loop] == all.start;
        }
        if (p > 0)
            pi_cl_team_barrier();
        if (busy)
            phase->body(tile, &range);
    }
}

void net_walk(void *argument)
{
    const net_entry_t *const entry = argument;
    walker_t *const w = (walker_t *)(void *)net_memory.l1;
    const int32_t core = (int32_t)pi_core_id();
    for (int32_t g = 0; g < entry->group_count; ++g) {
        const net_group_t *const group = &entry->groups[g];
        if (core == 0) {
            net_trace_group_begin(entry->first_group + (uint32_t)g);
            begin_group(w, group);
        }
        for (int32_t tile = 0; tile < group->tiles; ++tile) {
            if (core == 0)
                begin_tile(w, group);
            pi_cl_team_barrier();
            compute(&w->tile, group, core, entry->cores);
            pi_cl_team_barrier();
            if (core == 0)
                end_tile(w, group);
        }
        if (core == 0) {
            end_group(w, group);
            net_trace_group_end(entry->first_group + (uint32_t)g);
        }
    }
}
