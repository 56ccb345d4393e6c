/* The walker: runs the groups of an entry, tile by tile.
 *
 * While the workers compute a tile, worker 0 first makes the next one ready, and what has to move at the change: with double
 * buffering it stores the results of the tile before and loads the operands of the next; else, and from one nest to the next,
 * it lists the transfers, so that the change is a matter of issuing them and waiting. Of the next nest it loads what the plan
 * lets arrive early; results of the last tile may leave while the next nest begins. Then it joins the others: they take parts
 * of the work one by one, so that nobody waits for it. A box is moved only when it differs from the one of the tile before.
 */
#include <stddef.h>

#include "net_claim.h"
#include "net_nest.h"
#include "net_trace.h"

/* Worker stacks are small: moving tiles and computing have frames of their own, so that neither stands on the other's. */
#define OWN_FRAME __attribute__((noinline))

/* ---- worker 0 --------------------------------------------------------------------------------------------------- */

/* The tile and the nest that are not computed now. */
static net_tile_t *other_tile(net_walker_t *w) { return &w->tiles[w->tile == w->tiles]; }
static net_nest_t *other_nest(net_walker_t *w) { return &w->nests[w->nest == w->nests]; }

/* What the kernel may touch, for whoever watches. */
static void tell_kernel(net_walker_t *w)
{
#if NET_TRACE == 1
    static void *blocks[NET_MAX_OPERANDS + 2];
    static uint32_t bytes[NET_MAX_OPERANDS + 2];
    uint32_t count = 0;
    blocks[count] = w; /* worker 0 writes there what comes next */
    bytes[count++] = sizeof *w;
    for (int32_t b = 0; b < w->nest->work.head.block_count; ++b) {
        const net_operand_t *const operand = &w->tile->operand[b];
        const net_block_t *const block = &w->nest->blocks[b];
        blocks[count] = operand->data;
        bytes[count] = block->item;
        for (int32_t axis = 0; axis < block->rank; ++axis)
            bytes[count] *= (uint32_t)operand->size[axis];
        ++count;
    }
    if (w->nest->work.head.scratch_bytes) {
        blocks[count] = w->tile->scratch;
        bytes[count++] = w->nest->work.head.scratch_bytes;
    }
    net_trace_kernel_begin(count, blocks, bytes);
#elif defined(NET_TRACE)
    (void)w;
    net_trace_kernel_begin(0, NULL, NULL);
#else
    (void)w;
#endif
}

static void wait_all(net_walker_t *w)
{
    net_wait_dma(&w->moving, w->moving.dma_issued);
    net_wait_ram(&w->moving, w->moving.ram_issued);
}

/* Waits for what the tile needs, and hands it to the workers. */
static void begin_kernel(net_walker_t *w)
{
    net_wait_dma(&w->moving, w->needed);
    for (int32_t p = 0; p < w->nest->work.head.phase_count; ++p)
        w->claimed[p] = 0;
    tell_kernel(w);
}

/* What is left of the nest's first tile is on its way; its tables are there, and the results of the nest before are at home. */
static void enter_nest(net_walker_t *w)
{
    const net_nest_t *const nest = w->nest;
    if (nest->work.head.staged) {
        net_cursors_rewind(w);
        for (int32_t b = 0; b < nest->work.head.block_count; ++b)
            w->passages[b] = (net_passage_t){0};
        net_nest_stage_whole(w, false);
        net_tile_stage_in(w, w->now);
        net_tile_load(w, nest, w->tile, NULL, net_issue_dma);
        if (nest->shape.head.double_buffer)
            net_tile_stage_in(w, w->next);
    } else if (w->deferred_loads) {
        net_issue_deferred_loads(&w->moving);
    } else {
        net_nest_load_first(w, nest, w->tile, NET_AFTER, net_issue_dma);
    }
}

/* Fetches the next nest, loads what may come early, and lists the other transfers that its first tile needs. */
static void look_ahead(net_walker_t *w)
{
    net_nest_t *const nest = other_nest(w);
    net_tile_t *const tile = other_tile(w);
    net_nest_fetch(w, w->group + 1, nest, tile);
    if (nest->work.head.staged)
        return;
    net_wait_dma(&w->moving, w->moving.dma_issued); /* results of the tiles before are at home, and their slots free */
    net_nest_load_first(w, nest, tile, NET_EARLY, net_issue_dma);
    net_nest_load_first(w, nest, tile, NET_AT_TURN, net_defer_unbound);
    w->deferred_unbound = net_all_deferred(&w->moving);
    net_nest_load_first(w, nest, tile, NET_AFTER, net_defer_load);
    w->deferred_loads = net_all_deferred(&w->moving);
}

