/* Asynchronous transfers of the host HAL: DMA commands (L2 <-> L1) and RAM requests (L3 <-> L2).
 *
 * A transfer is a row of a table from issue to wait; its data moves at a time that the mode decides. Only worker 0
 * comes here, or the last worker in a barrier while all others wait, so the table needs no lock. Copies at issue and at
 * wait are ordinary accesses of worker 0: ThreadSanitizer sees a kernel that reads a tile without a barrier between.
 *
 * Transfers in flight move in any order. So none may write what another one reads or writes, or what the kernel that runs
 * uses, and what one reads must not change before it is moved.
 */
#include "hal_internal.h"
#include "pmsis.h"

typedef enum { AT_ISSUE, AT_WAIT, BETWEEN } moment_t;

typedef struct {
    const void *descriptor; /* the caller's; NULL: free row */
    uint8_t *line, *block;  /* strided and contiguous end */
    uint32_t size, stride, length;
    uint64_t sum; /* of what is to be moved */
    bool to_block; /* direction */
    bool is_dma;
    bool moved;
    moment_t moment;
} transfer_t;

#define MAX_IN_FLIGHT (PI_CL_DMA_MAX_IN_FLIGHT + PI_CL_RAM_MAX_IN_FLIGHT)

static transfer_t transfers[MAX_IN_FLIGHT];
static uint32_t in_flight[2]; /* RAM requests, DMA commands */
static uint64_t random_state;

static uint32_t random_below(uint32_t bound)
{
    if (!random_state)
        random_state = hal_config.seed * 2 + 0x9E3779B97F4A7C15u; /* odd: xorshift must not start at 0 */
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % bound;
}

uint32_t hal_in_flight(void) { return in_flight[0] + in_flight[1]; }

/* One end of a transfer: lines of `length` bytes, `stride` apart. */
typedef struct {
    const uint8_t *base;
    uint32_t size, stride, length;
    bool written;
} end_t;

static end_t strided_end(const transfer_t *t)
{
    return (end_t){t->line, t->size, t->stride, t->length, !t->to_block};
}

static end_t contiguous_end(const transfer_t *t) { return (end_t){t->block, t->size, t->size, t->size, t->to_block}; }

/* Whether two ends share a byte. */
static bool meet(end_t a, end_t b)
{
    for (uint32_t i = 0; i < a.size; i += a.length)
        for (uint32_t j = 0; j < b.size; j += b.length) {
            const uintptr_t from_a = (uintptr_t)a.base + (uintptr_t)(i / a.length) * a.stride;
            const uintptr_t from_b = (uintptr_t)b.base + (uintptr_t)(j / b.length) * b.stride;
            if (from_a < from_b + b.length && from_b < from_a + a.length)
                return true;
        }
    return false;
}

/* Whether one of two transfers writes what the other one touches. */
static bool disturb(const transfer_t *a, const transfer_t *b)
{
    const end_t of_a[] = {strided_end(a), contiguous_end(a)}, of_b[] = {strided_end(b), contiguous_end(b)};
    for (int i = 0; i < 4; i++)
        if ((of_a[i / 2].written || of_b[i % 2].written) && meet(of_a[i / 2], of_b[i % 2]))
            return true;
    return false;
}

/* Of what a transfer reads (FNV-1a), whatever AddressSanitizer thinks of that memory. */
#if HAL_ASAN
__attribute__((no_sanitize("address")))
#endif
static uint64_t sum_of(const transfer_t *transfer)
{
    const end_t end = transfer->to_block ? strided_end(transfer) : contiguous_end(transfer);
    uint64_t sum = 0xCBF29CE484222325u;
    for (uint32_t i = 0; i < end.size; i++)
        sum = (sum ^ end.base[(uintptr_t)(i / end.length) * end.stride + i % end.length]) * 0x100000001B3u;
    return sum;
}

bool hal_loads_into(const void *data, uint32_t size)
{
    const end_t block = {data, size, size, size, false};
    for (uint32_t i = 0; i < MAX_IN_FLIGHT; i++)
        if (size && transfers[i].descriptor && transfers[i].is_dma && transfers[i].to_block &&
            meet(contiguous_end(&transfers[i]), block))
            return true;
    return false;
}

