/* Common to all kernels: how loops are unrolled, and how work is shared out.
 *
 * Kernels compute on tiles in L1, all workers together: each is called by every worker with its index and the number of
 * workers, does its own share and returns; barriers are the caller's. Shares are static, and no result depends on the
 * number of workers. Arguments in CAPITALS must be constants: after inlining they specialise the kernel. Strides are in
 * floats.
 */
#ifndef NET_KERNEL_H
#define NET_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* First of `count` tasks that a worker does; those of the next worker start where its own end. Of the two cores that share
 * an FPU, i and i + 4, the second is done a little earlier with the same work (measured on GVSoC): it gets 67 tasks for 61.
 */
NET_KERNEL int32_t net_share(int32_t count, int32_t core, int32_t cores)
{
    const uint32_t tasks = (uint32_t)count;
    if (cores == 8)
        return (int32_t)(tasks * (uint32_t)(core <= 4 ? 61 * core : 67 * core - 24) >> 9);
    return (int32_t)(tasks * (uint32_t)core / (uint32_t)cores);
}

#endif
