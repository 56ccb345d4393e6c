/* Common to all kernels: how loops are unrolled, and how work is shared out.
 *
 * Kernels compute on tiles in L1, all workers together: each is called by every worker with its index and the number of
 * workers, does its share and returns; barriers are the caller's. Shares are static, or tasks that workers claim; no result
 * depends on the number of workers or on who did what. Arguments in CAPITALS must be constants: after inlining they
 * specialise the kernel. Strides are in floats.
 */
#ifndef NET_KERNEL_H
#define NET_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net_claim.h"

#define NET_KERNEL static inline __attribute__((always_inline))

/* Hot code stands alone: inlined into its callers it loses registers to them. */
#define NET_HOT static __attribute__((noinline, unused))

/* A loop that is in registers once it is unrolled, and one that must stay a loop: hot code has to fit 512 bytes. A PC's
 * compiler does as it likes.
 */
#if defined(__clang__) && defined(__riscv)
#define NET_UNROLLED _Pragma("clang loop unroll(full)")
#define NET_ROLLED _Pragma("clang loop unroll(disable)")
#elif defined(__clang__)
#define NET_UNROLLED
#define NET_ROLLED
#else
#define NET_UNROLLED _Pragma("GCC unroll 32")
#define NET_ROLLED _Pragma("GCC unroll 1")
#endif

/* sum += a * b. Two cores share an FPU: one loads while the other multiplies, so that loads want to stand one by one among
 * multiplications, well before their use. On the chip this is an instruction that keeps its place among loads, and the
 * register of its sum: written as C, clang moves loads together, renames sums and moves them back at the loop's end.
 */
#if defined(__riscv_zfinx)
#define net_multiply_add(sum, a, b) __asm__ volatile("fmadd.s %0, %1, %2, %0" : "+r"(sum) : "r"(a), "r"(b))
#define net_multiply_start(sum, start, a, b) \
    __asm__ volatile("fmadd.s %0, %2, %3, %1" : "=r"(sum) : "r"(start), "r"(a), "r"(b)) /* sum = start + a * b */
#else
#define net_multiply_add(sum, a, b) ((sum) += (a) * (b))
#define net_multiply_start(sum, start, a, b) ((sum) = (start) + (a) * (b))
#endif

/* Makes the compiler have the pointer's new value here, and forget how it came to it: else it moves additions together, and
 * keeps each sum of invariants in a register or a frame.
 */
#if defined(__riscv)
#define net_pin(pointer) __asm__ volatile("" : "+r"(pointer))
#else
#define net_pin(pointer) ((void)0)
#endif

/* `pointer` moved by a distance in bytes: distances are kept so, which spares a shift where one is added. net_move does it
 * in place and in its place.
 */
#define net_moved(pointer, bytes) ((__typeof__(pointer))((uintptr_t)(pointer) + (uintptr_t)(bytes)))
#if defined(__riscv)
#define net_move(pointer, bytes) __asm__ volatile("add %0, %0, %1" : "+r"(pointer) : "r"(bytes))
#define net_move_back(pointer, bytes) __asm__ volatile("sub %0, %0, %1" : "+r"(pointer) : "r"(bytes))
#else
#define net_move(pointer, bytes) ((pointer) = net_moved(pointer, bytes))
#define net_move_back(pointer, bytes) ((pointer) = net_moved(pointer, -(bytes)))
#endif

#define net_rarely(condition) __builtin_expect((condition), 0)

/* First of `count` items that a worker does, or that are in a part; those of the next one start where its own end. */
NET_KERNEL int32_t net_share(int32_t count, int32_t core, int32_t cores)
{
    const uint32_t items = (uint32_t)count * (uint32_t)core;
    return (int32_t)(cores == 8 ? items >> 3 : items / (uint32_t)cores); /* a division takes as long as a barrier and more */
}

/* How each of `lines` lines of `items` is cut for tasks: enough of them that all workers end together, but none too short
 * to be worth a claim unless workers would have nothing to do.
 */
typedef struct {
    int32_t parts, part; /* of a line, and the items of one; the last part may have fewer */
} net_cut_t;

#define NET_TASKS 120      /* wanted in all: with more, 8 workers end no closer together */
#define NET_TASKS_LEAST 32 /* if there are as many items */
#define NET_TASK_MACS 4500 /* worth a claim: multiply-accumulates */

NET_KERNEL net_cut_t net_cut(int32_t lines, int32_t items, int32_t item_macs)
{
    if (lines >= NET_TASKS || lines == 0 || items == 0)
        return (net_cut_t){1, items};
    const int32_t wanted = 1 + (NET_TASKS - 1) / lines, least = 1 + (NET_TASKS_LEAST - 1) / lines;
    const int32_t most = items * item_macs / NET_TASK_MACS;
    int32_t parts = wanted < most ? wanted : most;
    parts = parts > least ? parts : least;
    const int32_t part = (items + parts - 1) / parts;
    return (net_cut_t){(items + part - 1) / part, part};
}

/* Tasks of a worker, from `begin` to `end`: first some that are its own, so that nobody waits to claim any, then what it
 * claims of the others.
 */
typedef struct {
    int32_t begin, end;
    int32_t own; /* of all workers together: those come first */
} net_share_t;

NET_KERNEL net_share_t net_share_next(const net_share_t *share, int32_t *claimed, int32_t tasks)
{
    int32_t end;
    const int32_t begin = net_claim_some(claimed, tasks - share->own, &end);
    return (net_share_t){share->own + begin, share->own + end, share->own};
}

/* `each`: tasks of a worker's own, if there are tasks for all. Worker 0 has none: it comes late, when it has moved data. */
NET_KERNEL net_share_t net_share_first(int32_t core, int32_t cores, int32_t *claimed, int32_t tasks, int32_t each)
{
    each = tasks < cores ? 0 : each ? each : 1;
    const net_share_t share = {(core - 1) * each, core * each, (cores - 1) * each};
    return each && core ? share : net_share_next(&share, claimed, tasks);
}

#endif
