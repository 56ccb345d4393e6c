/* Cores of the host HAL: the fabric controller, the cluster controller and the workers of a team.
 *
 * FC and cluster controller share the main thread (a task is sent blocking, so they never run at the same time); each
 * worker is a thread that is created once and reused by later forks. Barriers are a mutex and a condition variable:
 * pthread_barrier_t does not exist everywhere and can't tell who is missing.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hal_internal.h"
#include "pmsis.h"

#define DEFAULT_BARRIER_SECONDS 20
#define YIELDS 20 /* before a worker sleeps in a barrier; see wait_released */

typedef enum { IDLE, COMPUTING, WAITING, FINISHED } state_t;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t job_posted, job_done, released;
    pthread_t threads[PI_CL_TEAM_MAX];
    int thread_count; /* threads that exist */
    unsigned job;     /* sequence number of the fork */
    bool quit;
    void (*entry)(void *);
    void *arg;
    int size;     /* workers of the current team */
    int finished; /* workers whose entry has returned */
    int arrived;  /* workers in the current barrier */
    int sleeping; /* of these, on the condition variable */
    state_t states[PI_CL_TEAM_MAX];
    atomic_uint generation; /* barriers passed; changed under the lock, read without */
} team = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .job_posted = PTHREAD_COND_INITIALIZER,
          .job_done = PTHREAD_COND_INITIALIZER,
          .released = PTHREAD_COND_INITIALIZER};

static _Thread_local hal_role_t role = HAL_FC;
static _Thread_local int core = PI_CL_TEAM_MAX;
static bool cluster_is_open;

hal_role_t hal_role(void) { return role; }

bool hal_cluster_is_open(void) { return cluster_is_open; }

uint32_t pi_core_id(void) { return (uint32_t)core; }

void hal_fail(const char *format, ...)
{
    char message[512], who[32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    snprintf(who, sizeof who, "worker %d", core);
    static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&first); /* never released: one message, whoever fails at the same time */
    fflush(stdout);
    fprintf(stderr, "hal: %s: %s\n", role == HAL_FC ? "FC" : role == HAL_CONTROLLER ? "controller" : who, message);
    fflush(stderr);
    _Exit(HAL_MISUSE_STATUS);
}

void hal_require_fc(const char *function)
{
    if (role != HAL_FC)
        hal_fail("%s: only for the FC", function);
}

void hal_require_worker0(const char *function)
{
    if (role != HAL_WORKER || core != 0)
        hal_fail("%s: only for worker 0 of a team", function);
}

/* ---- critical section ---------------------------------------------------------------------------------------- */

static pthread_mutex_t critical_section = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool is_in_critical_section;

void pi_cl_team_critical_enter(void)
{
    if (role != HAL_WORKER)
        hal_fail("pi_cl_team_critical_enter: only for workers of a team");
    if (is_in_critical_section)
        hal_fail("pi_cl_team_critical_enter: inside a critical section");
    pthread_mutex_lock(&critical_section);
    is_in_critical_section = true;
}

void pi_cl_team_critical_exit(void)
{
    if (!is_in_critical_section)
        hal_fail("pi_cl_team_critical_exit: outside of a critical section");
    is_in_critical_section = false;
    pthread_mutex_unlock(&critical_section);
}

/* ---- barrier ------------------------------------------------------------------------------------------------- */

/* " 0 3 4": the workers in a state; the lock is held. */
static void list_workers(char *text, size_t size, state_t state)
{
    text[0] = '\0';
    for (int i = 0; i < team.size; i++)
        if (team.states[i] == state)
            snprintf(text + strlen(text), size - strlen(text), " %d", i);
}

static _Noreturn void fail_deadlock(const char *why)
{
    char waiting[64], computing[64], finished[64];
    list_workers(waiting, sizeof waiting, WAITING);
    list_workers(computing, sizeof computing, COMPUTING);
    list_workers(finished, sizeof finished, FINISHED);
    hal_fail("dead-lock: barrier with a missing partner (%s): waiting:%s; computing:%s; finished:%s", why,
             waiting, *computing ? computing : " none", *finished ? finished : " none");
}

/* A core that has returned never comes to the barrier that others wait in. */
static void fail_if_stuck(void)
{
    if (team.arrived && team.finished && team.arrived + team.finished == team.size)
        fail_deadlock("all others have returned");
}

/* With more workers than host cores a release takes a switch to each of them. Giving up the time slice a few times is
 * far cheaper than a sleep and a wake-up each (8 workers on 2 host cores: 10 us a barrier against 70 us); sleeping
 * after that leaves the cores to whoever computes.
 */
static void wait_released(unsigned generation)
{
    for (int i = 0; i < YIELDS; i++) {
        if (atomic_load_explicit(&team.generation, memory_order_acquire) != generation)
            return;
        sched_yield();
    }
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit); /* what pthread_cond_timedwait understands everywhere */
    limit.tv_sec += hal_config.barrier_seconds ? hal_config.barrier_seconds : DEFAULT_BARRIER_SECONDS;
    pthread_mutex_lock(&team.lock);
    team.sleeping++;
    while (atomic_load_explicit(&team.generation, memory_order_acquire) == generation)
        if (pthread_cond_timedwait(&team.released, &team.lock, &limit) == ETIMEDOUT &&
            atomic_load_explicit(&team.generation, memory_order_acquire) == generation)
            fail_deadlock("time limit");
    team.sleeping--;
    pthread_mutex_unlock(&team.lock);
}

