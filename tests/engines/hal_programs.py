"""Small C programs on the host HAL: compiled in a temporary folder and run, HAL objects shared by the session."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from deeploy_ext.engines.compiler import find_compiler
from deeploy_ext.resources import resource

PRELUDE = """
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hal_host.h"
#include "net_trace.h"
#include "pmsis.h"

static struct pi_device cluster, ram;
static uint8_t *l1, *l2;
static uint32_t l3;
static int cores = 8;

#define L1_BYTES 4096
#define L2_BYTES 200000
#define L3_BYTES 300000
"""

EPILOGUE = """
static void controller(void *arg) { pi_cl_team_fork(cores, work, arg); }

int main(int count, char *arguments[])
{
    hal_host_config_t config = {.barrier_seconds = 1};
    if (count > 1)
        config.dma = (hal_dma_mode_t)atoi(arguments[1]);
    if (count > 2)
        config.seed = (uint64_t)atoi(arguments[2]);
    if (count > 3)
        cores = atoi(arguments[3]);
    hal_host_configure(&config);
    struct pi_cluster_conf cluster_conf;
    struct pi_default_ram_conf ram_conf;
    struct pi_cluster_task task;
    pi_cluster_conf_init(&cluster_conf);
    pi_open_from_conf(&cluster, &cluster_conf);
    pi_default_ram_conf_init(&ram_conf);
    pi_open_from_conf(&ram, &ram_conf);
    if (pi_cluster_open(&cluster) || pi_ram_open(&ram) || pi_ram_alloc(&ram, &l3, L3_BYTES))
        return 1;
    l1 = pi_cl_l1_malloc(&cluster, L1_BYTES);
    l2 = pi_l2_malloc(L2_BYTES);
    before();
    if (pi_cluster_send_task_to_cl(&cluster, pi_cluster_task(&task, controller, NULL)))
        return 2;
    after();
    pi_l2_free(l2, L2_BYTES);
    pi_cl_l1_free(&cluster, l1, L1_BYTES);
    pi_ram_free(&ram, l3, L3_BYTES);
    pi_ram_close(&ram);
    pi_cluster_close(&cluster);
    hal_host_print_counters();
    return 0;
}
"""


@dataclass(frozen=True)
class Outcome:
    """How a program ended and what it said."""

    status: int
    out: str
    err: str

    def counter(self, name: str) -> int:
        """A ``key value`` line of its output."""
        match = re.search(rf"^{name} (\d+)$", self.out, re.MULTILINE)
        assert match, f"no {name} in {self.out!r}"
        return int(match[1])


class Hal:
    """Builds programs on the host HAL."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._compiler = find_compiler()
        self._objects: dict[str | None, list[Path]] = {}
        self._works: dict[str, bool] = {}
        self._programs: dict[tuple[str, str | None], Path] = {}

    def run(
        self, work: str, *, before: str = "", after: str = "", globals_: str = "", sanitize: str | None = None, args: str = "0"
    ) -> Outcome:
        """Runs ``work`` (statements) on all workers between ``before`` and ``after`` on the FC.

        ``args``: DMA mode (0 eager, 1 lazy, 2 random), seed, number of workers.
        """
        source = self.source(work, before=before, after=after, globals_=globals_)
        return self.run_source(source, sanitize=sanitize, args=args)

    def source(self, work: str, *, before: str = "", after: str = "", globals_: str = "") -> str:
        """The C file that :meth:`run` builds."""
        body = "".join(
            f"static void {name}({parameter}) {{ {first} {text} }}\n"
            for name, parameter, first, text in (
                ("before", "void", "", before),
                ("after", "void", "", after),
                ("work", "void *arg", "(void)arg;", work),
            )
        )
        return PRELUDE + globals_ + body + EPILOGUE

    def run_source(self, source: str, *, sanitize: str | None = None, args: str = "") -> Outcome:
        """Builds and runs a whole C file."""
        return self.execute(self.build(source, sanitize), args)

    def build(self, source: str, sanitize: str | None = None) -> Path:
        """The executable of a C file; the same file is built once."""
        if program := self._programs.get((source, sanitize)):
            return program
        self._count += 1
        file = self._folder / f"program{self._count}.c"
        file.write_text(source, encoding="utf-8")
        program = file.with_suffix("")
        self._call([*self._command(sanitize), str(file), *map(str, self._hal(sanitize)), "-lm", "-o", str(program)])
        self._programs[source, sanitize] = program
        return program

    def execute(self, program: Path, args: str = "") -> Outcome:
        """Runs an executable that :meth:`build` made."""
        env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "halt_on_error=1"}
        done = subprocess.run([program, *args.split()], capture_output=True, text=True, timeout=60, env=env, check=False)
        return Outcome(done.returncode, done.stdout, done.stderr)

    def need(self, sanitizer: str) -> None:
        """Skips the test where the sanitizer's runtime is absent."""
        if sanitizer not in self._works:
            file = self._folder / f"{sanitizer}.c"
            file.write_text("int main(void) { return 0; }\n", encoding="utf-8")
            program = self._folder / f"{sanitizer}_works"
            command = [self._compiler, f"-fsanitize={sanitizer}", str(file), "-o", str(program)]
            works = subprocess.run(command, capture_output=True, check=False).returncode == 0
            self._works[sanitizer] = works and subprocess.run([program], capture_output=True, check=False).returncode == 0
        if not self._works[sanitizer]:
            pytest.skip(f"no runtime of the {sanitizer} sanitizer on this machine")

    def _hal(self, sanitize: str | None) -> list[Path]:
        if sanitize not in self._objects:
            folder = self._folder / (sanitize or "plain")
            folder.mkdir()
            objects: list[Path] = []
            for source in sorted(resource("targets", "gap9", "hal", "host").glob("*.c")):
                objects.append(folder / f"{source.stem}.o")
                self._call([*self._command(sanitize), "-c", str(source), "-o", str(objects[-1])])
            self._objects[sanitize] = objects
        return self._objects[sanitize]

    def _command(self, sanitize: str | None) -> list[str]:
        hal = resource("targets", "gap9", "hal")
        flags = [
            "-std=c11",
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-misleading-indentation",
            "-DNET_TRACE=1",
            "-pthread",
        ]
        if sanitize:
            flags += [f"-fsanitize={sanitize}", "-fno-sanitize-recover=all"]
        return [self._compiler, *flags, f"-I{hal}", f"-I{hal / 'host'}", f"-I{hal.parent / 'runtime'}"]

    def _call(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
