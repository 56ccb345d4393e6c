/* Runtime of an emitted network: types of its constant tables, and the walker that runs a tile nest.
 *
 * An entry (step, update) is a list of groups; a group is one tile nest with one or more bodies. All workers run the
 * same walker; worker 0 issues every DMA and L3 transfer. The team is forked once per entry.
 */
#ifndef NET_RUNTIME_H
#define NET_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

#include "pmsis.h"

#define NET_RUNTIME_BYTES 6400 /* L1 that the walker uses; as in target.toml */
#define NET_SLOT_UNIT 8u       /* slots in L1 are aligned to so many bytes, and numbered in them */
#define NET_MAX_LOOPS 8
#define NET_MAX_RANK 4
#define NET_MAX_OPERANDS 14
#define NET_MAX_PHASES 8 /* and steps */
#define NET_MAX_FLAT 6   /* operands of an element-wise node */

typedef enum { NET_DATA, NET_LOSS, NET_PARAMETER, NET_GRADIENT, NET_STATE, NET_CONSTANT, NET_PREDICTION } net_role_t;
typedef enum { NET_L1, NET_L2, NET_L3 } net_level_t;

/* A persistent tensor, as the outside sees it. */
typedef struct {
    const char *name;
    uint8_t role;  /* net_role_t */
    uint8_t level; /* net_level_t */
    uint32_t address; /* offset in the level's block */
    uint32_t bytes;
} net_tensor_t;

/* Region of one tensor axis. */
typedef struct {
    int32_t start, size;
} net_interval_t;

/* An operand of the current tile: where it is in L1 and which box of the tensor it holds. */
typedef struct {
    void *data;
    int32_t start[NET_MAX_RANK];
    int32_t size[NET_MAX_RANK];
    int32_t stride[NET_MAX_RANK]; /* in elements, in L1 */
    bool fresh; /* another box than in the nest's tile before: what a kernel made of that one is no longer true */
} net_operand_t;

/* The tile that is being computed; shared by all workers, read-only for bodies. */
typedef struct {
    net_interval_t loop[NET_MAX_LOOPS];
    bool first; /* first tile of the reduction: initialise the outputs */
    bool last;  /* last tile of the reduction: finish the outputs */
    void *scratch; /* of kernels that need room beside their operands */
    net_operand_t operand[NET_MAX_OPERANDS]; /* as many as there are */
} net_tile_t;

/* The part of the tile that one worker computes: half-open loop ranges. */
typedef struct {
    int32_t begin[NET_MAX_LOOPS];
    int32_t end[NET_MAX_LOOPS];
    int32_t core, cores; /* of the team, for phases whose workers share the work out themselves */
    int32_t *claimed;    /* of the phase: tasks that workers have taken from its list, 0 at first; see net_claim */
    const uint8_t *flat;   /* of NET_FLAT: which of the tile's operands are the phase's */
    bool first, last;
    bool leader; /* this worker has the first iterations: the one that counts calls */
} net_range_t;

typedef void (*net_body_t)(const net_tile_t *tile, const net_range_t *range);

/* ---- constant tables of an emitted network --------------------------------------------------------------------
 *
 * They lie in L2, where a load takes many cycles. The walker copies the tables of a group to L1, each in one transfer: its
 * shape and first tile, which groups of equal geometry share, and its work. Tables of regions stay in L2.
 */

/* A loop of a tile nest. */
typedef struct {
    int32_t extent;
    int32_t tile;  /* iterations per tile; the last tile may have fewer */
    int32_t count; /* tiles */
} net_loop_t;

/* An axis of an operand. The region of each tile is in a table indexed by up to two split loops (-1: none), which begins at
 * row `regions` of the entry's regions; -1: always the whole axis.
 */
typedef struct {
    int32_t extent;
    int32_t regions;
    int8_t loop[2];
} net_axis_t;

/* The geometry of a tile nest; its loops and then the axes of all operands follow. `order` lists the split loops,
 * outermost first.
 */
typedef struct {
    int32_t tiles;
    int8_t order[NET_MAX_LOOPS];
    uint8_t loop_count, order_count, axis_count;
    uint8_t reductions; /* bit mask of the loops that are reductions */
    bool double_buffer;
} net_shape_t;

/* How an operand in L3 passes through L2; operands at home in L1 or L2 do not. */
typedef enum { NET_DIRECT, NET_BY_TILE, NET_WHOLE } net_stage_t;

