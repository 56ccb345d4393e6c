/* Memory of the simulator's HAL: one heap per level, behind what the linker has placed there, or in front of it.
 *
 * A heap gives out chunks from its low end; room comes back when the last chunk is freed, or all are.
 */
#include "pmsis.h"

#include "hal_gvsoc.h"

#define ALIGNMENT 8u
#define L3_BYTES (8u << 20) /* of the HyperRAM */

extern uint8_t hal_l1_heap[], hal_l1_end[], hal_l2_heap[], hal_l2_end[];
extern uint8_t hal_worker_stacks[], hal_l1_data[], hal_vectors[]; /* the first bytes of what the linker placed */
extern uint8_t hal_worker_stacks_end[];

#define L1_STATIC ((uint32_t)(hal_worker_stacks_end - hal_l1_data)) /* stacks and data, behind the heap */

typedef struct {
    uint32_t start, end; /* addresses */
    uint32_t next;
    uint32_t live, peak; /* bytes given out, as asked for */
} heap_t;

static heap_t l1, l2, l3;

static heap_t heap_of(uint32_t start, uint32_t end, uint32_t capacity, uint32_t base)
{
    const uint32_t limit = capacity ? base + capacity : end;
    return (heap_t){.start = start, .end = limit < end ? limit : end, .next = start};
}

void hal_set_capacities(uint32_t l1_bytes, uint32_t l2_bytes, uint32_t l3_bytes)
{
    l1 = heap_of((uint32_t)(uintptr_t)hal_l1_heap, (uint32_t)(uintptr_t)hal_l1_end, l1_bytes ? l1_bytes - L1_STATIC : 0, L1_BASE);
    l2 = heap_of((uint32_t)(uintptr_t)hal_l2_heap, (uint32_t)(uintptr_t)hal_l2_end, l2_bytes, (uint32_t)(uintptr_t)hal_vectors);
    l3 = heap_of(0, L3_BYTES, l3_bytes, 0);
}

static int take(heap_t *heap, uint32_t size, uint32_t *address)
{
    const uint32_t bytes = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    if (bytes < size || heap->next > heap->end || bytes > heap->end - heap->next)
        return -1;
    *address = heap->next;
    heap->next += bytes;
    heap->live += size;
    heap->peak = heap->live > heap->peak ? heap->live : heap->peak;
    return 0;
}

static void give(heap_t *heap, uint32_t address, uint32_t size)
{
    heap->live -= size;
    if (heap->live == 0)
        heap->next = heap->start;
    else if (address + ((size + ALIGNMENT - 1) & ~(ALIGNMENT - 1)) == heap->next)
        heap->next = address;
}

static void *pointer_of(heap_t *heap, uint32_t size)
{
    uint32_t address;
    return take(heap, size, &address) ? NULL : (void *)(uintptr_t)address;
}

void *pi_l2_malloc(int size) { return pointer_of(&l2, (uint32_t)size); }

void pi_l2_free(void *chunk, int size) { give(&l2, (uint32_t)(uintptr_t)chunk, (uint32_t)size); }

void *pi_cl_l1_malloc(struct pi_device *device, uint32_t size)
{
    (void)device;
    return pointer_of(&l1, size);
}

void pi_cl_l1_free(struct pi_device *device, void *chunk, int size)
{
    (void)device;
    give(&l1, (uint32_t)(uintptr_t)chunk, (uint32_t)size);
}

int pi_ram_alloc(struct pi_device *device, uint32_t *addr, uint32_t size)
{
    (void)device;
    return take(&l3, size, addr);
}

int pi_ram_free(struct pi_device *device, uint32_t addr, uint32_t size)
{
    (void)device;
    give(&l3, addr, size);
    return 0;
}

void hal_print_memory(void (*print)(const char *key, uint64_t value))
{
    print("l1_peak_bytes", l1.peak);
    print("l2_peak_bytes", l2.peak);
    print("l3_peak_bytes", l3.peak);
    print("l1_static_bytes", L1_STATIC);
    print("l2_static_bytes", (uint32_t)(hal_l2_heap - hal_vectors));
}
