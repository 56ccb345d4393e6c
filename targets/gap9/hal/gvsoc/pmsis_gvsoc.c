/* Cores of the simulator's HAL: the fabric controller sends tasks to the cluster controller, which forks teams of workers.
 *
 * FC -> controller: a software event of the event unit. Controller -> FC: an interrupt line, which ends its wfi. A fork is
 * a barrier of all workers and the controller, and so is its join; a team has a barrier of its own.
 */
#include "pmsis.h"

#include "hal_gvsoc.h"

#define TEAM_BARRIER 0
#define FORK_BARRIER 1
#define PAINT 0x5AFE57ACu
#define WATCHDOG_PERIOD 200000 /* cycles between two looks of the FC at a running task */

/* What the cores hand each other. */
typedef struct {
    void (*task)(void *);
    void *task_arg;
    volatile uint32_t task_cycles, task_done;
    void (*entry)(void *);
    void *arg;
    uint32_t size; /* workers of the team */
    volatile uint32_t ready; /* the controller waits for tasks */
} mailbox_t;

static mailbox_t mailbox __attribute__((section(".l1_data")));
static volatile uint32_t critical_section __attribute__((section(".l1_data"))); /* not 0: a worker is in it */
uint32_t hal_trap_lock __attribute__((section(".l1_data")));

static bool cluster_is_running, cluster_is_open;
static uint32_t task_limit;

extern uint32_t hal_worker_stacks[], hal_controller_stack[], hal_controller_stack_top[];
extern uint32_t hal_worker_stacks_end[], hal_fc_stack[], hal_fc_stack_top[];
extern uint8_t hal_worker_stack_bytes[], hal_cores[]; /* addresses that are numbers: see link.ld */
extern const uint8_t hal_vectors[], _start[];

int main(void);

/* ---- stacks ---------------------------------------------------------------------------------------------------- */

static uint32_t *stack_of(uint32_t core)
{
    return core == CONTROLLER_CORE ? hal_controller_stack : hal_worker_stacks + core * (uint32_t)(uintptr_t)hal_worker_stack_bytes / 4;
}

static uint32_t stack_words(uint32_t core)
{
    return core == CONTROLLER_CORE ? (uint32_t)(hal_controller_stack_top - hal_controller_stack)
                                   : (uint32_t)(uintptr_t)hal_worker_stack_bytes / 4;
}

static void paint(uint32_t *from, const uint32_t *to)
{
    while (from < to)
        *from++ = PAINT;
}

static uint32_t used_bytes(const uint32_t *lowest, uint32_t words)
{
    uint32_t untouched = 0;
    while (untouched < words && lowest[untouched] == PAINT)
        ++untouched;
    return 4 * (words - untouched);
}

/* NULL, or the name of the first stack whose lowest word is no longer what was painted there. */
static const char *overflown_stack(void)
{
    static char worker[] = "worker 0";
    for (uint32_t core = 0; core < (uint32_t)(uintptr_t)hal_cores; ++core)
        if (*stack_of(core) != PAINT) {
            worker[7] = (char)('0' + core);
            return worker;
        }
    if (*hal_controller_stack != PAINT)
        return "controller";
    return *hal_fc_stack == PAINT ? NULL : "FC";
}

void hal_require_whole_stacks(void)
{
    const char *const name = overflown_stack();
    if (name)
        hal_fail("stack of %s overflown", name);
}

void hal_print_stacks(void (*print)(const char *key, uint64_t value))
{
    uint32_t worker = 0;
    for (uint32_t core = 0; core < (uint32_t)(uintptr_t)hal_cores; ++core) {
        const uint32_t used = used_bytes(stack_of(core), stack_words(core));
        worker = used > worker ? used : worker;
    }
    print("stack_worker_bytes", worker);
    print("stack_controller_bytes", used_bytes(hal_controller_stack, stack_words(CONTROLLER_CORE)));
    print("stack_fc_bytes", used_bytes(hal_fc_stack, (uint32_t)(hal_fc_stack_top - hal_fc_stack)));
}

/* ---- start and traps -------------------------------------------------------------------------------------------- */

void hal_fc_main(void);
void hal_cluster_main(uint32_t core);
_Noreturn void hal_trap(uint32_t hart, uint32_t pc, uint32_t cause, uint32_t sp, uint32_t ra);

void hal_fc_main(void)
{
    uint32_t here;
    paint(hal_fc_stack, &here - 64);
    hal_exit(main());
}

_Noreturn void hal_trap(uint32_t hart, uint32_t pc, uint32_t cause, uint32_t sp, uint32_t ra)
{
    const char *const stack = overflown_stack();
    hal_fail_locked("trap: %s: cause 0x%x, pc 0x%x, ra 0x%x, sp 0x%x, mhartid 0x%x%s%s",
             "illegal instruction, ecall or unexpected interrupt", cause, pc, ra, sp, hart,
             stack ? "; stack overflown: " : "", stack ? stack : "");
}

/* The workers there are, and the controller. */
static uint32_t all_cores(void) { return ((1u << (uintptr_t)hal_cores) - 1) | 1u << CONTROLLER_CORE; }

static void set_barrier(uint32_t barrier, uint32_t cores)
{
    hal_store(EU_BARRIER(barrier) + EU_BARRIER_TRIGGER_MASK, cores);
    hal_store(EU_BARRIER(barrier) + EU_BARRIER_TARGET_MASK, cores);
}

static void join_or_fork(void) { hal_load_event(EU_BARRIER(FORK_BARRIER) + EU_BARRIER_TRIGGER_WAIT_CLEAR); }