/* When the box of a nest's first tile is loaded: when the results of the nest before are at home, when its last tile is
 * computed, while it is computed, or never, because that tile left it in the slot.
 */
typedef enum { NET_AFTER, NET_AT_TURN, NET_EARLY, NET_KEPT } net_arrival_t;

/* An operand of a group: its home, its slots in L1 and, if it passes through L2, its staging slots there. */
typedef struct {
    uint32_t address; /* of the tensor, in its home level */
    uint32_t bytes;   /* of the tensor */
    uint32_t stage_slot[2];
    uint16_t slot[2]; /* in units of NET_SLOT_UNIT bytes */
    uint16_t axes; /* its first one among those of the shape */
    uint8_t level; /* net_level_t of the home */
    uint8_t stage; /* net_stage_t */
    uint8_t rank, item, slots;
    uint8_t loops; /* bit mask of the split loops that change the box */
    uint8_t arrival; /* net_arrival_t */
    bool loaded, stored;
} net_block_t;

#define NET_ALONE -1 /* instead of a loop: worker 0 does it all */
#define NET_TEAM -2  /* all workers do it, and share it out themselves */
#define NET_FLAT -3  /* all elements of the boxes, which lie in L1 alike: loop 0 to the body, from 0 */

/* A phase, or a step of one: the body, and what the workers share out: a loop or one of the above. Of NET_FLAT the operands,
 * which the body knows by their place here; the first has as many elements as are walked. `chained` phases behind it walk as
 * many: each worker goes on with its part, no barrier is between.
 */
typedef struct {
    net_body_t body;
    int8_t core_loop;
    uint8_t chained;
    uint8_t flat[NET_MAX_FLAT];
} net_phase_t;

/* What a tile nest computes; its phases and then its operands follow. */
typedef struct {
    uint8_t phase_count;
    uint8_t each_tile; /* phases that run on each tile; the others run on the last one of a reduction */
    uint8_t block_count;
    int8_t restart; /* -1, or the operand (a truth value) but for which sums go on from what the first tile loads */
    bool simple;   /* one tile, of whole tensors at home in L1 or L2 */
    bool staged;   /* an operand passes through L2 on its way */
    bool refilled; /* an operand is stored and loaded, so that its slot has to be empty before it is filled */
    bool drains;   /* the results of the nest before may leave while the first tile is computed */
    uint32_t scratch, scratch_bytes; /* in L1 */
} net_work_t;

/* A tile nest: where its tables are, and their bytes. The tile is the first one, without its pointers. */
typedef struct {
    const net_shape_t *shape;
    const net_work_t *work;
    const void *tile; /* the bytes of a net_tile_t */
    uint16_t shape_bytes, work_bytes, tile_bytes;
} net_group_t;

/* What one call from the outside runs. */
typedef struct {
    const net_group_t *groups;
    const net_interval_t *regions;
    int32_t group_count;
    int32_t cores;
    uint32_t first_group; /* number of groups[0], counted over all entries */
} net_entry_t;

/* ---- state --------------------------------------------------------------------------------------------------- */

/* The memory of the network: one block per level. */
typedef struct {
    uint8_t *l1, *l2;
    uint32_t l3;
    uint32_t l1_bytes, l2_bytes, l3_bytes;
    struct pi_device cluster, ram;
} net_memory_t;

extern net_memory_t net_memory;

/* Counters that the report shows; kept by worker 0 and, for bodies, by the worker that leads the call. */
typedef struct {
    uint32_t gather, scatter, halo; /* ConvGradX bodies run */
    uint32_t tiles;
} net_stats_t;

extern net_stats_t net_stats;

/* ---- functions ----------------------------------------------------------------------------------------------- */

/* Opens cluster and RAM and allocates the blocks; 0, or -1 with everything closed again. */
int net_memory_open(uint32_t l1_bytes, uint32_t l2_bytes, uint32_t l3_bytes);
void net_memory_close(void);

/* Copies between a tensor's home and the caller's memory. Fabric controller only. */
void net_memory_write(uint8_t level, uint32_t address, const void *source, uint32_t bytes);
void net_memory_read(uint8_t level, uint32_t address, void *destination, uint32_t bytes);

/* Runs an entry on the cluster and returns when it is done. Fabric controller only. */
void net_run(const net_entry_t *entry);

/* Runs an entry on this worker; `entry` is a net_entry_t. The body of the one fork of an entry. */
void net_walk(void *entry);

#endif