/* Where a nest has several tiles: its next tile, and with double buffering all that moves meanwhile. */
OWN_FRAME static void work_on_next(net_walker_t *w)
{
    const net_nest_t *const nest = w->nest;
    const bool ahead = nest->shape.head.double_buffer;
    if (!w->now_is_new)
        net_cursors_advance(w);
    else if (!nest->work.head.staged)
        net_cursors_rewind(w);
    w->now_is_new = false;
    w->last = w->now->tile + 1 == nest->shape.head.tiles;
    if (ahead && w->now->tile > 0)
        net_tile_store(w, nest, other_tile(w), w->now, net_issue_dma);
    if (w->last)
        return;
    net_tile_prepare(w, nest, other_tile(w), w->tile, w->next);
    if (!ahead)
        return;
    if (nest->work.head.refilled)
        net_wait_dma(&w->moving, w->moving.dma_issued);
    net_tile_load(w, nest, other_tile(w), w->next, net_issue_dma);
    if (nest->work.head.staged && w->after->tile < nest->shape.head.tiles)
        net_tile_stage_in(w, w->after);
}

/* While a tile is computed. */
OWN_FRAME static void work_behind(net_walker_t *w)
{
    const net_nest_t *const nest = w->nest;
    net_wait_dma(&w->moving, w->moving.dma_issued); /* results of the nest before may still be leaving */
    net_defer_none(&w->moving);
    w->deferred_stores = w->deferred_unbound = w->deferred_loads = false;
    w->last = true;
    if (nest->shape.head.tiles > 1)
        work_on_next(w);
    if (!nest->work.head.simple && !nest->work.head.staged && (w->last || !nest->shape.head.double_buffer)) {
        net_tile_store(w, nest, w->tile, w->last ? NULL : w->next, net_defer_store);
        w->deferred_stores = net_all_deferred(&w->moving);
        if (!w->last && w->deferred_stores) {
            net_tile_load(w, nest, other_tile(w), w->next, net_defer_load);
            w->deferred_loads = net_all_deferred(&w->moving);
        }
    }
    if (w->last && w->left > 0)
        look_ahead(w);
}

/* The results of the tile that was computed are on their way out. */
static void put_away(net_walker_t *w)
{
    if (w->nest->work.head.simple)
        net_nest_store_whole(w, w->nest);
    else if (w->deferred_stores)
        net_issue_deferred_stores(&w->moving);
    else
        net_tile_store(w, w->nest, w->tile, w->last ? NULL : w->next, net_issue_dma);
    if (w->nest->work.head.staged)
        net_tile_stage_out(w);
}

/* From a nest's last tile to the next nest, if there is one. */
static void turn_to_next_nest(net_walker_t *w)
{
    const net_work_t *const work = &w->nest->work.head, *const next = &other_nest(w)->work.head;
    const bool drains = w->left > 0 && next->drains;
    if (w->left > 0 && w->deferred_unbound)
        net_issue_deferred_unbound(&w->moving);
    else if (w->left > 0 && !next->staged)
        net_nest_load_first(w, other_nest(w), other_tile(w), NET_AT_TURN, net_issue_dma);
    w->needed = w->moving.dma_issued;
    put_away(w);
    if (!drains)
        wait_all(w);
    if (work->staged)
        net_nest_stage_whole(w, true);
    net_trace_group_end(w->number);
    if (w->left-- == 0) {
        w->tile = NULL;
        return;
    }
    ++w->group;
    ++w->number;
    w->nest = other_nest(w);
    w->tile = other_tile(w);
    w->now_is_new = true;
    net_trace_group_begin(w->number);
    if (!drains) {
        enter_nest(w);
        w->needed = w->moving.dma_issued;
    }
    begin_kernel(w);
}

/* From the tile that was computed to the next one. */
OWN_FRAME static void turn(net_walker_t *w)
{
    const net_nest_t *const nest = w->nest;
    net_trace_kernel_end();
    ++w->tiles_done;
    if (w->last) {
        turn_to_next_nest(w);
        return;
    }
    if (!nest->shape.head.double_buffer)
        put_away(w);
    w->tile = other_tile(w);
    if (!nest->shape.head.double_buffer) {
        if (nest->work.head.staged || nest->work.head.refilled)
            wait_all(w);
        if (nest->work.head.staged)
            net_tile_stage_in(w, w->next);
        if (w->deferred_loads)
            net_issue_deferred_loads(&w->moving);
        else
            net_tile_load(w, nest, w->tile, w->next, net_issue_dma);
    }
    w->needed = w->moving.dma_issued;
    begin_kernel(w);
}

