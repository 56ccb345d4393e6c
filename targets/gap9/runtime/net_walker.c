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
    uint32_t changed; /* bit mask of the loops whose index differs from the tile before */
    int32_t index[NET_MAX_LOOPS];
} cursor_t;

/* Progress of one operand: the slot of the next box on each way, and the transfer that each slot waits for. */
typedef struct {
    uint8_t stage_slot, load_slot, current_slot, store_slot;
    bool leaving; /* stored to the stage, not yet written to L3 */
    uint32_t staged_at[2], loaded_at[2], stored_at[2], written_at[2];
    int32_t start[NET_MAX_RANK], size[NET_MAX_RANK]; /* box of the store that is under way */
} progress_t;

/* The tables of the group that runs; see net_runtime.h. */
typedef struct {
    net_shape_t head;
    net_loop_t loops[NET_MAX_LOOPS]; /* as many as there are; the axes follow at once */
    net_axis_t axes[NET_MAX_OPERANDS * NET_MAX_RANK];
} shape_table_t;

typedef struct {
    net_work_t head;
    net_phase_t phases[NET_MAX_PHASES]; /* as many as there are; the blocks follow at once */
    net_block_t blocks[NET_MAX_OPERANDS];
} work_table_t;

/* State of the walker, at the start of the network's L1 block. */
typedef struct {
    net_tile_t tile;
    progress_t progress[NET_MAX_OPERANDS];
    cursor_t cursors[3];
    cursor_t *now, *next, *after; /* the tile that is computed, and the two behind it */
    net_transfers_t moving;
    const net_interval_t *regions;
    uint8_t *l1;
    const net_block_t *blocks; /* of the work table */
    uint32_t tiles; /* computed by this entry */
    shape_table_t shape;
    work_table_t work;
    int32_t claimed[NET_MAX_PHASES]; /* tasks of the tile that workers have taken, by phase */
} walker_t;

/* Worker stacks are small: moving tiles and computing have frames of their own, so that neither stands on the other's. */
#define OWN_FRAME __attribute__((noinline))

_Static_assert(sizeof(walker_t) <= NET_RUNTIME_BYTES, "the planner reserves NET_RUNTIME_BYTES for the walker");

/* ---- boxes ----------------------------------------------------------------------------------------------------- */

static const net_axis_t *axes_of(const walker_t *w, const net_block_t *block)
{
    return (const net_axis_t *)(const void *)(w->shape.loops + w->shape.head.loop_count) + block->axes;
}

static void advance(cursor_t *cursor, const shape_table_t *shape)
{
    cursor->changed = 0;
    ++cursor->tile;
    for (int32_t place = shape->head.order_count - 1; place >= 0; --place) {
        const int32_t loop = shape->head.order[place];
        cursor->changed |= 1u << loop;
        if (++cursor->index[loop] < shape->loops[loop].count)
            return;
        cursor->index[loop] = 0;
    }
}

/* To the tile behind `from`. */
static void advance_from(cursor_t *cursor, const cursor_t *from, const shape_table_t *shape)
{
    cursor->tile = from->tile;
    for (int32_t loop = 0; loop < shape->head.loop_count; ++loop)
        cursor->index[loop] = from->index[loop];
    advance(cursor, shape);
}

/* To the first tile, in which everything is new, and the two behind it. */
static void rewind_cursors(walker_t *w)
{
    w->now = &w->cursors[0];
    w->next = &w->cursors[1];
    w->after = &w->cursors[2];
    w->now->tile = 0;
    w->now->changed = ~0u;
    for (int32_t loop = 0; loop < w->shape.head.loop_count; ++loop)
        w->now->index[loop] = 0;
    if (w->shape.head.tiles > 1) {
        advance_from(w->next, w->now, &w->shape);
        advance_from(w->after, w->next, &w->shape);
    }
}

static bool changes(const cursor_t *cursor, const net_block_t *block)
{
    return cursor->tile == 0 || (cursor->changed & block->loops);
}

