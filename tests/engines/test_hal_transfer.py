"""Asynchronous transfers of the host HAL: boxes against numpy, timing modes, misuse, counters."""

from __future__ import annotations

import numpy as np
import pytest
from hal_programs import Hal

ONLY_0 = "if (pi_core_id() == 0) "
FILL_L2 = "for (int i = 0; i < L2_BYTES; i++) l2[i] = (uint8_t)(i * 7 + i / 251);"
MODES = ["0", "1", "2 0", "2 1", "2 2"]

SHAPES = [(60, 20, 12), (7, 100, 7), (1000, 33, 33), (10, 9, 4), (4096, 128, 64), (1, 1, 1)]
"""size, stride, length; the third has lines without a gap, the fourth ends inside a line."""


def pattern(count: int) -> np.ndarray:
    index = np.arange(count)
    return (index * 7 + index // 251).astype(np.uint8)


def lines(start: int, size: int, stride: int, length: int) -> np.ndarray:
    """Indices of the strided end, in the order of the contiguous one."""
    index = np.arange(size)
    return start + index // length * stride + index % length


@pytest.mark.parametrize("mode", ["0", "1", "2 5"])
@pytest.mark.parametrize(("size", "stride", "length"), SHAPES)
def test_two_dimensional_dma_moves_the_box_that_numpy_says(hal: Hal, mode: str, size: int, stride: int, length: int) -> None:
    work = f"""{ONLY_0} {{
        pi_cl_dma_cmd_t in, out;
        pi_cl_dma_cmd_2d((uintptr_t)(l2 + 5), (uintptr_t)l1, {size}, {stride}, {length}, PI_CL_DMA_DIR_EXT2LOC, &in);
        pi_cl_dma_cmd_wait(&in);
        pi_cl_dma_cmd_2d((uintptr_t)(l2 + 100000), (uintptr_t)l1, {size}, {stride}, {length}, PI_CL_DMA_DIR_LOC2EXT, &out);
        pi_cl_dma_cmd_wait(&out);
    }}"""
    after = """for (int i = 0; i < L1_BYTES; i++) printf("%02x", l1[i]); puts("");
               for (int i = 0; i < L2_BYTES; i++) printf("%02x", l2[i]); puts("");"""
    done = hal.run(work, before=FILL_L2 + "memset(l1, 1, L1_BYTES);", after=after, args=mode)
    assert done.status == 0, done.err
    first, second = (np.frombuffer(bytes.fromhex(line), np.uint8) for line in done.out.split("\n")[:2])
    l1, l2 = np.ones(4096, np.uint8), pattern(200000)
    l1[:size] = l2[lines(5, size, stride, length)]
    l2[lines(100000, size, stride, length)] = l1[:size]
    np.testing.assert_array_equal(first, l1)
    np.testing.assert_array_equal(second, l2)
    assert done.counter("l2_to_l1_bytes") == done.counter("l1_to_l2_bytes") == size
    assert done.counter("dma_commands") == 2


@pytest.mark.parametrize(("size", "stride", "length"), SHAPES)
def test_two_dimensional_ram_copies_move_the_box_that_numpy_says(hal: Hal, size: int, stride: int, length: int) -> None:
    work = f"""{ONLY_0} {{
        pi_cl_ram_req_t a, b, c;
        pi_cl_ram_write(&ram, l3, l2, 150000, &a);
        pi_cl_ram_write_wait(&a);
        pi_cl_ram_read_2d(&ram, l3 + 9, l2 + 150000, {size}, {stride}, {length}, &b);
        pi_cl_ram_read_wait(&b);
        pi_cl_ram_write_2d(&ram, l3 + 200000, l2 + 150000, {size}, {stride}, {length}, &c);
        pi_cl_ram_write_wait(&c);
    }}"""
    after = """static uint8_t back[90000]; pi_ram_read(&ram, l3 + 200000, back, sizeof back);
               for (unsigned i = 0; i < sizeof back; i++) printf("%02x", back[i]); puts("");"""
    done = hal.run(work, before=FILL_L2, after=after, args="1")
    assert done.status == 0, done.err
    back = np.frombuffer(bytes.fromhex(done.out.split("\n")[0]), np.uint8)
    expected = np.resize(np.array([0xDEAD, 0xFFC0], "<u2").view(np.uint8), 90000)  # what new memory holds
    expected[lines(0, size, stride, length)] = pattern(150000)[lines(9, size, stride, length)]
    np.testing.assert_array_equal(back, expected)
    assert (done.counter("l2_to_l3_bytes"), done.counter("l3_to_l2_bytes")) == (150000 + size, size)


PIPELINE = """
int core = (int)pi_core_id();
void *const blocks[] = {l1, l1 + 2048};
const uint32_t bytes[] = {512, 512};
static pi_cl_dma_cmd_t cmd[2];
if (core == 0) {
    pi_cl_dma_cmd((uintptr_t)l2, (uintptr_t)l1, 512, PI_CL_DMA_DIR_EXT2LOC, &cmd[0]);
    pi_cl_dma_cmd_wait(&cmd[0]);
}
for (int tile = 0; tile < 100; tile++) {
    uint8_t *now = l1 + tile % 2 * 2048, *next = l1 + (tile + 1) % 2 * 2048;
    if (core == 0) {
        if (tile < 99)
            pi_cl_dma_cmd((uintptr_t)(l2 + (tile + 1) * 512), (uintptr_t)next, 512, PI_CL_DMA_DIR_EXT2LOC,
                          &cmd[(tile + 1) % 2]);
        net_trace_kernel_begin(1, &blocks[tile % 2], bytes);
    }
    pi_cl_team_barrier();
    for (int i = core; i < 512; i += cores) sum[core] += (uint32_t)(now[i] * (tile + 1));
    pi_cl_team_barrier();
    if (core == 0) {
        net_trace_kernel_end();
        WAIT
    }
}
"""
"""A double-buffered weighted sum of 100 tiles: while one is summed, the next is on its way."""

GOOD = PIPELINE.replace("WAIT", "if (tile < 99) pi_cl_dma_cmd_wait(&cmd[(tile + 1) % 2]);")
LATE = PIPELINE.replace("WAIT", "if (tile) pi_cl_dma_cmd_wait(&cmd[tile % 2]);")
"""Waits for a tile only after it has been summed."""
UNSEEN = LATE.replace("net_trace_kernel_begin(1, &blocks[tile % 2], bytes)", "net_trace_kernel_begin(0, blocks, bytes)")
"""The same, by a kernel that does not say what it uses."""

SUM = "static uint32_t sum[PI_CL_TEAM_MAX];\n"
PRINT_SUM = 'uint32_t all = 0; for (int i = 0; i < PI_CL_TEAM_MAX; i++) all += sum[i]; printf("sum %u\\n", (unsigned)all);'


def expected_sum() -> int:
    tiles = pattern(512 * 100).reshape(100, 512).astype(np.int64)
    return int((tiles * np.arange(1, 101)[:, None]).sum() % 2**32)


def sums(hal: Hal, work: str) -> dict[str, bool]:
    """Per mode, whether the program computes the right sum."""
    right: dict[str, bool] = {}
    for mode in MODES:
        done = hal.run(work, before=FILL_L2 + "memset(l1, 0, L1_BYTES);", after=PRINT_SUM, globals_=SUM, args=mode)
        assert done.status == 0, done.err
        assert (done.counter("kernels"), done.counter("overlapped_kernels")) == (100, 100 if work == UNSEEN else 99)
        right[mode] = done.counter("sum") == expected_sum()
    return right


def test_correct_program_gives_the_same_in_every_mode_and_overlaps(hal: Hal) -> None:
    assert all(sums(hal, GOOD).values())


def test_late_wait_shows_in_lazy_and_random_mode_only(hal: Hal) -> None:
    assert sums(hal, UNSEEN) == {mode: mode == "0" for mode in MODES}


def test_a_kernel_that_begins_while_its_tile_is_loaded_is_refused_in_every_mode(hal: Hal) -> None:
    for mode in MODES:
        done = hal.run(LATE, before=FILL_L2, after=PRINT_SUM, globals_=SUM, args=mode)
        assert done.status == 70 and "a block of the kernel is still being loaded" in done.err


MEETING = {
    "two loads of one place": ("l2, l1, 64, EXT2LOC", "l2 + 512, l1 + 60, 64, EXT2LOC"),
    "a load over what is stored": ("l2, l1, 64, LOC2EXT", "l2 + 512, l1 + 60, 64, EXT2LOC"),
    "a load of what is being stored": ("l2, l1, 64, LOC2EXT", "l2 + 60, l1 + 512, 64, EXT2LOC"),
    "a store over what is loaded": ("l2, l1, 64, EXT2LOC", "l2 + 60, l1 + 512, 64, LOC2EXT"),
    "two stores to one place": ("l2, l1, 64, LOC2EXT", "l2 + 60, l1 + 512, 64, LOC2EXT"),
}


def dma(arguments: str, command: str) -> str:
    far, near, size, way = arguments.split(", ")
    return f"pi_cl_dma_cmd((uintptr_t)({far}), (uintptr_t)({near}), {size}, PI_CL_DMA_DIR_{way}, &{command});"


@pytest.mark.parametrize("pair", MEETING)
def test_transfers_in_flight_that_disturb_each_other_are_refused(hal: Hal, pair: str) -> None:
    first, second = (dma(arguments, command) for arguments, command in zip(MEETING[pair], "ab", strict=True))
    one = "if (pi_core_id() == 0) { pi_cl_dma_cmd_t a, b; "
    waits = "pi_cl_dma_cmd_wait(&a);", "pi_cl_dma_cmd_wait(&b);"
    for mode in MODES:
        done = hal.run(one + first + second + waits[0] + waits[1] + "}", before=FILL_L2, args=mode)
        assert done.status == 70 and "another transfer in flight" in done.err
        done = hal.run(one + first + waits[0] + second + waits[1] + "}", before=FILL_L2, args=mode)
        assert done.status == 0, done.err


def test_lines_between_the_lines_of_another_transfer_disturb_nothing(hal: Hal) -> None:
    work = """if (pi_core_id() == 0) { pi_cl_dma_cmd_t a, b;
        pi_cl_dma_cmd_2d((uintptr_t)l2, (uintptr_t)l1, 256, 128, 64, PI_CL_DMA_DIR_LOC2EXT, &a);
        pi_cl_dma_cmd_2d((uintptr_t)(l2 + AT), (uintptr_t)(l1 + 512), 256, 128, 64, PI_CL_DMA_DIR_EXT2LOC, &b);
        pi_cl_dma_cmd_wait(&a); pi_cl_dma_cmd_wait(&b); }"""
    assert hal.run(work.replace("AT", "64"), before=FILL_L2).status == 0
    assert "another transfer in flight" in hal.run(work.replace("AT", "60"), before=FILL_L2).err


@pytest.mark.parametrize("arguments", ["l2, l1 + 600, 64, EXT2LOC", "l2, l1 + 500, 64, LOC2EXT"])
def test_the_running_kernels_blocks_are_not_moved(hal: Hal, arguments: str) -> None:
    work = f"""if (pi_core_id() == 0) {{ pi_cl_dma_cmd_t a; void *const block = l1 + 512; const uint32_t bytes = 512;
        net_trace_kernel_begin(1, &block, &bytes); {dma(arguments, "a")} }}"""
    assert "moves what the running kernel uses" in hal.run(work, before=FILL_L2).err


def test_what_a_transfer_reads_must_not_change_under_way(hal: Hal) -> None:
    work = f"""if (pi_core_id() == 0) {{ pi_cl_dma_cmd_t a; {dma("l2, l1, 64, LOC2EXT", "a")}
        l1[63] ^= 1; pi_cl_dma_cmd_wait(&a); }}"""
    assert "source changed" in hal.run(work, before=FILL_L2 + "memset(l1, 0, L1_BYTES);", args="1").err


def test_random_mode_is_repeatable_and_depends_on_its_seed(hal: Hal) -> None:
    program = hal.build(hal.source(UNSEEN, before=FILL_L2 + "memset(l1, 0, L1_BYTES);", after=PRINT_SUM, globals_=SUM))
    found = [hal.execute(program, f"2 {seed}").counter("sum") for seed in (1, 1, 1, 2, 3, 4)]
    assert found[0] == found[1] == found[2]
    assert len(set(found)) > 1


def test_thread_sanitizer_is_silent_on_a_correct_pipeline_and_finds_a_missing_barrier(hal: Hal) -> None:
    hal.need("thread")
    keywords = {"before": FILL_L2, "after": PRINT_SUM, "globals_": SUM, "sanitize": "thread"}
    for mode in ("0", "1", "2 3"):
        done = hal.run(GOOD, args=mode, **keywords)
        assert done.status == 0, done.err
    broken = GOOD.replace("    pi_cl_team_barrier();\n    for", "    for")
    assert broken != GOOD
    done = hal.run(broken, args="1", **keywords)
    assert "ThreadSanitizer: data race" in done.err
    assert done.status != 0


L2_ADDRESS, L1_ADDRESS = "(uintptr_t)l2", "(uintptr_t)l1"
IN = "PI_CL_DMA_DIR_EXT2LOC"


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ("pi_cl_dma_cmd_wait(&a);", "pi_cl_dma_cmd_wait: nothing was issued with this descriptor"),
        ("pi_cl_ram_read_wait(&r);", "pi_cl_ram_read_wait: nothing was issued with this descriptor"),
        ("DMA(8, &a); pi_cl_dma_cmd_wait(&a); pi_cl_dma_cmd_wait(&a);", "or it was waited for already"),
        ("DMA(8, &a); DMA(8, &a);", "pi_cl_dma_cmd: descriptor reissued while its transfer is in flight"),
        ("pi_cl_ram_read(&ram, l3, l2, 8, &r); pi_cl_ram_read(&ram, l3, l2, 8, &r);", "descriptor reissued"),
        ("DMA(8, &a);", "team ends with 1 transfers still in flight"),
        ("pi_cl_ram_read(&ram, l3, l2, 8, &r);", "team ends with 1 transfers still in flight"),
        ("DMA(0, &a);", "pi_cl_dma_cmd: transfer of 0 bytes"),
        ("DMA(131072, &a);", "pi_cl_dma_cmd: transfer of 131072 bytes; one command moves at most 131071"),
        ("DMA(4097, &a);", "pi_cl_dma_cmd: out of range: bytes 0 to 4096 of L1"),
        (f"pi_cl_dma_cmd({L2_ADDRESS} + 199996, {L1_ADDRESS}, 8, {IN}, &a);", "bytes 199996 to 200003 of L2"),
        (f"pi_cl_dma_cmd({L1_ADDRESS}, {L1_ADDRESS}, 8, {IN}, &a);", "pi_cl_dma_cmd: address is not in L2"),
        (f"pi_cl_dma_cmd_2d({L2_ADDRESS}, {L1_ADDRESS}, 40, 66666, 10, {IN}, &a);", "bytes 0 to 200007 of L2"),
        (f"pi_cl_dma_cmd_2d({L2_ADDRESS}, {L1_ADDRESS}, 40, 9, 10, {IN}, &a);", "lines of 10 bytes overlap"),
        (f"pi_cl_dma_cmd_2d({L2_ADDRESS}, {L1_ADDRESS}, 70000, 70000, 65536, {IN}, &a);", "lines of at most 65535"),
        ("pi_cl_ram_read(&ram, l3 + L3_BYTES - 1, l2, 2, &r);", "pi_cl_ram_read: out of range: addresses 0x"),
        ("pi_cl_ram_write(&ram, l3, l1, 8, &r);", "pi_cl_ram_write: address is not in L2"),
        ("for (int i = 0; i < 17; i++) TO(l1 + 8 * i, 8, &many[i]);", "more than 16 DMA commands in flight"),
        ("pi_ram_read(&ram, l3, l2, 8);", "pi_ram_read: only for the FC"),
    ],
)
def test_misuse_of_transfers_aborts(hal: Hal, work: str, message: str) -> None:
    globals_ = """static pi_cl_dma_cmd_t a, many[17]; static pi_cl_ram_req_t r;
        #define TO(near, size, cmd) pi_cl_dma_cmd((uintptr_t)l2, (uintptr_t)(near), size, PI_CL_DMA_DIR_EXT2LOC, cmd)
        #define DMA(size, cmd) TO(l1, size, cmd)
        extern void unused(void); void unused(void) { (void)a; (void)many; (void)r; }
        """
    done = hal.run(f"{ONLY_0} {{ {work} }}", globals_=globals_)
    assert done.status == 70
    assert message in done.err
    assert done.err.startswith("hal: worker 0: ")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("call", "before", "who"),
    [
        ("pi_cl_dma_cmd({l2}, {l1}, 8, {dir}, &a);", False, "worker 3: pi_cl_dma_cmd: only for worker 0"),
        ("pi_cl_dma_cmd({l2}, {l1}, 8, {dir}, &a);", True, "FC: pi_cl_dma_cmd: only for worker 0"),
        ("pi_cl_ram_read(&ram, l3, l2, 8, &r);", False, "worker 3: pi_cl_ram_read: only for worker 0"),
        ("net_trace_kernel_begin(0, NULL, NULL);", False, "worker 3: net_trace_kernel_begin: only for worker 0"),
    ],
)
def test_transfers_of_other_cores_abort(hal: Hal, call: str, before: bool, who: str) -> None:
    text = call.format(l2=L2_ADDRESS, l1=L1_ADDRESS, dir=IN)
    globals_ = """static pi_cl_dma_cmd_t a; static pi_cl_ram_req_t r;
        extern void unused(void); void unused(void) { (void)a; (void)r; }
        """
    done = hal.run("" if before else f"if (pi_core_id() == 3) {{ {text} }}", before=text if before else "", globals_=globals_)
    assert done.status == 70
    assert who in done.err
