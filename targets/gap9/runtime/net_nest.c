/* Boxes of tiles and their transfers; see net_nest.h. */
#include "net_nest.h"

/* ---- cursors ---------------------------------------------------------------------------------------------------- */

static void advance(net_cursor_t *cursor, const net_shape_table_t *shape)
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
static void advance_from(net_cursor_t *cursor, const net_cursor_t *from, const net_shape_table_t *shape)
{
    cursor->tile = from->tile;
    for (int32_t loop = 0; loop < shape->head.loop_count; ++loop)
        cursor->index[loop] = from->index[loop];
    advance(cursor, shape);
}

void net_cursors_rewind(net_walker_t *w)
{
    const net_shape_table_t *const shape = &w->nest->shape;
    w->now = &w->cursors[0];
    w->next = &w->cursors[1];
    w->after = &w->cursors[2];
    w->now->tile = 0;
    w->now->changed = ~0u;
    for (int32_t loop = 0; loop < shape->head.loop_count; ++loop)
        w->now->index[loop] = 0;
    advance_from(w->next, w->now, shape);
    advance_from(w->after, w->next, shape);
}

void net_cursors_advance(net_walker_t *w)
{
    net_cursor_t *const oldest = w->now;
    w->now = w->next;
    w->next = w->after;
    w->after = oldest;
    advance_from(w->after, w->next, &w->nest->shape);
}

static bool changes(const net_cursor_t *cursor, const net_block_t *block)
{
    return !cursor || cursor->tile == 0 || (cursor->changed & block->loops);
}

/* ---- boxes ------------------------------------------------------------------------------------------------------ */

static const net_axis_t *axes_of(const net_nest_t *nest, const net_block_t *block)
{
    return (const net_axis_t *)(const void *)(nest->shape.loops + nest->shape.head.loop_count) + block->axes;
}