static void box_of(const walker_t *w, const net_block_t *block, const cursor_t *cursor, int32_t start[], int32_t size[])
{
    const net_axis_t *a = axes_of(w, block);
    for (int32_t axis = 0; axis < block->rank; ++axis, ++a) {
        start[axis] = 0;
        size[axis] = a->extent;
        if (a->regions < 0)
            continue;
        int32_t row = a->regions, within = 0;
        for (int32_t i = 0; i < 2; ++i)
            if (a->loop[i] >= 0)
                within = within * w->shape.loops[a->loop[i]].count + cursor->index[a->loop[i]];
        const net_interval_t region = w->regions[row + within];
        start[axis] = region.start;
        size[axis] = region.size;
    }
}

static uint32_t box_bytes(const net_block_t *block, const int32_t size[])
{
    uint32_t bytes = block->item;
    for (int32_t axis = 0; axis < block->rank; ++axis)
        bytes *= (uint32_t)size[axis];
    return bytes;
}

/* Where tiles come from or go to: the home, or the image of the whole tensor in L2. */
static uint32_t tile_home(const net_block_t *block)
{
    return block->stage == NET_WHOLE ? block->stage_slot[0] : block->address;
}

/* The slot that comes next, and the one after it. */
static uint32_t take_slot(uint8_t *slot, const net_block_t *block)
{
    const uint32_t taken = *slot;
    *slot = block->slots == 2 ? taken ^ 1 : 0;
    return taken;
}

/* ---- one operand on its way ------------------------------------------------------------------------------------ */

/* L3 -> stage, for tile-staged operands. */
static void stage_in(walker_t *w, int32_t b, const cursor_t *cursor)
{
    const net_block_t *const block = &w->blocks[b];
    progress_t *const p = &w->progress[b];
    if (block->stage != NET_BY_TILE || !block->loaded || !changes(cursor, block))
        return;
    int32_t start[NET_MAX_RANK], size[NET_MAX_RANK];
    const uint32_t slot = take_slot(&p->stage_slot, block);
    box_of(w, block, cursor, start, size);
    net_move_box(&w->moving, net_issue_ram, block, axes_of(w, block), false, block->address, block->stage_slot[slot], start,
                 size);
    p->staged_at[slot] = w->moving.ram_issued;
}

/* Home or stage -> L1. */
static void load(walker_t *w, int32_t b, const cursor_t *cursor)
{
    const net_block_t *const block = &w->blocks[b];
    progress_t *const p = &w->progress[b];
    if (!block->loaded || block->level == NET_L1 || !changes(cursor, block))
        return;
    int32_t start[NET_MAX_RANK], size[NET_MAX_RANK];
    const uint32_t slot = take_slot(&p->load_slot, block);
    box_of(w, block, cursor, start, size);
    if (block->stage == NET_BY_TILE) {
        const uint32_t bytes = box_bytes(block, size);
        net_wait_ram(&w->moving, p->staged_at[slot]);
        if (bytes)
            net_issue_dma(&w->moving, false, block->stage_slot[slot], block->slot[slot], 1, bytes, 0);
    } else {
        net_move_box(&w->moving, net_issue_dma, block, axes_of(w, block), false, tile_home(block), block->slot[slot], start,
                     size);
    }
    p->loaded_at[slot] = w->moving.dma_issued;
}

/* Makes the operand of the current tile ready: its box, its pointer, nothing still moving in or out of its slot. */
static void settle(walker_t *w, int32_t b)
{
    const net_block_t *const block = &w->blocks[b];
    progress_t *const p = &w->progress[b];
    net_operand_t *const operand = &w->tile.operand[b];
    if (!changes(w->now, block))
        return;
    box_of(w, block, w->now, operand->start, operand->size);
    for (int32_t axis = block->rank - 1, stride = 1; axis >= 0; stride *= operand->size[axis--])
        operand->stride[axis] = stride;
    if (block->level == NET_L1) {
        operand->data = w->l1 + block->address;
        return;
    }
    const uint32_t slot = take_slot(&p->current_slot, block);
    operand->data = w->l1 + block->slot[slot];
    net_wait_dma(&w->moving, p->loaded_at[slot] > p->stored_at[slot] ? p->loaded_at[slot] : p->stored_at[slot]);
}

