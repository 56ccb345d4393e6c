/* Hooks of the walker for whoever watches it, called by worker 0 alone. On a device they vanish. The host poisons all
 * memory that a kernel must not touch and counts transfers in flight; the simulator counts cycles.
 */
#ifndef NET_TRACE_H
#define NET_TRACE_H

#include <stdint.h>

#ifdef NET_TRACE
/* Around a tile nest; `group` counts over all entries, in the order of the emitted tables. */
void net_trace_group_begin(uint32_t group);
void net_trace_group_end(uint32_t group);

/* Before the barrier that starts a kernel, and after the one that ends it. The kernel may touch blocks[i][0 .. bytes[i])
 * and nothing else of L1, L2 and L3; the walker says so if NET_TRACE is 1.
 */
void net_trace_kernel_begin(uint32_t count, void *const blocks[], const uint32_t bytes[]);
void net_trace_kernel_end(void);

/* Around a wait for transfers of one hop: DMA (L2 <-> L1) or RAM (L3 <-> L2). */
void net_trace_wait_begin(void);
void net_trace_wait_end(void);
#else
static inline void net_trace_group_begin(uint32_t group) { (void)group; }
static inline void net_trace_group_end(uint32_t group) { (void)group; }
static inline void net_trace_kernel_end(void) {}
static inline void net_trace_wait_begin(void) {}
static inline void net_trace_wait_end(void) {}
#endif

#endif