static void run_tasks(void)
{
    set_barrier(FORK_BARRIER, all_cores()); /* before the workers start, which come to it at once */
    hal_store(EU_MASK, 1u << EVENT_TASK);
    mailbox.ready = 1;
    hal_store(ITC_STATUS_SET, 1u << IRQ_TASK_DONE);
    for (;;) {
        hal_load_event(EU_WAIT_CLEAR);
        hal_store(EU_MASK, 1u << EVENT_BARRIER);
        const uint32_t start = hal_cycles();
        mailbox.task(mailbox.task_arg);
        mailbox.task_cycles = hal_cycles() - start;
        hal_store(EU_MASK, 1u << EVENT_TASK);
        mailbox.task_done = 1;
        hal_store(ITC_STATUS_SET, 1u << IRQ_TASK_DONE);
    }
}

void hal_cluster_main(uint32_t core)
{
    if (core == CONTROLLER_CORE)
        run_tasks();
    hal_store(EU_MASK, 1u << EVENT_BARRIER);
    for (;;) {
        join_or_fork();
        if (core < mailbox.size)
            mailbox.entry(mailbox.arg);
        join_or_fork();
    }
}

/* Sleeps until one of the interrupt lines is up; it is down again then. */
static void wait_for_irq(void)
{
    __asm__ volatile("wfi" ::: "memory");
    hal_store(ITC_STATUS_CLEAR, 1u << IRQ_TASK_DONE | 1u << IRQ_TIMER);
}

static void start_cluster(void)
{
    paint(hal_controller_stack, hal_worker_stacks_end);
    hal_store(ITC_MASK, 1u << IRQ_TASK_DONE | 1u << IRQ_TIMER);
    hal_store(CLUSTER_ICACHE_ENABLE, 1);
    for (uint32_t core = 0; core <= CONTROLLER_CORE; ++core)
        hal_store(CLUSTER_BOOT_ADDRESS + 4 * core, (uint32_t)(uintptr_t)_start);
    hal_store(CLUSTER_FETCH_ENABLE, 1u << CONTROLLER_CORE);
    while (!mailbox.ready)
        wait_for_irq();
    hal_store(CLUSTER_FETCH_ENABLE, all_cores());
}

/* ---- devices and tasks ---------------------------------------------------------------------------------------- */

void pi_open_from_conf(struct pi_device *device, void *conf) { device->config = conf; }

void pi_cluster_conf_init(struct pi_cluster_conf *conf) { *conf = (struct pi_cluster_conf){0}; }

int pi_cluster_open(struct pi_device *device)
{
    (void)device;
    if (cluster_is_open)
        return -1;
    if (!cluster_is_running) /* cores that run once go on to wait for tasks while the cluster is closed */
        start_cluster();
    cluster_is_running = cluster_is_open = true;
    return 0;
}

int pi_cluster_close(struct pi_device *device)
{
    (void)device;
    if (!cluster_is_open)
        hal_fail("pi_cluster_close: the cluster is not open");
    cluster_is_open = false;
    return 0;
}

struct pi_cluster_task *pi_cluster_task(struct pi_cluster_task *task, void (*entry)(void *), void *arg)
{
    *task = (struct pi_cluster_task){.entry = entry, .arg = arg};
    return task;
}

void hal_set_task_limit(uint32_t cycles) { task_limit = cycles; }

uint32_t hal_task_cycles(void) { return mailbox.task_cycles; }

int pi_cluster_send_task_to_cl(struct pi_device *device, struct pi_cluster_task *task)
{
    (void)device;
    if (!cluster_is_open || !task->entry)
        return -1;
    mailbox.task = task->entry;
    mailbox.task_arg = task->arg;
    mailbox.task_done = 0;
    hal_store(TIMER_COMPARE, WATCHDOG_PERIOD);
    hal_store(TIMER_CONFIG, TIMER_ENABLE_WITH_IRQ);
    const uint32_t start = hal_cycles();
    hal_store(EU_TRIGGER_FROM_OUTSIDE(EVENT_TASK), 1u << CONTROLLER_CORE);
    while (!mailbox.task_done) {
        wait_for_irq();
        if (task_limit && !mailbox.task_done && hal_cycles() - start > task_limit)
            hal_fail("the cluster did not end its task within %u cycles", (unsigned)task_limit);
    }
    hal_store(TIMER_CONFIG, 0);
    hal_require_whole_stacks();
    task->entry = NULL; /* must be prepared again, as on the chip */
    return 0;
}

/* ---- team ------------------------------------------------------------------------------------------------------- */

void pi_cl_team_fork(int nb_cores, void (*entry)(void *), void *arg)
{
    if (hal_hart() != CONTROLLER_CORE)
        hal_fail("pi_cl_team_fork: only for the cluster controller");
    if (nb_cores < 1 || nb_cores > (int)(uintptr_t)hal_cores)
        hal_fail("pi_cl_team_fork: %d workers; 1 to %d are possible", nb_cores, (int)(uintptr_t)hal_cores);
    set_barrier(TEAM_BARRIER, (1u << nb_cores) - 1);
    mailbox.entry = entry;
    mailbox.arg = arg;
    mailbox.size = (uint32_t)nb_cores;
    join_or_fork();
    join_or_fork();
}

void pi_cl_team_barrier(void) { hal_load_event(EU_BARRIER(TEAM_BARRIER) + EU_BARRIER_TRIGGER_WAIT_CLEAR); }

void pi_cl_team_critical_enter(void)
{
    while (hal_load((uint32_t)(uintptr_t)&critical_section + L1_TEST_AND_SET)) {
    }
}

void pi_cl_team_critical_exit(void) { critical_section = 0; }

uint32_t pi_core_id(void)
{
    const uint32_t hart = hal_hart();
    return hart < (uint32_t)(uintptr_t)hal_cores ? hart : PI_CL_TEAM_MAX;
}