void pi_cl_team_barrier(void)
{
    if (role != HAL_WORKER)
        hal_fail("pi_cl_team_barrier: only for workers of a team");
    if (is_in_critical_section)
        hal_fail("pi_cl_team_barrier: inside a critical section");
    pthread_mutex_lock(&team.lock);
    unsigned generation = atomic_load_explicit(&team.generation, memory_order_relaxed);
    team.states[core] = WAITING;
    bool last = ++team.arrived == team.size;
    if (last) {
        team.arrived = 0;
        hal_counters.barriers++;
        hal_progress(); /* for worker 0: here nobody computes, so even a wrong program fails the same way every time */
        for (int i = 0; i < team.size; i++)
            team.states[i] = COMPUTING;
        atomic_store_explicit(&team.generation, generation + 1, memory_order_release);
        if (team.sleeping)
            pthread_cond_broadcast(&team.released);
    } else {
        fail_if_stuck();
    }
    pthread_mutex_unlock(&team.lock);
    if (!last)
        wait_released(generation);
}

/* ---- team ---------------------------------------------------------------------------------------------------- */

static void *worker_main(void *index)
{
    role = HAL_WORKER;
    core = (int)(intptr_t)index;
    unsigned job = 0;
    pthread_mutex_lock(&team.lock);
    for (;;) {
        while (!team.quit && (team.job == job || core >= team.size))
            pthread_cond_wait(&team.job_posted, &team.lock);
        if (team.quit)
            break;
        job = team.job;
        void (*entry)(void *) = team.entry;
        void *arg = team.arg;
        pthread_mutex_unlock(&team.lock);
        entry(arg);
        if (core == 0) {
            if (hal_kernel_is_running())
                hal_fail("team ends inside a kernel");
            hal_require_nothing_in_flight("team ends");
        }
        pthread_mutex_lock(&team.lock);
        team.states[core] = FINISHED;
        team.finished++;
        fail_if_stuck();
        if (team.finished == team.size)
            pthread_cond_signal(&team.job_done);
    }
    pthread_mutex_unlock(&team.lock);
    return NULL;
}

void pi_cl_team_fork(int nb_cores, void (*entry)(void *), void *arg)
{
    if (role == HAL_WORKER)
        hal_fail("pi_cl_team_fork: inside a team");
    if (role != HAL_CONTROLLER)
        hal_fail("pi_cl_team_fork: only for the cluster controller");
    if (nb_cores < 1 || nb_cores > PI_CL_TEAM_MAX)
        hal_fail("pi_cl_team_fork: %d workers; 1 to %d are possible", nb_cores, PI_CL_TEAM_MAX);
    hal_counters.forks++;
    pthread_mutex_lock(&team.lock);
    team.entry = entry;
    team.arg = arg;
    team.size = nb_cores;
    team.finished = team.arrived = 0;
    for (int i = 0; i < nb_cores; i++)
        team.states[i] = COMPUTING;
    for (; team.thread_count < nb_cores; team.thread_count++)
        if (pthread_create(&team.threads[team.thread_count], NULL, worker_main, (void *)(intptr_t)team.thread_count))
            hal_fail("pi_cl_team_fork: the host gives no thread for worker %d", team.thread_count);
    team.job++;
    pthread_cond_broadcast(&team.job_posted);
    while (team.finished < team.size)
        pthread_cond_wait(&team.job_done, &team.lock);
    pthread_mutex_unlock(&team.lock);
}

/* ---- devices and tasks ----------------------------------------------------------------------------------------- */

void pi_open_from_conf(struct pi_device *device, void *conf) { device->config = conf; }

void pi_cluster_conf_init(struct pi_cluster_conf *conf) { *conf = (struct pi_cluster_conf){0}; }

int pi_cluster_open(struct pi_device *device)
{
    (void)device;
    hal_require_fc("pi_cluster_open");
    if (cluster_is_open)
        return -1;
    cluster_is_open = true;
    return 0;
}

int pi_cluster_close(struct pi_device *device)
{
    (void)device;
    hal_require_fc("pi_cluster_close");
    if (!cluster_is_open)
        hal_fail("pi_cluster_close: the cluster is not open");
    if (hal_live_bytes(HAL_L1))
        hal_fail("pi_cluster_close: %llu bytes of L1 are not freed", (unsigned long long)hal_live_bytes(HAL_L1));
    pthread_mutex_lock(&team.lock);
    team.quit = true;
    pthread_cond_broadcast(&team.job_posted);
    pthread_mutex_unlock(&team.lock);
    for (int i = 0; i < team.thread_count; i++)
        pthread_join(team.threads[i], NULL);
    team.thread_count = 0;
    team.quit = false;
    team.job = 0;
    cluster_is_open = false;
    return 0;
}

struct pi_cluster_task *pi_cluster_task(struct pi_cluster_task *task, void (*entry)(void *), void *arg)
{
    *task = (struct pi_cluster_task){.entry = entry, .arg = arg};
    return task;
}

int pi_cluster_send_task_to_cl(struct pi_device *device, struct pi_cluster_task *task)
{
    (void)device;
    hal_require_fc("pi_cluster_send_task_to_cl");
    if (!cluster_is_open || !task->entry)
        return -1;
    role = HAL_CONTROLLER;
    task->entry(task->arg);
    role = HAL_FC;
    task->entry = NULL; /* must be prepared again, as on the chip */
    return 0;
}
