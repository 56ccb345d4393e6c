/* A tile nest on its way: its tables in L1, the tile that comes next, and how operands get there and back. For the walker,
 * whose worker 0 alone comes here.
 */
#ifndef NET_NEST_H
#define NET_NEST_H

#include "net_transfer.h"

/* Position in a tile nest. */
typedef struct {
    int32_t tile;
    uint32_t changed; /* bit mask of the loops whose index differs from the tile before */
    int32_t index[NET_MAX_LOOPS];
} net_cursor_t;

/* An operand that passes through L2: its slots there, and the transfer that each waits for. */
typedef struct {
    uint8_t next_slot, leaving_slot;
    bool leaving; /* stored to the stage, not yet written to L3 */
    uint32_t staged_at[2], written_at[2], stored_at;
    int32_t start[NET_MAX_RANK], size[NET_MAX_RANK]; /* box of the store that is under way */
} net_passage_t;

typedef struct {
    net_shape_t head;
    net_loop_t loops[NET_MAX_LOOPS]; /* as many as there are; the axes follow at once */
    net_axis_t axes[NET_MAX_OPERANDS * NET_MAX_RANK];
} net_shape_table_t;

typedef struct {
    net_work_t head;
    net_phase_t phases[NET_MAX_PHASES]; /* as many as there are; the blocks follow at once */
    net_block_t blocks[NET_MAX_OPERANDS];
} net_work_table_t;

/* A nest's tables; see net_runtime.h. */
typedef struct {
    const net_block_t *blocks; /* of the work table */
    net_shape_table_t shape;
    net_work_table_t work;
} net_nest_t;

/* State of the walker, at the start of the network's L1 block. Of tiles and nests there is the one that is computed, and the
 * one that is made ready meanwhile.
 */
typedef struct {
    net_tile_t *tile; /* NULL: all is done */
    net_nest_t *nest;
    net_tile_t tiles[2];
    net_nest_t nests[2];
    net_cursor_t cursors[3];
    net_cursor_t *now, *next, *after; /* in the nest: the tile that is computed, and the two behind it */
    net_passage_t passages[NET_MAX_OPERANDS];
    net_transfers_t moving;
    const net_interval_t *regions;
    uint8_t *l1;
    const net_group_t *group; /* of the nest */
    uint32_t number;          /* of the group, over all entries */
    int32_t left;             /* groups that follow it */
    bool now_is_new;          /* the nest's first tile has not begun */
    bool last;                /* the tile is the nest's last */
    bool deferred_stores, deferred_unbound, deferred_loads; /* the transfers at the tile's end are listed; else they have to be
                                                             * worked out */
    uint32_t needed; /* DMA transfers that have to be complete when the next tile begins */
    uint32_t tiles_done;
    int32_t claimed[NET_MAX_PHASES]; /* tasks of the tile that workers have taken, by phase */
} net_walker_t;

_Static_assert(sizeof(net_walker_t) <= NET_RUNTIME_BYTES, "the planner reserves NET_RUNTIME_BYTES for the walker");

/* Copies a group's tables and its first tile to L1. */
void net_nest_fetch(net_walker_t *w, const net_group_t *group, net_nest_t *nest, net_tile_t *tile);

/* Sets the cursors to the first tile and the two behind it, or one tile on. */
void net_cursors_rewind(net_walker_t *w);
void net_cursors_advance(net_walker_t *w);

/* Makes `tile` the one at `cursor`, which follows `before`: its loops, and the operands' boxes and addresses. */
void net_tile_prepare(const net_walker_t *w, const net_nest_t *nest, net_tile_t *tile, const net_tile_t *before,
                      const net_cursor_t *cursor);

/* The operands of a nest's first tile that arrive so: home -> L1. */
void net_nest_load_first(net_walker_t *w, const net_nest_t *nest, const net_tile_t *tile, net_arrival_t arrival,
                         net_issue_t issue);

/* All operands of a tile whose box differs from that of the tile before (cursor; NULL: there is none): home or stage -> L1. */
void net_tile_load(net_walker_t *w, const net_nest_t *nest, const net_tile_t *tile, const net_cursor_t *cursor,
                   net_issue_t issue);

/* All results of a tile whose box differs from that of the tile behind it (cursor; NULL: there is none): L1 -> home or stage. */
void net_tile_store(net_walker_t *w, const net_nest_t *nest, const net_tile_t *tile, const net_cursor_t *cursor,
                    net_issue_t issue);

/* Operands that pass through L2 tile by tile: L3 -> stage, for the tile at a cursor; stage -> L3, for what was stored. */
void net_tile_stage_in(net_walker_t *w, const net_cursor_t *cursor);
void net_tile_stage_out(net_walker_t *w);

/* All results of a simple nest: L1 -> home. */
void net_nest_store_whole(net_walker_t *w, const net_nest_t *nest);

/* Operands that pass through L2 as a whole, before the nest or after it; returns when they are there. */
void net_nest_stage_whole(net_walker_t *w, bool out);

#endif
