/* Shared by the files of the host HAL; not for emitted code and not for drivers. */
#ifndef HAL_INTERNAL_H
#define HAL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hal_host.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAL_ASAN 1
#endif
#endif
#ifndef HAL_ASAN
#define HAL_ASAN 0
#endif

#define HAL_MISUSE_STATUS 70

typedef enum { HAL_FC, HAL_CONTROLLER, HAL_WORKER } hal_role_t;
typedef enum { HAL_L1, HAL_L2, HAL_L3, HAL_LEVELS } hal_level_t;

extern hal_host_config_t hal_config;
extern hal_host_counters_t hal_counters;

/* ---- pmsis_host.c ---- */

/* One line on stderr that names the calling core, then exit status 70. */
_Noreturn void hal_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
hal_role_t hal_role(void);
bool hal_cluster_is_open(void);
void hal_require_fc(const char *function);
void hal_require_worker0(const char *function);

/* ---- memory_host.c ---- */

/* Address in the host's memory of bytes [address, address + size) of L3; fails when they are not in one chunk. */
uint8_t *hal_l3_bytes(const char *function, uint32_t address, uint64_t size);
/* Fails unless [data, data + size) lies in one live chunk of the level. */
void hal_require_chunk(const char *function, hal_level_t level, const void *data, uint64_t size);
bool hal_in_level(hal_level_t level, const void *data);
/* Fails when [data, data + size) is in L1 or L3, or outside of a chunk of L2. */
void hal_require_program_memory(const char *function, const void *data, uint32_t size);
uint64_t hal_live_bytes(hal_level_t level);
/* Copies whatever AddressSanitizer thinks of the memory: the DMA is no kernel. */
void hal_copy(uint8_t *destination, const uint8_t *source, size_t size);
/* Under AddressSanitizer: nothing of L1 and L2 may be touched / all live chunks may. Otherwise nothing. */
void hal_poison_all(void);
void hal_unpoison_live(void);
void hal_unpoison(const void *data, size_t size);

/* ---- transfer_host.c ---- */

uint32_t hal_in_flight(void);
/* At every HAL call of worker 0, for barriers once all have come: transfers of the random mode may move here. */
void hal_progress(void);
void hal_require_nothing_in_flight(const char *where);
/* Whether a DMA command in flight writes to bytes of L1. */
bool hal_loads_into(const void *data, uint32_t size);

/* ---- trace_host.c ---- */

bool hal_kernel_is_running(void);
/* Whether a kernel is running that was given some of these bytes of L1. */
bool hal_kernel_uses(const void *data, uint32_t size);

#endif
