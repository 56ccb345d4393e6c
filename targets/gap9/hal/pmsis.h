/* The subset of PMSIS that emitted code uses, as the engines host (a PC) and gvsoc (a simulated cluster) implement it.
 *
 * Names and argument order are those of the vendor's SDK, so emitted C compiles unchanged for a board. One difference:
 * `ext` and `loc` of DMA commands are uint32_t there and uintptr_t here; callers cast with (uintptr_t), which is right
 * for both.
 *
 * Who may call what (misuse ends the program with one line on stderr and exit status 70):
 *
 *   fabric controller (FC)   pi_l2_*, pi_cl_l1_*, pi_cluster_*, pi_ram_* (blocking), pi_open_from_conf
 *   cluster controller       pi_cl_l1_*, pi_cl_team_fork; runs the task that pi_cluster_send_task_to_cl sent and is
 *                            blocked in the join while its team works
 *   worker 0                 pi_cl_dma_*, pi_cl_ram_*: *all* DMA and L3 traffic; net_trace_*
 *   every worker             pi_core_id, pi_cl_team_barrier, pi_cl_team_critical_*
 *
 * Transfers are asynchronous. Each command or request needs its own descriptor, alive and untouched until it is waited
 * for, exactly once. A team must not end with a transfer in flight. The DMA has 16 transfer identifiers and each
 * command holds one until it is waited for: at most PI_CL_DMA_MAX_IN_FLIGHT commands may be in flight (on the chip one
 * more never returns).
 */
#ifndef PMSIS_H
#define PMSIS_H

#include <stdint.h>
#include <stddef.h>

#define PI_CL_DMA_MAX_IN_FLIGHT 16
#define PI_CL_DMA_MAX_SIZE 131071  /* bytes of one command: the length field has 17 bits */
#define PI_CL_DMA_MAX_LENGTH 65535 /* bytes of one line of a 2-D command: 16 bits */
#define PI_CL_RAM_MAX_IN_FLIGHT 64 /* of this HAL; the SDK queues requests without limit */
#define PI_CL_TEAM_MAX 16

/* ---- devices ------------------------------------------------------------------------------------------------- */

struct pi_device {
    void *config;
};

typedef struct pi_device pi_device_t;

/* Binds a configuration to a device before it is opened. */
void pi_open_from_conf(struct pi_device *device, void *conf);

/* ---- memory (FC; L1 also the cluster controller) ----------------------------------------------------------------
 * NULL when the level is full. New memory holds 0xFFC0DEAD words, which are NaNs, so that the use of uninitialised
 * memory shows. A chunk is freed with the size it was allocated with.
 */

void *pi_l2_malloc(int size);
void pi_l2_free(void *chunk, int size);

/* Only while the cluster is open. */
void *pi_cl_l1_malloc(struct pi_device *device, uint32_t size);
void pi_cl_l1_free(struct pi_device *device, void *chunk, int size);

/* ---- cluster ------------------------------------------------------------------------------------------------- */

struct pi_cluster_conf {
    uint32_t cc_stack_size; /* of the cluster controller, bytes */
    uint8_t id;
};

struct pi_cluster_task {
    void (*entry)(void *);
    void *arg;
    void *stacks;
    uint32_t stack_size;       /* of the controller, bytes; 0: default */
    uint32_t slave_stack_size; /* of a worker, bytes; 0: default */
    int nb_cores;
};

void pi_cluster_conf_init(struct pi_cluster_conf *conf);
int pi_cluster_open(struct pi_device *device);  /* 0, or -1 */
int pi_cluster_close(struct pi_device *device); /* all L1 chunks must be free */

/* Prepares a task; to be called again before every send. */
struct pi_cluster_task *pi_cluster_task(struct pi_cluster_task *task, void (*entry)(void *), void *arg);

/* Runs the task on the cluster controller and returns when it has ended; 0, or -1. */
int pi_cluster_send_task_to_cl(struct pi_device *device, struct pi_cluster_task *task);