static void move(transfer_t *transfer)
{
    if (transfer->moment != AT_ISSUE && sum_of(transfer) != transfer->sum)
        hal_fail("a transfer's source changed before it was waited for");
    uint8_t *line = transfer->line, *block = transfer->block;
    for (uint32_t left = transfer->size; left;) {
        uint32_t bytes = left < transfer->length ? left : transfer->length;
        if (transfer->to_block)
            hal_copy(block, line, bytes);
        else
            hal_copy(line, block, bytes);
        line += transfer->stride;
        block += bytes;
        left -= bytes;
    }
    transfer->moved = true;
}

void hal_progress(void)
{
    if (hal_config.dma != HAL_DMA_RANDOM || !hal_in_flight())
        return;
    for (uint32_t i = 0; i < MAX_IN_FLIGHT; i++)
        if (transfers[i].descriptor && !transfers[i].moved && transfers[i].moment == BETWEEN && random_below(3) == 0)
            move(&transfers[i]);
}

void hal_require_nothing_in_flight(const char *where)
{
    if (hal_in_flight())
        hal_fail("%s with %u transfers still in flight", where, (unsigned)hal_in_flight());
}

static transfer_t *find(const void *descriptor, bool is_dma)
{
    for (uint32_t i = 0; i < MAX_IN_FLIGHT; i++)
        if (transfers[i].descriptor == descriptor && transfers[i].is_dma == is_dma)
            return &transfers[i];
    return NULL;
}

/* Bytes that the strided end spans. */
static uint64_t extent(uint32_t size, uint32_t stride, uint32_t length)
{
    uint32_t full = (size - 1) / length;
    return (uint64_t)full * stride + (size - full * length);
}

static void require_shape(const char *function, uint32_t size, uint32_t stride, uint32_t length)
{
    if (size == 0 || length == 0)
        hal_fail("%s: transfer of 0 bytes", function);
    if (length < size && stride < length)
        hal_fail("%s: lines of %u bytes overlap at a stride of %u", function, (unsigned)length, (unsigned)stride);
}

static void issue(const char *function, transfer_t request)
{
    for (uint32_t i = 0; i < MAX_IN_FLIGHT; i++)
        if (transfers[i].descriptor == request.descriptor)
            hal_fail("%s: descriptor reissued while its transfer is in flight", function);
    hal_progress();
    uint32_t index = MAX_IN_FLIGHT;
    for (uint32_t i = MAX_IN_FLIGHT; i-- > 0;)
        if (!transfers[i].descriptor)
            index = i;
        else if (disturb(&transfers[i], &request))
            hal_fail("%s: writes what another transfer in flight reads or writes, or reads what it writes", function);
    request.moment = hal_config.dma == HAL_DMA_EAGER  ? AT_ISSUE
                     : hal_config.dma == HAL_DMA_LAZY ? AT_WAIT
                                                      : (moment_t)random_below(3);
    request.sum = request.moment == AT_ISSUE ? 0 : sum_of(&request);
    transfers[index] = request;
    in_flight[request.is_dma]++;
    if (hal_in_flight() > hal_counters.max_in_flight)
        hal_counters.max_in_flight = hal_in_flight();
    if (request.moment == AT_ISSUE)
        move(&transfers[index]);
}

static void wait_for(const char *function, const void *descriptor, bool is_dma)
{
    hal_require_worker0(function);
    transfer_t *transfer = descriptor ? find(descriptor, is_dma) : NULL;
    if (!transfer)
        hal_fail("%s: nothing was issued with this descriptor, or it was waited for already", function);
    if (!transfer->moved)
        move(transfer);
    transfer->descriptor = NULL;
    in_flight[is_dma]--;
    hal_progress();
}

