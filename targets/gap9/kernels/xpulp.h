/* Xpulp's hardware loops and post-increment accesses, by encoding: for compilers that do not know them.
 *
 * With NET_XPULP they are instructions; without, plain C that does the same, as on a PC or for the vendor's compiler, which
 * makes these instructions by itself. A hardware loop stands in one asm statement as a whole: a compiler does not see where
 * it jumps back. Its body is of 32-bit instructions and ends `BODY` bytes behind the set-up.
 */
#ifndef NET_XPULP_H
#define NET_XPULP_H

#include <stdint.h>

#if defined(NET_XPULP) && defined(__riscv)
/* Text of a hardware loop: `count` times the instructions that follow, the last of which begins BODY - 4 bytes on. */
#define NET_REPEAT(count, BODY) ".option push\n.option norvc\n.insn i 0x7b, 4, x0, " count ", (" #BODY ") / 2\n"
#define NET_REPEAT_END ".option pop\n"
/* The same around one of those: it ends at least one instruction later. */
#define NET_REPEAT_OUTER(count, BODY) ".option push\n.option norvc\n.insn i 0x7b, 4, x1, " count ", (" #BODY ") / 2\n"
/* Text of loads: from a pointer that then moves, by a constant or by a register; and from a pointer plus a register. */
#define NET_LOAD_NEXT(value, pointer, bytes) ".insn i 0x0b, 2, " value ", " bytes "(" pointer ")\n"
#define NET_LOAD_STEP(value, pointer, step) ".insn r 0x0b, 7, 0x10, " value ", " pointer ", " step "\n"
#define NET_LOAD_AT(value, pointer, offset) ".insn r 0x03, 7, 0x10, " value ", " pointer ", " offset "\n"

/* Text of instructions on named operands: accesses that move their pointer on by a float; d = a op b; d = +-(a * b) +- c. */
#define NET_LOAD(d, from) ".insn i 0x0b, 2, %[" #d "], 4(%[" #from "])\n"
#define NET_STORE(a, to) ".insn s 0x2b, 2, %[" #a "], 4(%[" #to "])\n"
#define NET_OP(op, d, a, b) op " %[" #d "], %[" #a "], %[" #b "]\n"
#define NET_FUSED(op, d, a, b, c) op " %[" #d "], %[" #a "], %[" #b "], %[" #c "]\n"
#define NET_MAX_0(d, a) ".insn r 0x33, 6, 2, %[" #d "], %[" #a "], x0\n" /* of integers */

/* Copies `pairs` pairs of floats; both pointers end behind what was copied. Two cycles a float, and none to jump back. */
static inline void net_copy_pairs(float **to, const float **from, int32_t pairs)
{
    uint32_t a, b;
    if (pairs > 0)
        __asm__ volatile(NET_REPEAT("%4", 16)
                         ".insn i 0x0b, 2, %2, 4(%1)\n"
                         ".insn i 0x0b, 2, %3, 4(%1)\n"
                         ".insn s 0x2b, 2, %2, 4(%0)\n"
                         ".insn s 0x2b, 2, %3, 4(%0)\n" NET_REPEAT_END
                         : "+r"(*to), "+r"(*from), "=&r"(a), "=&r"(b)
                         : "r"(pairs)
                         : "memory");
}

/* `pairs` pairs of zeros; the pointer ends behind them. */
static inline void net_zero_pairs(float **to, int32_t pairs)
{
    if (pairs > 0)
        __asm__ volatile(NET_REPEAT("%1", 8)
                         ".insn s 0x2b, 2, x0, 4(%0)\n"
                         ".insn s 0x2b, 2, x0, 4(%0)\n" NET_REPEAT_END
                         : "+r"(*to)
                         : "r"(pairs)
                         : "memory");
}
#else
static inline void net_copy_pairs(float **to, const float **from, int32_t pairs)
{
    for (; pairs > 0; --pairs, *to += 2, *from += 2) {
        const float a = (*from)[0], b = (*from)[1];
        (*to)[0] = a;
        (*to)[1] = b;
    }
}

static inline void net_zero_pairs(float **to, int32_t pairs)
{
    for (; pairs > 0; --pairs, *to += 2)
        (*to)[0] = (*to)[1] = 0.0f;
}
#endif

#endif