/* Stage -> L3, for the store that reached the stage. */
static void stage_out(walker_t *w, int32_t b)
{
    const net_block_t *const block = &w->blocks[b];
    progress_t *const p = &w->progress[b];
    if (!p->leaving)
        return;
    const uint32_t slot = block->slots == 2 ? p->store_slot ^ 1u : 0;
    net_wait_dma(&w->moving, p->stored_at[slot]);
    net_move_box(&w->moving, net_issue_ram, block, axes_of(w, block), true, block->address, block->stage_slot[slot], p->start,
                 p->size);
    p->written_at[slot] = w->moving.ram_issued;
    p->leaving = false;
}

/* L1 -> home or stage, when the next tile has another box. */
static void store(walker_t *w, int32_t b)
{
    const net_block_t *const block = &w->blocks[b];
    progress_t *const p = &w->progress[b];
    if (!block->stored || block->level == NET_L1)
        return;
    if (w->now->tile + 1 < w->shape.head.tiles && !changes(w->next, block))
        return;
    stage_out(w, b);
    const uint32_t slot = take_slot(&p->store_slot, block);
    const net_operand_t *const operand = &w->tile.operand[b];
    if (block->stage == NET_BY_TILE) {
        for (int32_t axis = 0; axis < block->rank; ++axis) {
            p->start[axis] = operand->start[axis];
            p->size[axis] = operand->size[axis];
        }
        const uint32_t bytes = box_bytes(block, p->size);
        net_wait_ram(&w->moving, p->written_at[slot]);
        if (bytes)
            net_issue_dma(&w->moving, true, block->stage_slot[slot], block->slot[slot], 1, bytes, 0);
        p->leaving = true;
    } else {
        net_move_box(&w->moving, net_issue_dma, block, axes_of(w, block), true, tile_home(block), block->slot[slot],
                     operand->start, operand->size);
    }
    p->stored_at[slot] = w->moving.dma_issued;
}

/* Whole tensors between L3 and their image in L2, before or after the nest. */
static void stage_whole(walker_t *w, bool out)
{
    for (int32_t b = 0; b < w->work.head.block_count; ++b) {
        const net_block_t *const block = &w->blocks[b];
        if (block->stage == NET_WHOLE && (out ? block->stored : block->loaded))
            net_issue_ram(&w->moving, out, block->address, block->stage_slot[0], 1, block->bytes, 0);
    }
    net_wait_ram(&w->moving, w->moving.ram_issued);
}

/* ---- the nest: worker 0 ---------------------------------------------------------------------------------------- */

static void fetch_tables(walker_t *w, const net_group_t *group)
{
    pi_cl_dma_cmd_t shape, work, tile;
    pi_cl_dma_cmd((uintptr_t)group->work, (uintptr_t)&w->work, group->work_bytes, PI_CL_DMA_DIR_EXT2LOC, &work);
    pi_cl_dma_cmd((uintptr_t)group->tile, (uintptr_t)&w->tile, group->tile_bytes, PI_CL_DMA_DIR_EXT2LOC, &tile);
    pi_cl_dma_cmd((uintptr_t)group->shape, (uintptr_t)&w->shape, group->shape_bytes, PI_CL_DMA_DIR_EXT2LOC, &shape);
    pi_cl_dma_cmd_wait(&work);
    pi_cl_dma_cmd_wait(&tile);
    pi_cl_dma_cmd_wait(&shape);
}

/* All of a simple group's operands on their way in, or out. */
static void move_whole(walker_t *w, bool out)
{
    const net_block_t *block = w->blocks;
    for (int32_t b = 0; b < w->work.head.block_count; ++b, ++block) {
        if (!out)
            w->tile.operand[b].data = w->l1 + (block->level == NET_L1 ? block->address : block->slot[0]);
        if (block->level != NET_L1 && (out ? block->stored : block->loaded))
            net_issue_dma(&w->moving, out, block->address, block->slot[0], 1, block->bytes, 0);
    }
    net_wait_dma(&w->moving, w->moving.dma_issued);
}

