/* Transfers of the simulator's HAL: MCHAN commands (L2 <-> L1) and HyperRAM transfers through the uDMA (L3 <-> L2).
 *
 * Worker 0 programs both. The HyperBus channel keeps a queue of its own and works through it in order, so a request is
 * its number in that order, and a strided one is a transfer per line.
 */
#include "pmsis.h"

#include "hal_gvsoc.h"

hal_traffic_t hal_traffic __attribute__((section(".l1_data"))); /* where counting costs next to nothing */

/* ---- DMA -------------------------------------------------------------------------------------------------------- */

extern const uint8_t hal_l2_heap[];

static uint32_t command_word(uint32_t size, pi_cl_dma_dir_e dir, uintptr_t ext)
{
    if (size == 0 || size > PI_CL_DMA_MAX_SIZE)
        hal_fail("pi_cl_dma_cmd: %u bytes; 1 to %d are possible", (unsigned)size, PI_CL_DMA_MAX_SIZE);
    if (ext < (uintptr_t)hal_l2_heap)
        hal_traffic.table_bytes += size;
    else if (dir == PI_CL_DMA_DIR_EXT2LOC)
        hal_traffic.l2_to_l1_bytes += size;
    else
        hal_traffic.l1_to_l2_bytes += size;
    ++hal_traffic.dma_commands;
    return size | (dir == PI_CL_DMA_DIR_EXT2LOC ? DMA_TO_L1 : 0) | DMA_INCREMENT | DMA_EVENT;
}

void pi_cl_dma_cmd(uintptr_t ext, uintptr_t loc, uint32_t size, pi_cl_dma_dir_e dir, pi_cl_dma_cmd_t *cmd)
{
    const uint32_t word = command_word(size, dir, ext);
    cmd->id = hal_load(DMA_QUEUE);
    hal_store(DMA_QUEUE, word);
    hal_store(DMA_QUEUE, loc);
    hal_store(DMA_QUEUE, ext);
}

void pi_cl_dma_cmd_2d(uintptr_t ext, uintptr_t loc, uint32_t size, uint32_t stride, uint32_t length,
                      pi_cl_dma_dir_e dir, pi_cl_dma_cmd_t *cmd)
{
    const uint32_t word = command_word(size, dir, ext) | DMA_2D;
    if (length == 0 || length > PI_CL_DMA_MAX_LENGTH)
        hal_fail("pi_cl_dma_cmd_2d: lines of %u bytes; 1 to %d are possible", (unsigned)length, PI_CL_DMA_MAX_LENGTH);
    cmd->id = hal_load(DMA_QUEUE);
    hal_store(DMA_QUEUE, word);
    hal_store(DMA_QUEUE, loc);
    hal_store(DMA_QUEUE, ext);
    hal_store(DMA_QUEUE, length);
    hal_store(DMA_QUEUE, stride);
}

void pi_cl_dma_cmd_wait(pi_cl_dma_cmd_t *cmd)
{
    const uint32_t counter = 1u << cmd->id;
    if (hal_load(DMA_STATUS) & counter) {
        hal_store(EU_MASK, 1u << EVENT_DMA);
        while (hal_load(DMA_STATUS) & counter)
            hal_load_event(EU_WAIT_CLEAR); /* an old event may end it early */
        hal_store(EU_MASK, 1u << EVENT_BARRIER);
    }
    hal_store(DMA_STATUS, counter);
}

/* ---- external RAM ------------------------------------------------------------------------------------------------ */

#define RAM_TRANSFER_BYTES 32768u /* of one transfer: the queue stays short in time */

static uint32_t ram_issued __attribute__((section(".l1_data"))); /* transfers so far */

static uint32_t ram_pending(void)
{
    const uint32_t status = hal_load(HYPER_STATUS), queued = status >> 1 & 0xFF;
    return queued ? queued : status & 1; /* the last one is busy until its chip select is released */
}

static void wait_pending_below(uint32_t limit)
{
    while (ram_pending() >= limit)
        for (volatile int pause = 0; pause < 4; ++pause)
            ;
}

