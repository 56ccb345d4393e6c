/* Shared by the files of the simulator's HAL, and what a test driver may ask of it. Emitted code never includes this. */
#ifndef HAL_GVSOC_H
#define HAL_GVSOC_H

#include <stdbool.h>
#include <stdint.h>

#include "registers.h"

#define HAL_MISUSE_STATUS 70

/* ---- access ---------------------------------------------------------------------------------------------------- */

static inline void hal_store(uint32_t address, uint32_t value) { *(volatile uint32_t *)address = value; }

static inline uint32_t hal_load(uint32_t address) { return *(volatile uint32_t *)address; }

/* Sleeps until an event of the own mask has come: the event unit answers this load only then (Xpulp p.elw). */
static inline uint32_t hal_load_event(uint32_t address)
{
    uint32_t value;
#ifdef HAL_NATIVE_XPULP /* the vendor's assembler knows the instruction, but may not know .insn */
    __asm__ volatile("p.elw %0, 0(%1)" : "=r"(value) : "r"(address) : "memory");
#else
    __asm__ volatile(".insn i 0x03, 6, %0, 0(%1)" : "=r"(value) : "r"(address) : "memory");
#endif
    return value;
}

static inline uint32_t hal_hart(void)
{
    uint32_t hart;
    __asm__("csrr %0, mhartid" : "=r"(hart));
    return hart;
}

/* Cycles of the calling core's clock, modulo 2^32. */
static inline uint32_t hal_cycles(void)
{
    uint32_t cycles;
    __asm__ volatile("csrr %0, 0xC00" : "=r"(cycles));
    return cycles;
}

/* ---- console_gvsoc.c: the simulator's files and streams, by semihosting -------------------------------------------- */

enum { HAL_STDOUT = 1, HAL_STDERR = 2 };

int hal_file_open(const char *path, bool write);
void hal_file_close(int file);
uint32_t hal_file_size(int file);
int hal_file_seek(int file, uint32_t position); /* 0, or not */
int hal_file_read(int file, void *data, uint32_t bytes);
int hal_file_write(int file, const void *data, uint32_t bytes);

/* Text with %s, %d, %u, %lu, %llu, %x (eight digits) and %%. */
void hal_print(int file, const char *format, __builtin_va_list arguments);

/* Ends the simulation. */
_Noreturn void hal_exit(int status);

/* One line on stderr that names the calling core, then exit status 70. */
_Noreturn void hal_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for who has taken hal_trap_lock, which one core takes once. */
_Noreturn void hal_fail_locked(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern uint32_t hal_trap_lock; /* in L1 */

/* ---- pmsis_gvsoc.c ------------------------------------------------------------------------------------------------ */

/* Cycles of the cluster controller's last task, fork and join included. */
uint32_t hal_task_cycles(void);

/* Simulated cycles after which a task is taken for hung; 0: never. */
void hal_set_task_limit(uint32_t cycles);

/* Fails when the lowest word of a stack is no longer what was painted there. */
void hal_require_whole_stacks(void);

/* `key value` lines of the stacks: the most that was ever used, in bytes. */
void hal_print_stacks(void (*print)(const char *key, uint64_t value));

/* ---- memory_gvsoc.c ----------------------------------------------------------------------------------------------- */

/* Sizes of the levels that the plan was made for; nothing beyond is given out. */
void hal_set_capacities(uint32_t l1, uint32_t l2, uint32_t l3);
void hal_print_memory(void (*print)(const char *key, uint64_t value));

/* ---- transfer_gvsoc.c --------------------------------------------------------------------------------------------- */

typedef struct {
    uint64_t l3_to_l2_bytes, l2_to_l3_bytes, l2_to_l1_bytes, l1_to_l2_bytes;
    uint64_t table_bytes; /* constants of the program that were copied to L1 */
    uint64_t dma_commands, ram_transfers;
} hal_traffic_t;

extern hal_traffic_t hal_traffic; /* of worker 0, since the last reset by whoever reads it */

/* ---- trace_gvsoc.c ------------------------------------------------------------------------------------------------ */

/* What worker 0 counts while kernels run: instructions, and cycles that it loses to loads whose result the next instruction
 * wants, to instruction fetches, to banks of L1 that another core uses, and to the FPU that it shares.
 */
typedef enum {
    HAL_INSTRUCTIONS,
    HAL_LOAD_STALLS,
    HAL_FETCH_STALLS,
    HAL_BANK_STALLS,
    HAL_FPU_STALLS,
    HAL_EVENTS
} hal_event_t;

/* Cycles of one execution of a tile nest. */
typedef struct {
    uint32_t total;  /* from begin to end; 0: it has not run */
    uint32_t kernel; /* between the barriers that start and end kernels: the slowest core's */
    uint32_t wait;   /* for transfers, outside kernels */
    uint32_t events[HAL_EVENTS];
} hal_profile_t;

/* Where to write them; `count` rows. Sums are the reader's, between tasks: here they would take time of their own, as events
 * do, which are counted if they are wanted.
 */
void hal_set_profile(hal_profile_t *rows, uint32_t count, bool events);

#endif
