"""The forward graph of a task in torch, float64, differentiated by torch's autograd."""

from __future__ import annotations

from typing import Any

import numpy as np

from deeploy_ext.graph.invocation import invocation_of
from deeploy_ext.training.task import TrainingTask


def gradients(torch: Any, task: TrainingTask) -> dict[str, np.ndarray]:
    """Gradients of the first mini-batch by weight name."""
    assert task.forward is not None
    values: dict[str, Any] = {
        name: torch.tensor(np.asarray(value.const_value)) for name, value in task.forward.graph.initializers.items()
    }
    values |= {name: torch.tensor(array) for name, array in task.batch(0).items()}
    values = {name: value.double() if value.dtype == torch.float32 else value for name, value in values.items()}
    for parameter in task.parameters:
        values[parameter.weight].requires_grad_(True)
    for node in task.forward.graph:
        operands = [values[value.name or ""] if value else None for value in node.inputs]
        values[node.outputs[0].name or ""] = _apply(torch, node.op_type, operands, dict(invocation_of(node).attributes))
    values[task.loss].backward()
    return {parameter.weight: values[parameter.weight].grad.numpy() for parameter in task.parameters}


def _apply(torch: Any, op_type: str, x: list[Any], a: dict[str, Any]) -> Any:
    functional = torch.nn.functional
    if op_type == "Conv":
        top, left, bottom, right = a["pads"]
        padded = functional.pad(x[0], (left, right, top, bottom))
        return functional.conv2d(padded, x[1], None, a["strides"], 0, a["dilations"], a["group"])
    if op_type == "BatchNormalization":
        return functional.batch_norm(x[0], None, None, x[1], x[2], True, 0.1, a["epsilon"])
    if op_type == "Gemm":
        left, right = (m.T if t else m for m, t in ((x[0], a["transA"]), (x[1], a["transB"])))
        return a["alpha"] * (left @ right) + (a["beta"] * x[2] if len(x) > 2 else 0)
    return {
        "Relu": lambda: functional.relu(x[0]),
        "Add": lambda: x[0] + x[1],
        "GlobalAveragePool": lambda: x[0].mean((2, 3), keepdim=True),
        "Flatten": lambda: x[0].flatten(a.get("axis", 1)),
        "SoftmaxCrossEntropyLoss": lambda: functional.cross_entropy(x[0], x[1], reduction=a["reduction"]),
        "MSELoss": lambda: functional.mse_loss(x[0], x[1]),
    }[op_type]()
