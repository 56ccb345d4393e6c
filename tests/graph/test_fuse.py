"""The fused update: what moves into the step, and where that is not possible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from deeploy_ext.graph.fuse import fuse_updates
from deeploy_ext.graph.lower import lower
from deeploy_ext.graph.program import Program, root
from deeploy_ext.planning.schedule import scheduled
from deeploy_ext.training.task import TrainingSpec, TrainingTask
from support import task_from, task_of


def shared_weight() -> TrainingTask:
    """One matrix in two layers: its gradient is a sum of two, and two nodes of the backward pass read it."""
    random = np.random.RandomState(3)
    w = numpy_helper.from_array(random.standard_normal((6, 6)).astype(np.float32) / 2, "w")
    nodes = [
        helper.make_node("Gemm", ["image", "w"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Gemm", ["b", "w"], ["c"], name="second"),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 6]) for n in ("image", "c")]
    graph = helper.make_graph(nodes, "shared", values[:1], values[1:], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return task_from(model, TrainingSpec(steps=2, accumulation=1, learning_rate=0.1))


def single(net: str) -> TrainingTask:
    return task_of(net, accumulation=1)


def weights_overwritten_too_early(task: TrainingTask, program: Program) -> list[str]:
    """Nodes of the step that read a weight behind its update."""
    updated: set[str] = set()
    found: list[str] = []
    for call in program.calls:
        if call.entry == "step":
            found += [call.name for value in call.reads if value in updated]
            updated |= {root(v, program.same) for v in call.writes} & {p.weight for p in task.parameters}
    assert updated == {p.weight for p in task.parameters}
    return found


@pytest.mark.parametrize("net", ["SimpleMLP", "TinyAutoencoder", "TinyCNN", "TinySeparable", "ResNet8", "shared"])
def test_updates_stand_in_the_step_behind_all_readers_of_the_weight(net: str) -> None:
    task = shared_weight() if net == "shared" else single(net)
    apart, fused = lower(task), lower(task, fuse=True)
    assert fused.fused and not apart.fused
    assert fused.entries == tuple(entry for entry in apart.entries if entry != "update")
    assert not weights_overwritten_too_early(task, scheduled(fused))
    gone = {task.reset, *(p.buffer for p in task.parameters), *(p.buffer_out for p in task.parameters)}
    assert gone & apart.values.keys() and not gone & fused.values.keys()
    assert not gone & {*fused.persistent, *fused.arguments}
    assert len(apart.calls) - len(fused.calls) == len(task.parameters)
    names = [(call.entry, call.name) for call in fused.calls]
    assert len(set(names)) == len(names)


def test_no_gradient_outlives_the_step() -> None:
    task = single("ResNet8")
    kept = [sum(program.values[v].bytes for v in program.persistent) for program in (lower(task), lower(task, fuse=True))]
    assert kept[0] - kept[1] == sum(task.initial[p.weight].nbytes for p in task.parameters)


def test_several_mini_batches_per_step_stay_apart() -> None:
    assert not lower(task_of("TinyCNN"), fuse=True).fused


def test_a_node_that_looks_at_several_gradients_keeps_them_apart() -> None:
    """As clipping by norm does."""
    task = single("SimpleMLP")
    program = lower(task)
    updates = [call for call in program.calls if call.entry == "update"]
    same = dict(program.same)
    nosy = replace(updates[0], operands={**updates[0].operands, "learning_rate": updates[1].operands["gradient"]})
    calls = [nosy if call is updates[0] else call for call in program.calls]
    assert fuse_updates(task, calls, same) is None
    later = replace(updates[1], operands={**updates[1].operands, "learning_rate": updates[0].operands["updated"]})
    assert fuse_updates(task, [later if call is updates[1] else call for call in program.calls], same) is None
    assert same == program.same
    assert fuse_updates(task, program.calls, same) is not None


def test_a_buffer_that_another_node_reads_keeps_them_apart() -> None:
    task = single("SimpleMLP")
    program = lower(task)
    step = [call for call in program.calls if call.entry == "step"]
    nosy = replace(step[0], operands={**step[0].operands, step[0].invocation.operator.inputs[0]: task.parameters[0].buffer})
    assert fuse_updates(task, [nosy, *program.calls], dict(program.same)) is None


def test_a_node_of_the_update_gets_another_name_where_the_step_has_that_one() -> None:
    task = single("SimpleMLP")
    program = lower(task)
    update = next(call for call in program.calls if call.entry == "update")
    first = program.calls[0]
    renamed = replace(first, invocation=replace(first.invocation, name=update.name))
    fused = fuse_updates(task, [renamed, *program.calls[1:]], dict(program.same))
    assert fused is not None
    names = [call.name for call in fused if call.entry == "step"]
    assert update.name in names and f"{update.name}_2" in names and len(set(names)) == len(names)
