/* Memories of the host HAL: L1, L2 and L3 as blocks of the host's memory with a first-fit allocator each.
 *
 * L3 is private: outside this HAL it is reachable through 32-bit addresses only. Under AddressSanitizer everything
 * that is not in a live chunk is poisoned, and L3 always is.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hal_internal.h"
#include "pmsis.h"

#if HAL_ASAN
#include <sanitizer/asan_interface.h>
#endif

#ifndef NET_L1_CAPACITY
#define NET_L1_CAPACITY (128 * 1024)
#endif
#ifndef NET_L2_CAPACITY
#define NET_L2_CAPACITY (1536 * 1024)
#endif
#ifndef NET_L3_CAPACITY
#define NET_L3_CAPACITY (32 * 1024 * 1024)
#endif

#define MAX_CHUNKS 256
#define ALIGNMENT 8      /* granularity of AddressSanitizer; PMSIS promises 4 */
#define L3_BASE 0x1000u  /* so that address 0 is never valid */
#define FILL 0xFFC0DEADu /* a NaN */

typedef struct {
    uint32_t offset, size;
} chunk_t;

typedef struct {
    uint8_t *base; /* NULL until first used */
    uint32_t capacity, used, count;
    chunk_t chunks[MAX_CHUNKS]; /* live ones, by offset */
} arena_t;

static arena_t arenas[HAL_LEVELS];
static bool ram_is_open;
static const char *const level_names[HAL_LEVELS] = {"L1", "L2", "L3"};

#if HAL_ASAN
/* Byte by byte through volatile: the compiler must not make a call of the checked memcpy of it. */
__attribute__((no_sanitize("address"))) void hal_copy(uint8_t *destination, const uint8_t *source, size_t size)
{
    volatile uint8_t *to = destination;
    const volatile uint8_t *from = source;
    for (size_t i = 0; i < size; i++)
        to[i] = from[i];
}

static void poison(const void *data, size_t size) { __asan_poison_memory_region(data, size); }

void hal_unpoison(const void *data, size_t size) { __asan_unpoison_memory_region(data, size); }
#else
void hal_copy(uint8_t *destination, const uint8_t *source, size_t size) { memcpy(destination, source, size); }

static void poison(const void *data, size_t size)
{
    (void)data;
    (void)size;
}

void hal_unpoison(const void *data, size_t size)
{
    (void)data;
    (void)size;
}
#endif

void hal_poison_all(void)
{
    for (int level = HAL_L1; level <= HAL_L2; level++)
        if (arenas[level].base)
            poison(arenas[level].base, arenas[level].capacity);
}

void hal_unpoison_live(void)
{
    for (int level = HAL_L1; level <= HAL_L2; level++)
        for (uint32_t i = 0; i < arenas[level].count; i++)
            hal_unpoison(arenas[level].base + arenas[level].chunks[i].offset, arenas[level].chunks[i].size);
}

static arena_t *arena_of(hal_level_t level)
{
    arena_t *arena = &arenas[level];
    if (arena->base)
        return arena;
    static const uint32_t compiled[HAL_LEVELS] = {NET_L1_CAPACITY, NET_L2_CAPACITY, NET_L3_CAPACITY};
    const uint32_t given[HAL_LEVELS] = {hal_config.l1_capacity, hal_config.l2_capacity, hal_config.l3_capacity};
    arena->capacity = given[level] ? given[level] : compiled[level];
    void *memory = NULL;
    if (posix_memalign(&memory, 64, arena->capacity ? arena->capacity : 64))
        hal_fail("the host has no %u bytes for %s", (unsigned)arena->capacity, level_names[level]);
    arena->base = memory;
    poison(arena->base, arena->capacity);
    return arena;
}

uint64_t hal_live_bytes(hal_level_t level) { return arenas[level].used; }

