/* What a test driver may ask of the host HAL: its settings and its counters. Emitted code never includes this. */
#ifndef HAL_HOST_H
#define HAL_HOST_H

#include <stdint.h>

/* When the data of an asynchronous transfer moves. A correct program computes the same bits in every mode. */
typedef enum {
    HAL_DMA_EAGER, /* when it is issued */
    HAL_DMA_LAZY,  /* when it is waited for: a missing or late wait reads old data */
    HAL_DMA_RANDOM /* at issue, at wait or at some HAL call of worker 0 between, by a seeded generator */
} hal_dma_mode_t;

typedef struct {
    hal_dma_mode_t dma;
    uint64_t seed;                                  /* of HAL_DMA_RANDOM */
    uint32_t l1_capacity, l2_capacity, l3_capacity; /* bytes; 0: the NET_Lx_CAPACITY the HAL was compiled with */
    uint32_t barrier_seconds;                       /* a barrier that takes longer is a dead-lock; 0: 20 */
} hal_host_config_t;

/* Settings of the whole run; to be called before any other HAL function. */
void hal_host_configure(const hal_host_config_t *config);

/* Counts since the start or the last reset; the peaks are of allocated bytes and are never reset. */
typedef struct {
    uint64_t l3_to_l2_bytes, l2_to_l3_bytes; /* asynchronous, worker 0 */
    uint64_t l2_to_l1_bytes, l1_to_l2_bytes;
    uint64_t table_bytes; /* constants of the program that were copied to L1 */
    uint64_t fc_l3_read_bytes, fc_l3_write_bytes; /* blocking, fabric controller */
    uint64_t dma_commands, ram_transfers, max_in_flight;
    uint64_t barriers, forks;
    uint64_t kernels, overlapped_kernels; /* overlapped: at least one transfer was in flight when it ended */
    uint64_t l1_peak_bytes, l2_peak_bytes, l3_peak_bytes;
} hal_host_counters_t;

const hal_host_counters_t *hal_host_counters(void);
void hal_host_reset_counters(void);

/* One `key value` line per counter on stdout. */
void hal_host_print_counters(void);

#endif
