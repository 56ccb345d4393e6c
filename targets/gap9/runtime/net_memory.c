/* Memory of a network, access to its tensors from the fabric controller, and the way onto the cluster. */
#include <string.h>

#include "net_runtime.h"

net_memory_t net_memory;
net_stats_t net_stats;

int net_memory_open(uint32_t l1_bytes, uint32_t l2_bytes, uint32_t l3_bytes)
{
    static struct pi_cluster_conf cluster_conf;
    static struct pi_default_ram_conf ram_conf;
    net_memory_t *const m = &net_memory;
    memset(m, 0, sizeof *m);
    m->l2 = pi_l2_malloc((int)l2_bytes);
    if (!m->l2)
        return -1;
    m->l2_bytes = l2_bytes;
    pi_default_ram_conf_init(&ram_conf);
    pi_open_from_conf(&m->ram, &ram_conf);
    if (pi_ram_open(&m->ram))
        goto no_ram;
    if (pi_ram_alloc(&m->ram, &m->l3, l3_bytes))
        goto no_l3;
    m->l3_bytes = l3_bytes;
    pi_cluster_conf_init(&cluster_conf);
#ifdef NET_CONTROLLER_STACK /* bytes; where an operating system allots the stacks, its build says how large they are */
    cluster_conf.cc_stack_size = NET_CONTROLLER_STACK;
#endif
    pi_open_from_conf(&m->cluster, &cluster_conf);
    if (pi_cluster_open(&m->cluster))
        goto no_cluster;
    m->l1 = pi_cl_l1_malloc(&m->cluster, l1_bytes);
    if (!m->l1)
        goto no_l1;
    m->l1_bytes = l1_bytes;
    return 0;

no_l1:
    pi_cluster_close(&m->cluster);
no_cluster:
    pi_ram_free(&m->ram, m->l3, l3_bytes);
no_l3:
    pi_ram_close(&m->ram);
no_ram:
    pi_l2_free(m->l2, (int)l2_bytes);
    return -1;
}

void net_memory_close(void)
{
    net_memory_t *const m = &net_memory;
    pi_cl_l1_free(&m->cluster, m->l1, (int)m->l1_bytes);
    pi_cluster_close(&m->cluster);
    pi_ram_free(&m->ram, m->l3, m->l3_bytes);
    pi_ram_close(&m->ram);
    pi_l2_free(m->l2, (int)m->l2_bytes);
}

void net_memory_write(uint8_t level, uint32_t address, const void *source, uint32_t bytes)
{
    if (level == NET_L3)
        pi_ram_write(&net_memory.ram, net_memory.l3 + address, (void *)(uintptr_t)source, bytes);
    else
        memcpy((level == NET_L2 ? net_memory.l2 : net_memory.l1) + address, source, bytes);
}

void net_memory_read(uint8_t level, uint32_t address, void *destination, uint32_t bytes)
{
    if (level == NET_L3)
        pi_ram_read(&net_memory.ram, net_memory.l3 + address, destination, bytes);
    else
        memcpy(destination, (level == NET_L2 ? net_memory.l2 : net_memory.l1) + address, bytes);
}

/* On the cluster controller: the one fork of an entry. */
static void fork_entry(void *argument)
{
    const net_entry_t *const entry = argument;
    pi_cl_team_fork(entry->cores, net_walk, argument);
}

void net_run(const net_entry_t *entry)
{
    struct pi_cluster_task task;
    pi_cluster_task(&task, fork_entry, (void *)(uintptr_t)entry);
#ifdef NET_WORKER_STACK /* bytes of each worker */
    task.slave_stack_size = NET_WORKER_STACK;
#endif
    pi_cluster_send_task_to_cl(&net_memory.cluster, &task);
}
