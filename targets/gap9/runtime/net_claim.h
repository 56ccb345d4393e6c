/* Tasks that workers take one by one. */
#ifndef NET_CLAIM_H
#define NET_CLAIM_H

#include <stdint.h>

#include "pmsis.h"

/* The next task of a list from which all workers take, each task exactly once. The counter is 0 before the first. Two cores
 * share an FPU, and one of them is faster: with equal shares it would leave the other alone at the end.
 */
static inline int32_t net_claim(int32_t *claimed)
{
    pi_cl_team_critical_enter();
    const int32_t task = *claimed;
    *claimed = task + 1;
    pi_cl_team_critical_exit();
    return task;
}

#endif
