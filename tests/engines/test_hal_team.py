"""Teams of the host HAL: core numbers, barriers, reuse of threads, dead-locks."""

from __future__ import annotations

import pytest
from hal_programs import Hal

ONLY_0 = "if (pi_core_id() == 0) "


@pytest.mark.parametrize("cores", [1, 2, 3, 8, 16])
def test_every_worker_runs_once_with_its_own_number(hal: Hal, cores: int) -> None:
    done = hal.run(
        "seen[pi_core_id()]++;",
        globals_="static int seen[PI_CL_TEAM_MAX];",
        after='for (int i = 0; i < PI_CL_TEAM_MAX; i++) printf("%d", seen[i]); printf(" %d\\n", (int)pi_core_id());',
        args=f"0 0 {cores}",
    )
    assert done.status == 0, done.err
    assert done.out.splitlines()[0] == "1" * cores + "0" * (16 - cores) + " 16"
    assert done.counter("forks") == 1


def test_no_worker_passes_a_barrier_before_all_have_come(hal: Hal) -> None:
    """Each worker adds to a running value that only holds if all additions of the round before are visible."""
    done = hal.run(
        """int core = (int)pi_core_id();
           for (int i = 1; i <= 2000; i++) {
               own[core] = i;
               pi_cl_team_barrier();
               for (int k = 0; k < 8; k++) wrong[core] += own[k] != i;
               pi_cl_team_barrier();
           }""",
        globals_="static int own[8], wrong[8];",
        after="""int sum = 0; for (int k = 0; k < 8; k++) sum += wrong[k]; printf("wrong %d\\n", sum);""",
    )
    assert done.status == 0, done.err
    assert done.counter("wrong") == 0
    assert done.counter("barriers") == 4000


def test_forks_of_changing_size_and_a_second_opening_reuse_the_cluster(hal: Hal) -> None:
    source = """
    #include <stdio.h>
    #include "pmsis.h"
    static int runs[PI_CL_TEAM_MAX];
    static void work(void *arg) { (void)arg; pi_cl_team_barrier(); runs[pi_core_id()]++; }
    static void controller(void *arg) { pi_cl_team_fork(*(int *)arg, work, NULL); pi_cl_team_fork(2, work, NULL); }
    int main(void) {
        static int sizes[] = {3, 8, 1, 16};
        struct pi_device cluster; struct pi_cluster_conf conf; struct pi_cluster_task task;
        for (int round = 0; round < 2; round++) {
            pi_cluster_conf_init(&conf); pi_open_from_conf(&cluster, &conf);
            if (pi_cluster_open(&cluster)) return 1;
            for (int i = 0; i < 4; i++)
                if (pi_cluster_send_task_to_cl(&cluster, pi_cluster_task(&task, controller, &sizes[i]))) return 2;
            pi_cluster_close(&cluster);
        }
        for (int i = 0; i < PI_CL_TEAM_MAX; i++) printf("%d ", runs[i]);
        return 0;
    }"""
    expected = [2 * (sum(size > core for size in (3, 8, 1, 16)) + (4 if core < 2 else 0)) for core in range(16)]
    done = hal.run_source(source)
    assert done.status == 0, done.err
    assert [int(number) for number in done.out.split()] == expected


def test_worker_that_has_returned_is_a_missing_partner_at_once(hal: Hal) -> None:
    done = hal.run("if (pi_core_id() != 3) pi_cl_team_barrier();")
    assert done.status == 70
    assert "dead-lock: barrier with a missing partner (all others have returned): waiting: 0 1 2 4 5 6 7;" in done.err
    assert done.err.endswith("finished: 3\n")
    assert done.err.count("\n") == 1


def test_worker_that_never_comes_is_found_by_the_time_limit(hal: Hal) -> None:
    done = hal.run("if (pi_core_id() == 5) while (!stop) { } pi_cl_team_barrier();", globals_="static volatile int stop;")
    assert done.status == 70
    assert "(time limit): waiting: 0 1 2 3 4 6 7; computing: 5; finished: none" in done.err


@pytest.mark.parametrize(
    ("work", "before", "message"),
    [
        ("pi_cl_team_fork(2, work2, NULL);", "", "pi_cl_team_fork: inside a team"),
        ("", "pi_cl_team_fork(2, work2, NULL);", "FC: pi_cl_team_fork: only for the cluster controller"),
        ("", "pi_cl_team_barrier();", "FC: pi_cl_team_barrier: only for workers"),
        ("", "cores = 17;", "controller: pi_cl_team_fork: 17 workers; 1 to 16"),
        (ONLY_0 + "pi_l2_malloc(8);", "", "worker 0: pi_l2_malloc: only for the FC"),
        (ONLY_0 + "pi_cl_l1_malloc(&cluster, 8);", "", "worker 0: pi_cl_l1_malloc: not for workers"),
    ],
)
def test_calls_by_the_wrong_core_abort(hal: Hal, work: str, before: str, message: str) -> None:
    done = hal.run(work, before=before, globals_="void work2(void *arg); void work2(void *arg) { (void)arg; }\n")
    assert done.status == 70
    assert message in done.err
    assert done.err.count("\n") == 1


def test_thread_sanitizer_is_silent_on_barriers_and_finds_a_missing_one(hal: Hal) -> None:
    hal.need("thread")
    program = """int core = (int)pi_core_id();
                 for (int i = 0; i < 50; i++) {
                     value[core] += 1.0f; pi_cl_team_barrier();
                     shadow[core] = value[(core + 1) % 8]; MAYBE
                     value[core] = shadow[core]; pi_cl_team_barrier();
                 }"""
    globals_ = "static float value[8], shadow[8];"
    done = hal.run(program.replace("MAYBE", "pi_cl_team_barrier();"), globals_=globals_, sanitize="thread")
    assert done.status == 0, done.err
    done = hal.run(program.replace("MAYBE", ""), globals_=globals_, sanitize="thread")
    assert done.status != 0
    assert "ThreadSanitizer: data race" in done.err