/* Offset of the new chunk, or -1 when no gap is large enough. */
static int64_t allocate(hal_level_t level, uint64_t size)
{
    arena_t *arena = arena_of(level);
    if (size == 0 || size > arena->capacity)
        return -1;
    if (arena->count == MAX_CHUNKS)
        hal_fail("more than %d chunks of %s", MAX_CHUNKS, level_names[level]);
    uint64_t offset = 0;
    uint32_t index = 0;
    while (index < arena->count && offset + size > arena->chunks[index].offset) {
        offset = (uint64_t)arena->chunks[index].offset + arena->chunks[index].size;
        offset = (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        index++;
    }
    if (offset + size > arena->capacity)
        return -1;
    memmove(&arena->chunks[index + 1], &arena->chunks[index], (arena->count - index) * sizeof(chunk_t));
    arena->chunks[index] = (chunk_t){(uint32_t)offset, (uint32_t)size};
    arena->count++;
    arena->used += (uint32_t)size;
    uint64_t *const peaks[HAL_LEVELS] = {&hal_counters.l1_peak_bytes, &hal_counters.l2_peak_bytes,
                                         &hal_counters.l3_peak_bytes};
    if (arena->used > *peaks[level])
        *peaks[level] = arena->used;
    static const uint32_t fill = FILL;
    for (uint64_t i = 0; i < size; i += sizeof fill)
        hal_copy(arena->base + offset + i, (const uint8_t *)&fill, size - i < sizeof fill ? size - i : sizeof fill);
    if (level != HAL_L3)
        hal_unpoison(arena->base + offset, size);
    return (int64_t)offset;
}

static void release(const char *function, hal_level_t level, uint64_t offset, uint64_t size)
{
    arena_t *arena = &arenas[level];
    for (uint32_t i = 0; i < arena->count; i++) {
        if (arena->chunks[i].offset != offset)
            continue;
        if (arena->chunks[i].size != size)
            hal_fail("%s: chunk of %u bytes freed as %llu bytes", function, (unsigned)arena->chunks[i].size,
                     (unsigned long long)size);
        poison(arena->base + offset, size);
        memmove(&arena->chunks[i], &arena->chunks[i + 1], (arena->count - i - 1) * sizeof(chunk_t));
        arena->count--;
        arena->used -= (uint32_t)size;
        return;
    }
    hal_fail("%s: no such chunk in %s", function, level_names[level]);
}

static bool in_arena(const arena_t *arena, const void *data)
{
    uintptr_t base = (uintptr_t)arena->base;
    return arena->base && (uintptr_t)data >= base && (uintptr_t)data - base < arena->capacity;
}

/* Bytes from offset to the end of its live chunk; 0 when it is in none. */
static uint64_t room(const arena_t *arena, uint64_t offset)
{
    for (uint32_t i = 0; i < arena->count; i++)
        if (offset >= arena->chunks[i].offset && offset - arena->chunks[i].offset < arena->chunks[i].size)
            return arena->chunks[i].offset + (uint64_t)arena->chunks[i].size - offset;
    return 0;
}

void hal_require_chunk(const char *function, hal_level_t level, const void *data, uint64_t size)
{
    const arena_t *arena = &arenas[level];
    if (!in_arena(arena, data))
        hal_fail("%s: address is not in %s", function, level_names[level]);
    uint64_t offset = (uint64_t)((uintptr_t)data - (uintptr_t)arena->base);
    if (size > room(arena, offset))
        hal_fail("%s: out of range: bytes %llu to %llu of %s are not in one chunk", function,
                 (unsigned long long)offset, (unsigned long long)(offset + size - 1), level_names[level]);
}

uint8_t *hal_l3_bytes(const char *function, uint32_t address, uint64_t size)
{
    const arena_t *arena = &arenas[HAL_L3];
    if (!ram_is_open)
        hal_fail("%s: the RAM is not open", function);
    if (address < L3_BASE || size > room(arena, address - L3_BASE))
        hal_fail("%s: out of range: addresses 0x%llx to 0x%llx of L3 are not in one chunk", function,
                 (unsigned long long)address, (unsigned long long)address + size - 1);
    return arena->base + (address - L3_BASE);
}

static void *allocate_pointer(hal_level_t level, int64_t size)
{
    int64_t offset = size < 0 ? -1 : allocate(level, (uint64_t)size);
    return offset < 0 ? NULL : arenas[level].base + offset;
}

static void release_pointer(const char *function, hal_level_t level, const void *chunk, int size)
{
    if (!in_arena(&arenas[level], chunk))
        hal_fail("%s: address is not in %s", function, level_names[level]);
    release(function, level, (uint64_t)((uintptr_t)chunk - (uintptr_t)arenas[level].base), (uint64_t)size);
}

void *pi_l2_malloc(int size)
{
    hal_require_fc("pi_l2_malloc");
    return allocate_pointer(HAL_L2, size);
}

void pi_l2_free(void *chunk, int size)
{
    hal_require_fc("pi_l2_free");
    release_pointer("pi_l2_free", HAL_L2, chunk, size);
}

static void require_cluster(const char *function)
{
    if (hal_role() == HAL_WORKER)
        hal_fail("%s: not for workers", function);
    if (!hal_cluster_is_open())
        hal_fail("%s: the cluster is not open", function);
}

void *pi_cl_l1_malloc(struct pi_device *device, uint32_t size)
{
    (void)device;
    require_cluster("pi_cl_l1_malloc");
    return allocate_pointer(HAL_L1, size);
}

void pi_cl_l1_free(struct pi_device *device, void *chunk, int size)
{
    (void)device;
    require_cluster("pi_cl_l1_free");
    release_pointer("pi_cl_l1_free", HAL_L1, chunk, size);
}

void pi_default_ram_conf_init(struct pi_default_ram_conf *conf) { conf->baudrate = 0; }

int pi_ram_open(struct pi_device *device)
{
    (void)device;
    hal_require_fc("pi_ram_open");
    if (ram_is_open)
        return -1;
    ram_is_open = true;
    return 0;
}

void pi_ram_close(struct pi_device *device)
{
    (void)device;
    hal_require_fc("pi_ram_close");
    if (!ram_is_open)
        hal_fail("pi_ram_close: the RAM is not open");
    ram_is_open = false;
}

int pi_ram_alloc(struct pi_device *device, uint32_t *addr, uint32_t size)
{
    (void)device;
    hal_require_fc("pi_ram_alloc");
    if (!ram_is_open)
        hal_fail("pi_ram_alloc: the RAM is not open");
    int64_t offset = allocate(HAL_L3, size);
    if (offset < 0)
        return -1;
    *addr = L3_BASE + (uint32_t)offset;
    return 0;
}

int pi_ram_free(struct pi_device *device, uint32_t addr, uint32_t size)
{
    (void)device;
    hal_require_fc("pi_ram_free");
    release("pi_ram_free", HAL_L3, (uint64_t)addr - L3_BASE, size);
    return 0;
}

bool hal_in_level(hal_level_t level, const void *data) { return in_arena(&arenas[level], data); }

/* What lies in L2 on the chip: an L2 chunk, or memory of the program itself. */
void hal_require_program_memory(const char *function, const void *data, uint32_t size)
{
    if (in_arena(&arenas[HAL_L1], data) || in_arena(&arenas[HAL_L3], data))
        hal_fail("%s: address is not in L2", function);
    if (in_arena(&arenas[HAL_L2], data))
        hal_require_chunk(function, HAL_L2, data, size);
#if HAL_ASAN
    else if (__asan_region_is_poisoned((void *)(uintptr_t)data, size))
        hal_fail("%s: out of range: the buffer is shorter than %u bytes", function, (unsigned)size);
#endif
}

void pi_ram_read(struct pi_device *device, uint32_t pi_ram_addr, void *data, uint32_t size)
{
    (void)device;
    hal_require_fc("pi_ram_read");
    hal_require_program_memory("pi_ram_read", data, size);
    hal_copy(data, hal_l3_bytes("pi_ram_read", pi_ram_addr, size), size);
    hal_counters.fc_l3_read_bytes += size;
}

void pi_ram_write(struct pi_device *device, uint32_t pi_ram_addr, void *data, uint32_t size)
{
    (void)device;
    hal_require_fc("pi_ram_write");
    hal_require_program_memory("pi_ram_write", data, size);
    hal_copy(hal_l3_bytes("pi_ram_write", pi_ram_addr, size), data, size);
    hal_counters.fc_l3_write_bytes += size;
}