/* ---- team ---------------------------------------------------------------------------------------------------- */

/* entry(arg) on workers 0 .. nb_cores-1; the calling cluster controller is blocked until all have returned. */
void pi_cl_team_fork(int nb_cores, void (*entry)(void *), void *arg);

/* All workers of the team, equally often. */
void pi_cl_team_barrier(void);

/* Between the two there is one worker at a time. Others wait awake, and none may come to a barrier inside: for a few
 * instructions.
 */
void pi_cl_team_critical_enter(void);
void pi_cl_team_critical_exit(void);

/* Index in the team of the calling worker. Elsewhere PI_CL_TEAM_MAX: no core that computes. */
uint32_t pi_core_id(void);

/* ---- DMA between L2 ("ext") and L1 ("loc"); worker 0 --------------------------------------------------------------
 * The 2-D form walks `ext` in lines of `length` bytes, `stride` bytes from start to start; `loc` is contiguous. `size`
 * is the total.
 */

typedef enum { PI_CL_DMA_DIR_LOC2EXT = 0, PI_CL_DMA_DIR_EXT2LOC = 1 } pi_cl_dma_dir_e;

typedef struct {
    uint32_t id;
} pi_cl_dma_cmd_t;

void pi_cl_dma_cmd(uintptr_t ext, uintptr_t loc, uint32_t size, pi_cl_dma_dir_e dir, pi_cl_dma_cmd_t *cmd);
void pi_cl_dma_cmd_2d(uintptr_t ext, uintptr_t loc, uint32_t size, uint32_t stride, uint32_t length,
                      pi_cl_dma_dir_e dir, pi_cl_dma_cmd_t *cmd);
void pi_cl_dma_cmd_wait(pi_cl_dma_cmd_t *cmd);

/* ---- external RAM (L3): 32-bit addresses, never pointers --------------------------------------------------------- */

struct pi_default_ram_conf {
    uint32_t baudrate;
};

void pi_default_ram_conf_init(struct pi_default_ram_conf *conf);
int pi_ram_open(struct pi_device *device); /* 0, or -1 */
void pi_ram_close(struct pi_device *device);
int pi_ram_alloc(struct pi_device *device, uint32_t *addr, uint32_t size); /* 0, or -1 when full */
int pi_ram_free(struct pi_device *device, uint32_t addr, uint32_t size);

/* FC, blocking. `data` is an L2 chunk or, as static data lives in L2 on the chip, any memory of the program but L1. */
void pi_ram_read(struct pi_device *device, uint32_t pi_ram_addr, void *data, uint32_t size);
void pi_ram_write(struct pi_device *device, uint32_t pi_ram_addr, void *data, uint32_t size);

/* Worker 0, asynchronous, between L3 and L2 chunks. The 2-D forms walk the *RAM* in lines; `addr` is contiguous. */
typedef struct {
    uint32_t id;
} pi_cl_ram_req_t;

void pi_cl_ram_read(struct pi_device *device, uint32_t pi_ram_addr, void *addr, uint32_t size, pi_cl_ram_req_t *req);
void pi_cl_ram_write(struct pi_device *device, uint32_t pi_ram_addr, void *addr, uint32_t size, pi_cl_ram_req_t *req);
void pi_cl_ram_read_2d(struct pi_device *device, uint32_t pi_ram_addr, void *addr, uint32_t size, uint32_t stride,
                       uint32_t length, pi_cl_ram_req_t *req);
void pi_cl_ram_write_2d(struct pi_device *device, uint32_t pi_ram_addr, void *addr, uint32_t size, uint32_t stride,
                        uint32_t length, pi_cl_ram_req_t *req);
void pi_cl_ram_read_wait(pi_cl_ram_req_t *req);
void pi_cl_ram_write_wait(pi_cl_ram_req_t *req);

#endif
