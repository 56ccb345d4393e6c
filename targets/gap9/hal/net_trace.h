/* Hooks around a kernel, called by worker 0 alone (before the barrier that starts it, after the one that ends it).
 * On a device they vanish; the host uses them to poison all memory the kernel must not touch and to count transfers
 * in flight.
 */
#ifndef NET_TRACE_H
#define NET_TRACE_H

#include <stdint.h>

#ifdef NET_HOST
/* The kernel may touch blocks[i][0 .. bytes[i]) and nothing else of L1, L2 and L3. */
void net_trace_kernel_begin(uint32_t count, void *const blocks[], const uint32_t bytes[]);
void net_trace_kernel_end(void);
#else
static inline void net_trace_kernel_begin(uint32_t count, void *const blocks[], const uint32_t bytes[])
{
    (void)count;
    (void)blocks;
    (void)bytes;
}
static inline void net_trace_kernel_end(void) {}
#endif

#endif