OWN_FRAME static void begin_group(walker_t *w, const net_group_t *group)
{
    fetch_tables(w, group);
    const int32_t blocks = w->work.head.block_count;
    w->blocks = (const net_block_t *)(const void *)(w->work.phases + w->work.head.phase_count);
    w->tile.scratch = w->l1 + w->work.head.scratch;
    net_transfers_reset(&w->moving);
    if (w->work.head.simple) {
        move_whole(w, false);
        return;
    }
    for (int32_t b = 0; b < blocks; ++b) {
        progress_t *const p = &w->progress[b];
        p->stage_slot = p->load_slot = p->current_slot = p->store_slot = 0;
        p->leaving = false;
        for (int32_t slot = 0; slot < 2; ++slot)
            p->staged_at[slot] = p->loaded_at[slot] = p->stored_at[slot] = p->written_at[slot] = 0;
    }
    rewind_cursors(w);
    stage_whole(w, false);
    if (!w->shape.head.double_buffer)
        return;
    for (int32_t b = 0; b < blocks; ++b) {
        stage_in(w, b, w->now);
        load(w, b, w->now);
        if (w->shape.head.tiles > 1)
            stage_in(w, b, w->next);
    }
}

/* What the kernel may touch, for whoever watches. */
static void tell_kernel(walker_t *w)
{
#if NET_TRACE == 1
    static void *blocks[NET_MAX_OPERANDS + 3];
    static uint32_t bytes[NET_MAX_OPERANDS + 3];
    blocks[0] = &w->tile;
    bytes[0] = sizeof w->tile;
    blocks[1] = &w->shape;
    bytes[1] = (uint32_t)((uint8_t *)(w + 1) - (uint8_t *)&w->shape);
    for (int32_t b = 0; b < w->work.head.block_count; ++b) {
        blocks[b + 2] = w->tile.operand[b].data;
        bytes[b + 2] = box_bytes(&w->blocks[b], w->tile.operand[b].size);
    }
    uint32_t count = w->work.head.block_count + 2u;
    if (w->work.head.scratch_bytes) {
        blocks[count] = w->tile.scratch;
        bytes[count++] = w->work.head.scratch_bytes;
    }
    net_trace_kernel_begin(count, blocks, bytes);
#elif defined(NET_TRACE)
    (void)w;
    net_trace_kernel_begin(0, NULL, NULL);
#else
    (void)w;
#endif
}

/* What the tile's split loops go through; the others are as they came with the tables. */
static void set_loops(walker_t *w)
{
    w->tile.first = w->tile.last = true;
    for (int32_t place = 0; place < w->shape.head.order_count; ++place) {
        const int32_t i = w->shape.head.order[place], index = w->now->index[i];
        const net_loop_t *const loop = &w->shape.loops[i];
        const int32_t start = index * loop->tile, left = loop->extent - start;
        w->tile.loop[i] = (net_interval_t){start, left < loop->tile ? left : loop->tile};
        if (w->shape.head.reductions >> i & 1) {
            w->tile.first &= index == 0;
            w->tile.last &= index == loop->count - 1;
        }
    }
}

OWN_FRAME static void begin_tile(walker_t *w)
{
    for (int32_t p = 0; p < w->work.head.phase_count; ++p)
        w->claimed[p] = 0;
    if (w->work.head.simple) {
        tell_kernel(w);
        return;
    }
    const int32_t blocks = w->work.head.block_count, tiles = w->shape.head.tiles;
    const bool ahead = w->shape.head.double_buffer;
    for (int32_t b = 0; b < blocks && !ahead; ++b) {
        stage_in(w, b, w->now);
        load(w, b, w->now);
    }
    for (int32_t b = 0; b < blocks; ++b)
        settle(w, b);
    for (int32_t b = 0; b < blocks && ahead; ++b) {
        if (w->now->tile + 1 < tiles)
            load(w, b, w->next);
        if (w->now->tile + 2 < tiles)
            stage_in(w, b, w->after);
    }
    if (w->now->tile > 0)
        set_loops(w);
    tell_kernel(w);
}