static void box_of(const net_walker_t *w, const net_nest_t *nest, const net_block_t *block, const net_cursor_t *cursor,
                   int32_t start[], int32_t size[])
{
    const net_axis_t *a = axes_of(nest, block);
    for (int32_t axis = 0; axis < block->rank; ++axis, ++a) {
        start[axis] = 0;
        size[axis] = a->extent;
        if (a->regions < 0)
            continue;
        int32_t row = a->regions, within = 0;
        for (int32_t i = 0; i < 2; ++i)
            if (a->loop[i] >= 0)
                within = within * nest->shape.loops[a->loop[i]].count + cursor->index[a->loop[i]];
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

/* Offset in L1 of a slot. */
static uint32_t slot_at(const net_block_t *block, uint32_t slot) { return block->slot[slot] * NET_SLOT_UNIT; }

/* Which of its slots in L1 an operand of a tile is in. */
static uint32_t slot_of(const net_walker_t *w, const net_block_t *block, const net_operand_t *operand)
{
    return block->slots == 2 && operand->data != w->l1 + slot_at(block, 0);
}

/* Where the box of an operand is that lives in L1: it has no gaps there. */
static void *at_home(const net_walker_t *w, const net_nest_t *nest, const net_block_t *block, const net_operand_t *operand)
{
    const net_axis_t *const a = axes_of(nest, block);
    uint32_t offset = 0;
    for (int32_t axis = 0; axis < block->rank; ++axis)
        offset = offset * (uint32_t)a[axis].extent + (uint32_t)operand->start[axis];
    return w->l1 + block->address + offset * block->item;
}

/* What the tile's split loops go through; the others are as they were. */
static void set_loops(const net_shape_table_t *shape, net_tile_t *tile, const net_cursor_t *cursor)
{
    tile->first = tile->last = true;
    for (int32_t place = 0; place < shape->head.order_count; ++place) {
        const int32_t i = shape->head.order[place], index = cursor->index[i];
        const net_loop_t *const loop = &shape->loops[i];
        const int32_t start = index * loop->tile, left = loop->extent - start;
        tile->loop[i] = (net_interval_t){start, left < loop->tile ? left : loop->tile};
        if (shape->head.reductions >> i & 1) {
            tile->first &= index == 0;
            tile->last &= index == loop->count - 1;
        }
    }
}

void net_tile_prepare(const net_walker_t *w, const net_nest_t *nest, net_tile_t *tile, const net_tile_t *before,
                      const net_cursor_t *cursor)
{
    const net_block_t *block = nest->blocks;
    for (int32_t i = 0; i < nest->shape.head.loop_count; ++i)
        tile->loop[i] = before->loop[i];
    set_loops(&nest->shape, tile, cursor);
    tile->scratch = before->scratch;
    for (int32_t b = 0; b < nest->work.head.block_count; ++b, ++block) {
        net_operand_t *const operand = &tile->operand[b];
        const net_operand_t *const old = &before->operand[b];
        if (!changes(cursor, block)) {
            *operand = *old;
            operand->fresh = false;
            continue;
        }
        operand->fresh = true;
        box_of(w, nest, block, cursor, operand->start, operand->size);
        for (int32_t axis = block->rank - 1, stride = 1; axis >= 0; stride *= operand->size[axis--])
            operand->stride[axis] = stride;
        if (block->level == NET_L1)
            operand->data = at_home(w, nest, block, operand);
        else
            operand->data = block->slots == 2 ? w->l1 + slot_at(block, !slot_of(w, block, old)) : old->data;
    }
}

void net_nest_fetch(net_walker_t *w, const net_group_t *group, net_nest_t *nest, net_tile_t *tile)
{
    pi_cl_dma_cmd_t shape, work, first;
    pi_cl_dma_cmd((uintptr_t)group->work, (uintptr_t)&nest->work, group->work_bytes, PI_CL_DMA_DIR_EXT2LOC, &work);
    pi_cl_dma_cmd((uintptr_t)group->tile, (uintptr_t)tile, group->tile_bytes, PI_CL_DMA_DIR_EXT2LOC, &first);
    pi_cl_dma_cmd((uintptr_t)group->shape, (uintptr_t)&nest->shape, group->shape_bytes, PI_CL_DMA_DIR_EXT2LOC, &shape);
    pi_cl_dma_cmd_wait(&work);
    pi_cl_dma_cmd_wait(&first);
    pi_cl_dma_cmd_wait(&shape);
    nest->blocks = (const net_block_t *)(const void *)(nest->work.phases + nest->work.head.phase_count);
    tile->scratch = w->l1 + nest->work.head.scratch;
    const net_block_t *block = nest->blocks;
    for (int32_t b = 0; b < nest->work.head.block_count; ++b, ++block)
        tile->operand[b].data =
            block->level == NET_L1 ? at_home(w, nest, block, &tile->operand[b]) : (void *)(w->l1 + slot_at(block, 0));
}

/* ---- transfers -------------------------------------------------------------------------------------------------- */

void net_nest_store_whole(net_walker_t *w, const net_nest_t *nest)
{
    const net_block_t *block = nest->blocks;
    for (int32_t b = nest->work.head.block_count; b > 0; --b, ++block)
        if (block->level != NET_L1 && block->stored)
            net_issue_dma(&w->moving, true, block->address, slot_at(block, 0), 1, block->bytes, 0);
}

void net_nest_load_first(net_walker_t *w, const net_nest_t *nest, const net_tile_t *tile, net_arrival_t arrival,
                         net_issue_t issue)
{
    const net_block_t *block = nest->blocks;
    const net_operand_t *operand = tile->operand;
    for (int32_t b = 0; b < nest->work.head.block_count; ++b, ++block, ++operand) {
        if (!block->loaded || block->level == NET_L1 || block->arrival != arrival)
            continue;
        if (nest->work.head.simple)
            issue(&w->moving, false, block->address, slot_at(block, 0), 1, block->bytes, 0);
        else
            net_move_box(&w->moving, issue, block, axes_of(nest, block), false, block->address, slot_at(block, 0),
                         operand->start, operand->size);
    }
}

void net_tile_load(net_walker_t *w, const net_nest_t *nest, const net_tile_t *tile, const net_cursor_t *cursor,
                   net_issue_t issue)
{
    const net_block_t *block = nest->blocks;
    const net_operand_t *operand = tile->operand;
    for (int32_t b = 0; b < nest->work.head.block_count; ++b, ++block, ++operand) {
        if (!block->loaded || block->level == NET_L1 || !changes(cursor, block))
            continue;
        const uint32_t slot = slot_of(w, block, operand);
        if (block->stage == NET_BY_TILE) {
            const uint32_t bytes = box_bytes(block, operand->size);
            net_wait_ram(&w->moving, w->passages[b].staged_at[slot]);
            if (bytes)
                issue(&w->moving, false, block->stage_slot[slot], slot_at(block, slot), 1, bytes, 0);
        } else {
            net_move_box(&w->moving, issue, block, axes_of(nest, block), false, tile_home(block), slot_at(block, slot),
                         operand->start, operand->size);
        }
    }
}

/* Stage -> L3, for the store that reached the stage. */
static void stage_out(net_walker_t *w, int32_t b)
{
    const net_block_t *const block = &w->nest->blocks[b];
    net_passage_t *const p = &w->passages[b];
    if (!p->leaving)
        return;
    net_wait_dma(&w->moving, p->stored_at);
    net_move_box(&w->moving, net_issue_ram, block, axes_of(w->nest, block), true, block->address,
                 block->stage_slot[p->leaving_slot], p->start, p->size);
    p->written_at[p->leaving_slot] = w->moving.ram_issued;
    p->leaving = false;
}

/* L1 -> stage, behind the store before. */
static void store_to_stage(net_walker_t *w, int32_t b, const net_operand_t *operand, uint32_t slot)
{
    const net_block_t *const block = &w->nest->blocks[b];
    net_passage_t *const p = &w->passages[b];
    stage_out(w, b);
    for (int32_t axis = 0; axis < block->rank; ++axis) {
        p->start[axis] = operand->start[axis];
        p->size[axis] = operand->size[axis];
    }
    const uint32_t bytes = box_bytes(block, p->size);
    net_wait_ram(&w->moving, p->written_at[slot]);
    if (bytes)
        net_issue_dma(&w->moving, true, block->stage_slot[slot], slot_at(block, slot), 1, bytes, 0);
    p->stored_at = w->moving.dma_issued;
    p->leaving_slot = (uint8_t)slot;
    p->leaving = true;
}

void net_tile_store(net_walker_t *w, const net_nest_t *nest, const net_tile_t *tile, const net_cursor_t *cursor,
                    net_issue_t issue)
{
    const net_block_t *block = nest->blocks;
    const net_operand_t *operand = tile->operand;
    for (int32_t b = 0; b < nest->work.head.block_count; ++b, ++block, ++operand) {
        if (!block->stored || block->level == NET_L1 || !changes(cursor, block))
            continue;
        const uint32_t slot = slot_of(w, block, operand);
        if (block->stage == NET_BY_TILE)
            store_to_stage(w, b, operand, slot);
        else
            net_move_box(&w->moving, issue, block, axes_of(nest, block), true, tile_home(block), slot_at(block, slot),
                         operand->start, operand->size);
    }
}

void net_tile_stage_in(net_walker_t *w, const net_cursor_t *cursor)
{
    const net_block_t *block = w->nest->blocks;
    for (int32_t b = 0; b < w->nest->work.head.block_count; ++b, ++block) {
        net_passage_t *const p = &w->passages[b];
        if (block->stage != NET_BY_TILE || !block->loaded || !changes(cursor, block))
            continue;
        int32_t start[NET_MAX_RANK], size[NET_MAX_RANK];
        const uint32_t slot = p->next_slot;
        p->next_slot = block->slots == 2 ? (uint8_t)!slot : 0;
        box_of(w, w->nest, block, cursor, start, size);
        net_move_box(&w->moving, net_issue_ram, block, axes_of(w->nest, block), false, block->address,
                     block->stage_slot[slot], start, size);
        p->staged_at[slot] = w->moving.ram_issued;
    }
}

void net_tile_stage_out(net_walker_t *w)
{
    for (int32_t b = 0; b < w->nest->work.head.block_count; ++b)
        stage_out(w, b);
}

void net_nest_stage_whole(net_walker_t *w, bool out)
{
    const net_block_t *block = w->nest->blocks;
    for (int32_t b = 0; b < w->nest->work.head.block_count; ++b, ++block)
        if (block->stage == NET_WHOLE && (out ? block->stored : block->loaded))
            net_issue_ram(&w->moving, out, block->address, block->stage_slot[0], 1, block->bytes, 0);
    net_wait_ram(&w->moving, w->moving.ram_issued);
}
