"""Memories of the host HAL: capacity, poison of new memory, ranges, and what AddressSanitizer sees of them."""

from __future__ import annotations

import pytest
from hal_programs import Hal

ONLY_0 = "if (pi_core_id() == 0) "


def test_new_memory_is_not_a_number(hal: Hal) -> None:
    done = hal.run(
        "",
        before="""float word, *a = (float *)l1, *b = (float *)l2;
                  pi_ram_read(&ram, l3 + L3_BYTES - 4, &word, 4);
                  printf("nan %d\\n", !!isnan(word) + !!isnan(a[7]) + !!isnan(b[L2_BYTES / 4 - 1]));""",
    )
    assert done.status == 0, done.err
    assert done.counter("nan") == 3


def test_allocation_ends_at_the_capacity_and_freed_gaps_are_found_again(hal: Hal) -> None:
    source = """
    #include <stdio.h>
    #include "hal_host.h"
    #include "pmsis.h"
    int main(void) {
        hal_host_config_t config = {.l2_capacity = 1024};
        hal_host_configure(&config);
        char *a = pi_l2_malloc(512), *b = pi_l2_malloc(256), *c = pi_l2_malloc(256);
        printf("full %d\\n", pi_l2_malloc(1) == NULL);
        pi_l2_free(b, 256);
        printf("larger %d\\n", pi_l2_malloc(257) == NULL);
        printf("again %d\\n", (char *)pi_l2_malloc(200) == b && a && c);
        hal_host_print_counters();
        return 0;
    }"""
    done = hal.run_source(source)
    assert done.status == 0, done.err
    assert [done.counter(name) for name in ("full", "larger", "again", "l2_peak_bytes")] == [1, 1, 1, 1024]


def test_ram_keeps_what_the_controller_writes(hal: Hal) -> None:
    done = hal.run(
        "",
        before="""char text[] = "external", back[9];
                  pi_ram_write(&ram, l3 + 11, text, 9); pi_ram_read(&ram, l3 + 11, back, 9); puts(back);""",
    )
    assert done.out.startswith("external\n")
    assert (done.counter("fc_l3_write_bytes"), done.counter("fc_l3_read_bytes")) == (9, 9)


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("pi_ram_read(&ram, l3 + L3_BYTES - 4, l2, 8);", "pi_ram_read: out of range: addresses 0x"),
        ("pi_ram_read(&ram, 0, l2, 8);", "pi_ram_read: out of range"),
        ("pi_ram_write(&ram, l3, l2 + L2_BYTES - 4, 8);", "pi_ram_write: out of range: bytes 199996 to 200003 of L2"),
        ("pi_ram_write(&ram, l3, l1, 8);", "pi_ram_write: address is not in L2"),
        ("pi_l2_free(l2, 8);", "pi_l2_free: chunk of 200000 bytes freed as 8 bytes"),
        ("pi_l2_free(l2 + 8, 8);", "pi_l2_free: no such chunk in L2"),
        ("pi_l2_free(l1, 8);", "pi_l2_free: address is not in L2"),
        ("pi_cluster_close(&cluster);", "pi_cluster_close: 4096 bytes of L1 are not freed"),
        ("pi_ram_close(&ram); pi_ram_read(&ram, l3, l2, 8);", "pi_ram_read: the RAM is not open"),
    ],
)
def test_misuse_of_memory_aborts(hal: Hal, before: str, message: str) -> None:
    done = hal.run("", before=before)
    assert done.status == 70
    assert message in done.err
    assert done.err.startswith("hal: FC: ")
    assert done.err.count("\n") == 1


KERNEL = """
int core = (int)pi_core_id();
void *const blocks[] = {l1 + 64, l1 + 200};
const uint32_t bytes[] = {64, 20};
if (core == 0) net_trace_kernel_begin(2, blocks, bytes);
pi_cl_team_barrier();
if (core == 1) { %s }
pi_cl_team_barrier();
if (core == 0) { net_trace_kernel_end(); l2[0] = 1; l1[0] = 1; }
"""


@pytest.mark.parametrize("inside", ["l1[64] = 1; l1[127] = 1;", "l1[200] = l1[219];", ""])
def test_kernel_may_touch_its_blocks(hal: Hal, inside: str) -> None:
    hal.need("address")
    done = hal.run(KERNEL % inside, sanitize="address")
    assert done.status == 0, done.err
    assert done.counter("kernels") == 1


@pytest.mark.parametrize(
    "outside", ["l2[100] = 1;", "l1[128] = 1;", "l1[63] = 1;", "l1[220] = 1;", "sink = l2[0];", "sink = l1[0];"]
)
def test_address_sanitizer_finds_a_kernel_outside_its_blocks(hal: Hal, outside: str) -> None:
    hal.need("address")
    done = hal.run(KERNEL % outside, globals_="static volatile int sink;\n", sanitize="address")
    assert done.status not in (0, 70)
    assert "AddressSanitizer: use-after-poison" in done.err


def test_transfers_may_land_while_a_kernel_runs_under_address_sanitizer(hal: Hal) -> None:
    """The DMA is no kernel: its copies into poisoned memory are no findings, in any mode."""
    hal.need("address")
    work = """pi_cl_dma_cmd_t cmd; pi_cl_ram_req_t req;
              void *const blocks[] = {l1}; const uint32_t bytes[] = {64};
              for (int i = 0; i < 20; i++) {
                  if (pi_core_id() == 0) {
                      pi_cl_dma_cmd((uintptr_t)l2, (uintptr_t)(l1 + 64), 32, PI_CL_DMA_DIR_EXT2LOC, &cmd);
                      pi_cl_ram_read(&ram, l3, l2 + 64, 32, &req);
                      net_trace_kernel_begin(1, blocks, bytes);
                  }
                  pi_cl_team_barrier();
                  l1[pi_core_id()] = 1;
                  pi_cl_team_barrier();
                  if (pi_core_id() == 0) {
                      net_trace_kernel_end(); pi_cl_dma_cmd_wait(&cmd); pi_cl_ram_read_wait(&req);
                  }
              }"""
    program_args = ["0", "1", "2 1", "2 2"]
    for args in program_args:
        done = hal.run(work, sanitize="address", args=args)
        assert done.status == 0, done.err
        assert (done.counter("kernels"), done.counter("overlapped_kernels")) == (20, 20)


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ("net_trace_kernel_end();", "net_trace_kernel_end: no kernel has begun"),
        ("net_trace_kernel_begin(0, NULL, NULL); net_trace_kernel_begin(0, NULL, NULL);", "before has not ended"),
        ("net_trace_kernel_begin(0, NULL, NULL);", "team ends inside a kernel"),
        (
            "void *const b[] = {l1 + 4000}; const uint32_t n[] = {100}; net_trace_kernel_begin(1, b, n);",
            "net_trace_kernel_begin: out of range: bytes 4000 to 4099 of L1",
        ),
        ("void *const b[] = {l2}; const uint32_t n[] = {4}; net_trace_kernel_begin(1, b, n);", "address is not in L1"),
    ],
)
def test_misuse_of_the_kernel_trace_aborts(hal: Hal, work: str, message: str) -> None:
    done = hal.run(f"{ONLY_0} {{ {work} }}")
    assert done.status == 70
    assert message in done.err