OWN_FRAME static void end_tile(walker_t *w)
{
    net_trace_kernel_end();
    ++w->tiles;
    if (w->work.head.simple) {
        move_whole(w, true);
        return;
    }
    for (int32_t b = 0; b < w->work.head.block_count; ++b)
        store(w, b);
    if (!w->shape.head.double_buffer) {
        for (int32_t b = 0; b < w->work.head.block_count; ++b)
            stage_out(w, b);
        net_wait_dma(&w->moving, w->moving.dma_issued);
        net_wait_ram(&w->moving, w->moving.ram_issued);
    }
    if (w->now->tile + 1 < w->shape.head.tiles) {
        cursor_t *const oldest = w->now;
        w->now = w->next;
        w->next = w->after;
        w->after = oldest;
        advance_from(w->after, w->next, &w->shape);
    }
}

OWN_FRAME static void end_group(walker_t *w)
{
    if (w->work.head.simple)
        return;
    for (int32_t b = 0; b < w->work.head.block_count; ++b)
        stage_out(w, b);
    net_wait_dma(&w->moving, w->moving.dma_issued);
    net_wait_ram(&w->moving, w->moving.ram_issued);
    stage_whole(w, true);
}

/* ---- the nest: every worker ------------------------------------------------------------------------------------ */

/* size * part / parts, for part <= parts */
static int32_t share(int32_t size, int32_t part, int32_t parts)
{
    return parts == 8 ? size * part >> 3 : size * part / parts; /* a division takes as long as a barrier and more */
}

OWN_FRAME static void compute(walker_t *w, int32_t core, int32_t cores)
{
    const net_tile_t *const tile = &w->tile;
    net_range_t range; /* set field by field: clearing what no loop uses would take longer than a barrier */
    range.core = core;
    range.cores = cores;
    range.first = tile->first;
    range.last = tile->last;
    for (int32_t p = 0; p < w->work.head.phase_count; ++p) {
        const net_phase_t phase = w->work.phases[p];
        for (int32_t i = 0; i < w->shape.head.loop_count; ++i) {
            range.begin[i] = tile->loop[i].start;
            range.end[i] = tile->loop[i].start + tile->loop[i].size;
        }
        bool busy = phase.core_loop == NET_TEAM || core == 0;
        range.leader = core == 0;
        range.claimed = &w->claimed[p];
        if (phase.core_loop >= 0) {
            const net_interval_t all = tile->loop[phase.core_loop];
            range.begin[phase.core_loop] = all.start + share(all.size, core, cores);
            range.end[phase.core_loop] = all.start + share(all.size, core + 1, cores);
            busy = range.begin[phase.core_loop] < range.end[phase.core_loop];
            range.leader = busy && range.begin[phase.core_loop] == all.start;
        }
        if (p > 0)
            pi_cl_team_barrier();
        if (busy)
            phase.body(tile, &range);
    }
}

void net_walk(void *argument)
{
    const net_entry_t *const entry = argument;
    walker_t *const w = (walker_t *)(void *)net_memory.l1;
    const int32_t core = (int32_t)pi_core_id(), cores = entry->cores, groups = entry->group_count;
    if (core == 0) {
        w->regions = entry->regions;
        w->l1 = net_memory.l1;
        w->tiles = 0;
    }
    for (int32_t g = 0; g < groups; ++g) {
        if (core == 0) {
            net_trace_group_begin(entry->first_group + (uint32_t)g);
            begin_group(w, &entry->groups[g]);
            begin_tile(w);
        }
        pi_cl_team_barrier();
        const int32_t tiles = w->shape.head.tiles;
        for (int32_t tile = 1;; ++tile) {
            compute(w, core, cores);
            pi_cl_team_barrier();
            if (core == 0)
                end_tile(w);
            if (tile == tiles)
                break;
            if (core == 0)
                begin_tile(w);
            pi_cl_team_barrier();
        }
        if (core == 0) {
            end_group(w);
            net_trace_group_end(entry->first_group + (uint32_t)g);
        }
    }
    if (core == 0)
        net_stats.tiles += w->tiles;
}
