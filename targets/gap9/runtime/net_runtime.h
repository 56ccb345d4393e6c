/* Runtime of an emitted network: types of its constant tables, and the walker that runs a tile nest.
 *
 * An entry (step, update) is a list of groups; a group is one tile nest with one or more bodies. All workers run the
 * same walker: worker 0 issues every DMA and L3 transfer between barriers, then all compute. The team is forked once
 * per entry.
 */
#ifndef NET_RUNTIME_H
#define NET_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

#include "pmsis.h"

#define NET_MAX_LOOPS 8
#define NET_MAX_RANK 4
#define NET_MAX_OPERANDS 10

typedef enum { NET_DATA, NET_LOSS, NET_PARAMETER, NET_GRADIENT, NET_STATE, NET_CONSTANT } net_role_t;
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
} net_operand_t;

/* The tile that is being computed; shared by all workers, read-only for bodies. */
typedef struct {
    net_operand_t operand[NET_MAX_OPERANDS];
    net_interval_t loop[NET_MAX_LOOPS];
    bool first; /* first tile of the reduction: initialise the outputs */
    bool last;  /* last tile of the reduction: finish the outputs */
} net_tile_t;

/* The part of the tile that one worker computes: half-open loop ranges. */
typedef struct {
    int32_t begin[NET_MAX_LOOPS];
    int32_t end[NET_MAX_LOOPS];
    bool first, last;
    int32_t core;
} net_range_t;

typedef void (*net_body_t)(const net_tile_t *tile, const net_range_t *range);

/* Counters that the report shows; kept by worker 0. */
typedef struct {
    uint32_t gather, scatter; /* ConvGradX bodies run */
    uint32_t tiles;
} net_stats_t;

extern net_stats_t net_stats;

#endif
