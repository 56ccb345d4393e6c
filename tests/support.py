"""What several test modules need: tasks, plans and runs in one call."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from deeploy_ext.codegen.emit import emit
from deeploy_ext.codegen.program import EmittedProgram
from deeploy_ext.engines.base import EngineResult
from deeploy_ext.engines.host import HostEngine
from deeploy_ext.graph.load import LoadOptions, load
from deeploy_ext.graph.lower import lower
from deeploy_ext.graph.program import Program
from deeploy_ext.harness.compare import compare, identical
from deeploy_ext.harness.golden import run_golden
from deeploy_ext.planning.check import check_plan
from deeploy_ext.planning.code_size import code_bytes
from deeploy_ext.planning.options import PlanOptions
from deeploy_ext.planning.plan import Plan
from deeploy_ext.planning.planner import make_plan
from deeploy_ext.planning.schedule import scheduled
from deeploy_ext.planning.target import load_target
from deeploy_ext.training.autodiff import differentiate
from deeploy_ext.training.task import ForwardNetwork, TrainingSpec, TrainingTask, Trajectory

GAP9 = load_target("gap9")

FIXED_L1 = GAP9.reserved(GAP9.cores, 0)["L1"]
"""Bytes of L1 that no tensor can have: tests of little L1 give so many more."""


@functools.cache
def task_of(reference: str, **options: Any) -> TrainingTask:
    """A shipped network or a training directory, ready to train."""
    network = load(reference, LoadOptions(**options))
    return network if isinstance(network, TrainingTask) else differentiate(network)


@functools.cache
def golden_of(reference: str, **options: Any) -> Trajectory:
    return run_golden(task_of(reference, **options))


def task_from(model: onnx.ModelProto, spec: TrainingSpec, loss: str = "cross_entropy") -> TrainingTask:
    """A forward model with random data, all floating-point initializers but batch-norm statistics trained."""
    graph = ir.from_proto(model).graph
    states = {v.name for n in graph if n.op_type == "BatchNormalization" for v in n.inputs[3:5] if v is not None}
    trainable = tuple(n for n in graph.initializers if n not in states)
    random = np.random.RandomState(spec.seed)
    image, output = graph.inputs[0], graph.outputs[0]
    assert image.shape is not None and output.shape is not None
    shape, scores = image.shape.numpy(), output.shape.numpy()

    def target() -> tuple[str, np.ndarray]:
        if loss == "cross_entropy":
            return "labels", random.randint(0, scores[1], scores[0]).astype(np.int64)
        return "target", random.standard_normal(scores).astype(np.float32)

    batches = tuple(
        {str(image.name): random.standard_normal(shape).astype(np.float32), **dict([target()])}
        for _ in range(spec.mini_batches)
    )
    return differentiate(ForwardNetwork(str(model.graph.name), ir.from_proto(model), loss, trainable, batches, spec))


@dataclass(frozen=True)
class Made:
    """A planned program."""

    program: Program
    plan: Plan


def planned(task: TrainingTask, *, fuse: bool = False, l2_room: int | None = None, **options: Any) -> Made:
    """Lower, schedule, plan and check. ``l2_room``: bytes of L2 that tensors can have, for tests of little L2."""
    program = scheduled(lower(task, fuse=fuse))
    if l2_room is not None:
        options["l2"] = l2_room + code_bytes(program, GAP9, options.get("kernels", "fast"))
    plan = make_plan(program, GAP9, PlanOptions(**options))
    check_plan(program, plan)
    return Made(program, plan)


def emitted(task: TrainingTask, made: Made, folder: Path) -> EmittedProgram:
    return emit(task, made.program, made.plan, folder / "c")


def trained(task: TrainingTask, folder: Path, *, dma: str = "eager", sanitize: Any = None, **options: Any) -> EngineResult:
    """Plan, emit, build and run twice in one process; the rounds must be bit-identical."""
    engine = HostEngine()
    made = planned(task, **options)
    built = engine.build(emitted(task, made, folder), folder / "build", sanitize)
    result = engine.run(built, dma=dma, rounds=2)  # type: ignore[arg-type]
    assert identical(result.rounds[0], result.rounds[1]) is None
    return result


def assert_right(task: TrainingTask, golden: Trajectory, result: EngineResult, *, fused: bool = False) -> None:
    """Every loss, gradient, parameter and state agrees with the golden run."""
    verdict = compare(task, golden, result.rounds[0], fused=fused)
    assert verdict.passed, verdict
