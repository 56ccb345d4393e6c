"""``make bench-planner``: how planning time, memory and quality grow with the network, on synthetic ones of 50 to 2000 nodes.

The networks are stacks of residual blocks whose widths change from block to block, planned with ``--promote --db`` and half of
the L2 that all tensors would need, so that there is something to decide.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from deeploy_ext.graph.lower import lower
from deeploy_ext.graph.program import Program
from deeploy_ext.planning.check import check_plan
from deeploy_ext.planning.code_size import code_bytes
from deeploy_ext.planning.model import weighted_cycles
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.planner import make_plan
from deeploy_ext.planning.steps import Flow, single_steps
from deeploy_ext.planning.storage import lower_bound, storages_of
from deeploy_ext.planning.target import Target, load_target
from deeploy_ext.training.autodiff import differentiate
from deeploy_ext.training.network import NetworkBuilder
from deeploy_ext.training.task import ForwardNetwork, TrainingSpec

SIZES = (50, 100, 200, 500, 1000, 2000)
"""Nodes that the networks have, about."""

NODES_PER_BLOCK = 27
"""Nodes of a block, with its share of forward, backward, accumulation, update and inference."""

WIDTHS = (8, 12, 16, 24, 32)


def synthetic(blocks: int) -> Program:
    """A network of residual blocks on a 12x12 image, ready to plan."""
    net = NetworkBuilder(0)
    width = WIDTHS[0]
    x = net.conv("stem", net.input("image", [1, 3, 12, 12]), (3, width), 3, pad=1)
    for i in range(blocks):
        wider = WIDTHS[i % len(WIDTHS)]
        y = net.relu(f"relu{i}", net.batch_norm(f"bn{i}", net.conv(f"conv{i}", x, (width, wider), 3, pad=1), wider))
        x = net.add(f"add{i}", y, net.conv(f"shortcut{i}", x, (width, wider), 1))
        width = wider
    model = net.model("synthetic", net.dense("classifier", net.pool("pool", x), (width, 10)), [1, 10])
    loaded = ir.from_proto(model)
    states = {v.name for n in loaded.graph if n.op_type == "BatchNormalization" for v in n.inputs[3:5] if v is not None}
    trainable = tuple(name for name in loaded.graph.initializers if name not in states)
    batch = {"image": np.zeros((1, 3, 12, 12), np.float32), "labels": np.zeros(1, np.int64)}
    spec = TrainingSpec()
    return lower(
        differentiate(ForwardNetwork("synthetic", loaded, "cross_entropy", trainable, (batch,) * spec.mini_batches, spec))
    )


def half_of_l2(program: Program, target: Target) -> int:
    """Bytes of L2 that code and half of the tensors take."""
    _, storages = storages_of(Flow(program), single_steps(program))
    live = lower_bound({s.name: (target.levels["L2"].align(s.bytes), s.first, s.last) for s in storages})
    return target.reserved(target.cores, code_bytes(program, target, PlanOptions.kernels))["L2"] + live // 2


def row(nodes: int, target: Target) -> str:
    """Plans a network of about so many nodes by both planners; a row of the table."""
    program = synthetic(max(1, round((nodes - 16) / NODES_PER_BLOCK)))
    options = PlanOptions(promote=True, double_buffer=True, l2=half_of_l2(program, target))
    seconds: list[float] = []
    costs: list[int] = []
    for planner in ("greedy", "joint"):
        start = time.process_time()
        plan = make_plan(program, target, replace(options, planner=planner))
        seconds.append(time.process_time() - start)
        check_plan(program, plan)
        costs.append(weighted_cycles(plan))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    greedy, joint = costs
    gap = 100 * (greedy - joint) / joint
    return (
        f"{len(program.calls):>6} {seconds[0]:>9.1f} {seconds[1]:>9.1f} {peak:>8.0f} {greedy:>14,} {joint:>14,} {gap:>7.1f} %"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table, row by row."""
    top = argparse.ArgumentParser(prog="bench-planner", description="planning time, memory and quality against nodes")
    top.add_argument("sizes", nargs="*", type=int, default=SIZES, metavar="NODES", help="about how many (default: 50 to 2000)")
    sizes = top.parse_args(arguments).sizes
    target = load_target("gap9")
    print(f"{'':>6} {'CPU seconds':>19} {'peak':>8} {f'weighted cycles (predicted, {target.model})':>29}")
    print(f"{'nodes':>6} {'greedy':>9} {'joint':>9} {'MB':>8} {'greedy':>14} {'joint':>14} {'greedy +':>9}")
    for nodes in sizes:
        print(row(nodes, target), flush=True)


if __name__ == "__main__":
    main()