static void start(net_walker_t *w, const net_entry_t *entry)
{
    w->regions = entry->regions;
    w->l1 = net_memory.l1;
    w->tiles_done = 0;
    w->group = entry->groups;
    w->number = entry->first_group;
    w->left = entry->group_count - 1;
    w->tile = w->tiles;
    w->nest = w->nests;
    w->deferred_loads = false;
    w->now_is_new = true;
    net_transfers_reset(&w->moving);
    net_nest_fetch(w, w->group, w->nest, w->tile);
    net_trace_group_begin(w->number);
    enter_nest(w);
    w->needed = w->moving.dma_issued;
    begin_kernel(w);
}

/* ---- every worker ----------------------------------------------------------------------------------------------- */

/* Iterations of a loop that a worker takes at a time: of long loops a quarter of its share, so that worker 0 may come late. */
static int32_t part_of(int32_t size, int32_t cores)
{
    const int32_t per_core = size < 512 ? 2 : 4;
    const int32_t parts = per_core * cores, part = (size + parts - 1) / parts;
    return part < 16 ? part : (part + 7) & ~7; /* bodies take eight at once */
}

/* A phase of which the workers share out a loop: `all` of it. */
static void compute_parts(const net_phase_t *phase, const net_tile_t *tile, net_range_t *range, int32_t loop,
                          net_interval_t all)
{
    const int32_t part = part_of(all.size, range->cores), chained = phase->chained;
    for (;;) {
        const int32_t begin = net_claim(range->claimed) * part;
        if (begin >= all.size)
            return;
        const int32_t end = begin + part < all.size ? begin + part : all.size;
        range->begin[loop] = all.start + begin;
        range->end[loop] = all.start + end;
        range->leader = begin == 0;
        for (int32_t i = 0; i <= chained; ++i) {
            range->flat = phase[i].flat;
            phase[i].body(tile, range);
        }
    }
}

/* The elements of a tile that an element-wise phase walks. */
static net_interval_t elements_of(const net_nest_t *nest, const net_phase_t *phase, const net_tile_t *tile)
{
    const int32_t b = phase->flat[0];
    net_interval_t all = {0, 1};
    for (int32_t axis = nest->blocks[b].rank - 1; axis >= 0; --axis)
        all.size *= tile->operand[b].size[axis];
    return all;
}

OWN_FRAME static void compute(net_walker_t *w, int32_t p, int32_t core, int32_t cores)
{
    const net_tile_t *const tile = w->tile;
    const net_phase_t *const phase = &w->nest->work.phases[p];
    net_range_t range; /* set field by field: clearing what no loop uses would take longer than a barrier */
    range.core = core;
    range.cores = cores;
    const int32_t restart = w->nest->work.head.restart;
    range.first = tile->first && (restart < 0 || *(const uint8_t *)tile->operand[restart].data);
    range.last = tile->last;
    range.leader = core == 0;
    range.claimed = &w->claimed[p];
    for (int32_t i = 0; i < w->nest->shape.head.loop_count; ++i) {
        range.begin[i] = tile->loop[i].start;
        range.end[i] = tile->loop[i].start + tile->loop[i].size;
    }
    if (phase->core_loop >= 0)
        compute_parts(phase, tile, &range, phase->core_loop, tile->loop[phase->core_loop]);
    else if (phase->core_loop == NET_FLAT)
        compute_parts(phase, tile, &range, 0, elements_of(w->nest, phase, tile));
    else if (phase->core_loop == NET_TEAM || core == 0)
        phase->body(tile, &range);
}

void net_walk(void *argument)
{
    const net_entry_t *const entry = argument;
    net_walker_t *const w = (net_walker_t *)(void *)net_memory.l1;
    const int32_t core = (int32_t)pi_core_id(), cores = entry->cores;
    if (core == 0)
        start(w, entry);
    pi_cl_team_barrier();
    while (w->tile) {
        const net_work_t *const work = &w->nest->work.head;
        const int32_t count = w->tile->last ? work->phase_count : work->each_tile;
        for (int32_t p = 0; p < count;) {
            if (core == 0 && p == work->each_tile - 1) /* where most of the work is, and is claimed */
                work_behind(w);
            compute(w, p, core, cores);
            p += 1 + w->nest->work.phases[p].chained; /* behind the barrier worker 0 may turn to another nest */
            pi_cl_team_barrier();
        }
        if (core == 0)
            turn(w);
        pi_cl_team_barrier();
    }
    if (core == 0)
        net_stats.tiles += w->tiles_done;
}
