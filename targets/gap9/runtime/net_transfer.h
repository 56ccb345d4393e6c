/* Transfers on both hops, issued and waited for by worker 0 alone.
 *
 * Each hop has a ring of requests in flight; a transfer is named by how many were issued up to it, and waiting for it
 * waits for all before it too. No descriptor is reused before its transfer was waited for.
 */
#ifndef NET_TRANSFER_H
#define NET_TRANSFER_H

#include "net_runtime.h"

#define NET_MAX_IN_FLIGHT 8 /* per hop; the DMA has 16 identifiers, of which tables take three */

#define NET_MAX_DEFERRED 16

/* A DMA transfer that is not issued yet. */
typedef struct {
    uint32_t l2, l1, lines, length, stride;
} net_deferred_t;

typedef struct {
    pi_cl_dma_cmd_t dma[NET_MAX_IN_FLIGHT];
    pi_cl_ram_req_t ram[NET_MAX_IN_FLIGHT];
    uint32_t dma_issued, dma_done, ram_issued, ram_done;
    uint32_t ram_writes; /* bit mask over the ring: the request writes to L3 */
    net_deferred_t deferred[NET_MAX_DEFERRED]; /* stores; loads that need not wait for them; other loads */
    uint8_t stores, unbound, listed;           /* deferred transfers: where the first, the second and the last kind end */
    bool overflown;                            /* there were more than the list holds */
} net_transfers_t;

_Static_assert(NET_MAX_IN_FLIGHT <= 32, "ram_writes has one bit per request");

/* Nothing is in flight and nothing was. */
static inline void net_transfers_reset(net_transfers_t *t)
{
    t->dma_issued = t->dma_done = t->ram_issued = t->ram_done = t->ram_writes = 0;
}

/* Waits until that many transfers of the hop are complete. */
void net_wait_dma(net_transfers_t *t, uint32_t until);
void net_wait_ram(net_transfers_t *t, uint32_t until);

/* Issues `lines` of `length` bytes, `stride` apart at `far`, contiguous at `near`. DMA: far is L2, near L1; RAM: far is
 * L3, near L2. Addresses are offsets in the network's blocks.
 */
typedef void (*net_issue_t)(net_transfers_t *t, bool out, uint32_t far, uint32_t near, uint32_t lines, uint32_t length,
                            uint32_t stride);
void net_issue_dma(net_transfers_t *t, bool out, uint32_t l2, uint32_t l1, uint32_t lines, uint32_t length,
                   uint32_t stride);
void net_issue_ram(net_transfers_t *t, bool out, uint32_t l3, uint32_t l2, uint32_t lines, uint32_t length,
                   uint32_t stride);

/* The same for DMA, but only listed, to be issued later in the same order: stores first, then loads that need not wait for
 * them, then other loads.
 */
void net_defer_store(net_transfers_t *t, bool out, uint32_t l2, uint32_t l1, uint32_t lines, uint32_t length,
                     uint32_t stride);
void net_defer_unbound(net_transfers_t *t, bool out, uint32_t l2, uint32_t l1, uint32_t lines, uint32_t length,
                       uint32_t stride);
void net_defer_load(net_transfers_t *t, bool out, uint32_t l2, uint32_t l1, uint32_t lines, uint32_t length,
                    uint32_t stride);
void net_issue_deferred_stores(net_transfers_t *t);
void net_issue_deferred_unbound(net_transfers_t *t);
void net_issue_deferred_loads(net_transfers_t *t);

/* Empties the list. */
static inline void net_defer_none(net_transfers_t *t)
{
    t->stores = t->unbound = t->listed = 0;
    t->overflown = false;
}

/* Whether the list has held all transfers so far. */
static inline bool net_all_deferred(const net_transfers_t *t) { return !t->overflown; }

/* Moves a box between a tensor at `far` and contiguous memory at `near`, in as few transfers as its shape allows. */
void net_move_box(net_transfers_t *t, net_issue_t issue, const net_block_t *block, const net_axis_t axes[], bool out,
                  uint32_t far, uint32_t near, const int32_t start[], const int32_t size[]);

#endif
