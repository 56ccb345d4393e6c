"""Sizes that both the emitted C and the planner must know agree: the runtime's header, its emitter and ``target.toml``."""

from __future__ import annotations

import re

from deeploy_ext.codegen.tables import MAX_LOOPS, MAX_OPERANDS, MAX_PHASES
from deeploy_ext.operators.nests import MAX_RANK
from support import GAP9


def test_the_runtime_header_agrees_with_planner_and_emitter() -> None:
    header = (GAP9.folder / "runtime" / "net_runtime.h").read_text(encoding="utf-8")
    found = {name: int(value) for name, value in re.findall(r"^#define NET_(\w+) (\d+)", header, re.MULTILINE)}
    wanted = {
        "RUNTIME_BYTES": GAP9.runtime_bytes,
        "MAX_LOOPS": MAX_LOOPS,
        "MAX_RANK": MAX_RANK,
        "MAX_OPERANDS": MAX_OPERANDS,
        "MAX_PHASES": MAX_PHASES,
    }
    assert {name: found[name] for name in wanted} == wanted