static void issue_dma(const char *function, uintptr_t ext, uintptr_t loc, uint32_t size, uint32_t stride,
                      uint32_t length, pi_cl_dma_dir_e dir, pi_cl_dma_cmd_t *cmd)
{
    hal_require_worker0(function);
    require_shape(function, size, stride, length);
    if (size > PI_CL_DMA_MAX_SIZE)
        hal_fail("%s: transfer of %u bytes; one command moves at most %d", function, (unsigned)size,
                 PI_CL_DMA_MAX_SIZE);
    if (length < size && length > PI_CL_DMA_MAX_LENGTH)
        hal_fail("%s: line of %u bytes; one command has lines of at most %d", function, (unsigned)length,
                 PI_CL_DMA_MAX_LENGTH);
    if (in_flight[true] == PI_CL_DMA_MAX_IN_FLIGHT)
        hal_fail("%s: more than %d DMA commands in flight: the chip has no more identifiers and would hang", function,
                 PI_CL_DMA_MAX_IN_FLIGHT);
    uint8_t *line = (uint8_t *)ext, *block = (uint8_t *)loc;
    bool to_block = dir == PI_CL_DMA_DIR_EXT2LOC;
    bool table = to_block && !hal_in_level(HAL_L2, line);
    if (table) /* constants of the program, which lie in L2 on the chip */
        hal_require_program_memory(function, line, size);
    else
        hal_require_chunk(function, HAL_L2, line, extent(size, stride, length));
    hal_require_chunk(function, HAL_L1, block, size);
    if (!table && hal_kernel_uses(block, size))
        hal_fail("%s: moves what the running kernel uses", function);
    issue(function, (transfer_t){.descriptor = cmd, .line = line, .block = block, .size = size, .stride = stride,
                                 .length = length, .to_block = to_block, .is_dma = true});
    hal_counters.dma_commands++;
    *(table ? &hal_counters.table_bytes : to_block ? &hal_counters.l2_to_l1_bytes : &hal_counters.l1_to_l2_bytes) += size;
}

void pi_cl_dma_cmd(uintptr_t ext, uintptr_t loc, uint32_t size, pi_cl_dma_dir_e dir, pi_cl_dma_cmd_t *cmd)
{
    issue_dma("pi_cl_dma_cmd", ext, loc, size, size, size, dir, cmd);
}

void pi_cl_dma_cmd_2d(uintptr_t ext, uintptr_t loc, uint32_t size, uint32_t stride, uint32_t length,
                      pi_cl_dma_dir_e dir, pi_cl_dma_cmd_t *cmd)
{
    issue_dma("pi_cl_dma_cmd_2d", ext, loc, size, stride, length, dir, cmd);
}

void pi_cl_dma_cmd_wait(pi_cl_dma_cmd_t *cmd) { wait_for("pi_cl_dma_cmd_wait", cmd, true); }

static void issue_ram(const char *function, uint32_t address, void *addr, uint32_t size, uint32_t stride,
                      uint32_t length, bool read, pi_cl_ram_req_t *req)
{
    hal_require_worker0(function);
    require_shape(function, size, stride, length);
    if (in_flight[false] == PI_CL_RAM_MAX_IN_FLIGHT)
        hal_fail("%s: more than %d RAM requests in flight", function, PI_CL_RAM_MAX_IN_FLIGHT);
    uint8_t *line = hal_l3_bytes(function, address, extent(size, stride, length));
    hal_require_chunk(function, HAL_L2, addr, size);
    issue(function, (transfer_t){.descriptor = req, .line = line, .block = addr, .size = size, .stride = stride,
                                 .length = length, .to_block = read, .is_dma = false});
    hal_counters.ram_transfers += (size + length - 1) / length; /* the RAM takes an address for each line */
    *(read ? &hal_counters.l3_to_l2_bytes : &hal_counters.l2_to_l3_bytes) += size;
}

void pi_cl_ram_read(struct pi_device *device, uint32_t pi_ram_addr, void *addr, uint32_t size, pi_cl_ram_req_t *req)
{
    (void)device;
    issue_ram("pi_cl_ram_read", pi_ram_addr, addr, size, size, size, true, req);
}

void pi_cl_ram_write(struct pi_device *device, uint32_t pi_ram_addr, void *addr, uint32_t size, pi_cl_ram_req_t *req)
{
    (void)device;
    issue_ram("pi_cl_ram_write", pi_ram_addr, addr, size, size, size, false, req);
}

void pi_cl_ram_read_2d(struct pi_device *device, uint32_t pi_ram_addr, void *addr, uint32_t size, uint32_t stride,
                       uint32_t length, pi_cl_ram_req_t *req)
{
    (void)device;
    issue_ram("pi_cl_ram_read_2d", pi_ram_addr, addr, size, stride, length, true, req);
}

void pi_cl_ram_write_2d(struct pi_device *device, uint32_t pi_ram_addr, void *addr, uint32_t size, uint32_t stride,
                        uint32_t length, pi_cl_ram_req_t *req)
{
    (void)device;
    issue_ram("pi_cl_ram_write_2d", pi_ram_addr, addr, size, stride, length, false, req);
}

void pi_cl_ram_read_wait(pi_cl_ram_req_t *req) { wait_for("pi_cl_ram_read_wait", req, false); }

void pi_cl_ram_write_wait(pi_cl_ram_req_t *req) { wait_for("pi_cl_ram_write_wait", req, false); }