static void ram_transfer(uint32_t ram, uint32_t address, uint32_t bytes, bool to_ram)
{
    while (bytes) {
        const uint32_t part = bytes < RAM_TRANSFER_BYTES ? bytes : RAM_TRANSFER_BYTES;
        wait_pending_below(HYPER_QUEUE);
        hal_store(HYPER_SETUP, to_ram ? HYPER_SETUP_WRITE : HYPER_SETUP_READ);
        hal_store(HYPER_RAM_ADDRESS, ram);
        hal_store(to_ram ? HYPER_TX_ADDRESS : HYPER_RX_ADDRESS, address);
        hal_store(to_ram ? HYPER_TX_SIZE : HYPER_RX_SIZE, part);
        hal_store(to_ram ? HYPER_TX_CONFIG : HYPER_RX_CONFIG, HYPER_START);
        ++ram_issued;
        ram += part;
        address += part;
        bytes -= part;
    }
}

static void request(uint32_t ram, void *addr, uint32_t size, uint32_t stride, uint32_t length, bool to_ram, pi_cl_ram_req_t *req)
{
    if (to_ram)
        hal_traffic.l2_to_l3_bytes += size;
    else
        hal_traffic.l3_to_l2_bytes += size;
    for (uint32_t done = 0; done < size; done += length, ram += stride, ++hal_traffic.ram_transfers)
        ram_transfer(ram, (uint32_t)(uintptr_t)addr + done, length < size - done ? length : size - done, to_ram);
    req->id = ram_issued;
}

static void wait_request(const pi_cl_ram_req_t *req)
{
    wait_pending_below(ram_issued - req->id + 1);
}

void pi_default_ram_conf_init(struct pi_default_ram_conf *conf) { *conf = (struct pi_default_ram_conf){0}; }

int pi_ram_open(struct pi_device *device)
{
    (void)device;
    hal_store(UDMA_CLOCK_GATES, 0xFFFFFFFFu);
    hal_store(HYPER_PAGE_BOUND, 4);
    hal_store(HYPER_CHIP_SELECT, 0);
    return 0;
}

void pi_ram_close(struct pi_device *device) { (void)device; }

void pi_ram_read(struct pi_device *device, uint32_t pi_ram_addr, void *data, uint32_t size)
{
    (void)device;
    ram_transfer(pi_ram_addr, (uint32_t)(uintptr_t)data, size, false);
    wait_pending_below(1);
}

void pi_ram_write(struct pi_device *device, uint32_t pi_ram_addr, void *data, uint32_t size)
{
    (void)device;
    ram_transfer(pi_ram_addr, (uint32_t)(uintptr_t)data, size, true);
    wait_pending_below(1);
}

void pi_cl_ram_read(struct pi_device *device, uint32_t pi_ram_addr, void *addr, uint32_t size, pi_cl_ram_req_t *req)
{
    (void)device;
    request(pi_ram_addr, addr, size, 0, size, false, req);
}

void pi_cl_ram_write(struct pi_device *device, uint32_t pi_ram_addr, void *addr, uint32_t size, pi_cl_ram_req_t *req)
{
    (void)device;
    request(pi_ram_addr, addr, size, 0, size, true, req);
}

void pi_cl_ram_read_2d(struct pi_device *device, uint32_t pi_ram_addr, void *addr, uint32_t size, uint32_t stride,
                       uint32_t length, pi_cl_ram_req_t *req)
{
    (void)device;
    request(pi_ram_addr, addr, size, stride, length, false, req);
}

void pi_cl_ram_write_2d(struct pi_device *device, uint32_t pi_ram_addr, void *addr, uint32_t size, uint32_t stride,
                        uint32_t length, pi_cl_ram_req_t *req)
{
    (void)device;
    request(pi_ram_addr, addr, size, stride, length, true, req);
}

void pi_cl_ram_read_wait(pi_cl_ram_req_t *req) { wait_request(req); }

void pi_cl_ram_write_wait(pi_cl_ram_req_t *req) { wait_request(req); }
