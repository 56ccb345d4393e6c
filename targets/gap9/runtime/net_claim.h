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

/* The next of `tasks` tasks, up to *end: of many that are left several at once, of few one, so that workers end together. None
 * is left if it is not less than `tasks`.
 */
static inline int32_t net_claim_some(int32_t *claimed, int32_t tasks, int32_t *end)
{
    pi_cl_team_critical_enter();
    const int32_t task = *claimed, left = tasks - task;
    *end = task + (left > 0 ? 1 + left / 16 : 0);
    *claimed = *end;
    pi_cl_team_critical_exit();
    return task;
}

#endif
